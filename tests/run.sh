#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# Builds and runs the tests: release in build/, then (unless --quick) under AddressSanitizer with
# UndefinedBehaviorSanitizer, and those of comm and exec under ThreadSanitizer.
# TPP_CMAKE_ARGS: further arguments of every cmake configuration, such as -DTPP_WERROR=ON.
set -eu
cd "$(dirname "$0")/.."

case "${1-}" in
'') presets='release asan tsan' ;;
--quick) presets='release' ;;
*) echo "usage: sh tests/run.sh [--quick]" >&2; exit 2 ;;
esac

. examples/need.sh
need gcc g++ clang libc6-dev cmake ninja-build pkgconf python3 libopenblas-dev libopenblas0-serial libopenblas0-openmp \
    libjansson-dev libcmocka-dev bible-kjv bible-kjv-text librsvg2-bin libxml2-utils
export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"

passed=0
failed=0
for preset in $presets; do
    echo "== $preset"
    log=build/ctest-$preset.log
    if ! cmake --preset "$preset" ${TPP_CMAKE_ARGS-} || ! cmake --build --preset "$preset"; then
        echo "$preset does not build"
        failed=$((failed + 1))
        continue
    fi
    ctest --preset "$preset" 2>&1 | tee "$log"
    # "98% tests passed, 1 tests failed out of 50"
    counts=$(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log")
    if [ -z "$counts" ]; then
        echo "$preset ran no test"
        failed=$((failed + 1))
        continue
    fi
    failed=$((failed + ${counts% *}))
    passed=$((passed + ${counts#* } - ${counts% *}))
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
