#!/usr/bin/env python3
"""What a job that says nothing, and `model: auto`, reach beside the defaults of other programs.

  peers.py run FILE.jsonl [--tutti build/tutti] [--recipes a,b] [--splits 1-2] [--sets a,b]
  peers.py show FILE.jsonl

Sets, splits and training rows are those of portfolio.py, one thread each. Needs h5py, pytabkit
1.7.3 (RealMLP-TD), catboost 1.2.10 and scikit-learn 1.9.1. Networks and catboost have the
validation rows to choose the epoch (iteration); HistGradientBoosting and the Gaussian process
(lengths for each column and a noise, fitted to at most 1,000 rows) train on them too.

`run` appends a line for each method, set and split: rmse and crps (null: no distribution) of the
test rows, CPU seconds of fit and prediction without imports; lines that are there are skipped.
`show` prints the ratios of the rmse to the lowest of a set and split, their geometric mean over the
sets, the mean rank, the ratios of the crps and the CPU seconds.
"""
import json
import pathlib
import resource
import sys
import tempfile
import warnings

import h5py
import numpy as np

import portfolio
import recipes

TUTTI = {"default": {}, "auto": {"auto": True}}
NAMES = ("friedman1,friedman2,friedman3,smooth2,smooth6,morse,lennard-jones,heating,yacht,waves,"
         "concrete,diabetes,heteroscedastic,sites")


def realmlp(x, y, part, seed):
    from pytabkit import RealMLP_TD_Regressor
    model = RealMLP_TD_Regressor(device="cpu", n_threads=1, random_state=seed, n_cv=1)
    rows = np.flatnonzero(part < 2)
    model.fit(x[rows], y[rows], val_idxs=np.flatnonzero(part[rows] == 1))
    return model.predict(x[part == 2]).ravel(), None


def catboost(x, y, part, seed):
    from catboost import CatBoostRegressor
    model = CatBoostRegressor(thread_count=1, random_seed=seed, verbose=0,
                              allow_writing_files=False)
    model.fit(x[part == 0], y[part == 0], eval_set=(x[part == 1], y[part == 1]))
    return model.predict(x[part == 2]), None


def boosting(x, y, part, seed):
    from sklearn.ensemble import HistGradientBoostingRegressor
    model = HistGradientBoostingRegressor(random_state=seed).fit(x[part < 2], y[part < 2])
    return model.predict(x[part == 2]), None


def process(x, y, part, _):
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels as k
    scale = np.maximum(x[part < 2].std(0), 1e-12)
    x, mean, width = (x - x[part < 2].mean(0)) / scale, y[part < 2].mean(), y[part < 2].std()
    kernel = (k.ConstantKernel(1.0, (1e-3, 1e5)) * k.RBF(np.full(x.shape[1], 2.0), (1e-2, 1e4))
              + k.WhiteKernel(1e-2, (1e-9, 1e1)))
    rows, z = np.flatnonzero(part < 2), (y - mean) / width
    fit = GaussianProcessRegressor(kernel, alpha=1e-9).fit(x[rows[:1000]], z[rows[:1000]])
    fit = GaussianProcessRegressor(fit.kernel_, alpha=1e-9, optimizer=None).fit(x[rows], z[rows])
    p, deviation = fit.predict(x[part == 2], return_std=True)
    return p * width + mean, deviation * width


PEERS = {"RealMLP-TD": realmlp, "CatBoost": catboost, "HistGradientBoosting": boosting,
         "Gaussian process": process}


def crps(p, deviation, y):
    """Of a Gaussian (Gneiting & Raftery 2007)."""
    from scipy.stats import norm
    z = (y - p) / deviation
    return float(np.mean(deviation * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - np.pi ** -0.5)))


def measure(args, method, name, split):
    """rmse, crps or None, CPU seconds."""
    with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
        folder, recipe = pathlib.Path(folder), TUTTI.get(method, {})
        y, _, part = portfolio.write(folder, name, split, recipe)
        if method in TUTTI:
            job = portfolio.job(recipe, int((part == 0).sum()), False, split)
            (folder / "job.json").write_text(json.dumps(job))
            seconds = portfolio.run(str(args.tutti.resolve()), folder)
            with h5py.File(folder / "out/results.h5") as f:
                return float(f["ensemble_rmse"][0]), float(f["ensemble_crps"][0]), seconds
        with h5py.File(folder / "data.h5") as f:
            x = f["x"][()]
    before = resource.getrusage(resource.RUSAGE_SELF)
    p, deviation = PEERS[method](x, y, part, split)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rmse = float(np.sqrt(np.mean((p - y[part == 2]) ** 2)))
    return rmse, None if deviation is None else crps(p, deviation, y[part == 2]), seconds


def read(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(d["set"], d["split"], d["method"]): d for d in map(json.loads, lines)}


def run(args, values):
    """Append a line for each method, set and split that the file lacks, with values(method, set, split, lines)."""
    warnings.filterwarnings("ignore")
    done = read(args.file)
    for split in recipes.splits(args):
        for name in args.sets.split(","):
            for method in args.recipes.split(","):
                if (name, split, method) in done:
                    continue
                line = {"method": method, "set": name, "split": split, **values(method, name, split, done)}
                done[name, split, method] = line
                with open(args.file, "a", encoding="utf-8") as out:
                    out.write(json.dumps(line) + "\n")


def run_peers(args):
    import catboost as _, pytabkit as _, sklearn.gaussian_process as _  # noqa: not in the seconds

    def values(method, name, split, _):
        rmse, score, seconds = measure(args, method, name, split)
        return {"rmse": rmse, "crps": score, "seconds": round(seconds, 2)}
    run(args, values)


def by_set(found, method, pairs, key):
    """Geometric means over the splits of value / lowest value of all methods."""
    logs = {}
    for name, split in pairs:
        lowest = min(d[key] for (n, s, _), d in found.items() if (n, s) == (name, split) and d[key])
        logs.setdefault(name, []).append(np.log(found[name, split, method][key] / lowest))
    return {n: float(np.exp(np.mean(v))) for n, v in logs.items()}


def geometric_mean(sets):
    return f"{np.exp(np.mean(np.log(list(sets.values())))):.3f}"


def show(args):
    found = read(args.file)
    methods = [m for m in args.recipes.split(",") if any(k[2] == m for k in found)]
    found = {k: d for k, d in found.items() if k[2] in methods and k[0] in args.sets.split(",")}
    pairs = sorted({k[:2] for k in found if all((*k[:2], m) in found for m in methods)})
    found = {k: d for k, d in found.items() if k[:2] in pairs}
    rows = {m: by_set(found, m, pairs, "rmse") for m in methods}
    ranks = [np.argsort(np.argsort([found[*p, m]["rmse"] for m in methods])) + 1 for p in pairs]
    print(f"{len(pairs)} pairs of a set and a split\n| set | " + " | ".join(methods) + " |\n|"
          + "---|" * (len(methods) + 1))
    for name in rows[methods[0]]:
        print(f"| {name} | " + " | ".join(f"{rows[m][name]:.2f}" for m in methods) + " |")

    def line(title, values):
        print(f"| {title} | " + " | ".join(values) + " |")
    line("geometric mean", [geometric_mean(rows[m]) for m in methods])
    line("mean rank", [f"{r:.1f}" for r in np.mean(ranks, 0)])
    scored = [found[*pairs[0], m]["crps"] for m in methods]
    line("crps", [geometric_mean(by_set(found, m, pairs, "crps")) if has else "-"
                  for m, has in zip(methods, scored)])
    line("CPU s", [f"{sum(found[*p, m]['seconds'] for p in pairs):.0f}" for m in methods])


def main():
    parser = recipes.study_arguments(__doc__, ("run", "show"), "file", [*TUTTI, *PEERS],
                                     NAMES.split(","))
    args = parser.parse_args()
    {"run": run_peers, "show": show}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
