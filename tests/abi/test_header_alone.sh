#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone, in C and in C++, with every warning an error.
set -eu
cd "${TPP_SOURCE_DIR:-$(dirname "$0")/../..}"
failed=0

# alone COMPILER LANGUAGE STANDARD
alone() {
    for header in include/tpp/*.h; do
        printf '#include <tpp/%s>\n' "$(basename "$header")" |
            "$1" -x "$2" "-std=$3" -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror \
                -fsyntax-only -Iinclude - || { echo "FAILED: $header with $1 -std=$3"; failed=1; }
    done
}

alone gcc c c11
alone gcc c c17
alone clang c c11
alone clang c c17
alone g++ c++ c++17
alone clang++ c++ c++17
exit "$failed"
