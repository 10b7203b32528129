#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The example of a Llama block: half of the parameters on each of two ranks, the bits of one rank.
set -eu
"$TPP_BUILD_DIR/bin/llama_block" >"$TPP_BUILD_DIR/llama_block.txt"
cat "$TPP_BUILD_DIR/llama_block.txt"
awk '/^rank 0: / && !whole { whole = $3; next } /^rank [01]: / { half += $3; ranks++ }
     /^one rank and two: the same bits$/ { same = 1 }
     END { exit !(same && ranks == 2 && half > whole && half < 1.02 * whole) }' \
  "$TPP_BUILD_DIR/llama_block.txt"
