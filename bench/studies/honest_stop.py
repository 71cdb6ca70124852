#!/usr/bin/python3
"""Is the error at which stop.error ends a campaign the true one?

  honest_stop.py FILE.tsv [--tutti build/tutti] [--seeds 1-20]

A smooth function with noise of four inputs: 40 labels at first, 20 more a round chosen by the
ensemble, 50 drawn at random for stop.error, whose bound ends the campaign; the truth is the rmse of
the same model on 4,000 test rows. Prints a line for each seed, which draws everything, and how many
of the errors are within two of their standard errors of the truth.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

JOB = """\
data: {{file: data.h5, split: {{column: split}}}}
model: {{hidden: [48, 48]}}
train: {{epochs: 200, batch_size: 16}}
ensembles: [{{name: e, members: 5}}]
pool: {{file: pool.h5, labels: y}}
select: {{batch: 20}}
label: {{mode: hidden, validation_fraction: 0}}
stop: {{error: 0.35, rounds: 20}}
campaign: {{directory: out}}
run: {{seed: {seed}, device: cpu, threads: 1}}
"""


def function(r, rows):
    x = r.uniform(-1, 1, (rows, 4))
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + np.exp(x[:, 3]) + 0.2 * r.normal(size=rows)
    return x, y[:, None]


def campaign(tutti, seed, folder):
    r = np.random.RandomState(seed)
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = function(r, 4040)
        f["split"] = np.repeat([0, 2], [40, 4000])
    with h5py.File(folder / "pool.h5", "w") as f:
        f["x"], f["y"] = function(r, 4000)
    (folder / "job.yaml").write_text(JOB.format(seed=seed))
    done = subprocess.run([tutti, "campaign", "run", "job.yaml", "-q"], cwd=folder, text=True,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    with h5py.File(folder / "out/campaign.h5") as f:
        return (len(f["error"]), *(float(np.ravel(f[name][-1])[0]) for name in ("error", "error_se", "rmse")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--tutti", default="build/tutti", type=pathlib.Path)
    parser.add_argument("--seeds", default="1-20")
    args = parser.parse_args()
    first, last = (int(s) for s in args.seeds.split("-"))
    lines, within = ["seed\trounds\terror\tstandard_error\ttruth"], 0
    for seed in range(first, last + 1):
        with tempfile.TemporaryDirectory() as folder:
            rounds, error, bar, truth = campaign(str(args.tutti.resolve()), seed, pathlib.Path(folder))
        within += abs(error - truth) <= 2 * bar
        lines.append(f"{seed}\t{rounds}\t{error:.4f}\t{bar:.4f}\t{truth:.4f}")
    args.file.write_text("\n".join(lines) + "\n")
    print("\n".join(lines), f"\nwithin two standard errors: {within} of {last - first + 1}")


if __name__ == "__main__":
    main()
