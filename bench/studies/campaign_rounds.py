#!/usr/bin/python3
"""Is a round of a long campaign as fast as one at its start?

  campaign_rounds.py [--tutti build/tutti] [--rounds 1000] [--record FILE.tsv]

One `tutti campaign run` with many tiny rounds: 20,000 initial rows, 1 network of 2-4-1, 1 epoch, a
pool of 2,000 candidates, one query per round with a hidden label. The labels of 1,000 rounds are
5 % more training rows, so that growth has other causes. Each round ends with the line of stage
merge in journal.jsonl; then wall and CPU time of the process are read. Prints the CPU time of a
round as the mean over 20 rounds, early, in the middle and at the end, with memory and file sizes.
Exit 1 if the last rounds need over 10 % more CPU time than the first.

With --record the raw numbers: round, wall_s and cpu_s since the start of the process, rss_kib.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
WINDOW, LIMIT = 20, 1.10
CAMPAIGN = """\
data:      {file: data.h5, split: {column: split}}
model:     {hidden: [4], activation: relu}
ensembles: [{name: one, members: 1}]
train:     {learning_rate: 1e-2, batch_size: 256, epochs: 1}
pool:      {file: pool.h5, labels: y}
select:    {batch: 1, method: top}
label:     {mode: hidden, validation_fraction: 0}
stop:      {rounds: ROUNDS}
campaign:  {directory: out}
run:       {seed: 1, device: cpu, threads: 1}
"""


def write_files(folder, rounds):
    random = np.random.default_rng(1)
    for name, rows in (("data.h5", 20200), ("pool.h5", 2 * rounds)):
        x = random.uniform(-1, 1, (rows, 2))
        with h5py.File(folder / name, "w") as f:
            f["x"], f["y"] = x, np.sin(3 * x[:, :1]) * x[:, 1:]
            if name == "data.h5":
                f["split"] = np.repeat([0, 2], [20000, 200]).astype("i1")
    (folder / "campaign.yaml").write_text(CAMPAIGN.replace("ROUNDS", str(rounds - 1)))


def measure(pid):
    """CPU seconds and resident KiB of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") // 1024


def follow(process, journal, begin):
    """(round, wall, cpu, rss) at the end of each round but the last ones, which end unseen."""
    rows, at, done = [], 0, 0
    while process.poll() is None:
        time.sleep(0.002)
        if not journal.exists() or journal.stat().st_size == at:
            continue
        with open(journal, encoding="utf-8") as f:
            f.seek(at)
            text = f.read()
        text = text[:text.rfind("\n") + 1]
        at += len(text)
        ended = text.count('"stage": "merge"')
        done += ended
        if ended and process.poll() is None:
            rows.append((done, time.monotonic() - begin, *measure(process.pid)))
    return rows


def cpu_of_round(rows, last):
    """Mean over the rounds (last - WINDOW, last]."""
    inside = [r for r in rows if last - WINDOW <= r[0] <= last]
    return (inside[-1][2] - inside[0][2]) / (inside[-1][0] - inside[0][0])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--tutti", type=pathlib.Path, default=ROOT / "build" / "tutti")
    p.add_argument("--rounds", type=int, default=1000)
    p.add_argument("--record", type=pathlib.Path)
    args = p.parse_args()
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory(prefix="rounds-") as name:
        folder = pathlib.Path(name)
        write_files(folder, args.rounds)
        begin = time.monotonic()
        process = subprocess.Popen([str(args.tutti.resolve()), "campaign", "run", "campaign.yaml",
                                    "-q"], cwd=folder, env=env)
        rows = follow(process, folder / "out" / "journal.jsonl", begin)
        if process.returncode:
            sys.exit(f"tutti campaign run: exit {process.returncode}")
        size = {n: (folder / "out" / n).stat().st_size for n in ("campaign.h5", "journal.jsonl")}
    if args.record:
        with open(args.record, "w", encoding="utf-8") as f:
            f.write("round\twall_s\tcpu_s\trss_kib\n")
            f.writelines(f"{r}\t{w:.3f}\t{c:.2f}\t{m}\n" for r, w, c, m in rows)
    last = rows[-1][0]
    marks = sorted({WINDOW + 1, min(100, last), last // 2, last})
    found = [cpu_of_round(rows, m) for m in marks]
    print("| rounds | CPU ms of a round |\n|---|---|")
    for m, s in zip(marks, found):
        print(f"| {m - WINDOW} to {m} | {1000 * s:.1f} |")
    print(f"\n{rows[-1][1]:.0f} s in all; {rows[0][3] / 1024:.0f} MiB resident after the first round, "
          f"{rows[-1][3] / 1024:.0f} MiB at the end; "
          + ", ".join(f"{n} {s / 1024:.0f} KiB" for n, s in size.items()))
    return found[-1] > LIMIT * found[0]


if __name__ == "__main__":
    sys.exit(main())
