#!/usr/bin/env python3
"""Convolutional members on one thread: tutti beside PyTorch and a matrix product, in turn.

  torch_convs.py [--rounds 5] [--build build]

The CASES: members with side x side pixels of some channels, two convolutions 3 x 3 with as many channels,
relu, the mean over the pixels, one output; squared errors, Adam. tutti: a long training less a short one,
divided by the steps between. PyTorch: `loop`, one network after another; `grouped`, all members in one
convolution with groups = members. Its batches lie ready. `sgemm`: torch.mm of 1024 x 1024 matrices, the roof.

One JSON line per program and round: seconds of a step of all members and GFLOP/s of its convolutions (two
forward, two gradients of weights, one of inputs). That the maths are equal is shown by laws.oracle.
Needs torch, h5py, numpy.
"""
import argparse
import collections
import json
import os
import pathlib
import platform
import subprocess
import tempfile
import time

import h5py
import numpy as np
import torch

ROWS, TIMED = 1024, 5
Case = collections.namedtuple("Case", "members channels side batch")
CASES = {"large": Case(8, 16, 16, 128), "small": Case(50, 8, 8, 32)}
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def flop(case):
    """Of a step of all members."""
    return case.members * 5 * 2 * case.channels**2 * 9 * case.side**2 * case.batch


def write_job(folder, case):
    c, side = case.channels, case.side
    rng = np.random.default_rng(1)
    with h5py.File(folder / "d.h5", "w") as f:
        f["x"] = rng.standard_normal((ROWS, c * side * side)).astype("f4")
        f["y"] = rng.standard_normal((ROWS, 1)).astype("f4")
    (folder / "job.json").write_text(json.dumps({
        "data": {"file": "d.h5", "normalize": "none", "split": {"train": 1, "validation": 0, "test": 0}},
        "model": {"image": [c, side, side], "front": [f"conv {c} 3", f"conv {c} 3", "global_mean"],
                  "hidden": [], "activation": "relu"},
        "train": {"loss": "mse", "optimizer": "adam", "learning_rate": 1e-3, "batch_size": case.batch},
        "ensembles": [{"name": "e", "members": case.members}],
        "run": {"device": "cpu", "threads": 1, "directory": "out"}}))


def time_tutti(program, folder, epochs):
    start = time.perf_counter()
    subprocess.run([program, "train", "--quiet", "job.json", "--set", f"train.epochs={epochs}", "--set",
                    f"run.directory=out{time.monotonic_ns()}"],
                   cwd=folder, env=ENV, check=True)
    return time.perf_counter() - start


def step_of_tutti(program, folder, case, epochs):
    short, long = (time_tutti(program, folder, n) for n in (1, 1 + epochs))
    return (long - short) / (epochs * ROWS / case.batch)


class Network(torch.nn.Module):
    """`members` networks side by side: input (rows, members * channels, side, side), output (rows, members)."""

    def __init__(self, members, channels):
        super().__init__()
        wide = members * channels
        conv = lambda: torch.nn.Conv2d(wide, wide, 3, padding=1, groups=members)
        self.first, self.second = conv(), conv()
        self.weight = torch.nn.Parameter(torch.randn(members, channels) / channels**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(members))

    def forward(self, x):
        h = torch.relu(self.second(torch.relu(self.first(x)))).mean((2, 3))
        return (h.view(-1, *self.weight.shape) * self.weight).sum(-1) + self.bias


def step_of_torch(case, members, networks):
    nets = [Network(members, case.channels) for _ in range(networks)]
    adams = [torch.optim.Adam(net.parameters(), lr=1e-3) for net in nets]
    x = torch.randn(case.batch, members * case.channels, case.side, case.side)
    y = torch.randn(case.batch, members)

    def step():
        for net, adam in zip(nets, adams):
            adam.zero_grad()
            ((net(x) - y) ** 2).mean(0).sum().backward()
            adam.step()
    step()
    start = time.perf_counter()
    for _ in range(TIMED):
        step()
    return (time.perf_counter() - start) / TIMED


def time_sgemm():
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    torch.mm(a, b)
    start = time.perf_counter()
    for _ in range(20):
        torch.mm(a, b)
    return (time.perf_counter() - start) / 20


def run_round(program, name, case, round):
    with tempfile.TemporaryDirectory() as folder:
        write_job(pathlib.Path(folder), case)
        ways = {"tutti": lambda: step_of_tutti(program, folder, case, 10),
                "loop": lambda: step_of_torch(case, 1, case.members),
                "grouped": lambda: step_of_torch(case, case.members, 1)}
        for way, measure in ways.items():
            seconds = measure()
            print(json.dumps({"case": name, **case._asdict(), "way": way, "round": round,
                              "seconds_per_step": seconds, "gflops": flop(case) / seconds / 1e9,
                              "load": os.getloadavg()[0]}), flush=True)


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--rounds", type=int, default=5)
    ask.add_argument("--build", default="build")
    given = ask.parse_args()
    torch.set_num_threads(1)
    print(json.dumps({"torch": torch.__version__, "machine": platform.processor() or platform.machine()}))
    for round in range(given.rounds):
        for name, case in CASES.items():
            run_round(os.path.abspath(f"{given.build}/tutti"), name, case, round)
        print(json.dumps({"way": "sgemm", "round": round, "gflops": 2 * 1024**3 / time_sgemm() / 1e9}), flush=True)


main()
