#!/usr/bin/python3
"""Campaigns whose candidates a command writes: candidate numbers are row numbers of its files, and
the history is the same on any number of ranks and after any exit codes of the command.
"""
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, h5py, np, test

from campaign import go, same

ROUNDS, CHUNKS, ROWS = 2, 2, 300
CAMPAIGN = """\
data: {file: data.h5, split: {train: 0.7, validation: 0.1, test: 0.2, seed: 1}}
model: {hidden: [12], activation: tanh}
ensembles: [{name: one, members: 3}]
train: {epochs: 20, learning_rate: 1e-2, batch_size: 16}
run: {device: cpu, threads: 1, seed: 3}
pool: {command: [./make, '{round}', '{chunk}', '{seed}', '{output}', '{model}'], chunks: 2, labels: y}
select: {batch: 7}
label: {mode: hidden}
stop: {rounds: 2}
"""
MAKE = """\
#!/bin/sh
case "$5" in */round-000$1/model.h5) [ -s "$5" ] || exit 9 ;; *) exit 9 ;; esac
[ $1.$2 = 2.1 ] && read code < ends && [ $code != 0 ] && exit $code
echo $1 $2 $3 >> calls
cp made-$1-$2.h5 "$4"
"""


def prepare():
    """Write the files that the command copies (it does not run Python, which is slow to start).
    Returns all inputs by candidate number."""
    rng = np.random.default_rng(5)

    def put(name, n):
        x = rng.uniform(-1, 1, (n, 3))
        with h5py.File(name, "w") as f:
            f["x"], f["y"] = x, np.sin(3 * x[:, :1]) * x[:, 1:2]
        return x

    put("data.h5", 60)
    made = [put(f"made-{r}-{c}.h5", ROWS + 10 * r + c)
            for r in range(1, ROUNDS + 2) for c in range(CHUNKS)]
    pathlib.Path("campaign.yaml").write_text(CAMPAIGN)
    pathlib.Path("make").write_text(MAKE)
    pathlib.Path("make").chmod(0o755)
    pathlib.Path("ends").write_text("0\n")
    return np.concatenate(made)


def calls():
    file = pathlib.Path("calls")
    lines = file.read_text().splitlines()
    file.unlink()
    return lines


def check_numbers(made):
    with h5py.File("whole/campaign.h5") as f:
        row, x = f["query_row"][:], f["query_x"][:]
    check(len(set(row)) == 7 * ROUNDS, f"picks {row}")
    check(np.array_equal(x, made[row]), "the number of a query is not the row of its inputs")
    check((row[7:] >= 2 * ROWS + 21).all(), f"queries of round 2 from files of round 1: {row}")


def check_lives(wanted):
    """A call with exit code 75, one that fails, then success: no successful call is repeated."""
    for code, end, text in ((75, 75, "retry later (exit code 75) for chunk 1 of round 2"),
                            (3, 69, "./make ended with exit code 3 for chunk 1 of round 2")):
        pathlib.Path("ends").write_text(f"{code}\n")
        go(1, "starts", code=end, says=text)
    pathlib.Path("ends").write_text("0\n")
    go(2, "starts")
    same("starts", "whole", "in three starts")
    check(calls() == wanted, "other calls in three starts")


def main():
    made = prepare()
    go(1, "whole")
    once = calls()
    check(len(set(once)) == CHUNKS * ROUNDS, f"calls {once}")  # none in the last round
    check_numbers(made)
    check_lives(once)


test(main)
