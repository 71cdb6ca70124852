#!/usr/bin/python3
"""Seconds of one round of a campaign, and of the loop over models in Python that it replaces.

  campaign_round.py [--tutti build/tutti] [--rounds 3] [--threads 2] [--pool 100000]
                    [--record FILE.jsonl]

The work: 10 targets x 5 members of 8-64-64-1, 10,000 training rows, batch 256, Adam, 100 epochs a
round; `tutti campaign run` also scores a pool of 100,000 rows, chooses 100, takes their (hidden)
labels and commits. In the same run PyTorch trains one of the 50 networks with each number of
threads up to --threads, in two ways: `loader`, with torch.utils.data.DataLoader as in PyTorch's
tutorials, and `tensors`, with batches cut out of tensors in memory. Two epochs each; the second is
timed, and the fastest time is multiplied by 50 x 100. The loop does not score a pool. Exit 1 if a
round takes 20 s or more, or the loop with the loader is less than 30 times slower.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

TARGETS, MEMBERS, ROWS, WIDTH, BATCH, EPOCHS = 10, 5, 10000, 8, 256, 100
ENSEMBLES = "".join(f"- {{name: t{k}, target: y{k}, members: {MEMBERS}}}\n" for k in range(TARGETS))
CAMPAIGN = f"""\
data:      {{file: data.h5, split: {{column: split}}}}
model:     {{hidden: [64, 64], activation: relu}}
train:     {{loss: mse, optimizer: adam, learning_rate: 1e-3, batch_size: {BATCH}, epochs: {EPOCHS}}}
run:       {{seed: 1, device: cpu, threads: %d}}
campaign:  {{directory: out}}
pool:      {{file: pool.h5, labels: y}}
label:     {{mode: hidden}}
select:    {{batch: 100, method: kcenter}}
stop:      {{rounds: %d}}
ensembles:
{ENSEMBLES}"""


def samples(rows, seed):
    """Ten smooth functions of eight inputs."""
    import numpy as np
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (rows, WIDTH)).astype("f4")
    y = np.stack([np.sin((1 + k / 5) * x[:, k % WIDTH]) * x[:, (k + 1) % WIDTH] + x.sum(1) / 8
                  for k in range(TARGETS)], 1)
    return x, y.astype("f4")


def write_files(folder, pool):
    import h5py
    import numpy as np
    for name, rows, seed in (("data.h5", ROWS + 1000, 1), ("pool.h5", pool, 2)):
        with h5py.File(folder / name, "w") as f:
            f["x"], f["y"] = samples(rows, seed)
            if name == "data.h5":
                f["split"] = np.repeat([0, 2], [ROWS, 1000]).astype("i1")


def run_campaign(args, folder):
    """Seconds of each finished round, from the journal of the campaign."""
    (folder / "campaign.yaml").write_text(CAMPAIGN % (args.threads, args.rounds - 1))
    begin = time.monotonic()
    done = subprocess.run([str(args.tutti.resolve()), "campaign", "run", "campaign.yaml", "-q"],
                          cwd=folder, capture_output=True, text=True, check=False)
    wall = time.monotonic() - begin
    if done.returncode:
        sys.exit(f"tutti campaign run: exit {done.returncode}\n{done.stderr}")
    lines = [json.loads(line) for line in (folder / "out/journal.jsonl").read_text().splitlines()]
    rounds = [[line for line in lines if line["round"] == r] for r in range(1, args.rounds + 1)]
    return {"rounds_s": [round(sum(line["seconds"] for line in r), 3) for r in rounds],
            "stages_s": {line["stage"]: line["seconds"] for line in rounds[0]},
            "wall_s": round(wall, 2)}


def batches(way, x, y):
    """One epoch of shuffled batches."""
    import torch
    if way == "loader":
        data = torch.utils.data.TensorDataset(x, y)
        yield from torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True)
    else:
        for rows in torch.randperm(ROWS).split(BATCH):
            yield x[rows], y[rows]


def time_epoch(way, threads):
    """Seconds that one network takes for an epoch."""
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    x, y = (torch.from_numpy(a) for a in samples(ROWS, 1))
    y = (y[:, :1] - y[:, :1].mean()) / y[:, :1].std()
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64),
                              torch.nn.ReLU(), torch.nn.Linear(64, 1))
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss = torch.nn.MSELoss()
    for _ in range(2):
        begin = time.monotonic()
        for x_batch, y_batch in batches(way, x, y):
            adam.zero_grad()
            loss(net(x_batch), y_batch).backward()
            adam.step()
        took = time.monotonic() - begin
    return took


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    return f"{model.group(1) if model else platform.machine()}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, default=pathlib.Path("build/tutti"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pool", type=int, default=100000)
    parser.add_argument("--record", type=pathlib.Path)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        write_files(pathlib.Path(name), args.pool)
        found = run_campaign(args, pathlib.Path(name))
    epochs = {way: {threads: round(time_epoch(way, threads), 4)
                    for threads in range(1, args.threads + 1)} for way in ("loader", "tensors")}
    loop = {way: round(min(of.values()) * TARGETS * MEMBERS * EPOCHS, 1)
            for way, of in epochs.items()}
    slowest = max(found["rounds_s"])
    line = {"bench": "campaign_round", **found, "threads": args.threads, "pool": args.pool,
            "torch_epoch_s": epochs, "torch_loop_s": loop, "cpu": processor(),
            "ratio": {way: round(s / slowest, 1) for way, s in loop.items()},
            "load": round(load, 1), "date": time.strftime("%Y-%m-%d")}
    print(json.dumps(line))
    if args.record:
        with open(args.record, "a") as f:
            f.write(json.dumps(line) + "\n")
    sys.exit(slowest >= 20 or loop["loader"] < 30 * slowest)


if __name__ == "__main__":
    main()
