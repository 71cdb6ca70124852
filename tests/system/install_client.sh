#!/usr/bin/env bash
# install_client.sh BUILD — installs BUILD into a new directory, trains a small model with the
# installed program and predicts with one client built three ways: by the CMake package, by
# pkg-config, and statically. All must print the same numbers. Then the C, C++ and Fortran programs of
# examples/embed and docs/embedding.md, by the commands of these pages as they are typed there.
# install_client.sh --installed PREFIX — the same with what is installed in PREFIX.
set -euo pipefail
from=$(realpath "${@: -1}")
client=$(realpath "$(dirname "${BASH_SOURCE[0]}")/install_client")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

case $1 in
--installed) ln -s "$from" .local ;;
*) cmake --install "$from" --prefix "$work/.local" >install.log ;;
esac
ln -s .local prefix
export HOME=$work PATH=$work/.local/bin:$PATH # the pages install in ~/.local
for file in bin/tutti include/tutti.h include/tutti.hpp \
  share/bash-completion/completions/tutti \
  share/doc/tutti/docs/embedding.md share/doc/tutti/examples/embed/time_loop.f90; do
  test -f "prefix/$file"
done
library=$(dirname "$(find prefix/ -name libtutti.so)")
export PKG_CONFIG_PATH="$work/$library/pkgconfig"
test -f "$(pkg-config --variable=fortran_module tutti)"
for file in $(pkg-config --variable=fortran_modules tutti); do test -f "$file"; done

awk 'BEGIN { OFS = ","; print "a,b,c"; for (i = 0; i < 40; i++) print i / 40, (i * 7 % 13) / 13, i / 20 }' >line.csv
cat >job.yaml <<JOB
data: {file: line.h5}
model: {hidden: [4]}
ensembles: [{name: line, target: c, members: 2}]
train: {epochs: 2}
JOB
prefix/bin/tutti import line.csv -o line.h5 --inputs a,b --targets c
prefix/bin/tutti train job.yaml

cmake -S "$client" -B by-cmake -DCMAKE_PREFIX_PATH="$work/prefix" >cmake.log
cmake --build by-cmake >>cmake.log
# shellcheck disable=SC2046 # lists of options
cc -std=c17 -Wall -Werror "$client/client.c" -o by-pkg-config $(pkg-config --cflags --libs tutti)
# shellcheck disable=SC2046
cc -std=c17 "$client/client.c" -o by-static $(pkg-config --cflags tutti) \
  $(pkg-config --static --libs tutti | sed 's/-ltutti/-l:libtutti.a/')
if ldd by-static | grep -q libtutti; then
  echo "the static client is linked to libtutti.so"
  exit 1
fi

by-cmake/client out/model.h5 | tee expected
grep -q '^c: ' expected
for program in by-pkg-config by-static; do "./$program" out/model.h5 | diff expected -; done

# Indented commands of a page, and those of its console blocks.
commands() {
  sed -n 's/^    \([a-z].*\)/\1/p; s/^\$ //p' "$1" |
    if command -v gfortran >/dev/null; then cat; else grep -v 'gfortran\|time_loop\|_fortran'; fi
}
cp -r prefix/share/doc/tutti/{docs,examples} .
{
  commands examples/embed/README.md
  echo 'unset PKG_CONFIG_PATH'
  commands docs/embedding.md | sed -n '/^export/,/predict$/p'
} >typed
sed -n '/^```c$/,/^```$/{/^```/!p}' docs/embedding.md >examples/embed/predict.c
unset PKG_CONFIG_PATH
bash -ex typed | tee printed
grep -q '^best angle ' printed
grep -q ' calls in 6000 steps' printed
grep -q ', slopes ' printed
