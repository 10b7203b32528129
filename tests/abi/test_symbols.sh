#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# Each shared library exports what its list holds ("name version" per line), and nothing else.
set -eu
export LC_ALL=C
source=${TPP_SOURCE_DIR:-$(dirname "$0")/../..}
build=${TPP_BUILD_DIR:-$source/build}

# exports LIBRARY LIST
exports() {
    listed=$source/tests/abi/$2
    found=$build/$2
    # "00000000000012a0 T tpp_version@@TPP_0.1" -> "tpp_version TPP_0.1"; the version node itself is type A.
    nm -D --defined-only "$build/lib/$1" | awk '$2 != "A" { sub("@+", " ", $3); print $3 }' | sort >"$found"
    if grep -v '^tpp_[^_]' "$found"; then
        echo "FAILED: $1 must not export these"
        exit 1
    fi
    if ! diff -u "$listed" "$found"; then
        echo "FAILED: exported symbols of $1 changed. Added ones are fine, removed ones break programs."
        echo "To accept: cp $found $listed"
        exit 1
    fi
}

exports libtpp.so symbols.txt
[ "${TPP_WITH_IO-1}" = 0 ] || exports libtpp_io.so symbols_io.txt
# The core takes nothing from jansson.
if nm -D --undefined-only "$build/lib/libtpp.so" | grep -w 'json_[a-z]*'; then
    echo "FAILED: libtpp.so needs jansson"
    exit 1
fi
