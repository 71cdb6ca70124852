#!/usr/bin/env python3
"""Which recipes together make the best ensemble? Greedy forward choice over data sets.

  portfolio.py train CACHE [--tutti build/tutti] [--recipes a,b] [--splits 1-2] [--sets a,b]
  portfolio.py choose CACHE [--most 6] [--members 5] [--start default]
               [--unit member] [--out FILE.tsv]

Sets, splits, the five members and the one thread are those of recipes.py; a few sets are added whose
target depends on short lengths in one column. `train` keeps the predictions of every member for the
validation and the test rows in CACHE/recipe-set-split.npz (auto: of the ensemble). 
Recipes may be what no job can say yet: `trend` subtracts a ridge of the target on the inputs,
`encode: fourier` adds cosines and sines of random directions.

`choose` adds, one after the other, the recipe that makes the geometric mean over the sets of (test
error / error of the default recipe) lowest. The recipes, each the mean of its members, are weighted
by greedy selection with replacement on the validation rows, as combine: {method: greedy, unit:
network} does. Errors: rmse; for classes nll + 0.01. --out has those of every line that is printed.
`auto` is `model: auto` of the program itself.
"""
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import zlib

import h5py
import numpy as np

import recipes
from recipes import FLOOR, splits, uniform

ROWS = 2000  # at most, for training
PLE = {"front": ["ple 48"]}
DECAY = {"optimizer": "adamw", "weight_decay": 0.1}
RECIPES = {
    "default": {},
    "decay": DECAY,
    "long": {"times": 4},
    "small-batch": {"batch_size": 8},
    "tanh": {"activation": "tanh"},
    "trend": {"trend": True},
    "linear": {"hidden": [], "learning_rate": 1e-2},
    "relu": {"activation": "relu", "hidden": [128, 128]},
    "ple": PLE,
    "ple-16": {"front": ["ple 16"]},
    "ple-16-residual": {"front": ["ple 16"], "residual": True},
    "ple-16-decay-residual": {"front": ["ple 16"], "residual": True, **DECAY},
    "ple-residual": {**PLE, "residual": True},
    "ple-decay": {**PLE, **DECAY},
    "ple-decay-residual": {**PLE, **DECAY, "residual": True},
    "fourier": {"encode": "fourier"},
    "decay-small-batch": {**DECAY, "batch_size": 8},
    "gelu": {"activation": "gelu"},
    "sine": {"activation": "sine"},
    "lecun": {"init": "lecun_uniform"},
    "wide": {"hidden": [128, 128]},
    "four": {"hidden": [64, 64, 64, 64]},
    "fast": {"learning_rate": 1e-2},
    "beta2": {"beta2": 0.95},
    "residual": {"residual": True},
    "decay-residual": {**DECAY, "residual": True},
    "decay-sine": {**DECAY, "activation": "sine"},
    "residual-gelu": {"activation": "gelu", "residual": True},
    "decay-sine-residual": {**DECAY, "activation": "sine", "residual": True},
    "auto": {"auto": True},
    "auto-folds": {"auto": True, "resample": "kfold"},
}
MODEL = ("hidden", "activation", "init", "residual", "layer_norm", "front")


def sites(r, rows):
    """A column that is the number of a place, each with its own offset."""
    fixed, x = np.random.RandomState(3), uniform(r, rows, 5, -1, 1)
    place = r.randint(40, size=rows)
    y = fixed.normal(size=40)[place] + np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    return np.hstack([x, place[:, None]]), y + 0.05 * r.normal(size=rows)


def waves(r, rows):
    """Short waves in one of six columns."""
    x = uniform(r, rows, 6)
    return x, np.sin(40 * x[:, 0]) + x[:, 1] ** 2 + x[:, 2] * x[:, 3] + 0.01 * r.normal(size=rows)


SETS = {**{n: recipes.SETS[n] for n in (
    "friedman1", "friedman1-low", "friedman2", "friedman3", "smooth2", "morse", "heating", "yacht",
    "concrete", "diabetes", "friedman2-noise", "heteroscedastic", "heavy-tailed", "categorical",
    "wide", "lennard-jones", "spirals", "mixed", "wine", "cancer")},
    "smooth6": ("clean", lambda r: recipes.smooth(r, 1500, 6)),
    "sites": ("clean", lambda r: sites(r, 1500)),
    "waves": ("clean", lambda r: waves(r, 1500))}


def epochs(rows, classes, times):
    return int(np.clip(640000 // rows, 100, 2000) if not classes else 100) * times


def fourier(x, train, count=48):
    z = (x - x[train].mean(0)) / np.maximum(x[train].std(0), 1e-12)
    w = np.random.RandomState(5).normal(size=(x.shape[1], count)) / np.sqrt(x.shape[1]) * 2
    return np.hstack([np.cos(z @ w), np.sin(z @ w)])


def ridge(x, y, train):
    """The prediction of a ridge whose strength leave-one-out errors choose."""
    z = (x - x[train].mean(0)) / np.maximum(x[train].std(0), 1e-12)
    mean = y[train].mean()
    u, s, vt = np.linalg.svd(z[train], full_matrices=False)
    best = None
    for strength in 10.0 ** np.arange(-6, 4) * len(train):
        d = s ** 2 / (s ** 2 + strength)
        fit = u @ (d * (u.T @ (y[train] - mean)))
        hat = (u ** 2 @ d) + 1 / len(train)
        error = np.mean(((y[train] - mean - fit) / np.maximum(1 - hat, 1e-3)) ** 2)
        if best is None or error < best[0]:
            best = error, vt.T @ (s / (s ** 2 + strength) * (u.T @ (y[train] - mean)))
    return mean + z @ best[1]


def job(recipe, rows, classes, split):
    train = {k: v for k, v in recipe.items() if k not in (*MODEL, "times", "trend", "encode", "auto")}
    if classes:
        train["loss"] = "cross_entropy"
    if recipe.get("times"):
        train["epochs"] = epochs(rows, classes, recipe["times"])
    return {"data": {"file": "data.h5", "split": {"column": "part"}},
            "model": "auto" if "auto" in recipe else {k: v for k, v in recipe.items() if k in MODEL},
            "train": train,
            "ensembles": [{"name": "e", "members": 5}],
            "run": {"seed": split, "device": "cpu", "threads": 1, "directory": "out"}}


def write(folder, name, split, recipe):
    """Labels, the trend that was subtracted from them, the part of each row."""
    x, y = SETS[name][1](np.random.RandomState(zlib.crc32(name.encode()) % 2 ** 20 + split))
    part = recipes.parts(len(x), split, ROWS)
    rows = np.flatnonzero(part == 0)
    trend = ridge(x, y, rows) if recipe.get("trend") else np.zeros(len(x))
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"] = np.hstack([x, fourier(x, rows)]) if recipe.get("encode") else x
        f["y"] = (y - trend)[:, None]
        f["part"] = part
    return y, trend, part


def run(tutti, folder):
    """CPU seconds of a training."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([tutti, "train", "job.json", "-q", "--resume", "never"], cwd=folder,
                          capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 76):
        sys.exit(f"{folder}: exit {done.returncode}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def train_one(tutti, folder, name, split, recipe, file):
    classes = SETS[name][0] == "classes"
    y, trend, part = write(folder, name, split, recipe)
    (folder / "job.json").write_text(json.dumps(job(recipe, int((part == 0).sum()), classes, split)))
    seconds = run(tutti, folder)
    subprocess.run([tutti, "predict", "out/model.h5", "data.h5", "--members", "--force", "-q"],
                   cwd=folder, check=True)
    with h5py.File(folder / "pred.h5") as f:
        p = f["y_pred_mean"][()][None] if "auto" in recipe else f["y_member_mean"][()]
    if classes:  # the probability of the class of the row
        p = np.take_along_axis(p, y.astype(int)[None, :, None], 2)
    p = p[:, :, 0] + trend
    np.savez(file, validation=p[:, part == 1], test=p[:, part == 2], y=y[part == 1],
             y_test=y[part == 2], seconds=seconds)


def train(args):
    args.cache.mkdir(exist_ok=True)
    for split in splits(args):
        for recipe in args.recipes.split(","):
            for name in args.sets.split(","):
                file = args.cache / f"{recipe}-{name}-{split}.npz"
                if file.exists() or (RECIPES[recipe].get("trend") and SETS[name][0] == "classes"):
                    continue
                with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
                    train_one(str(args.tutti.resolve()), pathlib.Path(folder), name, split,
                              RECIPES[recipe], file)


def loss(p, y, classes):
    """Of predictions [..., rows]: mean squared error; classes: nll."""
    return -np.log(np.maximum(p, 1e-12)).mean(-1) if classes else ((p - y) ** 2).mean(-1)


def error(p, y, classes):
    return loss(p, y, classes) + FLOOR if classes else np.sqrt(loss(p, y, classes))


def greedy(p, y, classes, rounds=50):
    """Times that each of the recipes p [recipes, rows] is taken in the best of the sets."""
    total, count, best = np.zeros(p.shape[1]), np.zeros(len(p)), (np.inf, None)
    for n in range(rounds):
        each = loss((total + p) / (n + 1), y, classes)
        i = int(np.nanargmin(each))
        total, count[i] = total + p[i], count[i] + 1
        if each[i] < best[0]:
            best = each[i], count.copy()
    return best[1]


class Cache:
    def __init__(self, folder, members, unit):
        self.data, self.unit = {}, unit
        for file in sorted(folder.glob("*.npz")):
            rest, split = file.stem.rsplit("-", 1)
            name = max((n for n in SETS if rest.endswith("-" + n)), key=len)
            with np.load(file) as f:
                self.data[rest[:-len(name) - 1], name, split] = {
                    k: f[k][:members] if f[k].ndim == 2 else f[k] for k in f}

    def pairs(self, recipe):
        return {(n, s) for r, n, s in self.data if r == recipe}

    def error(self, chosen, name, split):
        """Test error of the means of the recipes' members, weighted by greedy selection."""
        classes = SETS[name][0] == "classes"
        found = [self.data[r, name, split] for r in chosen if (r, name, split) in self.data]
        join = np.concatenate if self.unit == "member" else lambda all: np.stack([p.mean(0) for p in all])
        w = greedy(join([f["validation"] for f in found]), found[0]["y"], classes)
        test = join([f["test"] for f in found])
        return error(w @ test / w.sum(), found[0]["y_test"], classes)

    def plain(self, recipe, name, split):
        f = self.data[recipe, name, split]
        return error(f["test"].mean(0), f["y_test"], SETS[name][0] == "classes")

    def seconds(self, chosen, name, split):
        return sum(float(self.data[r, name, split]["seconds"]) for r in chosen
                   if (r, name, split) in self.data)


def logs_by_set(pairs, value):
    sets = {}
    for name, split in pairs:
        sets.setdefault(name, []).append(np.log(value(name, split)))
    return {n: float(np.mean(v)) for n, v in sets.items()}


class Report:
    """Prints a line for recipes and appends their errors to a file: a column for each pair."""

    def __init__(self, cache, pairs, file):
        self.cache, self.pairs, self.file = cache, sorted(pairs), file
        self.plain = {p: cache.plain("default", *p) for p in pairs}
        if file:
            file.write_text("recipes\tset\tsplit\terror\terror of default\tCPU s\n", encoding="utf-8")

    def put(self, title, chosen, value):
        """value: the errors by (set, split). Returns the mean of the logarithms of their ratios."""
        logs = logs_by_set(value, lambda n, s: value[n, s] / self.plain[n, s])
        cost = [sum(self.cache.seconds(r, *p) for p in value) for r in (chosen, ["default"])]
        worst = max(logs, key=logs.get)
        means = [np.exp(np.mean([v for n, v in logs.items() if g in (SETS[n][0], "all")] or [np.nan]))
                 for g in ("all", "clean", "noisy", "classes")]
        print(f"| {title} | " + " | ".join(f"{m:.3f}" for m in means)
              + f" | {np.exp(logs[worst]):.2f} ({worst}) | {cost[0] / cost[1]:.1f} |", flush=True)
        with open(self.file or "/dev/null", "a", encoding="utf-8") as out:
            for (n, s), v in sorted(value.items()):
                out.write(f"{title}\t{n}\t{s}\t{v:.5g}\t{self.plain[n, s]:.5g}\t"
                          f"{self.cache.seconds(chosen, n, s):.2f}\n")


def choose(args):
    cache = Cache(args.cache, args.members, args.unit)
    base = {p for p in cache.pairs("default") if int(p[1]) in splits(args)}
    numbers = {p for p in base if SETS[p[0]][0] != "classes"}
    known = [r for r in args.recipes.split(",") if numbers <= cache.pairs(r)]
    report = Report(cache, base, args.out)
    print(f"{len(base)} pairs of a set and a split; errors / plain mean of the default recipe\n"
          "| recipes | all | clean | noisy | classes | worst | CPU |\n|---|---|---|---|---|---|---|")
    for r in args.recipes.split(","):
        pairs = base & cache.pairs(r)
        if pairs:
            report.put(f"{r}, plain" + f" ({len(pairs)})" * (pairs != base), [r],
                       {p: cache.plain(r, *p) for p in pairs})
    chosen = args.start.split(",") if args.start else []
    while len(chosen) < args.most and set(known) - set(chosen):
        found = []
        for r in set(known) - set(chosen):
            value = {p: cache.error([*chosen, r], *p) for p in base}
            logs = logs_by_set(base, lambda n, s: value[n, s] / report.plain[n, s])
            found.append((np.mean(list(logs.values())), r, value))
        for _, r, value in sorted(found, key=lambda f: f[:2])[:4]:
            report.put(" + ".join([*chosen, r]), [*chosen, r], value)
        chosen.append(min(found, key=lambda f: f[:2])[1])


def main():
    parser = recipes.study_arguments(__doc__, ("train", "choose"), "cache", RECIPES, SETS)
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--start", default="default")
    parser.add_argument("--unit", choices=("network", "member"), default="network")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    {"train": train, "choose": choose}[args.what](args)


if __name__ == "__main__":
    main()
