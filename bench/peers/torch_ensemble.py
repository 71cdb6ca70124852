#!/usr/bin/python3
"""Deep ensembles in PyTorch by the protocol of deep_ensembles.py, in the usual style.

  torch_ensemble.py --data FILE.h5 --way loop|batched [--splits N] [--members 5] [--epochs 40]
                    [--adversarial 0] [--threads 2] [--seed 1]

  loop     one network and one torch.optim.Adam per member, member after member
  batched  all members in one: stacked weights, torch.baddbmm, one Adam

Prints one line of JSON: RMSE and NLL of the ensemble on the test rows of each split, and the
seconds that training and predicting took, without the start of Python and PyTorch.
"""
import argparse
import json
import math
import time

import h5py
import numpy as np
import torch
import torch.nn.functional as F

BATCH, WIDTH, RATE, FLOOR = 100, 50, 0.01, 1e-6


class Stack(torch.nn.Module):
    """`members` networks inputs -> 50 relu -> mean and raw variance, from torch.nn.Linear."""

    def __init__(self, members, inputs):
        super().__init__()
        make = torch.nn.Linear
        layers = [[make(inputs, WIDTH), make(WIDTH, 2)] for _ in range(members)]
        stack = lambda l, of: torch.nn.Parameter(torch.stack([of(m[l]).detach() for m in layers]))
        self.w1, self.b1 = stack(0, lambda x: x.weight.T), stack(0, lambda x: x.bias[None])
        self.w2, self.b2 = stack(1, lambda x: x.weight.T), stack(1, lambda x: x.bias[None])

    def forward(self, x):
        """x (members, rows, inputs) -> (members, rows, 2)"""
        hidden = torch.relu(torch.baddbmm(self.b1, x, self.w1))
        return torch.baddbmm(self.b2, hidden, self.w2)


def variance(raw):
    return F.softplus(raw) + FLOOR


def loss_of(out, y):
    """Sum over members of the mean over rows."""
    v = variance(out[..., 1])
    return (0.5 * (v.log() + (y - out[..., 0]) ** 2 / v)).mean(-1).sum()


def step(net, adam, x, y, epsilon):
    if epsilon is not None:
        x.requires_grad_(True)
        loss = loss_of(net(x), y)
        sign = torch.autograd.grad(loss, x, retain_graph=True)[0].sign()
        loss = loss + loss_of(net((x + epsilon * sign).detach()), y)
    else:
        loss = loss_of(net(x), y)
    adam.zero_grad()
    loss.backward()
    adam.step()


def train(members, x, y, epochs, epsilon):
    net = Stack(members, x.shape[1])
    adam = torch.optim.Adam(net.parameters(), lr=RATE)
    for _ in range(epochs):
        order = torch.stack([torch.randperm(len(x)) for _ in range(members)])
        for first in range(0, len(x), BATCH):
            rows = order[:, first : first + BATCH]
            step(net, adam, x[rows], y[rows], epsilon)
    return net


def run_split(args, x, y, rows, test):
    mean, sd = x[rows].mean(0), x[rows].std(0)
    sd[sd == 0] = 1
    y_mean, y_sd = y[rows].mean(), y[rows].std()
    put = lambda a: torch.tensor(a, dtype=torch.float32)
    xt, yt = put((x[rows] - mean) / sd), put((y[rows] - y_mean) / y_sd)
    xs = put((x[test] - mean) / sd)
    epsilon = args.adversarial * (xt.max(0)[0] - xt.min(0)[0]) if args.adversarial else None
    together = args.members if args.way == "batched" else 1
    nets = [train(together, xt, yt, args.epochs, epsilon) for _ in range(args.members // together)]
    with torch.no_grad():
        out = torch.cat([net(xs.expand(together, -1, -1)) for net in nets]).double().numpy()
    mu, var = out[..., 0], variance(torch.tensor(out[..., 1])).numpy()
    total = var.mean(0) + mu.var(0)
    error = y[test] - (mu.mean(0) * y_sd + y_mean)
    v = total * y_sd**2
    nll = 0.5 * np.log(2 * math.pi * v) + error**2 / (2 * v)
    return float(np.sqrt((error**2).mean())), float(nll.mean())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--way", choices=("loop", "batched"), required=True)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--adversarial", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    with h5py.File(args.data, "r") as f:
        x, y = f["x"][()].astype("f8"), f["y"][()].astype("f8")[:, 0]
        rows_of = lambda kind, i: f[f"splits/{kind}_{i}"][()]
        splits = [(rows_of("train", i), rows_of("test", i)) for i in range(args.splits)]
    begin, before = time.perf_counter(), time.process_time()
    scores = [run_split(args, x, y, rows, test) for rows, test in splits]
    seconds, cpu = time.perf_counter() - begin, time.process_time() - before
    rmse, nll = zip(*scores)
    print(json.dumps({"way": args.way, "torch": torch.__version__, "seconds": seconds,
                      "cpu_seconds": cpu, "rmse": rmse, "nll": nll}))


main()
