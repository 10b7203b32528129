#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# Builds libtpp into build/, then trains a small transformer on the King James Bible, split over 2 x 2
# ranks, and compares it with the same training on one rank. About a minute.
set -eu
cd "$(dirname "$0")/.."

. examples/need.sh
need gcc libc6-dev cmake ninja-build pkgconf libopenblas-dev libjansson-dev bible-kjv bible-kjv-text

if [ ! -f build/CMakeCache.txt ]; then
    CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja} cmake --preset release -DTPP_BUILD_TESTS=OFF
fi
cmake --build build

# One verse a line, without its reference ("Ge1:1 ") and without the last line's end.
mkdir -p build/text
verses=$(bible -f 'Gen1:1-Rev22:21' | sed 's/^[^ ]* //')
printf '%s' "$verses" >build/text/kjv.txt

bytes=$(wc -c <build/text/kjv.txt)
symbols=$(od -An -v -tu1 -w1 build/text/kjv.txt | sort -u | wc -l)
if [ "$bytes" -ne 4137849 ] || [ "$symbols" -ne 63 ]; then
    echo "build/text/kjv.txt has $bytes bytes, $symbols distinct; expected 4137849 and 63" >&2
fi

set -x
build/bin/tpp train --data build/text/kjv.txt --tp 2 --pp 2 --blocks 4 --compare --report \
    --gantt build/gantt.svg --trace build/trace.json
