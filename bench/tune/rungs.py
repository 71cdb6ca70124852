#!/usr/bin/env python3
"""Do early rungs lie? How well the validation loss of a trial at a rung tells its loss at the end.

  rungs.py [SET,...] [--tutti build/tutti]

Sixteen configurations with three folds train to the end with each schedule: one cosine, and cycles of
a cosine that grow by 2 (ends at 1, 3, 7, 15 of 15) or by 3 (1, 4, 13 of 13). For each rung: Spearman
correlation of the lowest loss so far with that at the end over the configurations, and the loss of the
best one of those that would go on, divided by the loss of the best one of all. `best` and `mean of 3`
compare the schedules themselves; `error` is the test error of the greedy ensemble. Epochs are a sixth
of train.epochs: auto.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib

import h5py
import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "studies"))
import recipes

TRIALS, FOLDS = 16, 3
SCHEDULES = {"cosine": (0, (1 / 15, 3 / 15, 7 / 15), (1 / 2, 1 / 4, 1 / 4)),
             "growth 2": (2, (1 / 15, 3 / 15, 7 / 15), (1 / 2, 1 / 4, 1 / 4)),
             "growth 3": (3, (1 / 13, 4 / 13), (1 / 3, 1 / 4))}


def configuration(trial):
    r = np.random.RandomState(1000 + trial)
    hidden = [[64] * 3, [128] * 3, [128] * 2, [64] * 4, [256] * 3, [64] * 2][r.randint(6)]
    return {"model": {"hidden": hidden, "activation": ["silu", "gelu", "relu", "tanh", "elu"][r.randint(5)]},
            "train": {"optimizer": "adamw", "learning_rate": float(10 ** r.uniform(-3, -1.7)),
                      "weight_decay": float(10 ** r.uniform(-3, 0)), "batch_size": int([16, 32, 64, 128][r.randint(4)]),
                      "dropout": float([0, 0, 0.05, 0.1, 0.2][r.randint(5)])}}


def train(tutti, name, growth):
    """Validation losses [trial, fold, epoch], and the test error."""
    x, y = recipes.SETS[name][1](np.random.RandomState(zlib.crc32(name.encode()) + 1))
    part = recipes.parts(len(x), 1, recipes.ROWS)
    part[part == 1] = 0
    epochs = max(100, min(2000, 640000 // int((part == 0).sum()))) // 6
    schedule = {"schedule": "cosine"}
    if growth:
        units = sum(growth ** k for k in range({2: 4, 3: 3}[growth]))
        first = max(1, round(epochs / units))
        epochs = first * units
        schedule = {"schedule": "cosine_restarts", "schedule_step": first, "schedule_growth": growth}
    networks = [{"label": f"t{i}", "members": FOLDS, **configuration(i)} for i in range(TRIALS)]
    with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
        folder = pathlib.Path(folder)
        with h5py.File(folder / "data.h5", "w") as f:
            f["x"], f["y"], f["part"] = x, np.asarray(y).reshape(len(y), -1)[:, :1], part
        (folder / "job.json").write_text(json.dumps({
            "data": {"file": "data.h5", "split": {"column": "part"}}, "ensembles": [{"name": "a", "networks": networks}],
            "train": {"epochs": epochs, "resample": "kfold", "folds": FOLDS, "max_diverged": 1, **schedule},
            "combine": {"method": "greedy", "unit": "network"}, "run": {"directory": "out", "threads": 1}}))
        subprocess.run([tutti, "train", "job.json", "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with h5py.File(folder / "out/results.h5") as f:
            return f["loss_validation"][()].reshape(TRIALS, FOLDS, -1), f["ensemble_rmse"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="?", default="concrete,friedman1-low,categorical,heating")
    parser.add_argument("--tutti", default="build/tutti")
    args = parser.parse_args()
    for name in args.sets.split(","):
        for schedule, (growth, ends, parts) in SCHEDULES.items():
            loss, error = train(str(pathlib.Path(args.tutti).resolve()), name, growth)
            score = np.minimum.accumulate(np.where(np.isnan(loss), np.inf, loss), axis=2).mean(1)
            final = score[:, -1]
            text = f"{name:14s} {schedule:9s} best {final.min():.4g}  mean of 3 {np.sort(final)[:3].mean():.4g}  error {error:.4g} "
            for end, part in zip(ends, parts):
                at = score[:, max(1, round(end * score.shape[1])) - 1]
                kept = np.argsort(at)[:int(np.ceil(TRIALS * part))]
                text += f"  {end:.2f}: {spearmanr(at, final)[0]:.2f}, {final[kept].min() / final.min():.3f}"
            print(text, flush=True)


if __name__ == "__main__":
    main()
