#!/usr/bin/env bash
# no_argp.sh SOURCE CC — with a C library that has no argp (musl, macOS), cmake asks for argp-standalone,
# and links the program with it.
set -euo pipefail
source=$(realpath "$1") cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

configure() {
  cmake -G "Unix Makefiles" -S "$source" -B build -DCMAKE_C_COMPILER="$cc" -DTUTTI_CUDA=OFF \
    -DBUILD_TESTING=OFF -DTUTTI_ARGP_IN_LIBC=OFF "$@" 2>&1 | tr '\n' ' ' | tr -s ' '
}
if without=$(configure -DARGP_LIBRARY=ARGP_LIBRARY-NOTFOUND); then
  echo "cmake succeeds without argp: $without"
  exit 1
fi
case $without in *"argp was not found"*argp-standalone*) ;; *) echo "$without"; exit 1 ;; esac

mkdir standalone
touch standalone/argp.h standalone/libargp.a
configure -DARGP_DIR="$work/standalone" -DARGP_LIBRARY="$work/standalone/libargp.a" >/dev/null
grep -q standalone/libargp.a build/CMakeFiles/tutti.dir/link.txt
grep -q "isystem $work/standalone" build/CMakeFiles/tutti.dir/flags.make
