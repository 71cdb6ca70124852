#!/usr/bin/env python3
"""What does a search gain? Default, `model: auto` and searches on the sets of studies/recipes.py.

  study.py run FILE.tsv [--tutti build/tutti] [--recipes a,b] [--splits 1-2] [--sets a,b]
  study.py show FILE.tsv [--base default]

Rows, splits, measures and the table are those of bench/studies/recipes.py. A search has the rows of
training and validation together, which it divides into folds; the others stop by the validation
rows, as they always do. No method sees a test row. CPU seconds are those of one thread, so that a
busy machine does not change the comparison.
"""
import pathlib
import sys

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "studies"))
import recipes

METHODS = {"default": {}, "auto": {"model": "auto"},
           "fast": {"search": {"preset": "fast"}}, "good": {"search": {"preset": "good"}},
           "plain-folds": {"train": {"resample": "kfold", "folds": 5}}}
SETS = "heating,concrete,yacht,friedman1-low,categorical,smooth2,diabetes,spirals"
plain_job, plain_write = recipes.job, recipes.write


def job(method, part, classes, split):
    made = plain_job({}, part, classes, split)
    made["train"].update(method.get("train", {}))
    if "model" in method:
        made["model"] = method["model"]
        made["ensembles"] = [{"name": "e"}]
    if "search" in method:
        made["search"] = method["search"]
        made["ensembles"] = [{"name": "e"}]
    if "search" in method or "train" in method:
        made["data"]["split"] = {"column": "both"}
    return made


def write(folder, name, split):
    part = plain_write(folder, name, split)
    with h5py.File(folder / "data.h5", "a") as f:
        f["both"] = np.where(part == 2, 2, 0)
    return part


def main():
    recipes.job, recipes.write, recipes.RECIPES = job, write, METHODS
    parser = recipes.study_arguments(__doc__, ("run", "show"), "file", METHODS, SETS.split(","))
    parser.add_argument("--base", default="default")
    args = parser.parse_args()
    {"run": recipes.run, "show": recipes.show}[args.what](args)


if __name__ == "__main__":
    main()
