#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The example says what is known of Llama 2 70B, and refuses a model that it cannot split in a sentence.
set -eu
out=$TPP_BUILD_DIR/model_cost.txt
"$TPP_BUILD_DIR/bin/model_cost" >"$out"
cat "$out"
grep -q '^68976648192 parameters' "$out"
# 4.25 GB of weights a rank: 20 of 80 layers and the embedding, on 8 ranks; ZeRO 1 halves 12 bytes of each.
grep -Eq '^ +0 +none +4.3 +4.3 +26.1 ' "$out"
grep -Eq '^ +1 +full +4.3 +4.3 +13.0 ' "$out"
grep -Eq '^tensor parallel, forward +0\.567 +5\.102$' "$out" # less than 0.63: wider MLP, scores
! "$TPP_BUILD_DIR/bin/model_cost" gpt2 >"$out"
grep -q 'part.tp = 8 does not divide model.heads = 12' "$out"
! "$TPP_BUILD_DIR/bin/model_cost" gpt5 >"$out"
grep -q '"gpt5" is no model that is known; accepted: gpt2' "$out"
