#!/usr/bin/env bash
# oracle_example.sh TUTTI CC — the commands of examples/oracle/README.md, with a shorter training,
# in a directory whose name a shell would split; and once more after the end of the campaign.
set -euo pipefail
tutti=$(realpath "$1")
cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
directory="$work/it's an \"example\""
cp -r "$(dirname "${BASH_SOURCE[0]}")/../../../examples/oracle" "$directory"
cd "$directory"

$cc -O2 -o pendulum pendulum.c -lm
./pendulum --design 240 1 >first.csv
./pendulum --candidates 200 2 >candidates.csv
"$tutti" import -q first.csv -o first.h5 --inputs length,damping,angle --targets period,swing
"$tutti" import -q candidates.csv -o candidates.h5 --inputs length,damping,angle
run=("$tutti" campaign run campaign.yaml --set train.epochs=10 --set stop.labels=60)
"${run[@]}" 2>&1 | tee log
grep -q 'labeled 20 of 20' log
grep -q 'the campaign has ended after 2 rounds' log

# A campaign that has ended calls no oracle.
"${run[@]}" 2>&1 | tee again
! grep -q labeled again
