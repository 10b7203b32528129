#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# Runs test_gemm_cblas on each flavour of OpenBLAS that is installed (Debian's three places).
set -eu

failed=0
found=0
flavour=0
for name in serial pthread openmp; do
    for dir in /usr/lib/*/openblas-$name; do
        if [ -e "$dir/libopenblas.so.0" ]; then
            echo "== $dir"
            found=$((found + 1))
            LD_LIBRARY_PATH=$dir TPP_TEST_FLAVOUR=$flavour "$TPP_BUILD_DIR/bin/test_gemm_cblas" ||
                failed=$((failed + 1))
        fi
    done
    flavour=$((flavour + 1))
done

echo "$found flavours, $failed failed"
[ "$found" -gt 0 ] && [ "$failed" -eq 0 ]
