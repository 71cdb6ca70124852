#!/usr/bin/python3
"""Killed at random instants, resumed on random rank counts: the same bits in the end.

  kill_loop.py [--kills 30] [--seed 1] [--seconds 2] [--control float|lose|hang|all]

A start trains on 1 to 4 ranks, with members in parts, in stages or both, and is ended by SIGKILL to
one rank, to all ranks, or to the launcher (whose ranks may still run at the next start). After the
last kill the job runs to its end; every tensor of model.h5 and results.h5 must be bit-identical to
an undisturbed run, no committed
generation may be lost, no start may hang and no temporary file may be left. Negative controls, on
which the same checks must fail: one float of a checkpoint changed together with its checksum; the
newest checkpoint removed; a rank stopped with a watchdog that is too slow.
"""
import argparse
import random
import shutil
import signal
import sys
import time

import harness as h


class Wrong(Exception):
    """A check failed; the first argument says which: bits, lost, hang, exit, left."""


def kill(process, how, number=signal.SIGKILL):
    """True if the signal reached a process."""
    ranks = h.ranks_of(process)
    if process.poll() is not None or not ranks:
        return False
    if how == "launcher":
        h.send(process.pid, number)
    for pid in ranks if how == "all" else [random.choice(ranks)] if how == "one" else []:
        h.send(pid, number)
    return True


class TooSoon(Exception):
    """The job ended before the control could make its change."""


# How several ranks train one member in a start: no bit depends on it.
TEAMS = [["run.ranks_per_member=2"], ["run.stages=2"], ["run.stages=3"],
         ["run.stages=2", "run.ranks_per_member=2"]]


class Campaign:
    """One job in one directory, with as many starts as needed."""

    def __init__(self, folder, settings, seconds, limit, job="job.yaml", teams=None):
        self.folder, self.out, self.limit, self.job = folder, folder / "out", limit, job
        self.settings, self.seconds = list(settings) + ["run.directory=out"], seconds
        self.teams = teams
        self.newest, self.starts, self.kills, self.resumed = 0, 0, 0, 0
        self.orphans, self.had_orphans = [], False
        shutil.rmtree(self.out, ignore_errors=True)

    def run_once(self, may_kill):
        """One start of the program. Returns True when the job is done."""
        process = self.launch(random.randint(1, 4))
        how = random.choices(("one", "all", "launcher"), (6, 3, 1))[0]
        killed = may_kill and self.kill_later(process, how)
        return self.settle(process, killed, killed and how == "launcher")

    def launch(self, ranks, **how):
        self.starts += 1
        self.resumed += self.newest > 0
        settings = self.settings + (random.choice(self.teams) if self.teams else [])
        return h.start(self.folder, ranks, h.train_arguments(settings, job=self.job), **how)

    def settle(self, process, killed, leave_orphans=False):
        """The end of a start. Returns True when the job is done."""
        done = self.end(process, leave_orphans)
        if killed and done.hung == "launcher":  # mpirun missed a rank that died during the start
            print(f"start {self.starts}: all ranks had ended, their launcher had not")
        elif done.hung:
            raise Wrong("hang", f"start {self.starts}: over {self.limit} s\n{done.output}")
        if not killed and done.code != h.DONE:
            raise Wrong("exit", f"start {self.starts}: {done.code}\n{done.output}")
        self.check_nothing_lost()
        return done.code == h.DONE

    def kill_later(self, process, how):
        """Wait for a random instant within the first generations of a start. Checkpoints are
        counted, not seconds, so that the progress does not depend on the load of the machine."""
        generations, rest = random.choice((0, 1, 1, 2, 3)), random.uniform(0, 0.15)
        while h.newest(self.out) < self.newest + generations and process.poll() is None:
            time.sleep(0.005)
        if not generations:  # during the start
            rest = random.uniform(0, 0.25) * self.seconds
        end = time.monotonic() + rest
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.005)
        hit = kill(process, how)
        self.kills += hit
        return hit

    def end(self, process, leave_orphans):
        """Ranks of a killed launcher may run during the next start; they are killed after it."""
        if leave_orphans:
            process.wait()
            self.orphans.append(process)
            self.had_orphans = True
            return h.Run(process.returncode, False, 0.0, "")
        done = h.wait(self.folder, process, self.limit)
        while self.orphans:
            h.reap(self.orphans.pop())
        return done

    def check_nothing_lost(self):
        now = h.newest(self.out)
        if now < self.newest and not h.is_complete(self.out):
            raise Wrong("lost", f"generation {self.newest} was committed, {now} is the newest now")
        self.newest = now

    def judge(self, wanted):
        different = h.differences(self.out, wanted)
        if different:
            raise Wrong("bits", f"after {self.kills} kills: {', '.join(different[:8])}")
        left = h.leftovers(self.out)
        if left and not self.had_orphans:  # the next start keeps files that are in use
            raise Wrong("left", f"after {self.kills} kills: {', '.join(left)}")


def loop(args, folder, wanted, seconds):
    kills = starts = resumed = campaigns = 0
    while kills < args.kills:
        campaign = Campaign(folder, args.settings, seconds, args.limit, teams=TEAMS)
        while not campaign.run_once(kills + campaign.kills < args.kills):
            pass
        campaign.judge(wanted)
        kills, starts, campaigns = kills + campaign.kills, starts + campaign.starts, campaigns + 1
        resumed += campaign.resumed
    h.check(4 * resumed >= starts, f"only {resumed} of {starts} starts used a checkpoint")
    return f"{kills} kills, {starts} starts, {resumed} of them resumed, {campaigns} jobs"


def start_and_kill(campaign, least=2):
    """A first start with at least `least` generations committed; all ranks killed."""
    process = h.start(campaign.folder, 2, h.train_arguments(campaign.settings))
    end = time.monotonic() + 60
    while h.newest(campaign.out) < least and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    campaign.kills += kill(process, "all")
    campaign.end(process, False)
    campaign.check_nothing_lost()
    if not campaign.newest or h.is_complete(campaign.out):
        raise TooSoon("the job ended before its second checkpoint")


def control_float(campaign, wanted):
    start_and_kill(campaign)
    if h.change_one_float(h.checkpoint(campaign.out, campaign.newest)) is None:
        raise TooSoon("all members had ended")
    campaign.run_once(False)
    campaign.judge(wanted)


def control_lose(campaign, wanted):
    start_and_kill(campaign)
    for generation in h.generations(campaign.out):
        h.checkpoint(campaign.out, generation).unlink()
    process = h.start(campaign.folder, 2, h.train_arguments(campaign.settings))
    h.wait_for_ranks(process, 2)
    kill(process, "all")
    campaign.end(process, False)
    campaign.check_nothing_lost()
    campaign.judge(wanted)


def control_hang(campaign, wanted):
    start_and_kill(campaign)
    campaign.limit = 6
    process = h.start(campaign.folder, 2, h.train_arguments(campaign.settings))
    h.wait_for_ranks(process, 2)
    kill(process, "one", signal.SIGSTOP)
    if campaign.end(process, False).hung:
        raise Wrong("hang", "one rank was stopped")
    campaign.judge(wanted)


CONTROLS = {"float": (control_float, "bits"), "lose": (control_lose, "lost"),
            "hang": (control_hang, "hang")}


def run_control(name, args, folder, wanted, seconds):
    """The checks must fail for the reason of this control."""
    function, law = CONTROLS[name]
    campaign = Campaign(folder, args.settings + TEAMS[0], seconds, args.limit)
    try:
        function(campaign, wanted)
    except Wrong as wrong:
        h.check(wrong.args[0] == law, f"control {name}: {wrong.args}")
        print(f"control {name}: found, {wrong.args[1].splitlines()[0]}")
        return
    h.fail(f"control {name}: not found by the checks")


def undisturbed(args, folder, epochs):
    """Ensemble two trains in parts."""
    args.settings = [f"train.epochs={epochs}", "checkpoint.every=50ms",
                     "ensembles.two.train.batch_size=48", "ensembles.two.train.parts=3"]
    wanted, seconds = h.undisturbed(folder, args.settings, name=f"wanted{epochs}")
    print(f"undisturbed: {args.settings[0]}, {seconds:.1f} s", flush=True)
    return wanted, seconds


def controls(args, folder, epochs):
    """Repeat with a longer job if this one ends too soon."""
    for longer in (1, 4, 16):
        wanted, seconds = undisturbed(args, folder, longer * epochs)
        try:
            for name in CONTROLS if args.control == "all" else [args.control]:
                run_control(name, args, folder, wanted, seconds)
            h.finish("negative controls")
        except TooSoon as run:
            print(f"too soon: {run}", flush=True)
    sys.exit("control: every job ended too soon: increase --seconds")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2, help="of training in all")
    parser.add_argument("--limit", type=float, default=60, help="most seconds of a start")
    parser.add_argument("--control", choices=[*CONTROLS, "all"])
    args = parser.parse_args()
    random.seed(args.seed)
    with h.workplace() as folder:
        epochs, summary = h.epochs_for(folder, args.seconds), ""
        if args.control:
            controls(args, folder, epochs)
        wanted, seconds = undisturbed(args, folder, epochs)
        try:
            summary = loop(args, folder, wanted, seconds)
        except Wrong as wrong:
            h.fail(f"{wrong.args[0]}: {wrong.args[1]}")
        h.finish(summary)


if __name__ == "__main__":
    main()
