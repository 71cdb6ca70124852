#!/usr/bin/env bash
# exploration_example.sh TUTTI CC BUILD — the commands of examples/exploration/README.md, until 100
# labels: the error of the true trajectory falls, trajectories become longer, and the same seed of
# the simulation gives the same pool.
set -euo pipefail
cc=$2
build=$(realpath "$3")
PATH=$(dirname "$(realpath "$1")"):$PATH
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/examples/exploration/* "$work"
cd "$work"

$cc -O2 -o cluster cluster.c -I"$here/src/api" -L"$build" -ltutti -lm -Wl,-rpath,"$build"
./cluster first first.csv 1
tutti campaign run campaign.yaml --set stop.labels=100 --set campaign.keep=9 2>&1 | tee log
sed -n 's/.* round \([0-9]*\): .* test rmse \([0-9.]*\); pool \([0-9]*\):.*/\1 \2 \3/p' log >rounds
awk '{ error[$1] = $2; pool[$1] = $3 }
  END { exit !(NR == 4 && error[4] < error[1] / 4 && pool[3] > pool[1]) }' rounds

model=campaign/round-0002/model.h5
./cluster explore $model 7 once.csv
./cluster explore $model 7 again.csv
./cluster explore $model 8 other.csv
cmp once.csv again.csv
! cmp -s once.csv other.csv
