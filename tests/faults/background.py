#!/usr/bin/python3
"""A checkpoint is written while training goes on.

  background.py --shim libfaultio.so

On a disk that needs half a second to sync, training does not wait for it; killed meanwhile, the
run has its previous generation and no half one. If the disk fails for the thread that writes, the
run warns and tries once more under another name; if that fails too, the run ends with 74 and the
old generation. Every resumed run gives the bits of an undisturbed one.
"""
import argparse
import os
import re
import shutil
import signal
import time

import harness as h
import take_over

SETTINGS = ["train.epochs=400", "checkpoint.every=10ms", "run.directory=out"]


def shim(args, folder, op, at, error, sticky):
    return h.shim(args.shim, folder, f"{folder}/out/.tmp-owned-ckpt-*", op, at, error, sticky, 0)


def waits(output):
    """[(seconds of writing, seconds that training waited)] of the checkpoints of a run."""
    found = re.findall(r"checkpoint \d+: written in (\S+) s, training waited (\S+) s", output)
    return [(float(written), float(waited)) for written, waited in found]


def resume(folder, wanted, name):
    again = h.train(folder, 0, SETTINGS)
    if h.check(again.code == h.DONE, f"{name}: resumed, exit {again.code}\n{again.output}"):
        h.check_same(folder / "out", wanted, f"{name}: resumed")
        h.check(not h.leftovers(folder / "out"), f"{name}: {h.leftovers(folder / 'out')}")


def slow_disk(args, folder):
    """The last checkpoint is waited for, the first one is not."""
    arguments = h.train_arguments(["train.epochs=1000000", *SETTINGS[1:]], ["-v"])
    arguments.remove("-q")
    done = h.run(folder, 0, [*arguments, "--set", "run.max_time=2s", "--resume", "never"],
                 rank_env=shim(args, folder, "fsync", 1, "SLOW", True))
    h.check(done.code == h.STOPPED, f"slow disk: exit {done.code}\n{done.output}")
    times = waits(done.output)
    if h.check(len(times) > 1, f"slow disk: no checkpoints\n{done.output}"):
        h.check(times[0][0] - times[0][1] > 0.5, f"slow disk: training waited: {times}")
        h.check(times[-1][1] > 0.5, f"slow disk: the last checkpoint was not waited for: {times}")


def killed(args, folder, wanted, base):
    """The file is there, without a name, when the run is killed."""
    out = h.copy_directory(base, folder / "out")
    process = h.start(folder, 0, h.train_arguments(SETTINGS),
                      rank_env=shim(args, folder, "fsync", 1, "SLOW", True))
    end = time.monotonic() + 20
    while "fsync" not in (folder / "shim.log").read_text() and time.monotonic() < end:
        time.sleep(0.005)
    h.send(process.pid, signal.SIGKILL)
    process.wait()
    left = [name for name in h.leftovers(out) if "ckpt" in name]
    h.check(len(left) == 1 and h.newest(out) == 2, f"killed: {sorted(os.listdir(out))}")
    resume(folder, wanted, "killed")


def last_write_of_thread(args, folder, base):
    """Number of the last pwrite before the first fsync: the ones before are of MPI-IO."""
    h.copy_directory(base, folder / "out")
    h.train(folder, 0, SETTINGS, rank_env=shim(args, folder, "pwrite,fsync", 0, "EIO", False))
    return int(re.search(r"^seen 0 fsync (\d+)", (folder / "shim.log").read_text(), re.M)[1]) - 1


def failing_disk(args, folder, wanted, base, op, at, error, sticky):
    name = f"{op} {error}{' for ever' if sticky else ''}"
    out = h.copy_directory(base, folder / "out")
    done = h.train(folder, 0, SETTINGS, rank_env=shim(args, folder, op, at, error, sticky))
    h.check("fired " in (folder / "shim.log").read_text(), f"{name}: nothing failed")
    h.check(not h.leftovers(out), f"{name}: {h.leftovers(out)}")
    if sticky:
        h.check(done.code == h.IO_ERROR and len(h.error_lines(done.output)) == 1 and
                "checkpoint 3 cannot be written" in done.output, f"{name}: exit {done.code}\n{done.output}")
        h.check(done.output.count("tries once more") == 1, f"{name}: not two tries\n{done.output}")
        h.check(h.newest(out) == 2, f"{name}: the old generation is gone")
        resume(folder, wanted, name)
        return
    h.check(done.code == h.DONE, f"{name}: exit {done.code}\n{done.output}")
    warned = "checkpoint 3 was not written, tutti tries once more" in done.output
    h.check(warned == (error != "SHORT"), f"{name}: warned {warned}\n{done.output}")
    h.check_same(out, wanted, name)


def failing_at_the_end(args, folder, wanted, base):
    """All members are trained: the results are written without the last checkpoint."""
    out = h.copy_directory(base, folder / "out")
    done = h.train(folder, 0, [*SETTINGS, "checkpoint.every=1h"],
                   rank_env=shim(args, folder, "fsync", 1, "EIO", True))
    h.check(done.code == h.DONE and "checkpoint 3 cannot be written" in done.output,
            f"at the end: exit {done.code}\n{done.output}")
    h.check(h.newest(out) == 2, "at the end: the old generation is gone")
    h.check_same(out, wanted, "at the end")


def full_disk(args, folder, wanted):
    """No status after the first one finds space: the last one does, in the space of its spare file.
    A file that a start left which was killed later than this run began is gone at its end."""
    shutil.rmtree(folder / "out")
    process = h.start(folder, 0, h.train_arguments(SETTINGS), rank_env=h.shim(
        args.shim, folder, f"{folder}/out/.tmp-owned-status.json-*", "write", 2, "ENOSPC", True, 0))
    left = folder / "out" / ".tmp-owned-ckpt-g000009.h5-elsewhere-7-0123456789abcdef"
    while process.poll() is None and not h.status_of(folder / "out"):
        time.sleep(0.005)
    left.touch()
    h.check(process.wait() == h.DONE, "full disk: it failed")
    status = h.status_of(folder / "out")
    h.check((status["state"], status["exit_code"]) == ("done", 0), f"full disk: {status}")
    h.check(not h.leftovers(folder / "out"), f"full disk: {h.leftovers(folder / 'out')}")
    h.check_same(folder / "out", wanted, "full disk")


def signaled_early(args, folder, wanted):
    """TERM while the job is read, and before the first step: the run ends without a step and
    without a checkpoint, and the next start trains."""
    for point, state in ((("open", "job.yaml", 1), None), (("rename", "out/owner", 1), "stopped")):
        shutil.rmtree(folder / "out", ignore_errors=True)
        process = take_over.paused_start(args, folder, 0, h.train_arguments(SETTINGS), point)
        h.send(process.pid, signal.SIGTERM)
        take_over.resume_all(process)
        done = h.wait(folder, process, 60)
        h.check(done.code == h.STOPPED and "stopped by" in done.output, f"{point}: {done.output}")
        h.check(h.status_of(folder / "out").get("state") == state and
                not h.generations(folder / "out"), f"{point}: {h.status_of(folder / 'out')}")
    resume(folder, wanted, "signaled early")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", required=True, type=os.path.abspath)
    args = parser.parse_args()
    with h.workplace() as folder:
        wanted, _ = h.undisturbed(folder, SETTINGS[:2], 0)
        base = h.stopped(folder, SETTINGS[:2], ranks=0)
        slow_disk(args, folder)
        killed(args, folder, wanted, base)
        at = last_write_of_thread(args, folder, base)
        for case in (("pwrite", at, "EIO", False), ("pwrite", at, "SHORT", False),
                     ("fsync", 1, "EIO", False), ("fsync", 1, "EIO", True),
                     ("fallocate", 1, "ENOSPC", True)):
            failing_disk(args, folder, wanted, base, *case)
        failing_at_the_end(args, folder, wanted, base)
        full_disk(args, folder, wanted)
        signaled_early(args, folder, wanted)
        h.finish("a slow disk, a full one, a kill, six failures")


if __name__ == "__main__":
    main()
