#!/usr/bin/python3
"""The commands of examples/active-learning/README.md, with fewer rounds.

  active_learning.py TUTTI
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
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
        return {k: f[k][()] for k in ("labels", "rmse", "query_row", "query_round", "model_hash")}


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
    baseline = settings("score.acquisition=random", "campaign.directory=random", *QUICK)
    run(folder, *campaign, *baseline)
    picked, drawn = history(folder, "campaign"), history(folder, "random")
    for h in (picked, drawn):
        check("20 labels at first, then 25 more a round", list(h["labels"]) == [20, 45, 70, 95])
        check("no row is queried twice", len(set(h["query_row"])) == 75)
        check("more labels, smaller errors", h["rmse"][-1, 0] < 0.7 * h["rmse"][0, 0])
    check("both begin alike", picked["model_hash"][0] == drawn["model_hash"][0])
    check("the baseline has other queries", set(picked["query_row"]) != set(drawn["query_row"]))
    with h5py.File(folder / "campaign" / "round-0004" / "pool_scores.h5", "r") as f:
        used = set(np.flatnonzero(np.isnan(f["score"][0])))
    check("75 queries; 20 and 62 rows are not candidates", len(used) == 75 + 82)
    check("no query is a row of the initial data", set(picked["query_row"]) <= used)
    run(folder, tutti, "report", "campaign", "random")
    check("a page", (folder / "campaign/report.html").stat().st_size > 1000)


def main():
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="tutti-active-") as name:
        example(pathlib.Path(name), sys.argv[1])


if __name__ == "__main__":
    main()
