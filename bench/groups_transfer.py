#!/usr/bin/env python3
"""Few rows a group: one ensemble for each group (`by`), `by_transfer: pooled` with all layers and
with the last one, one ensemble of all rows, and that with the group as a category.

    python3 bench/groups_transfer.py 200 15 60 [SEED]    # groups, fewest and most rows of a group

The groups share a function of five inputs: `affine` with another offset and factor for each group,
`phase` with other phases, slope and offset, `own` with nearly nothing in common. The error is that
of 100 more rows of each group: root mean square / standard deviation of the labels of the group.
TUTTI is the program; needs numpy.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

INPUTS, TESTS = ["a", "b", "c", "d", "e"], 100
JOB = {"model": {"hidden": [16, 16]}, "ensembles": [{"name": "all", "members": 3}],
       "run": {"device": "cpu", "baselines": False}}
WAYS = {"all rows, one ensemble": {},
        "the same, group is a category": {"category": True},
        "by": {"by": "station"},
        "by, transfer": {"by": "station", "by_transfer": "pooled"},
        "by, transfer, learning_rate 1e-3": {"by": "station", "by_transfer": "pooled",
                                             "train": {"learning_rate": 1e-3}},
        "by, transfer, last layer": {"by": "station", "by_transfer": "pooled",
                                     "train": {"freeze": 2}}}


def functions(rng, groups):
    offset, slope = rng.normal(size=(2, groups)) * [[2], [1]]
    factor, p, q = np.exp(0.5 * rng.normal(size=groups)), *0.5 * rng.normal(size=(2, groups))
    shape = lambda x: np.sin(2 * x[:, 0]) * x[:, 1] + np.tanh(2 * x[:, 2]) + 0.5 * x[:, 3] * x[:, 4]
    return {"affine": lambda g, x: factor[g] * shape(x) + offset[g],
            "phase": lambda g, x: np.sin(2 * x[:, 0] + p[g]) * x[:, 1] + np.tanh(2 * x[:, 2] + q[g])
            + slope[g] * x[:, 3] + offset[g],
            "own": lambda g, x: slope[g] * x[:, 0] + np.sin(2 * x[:, 1] + 6 * p[g]) + offset[g]}


def write(path, rng, function, sizes):
    group = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.normal(size=(len(group), 5))
    y = function(group, x) + 0.1 * rng.normal(size=len(group))
    with open(path, "w", newline="") as f:
        rows = ([f"s{g}"] + [repr(float(v)) for v in row] + [repr(float(t))]
                for g, row, t in zip(group, x, y))
        csv.writer(f).writerows([["station"] + INPUTS + ["y"], *rows])
    return group, y


def tutti(*args):
    done = subprocess.run([os.environ.get("TUTTI", "tutti"), *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{args}: {done.stderr}")


def errors(way, group, y):
    job = {**JOB, **{k: v for k, v in way.items() if k != "category"}}
    job["data"] = {"file": "rows.csv", "inputs": INPUTS, "targets": "y",
                   "split": {"train": 0.8, "validation": 0.2, "test": 0}}
    if "by" in way:
        job.update(by_min_rows=5, by_small="none")
    if "category" in way:
        job["data"].update(inputs=["station"] + INPUTS, categories={"station": "error"})
    with open("job.json", "w") as f:
        json.dump(job, f)
    tutti("train", "job.json", "-q", "--resume", "never")
    tutti("predict", "out/model.h5", "test.csv", "-o", "p.csv", "--force")
    with open("p.csv") as f:
        wrong = np.array([float(row["y_mean"]) for row in csv.DictReader(f)]) - y
    each = [np.sqrt(np.mean(wrong[group == g] ** 2)) / np.std(y[group == g]) for g in set(group)]
    return np.array(each)


def main(groups, least, most, seed=1):
    for name in functions(np.random.default_rng(seed), groups):
        rng = np.random.default_rng(seed)
        function = functions(rng, groups)[name]
        write("rows.csv", rng, function, rng.integers(least, most + 1, groups))
        group, y = write("test.csv", rng, function, np.full(groups, TESTS))
        result = {way: errors(options, group, y) for way, options in WAYS.items()}
        for way, each in result.items():
            better = 100 * np.mean(each < result["by"])
            print(f"{name:6} {groups} groups of {least} to {most} rows, seed {seed}: {way:33} median "
                  f"{np.median(each):.3f}, mean {each.mean():.3f}, better than by in {better:.0f} %",
                  flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUTTI"] = os.path.abspath(os.environ["TUTTI"]) if "TUTTI" in os.environ else "tutti"
        os.chdir(folder)
        main(*map(int, sys.argv[1:]))
