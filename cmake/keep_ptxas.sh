#!/usr/bin/env bash
# keep_ptxas.sh NVCC ARGUMENTS... — runs the compiler. The report of ptxas on registers, spills and
# shared memory goes to OBJECT.ptxas, for tests/cuda/check_resources.py; all other output to stderr.
# ccache, if installed, keeps the report together with the object.
object=/dev/null
for word in "$@"; do
  [ "${previous:-}" = -o ] && object=$word
  previous=$word
done
case $object in *.o) ;; *) exec "$@" ;; esac

command -v ccache >/dev/null && set -- ccache "$@"
output=$("$@" 2>&1)
status=$?
ptxas='^ptxas info|^    [0-9]+ bytes stack frame'
printf '%s\n' "$output" | grep -E "$ptxas" >"$object.ptxas"
[ -z "$output" ] || printf '%s\n' "$output" | grep -Ev "$ptxas" >&2
exit $status
