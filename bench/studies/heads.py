#!/usr/bin/python3
"""128 heads on one trunk beside 128 members: time of a step, and what the spread is worth.

  heads.py [--tutti build/tutti] [--pairs 5] [--heads 128] [--epochs 300]

Heating load of examples/energy (768 rows, 8 inputs), hidden [64, 64], batches of 32 rows, one thread.
`time`: CPU seconds of runs of 40 epochs less those of 10, divided by the steps between, of heads and
members in turn; prints one line for each pair, and the medians. `scores`: rmse, mean standard
deviation and coverage of the 90 % interval on the test rows after `epochs` epochs with early
stopping, over as many splits as pairs; `few` are 8 members of heads / 8 heads each.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

import h5py
import numpy as np

ENERGY = pathlib.Path(__file__).resolve().parents[2] / "examples/energy/energy.csv"
LEVEL = 1  # of coverage in results.h5: 90 %


def train(args, folder, members, heads, epochs, seed=1, patience=0):
    job = {"data": {"file": str(ENERGY), "targets": ["heating_load"],
                    "inputs": ["*", "!cooling_load"], "split": {"seed": seed}},
           "model": {"hidden": [64, 64], "heads": heads},
           "train": {"epochs": epochs, "batch_size": 32, "learning_rate": 1e-3,
                     "schedule": "constant", "patience": patience},
           "ensembles": [{"name": "heating", "target": "heating_load", "members": members}],
           "run": {"seed": seed, "device": "cpu", "threads": 1, "directory": "out"}}
    (folder / "job.json").write_text(json.dumps(job))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([args.tutti, "train", "job.json", "--resume", "never"], cwd=folder, check=True,
                   capture_output=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    with h5py.File(folder / "out/results.h5") as f:
        steps = int(np.max(f["steps_done"][()]))
        std = float(np.mean(f["y_pred_std"][()]))
        return seconds, steps, (float(np.ravel(f["ensemble_rmse"])[0]), std,
                                float(np.ravel(f["coverage"][LEVEL])[0]))


def step_time(args, folder, members, heads):
    short, few, _ = train(args, folder, members, heads, 10)
    long, many, _ = train(args, folder, members, heads, 40)
    return (long - short) / (many - few)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ENERGY.parent.parent.parent / "build/tutti"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--heads", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=300)
    args = parser.parse_args()
    args.tutti = str(pathlib.Path(args.tutti).resolve())
    n, times, scores = args.heads, [], {"members": [], "heads": [], "few": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for pair in range(args.pairs):
            times.append((step_time(args, folder, 1, n), step_time(args, folder, n, 1)))
            print(f"time: step of {n} heads {1e6 * times[-1][0]:.0f} us, of {n} members "
                  f"{1e6 * times[-1][1]:.0f} us; load {os.getloadavg()[0]:.1f}", flush=True)
            for case, members, heads in (("members", n, 1), ("heads", 1, n), ("few", 8, n // 8)):
                scores[case].append(train(args, folder, members, heads, args.epochs, 1 + pair, 30)[2])
    heads, members = (statistics.median(t) for t in zip(*times))
    print(f"time: medians {1e6 * heads:.0f} us and {1e6 * members:.0f} us, {members / heads:.1f} x")
    for case, found in scores.items():
        rmse, std, inside = np.mean(found, 0)
        print(f"scores: {case:7} rmse {rmse:.3f}  mean std {std:.3f}  inside 90 %: {inside:.2f}")


if __name__ == "__main__":
    main()
