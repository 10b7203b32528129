#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The shared library exports what symbols.txt lists ("name version" per line), and nothing else.
set -eu
export LC_ALL=C
source=${TPP_SOURCE_DIR:-$(dirname "$0")/../..}
build=${TPP_BUILD_DIR:-$source/build}
listed=$source/tests/abi/symbols.txt
found=$build/symbols.txt

# "00000000000012a0 T tpp_version@@TPP_0.1" -> "tpp_version TPP_0.1"; the version node itself is type A.
nm -D --defined-only "$build/lib/libtpp.so" | awk '$2 != "A" { sub("@+", " ", $3); print $3 }' | sort >"$found"

if grep -v '^tpp_[^_]' "$found"; then
    echo "FAILED: these must not be exported"
    exit 1
fi
if ! diff -u "$listed" "$found"; then
    echo "FAILED: exported symbols changed. Added ones are fine, removed ones break programs."
    echo "To accept: cp $found $listed"
    exit 1
fi
