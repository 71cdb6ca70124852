#!/usr/bin/env python3
"""A table of many groups for `by`, and a job for it: what training costs as the groups grow.

    python3 bench/groups.py 1000 60 groups.h5        # 1,000 groups of 60 rows
    python3 bench/groups.py 1000 zipf groups.h5      # of Zipf sizes, 100,000, 50,000, ... rows
    tutti train groups.yaml
"""
import sys

import h5py
import numpy as np

JOB = """by: station
data: {{file: {file}, inputs: [a, b, c, d, e], targets: [y]}}
model: {{hidden: [16, 16]}}
train: {{epochs: 200}}
ensembles: [{{name: all, members: 5}}]
run: {{directory: {file}.out}}
"""


def main(groups, size, file):
    rng = np.random.default_rng(1)
    if size == "zipf":
        sizes = np.maximum(1, (100000 / np.arange(1, groups + 1)).astype(int))
    else:
        sizes = np.full(groups, int(size))
    station = rng.permutation(np.repeat(np.arange(groups), sizes))
    x = rng.normal(size=(len(station), 5))
    slope, phase = rng.normal(size=(2, groups))
    y = slope[station] * x[:, 0] + np.sin(x[:, 1] + phase[station]) + x[:, 2] * x[:, 3]
    with h5py.File(file, "w") as f:
        f["station"], f["y"] = station, y + 0.1 * rng.normal(size=len(y))
        for k, name in enumerate("abcde"):
            f[name] = x[:, k]
    with open(file.removesuffix(".h5") + ".yaml", "w") as f:
        f.write(JOB.format(file=file))
    print(f"{file}: {groups} groups, {len(station)} rows")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
