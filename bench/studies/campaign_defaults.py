#!/usr/bin/python3
"""Which select method should be the default of a campaign? They are compared on ten data sets by
`tutti campaign run`.

  campaign_defaults.py run FILE.tsv [--tutti build/tutti] [--seeds 1-10] [--sets a,b]
  campaign_defaults.py show FILE.tsv

Protocol: 20 labels at first (digits: 40), 20 more in each round, to 120; up to 200 test rows, all
other rows are the pool with hidden labels. 5 members with one hidden layer of 50 relu, mse (classes:
cross entropy), Adam with learning rate 0.01, batch 10, 100 epochs, new initial weights in each
round. Queries by epistemic_std (classes: entropy). A seed draws the test rows, the initial labels
and the weights; all variants of a seed have the same. The variants: select.method top, penalty, or
queries at random. The error is the test RMSE (classes: NLL). The records of 2026-11 also have rows
"pool": inputs normalized by the pool, an option that was removed.

`run` appends one line per round: set, seed, rows, method, labels, error; finished campaigns that are
in FILE already are skipped. One thread. `show` prints for each comparison and set the mean over the
seeds of ln(mean error over the curve / that of the other variant) in percent, with its standard
error. Negative: the first variant has the smaller error.

concrete, energy (two sets: heating and cooling load), yacht, digits: examples/. diabetes, cancer:
scikit-learn 1.5.2. friedman, ridge, pendulum: formulas below.
"""
import argparse
import collections
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH, LAST, TEST = 20, 120, 200
CLASSES = ("digits", "cancer")
SETS = ("concrete", "heating", "cooling", "yacht", "diabetes", "friedman", "ridge", "pendulum",
        *CLASSES)
METHODS, ROWS = ("top", "penalty", "random"), ("training",)

JOB = """\
data:      {{file: data.h5, split: {{column: split}}}}
model:     {{hidden: [50], activation: relu}}
ensembles: [{{name: ensemble, members: 5}}]
train:     {{loss: {loss}, learning_rate: 0.01, schedule: constant, batch_size: 10, epochs: 100}}
pool:      {{file: pool.h5, labels: y}}
score:     {{acquisition: {by}}}
select:    {{batch: {batch}, method: {method}}}
label:     {{mode: hidden, validation_fraction: 0}}
stop:      {{labels: {last}}}
campaign:  {{directory: out}}
run:       {{seed: {seed}, device: cpu, threads: 1}}
"""


def example(name, target=-1, inputs=None):
    path = ROOT / "examples" / name / f"{name}.csv"
    with open(path, newline="", encoding="utf-8") as f:
        table = np.array(list(csv.reader(f))[1:], dtype="f8")
    return table[:, :inputs or -1], table[:, target]


def friedman(random):
    """Friedman (1991), function 1, with noise; five of ten inputs have no effect."""
    x = random.uniform(0, 1, (1000, 10))
    return x, (10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3]
               + 5 * x[:, 4] + random.normal(0, 1, 1000))


def ridge(random):
    """A narrow ridge in a square, flat elsewhere."""
    x = random.uniform(-1, 1, (1000, 2))
    return x, np.exp(-((x[:, 1] - 0.5 * np.sin(3 * x[:, 0])) / 0.15) ** 2)


def pendulum(random):
    """Period of a pendulum: length 0.1 to 2 m, gravity, swing to 3 rad; inputs of unequal density,
    because short lengths and small swings are the most frequent."""
    x = np.stack([0.1 + 1.9 * random.uniform(0, 1, 1000) ** 3, random.uniform(1.6, 24.8, 1000),
                  3 * random.uniform(0, 1, 1000) ** 2], 1)
    a, b = np.ones(1000), np.cos(x[:, 2] / 2)  # the arithmetic-geometric mean gives the period
    for _ in range(40):
        a, b = (a + b) / 2, np.sqrt(a * b)
    return x, 2 * np.pi * np.sqrt(x[:, 0] / x[:, 1]) / a


def load(name):
    if name in ("concrete", "yacht", "digits"):
        return example(name)
    if name in ("heating", "cooling"):
        return example("energy", -2 if name == "heating" else -1, -2)
    if name == "diabetes":
        from sklearn.datasets import load_diabetes
        return load_diabetes(return_X_y=True, scaled=False)
    if name == "cancer":
        from sklearn.datasets import load_breast_cancer
        return load_breast_cancer(return_X_y=True)
    return {"friedman": friedman, "ridge": ridge,
            "pendulum": pendulum}[name](np.random.RandomState(1))


def write_files(folder, x, y, first, seed):
    order = np.random.RandomState(seed).permutation(len(x))
    tests = min(TEST, len(x) // 3)
    data, pool = order[:tests + first], order[tests + first:]
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = x[data], y[data, None]
        f["split"] = np.repeat([2, 0], [tests, first]).astype("i1")
    with h5py.File(folder / "pool.h5", "w") as f:
        f["x"], f["y"] = x[pool], y[pool, None]


def curve(args, folder, name, seed, rows, method):
    """Labels and test error of every round."""
    by = "random" if method == "random" else "entropy" if name in CLASSES else "epistemic_std"
    (folder / "job.yaml").write_text(JOB.format(
        by=by, method="top" if method == "random" else method, batch=BATCH, last=LAST,
        seed=seed, loss="cross_entropy" if name in CLASSES else "mse"))
    done = subprocess.run([str(args.tutti.resolve()), "campaign", "run", "job.yaml", "-q"],
                          cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name}, seed {seed}, {rows}, {method}: exit {done.returncode}\n{done.stderr}")
    with h5py.File(folder / "out/campaign.h5", "r") as f:
        found = f["nll" if name in CLASSES else "rmse"][:, 0].tolist()
        labels = f["labels"][()].tolist()
    shutil.rmtree(folder / "out")
    return list(zip(labels, found))


def read(path):
    """{(set, seed, rows, method): [(labels, error), ...]}"""
    found = collections.defaultdict(list)
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            *key, labels, error = line.split("\t")
            found[tuple(key)].append((int(labels), float(error)))
    return found


def run(args):
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMP_NUM_THREADS="1")
    low, high = map(int, args.seeds.split("-"))
    known, begin = read(args.file), time.monotonic()
    if not known:
        args.file.write_text("set\tseed\trows\tmethod\tlabels\terror\n", encoding="utf-8")
    for seed in range(low, high + 1):
        for name in args.sets.split(","):
            x, y = load(name)
            with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
                folder = pathlib.Path(folder)
                write_files(folder, x, y, 40 if name == "digits" else 20, seed)
                for key in ((name, str(seed), r, m) for r in ROWS for m in METHODS):
                    if key in known:
                        continue
                    points = curve(args, folder, name, seed, *key[2:])
                    with open(args.file, "a", encoding="utf-8") as f:
                        f.writelines("\t".join([*key, str(n), f"{e:.6g}"]) + "\n"
                                     for n, e in points)
        print(f"seed {seed}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)


def area(points):
    labels, error = zip(*points)
    pieces = (np.array(error[1:]) + error[:-1]) / 2 * np.diff(labels)
    return pieces.sum() / (labels[-1] - labels[0])


def show(args):
    found = read(args.file)
    sets = [s for s in SETS if any(k[0] == s for k in found)]
    seeds = sorted({k[1] for k in found}, key=int)
    pairs = [(("training", "penalty"), ("training", "top")),
             (("training", "top"), ("training", "random")),
             (("training", "penalty"), ("training", "random"))]
    print("| set | " + " | ".join(f"{a[1]}, {a[0]} / {b[1]}, {b[0]}" for a, b in pairs) + " |")
    print("|---" * (len(pairs) + 1) + "|")
    means = []
    for name in sets:
        cells, line = [], []
        for a, b in pairs:
            gain = 100 * np.log([area(found[name, s, *a]) / area(found[name, s, *b]) for s in seeds
                                 if (name, s, *a) in found and (name, s, *b) in found])
            line.append(gain.mean())
            cells.append(f"{gain.mean():+.1f} ({gain.std(ddof=1) / np.sqrt(len(gain)):.1f})")
        means.append(line)
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("| mean of the sets | " + " | ".join(
        f"{m:+.1f} ({s / np.sqrt(len(sets)):.1f})"
        for m, s in zip(np.mean(means, 0), np.std(means, 0, ddof=1))) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("verb", choices=("run", "show"))
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--tutti", type=pathlib.Path, default=ROOT / "build" / "tutti")
    p.add_argument("--seeds", default="1-10")
    p.add_argument("--sets", default=",".join(SETS))
    args = p.parse_args()
    run(args) if args.verb == "run" else show(args)


if __name__ == "__main__":
    main()
