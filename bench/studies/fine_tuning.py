#!/usr/bin/python3
"""Fine-tuning on a few rows against training anew, on the yacht data, by `tutti train`.

  fine_tuning.py run FILE.tsv [--tutti build/tutti] [--splits 0-9]
  fine_tuning.py show FILE.tsv

Protocol: 50 rows to tune on (of these 10 for validation), the rest of the data for a first model, and
test rows that neither has seen. Two ways to divide the 308 rows, 22 hulls at 14 speeds each:
  rows   test rows (62), tuning rows (50) and the rest are drawn at random
  hulls  11 hulls, drawn at random, are the rest of the data (154 rows); tuning and test rows (104) are
         of the other hulls, which the first model has never seen
5 members with two hidden layers of 64 silu, Adam, at most 300 epochs, the weights of the best epoch.
  before  the first model as it is
  anew    50 rows, random weights, learning rate 1e-2 (the default)
  tuned   50 rows, weights of the first model, learning rate 1e-3
  frozen  the same, the first layer keeps its weights
  slow    the same, factors 0.1, 0.3, 1 on the learning rate of the layers

`run` appends way, split, case and rmse of the ensemble; `show` prints the means and the differences
to `anew` with their standard errors.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import h5py
import numpy as np

CASES = {"anew": {}, "tuned": {"learning_rate": 1e-3},
         "frozen": {"learning_rate": 1e-3, "freeze": 1},
         "slow": {"learning_rate": 1e-3, "layer_rates": [0.1, 0.3, 1]}}
TUNE, VALIDATION = 50, 10
YACHT = pathlib.Path(__file__).resolve().parents[2] / "examples/yacht/yacht.csv"


def divide(x, way, split):
    """Row numbers for the first model, for tuning and for tests."""
    rng = np.random.default_rng(1000 + split)
    if way == "rows":
        order = rng.permutation(len(x))
        return order[112:], order[62:112], order[:62]
    hulls = np.unique(x[:, :-1], axis=0, return_inverse=True)[1].ravel()
    known = np.isin(hulls, rng.permutation(hulls.max() + 1)[:11])
    order = rng.permutation(np.flatnonzero(~known))
    return np.flatnonzero(known), order[:TUNE], order[TUNE:]


def write(path, x, y, train, validation, test):
    rows = np.concatenate([train, validation, test])
    split = np.repeat([0, 1, 2], [len(train), len(validation), len(test)])
    with h5py.File(path, "w") as f:
        f["x"], f["y"], f["split"] = x[rows], y[rows, None], split.astype("i1")


TRAIN = {"learning_rate": 1e-2, "schedule": "constant", "epochs": 300}


def train(args, folder, data, name, train, seed):
    job = {"data": {"file": data, "split": {"column": "split"}}, "train": {**TRAIN, **train},
           "model": {"hidden": [64, 64]},
           "ensembles": [{"name": "yacht", "members": 5}],
           "run": {"seed": seed, "device": "cpu", "threads": 1, "directory": name}}
    (folder / f"{name}.json").write_text(json.dumps(job))
    subprocess.run([args.tutti, "train", f"{name}.json"], cwd=folder, check=True,
                   capture_output=True)
    with h5py.File(folder / name / "results.h5") as f:
        return float(np.ravel(f["ensemble_rmse"][()])[0])


def measure(args, x, y, way, split):
    first, tune, test = divide(x, way, split)
    seed = 1 + split
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        held = len(first) // 10
        write(folder / "first.h5", x, y, first[held:], first[:held], test)
        write(folder / "few.h5", x, y, tune[VALIDATION:], tune[:VALIDATION], test)
        yield "before", train(args, folder, "first.h5", "first", {}, seed)
        for case, options in CASES.items():
            start = {} if case == "anew" else {"init_from": "first/model.h5"}
            yield case, train(args, folder, "few.h5", case, {**options, **start}, seed)


def run(args):
    table = np.genfromtxt(YACHT, delimiter=",", skip_header=1)
    x, y = table[:, :-1], table[:, -1]
    first, last = (int(s) for s in args.splits.split("-"))
    for way in ("rows", "hulls"):
        for split in range(first, last + 1):
            for case, rmse in measure(args, x, y, way, split):
                with open(args.file, "a") as f:
                    f.write(f"{way}\t{split}\t{case}\t{rmse:.6g}\n")


def show(args):
    lines = [line.split("\t") for line in open(args.file) if not line.startswith("#")]
    for way in ("rows", "hulls"):
        found = {case: np.array([float(v) for w, _, c, v in lines if (w, c) == (way, case)])
                 for case in ("before", *CASES)}
        for case, rmse in found.items():
            less = found["anew"] - rmse
            error = less.std(ddof=1) / np.sqrt(len(less))
            print(f"{way:6} {case:7} rmse {rmse.mean():6.3f}   less than anew by {less.mean():6.3f}"
                  f" +- {error:.3f}   better in {(less > 0).sum()} of {len(less)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("file")
    parser.add_argument("--tutti", default=str(YACHT.parent.parent.parent / "build/tutti"))
    parser.add_argument("--splits", default="0-9")
    args = parser.parse_args()
    args.tutti = str(pathlib.Path(args.tutti).resolve())
    {"run": run, "show": show}[args.what](args)


if __name__ == "__main__":
    main()
