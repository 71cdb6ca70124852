#!/usr/bin/python3
"""User seconds of 9,000 networks of 900 shapes (hidden 1 to 100, nine activations, ten of each; 1,000 rows, batch
32): training of one epoch with start and end, and prediction of the rows, on one core.

  many_shapes.py [--rounds 3] TUTTI...

Several programs take turns, so that they see the same load.
"""
import argparse
import os
import pathlib
import subprocess
import tempfile
import time

import h5py
import numpy as np

ACTIVATIONS = "identity relu leaky_relu tanh sigmoid silu gelu softplus elu".split()


def write_job(folder):
    x = np.random.default_rng(1).random((1000, 8), "f4")
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = x, np.sin(x.sum(1, keepdims=True))
    rows = [f"- {{name: {a}{h}, members: 10, model: {{hidden: [{h}], activation: {a}}}}}\n"
            for h in range(1, 101) for a in ACTIVATIONS]
    (folder / "job.yaml").write_text(
        "data: {file: data.h5, split: {train: 1, validation: 0, test: 0}}\nmodel: {output: mean}\n"
        "train: {epochs: 1, batch_size: 32, optimizer: adam, loss: mse}\n"
        "run: {device: cpu, threads: 1, directory: out}\nensembles:\n" + "".join(rows))


def measure(folder, *command):
    begun = time.monotonic()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: status {status}")
    return f"user {used.ru_utime:.2f} s, system {used.ru_stime:.2f} s, elapsed {time.monotonic() - begun:.2f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("programs", nargs="+", type=os.path.abspath)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # threads that wait would count as user time
    with tempfile.TemporaryDirectory(prefix="tutti-") as work:
        write_job(pathlib.Path(work))
        for _ in range(args.rounds):
            for program in args.programs:
                train = measure(work, program, "train", "job.yaml", "-q", "--resume", "never")
                predict = measure(work, program, "predict", "out/model.h5", "data.h5", "-q", "--force")
                print(f"{os.path.basename(program)}, load {os.getloadavg()[0]:.1f}: train {train}; predict {predict}",
                      flush=True)


if __name__ == "__main__":
    main()
