#!/usr/bin/python3
"""A start that is refused does no harm to the start that is running in the directory.

  refused_start.py --shim libfaultio.so

Start A is stopped (SIGSTOP) before a rename: before its first checkpoint or round, and after it.
Starts of other runs and of other options must end with their exit code and change no file. Then A
goes on: it must end with the files of an undisturbed run, bit by bit. If A is killed before its
first checkpoint, a start of another run may have the directory.
"""
import argparse
import os
import signal

import campaign_kill
import harness as h
import take_over as t

DATA, USAGE, UNAVAILABLE = 65, 64, 69
IN_USE, OTHER_RUN = "is in use by a start", "belongs to another run"
VERSION = "tutti-checkpoint-2.0"


def row(name, code, words, *settings, ranks=0, args=(), version="", env=None):
    more = [w for s in settings for w in ("--set", s)] + list(args)
    return {"name": name, "code": code, "words": words, "more": more, "ranks": ranks,
            "version": version, "env": env}


# What a start has that is not of A's run, its exit code, and words of its message.
RUN_ROWS = [
    row("seed", DATA, (IN_USE, "run.seed is 11 there and 7 here"), "run.seed=7"),
    row("options", DATA, (IN_USE, "train.epochs is 40 there and 10 here"), "train.epochs=10"),
    row("data", DATA, (IN_USE,), "data.file=other.h5"),
    row("arithmetic", DATA, (IN_USE,), env={"TUTTI_SIMD": "generic"}),
    row("version", DATA, (IN_USE,), version="tutti-checkpoint-1.0"),
    row("seed on two ranks", DATA, (IN_USE,), "run.seed=7", ranks=2),
    row("--resume never", DATA, (IN_USE, "remove "), args=["--resume", "never"]),
    row("--resume must", 66, ("no checkpoint to resume",), args=["--resume", "must"])]
LATER_RUN_ROWS = [
    row("seed", DATA, (OTHER_RUN, "run.seed is 11 there and 7 here"), "run.seed=7"),
    row("data", DATA, (OTHER_RUN,), "data.file=other.h5"),
    row("arithmetic", DATA, ("--allow-different-device",), env={"TUTTI_SIMD": "generic"}),
    row("--resume never", DATA, (IN_USE,), args=["--resume", "never"])]
CAMPAIGN_ROWS = [
    row("seed", DATA, (IN_USE,), "run.seed=9"),
    row("options", DATA, (IN_USE,), "train.epochs=21"),
    row("data", DATA, (IN_USE,), "data.file=other_first.h5"),
    row("pool", DATA, (IN_USE,), "pool.file=other_pool.h5"),
    row("version", DATA, (IN_USE,), version="tutti-checkpoint-1.0"),
    row("no such oracle", UNAVAILABLE, ("nobody",), "label.command=[./nobody]"),
    row("--from", DATA, (IN_USE,), args=["--from", "1:train"]),
    row("--from a later round", USAGE, ("--from 9",), args=["--from", "9"])]
LATER_CAMPAIGN_ROWS = [
    row("seed", DATA, ("belongs to another campaign", "run.seed is 9, but was 11"), "run.seed=9"),
    row("pool", DATA, ("belongs to another campaign", "pool.file"), "pool.file=other_pool.h5")]


def refused(folder, command, case, name):
    """Start B, which must change nothing. A checks the first line of its owner file only, so the
    version of its run can be changed meanwhile."""
    name, owner = f"{name}, other {case['name']}", folder / "out" / "owner"
    mine = owner.read_text()
    h.check(VERSION in mine, f"{name}: owner is {mine}")
    owner.write_text(mine.replace(VERSION, case["version"] or VERSION))
    before = t.contents(folder / "out")
    b = h.run(folder, case["ranks"], command + case["more"], case["env"])
    h.check(b.code == case["code"] and not b.hung, f"{name}: B ended with {b.code}\n{b.output}")
    for words in case["words"]:
        h.check(words in b.output, f"{name}: no \"{words}\" in\n{b.output}")
    after = t.contents(folder / "out")
    changed = [f for f in before.keys() | after.keys() if before.get(f) != after.get(f)]
    h.check(not changed, f"{name}: B changed {', '.join(sorted(changed))}")
    owner.write_text(mine)


def one_point(args, folder, command, point, rows, judge):
    """A is paused at the point, all others are refused, A goes on."""
    name = " ".join(map(str, point))
    h.shutil.rmtree(folder / "out", ignore_errors=True)
    a = t.paused_start(args, folder, 0, command, point)
    if not a:
        return
    os.rename(folder / "log", folder / "log.a")
    for case in rows:
        refused(folder, command, case, name)
    t.resume_all(a)
    os.rename(folder / "log.a", folder / "log")
    done = h.wait(folder, a, 60)
    h.check(done.code == h.DONE and not done.hung, f"{name}: A ended with {done.code}\n{done.output}")
    judge(name)
    print(f"{name}: {len(rows)} starts refused, A {done.code}", flush=True)


def killed(args, folder):
    """A is killed before its first checkpoint: another run may start."""
    h.shutil.rmtree(folder / "out", ignore_errors=True)
    a = t.paused_start(args, folder, 0, t.RUN, t.RUN_POINTS[1])
    if a:
        h.send(a.pid, signal.SIGKILL)
        h.reap(a)
        b = h.run(folder, 0, t.RUN + ["--set", "run.seed=7"])
        h.check(b.code == h.DONE, f"killed: B ended with {b.code}\n{b.output}")


def train(args, folder):
    wanted, _ = h.undisturbed(folder, t.SETTINGS, ranks=0)
    h.write_data(folder / "other.h5", rows=200)
    judge = lambda name: h.check_same(folder / "out", wanted, name)
    one_point(args, folder, t.RUN, ("rename", "out/ckpt-g000001.h5", 1), RUN_ROWS, judge)
    one_point(args, folder, t.RUN, ("rename", "out/model.h5", 1), LATER_RUN_ROWS, judge)
    killed(args, folder)


def other_file(folder, name):
    """A copy of an HDF5 file with one other input."""
    h.shutil.copy(folder / name, folder / f"other_{name}")
    with h.h5py.File(folder / f"other_{name}", "r+") as f:
        f["x"][0, 0] = 0.5


def campaign(args, folder):
    campaign_kill.prepare(folder)
    other_file(folder, "first.h5")
    other_file(folder, "pool.h5")
    done = h.run(folder, 0, t.CAMPAIGN)
    h.check(done.code == h.DONE, f"the undisturbed campaign ended with {done.code}\n{done.output}")
    wanted = campaign_kill.history(folder, "out")
    judge = lambda name: campaign_kill.judge_history(folder, "out", wanted)
    one_point(args, folder, t.CAMPAIGN, ("rename", "out/round-0001/queries.h5", 1), CAMPAIGN_ROWS,
              judge)
    one_point(args, folder, t.CAMPAIGN, ("rename", "out/campaign.h5", 2), LATER_CAMPAIGN_ROWS,
              judge)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", required=True, type=os.path.abspath)
    args = parser.parse_args()
    with h.workplace() as folder:
        train(args, folder)
        campaign(args, folder)
        h.finish("four points of a run and of a campaign")


if __name__ == "__main__":
    main()
