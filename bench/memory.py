#!/usr/bin/python3
"""Peak memory of a rank (VmHWM), as `tutti plan` says it and as measured.

  memory.py [--tutti build/tutti] [--ranks 1,2] [JOB...]

Trains jobs of random data, each large in another way, and prints a table. JOB: only these. Exit 1
if a plan is off by more than 10 %, or 4 MiB.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

WITHIN, SMALL = 0.10, 4 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# name: rows, inputs, members, hidden layers, options of train
JOBS = {
    "small": (240, 4, 7, [16, 16], {}),
    "tiny": (4000, 4, 400, [16], {}),
    "usual": (10000, 8, 32, [64, 64], {"batch_size": 64}),
    "members": (1000, 4, 100000, [16, 16], {}),
    "weights": (1000, 16, 20, [512, 512], {}),
    "sgd": (1000, 16, 20, [1024, 1024], {"optimizer": "sgd"}),
    "data": (2000000, 24, 4, [16], {"batch_size": 4096}),
    "folds": (200000, 20, 5, [4], {"batch_size": 4096, "resample": "kfold"}),
    "bootstrap": (20000, 8, 3000, [32], {"resample": "bootstrap"}),
    "history": (200, 4, 3000, [8], {"epochs": 2000, "batch_size": 160, "patience": 1})}


def as_rank(folder, command):
    """Run one rank and record its peak."""
    child = subprocess.Popen(command)
    _, status, used = os.wait4(child.pid, 0)
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0"))
    pathlib.Path(folder, f"rank-{rank}").write_text(str(used.ru_maxrss * 1024))
    return os.waitstatus_to_exitcode(status)


def write_job(folder, name):
    import h5py
    import numpy as np
    rows, inputs, members, hidden, train = JOBS[name]
    draw = np.random.default_rng(1)
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = draw.random((rows, inputs), "f4"), draw.random((rows, 1), "f4")
    options = {"epochs": 1, "batch_size": 32, **train}
    (folder / "job.yaml").write_text(
        f"data: {{file: data.h5}}\nmodel: {{hidden: {hidden}}}\n"
        f"ensembles: [{{name: only, members: {members}}}]\ntrain: {json.dumps(options)}\n"
        "run: {device: cpu, threads: 1, directory: out}\n")


def measure(args, folder, ranks):
    """Bytes of the plan, and of the rank that used most."""
    plan = subprocess.run([args.tutti, "plan", "job.yaml", "--ranks", str(ranks)], cwd=folder,
                          check=True, capture_output=True, text=True).stdout
    number, unit = re.search(r"^  peak +([\d.]+) (\w+)$", plan, re.M).groups()
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMP_NUM_THREADS="1", TMPDIR=str(folder))
    launcher = ["mpirun", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    subprocess.run([*launcher, sys.executable, os.path.abspath(__file__), "--rank", folder,
                    args.tutti, "train", "job.yaml", "-q"], cwd=folder, env=env, check=True,
                   stdout=subprocess.DEVNULL)
    return float(number) * UNITS[unit], max(int(f.read_text()) for f in folder.glob("rank-*"))


def main():
    if sys.argv[1:2] == ["--rank"]:
        sys.exit(as_rank(sys.argv[2], sys.argv[3:]))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default="build/tutti", type=os.path.abspath)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("jobs", nargs="*")
    args = parser.parse_args()
    worst = 0
    print("| job | ranks | plan, MiB | measured, MiB | plan / measured |\n|---|---|---|---|---|")
    for name in args.jobs or JOBS:
        for ranks in map(int, args.ranks.split(",")):
            with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
                write_job(pathlib.Path(folder), name)
                plan, used = measure(args, pathlib.Path(folder), ranks)
            print(f"| {name} | {ranks} | {plan / 2**20:.1f} | {used / 2**20:.1f} "
                  f"| {plan / used:.2f} |", flush=True)
            worst = max(worst, abs(plan - used) / max(WITHIN * used, SMALL))
    sys.exit(worst > 1)


if __name__ == "__main__":
    main()
