#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# README's C program is cut out, built against the installed library as README says, and run.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

sed -n '/^```c$/,/^```$/p' "$TPP_SOURCE_DIR/README.md" | sed '/^```/d' >"$dir/tp_mlp.c"
cmake --install "$TPP_BUILD_DIR" --prefix "$dir/usr" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$dir/usr" -name tpp.pc)")
export PKG_CONFIG_PATH
# The line that README shows.
grep -qF 'cc tp_mlp.c $(pkg-config --cflags --libs tpp) -o tp_mlp' "$TPP_SOURCE_DIR/README.md"
cd "$dir"
cc tp_mlp.c $(pkg-config --cflags --libs tpp) -o tp_mlp
LD_LIBRARY_PATH=$(dirname "$(find "$dir/usr" -name libtpp.so)") ./tp_mlp | sort >out
cat out

# Both ranks end with the same numbers, and README prints them.
[ "$(sed 's/^rank [01]//' out | uniq | wc -l)" -eq 1 ] || { echo "the ranks differ"; exit 1; }
while read -r line; do
    grep -qF "$line" "$TPP_SOURCE_DIR/README.md" || { echo "README does not show: $line"; exit 1; }
done <out
[ "$(wc -l <out)" -eq 2 ]
