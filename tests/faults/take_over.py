#!/usr/bin/python3
"""Two starts in one directory: one of them, and only one, writes the files.

  take_over.py --shim libfaultio.so [--all]     a start is paused before a call; another takes over
  take_over.py --race N [--campaign] [--seed 1] [--out FILE]
                                                two starts at random times, N times

Without --race, start A is stopped (SIGSTOP) before one of its opens or renames of a file of the run
or the campaign. Start B begins, takes the directory over and ends. Then A goes on: it must end with
75 and change nothing. With --race, both must end with 0 or 75, at least one of them with 0, and the
files must be those of one undisturbed run, bit by bit. Each race is one line of FILE: seed, number,
the exit codes of both starts, same or FAILED.
"""
import argparse
import collections
import hashlib
import os
import random
import signal
import time

import campaign_kill
import harness as h

SETTINGS = ["train.epochs=40", "checkpoint.every=1h", "run.directory=out"]
RUN = ["train", "job.yaml", "-q"] + [w for s in SETTINGS for w in ("--set", s)]
CAMPAIGN = ["campaign", "run", "campaign.yaml", "-q", "--set", "campaign.directory=out",
            "--set", "stop.rounds=2", "--set", "train.epochs=20", "--set", "label.rows_per_call=8"]

# (call, file it is about, number of the call): A stops before it. A rename comes directly after the
# check of the owner.
RUN_POINTS = [("rename", "out/owner", 1), ("rename", "out/ckpt-g000001.h5", 1),
              ("open", "out/.tmp-*model.h5-*", 1), ("rename", "out/model.h5", 1),
              ("open", "out/.tmp-*results.h5-*", 1), ("rename", "out/results.h5", 1),
              ("rename", "out/status.json", 1)]
MORE_RUN_POINTS = [("rename", "out/status.json", 2),
                   ("open", "out/.tmp-*ckpt-*", 1), ("open", "out/owner", 2),
                   ("open", "out/owner", 4)]
CAMPAIGN_POINTS = [("rename", "out/round-0001/queries.h5", 1), ("rename", "out/campaign.h5", 2),
                   ("rename", "out/round-0002/label/0001/accepted.h5", 1),
                   ("write", "out/journal.jsonl", 6)]
MORE_CAMPAIGN_POINTS = [
    ("rename", f"out/{name}", 1) for name in (
        "owner", "journal.jsonl", "campaign.h5", "model.h5", "round-0001/inputs",
        "round-0001/owner", "round-0001/model.h5", "round-0001/results.h5",
        "round-0001/pool_scores.h5", "round-0001/round_after_score.h5", "round-0001/label/queries",
        "round-0002/inputs", "round-0002/round_after_select.h5",
        "round-0002/label/0001/input.csv")] + [
    ("write", "out/journal.jsonl", n) for n in (1, 2, 3, 4, 5, 8, 10)]


def contents(directory):
    """{file: hash} of all files below a directory."""
    return {str(p.relative_to(directory)): hashlib.md5(p.read_bytes()).hexdigest()
            for p in sorted(directory.rglob("*")) if p.is_file() and not p.is_symlink()}


def is_stopped(process):
    """A process of the session of `process` is stopped."""
    return any(session == process.pid and state == "T"
               for _, session, state in h.process_table().values())


def paused_start(args, folder, ranks, command, point):
    """Start A, and wait until it is stopped. None: it ended before."""
    call, pattern, number = point
    env = {"LD_PRELOAD": args.shim, "FAULTIO_PATH": f"{folder}/{pattern}", "FAULTIO_OPS": call,
           "FAULTIO_AT": str(number), "FAULTIO_ERROR": "STOP", "FAULTIO_RANK": "0"}
    a = h.start(folder, ranks, command, rank_env=env) if ranks else \
        h.start(folder, ranks, command, env)
    end = time.monotonic() + 60
    while a.poll() is None and not is_stopped(a) and time.monotonic() < end:
        time.sleep(0.01)
    if a.poll() is None and is_stopped(a):
        return a
    done = h.wait(folder, a, 1)
    h.fail(f"{' '.join(map(str, point))}: A was not stopped, exit {done.code}\n{done.output}")
    return None


def resume_all(process):
    for pid, (_, session, state) in h.process_table().items():
        if session == process.pid and state == "T":
            h.send(pid, signal.SIGCONT)


def one_point(args, folder, ranks, command, point, judge):
    """A is paused at the point, B runs to its end, A goes on."""
    name = " ".join(map(str, point))
    h.shutil.rmtree(folder / "out", ignore_errors=True)
    a = paused_start(args, folder, ranks, command, point)
    if not a:
        return
    os.rename(folder / "log", folder / "log.a")
    b = h.run(folder, 0, command)
    h.check(b.code == h.DONE, f"{name}: B ended with {b.code}\n{b.output}")
    before = contents(folder / "out")
    resume_all(a)
    done = h.wait(folder, a, 60)
    output = (folder / "log.a").read_text(errors="replace")
    takes_over = point[0] == "rename" and point[1] == "out/owner"  # then A is the later start
    code = h.DONE if takes_over else h.STOPPED
    h.check(done.code == code and not done.hung, f"{name}: A ended with {done.code}\n{output}")
    after = contents(folder / "out")
    changed = [f for f in before.keys() | after.keys() if before.get(f) != after.get(f)]
    if not takes_over:
        h.check("another start" in output, f"{name}: A does not name its reason\n{output}")
        h.check(not changed, f"{name}: A changed {', '.join(sorted(changed))}")
    left = [f for f in after if "/.tmp-" in f"/{f}"]
    h.check(not left, f"{name}: left behind: {', '.join(left)}")
    judge(name)
    print(f"{name}: A {done.code}, B {b.code}", flush=True)


def paused_starts(args, folder, command, chosen, judge):
    """Point number 3 with two ranks under a launcher, the others without."""
    for number, point in enumerate(chosen):
        one_point(args, folder, 2 if command is RUN and number == 3 else 0, command, point, judge)
    return f"{len(chosen)} points"


def train(args, folder):
    wanted, _ = h.undisturbed(folder, SETTINGS, ranks=0)
    seconds = h.status_of(wanted)["seconds"] + 0.1  # with its start
    judge = lambda name: h.check_same(folder / "out", wanted, name)
    if args.race:
        return races(args, folder, RUN, judge, seconds)
    chosen = RUN_POINTS + (MORE_RUN_POINTS if args.all else [])
    return paused_starts(args, folder, RUN, chosen, judge)


def campaign(args, folder):
    campaign_kill.prepare(folder)
    done = h.run(folder, 0, CAMPAIGN)
    h.check(done.code == h.DONE, f"the undisturbed campaign ended with {done.code}\n{done.output}")
    wanted = campaign_kill.history(folder, "out")
    judge = lambda name: campaign_kill.judge_history(folder, "out", wanted)
    if args.race:
        return races(args, folder, CAMPAIGN, judge, done.seconds)
    chosen = CAMPAIGN_POINTS + (MORE_CAMPAIGN_POINTS if args.all else [])
    return paused_starts(args, folder, CAMPAIGN, chosen, judge)


def race(folder, number, command, seconds):
    """Two starts: the later one begins, and one of them is paused, at random times."""
    h.shutil.rmtree(folder / "out", ignore_errors=True)
    plan = sorted([(0, "start"), (random.uniform(0, 1.2) * seconds, "start"),
                   (random.uniform(0, 1.2) * seconds, "stop"),
                   (random.uniform(0, 3) * seconds, "resume")])
    starts, codes, begin = [], [], time.monotonic()
    paused = None
    for when, what in plan + [(0, "resume")]:
        time.sleep(max(0.0, begin + when - time.monotonic()))
        if what == "start":
            starts.append(h.start(folder, 0, command))
            os.rename(folder / "log", folder / f"log.{len(starts)}")
        elif what == "stop":
            paused = random.choice(starts)
            h.send(paused.pid, signal.SIGSTOP)
        elif paused:
            h.send(paused.pid, signal.SIGCONT)
    for i, process in enumerate(starts, 1):
        os.rename(folder / f"log.{i}", folder / "log")
        done = h.wait(folder, process, 60)
        os.rename(folder / "log", folder / f"log.{i}")
        codes.append(done.code)
        h.check(done.code in (h.DONE, h.STOPPED) and not done.hung,
                f"race {number}: start {i} ended with {done.code}\n{done.output}")
    h.check(h.DONE in codes, f"race {number}: exit codes {codes}")
    left = [f for f in contents(folder / "out") if "/.tmp-" in f"/{f}"]
    h.check(not left, f"race {number}: left behind: {', '.join(left)}")
    return codes


def races(args, folder, command, judge, seconds):
    kinds = collections.Counter()
    for number in range(1, args.race + 1):
        before = len(h.failures)
        codes = race(folder, number, command, seconds)
        status = h.status_of(folder / "out").get("state")
        h.check(status == "done", f"race {number}: state {status}")
        judge(f"race {number}")
        kinds[tuple(codes)] += 1
        if args.out:
            good = "same" if len(h.failures) == before else "FAILED"
            with open(args.out, "a") as f:
                f.write(f"{args.seed}\t{number}\t{codes[0]}\t{codes[1]}\t{good}\n")
    return f"{args.race} races, exit codes of the two starts: " + ", ".join(
        f"{a} and {b}: {n}" for (a, b), n in sorted(kinds.items()))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", type=os.path.abspath)
    parser.add_argument("--all", action="store_true", help="all points")
    parser.add_argument("--campaign", action="store_true", help="campaigns only")
    parser.add_argument("--race", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="file to append the races to")
    args = parser.parse_args()
    random.seed(args.seed)
    with h.workplace() as folder:
        parts = [campaign] if args.campaign else [train] if args.race else [train, campaign]
        h.finish("; ".join(part(args, folder) for part in parts))


if __name__ == "__main__":
    main()
