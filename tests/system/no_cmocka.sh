#!/usr/bin/env bash
# no_cmocka.sh SOURCE CC — cmake succeeds without cmocka, says that the tests are left out and how to
# get them; with cmocka installed later, the next run of cmake has the tests.
set -euo pipefail
source=$(realpath "$1") cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
real=$(command -v pkg-config)
printf '#!/bin/sh\ncase " $* " in *" cmocka "*) [ -e "%s/installed" ] || exit 1 ;; esac\nexec %s "$@"\n' \
  "$work" "$real" >"$work/pkg-config"
chmod +x "$work/pkg-config"

configure() {
  cmake -S "$source" -B build -DCMAKE_C_COMPILER="$cc" -DTUTTI_CUDA=OFF \
    -DPKG_CONFIG_EXECUTABLE="$work/pkg-config" 2>&1 | tr '\n' ' ' | tr -s ' '
}
without=$(configure)
case $without in *"tests are left out"*libcmocka-dev*) ;; *) echo "$without"; exit 1 ;; esac
ctest --test-dir build -N >tests
grep -q 'Total Tests: 0' tests

touch "$work/installed"
with=$(configure)
case $with in *"left out"*) echo "$with"; exit 1 ;; esac
ctest --test-dir build -N >tests
grep -q 'unit.stats' tests
