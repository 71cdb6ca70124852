#!/usr/bin/python3
"""The deep-ensemble benchmark on UCI regression data, by `tutti train`.

  deep_ensembles.py --all [--tutti build/tutti] [--peers] [--record FILE.jsonl] [--output FILE.md]
  deep_ensembles.py --name concrete --data concrete.h5 ...

--all takes energy, concrete and yacht from examples/ with 20 new splits each; --peers also times
PyTorch (peers/torch_ensemble.py) on the same splits, without the adversarial inputs of the
paper.

Protocol: one hidden layer of 50 relu, Gaussian negative log likelihood, 5 members, 40 epochs, batch
100, Adam with learning rate 0.01, inputs and target standardized, the ensemble scored as one
Gaussian. The data file holds x (N, d), y (N, 1) and, for the published splits, splits/train_I and
splits/test_I (row numbers); without them split I is a random one of 90 % / 10 % with seed I + 1.

Prints a Markdown table of mean and standard deviation over the splits, with published numbers. Exit
1 if a mean lies more than one standard deviation of the reference away from it, or is worse than
the paper's by more than one of its standard deviations.
"""
import argparse
import csv
import datetime
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = {
    "energy": "heating_load", "concrete": "compressive_strength", "yacht": "residuary_resistance"}

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
train:     {{loss: gaussian_nll, nll_beta: 0, variance_floor: 1e-6, optimizer: adam,
            learning_rate: 0.01, schedule: constant, batch_size: 100, epochs: 40}}
run:       {{seed: {seed}, device: cpu, threads: {threads}, directory: '{out}'}}
"""


def make_data(name, folder, splits):
    """The data of an example, one target, with new splits of 90 % / 10 %."""
    with open(ROOT / "examples" / name / f"{name}.csv", newline="", encoding="utf-8") as f:
        rows = list(csv.reader(f))
    columns, table = rows[0], np.array(rows[1:], dtype="f4")
    others = [i for i, c in enumerate(columns) if c not in list(TARGET.values()) + ["cooling_load"]]
    path = folder / f"{name}.h5"
    with h5py.File(path, "w") as f:
        f["x"], f["y"] = table[:, others], table[:, [columns.index(TARGET[name])]]
        for i in range(splits):
            order = np.random.RandomState(i + 1).permutation(len(table)).astype("i4")
            last = round(0.9 * len(table))
            f[f"splits/train_{i}"], f[f"splits/test_{i}"] = order[:last], order[last:]
    return path


def published_splits(data):
    with h5py.File(data, "r") as f:
        names = f["splits"].keys() if "splits" in f else []
        return sum(name.startswith("train_") for name in names)


def write_split(data, split, file):
    """The data with a column for the published split: 0 training, 2 test, -1 unused."""
    with h5py.File(data, "r") as f, h5py.File(file, "w") as g:
        g["x"], g["y"] = f["x"][()], f["y"][()]
        part = np.full(len(f["x"]), -1, "i1")
        part[f[f"splits/train_{split}"][()]], part[f[f"splits/test_{split}"][()]] = 0, 2
        g["part"] = part
    return file


def run_split(args, split, folder):
    """RMSE and NLL of the ensemble on the test rows of one split, in the units of the target."""
    data, rows = args.data.resolve(), "{column: part}"
    if args.fresh:
        rows = f"{{train: 0.9, validation: 0, test: 0.1, seed: {split + 1}}}"
    else:
        data = write_split(args.data, split, folder / "data.h5")
    out, job = folder / "out", folder / "job.yaml"
    job.write_text(JOB.format(name=args.name, split=split, data=data, rows=rows,
                              seed=args.seed, threads=args.threads, out=out))
    command = [str(args.tutti.resolve()), "train", str(job), "-q", "--resume", "never"]
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"split {split}: exit {done.returncode}\n{done.stderr}")
    with h5py.File(out / "results.h5", "r") as f:
        return float(f["ensemble_rmse"][()].ravel()[0]), float(f["ensemble_nll"][()].ravel()[0])


def run_tutti(args):
    """A result in the format of a peer; seconds are of whole programs, with start-up and files."""
    cpu = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    scores, begin, before = [], time.perf_counter(), cpu()
    with tempfile.TemporaryDirectory(prefix="tutti-splits-") as folder:
        for split in range(args.splits):
            scores.append(run_split(args, split, pathlib.Path(folder)))
            print(f"{args.name}, split {split}: RMSE {scores[-1][0]:.3f} NLL {scores[-1][1]:.3f}",
                  file=sys.stderr)
    return {"way": "tutti", "seconds": time.perf_counter() - begin, "cpu_seconds": cpu() - before,
            "rmse": [s[0] for s in scores], "nll": [s[1] for s in scores]}


def run_peer(args, way):
    """The same splits in PyTorch; seconds are of training and prediction only."""
    program = ROOT / "bench" / "peers" / "torch_ensemble.py"
    command = [sys.executable, str(program), "--data", str(args.data), "--way", way,
               "--splits", str(args.splits),
               "--threads", str(args.threads), "--seed", str(args.seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def verdict(mean, target, sd):
    distance = abs(mean - target) / sd
    return distance <= 1.0, f"{mean:.2f} is {distance:.2f} sd from {target:.2f}"


def row(name, run, bold=""):
    spread = lambda v: statistics.stdev(v) if len(v) > 1 else math.nan
    cell = lambda v: f"{bold}{statistics.mean(v):.2f} ± {spread(v):.2f}{bold}"
    return (f"| {bold}{name}{bold} | {cell(run['rmse'])} | {cell(run['nll'])} | "
            f"{run['seconds']:.1f} s | {run['cpu_seconds']:.1f} s |")


def report(args, tutti, peers):
    """Markdown text, and True if the means are as good as the published ones."""
    rmse, nll = tutti["rmse"], tutti["nll"]
    kind = "fresh" if args.fresh else "published"
    lines = [f"### {args.name}: {len(rmse)} {kind} splits, seed {args.seed}", "",
             "| method | RMSE | NLL | time | CPU |", "|---|---|---|---|---|",
             row("tutti", tutti, "**")]
    for peer in peers:
        lines.append(row(f"PyTorch {peer['torch']} here, {peer['way']}", peer))
    for method, (a, a_sd, b, b_sd) in PUBLISHED[args.name].items():
        lines.append(f"| {method} | {a:.2f} ± {a_sd:.2f} | {b:.2f} ± {b_sd:.2f} | | |")
    a, a_sd, b, b_sd = PUBLISHED[args.name][REFERENCE]
    rmse_ok, rmse_text = verdict(statistics.mean(rmse), a, a_sd)
    nll_ok, nll_text = verdict(statistics.mean(nll), b, b_sd)
    a, a_sd, b, b_sd = PUBLISHED[args.name]["Deep Ensembles"]
    worse = max((statistics.mean(rmse) - a) / a_sd, (statistics.mean(nll) - b) / b_sd)
    good = rmse_ok and nll_ok and worse <= 1.0
    lines += ["", f"Against \"{REFERENCE}\": RMSE {rmse_text}, NLL {nll_text}. Against \"Deep "
              f"Ensembles\" at most {worse:.2f} sd worse: {'good' if good else '**not good**'}."]
    return "\n".join(lines) + "\n", good


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, default=pathlib.Path("build/tutti"))
    parser.add_argument("--all", action="store_true", help="energy, concrete, yacht; new splits")
    parser.add_argument("--name", choices=PUBLISHED)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--peers", action="store_true", help="time PyTorch on the same work")
    parser.add_argument("--record", type=pathlib.Path, help="append every number as JSON")
    parser.add_argument("--splits", type=int, help="default: all published ones, or 20 new")
    parser.add_argument("--fresh", action="store_true", help="ignore the splits of the file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=pathlib.Path, help="append the table to this file")
    args = parser.parse_args()
    if not args.all and not (args.name and args.data):
        parser.error("give --all, or --name and --data")
    return args


def prepare(args, name, folder):
    """Data and splits of one data set."""
    args.name = name
    if args.all:
        args.data = make_data(name, folder, args.splits or 20)
    available = published_splits(args.data)
    fresh = args.fresh or available == 0
    splits = args.splits or (20 if fresh else available)
    if not fresh and splits > available:
        sys.exit(f"{args.data} has {available} splits")
    if args.peers and available == 0:
        sys.exit(f"{args.data}: --peers needs splits in the file, or --all")
    return argparse.Namespace(**{**vars(args), "fresh": fresh, "splits": splits})


def run_set(args, fresh):
    tutti = run_tutti(args)
    peers = [run_peer(args, way) for way in ("loop", "batched")] if args.peers else []
    args.fresh = fresh
    text, good = report(args, tutti, peers)
    print(text, flush=True)
    if args.output:
        with open(args.output, "a", encoding="utf-8") as f:
            f.write(text + "\n")
    if args.record:
        with open(args.record, "a", encoding="utf-8") as f:
            for one in [tutti] + peers:
                f.write(json.dumps({"set": args.name, "splits": args.splits, "seed": args.seed,
                                    "threads": args.threads,
                                    "date": datetime.datetime.now().astimezone().isoformat(),
                                    "load": os.getloadavg()[0], **one}) + "\n")
    return good


def main():
    args, good = parse(), True
    with tempfile.TemporaryDirectory(prefix="tutti-data-") as folder:
        for name in TARGET if args.all else [args.name]:
            one = prepare(args, name, pathlib.Path(folder))
            good = run_set(one, args.all or one.fresh) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
