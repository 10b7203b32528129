#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The example of a K/V cache gives the logits of a pass over the whole text.
set -eu
"$TPP_BUILD_DIR/bin/kv_cache" >"$TPP_BUILD_DIR/kv_cache.txt"
cat "$TPP_BUILD_DIR/kv_cache.txt"
grep -qx 'with and without a cache: the same' "$TPP_BUILD_DIR/kv_cache.txt"
