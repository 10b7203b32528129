#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The example of sequence parallelism finds the same bits on one rank and on two.
set -eu
"$TPP_BUILD_DIR/bin/tp_sequence" >"$TPP_BUILD_DIR/tp_sequence.txt"
cat "$TPP_BUILD_DIR/tp_sequence.txt"
grep -q '^rank 1 of 2: tokens 3 .. 4, ' "$TPP_BUILD_DIR/tp_sequence.txt"
grep -q 'the same bits on one rank and on two$' "$TPP_BUILD_DIR/tp_sequence.txt"
