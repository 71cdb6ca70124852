#!/usr/bin/python3
"""Votes of every rank fail: all ranks end together and no checkpoint is lost.

  vote_loop.py [--ranks 2] [--epochs 20] [--stride 60] [--control]

For each rank and n = 1, 1 + stride, ... a run starts from the checkpoints of a stopped one with
TUTTI_FAULT=rank:n, until n is beyond the last vote (every_vote.c does it for every n, faster). Each
run must end in time, print one error line, and exit with a code of the table; a resumed run without
the fault must give the bits of an undisturbed run. --control damages every checkpoint after the
fault: the same checks must fail.
"""
import argparse
import itertools
import re
import sys

import harness as h

CODES = {int(code) for code in re.findall(
    r"^  X\(\w+, (\d+),", (h.ROOT / "core" / "base" / "err.h").read_text(), re.M)} - {h.DONE}


def faulty_run(folder, base, args, rank, n):
    """A run with the fault; None if it ended without an error before vote n."""
    h.copy_directory(base, folder / "out")
    fault = {"TUTTI_FAULT": f"{rank}:{n}"}
    done = h.train(folder, args.ranks, args.settings, env=fault, limit=args.limit)
    met = "TUTTI_FAULT" in done.output
    return None if done.code == h.DONE and not met else done


def judge_run(done, name, limit):
    if not h.check(not done.hung, f"{name}: hangs, killed after {limit:.0f} s"):
        return
    lines = h.error_lines(done.output)
    h.check(len(lines) <= 1, f"{name}: {len(lines)} error lines:\n" + "\n".join(lines))
    if done.code == h.DONE:
        h.check("tutti: warning:" in done.output, f"{name}: no message about the fault")
        return
    h.check(lines, f"{name}: exit {done.code} without an error line:\n{done.output}")
    h.check(done.code in CODES, f"{name}: exit code {done.code} is not in the table")


def judge_resumption(folder, wanted, args, name):
    if not h.is_complete(folder / "out"):
        h.check(h.newest(folder / "out") > 0, f"{name}: no checkpoint is left")
    again = h.train(folder, 0, args.settings, limit=args.limit)
    if h.check(again.code == h.DONE, f"{name}: resumed, exit {again.code}\n{again.output}"):
        h.check_same(folder / "out", wanted, f"{name}: resumed")


def one_fault(folder, base, wanted, args, rank, n):
    """False when the run has no n-th vote."""
    name = f"rank {rank}, vote {n}"
    done = faulty_run(folder, base, args, rank, n)
    if done is None:
        h.check_same(folder / "out", wanted, f"{name}: not met")
        return False
    judge_run(done, name, args.limit)
    judge_resumption(folder, wanted, args, name)
    return True


def all_faults(folder, base, wanted, args):
    counts = []
    for rank in range(args.ranks):
        numbers = itertools.count(1 + rank, args.stride)
        met = itertools.takewhile(lambda n: one_fault(folder, base, wanted, args, rank, n), numbers)
        counts.append(len(list(met)))
        h.check(counts[-1] > 0, f"rank {rank}: no vote could be made to fail")
    return f"votes that failed, by rank: {counts}"


def control(folder, base, wanted, args):
    """Truncate the checkpoints after the fault: the check of the resumed run must fail."""
    faulty_run(folder, base, args, 0, 3)
    for generation in h.generations(folder / "out"):
        path = h.checkpoint(folder / "out", generation)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    judge_resumption(folder, wanted, args, "control")
    seen = len(h.failures) > 0
    h.failures.clear()
    h.check(seen, "control: not found by the checks")
    return "negative control"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--stride", type=int, default=60, help="1 is every vote")
    parser.add_argument("--limit", type=float, default=20, help="most seconds of a run")
    parser.add_argument("--control", action="store_true")
    args = parser.parse_args()
    args.settings = [f"train.epochs={args.epochs}", "checkpoint.every=1h", "run.directory=out"]
    with h.workplace() as folder:
        wanted, _ = h.undisturbed(folder, args.settings)
        base = h.stopped(folder, args.settings)
        h.finish((control if args.control else all_faults)(folder, base, wanted, args))


if __name__ == "__main__":
    main()
