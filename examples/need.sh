# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that build: need PACKAGE... installs those Debian packages that are missing.

need() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        cat >&2 <<'TEXT'
Not a Debian system. Install a C11 compiler, CMake 3.25, Ninja, pkgconf, OpenBLAS and jansson (the tests: cmocka too), then
    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release
    cmake --build build
    ctest --test-dir build --output-on-failure
TEXT
        exit 1
    fi
    missing=
    for package; do
        dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null; then
        as_root=sudo
    else
        echo "Please install, as root: apt-get install$missing" >&2
        exit 1
    fi
    echo "Installing:$missing"
    $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
        { echo "apt-get could not install:$missing" >&2; exit 1; }
}
