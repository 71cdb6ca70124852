#!/usr/bin/python3
"""Every file call fails once: a run ends in time, with verified data or with an error and the old
generation.

  io_faults.py --shim libfaultio.so [--most 12] [--ranks 2]

A run from the checkpoints of a stopped one is watched first; then each of its writes, opens,
fsyncs, truncations and renames in the run directory fails in turn with ENOSPC, EIO or, for writes,
a short write, on each rank. --most bounds the cases per rank and kind, spread over all calls.
"""
import argparse
import collections
import sys

import harness as h

ERRORS = {"write": ("ENOSPC", "EIO", "SHORT"), "open": ("EIO",), "fsync": ("EIO",),
          "ftruncate": ("ENOSPC",), "rename": ("EIO",)}
SETTINGS = ["train.epochs=20", "checkpoint.every=1h", "run.directory=out"]
ENDS_WITHIN = 10.0  # seconds after the time an undisturbed run takes


def shim(args, folder, rank, ops, at=0, error="ENOSPC", sticky=False):
    (folder / "shim.log").write_text("")
    return {"LD_PRELOAD": args.shim, "FAULTIO_PATH": f"{folder}/out/*", "FAULTIO_OPS": ops,
            "FAULTIO_AT": str(at), "FAULTIO_ERROR": error, "FAULTIO_RANK": str(rank),
            "FAULTIO_STICKY": "1" if sticky else "0", "FAULTIO_LOG": str(folder / "shim.log")}


def count_calls(args, folder, base, rank):
    """{op: number of calls} of an undisturbed resumption on one rank."""
    counts = collections.Counter()
    for op in ERRORS:
        h.copy_directory(base, folder / "out")
        h.train(folder, args.ranks, SETTINGS, rank_env=shim(args, folder, rank, op))
        counts[op] = (folder / "shim.log").read_text().count("seen ")
    return counts


def spread(count, most):
    """At most `most` numbers of 1..count, with both ends."""
    if count <= most:
        return range(1, count + 1)
    return sorted({1 + i * (count - 1) // (most - 1) for i in range(most)})


def judge(args, folder, wanted, done, name):
    limit = args.limit
    if not h.check(not done.hung, f"{name}: still running after {limit:.0f} s\n{done.output}"):
        return
    if done.code == h.DONE:
        h.check_same(folder / "out", wanted, f"{name}: reported success")
        return
    if not h.is_complete(folder / "out"):
        h.check(h.newest(folder / "out") > 0, f"{name}: the old generation is gone")
    again = h.train(folder, 0, SETTINGS, limit=60)
    if h.check(again.code == h.DONE, f"{name}: resumed, exit {again.code}\n{again.output}"):
        h.check_same(folder / "out", wanted, f"{name}: resumed")


def one_case(args, folder, base, wanted, rank, op, at, error, sticky):
    """True if the fault fired."""
    h.copy_directory(base, folder / "out")
    plan = shim(args, folder, rank, op, at, error, sticky)
    done = h.train(folder, args.ranks, SETTINGS, rank_env=plan, limit=args.limit)
    name = f"rank {rank}, {op} {at} {error}{' and all later ones' if sticky else ''}"
    judge(args, folder, wanted, done, name)
    return "fired " in (folder / "shim.log").read_text()


def cases(args, folder, base):
    """(rank, op, number, error, sticky), errors and stickiness in turn over the numbers."""
    for rank in range(args.ranks):
        counts = count_calls(args, folder, base, rank)
        print(f"rank {rank}: {dict(counts)} calls", flush=True)
        for op, errors in ERRORS.items():
            most = args.most if op == "write" else max(2, args.most // 4)
            for i, at in enumerate(spread(counts[op], most)):
                for error in errors if args.all else [errors[(i + rank) % len(errors)]]:
                    yield rank, op, at, error, i % 4 == 3


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument("--all", action="store_true", help="every error at every number")
    args = parser.parse_args()
    with h.workplace() as folder:
        wanted, seconds = h.undisturbed(folder, SETTINGS)
        args.limit = seconds + ENDS_WITHIN
        base = h.stopped(folder, SETTINGS)
        fired = total = 0
        for case in cases(args, folder, base):
            fired += one_case(args, folder, base, wanted, *case)
            total += 1
        h.check(fired > total // 2, f"only {fired} of {total} faults fired")
        h.finish(f"{fired} of {total} faults fired")


if __name__ == "__main__":
    main()
