#!/usr/bin/python3
"""examples/active-learning as its README says, in fewer rounds; warm starts in a campaign that is
stopped after each round and goes on with other ranks, bit by bit.

  active_learning.py TUTTI MPIRUN [ARGUMENT...]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "active-learning"
INPUTS = ("longitudinal_position,prismatic_coefficient,length_displacement,beam_draught,"
          "length_beam,froude_number")
QUICK = ["train.epochs=20", "select.batch=25", "stop.labels=95"]


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")


def settings(*some):
    return [word for s in some for word in ("--set", s)]


def history(folder, name):
    with h5py.File(folder / name / "campaign.h5", "r") as f:
        return {k: f[k][()] for k in ("labels", "rmse", "pick_row", "pick_round", "model_hash")}


def check(what, right):
    if not right:
        sys.exit(f"not so: {what}")


def example(folder, tutti):
    shutil.copy(EXAMPLE / "campaign.yaml", folder)
    table = ROOT / "examples" / "yacht" / "yacht.csv"
    run(folder, tutti, "import", table, "-o", "yacht.h5", "--inputs", INPUTS, "--targets",
        "residuary_resistance")
    campaign = [tutti, "campaign", "run", "campaign.yaml", "-q"]
    run(folder, *campaign, *settings(*QUICK))
    baseline = settings("score.by=random", "campaign.directory=random", *QUICK)
    run(folder, *campaign, *baseline)
    picked, drawn = history(folder, "campaign"), history(folder, "random")
    for h in (picked, drawn):
        check("20 labels at first, then 25 more a round", list(h["labels"]) == [20, 45, 70, 95])
        check("nothing is asked for twice", len(set(h["pick_row"])) == 75)
        check("more labels, smaller errors", h["rmse"][-1, 0] < 0.7 * h["rmse"][0, 0])
    check("both begin alike", picked["model_hash"][0] == drawn["model_hash"][0])
    check("the baseline picks otherwise", set(picked["pick_row"]) != set(drawn["pick_row"]))
    with h5py.File(folder / "campaign" / "round-0004" / "data.h5", "r") as f:
        split = f["split"][()]
        rows = np.flatnonzero(split[:308] >= 0)
    check("20 rows train at first, 62 test", len(rows) == 82)
    check("no pick is a row that trains or tests", not set(rows) & set(picked["pick_row"]))


def warm(folder, tutti, mpirun):
    """Members that go on with the optimiser's state, through stops and other numbers of ranks."""
    some = settings("campaign.warm_start=optimizer", "train.epochs=5", "stop.labels=40",
                    "ensembles.resistance.members=3")
    run(folder, tutti, "campaign", "run", "campaign.yaml", "-q", *some,
        *settings("campaign.directory=through"))
    for ranks in (2, 1, 3):
        run(folder, *mpirun, str(ranks), tutti, "campaign", "step", "campaign.yaml", "-q", *some,
            *settings("campaign.directory=steps"))
    one, other = history(folder, "through"), history(folder, "steps")
    for k, value in one.items():
        check(f"{k} are the same in steps of 2, 1 and 3 ranks", np.array_equal(value, other[k]))


def main():
    tutti, mpirun = sys.argv[1], sys.argv[2:]
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="tutti-active-") as name:
        folder = pathlib.Path(name)
        example(folder, tutti)
        warm(folder, tutti, mpirun)


if __name__ == "__main__":
    main()
