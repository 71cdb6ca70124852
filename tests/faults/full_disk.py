#!/usr/bin/python3
"""A full file system: the run ends in time, and continues when there is space again.

  full_disk.py [--ranks 2]

The run directory is on a small tmpfs, mounted in a private mount namespace; if that is not
permitted the test is skipped. For several amounts of free space a run starts from the checkpoints
of a stopped one; it must end with verified data, or with an error and the old generation. Then the
space is freed, and the resumed run must give the bits of an undisturbed run.
"""
import argparse
import os
import pathlib
import subprocess
import sys

import harness as h

SIZE = 24 << 20
INSIDE = "TUTTI_TEST_MOUNTS"  # set when this test runs in its own namespace
SETTINGS = ["train.epochs=20", "checkpoint.every=1h", "model.hidden=[96, 96]"]
ENDS_WITHIN = 10.0


def enter_name_space():
    """Run this test again in a private mount namespace: as root, else with a user namespace."""
    for flags in (["-m"], ["-r", "-m"]):
        probe = ["unshare", *flags, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
        try:
            allowed = subprocess.run(probe, capture_output=True).returncode == 0
        except OSError as e:
            h.skip(f"unshare: {e}")
        if allowed:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])
    h.skip("mounting a tmpfs is not permitted here")


def free_bytes(disk):
    s = os.statvfs(disk)
    return s.f_bavail * s.f_frsize


def fill(disk, leave):
    """Write a filler until only `leave` bytes are free."""
    with open(disk / "filler", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, max(1, free_bytes(disk) - leave))


def one_level(args, folder, disk, base, wanted, leave):
    out, name = disk / "out", f"{leave} bytes free"
    h.copy_directory(base, out)
    fill(disk, leave)
    settings = SETTINGS + [f"run.directory={out}"]
    done = h.train(folder, args.ranks, settings, limit=args.limit)
    h.check(not done.hung, f"{name}: still running after {args.limit:.0f} s\n{done.output}")
    if done.code == h.DONE:
        h.check_same(out, wanted, f"{name}: reported success")
    elif not h.is_complete(out):
        h.check(h.newest(out) > 0, f"{name}: the old generation was deleted")
    os.unlink(disk / "filler")
    again = h.train(folder, args.ranks, settings)
    if h.check(again.code == h.DONE, f"{name}: resumed, exit {again.code}\n{again.output}"):
        h.check_same(out, wanted, f"{name}: resumed")
    return done.code


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    if INSIDE not in os.environ:
        enter_name_space()
    with h.workplace() as folder:
        wanted, seconds = h.undisturbed(folder, SETTINGS)
        args.limit = seconds + ENDS_WITHIN
        base = h.stopped(folder, SETTINGS)
        size = h.checkpoint(base, h.newest(base)).stat().st_size
        disk = folder / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={max(SIZE, 8 * size)}", "tmpfs", str(disk)]
        subprocess.run(mount, check=True)
        levels = (0, 4096, size // 2, size + 8192, 5 * size // 2)
        codes = [one_level(args, folder, disk, base, wanted, leave) for leave in levels]
        h.check(any(codes), "no run failed because of the full disk")
        subprocess.run(["umount", str(disk)], check=True)
        h.finish(f"exit codes with {', '.join(map(str, levels))} bytes free: {codes}")


if __name__ == "__main__":
    main()
