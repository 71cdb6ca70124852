#!/bin/sh
# one_process.sh [OPTION...] -n RANKS [OPTION...] COMMAND... — the mpirun of a build without MPI: starts one
# process, and skips a test that wants more (exit status 77).
while :; do
  case $1 in
  -n) ranks=$2; shift 2 ;;
  --bind-to) shift 2 ;;
  -*) shift ;;
  *) break ;;
  esac
done
[ "$ranks" = 1 ] || { echo "skipped: $ranks ranks of a build without MPI" >&2; exit 77; }
exec "$@"
