#!/usr/bin/env python3
"""One large member on several ranks: time of a step, and bytes and messages beside the model.

  large_member.py speed [--rounds 5] [--parts 8] [--hidden 1024,1024] [--batch 2048]
  large_member.py counts [--ranks 1,2,3,4,5,8,16]
  large_member.py stages [--ranks 1,2,3,4,5,8,16]

Both print one JSON line about the machine and one per run. `speed` trains 64-1024-1024-1 on 1 and on 2 ranks of one thread in
turn; the time of a step is the difference of a long and a short training, divided by the steps
between them. The load of the machine is in every line. `counts` reads what the ranks say they sent
and compares it with docs/large-members.md; the ranks may be more than the cores. `stages` does the
same with a network of 16 layers in stages.

TUTTI names the program (build/tutti), TUTTI_MPIRUN the launcher (mpirun --oversubscribe -n).
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
TUTTI = os.environ.get("TUTTI", str(ROOT / "build" / "tutti"))
MPIRUN = shlex.split(os.environ.get("TUTTI_MPIRUN", "mpirun --oversubscribe -n"))
INPUTS, BLOCK, WORD = 64, 4096, 192  # WORD: bytes that a rank tells each other one in a step


def machine():
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True,
                            capture_output=True, check=False).stdout.strip()
    return {"bench": "large_member", "command": " ".join(sys.argv[1:]),
            "launcher": " ".join(MPIRUN), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "processor": re.search(r"model name\s*: (.*)", cpu)[1], "cores": os.cpu_count(),
            "commit": commit, "load": os.getloadavg()[0]}


def write_data(path, rows):
    x = np.random.default_rng(1).uniform(-1, 1, (rows, INPUTS)).astype("f4")
    with h5py.File(path, "w") as f:
        f["x"], f["y"] = x, np.sin(x @ np.linspace(-1, 1, INPUTS, dtype="f4"))[:, None]


def train(folder, ranks, hidden, batch, parts, epochs, optimizer="adam",
          team="ranks_per_member: 1024"):
    """Wall and processor seconds of a training, and its output."""
    (folder / "job.yaml").write_text(
        "data: {file: data.h5, split: {train: 1, validation: 0, test: 0}}\n"
        f"model: {{hidden: [{hidden}]}}\n"
        f"train: {{batch_size: {batch}, parts: {parts}, epochs: {epochs}, optimizer: {optimizer}}}\n"
        "ensembles: [{name: a, members: 1}]\n"
        f"run: {{threads: 1, {team}, directory: out}}\n")
    command = [*MPIRUN, str(ranks), TUTTI, "train", "job.yaml", "--resume", "never"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.stdout + done.stderr


def speed(args, folder):
    steps, short, long = 4, 1, 4  # steps of an epoch, epochs
    write_data(folder / "data.h5", steps * args.batch)
    for number in range(args.rounds):
        for ranks, parts in ((1, 1), (1, args.parts), (2, args.parts)):
            shape = (folder, ranks, args.hidden, args.batch, parts)
            less, more = train(*shape, short), train(*shape, long)
            between = steps * (long - short)
            print(json.dumps({"round": number, "ranks": ranks, "parts": parts,
                              "s_per_step": round((more[0] - less[0]) / between, 5),
                              "cpu_s_per_step": round((more[1] - less[1]) / between, 5),
                              "load": os.getloadavg()[0]}), flush=True)


def cut(count, ranks, rank):
    """Items of a rank."""
    return count * rank // ranks, count * (rank + 1) // ranks


def sums(parts, first, end):
    """Sums of the parts [first, end) that the tree allows: nodes (index, level)."""
    pending = []
    for part in range(first, end):
        pending.append((part, 0))
        while True:
            index, level = pending[-1]
            while index > 0 and index % 2 == 0 and (index + 1) << level >= parts:
                index, level = index // 2, level + 1
            pending[-1] = index, level
            if index % 2 == 0 or len(pending) < 2 or pending[-2][1] != level:
                break
            pending[-2:] = [(index // 2, level + 1)]
    return len(pending)


def model(params, parts, ranks, slots):
    """Bytes and messages of all ranks in a step, and bytes to collect the slots and best weights at the
    end."""
    if ranks == 1:
        return 0, 0, 0
    blocks = -(-params // BLOCK)
    own = [min(end * BLOCK, params) - min(first * BLOCK, params)
           for first, end in (cut(blocks, ranks, r) for r in range(ranks))]
    nodes = [sums(parts, *cut(parts, ranks, r)) for r in range(ranks)]
    busy = sum(n > 0 for n in own)
    data = sum(4 * n * (params - s) + 4 * (ranks - 1) * s + WORD * (ranks - 1)
               for n, s in zip(nodes, own))
    messages = sum(n * (busy - (s > 0)) + (ranks - 1) * (s > 0) + ranks - 1
                   for n, s in zip(nodes, own))
    return data, messages, 4 * (slots + 1) * (params - own[0])


def cut_layers(cost, stages):
    """Layers of each stage: the largest cost is the least one."""
    def ends(most):
        first, out = 0, []
        for stage in range(stages):
            end = first + 1
            while end < len(cost) - (stages - 1 - stage) and sum(cost[first:end + 1]) <= most:
                end += 1
            out.append((first, end))
            first = end
        return out
    least = min(most for first in range(len(cost)) for end in range(first + 1, len(cost) + 1)
                for most in [sum(cost[first:end])]
                if ends(most)[-1][1] == len(cost)
                and all(sum(cost[a:b]) <= most for a, b in ends(most)))
    return ends(least)


def model_of_stages(widths, batch, parts, ranks, slots):
    """Bytes and messages of all ranks in a step and at the end of an epoch, and bytes to collect
    the slots, weights and best weights at the end. widths: inputs of each layer, and the outputs."""
    if ranks == 1:
        return (0, 0), (0, 0), 0
    size = [a * b + b for a, b in zip(widths, widths[1:])]
    cost = [(2 if layer == 0 else 3) * a * b for layer, (a, b) in enumerate(zip(widths, widths[1:]))]
    stages = cut_layers(cost, min(ranks, len(size)))
    own = [sum(size[first:end]) for first, end in stages]
    words = 2 * ranks * (ranks - 1)
    step = (WORD * words + sum(2 * 4 * batch * widths[end] for _, end in stages[:-1]),
            words + 2 * parts * (len(stages) - 1))
    epoch = 4 * (ranks - 1) * sum(own), (ranks - 1) * len(stages)
    return step, epoch, 4 * (slots + 2) * sum(own[1:])


def stages(args, folder):
    depth, width, batch, parts, epochs = 15, 128, 256, 16, 4
    write_data(folder / "data.h5", 2 * batch)
    widths = [INPUTS] + depth * [width] + [1]
    for ranks in (int(r) for r in args.ranks.split(",")):
        _, _, text = train(folder, ranks, ",".join(depth * [str(width)]), batch, parts, epochs,
                           team="stages: 64")
        found = re.search(r"sent (\d+) bytes in (\d+) messages for (\d+) member-steps", text)
        sent, messages, steps = (int(n) for n in found.groups()) if found else (0, 0, 2 * epochs)
        step, epoch, collected = model_of_stages(widths, batch, parts, ranks, 2)
        print(json.dumps({
            "ranks": ranks, "parts": parts, "layers": depth + 1, "steps": steps, "epochs": epochs,
            "bytes": sent, "messages": messages,
            "bytes_per_step_of_the_model": step[0], "messages_per_step_of_the_model": step[1],
            "bytes_per_epoch_of_the_model": epoch[0], "messages_per_epoch_of_the_model": epoch[1],
            "collected_at_the_end": collected,
            "bytes_beside_the_model": sent - steps * step[0] - epochs * epoch[0] - collected,
            "messages_beside_the_model": messages - steps * step[1] - epochs * epoch[1]}),
              flush=True)


def counts(args, folder):
    hidden, batch, parts, epochs = "256,256", 256, 16, 4
    write_data(folder / "data.h5", 2 * batch)
    params = INPUTS * 256 + 256 + 256 * 256 + 256 + 256 + 1
    for ranks in (int(r) for r in args.ranks.split(",")):
        _, _, text = train(folder, ranks, hidden, batch, parts, epochs)
        found = re.search(r"sent (\d+) bytes in (\d+) messages for (\d+) member-steps", text)
        sent, messages, steps = (int(n) for n in found.groups()) if found else (0, 0, 2 * epochs)
        want, want_messages, slots = model(params, parts, ranks, 2)
        print(json.dumps({
            "ranks": ranks, "parts": parts, "parameters": params, "steps": steps,
            "bytes": sent, "messages": messages,
            "bytes_per_step_of_the_model": want, "messages_per_step_of_the_model": want_messages,
            "collected_at_the_end": slots,
            "bytes_beside_the_model": sent - steps * want - slots,
            "messages_beside_the_model": messages - steps * want_messages,
            "ring_allreduce_bytes": 8 * params * (ranks - 1)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "counts", "stages"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--hidden", default="1024,1024")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--ranks", default="1,2,3,4,5,8,16")
    args = parser.parse_args()
    print(json.dumps(machine()), flush=True)
    with tempfile.TemporaryDirectory() as name:
        {"speed": speed, "counts": counts, "stages": stages}[args.what](args, pathlib.Path(name))


if __name__ == "__main__":
    main()
