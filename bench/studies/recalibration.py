#!/usr/bin/python3
"""Intervals with and without calibration.recalibrate, on four data sets of examples/.

  recalibration.py run FILE.tsv [--tutti build/tutti] [--splits 1-10]
  recalibration.py show FILE.tsv

Protocol: 5 members of two layers of 64, 300 epochs at the learning rate 0.01, 32 rows a step; 80 %
training, 10 % validation and 10 % test rows. The validation rows choose the best epoch of each member, and the factor of the recalibration.
`run` appends set, loss, recalibrate, split, rmse, nll, part of the test rows inside the 90 % interval
and z_rms of the ensemble; `show` prints the means over the splits.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import h5py
import numpy as np

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SETS = {"concrete": ("concrete/concrete.csv", "compressive_strength", []),
        "yacht": ("yacht/yacht.csv", "residuary_resistance", []),
        "heating": ("energy/energy.csv", "heating_load", ["!cooling_load"]),
        "cooling": ("energy/energy.csv", "cooling_load", ["!heating_load"])}
LOSSES = ("mse", "gaussian_nll")
TRAIN = {"nll_beta": 0, "learning_rate": 1e-2, "schedule": "constant", "epochs": 300}


def scores(tutti, name, loss, recalibrate, split):
    table, target, without = SETS[name]
    job = {"data": {"file": str(EXAMPLES / table), "inputs": ["*", *without], "targets": target,
                    "split": {"seed": split}},
           "ensembles": [{"name": name, "target": target}], "train": {**TRAIN, "loss": loss}, "model": {"hidden": [64, 64]},
           "calibration": {"recalibrate": recalibrate},
           "run": {"seed": split, "device": "cpu", "directory": "out"}}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "job.json").write_text(json.dumps(job))
        subprocess.run([tutti, "train", "-q", "job.json"], cwd=folder, check=True,
                       capture_output=True)
        with h5py.File(f"{folder}/out/results.h5") as f:
            level = np.argmin(abs(f["coverage_level"][()] - 0.9))
            return (f["ensemble_rmse"][0], f["ensemble_nll"][0], f["coverage"][level, 0],
                    f["ensemble_z_rms"][0])


def run(args):
    first, last = (int(s) for s in args.splits.split("-"))
    for name in SETS:
        for loss in LOSSES:
            for recalibrate in (False, True):
                for split in range(first, last + 1):
                    found = scores(args.tutti, name, loss, recalibrate, split)
                    row = "\t".join(f"{v:.6g}" for v in found)
                    with open(args.file, "a") as f:
                        f.write(f"{name}\t{loss}\t{int(recalibrate)}\t{split}\t{row}\n")


def show(args):
    rows = [line.split("\t") for line in open(args.file) if not line.startswith("#")]
    for loss in LOSSES:
        for recalibrate in ("0", "1"):
            for name in SETS:
                own = np.array([r[4:] for r in rows if r[:3] == [name, loss, recalibrate]], float)
                rmse, nll, inside, z_rms = own.mean(0)
                print(f"{loss:12} recalibrate {recalibrate} {name:9} rmse {rmse:.3f}  nll {nll:7.3f}"
                      f"  inside 90 % {inside:.3f}  z_rms {z_rms:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("file")
    parser.add_argument("--tutti", default=str(EXAMPLES.parent / "build/tutti"))
    parser.add_argument("--splits", default="1-10")
    args = parser.parse_args()
    args.tutti = str(pathlib.Path(args.tutti).resolve())
    {"run": run, "show": show}[args.what](args)


if __name__ == "__main__":
    main()
