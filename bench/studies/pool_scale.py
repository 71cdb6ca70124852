#!/usr/bin/python3
"""Cost of one campaign round by pool size: seconds, rows/s, memory of each rank.

  pool_scale.py [--tutti build/tutti] [--rows 1e6,5e6,2e7] [--ranks 1,2] [--record FILE.jsonl]

For every number of rows a pool of 8 inputs and a hidden label in float32 is written, in pieces;
then `tutti campaign step` trains a small ensemble, scores the whole pool, selects, takes the labels
and commits, on each number of ranks. Times are those of the stages in the journal; memory and CPU
are those of each rank, with training. Exit 1 if the queries depend on the number of ranks, if a
rank needs 1 GiB, or if a row of the largest pool takes twice the time of one of the smallest.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

WIDTH, PIECE, SEED_ROWS = 8, 1 << 18, 2000
JOB = """\
data:      {{file: data.h5, split: {{train: 0.8, validation: 0.1, test: 0.1, seed: 1}}}}
model:     {{hidden: [64, 64], activation: relu}}
ensembles: [{{name: ensemble, members: {members}}}]
train:     {{loss: gaussian_nll, learning_rate: 1e-3, batch_size: 100, epochs: 10}}
run:       {{seed: 1, device: cpu, threads: 1}}
campaign:  {{directory: '{out}'}}
pool:      {{file: pool.h5, labels: y}}
label:     {{mode: hidden}}
select:    {{batch: {batch}, method: {method}}}
stop:      {{rounds: 2}}
"""


def as_rank(folder, command):
    """Run one rank and print its resources; this process imports nothing large."""
    code = subprocess.run(command, check=False).returncode
    rank = next((os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
                 if name in os.environ), "0")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pathlib.Path(folder, f"rank-{rank}.json").write_text(json.dumps(
        {"peak_mib": round(used.ru_maxrss / 1024), "cpu_s": round(used.ru_utime + used.ru_stime, 2)}))
    return code


def write_samples(path, rows, seed):
    """x uniform in [-1, 1], y smooth in it, in pieces."""
    import h5py
    import numpy as np
    random = np.random.default_rng(seed)
    with h5py.File(path, "w") as f:
        x = f.create_dataset("x", (rows, WIDTH), "f4")
        y = f.create_dataset("y", (rows, 1), "f4")
        for first in range(0, rows, PIECE):
            part = random.random((min(PIECE, rows - first), WIDTH), "f4") * 2 - 1
            x[first:first + len(part)] = part
            y[first:first + len(part), 0] = np.sin(3 * part[:, 0]) * part[:, 1] + part.sum(1)


def picks_of(campaign):
    import h5py
    with h5py.File(campaign / "campaign.h5") as f:
        return f["query_row"][:].tolist()


def run_step(args, folder, ranks):
    """One round on `ranks` ranks: seconds of the stages, memory of the ranks, the queries."""
    out = folder / f"out-{ranks}"
    job = folder / f"job-{ranks}.yaml"
    job.write_text(JOB.format(out=out, members=args.members, batch=args.batch, method=args.method))
    use = folder / f"use-{ranks}"
    use.mkdir()
    command = [sys.executable, __file__, "--as-rank", str(use),
               str(args.tutti.resolve()), "campaign", "step", str(job), "-q"]
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "-n", str(ranks)] + command
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMP_NUM_THREADS="1")
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    wall = time.monotonic() - begin
    if done.returncode:
        sys.exit(f"{ranks} ranks: exit {done.returncode}\n{done.stderr}")
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    found = {"seconds": {line["stage"]: line["seconds"] for line in lines if line["round"] == 1},
             "wall_s": round(wall, 2)}
    each = [json.loads((use / f"rank-{rank}.json").read_text()) for rank in range(ranks)]
    found.update({what: [one[what] for one in each] for what in each[0]})
    picks = picks_of(out)
    shutil.rmtree(out)
    return found, picks


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    return f"{model.group(1) if model else platform.machine()}, {os.cpu_count()} cores"


def measure(args, rows, folder):
    """All numbers of ranks on one pool."""
    write_samples(folder / "data.h5", SEED_ROWS, 1)
    write_samples(folder / "pool.h5", rows, 2)
    lines, picks = [], []
    for ranks in args.ranks:
        found, picked = run_step(args, folder, ranks)
        picks.append(picked)
        streamed = found["seconds"]["score"] + found["seconds"]["select"]
        lines.append({"bench": "pool_scale", "rows": rows, "ranks": ranks, "width": WIDTH,
                      "members": args.members, "method": args.method, "batch": args.batch,
                      "rows_per_s": round(rows / streamed), **found, "cpu": processor(),
                      "load": round(os.getloadavg()[0], 1)})
        print("{rows:>9} rows, {ranks} ranks: score {0:.2f} s, select {1:.2f} s, "
              "{rows_per_s} rows/s, peak {peak_mib} MiB, CPU {cpu_s} s".format(
                  found["seconds"]["score"], found["seconds"]["select"], **lines[-1]), flush=True)
    return lines, all(one == picks[0] for one in picks)


def judge(lines, same):
    """The problems, one text each."""
    bad = [] if same else ["the queries depend on the number of ranks"]
    bad += [f"{line['rows']} rows, {line['ranks']} ranks: {max(line['peak_mib'])} MiB"
            for line in lines if max(line["peak_mib"]) >= 1024]
    for ranks in sorted({line["ranks"] for line in lines}):
        rates = [line["rows_per_s"] for line in lines if line["ranks"] == ranks]
        if rates[-1] < rates[0] / 2:
            bad.append(f"{ranks} ranks: not linear, {rates[0]} to {rates[-1]} rows/s")
    return bad


def main():
    if sys.argv[1:2] == ["--as-rank"]:
        sys.exit(as_rank(sys.argv[2], sys.argv[3:]))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(float(word)) for word in text.split(",")]
    parser.add_argument("--tutti", type=pathlib.Path, default=pathlib.Path("build/tutti"))
    parser.add_argument("--rows", type=numbers, default=[10**6, 5 * 10**6, 2 * 10**7])
    parser.add_argument("--ranks", type=numbers, default=[1, 2])
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--method", default="top")
    parser.add_argument("--record", type=pathlib.Path, help="append one JSON line for each run")
    args = parser.parse_args()
    lines, same = [], True
    for rows in args.rows:
        with tempfile.TemporaryDirectory(prefix="tutti-pool-") as folder:
            more, agree = measure(args, rows, pathlib.Path(folder))
        lines += more
        same = same and agree
    if args.record:
        with open(args.record, "a", encoding="utf-8") as f:
            f.writelines(json.dumps(line) + "\n" for line in lines)
    bad = judge(lines, same)
    print("\n".join(bad) if bad else "linear in the rows; the same queries on any number of ranks")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
