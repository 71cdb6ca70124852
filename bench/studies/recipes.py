#!/usr/bin/env python3
"""Which recipe should a job get that does not name one? Recipes x data sets x splits, compared in pairs.

  recipes.py run FILE.tsv [--tutti build/tutti] [--recipes a,b] [--splits 1-2] [--sets a,b]
  recipes.py show FILE.tsv [--base old]

A recipe (RECIPES) is a list of options; what it does not say is the default of the program that runs.
Every set has 5 members and one thread; a split draws 10 % of the rows for validation and, from the
rest, half of the rows for the test, at most ROWS for training. `steps` is no option of tutti: the
study turns it into epochs by the training rows; `keep: last` leaves the validation rows out, so that
the last weights are kept; `recalibrate` is that of the section calibration. SETS: a name, its group
and where it comes from. "clean" is free of noise or nearly so, "noisy" and "classes" are what they
say. Generated sets are drawn by their name and the split, the others are examples/ and scikit-learn's
diabetes, breast cancer, wine recognition, digits.

`run` appends recipe, set, split, test error (rmse; classes: nll), nll, crps, the part of the rows in
the interval of 90 % (classes: accuracy) and CPU seconds; lines that are there already are skipped.
`show` prints, for each recipe that has sets of the base recipe, the geometric mean over the sets of
error / error of the base recipe (classes: of nll + FLOOR), paired by split, with the standard error
over the sets, by group; the worst set; for the regression sets the mean difference in nll, the
geometric mean of the crps ratios, the lowest, the mean and the highest interval; and the CPU
seconds of one split of all sets.
"""
import argparse
import collections
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import zlib

import h5py
import numpy as np

from campaign_defaults import load

ROWS = 4000  # at most, for training
FLOOR = 0.01  # added to the nll of classes: the ratio of two that are nearly 0 says nothing
NAMES = ("recipe", "set", "split", "error", "nll", "crps", "inside", "seconds")
OLD = {"learning_rate": 1e-2, "schedule": "constant", "batch_size": 32, "epochs": 300,
       "beta2": 0.999, "hidden": [64, 64]}
COSINE = {**OLD, "schedule": "cosine", "learning_rate": 2e-2}
DEEP = {**COSINE, "hidden": [64, 64, 64], "learning_rate": 5e-3}
RECIPES = {
    "default": {},
    "spread": {"recalibrate": "none"},
    "old": OLD,
    "cosine": COSINE,
    "cosine-steps": {**COSINE, "steps": 20000},
    "deep": DEEP,
    "deep-fast": {**DEEP, "learning_rate": 1e-2},
    "deep-slow-steps": {**DEEP, "learning_rate": 2e-3, "steps": 20000},
    "deep-steps": {**DEEP, "steps": 20000},
    "deep-steps-last": {**DEEP, "steps": 20000, "keep": "last"},
    "likelihood": {"loss": "gaussian_nll"},
    "likelihood-all": {"loss": "gaussian_nll", "recalibrate": "all"},
    "likelihood-exact": {"loss": "gaussian_nll", "nll_beta": 0},
    "decay": {"optimizer": "adamw", "weight_decay": 0.1, "steps": 20000, "most": 2000},
    "long": {"steps": 20000, "most": 2000},
    "deep-fast-steps": {**DEEP, "learning_rate": 1e-2, "steps": 20000},
    "deep-beta-steps": {**DEEP, "beta2": 0.95, "steps": 20000},
    "deep-decay-steps": {**DEEP, "steps": 20000, "optimizer": "adamw", "weight_decay": 0.1},
}


def uniform(r, rows, inputs, low=0.0, high=1.0):
    return r.uniform(low, high, (rows, inputs))


def friedman1(r, rows, noise):
    x = uniform(r, rows, 10)
    return x, (10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3]
               + 5 * x[:, 4] + noise * r.normal(size=rows))


def circuit(r, rows):
    """Resistance, frequency, inductance and capacity of Friedman 2 and 3, and the reactance."""
    x = uniform(r, rows, 4) * [100, 520 * np.pi, 1, 10] + [0, 40 * np.pi, 0, 1]
    return x, x[:, 1] * x[:, 2] - 1 / (x[:, 1] * x[:, 3])


def friedman2(r, rows, noise):
    x, z = circuit(r, rows)
    return x, np.hypot(x[:, 0], z) + noise * r.normal(size=rows)


def friedman3(r, rows, noise):
    x, z = circuit(r, rows)
    return x, np.arctan2(z, x[:, 0]) + noise * r.normal(size=rows)


def smooth(r, rows, inputs, noise=0.0):
    """A sum of waves along random directions; the same function in every split."""
    fixed = np.random.RandomState(inputs)
    w, p = fixed.normal(size=(inputs, 12)) * 2 / np.sqrt(inputs), fixed.uniform(0, 6.28, 12)
    x = uniform(r, rows, inputs, -1, 1)
    return x, np.sin(x @ w * 2 + p) @ fixed.normal(size=12) + noise * r.normal(size=rows)


def morse(r, rows):
    """Energy of a bent molecule of three atoms in its three distances."""
    x = 0.8 + 2.2 * uniform(r, rows, 3) ** 1.5
    return x, sum(d * ((1 - np.exp(-a * (x[:, i] - e))) ** 2 - 1)
                  for i, (d, a, e) in enumerate(((4.5, 1.9, 1.0), (4.5, 1.9, 1.0), (2.0, 1.5, 1.6))))


def lennard_jones(r, rows):
    """Energy of four atoms near a tetrahedron, from their six inverse distances' logarithms."""
    atoms = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(8) * 1.12
    p = atoms + r.normal(size=(rows, 4, 3)) * 0.08
    i, j = np.triu_indices(4, 1)
    d = np.linalg.norm(p[:, i] - p[:, j], axis=2)
    return d, np.minimum(4 * (d ** -12 - d ** -6).sum(1), 30)


def heteroscedastic(r, rows):
    x = uniform(r, rows, 3, -1, 1)
    return x, np.sin(3 * x[:, 0]) + x[:, 1] + np.exp(2 * x[:, 2] - 1.5) * r.normal(size=rows)


def heavy_tailed(r, rows):
    x = uniform(r, rows, 6, -1, 1)
    return x, np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.2 * r.standard_t(2, rows)


def categorical(r, rows):
    """Two columns of 5 and 8 levels, written as 0 and 1, each with its own offset and slope."""
    fixed, x = np.random.RandomState(7), uniform(r, rows, 4, -1, 1)
    a, b = r.randint(5, size=rows), r.randint(8, size=rows)
    y = fixed.normal(size=5)[a] + fixed.normal(size=8)[b] * x[:, 0] + x[:, 1] ** 2 * (a - 2)
    return np.hstack([x, np.eye(5)[a], np.eye(8)[b]]), y + 0.3 * r.normal(size=rows)


def wide(r, rows):
    x = r.normal(size=(rows, 60))
    return x, x[:, :6].sum(1) + x[:, 6] * x[:, 7] + np.abs(x[:, 8]) + r.normal(size=rows)


def spirals(r, rows):
    y, t = r.randint(3, size=rows), np.sqrt(r.uniform(0, 1, rows)) * 4
    angle = t + y * 2 * np.pi / 3
    return np.stack([t * np.cos(angle), t * np.sin(angle)], 1) + 0.15 * r.normal(size=(rows, 2)), y


def mixed_classes(r, rows):
    x = r.normal(size=(rows, 8))
    z = np.stack([x[:, 0] + x[:, 1] * x[:, 2], x[:, 3] - x[:, 4] ** 2, np.sin(2 * x[:, 5])], 1)
    return x, np.argmax(z + r.gumbel(size=z.shape) * 0.3, 1)


def sklearn(name):
    from sklearn import datasets
    return getattr(datasets, "load_" + name)(return_X_y=True)


SETS = {  # name: group, function of a random state
    "friedman1": ("clean", lambda r: friedman1(r, 1200, 0)),
    "friedman1-low": ("clean", lambda r: friedman1(r, 800, 0.1)),
    "friedman2": ("clean", lambda r: friedman2(r, 600, 0)),
    "friedman3": ("clean", lambda r: friedman3(r, 1600, 0)),
    "pendulum": ("clean", lambda r: load("pendulum")),
    "ridge": ("clean", lambda r: load("ridge")),
    "smooth2": ("clean", lambda r: smooth(r, 400, 2)),
    "smooth5": ("clean", lambda r: smooth(r, 2500, 5)),
    "smooth10": ("clean", lambda r: smooth(r, 4500, 10)),
    "morse": ("clean", lambda r: morse(r, 1500)),
    "lennard-jones": ("clean", lambda r: lennard_jones(r, 2500)),
    "heating": ("clean", lambda r: load("heating")),
    "yacht": ("clean", lambda r: load("yacht")),
    "cooling": ("noisy", lambda r: load("cooling")),
    "concrete": ("noisy", lambda r: load("concrete")),
    "diabetes": ("noisy", lambda r: sklearn("diabetes")),
    "friedman1-noise": ("noisy", lambda r: friedman1(r, 1000, 1)),
    "friedman2-noise": ("noisy", lambda r: friedman2(r, 1000, 125)),
    "friedman3-noise": ("noisy", lambda r: friedman3(r, 200, 0.1)),
    "heteroscedastic": ("noisy", lambda r: heteroscedastic(r, 1500)),
    "heavy-tailed": ("noisy", lambda r: heavy_tailed(r, 1000)),
    "categorical": ("noisy", lambda r: categorical(r, 1500)),
    "wide": ("noisy", lambda r: wide(r, 800)),
    "large": ("noisy", lambda r: smooth(r, 20000, 4, 0.1)),
    "digits": ("classes", lambda r: sklearn("digits")),
    "cancer": ("classes", lambda r: sklearn("breast_cancer")),
    "wine": ("classes", lambda r: sklearn("wine")),
    "spirals": ("classes", lambda r: spirals(r, 900)),
    "mixed": ("classes", lambda r: mixed_classes(r, 1500)),
}


def parts(rows, split, limit):
    """0 training, 1 validation, 2 test of each row."""
    order = np.random.RandomState(split).permutation(rows)
    validation, test = rows // 10, rows * 3 // 10
    part = np.full(rows, 2, "i1")
    part[order[:rows - test]] = 1
    part[order[:min(rows - test - validation, limit)]] = 0
    return part


def job(recipe, part, classes, split):
    train = {k: v for k, v in recipe.items() if k not in ("hidden", "steps", "most", "keep", "recalibrate")}
    if classes:
        train["loss"] = "cross_entropy"
    if "steps" in recipe:
        per_epoch = -(-int((part == 0).sum()) // recipe.get("batch_size", 32))
        train["epochs"] = min(max(1, recipe["steps"] // per_epoch), recipe.get("most", 2 ** 24))
    rows = {"column": "no_validation" if recipe.get("keep") == "last" else "part"}
    model = {"hidden": recipe["hidden"]} if "hidden" in recipe else {}
    fit = {"recalibrate": recipe["recalibrate"]} if "recalibrate" in recipe else {}
    return {"data": {"file": "data.h5", "split": rows}, "model": model, "train": train, "calibration": fit,
            "ensembles": [{"name": "e", "members": 5}],
            "run": {"seed": split, "device": "cpu", "threads": 1, "directory": "out"}}


def write(folder, name, split):
    x, y = SETS[name][1](np.random.RandomState(zlib.crc32(name.encode()) % 2 ** 20 + split))
    part = parts(len(x), split, 20000 if name == "large" else ROWS)
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = x, np.asarray(y, "f8")[:, None]
        f["part"], f["no_validation"] = part, np.where(part == 1, -1, part)
    return part


def measure(tutti, folder, recipe, name, part, split):
    classes = SETS[name][0] == "classes"
    (folder / "job.json").write_text(json.dumps(job(recipe, part, classes, split)))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([tutti, "train", "job.json", "-q", "--resume", "never"], cwd=folder,
                          capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 76):
        sys.exit(f"{name}: exit {done.returncode}\n{done.stderr}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with h5py.File(folder / "out/results.h5") as f:
        nll = f["ensemble_nll"][0]
        if classes:
            return nll, nll, np.nan, f["ensemble_accuracy"][0], seconds
        level = np.argmin(abs(f["coverage_level"][()] - 0.9))
        return (f["ensemble_rmse"][0], nll, f["ensemble_crps"][0], f["coverage"][level, 0],
                seconds)


def read(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.split("\t") for line in lines if not line.startswith(("#", "recipe"))]


def run(args):
    done = {tuple(line[:3]) for line in read(args.file)}
    if not args.file.exists():
        args.file.write_text("\t".join(NAMES) + "\n", encoding="utf-8")
    for split in splits(args):
        for name in args.sets.split(","):
            missing = [r for r in args.recipes.split(",") if (r, name, str(split)) not in done]
            with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
                folder = pathlib.Path(folder)
                part = write(folder, name, split) if missing else None
                for r in missing:
                    found = measure(str(args.tutti.resolve()), folder, RECIPES[r], name, part, split)
                    with open(args.file, "a", encoding="utf-8") as out:
                        out.write("\t".join([r, name, str(split), *(f"{v:.5g}" for v in found)])
                                  + "\n")


def ratio(logs):
    """Geometric mean of the sets' ratios with its standard error, as text."""
    if not logs:
        return "-"
    error = np.std(logs, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    return f"{np.exp(np.mean(logs)):.3f} ({np.exp(np.mean(logs)) * error:.3f})"


def compare(rows, base):
    """By set: means over the paired splits of ln error ratio, nll difference, ln crps ratio."""
    pairs = collections.defaultdict(list)
    for (name, split), (error, nll, crps, inside, seconds) in rows.items():
        if (name, split) not in base:
            continue
        other = base[name, split]
        floor = FLOOR if SETS[name][0] == "classes" else 0
        pairs[name].append((np.log((error + floor) / (other[0] + floor)), nll - other[1], np.log(crps / other[2]),
                            inside, seconds))
    return {name: np.mean(values, 0) for name, values in pairs.items()}


def show(args):
    found = collections.defaultdict(dict)
    for recipe, name, split, *values in read(args.file):
        found[recipe][name, split] = [float(v) for v in values]
    print(f"| recipe | all / {args.base} | clean | noisy | classes | worst | nll, regression | crps | "
          "inside 90 %: lowest | mean | highest | CPU s |\n|" + "---|" * 12)
    for recipe, rows in found.items():
        sets = compare(rows, found[args.base])
        if not sets:
            continue
        logs = {g: [v[0] for n, v in sets.items() if SETS[n][0] == g]
                for g in ("clean", "noisy", "classes")}
        numbers = [v for n, v in sets.items() if SETS[n][0] != "classes"]
        worst = max(sets, key=lambda n: sets[n][0])
        columns = np.array(numbers or [np.full(5, np.nan)]).T
        print(f"| {recipe} | {ratio([v[0] for v in sets.values()])} | "
              + " | ".join(ratio(v) for v in logs.values())
              + f" | {np.exp(sets[worst][0]):.2f} ({worst}) | {columns[1].mean():+.2f} | "
              f"{np.exp(columns[2].mean()):.3f} | {columns[3].min():.2f} | {columns[3].mean():.2f} | {columns[3].max():.2f} | "
              f"{sum(v[4] for v in sets.values()):.0f} ({len(sets)} sets) |")


def splits(args):
    first, last = (int(n) for n in args.splits.split("-"))
    return range(first, last + 1)


def study_arguments(text, what, file, recipes, sets):
    """The arguments that studies of recipes have in common."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=what)
    parser.add_argument(file, type=pathlib.Path)
    parser.add_argument("--tutti", type=pathlib.Path, default="build/tutti")
    parser.add_argument("--recipes", default=",".join(recipes))
    parser.add_argument("--splits", default="1-2")
    parser.add_argument("--sets", default=",".join(sets))
    return parser


def main():
    parser = study_arguments(__doc__, ("run", "show"), "file", RECIPES, SETS)
    parser.add_argument("--base", default="old")
    args = parser.parse_args()
    {"run": run, "show": show}[args.what](args)


if __name__ == "__main__":
    main()
