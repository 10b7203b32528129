#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The example ends well and its two runs agree.
set -eu
"$TPP_BUILD_DIR/bin/long_context" >"$TPP_BUILD_DIR/long_context.txt"
cat "$TPP_BUILD_DIR/long_context.txt"
grep -q '^against one rank: y off by [0-9.]*e-\(0[789]\|1[0-9]\)' "$TPP_BUILD_DIR/long_context.txt"
