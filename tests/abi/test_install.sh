#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The four ways to use libtpp: pkg-config, pkg-config --static, find_package and add_subdirectory; and libtpp_io
# likewise.
set -eu
source=$(cd "${TPP_SOURCE_DIR:-$(dirname "$0")/../..}" && pwd)
build=${TPP_BUILD_DIR:-$source/build}
io=${TPP_WITH_IO:-1}
! command -v ninja >/dev/null || export CMAKE_GENERATOR=Ninja
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/moved

# Installed here, used there: the package must not remember its prefix.
cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$prefix"
libdir=$(dirname "$(find "$prefix" -name libtpp.a)")

mkdir "$work/app"
cd "$work/app"
cat >app.c <<'TEXT'
#include <stdio.h>
#include <tpp/version.h>
int main(void) {
    printf("%s\n", tpp_version_string());
    return tpp_version() != TPP_VERSION;
}
TEXT
cat >files.c <<'TEXT'
#include <stdio.h>
#include <tpp/io.h>
#include <tpp/version.h>
int main(void) {
    tpp_safetensors *file;
    printf("%s\n", tpp_version_string());
    return tpp_safetensors_create(&file, "/does/not/exist") != TPP_ERR_IO || !tpp_message()[0];
}
TEXT
cat >CMakeLists.txt <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(app C)
if(SOURCE)
  add_subdirectory(${SOURCE} tpp)
else()
  find_package(tpp 0.1 REQUIRED)
endif()
add_executable(shared app.c)
target_link_libraries(shared PRIVATE tpp::tpp)
add_executable(static app.c)
target_link_libraries(static PRIVATE tpp::tpp_static)
if(IO)
  add_executable(files_shared files.c)
  target_link_libraries(files_shared PRIVATE tpp::tpp_io)
  add_executable(files_static files.c)
  target_link_libraries(files_static PRIVATE tpp::tpp_io_static)
endif()
TEXT

export PKG_CONFIG_PATH="$libdir/pkgconfig"
version=$(pkg-config --modversion tpp)

# runs WHAT PROGRAM KIND: prints the version, and needs libtpp.so only if KIND is shared
runs() {
    [ "$("$2")" = "$version" ] || { echo "FAILED: $1 does not run"; exit 1; }
    if ldd "$2" | grep -q 'libtpp.*\.so'; then kind=shared; else kind=static; fi
    [ "$kind" = "$3" ] || { echo "FAILED: $1 links the $kind library"; exit 1; }
    echo "ok: $1, $3"
}

cc app.c -o by_pc $(pkg-config --cflags --libs tpp) -Wl,-rpath,"$libdir"
runs pkg-config ./by_pc shared
if [ "$io" = 1 ]; then
    cc files.c -o files_by_pc $(pkg-config --cflags --libs tpp_io) -Wl,-rpath,"$libdir"
    runs 'pkg-config tpp_io' ./files_by_pc shared
    ldd ./files_by_pc | grep -q 'libtpp_io\.so' || { echo "FAILED: no libtpp_io"; exit 1; }
fi
! ldd ./by_pc | grep -q 'libtpp_io\.so\|libjansson' || { echo "FAILED: the core needs libtpp_io"; exit 1; }

# OpenBLAS itself stays shared, so what it was linked with (gfortran) is not needed, nor always installed.
cc app.c -o by_pc_static $(pkg-config --cflags tpp) "$libdir/libtpp.a" \
    $(pkg-config --static --libs tpp | sed 's/-ltpp//; s/-lgfortran//g')
runs pkg-config ./by_pc_static static
if [ "$io" = 1 ]; then
    cc files.c -o files_by_pc_static $(pkg-config --cflags tpp_io) "$libdir/libtpp_io.a" "$libdir/libtpp.a" \
        $(pkg-config --static --libs tpp_io | sed 's/-ltpp_io//; s/-ltpp//; s/-lgfortran//g')
    runs 'pkg-config tpp_io' ./files_by_pc_static static
fi

cmake -S . -B found -DIO="$io" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build found >/dev/null
runs find_package found/shared shared
runs find_package found/static static
[ "$io" = 0 ] || runs 'find_package, tpp_io' found/files_shared shared
[ "$io" = 0 ] || runs 'find_package, tpp_io' found/files_static static

cmake -S . -B inside -DIO="$io" -DSOURCE="$source" -DCMAKE_BUILD_TYPE=Debug >/dev/null
cmake --build inside -j 2 >/dev/null
runs add_subdirectory inside/shared shared
runs add_subdirectory inside/static static
[ "$io" = 0 ] || runs 'add_subdirectory, tpp_io' inside/files_shared shared
[ "$io" = 0 ] || runs 'add_subdirectory, tpp_io' inside/files_static static

# The component Runtime is what a program needs to run, and nothing to build with.
cmake --install "$build" --prefix "$work/runtime" --component Runtime >/dev/null
extra=$(find "$work/runtime" ! -type d ! -name 'libtpp.so.*' ! -name 'libtpp_io.so.*' ! -path '*/bin/tpp')
[ -z "$extra" ] || { echo "FAILED: Runtime installs $extra"; exit 1; }
if [ -x "$prefix/bin/tpp" ]; then
    ldd "$prefix/bin/tpp" | grep -q "libtpp.*$prefix" || { echo "FAILED: bin/tpp misses libtpp"; exit 1; }
fi
