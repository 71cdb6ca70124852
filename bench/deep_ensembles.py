#!/usr/bin/python3
"""The deep-ensemble benchmark on UCI regression data, by `tutti train`.

  deep_ensembles.py --name concrete --data concrete.h5 [--tutti build/tutti] [--output FILE.md]

Protocol: one hidden layer of 50 relu, Gaussian negative log likelihood, 5 members, 40 epochs,
batch 100, Adam with learning rate 0.01, inputs and target standardised, the ensemble scored as one
Gaussian. The data file holds x (N, d), y (N, 1) and, for the published splits, splits/train_I and
splits/test_I (row numbers); without them split I is a fresh one of 90 % / 10 % with seed I + 1.

Prints a Markdown table of mean and standard deviation over the splits beside published numbers.
Exit 1 if a mean lies more than one standard deviation of the reference away from it.
"""
import argparse
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import h5py

# RMSE, its sd, NLL, its sd. Columns of Table 1 of Lakshminarayanan, Pritzel, Blundell, "Simple and
# scalable predictive uncertainty estimation using deep ensembles", NeurIPS 2017 (PBP:
# Hernandez-Lobato & Adams 2015; MC-dropout: Gal & Ghahramani 2016). The two last rows were computed
# with PyTorch by the protocol above on the same 20 splits, with and without adversarial examples.
REFERENCE = "PyTorch, learning rate 0.01, adversarial"
PUBLISHED = {
    "concrete": {
        "PBP": (5.67, 0.09, 3.16, 0.02),
        "MC-dropout": (5.23, 0.53, 3.04, 0.09),
        "Deep Ensembles": (6.03, 0.58, 3.06, 0.18),
        REFERENCE: (5.77, 0.57, 3.08, 0.08),
        "PyTorch, learning rate 0.01": (5.70, 0.65, 3.03, 0.15),
    },
    "energy": {
        "PBP": (1.80, 0.05, 2.04, 0.02),
        "MC-dropout": (1.66, 0.19, 1.99, 0.09),
        "Deep Ensembles": (2.09, 0.29, 1.38, 0.22),
        REFERENCE: (2.00, 0.26, 1.44, 0.15),
        "PyTorch, learning rate 0.01": (2.04, 0.28, 1.40, 0.16),
    },
    "yacht": {
        "PBP": (1.02, 0.05, 1.63, 0.02),
        "MC-dropout": (1.11, 0.38, 1.55, 0.12),
        "Deep Ensembles": (1.58, 0.48, 1.18, 0.21),
        REFERENCE: (1.07, 0.41, 1.25, 0.21),
        "PyTorch, learning rate 0.01": (0.99, 0.40, 1.26, 0.21),
    },
}

JOB = """\
title: {name}, split {split}
data:      {{file: '{data}', inputs: x, targets: y, normalize: standard,
            split: {rows}}}
model:     {{hidden: [50], activation: relu, output: mean_variance}}
ensembles: [{{name: ensemble, members: 5}}]
train:     {{loss: gaussian_nll, variance_floor: 1e-6, optimizer: adam, learning_rate: 0.01,
            batch_size: 100, epochs: 40}}
run:       {{seed: {seed}, device: cpu, threads: {threads}, directory: '{out}'}}
"""


def published_splits(data):
    with h5py.File(data, "r") as f:
        names = f["splits"].keys() if "splits" in f else []
        return sum(name.startswith("train_") for name in names)


def run_split(args, split, folder):
    """RMSE and NLL of the ensemble on the test rows of one split, in the units of the target."""
    rows = f"{{train_rows: splits/train_{split}, test_rows: splits/test_{split}}}"
    if args.fresh:
        rows = f"{{train: 0.9, validation: 0, test: 0.1, seed: {split + 1}}}"
    out, job = folder / "out", folder / "job.yaml"
    job.write_text(JOB.format(name=args.name, split=split, data=args.data.resolve(), rows=rows,
                              seed=args.seed, threads=args.threads, out=out))
    command = [str(args.tutti.resolve()), "train", str(job), "-q", "--resume", "never"]
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"split {split}: exit {done.returncode}\n{done.stderr}")
    with h5py.File(out / "results.h5", "r") as f:
        return float(f["ensemble_rmse"][()].ravel()[0]), float(f["ensemble_nll"][()].ravel()[0])


def verdict(mean, target, sd):
    distance = abs(mean - target) / sd
    return distance <= 1.0, f"{mean:.2f} is {distance:.2f} sd from {target:.2f}"


def report(args, scores):
    """Markdown text, and whether both means are within one sd of the reference."""
    rmse, nll = zip(*scores)
    spread = lambda v: statistics.stdev(v) if len(v) > 1 else math.nan
    kind = "fresh" if args.fresh else "published"
    lines = [f"### {args.name}: {len(scores)} {kind} splits, seed {args.seed}", "",
             "| method | RMSE | NLL |", "|---|---|---|",
             f"| **tutti** | **{statistics.mean(rmse):.2f} ± {spread(rmse):.2f}** | "
             f"**{statistics.mean(nll):.2f} ± {spread(nll):.2f}** |"]
    for method, (a, a_sd, b, b_sd) in PUBLISHED[args.name].items():
        lines.append(f"| {method} | {a:.2f} ± {a_sd:.2f} | {b:.2f} ± {b_sd:.2f} |")
    a, a_sd, b, b_sd = PUBLISHED[args.name][REFERENCE]
    rmse_ok, rmse_text = verdict(statistics.mean(rmse), a, a_sd)
    nll_ok, nll_text = verdict(statistics.mean(nll), b, b_sd)
    good = rmse_ok and nll_ok
    lines += ["", f"Against \"{REFERENCE}\": RMSE {rmse_text}, NLL {nll_text}: "
              + ("within" if good else "**outside**") + " one standard deviation."]
    return "\n".join(lines) + "\n", good


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, default=pathlib.Path("build/tutti"))
    parser.add_argument("--name", choices=PUBLISHED, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--splits", type=int, help="how many; default all published, or 20 fresh")
    parser.add_argument("--fresh", action="store_true", help="ignore the splits of the file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=pathlib.Path, help="append the table to this file")
    args = parser.parse_args()
    available = published_splits(args.data)
    args.fresh = args.fresh or available == 0
    args.splits = args.splits or (20 if args.fresh else available)
    if not args.fresh and args.splits > available:
        parser.error(f"{args.data} has {available} splits")
    return args


def main():
    args = parse()
    scores = []
    with tempfile.TemporaryDirectory(prefix="tutti-splits-") as folder:
        for split in range(args.splits):
            rmse, nll = run_split(args, split, pathlib.Path(folder))
            scores.append((rmse, nll))
            print(f"split {split}: RMSE {rmse:.3f} NLL {nll:.3f}", file=sys.stderr)
    text, good = report(args, scores)
    print(text)
    if args.output:
        with open(args.output, "a") as f:
            f.write(text + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
