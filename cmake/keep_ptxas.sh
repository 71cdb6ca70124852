#!/usr/bin/env bash
# keep_ptxas.sh NVCC ARGUMENTS... — runs the compiler. What ptxas says of registers, spills and shared
# memory goes to OBJECT.ptxas, for tests/cuda/check_resources.py; everything else to the screen.
object=/dev/null
for word in "$@"; do
  [ "${previous:-}" = -o ] && object=$word
  previous=$word
done
case $object in *.o) ;; *) exec "$@" ;; esac

said=$("$@" 2>&1)
status=$?
ptxas='^ptxas info|^    [0-9]+ bytes stack frame'
printf '%s\n' "$said" | grep -E "$ptxas" >"$object.ptxas"
[ -z "$said" ] || printf '%s\n' "$said" | grep -Ev "$ptxas" >&2
exit $status
