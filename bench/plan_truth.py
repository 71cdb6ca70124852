#!/usr/bin/python3
"""What `tutti plan` says of ten jobs, and what training takes: peak memory, seconds, checkpoint.

  plan_truth.py [--tutti build/tutti] [--threads 2] [--calibrate] [JOB...]

Prints one row for each job and, at the end, the largest ratios. `seconds` are those of training: from the first to
the last line of metrics.jsonl is too coarse for short jobs, so they are those of the whole run less those of the same
job with one epoch, times epochs / (epochs - 1). Run it on a quiet machine; --calibrate measures the machine before.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

WITHIN = 0.25
# name: rows, inputs, members, hidden layers, epochs, options of train, of model
JOBS = {
    "tiny": (4000, 4, 400, [16], 30, {"batch_size": 16}, {}),
    "small": (4000, 8, 128, [32, 32], 40, {"batch_size": 32}, {}),
    "usual": (10000, 8, 32, [64, 64], 40, {"batch_size": 64}, {}),
    "large batch": (40000, 8, 16, [64, 64], 40, {"batch_size": 1024}, {}),
    "tanh": (10000, 8, 32, [64, 64], 30, {"batch_size": 64}, {"activation": "tanh"}),
    "sgd": (10000, 8, 32, [64, 64], 40, {"batch_size": 64, "optimizer": "sgd"}, {}),
    "wide": (4000, 32, 8, [256, 256], 12, {"batch_size": 128}, {}),
    "deep": (4000, 16, 16, [128] * 4, 12, {"batch_size": 64}, {}),
    "dropout": (10000, 8, 32, [64, 64], 20, {"batch_size": 64, "dropout": 0.1}, {}),
    "inputs": (4000, 500, 16, [32], 20, {"batch_size": 32}, {}),
}


def write_job(folder, name, threads):
    import h5py
    import numpy as np
    rows, inputs, members, hidden, epochs, train, model = JOBS[name]
    draw = np.random.default_rng(1)
    with h5py.File(folder / "data.h5", "w") as f:
        x = draw.random((rows, inputs), "f4")
        f["x"], f["y"] = x, np.sin(x.sum(1, keepdims=True))
    (folder / "job.yaml").write_text(
        f"data: {{file: data.h5, split: {{train: 0.8, validation: 0.1, test: 0.1}}}}\n"
        f"model: {json.dumps({'hidden': hidden, 'output': 'mean', **model})}\n"
        f"ensembles: [{{name: only, members: {members}}}]\n"
        f"train: {json.dumps({'epochs': epochs, 'loss': 'mse', 'learning_rate': 1e-3, **train})}\n"
        f"run: {{device: cpu, threads: {threads}, directory: out}}\n")
    return epochs


def run(args, folder, *words):
    """Seconds and peak memory of one training. The peak of a program is at least that of the program that starts it, so
    a small Python does."""
    start = ("import os, subprocess, sys; child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL); "
             "used = os.wait4(child.pid, 0); print(used[1], used[2].ru_maxrss)")
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-S", "-c", start, args.tutti, "train", "job.yaml", "-q", "--resume", "never",
                           *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    status, peak = map(int, done.stdout.split())
    if status:
        sys.exit(f"training failed: {status}")
    return time.monotonic() - begun, peak * 1024


def measure(args, name):
    with tempfile.TemporaryDirectory(prefix="tutti-") as work:
        folder = pathlib.Path(work)
        epochs = write_job(folder, name, args.threads)
        plan = json.loads(subprocess.run([args.tutti, "plan", "job.yaml", "--json"], cwd=folder, check=True,
                                         capture_output=True, text=True).stdout)
        if plan["seconds"] is None:
            sys.exit("this machine is not calibrated: plan_truth.py --calibrate")
        one, _ = run(args, folder, "--set", "train.epochs=1")
        every, peak = run(args, folder)
        file = max(folder.glob("out/ckpt-*.h5"))
        return {"plan_s": plan["seconds"], "s": (every - one) * epochs / (epochs - 1), "plan_bytes": plan["memory_of_rank"]["peak"],
                "bytes": peak, "plan_file": plan["checkpoint_bytes"], "file": file.stat().st_size}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default="build/tutti", type=os.path.abspath)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("jobs", nargs="*")
    args = parser.parse_args()
    if args.calibrate:
        print(subprocess.run([args.tutti, "doctor", "--calibrate"], check=True, capture_output=True, text=True).stdout)
    print(f"load {os.getloadavg()[0]:.1f}\n")
    print("| job | plan, s | training, s | ratio | plan, MiB | peak, MiB | ratio | plan, checkpoint MiB | file, MiB |\n"
          "|---|---|---|---|---|---|---|---|---|")
    worst = 1.0
    for name in args.jobs or JOBS:
        m = measure(args, name)
        worst = max(worst, m["plan_s"] / m["s"], m["s"] / m["plan_s"])
        print(f"| {name} | {m['plan_s']:.2f} | {m['s']:.2f} | {m['plan_s'] / m['s']:.2f} | {m['plan_bytes'] / 2**20:.1f} "
              f"| {m['bytes'] / 2**20:.1f} | {m['plan_bytes'] / m['bytes']:.2f} | {m['plan_file'] / 2**20:.2f} "
              f"| {m['file'] / 2**20:.2f} |", flush=True)
    print(f"\nlargest ratio of the times: {worst:.2f}")
    sys.exit(worst > 1 + WITHIN)


if __name__ == "__main__":
    main()
