#!/usr/bin/python3
"""Stopped ranks, signals and time limits: exit 75 on all ranks, and the same bits after resuming.

  stop_rank.py [--seconds 1]

SIGSTOP of one rank: the watchdogs of the others end the run. SIGUSR1 to all ranks or to the
launcher, SIGTERM to one rank, and run.max_time: a checkpoint at the next chunk. Each run is resumed
on another rank count.
"""
import argparse
import shutil
import signal
import sys
import time

import harness as h

WATCHDOG = 2.0
LONGER = (1, 4, 16, 256)  # factor on the epochs if a run ended before it could be stopped


class TooSoon(Exception):
    """The run ended before it was stopped."""


RESUME_ON = {1: 3, 2: 1, 3: 2}


def start(folder, args, ranks, extra=(), settings=()):
    """A fresh run in folder/out with its first checkpoint, and its ranks."""
    h.copy_directory(folder / "empty", folder / "out")
    sets = [f"train.epochs={args.epochs}", "run.directory=out", "checkpoint.every=20ms", *settings]
    process = h.start(folder, ranks, h.train_arguments(sets, extra))
    end = time.monotonic() + 60
    while not h.newest(folder / "out") and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    pids = h.ranks_of(process)
    if len(pids) < ranks and not extra:
        raise TooSoon
    return process, pids


def resume(folder, args, ranks, wanted, name):
    before = h.newest(folder / "out")
    h.check(before > 0, f"{name}: no checkpoint")
    sets = [f"train.epochs={args.epochs}", "run.directory=out"]
    again = h.train(folder, ranks, sets)
    name = f"{name}: resumed on {ranks}"
    if h.check(again.code == h.DONE, f"{name}, exit {again.code}\n{again.output}"):
        h.check_same(folder / "out", wanted, name)


def judge_stop(folder, args, done, ranks, wanted, name):
    h.check(not done.hung, f"{name}: did not end")
    if done.code == h.DONE:
        raise TooSoon(name)
    h.check(done.code == h.STOPPED, f"{name}: exit {done.code}, not 75\n{done.output}")
    h.check(h.status_of(folder / "out"), f"{name}: status.json is missing or is not JSON")
    resume(folder, args, RESUME_ON[ranks], wanted, name)


def stopped_rank(folder, args, wanted, victim):
    name = f"SIGSTOP of rank {victim}"
    process, pids = start(folder, args, 2, settings=[f"run.watchdog={WATCHDOG:.0f}s"])
    h.send(pids[victim], signal.SIGSTOP)
    done = h.wait(folder, process, WATCHDOG + 20)
    h.check(done.seconds < WATCHDOG + 12 * h.busy(), f"{name}: took {done.seconds:.1f} s")
    judge_stop(folder, args, done, 2, wanted, name)


def signaled(folder, args, wanted, number, to_all, ranks):
    name = f"{signal.Signals(number).name} to {'all' if to_all else 'one'} of {ranks} ranks"
    process, pids = start(folder, args, ranks)
    for pid in pids if to_all else pids[-1:]:
        h.send(pid, number)
    judge_stop(folder, args, h.wait(folder, process, 20), ranks, wanted, name)


def forwarded(folder, args, wanted):
    """mpirun forwards SIGUSR1 to its ranks."""
    process, _ = start(folder, args, 2)
    h.send(process.pid, signal.SIGUSR1)
    judge_stop(folder, args, h.wait(folder, process, 20), 2, wanted, "SIGUSR1 to the launcher")


def time_limit(folder, args, wanted, seconds):
    limit = max(0.2, 0.3 * seconds)
    process, _ = start(folder, args, 2, ["--set", f"run.max_time={limit:.2f}s"])
    judge_stop(folder, args, h.wait(folder, process, 60), 2, wanted, f"run.max_time {limit:.2f}s")


def every_way(folder, args):
    shutil.rmtree(folder / "wanted", ignore_errors=True)
    wanted, seconds = h.undisturbed(folder, [f"train.epochs={args.epochs}"])
    for victim in (0, 1):
        stopped_rank(folder, args, wanted, victim)
    signaled(folder, args, wanted, signal.SIGUSR1, True, 3)
    signaled(folder, args, wanted, signal.SIGTERM, False, 2)
    forwarded(folder, args, wanted)
    time_limit(folder, args, wanted, seconds)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1, help="of training in all")
    args = parser.parse_args()
    with h.workplace() as folder:
        (folder / "empty").mkdir()
        epochs = h.epochs_for(folder, args.seconds)
        for longer in LONGER:
            args.epochs = epochs * longer
            try:
                every_way(folder, args)
                h.finish(f"6 ways to stop, {args.epochs} epochs")
            except TooSoon as run:
                print(f"{args.epochs} epochs end too soon: {run}", flush=True)
        h.fail("no run could be stopped before its end")
        h.finish("")


if __name__ == "__main__":
    main()
