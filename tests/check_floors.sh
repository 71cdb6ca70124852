#!/usr/bin/env bash
# check_floors.sh [TREE] — the rules of the house that a compiler does not check: which floor may
# include which, where MPI, HDF5, OpenMP and CUDA may appear, how long files, functions and lines may
# be, and that every header has a guard and compiles alone.
# check_floors.sh --control — breaks each rule once in a copy of the tree; all must be found.
# Environment: CC, CXX (compilers), TUTTI_INCLUDES (-I options of the outside libraries).
set -u # a failing check is a finding, never the end of the script

# The floor of a path into `floor`, "-" for files that belong to none. No process of its own: there
# are thousands of includes.
floor_of() {
  case $1 in
  src/base/*) floor=0 ;;
  src/spec/*) floor=1 ;;
  mpi/*) floor=2 ;;
  src/engine/* | cuda/* | io/*) floor=3 ;;
  src/run/*) floor=4 ;;
  src/campaign/*) floor=5 ;;
  src/*) floor=6 ;;
  *) floor=- ;;
  esac
}

room_of() {
  case $1 in
  src/*/*) echo "$1" | cut -d/ -f1-2 ;;
  *) echo "${1%%/*}" ;;
  esac
}

# Rooms of one floor do not see each other; engines share the interface core/engine/engine.h and the
# report of core/engine/progress.h.
may_see() {
  case "$1 $2" in "cuda core/engine/engine.h" | "cuda core/engine/progress.h") return 0 ;; esac
  [ "$1" = "$(room_of "$2")" ]
}

sources() {
  local roots=()
  for d in src mpi io cuda; do [ -d "$d" ] && roots+=("$d"); done
  find "${roots[@]}" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) | sort
}

# The file of this tree that `#include "name"` in directory $1 means, into `target`; empty if it is
# none of ours.
resolve() {
  target=
  for candidate in "$1/$2" "src/$2" "$2"; do
    [ -f "$candidate" ] || continue
    target=$candidate
    case $target in *..*) target=$(realpath --relative-to=. "$target") ;; esac
    return
  done
}

check_includes() {
  local file line name target floor from to
  while IFS=: read -r file line name; do
    resolve "${file%/*}" "$name"
    if [ -z "$target" ]; then
      echo "$file:$line: \"$name\" is not a file of this tree"
      continue
    fi
    floor_of "$file" && from=$floor
    floor_of "$target" && to=$floor
    [ "$target" != src/api/tutti.h ] || continue # the public header stands alone
    if [ "$to" -gt "$from" ]; then
      echo "$file:$line: floor $from includes floor $to ($target)"
    elif [ "$to" = "$from" ] && ! may_see "$(room_of "$file")" "$target"; then
      echo "$file:$line: $(room_of "$file") includes its neighbour $target"
    fi
  done < <(sources | xargs grep -nHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+"' |
    sed -E 's/:[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]+)"/:\1/')
}

# $1 regular expression of outside headers, $2 regular expression of the places they may appear in
check_outside() {
  sources | xargs grep -nHE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($1)[>\"]" |
    grep -vE "^($2)/" | sed 's/$/  does not belong here/' || true
}

# shellcheck disable=SC2016 # awk's own dollars
check_sizes() {
  find src mpi io cuda tests -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.py' \) \
    2>/dev/null | sort | xargs awk '
    FNR == 1 { start = 0 }
    FNR == 501 { print FILENAME ": more than 500 lines" }
    /^\{/ { start = FNR }
    /^\}/ { if (start && FNR - start - 1 > 60) print FILENAME ":" start ": function of " FNR - start - 1 " lines"; start = 0 }
'
  sources | grep -v '\.def$' | LC_ALL=C.UTF-8 xargs grep -nHE '^.{101,}$' | sed 's/^/more than 100 columns: /'
}

# Bodies (*_body.h) are included several times with other macros: no headers.
# shellcheck disable=SC2120 # a header, or all of them
check_headers() {
  local header
  while read -r header; do
    grep -qE '^#ifndef (TT_[A-Z0-9_]+|TUTTI)_H$' "$header" || echo "$header: no guard #ifndef TT..._H"
    # shellcheck disable=SC2086 # lists of options
    printf '#include "%s"\ntypedef int tt_alone;\n' "$header" |
      ${CC:-cc} -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I. -Isrc ${TUTTI_INCLUDES:-} -x c - 2>&1 |
      sed "s|^|$header does not compile alone: |" | head -n 5
    case $header in src/base/* | src/spec/* | src/engine/* | src/api/tutti.h)
      # shellcheck disable=SC2086
      printf '#include "%s"\ntypedef int tt_alone;\n' "$header" |
        ${CXX:-c++} -std=c++17 -D_GNU_SOURCE -Wall -Wextra -fsyntax-only -I. -Isrc ${TUTTI_INCLUDES:-} -x c++ - 2>&1 |
        sed "s|^|$header does not compile as C++17: |" | head -n 5 ;;
    esac
  done < <(if [ $# -gt 0 ]; then echo "$@"; else sources | grep '\.h$' | grep -v '_body\.h$'; fi)
}

check_libraries() {
  check_outside 'mpi\.h' 'mpi|io'
  check_outside 'hdf5(_hl)?\.h|H5.*\.h' 'io'
  check_outside 'omp\.h' 'src/engine|src/run'
  check_outside '(cuda|cublas|curand|nccl)[^/]*' 'cuda'
}

check() {
  check_includes
  check_libraries
  check_sizes
  # shellcheck disable=SC2119
  check_headers
}

# Break one rule in a copy of the tree and demand the finding.
#   $1 file   $2 text to append   $3 words of the finding   $4... the check
plant() {
  local tree file=$1 text=$2 finding=$3
  shift 3
  tree=$(mktemp -d)
  for d in src mpi io cuda; do [ ! -d "$d" ] || cp -r "$d" "$tree/"; done
  mkdir -p "$(dirname "$tree/$file")"
  printf '%b' "$text" >>"$tree/$file"
  if ! (cd "$tree" && "$@") | grep -F "$file" | grep -qF "$finding"; then
    echo "planted in $file, not found: $finding"
  fi
  rm -rf "$tree"
}

control() {
  local long
  long="int f(void)\\n{\\n$(printf '  f();\\n%.0s' {1..61})}\\n"
  plant src/base/planted.c '#include "core/model/state.h"\n' 'floor 0 includes floor 1' check_includes
  plant src/spec/planted.h '#  include "spec/nothing.h"\n' 'not a file of this tree' check_includes
  plant io/planted.c '#include "core/engine/engine.h"\n' 'includes its neighbour' check_includes
  plant src/engine/planted.c '#include "io/checkpoint/checkpoint.h"\n' 'includes its neighbour' check_includes
  plant src/run/planted.c '#include <mpi.h>\n' 'does not belong here' check_libraries
  plant mpi/planted.c '#include <hdf5.h>\n' 'does not belong here' check_libraries
  plant io/planted.c '# include <omp.h>\n' 'does not belong here' check_libraries
  plant src/engine/planted.c '#include <cuda_runtime.h>\n' 'does not belong here' check_libraries
  plant mpi/planted.c "$(printf '\\n%.0s' {1..501})" 'more than 500 lines' check_sizes
  plant mpi/planted.c "$long" 'function of 61 lines' check_sizes
  plant io/planted.h "/* $(printf 'x%.0s' {1..100}) */\\n" 'columns' check_sizes
  plant src/base/planted.h 'int planted(void);\n' 'no guard' check_headers src/base/planted.h
  plant src/base/planted.h '#ifndef TT_PLANTED_H\nint64_t planted;\n#endif\n' 'does not compile alone' \
    check_headers src/base/planted.h
}

control_only=
if [ "${1:-}" = --control ]; then
  control_only=yes
  shift
fi
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}" || exit 1
findings=$(if [ -n "$control_only" ]; then control; else check; fi)
if [ -n "$findings" ]; then
  echo "$findings"
  exit 1
fi
