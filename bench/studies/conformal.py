#!/usr/bin/python3
"""Coverage of conformal intervals, by `tutti train` on new splits.

  conformal.py --data concrete.h5 [--tutti build/tutti] [--splits 20] [--output FILE.jsonl]

Every split trains the deep ensemble of deep_ensembles.py (5 members, one hidden layer of 50)
on 60 % of the rows, learns 90 % intervals on 20 % (the same rows select the best epoch of each
member, which slightly lowers the coverage), and counts the rows inside among the other 20 %. Prints
one line for each split and the mean, with the coverage of the Gaussian intervals of the same
predictions. Exit 1 if the mean coverage is not between 88 and 92 %.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import h5py

JOB = """\
data:      {{file: '{data}', split: {{train: 0.6, validation: 0.2, test: 0.2, seed: {seed}}}}}
model:     {{hidden: [50], activation: relu}}
ensembles: [{{name: ensemble, members: 5}}]
train:     {{loss: gaussian_nll, nll_beta: 0, learning_rate: 0.01, schedule: constant,
            batch_size: 100, epochs: 40}}
calibration: {{conformal: [0.9]}}
run:       {{seed: {seed}, device: cpu, threads: {threads}, directory: '{out}'}}
"""


def run_split(args, seed, folder):
    out, job = folder / "out", folder / "job.yaml"
    job.write_text(JOB.format(data=args.data.resolve(), seed=seed, threads=args.threads, out=out))
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [str(args.tutti.resolve()), "train", str(job), "-q", "--resume", "never"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"split {seed}: exit {done.returncode}\n{done.stderr}")
    with h5py.File(out / "results.h5") as f, h5py.File(out / "model.h5") as m:
        return {"seed": seed,
                "conformal_coverage": float(f["conformal_coverage"][0, 0]),
                "gaussian_coverage": float(f["coverage"][1, 0]),
                "width_sd": float(m["calibration/conformal_width"][0, 0]),
                "learned_rows": int(m["calibration/rows"][0]),
                "test_rows": int(f["test_rows"][0]),
                "rmse": float(f["ensemble_rmse"][0])}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, default=pathlib.Path("build/tutti"))
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, help="append one JSON line for each split")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="tutti-conformal-") as folder:
        for seed in range(1, args.splits + 1):
            found.append(run_split(args, seed, pathlib.Path(folder)))
            print("split {seed}: {conformal_coverage:.3f} inside the 90 % interval, "
                  "{gaussian_coverage:.3f} inside the Gaussian one".format(**found[-1]))
    if args.output:
        with open(args.output, "a") as f:
            f.writelines(json.dumps(one) + "\n" for one in found)
    mean = statistics.mean(one["conformal_coverage"] for one in found)
    plain = statistics.mean(one["gaussian_coverage"] for one in found)
    print(f"mean of {len(found)} splits: {100 * mean:.2f} % "
          f"(Gaussian intervals {100 * plain:.2f} %)")
    sys.exit(0 if 0.88 <= mean <= 0.92 else 1)


if __name__ == "__main__":
    main()
