#!/usr/bin/python3
"""A communication call of one rank fails: all ranks end with exit code 75, one message and the
status, and the next start ends with the bits of an undisturbed run.

  mpi_errors.py --shim libfaultmpi.so [--every N]

The calls of an undisturbed run are counted first; then the first one and one in the middle fail, and
one that HDF5 makes on its own communicator: HDF5 gets that error on one rank alone, so a watchdog
ends the run. --every takes every N-th call of both kinds.
"""
import argparse
import os

import harness as h

RANKS = 2
SETTINGS = ["train.epochs=20", "checkpoint.every=10ms", "run.directory=out"]
OWN, OF_HDF5 = 0, 1
SAYS = {OWN: ("MPI: ", "another rank has ended or the network failed"),
        OF_HDF5: ("watchdog: rank ", "made no progress")}
ENDS_WITHIN = 20  # seconds


def shim(args, folder, kind=OWN, rank=0, at=0):
    return {"LD_PRELOAD": str(args.shim), "FAULTMPI_AT": at, "FAULTMPI_RANK": rank,
            "FAULTMPI_KIND": kind, "FAULTMPI_LOG": folder / "calls"}


def check_case(args, folder, wanted, kind, rank, at):
    """The run with this failure; then the same command without."""
    name = f"call {at} of {('tutti', 'HDF5')[kind]} on rank {rank}"
    h.copy_directory(folder / "empty", folder / "out")
    settings = SETTINGS + ["run.watchdog=1s"] * (kind == OF_HDF5)
    done = h.train(folder, RANKS, settings, rank_env=shim(args, folder, kind, rank, at))
    said = "\n".join(h.error_lines(done.output))
    h.check(not done.hung and done.seconds < ENDS_WITHIN, f"{name}: {done.seconds:.1f} s")
    h.check(done.code == h.STOPPED, f"{name}: exit {done.code}\n{done.output}")
    h.check(kind == OF_HDF5 or said.count("\n") == 0 and f"rank {rank} on " in said, f"{name}: {said}")
    for text in *SAYS[kind], "run again to continue":
        h.check(text in said, f"{name}: '{text}' is not in: {said}")
    status = h.status_of(folder / "out")
    if status.get("state") != "done" and (folder / "out/owner").exists():
        h.check((status.get("state"), status.get("exit_code")) == ("hung", 75) and
                status["reason"] in said, f"{name}: {status}")
    again = h.train(folder, 1, SETTINGS)
    if h.check(again.code == h.DONE, f"{name}: the next start ends with {again.code}\n{again.output}"):
        h.check_same(folder / "out", wanted, name)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", type=os.path.abspath, required=True)
    parser.add_argument("--every", type=int, default=0)
    args = parser.parse_args()
    with h.workplace() as folder:
        (folder / "empty").mkdir()
        done = h.train(folder, RANKS, SETTINGS, rank_env=shim(args, folder))
        h.check(done.code == h.DONE, f"the undisturbed run: {done.code}\n{done.output}")
        calls = {}
        for line in (folder / "calls").read_text().splitlines():
            rank, *numbers = map(int, line.split())
            calls.update({(kind, rank): n for kind, n in enumerate(numbers)})
        h.check(len(calls) == 2 * RANKS and min(calls.values()) > 20, f"calls: {calls}")
        wanted = folder / "wanted"
        h.copy_directory(folder / "out", wanted)
        cases = [(OWN, 1, 1), (OWN, 0, calls[OWN, 0] // 2), (OF_HDF5, 1, calls[OF_HDF5, 1] // 2)]
        if args.every:
            cases = [(*who, n) for who in calls for n in range(1, calls[who] + 1, args.every)]
        for case in cases:
            check_case(args, folder, wanted, *case)
        h.finish(f"{len(cases)} of {sum(calls.values())} calls failed")


if __name__ == "__main__":
    main()
