#!/usr/bin/python3
"""Limits of the shell: a file above the size limit (ulimit -f) is an I/O error like a full disk, and
a job that does not fit into the memory (ulimit -v) ends before it allocates anything.

  limits.py [--ranks 2]
"""
import argparse
import re
import sys

import harness as h

MEMORY = 71
SETTINGS = ["train.epochs=20", "checkpoint.every=1h", "run.directory=out"]


def check_file_size(folder, base, wanted, ranks, kibibytes):
    """An error with its status, or verified data; never a signal or a temporary file. Under mpirun,
    because the server that MPI starts for a single rank would have the limit too."""
    name = f"{ranks} ranks, files of at most {kibibytes} KiB"
    h.copy_directory(base, folder / "out")
    # Open MPI's own shared memory is a file above the limit
    done = h.train(folder, ranks, SETTINGS, env={"OMPI_MCA_btl": "self,tcp"},
                   ulimit=f"-f {2 * kibibytes}")  # of 512 bytes, in POSIX
    h.check(not done.hung, f"{name}: hangs\n{done.output}")
    h.check(not h.leftovers(folder / "out"), f"{name}: left {h.leftovers(folder / 'out')}")
    if done.code == h.DONE:
        h.check_same(folder / "out", wanted, f"{name}: reported success")
        return done.code
    h.check(done.code == h.IO_ERROR, f"{name}: exit {done.code}\n{done.output}")
    lines = h.error_lines(done.output)
    h.check(len(lines) == 1 and re.search(r"File too large|ulimit -f", lines[0]),
            f"{name}: messages {lines}\n{done.output}")
    status = h.status_of(folder / "out")
    h.check((status.get("state"), status.get("exit_code")) == ("failed", h.IO_ERROR),
            f"{name}: status {status}")
    return done.code


def check_memory(folder, ranks):
    """Both numbers and what to do, at once; `tutti plan` warns."""
    name, large = f"{ranks} ranks, 600 MB of address space", ["model.hidden=[3072, 3072]",
                                                             "run.directory=large"]
    done = h.train(folder, ranks, large, env={"OMPI_MCA_btl": "self,tcp"}, ulimit="-v 600000")
    h.check(done.code == MEMORY, f"{name}: exit {done.code}\n{done.output}")
    lines = h.error_lines(done.output)
    h.check(len(lines) == 1 and re.search(
        r"1 rank on .* needs [\d.]+ [MG]iB more memory, but only [\d.]+ MiB are left of .*ulimit -v\): "
        r"use more nodes, or fewer members", lines[0]), f"{name}: messages {lines}\n{done.output}")
    sets = [word for s in large for word in ("--set", s)]
    plan = h.run(folder, 0, ["plan", "job.yaml", *sets], ulimit="-v 600000")
    h.check(plan.code == h.DONE, f"plan: exit {plan.code}\n{plan.output}")
    h.check("warning: a rank needs more memory than is left here: " in plan.output,
            f"plan does not warn:\n{plan.output}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    with h.workplace() as folder:
        wanted, _ = h.undisturbed(folder, SETTINGS)
        base = h.stopped(folder, SETTINGS)
        codes = [check_file_size(folder, base, wanted, ranks, size)
                 for ranks, size in ((1, 4), (args.ranks, 4), (1, 24), (args.ranks, 100))]
        h.check(h.IO_ERROR in codes, f"no run reached the limit: {codes}")
        check_memory(folder, 0)
        check_memory(folder, args.ranks)
        h.finish(f"exit codes: {codes}")


if __name__ == "__main__":
    main()
