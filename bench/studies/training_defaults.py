#!/usr/bin/python3
"""Which defaults should training have? Loss, learning rate, schedule, batch size and epochs compared
on the example data sets by `tutti train`.

  training_defaults.py run FILE.tsv [--tutti build/tutti] [--seeds 1-3] [--sets a,b]
  training_defaults.py show FILE.tsv

Protocol: 5 members with two hidden layers of 64 silu (the default), Adam, rows split 0.8, 0.1, 0.1 at
random by the seed, standard normalization, the weights of the best epoch. All combinations of LOSSES,
RATES, SCHEDULES, BATCHES and EPOCHS; for classes the loss is cross_entropy.

`run` appends one line per combination: set, seed, loss, rate, schedule, batch, epochs, rmse, nll and
the fraction of the test rows inside the interval of 90 % (classes: nll, and the accuracy in the place
of the rmse). Seeds and sets that are in FILE already are skipped. `show` prints for each combination
the geometric mean over the sets of rmse / best rmse of the set (means over seeds; classes: nll), the
worst of these ratios with its set, the mean of nll - best nll, and the lowest and the mean coverage.
"""
import argparse
import collections
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

from campaign_defaults import load

SETS = ("concrete", "heating", "cooling", "yacht", "friedman", "ridge", "pendulum", "digits")
LOSSES, RATES = ("mse", "gaussian_nll", "beta_nll"), (1e-3, 3e-3, 1e-2, 2e-2)
SCHEDULES, BATCHES, EPOCHS = ("constant", "cosine"), (16, 32, 64), (100, 300)
NAMES = ("set", "seed", "loss", "rate", "schedule", "batch", "epochs", "rmse", "nll", "inside")
LEVEL = 1  # of coverage in results.h5: 90 %


def combinations(name):
    losses = ("cross_entropy",) if name == "digits" else LOSSES
    return list(itertools.product(losses, RATES, SCHEDULES, BATCHES, EPOCHS))


def job(cases, seed):
    ensembles = [{"name": f"e{i}", "members": 5,
                  "train": {"loss": loss, "learning_rate": rate, "schedule": schedule,
                            "batch_size": batch, "epochs": epochs}}
                 for i, (loss, rate, schedule, batch, epochs) in enumerate(cases)]
    return json.dumps({
        "data": {"file": "data.h5", "split": {"train": 0.8, "validation": 0.1, "test": 0.1,
                                              "seed": seed}},
        "train": {"max_diverged": 1}, "ensembles": ensembles, "run": {"seed": seed, "device": "cpu"}})


def measure(args, folder, name, seed):
    x, y = load(name)
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = x, y[:, None]
    cases = combinations(name)
    (folder / "job.yaml").write_text(job(cases, seed))
    done = subprocess.run([str(args.tutti.resolve()), "train", "job.yaml", "-q", "--resume", "never"],
                          cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name}, seed {seed}: exit {done.returncode}\n{done.stderr}")
    with h5py.File(folder / "out/results.h5", "r") as f:
        which = {text.tobytes().decode().rstrip(" \0"): i
                 for i, text in reversed(list(enumerate(f["column_ensemble"][()])))}
        columns = [which[f"e{i}"] for i in range(len(cases))]
        if name == "digits":
            found = zip(f["ensemble_accuracy"][()][columns], f["ensemble_nll"][()][columns],
                        itertools.repeat(np.nan))
        else:
            found = zip(f["ensemble_rmse"][()][columns], f["ensemble_mixture_nll"][()][columns],
                        f["coverage"][LEVEL][columns])
        return [(name, seed, *case, *numbers) for case, numbers in zip(cases, found)]


def read(path):
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    return [tuple(line.split("\t")) for line in lines]


def run(args):
    done = {line[:2] for line in read(args.file)}
    if not args.file.exists():
        args.file.write_text("\t".join(NAMES) + "\n", encoding="utf-8")
    first, last = (int(n) for n in args.seeds.split("-"))
    for seed, name in itertools.product(range(first, last + 1), args.sets.split(",")):
        if (name, str(seed)) in done:
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
            found = measure(args, pathlib.Path(folder), name, seed)
        with open(args.file, "a", encoding="utf-8") as out:
            for line in found:
                out.write("\t".join([*map(str, line[:7]), *(f"{v:.5g}" for v in line[7:])]) + "\n")
        print(f"{name}, seed {seed}: {time.monotonic() - begin:.0f} s", flush=True)


def means(lines):
    """{combination: {set: (error, nll, coverage)}}, means over the seeds."""
    numbers = collections.defaultdict(list)
    for line in lines:
        values = [float(v) for v in line[7:]]
        error = values[1] if line[0] == "digits" else values[0]
        numbers[line[0], line[2:7]].append((error, *values[1:]))
    found = collections.defaultdict(dict)
    for (name, case), values in numbers.items():
        found[case][name] = np.nan_to_num(np.mean(values, 0), nan=np.inf)
    return found


def show(args):
    found = means(read(args.file))
    classes = {case[1:]: sets["digits"] for case, sets in found.items() if "digits" in sets}
    best = collections.defaultdict(lambda: np.full(2, np.inf))
    for sets in found.values():
        for name, values in sets.items():
            best[name] = np.minimum(best[name], values[:2])
    rows = []
    for case, sets in found.items():
        if "digits" in sets:
            continue
        ratio = {name: values[0] / best[name][0] for name, values in sets.items()}
        if case[1:] in classes:
            ratio["digits"] = classes[case[1:]][0] / best["digits"][0]
        behind = np.mean([values[1] - best[name][1] for name, values in sets.items()])
        inside = [values[2] for values in sets.values()]
        worst = max(ratio, key=ratio.get)
        rows.append((np.exp(np.mean(np.log(list(ratio.values())))), ratio[worst], worst, behind,
                     min(inside), np.mean(inside), case))
    print("| loss, rate, schedule, batch, epochs | rmse / best | worst | nll - best | inside 90 %: "
          "lowest | mean |\n|---|---|---|---|---|---|")
    for mean, most, worst, behind, low, inside, case in sorted(rows):
        print(f"| {', '.join(case)} | {mean:.3f} | {most:.2f} ({worst}) | {behind:.2f} | {low:.2f} | "
              f"{inside:.2f} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--tutti", type=pathlib.Path, default="build/tutti")
    parser.add_argument("--seeds", default="1-3")
    parser.add_argument("--sets", default=",".join(SETS))
    args = parser.parse_args()
    {"run": run, "show": show}[args.what](args)


if __name__ == "__main__":
    main()
