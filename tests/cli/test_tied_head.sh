#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The example of a tied, fused head learns: its loss ends far below where it began.
set -eu
"$TPP_BUILD_DIR/bin/tied_head" >"$TPP_BUILD_DIR/tied_head.txt"
cat "$TPP_BUILD_DIR/tied_head.txt"
awk '/^step +1: loss [0-9.]+$/ { first = $4 } /^step 150: loss [0-9.]+$/ { last = $4 }
     END { exit !(first > 2 && last > 0 && last < 0.5) }' "$TPP_BUILD_DIR/tied_head.txt"
