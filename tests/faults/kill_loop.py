#!/usr/bin/python3
"""Killed at random instants, resumed on random rank counts: the same bits in the end.

  kill_loop.py [--kills 30] [--seed 1] [--seconds 2] [--control float|lose|hang|all]

A life trains on 1 to 3 ranks and is ended by SIGKILL to one rank, to all ranks, or to the launcher
(whose orphans may still be there when the next life begins). After the last kill the job ends by
itself; every tensor of model.h5 and results.h5 must be bitwise that of an undisturbed run, no
committed generation may be lost, no life may hang and nothing may be left behind.

Negative controls, on which the same judgement must fail: one float of a checkpoint changed together
with its checksum; the newest checkpoint removed; a rank stopped with a watchdog too slow to see it.
"""
import argparse
import random
import shutil
import signal
import sys
import time

import harness as h


class Wrong(Exception):
    """A law is broken; the first argument says which: bits, lost, hang, exit, left."""


def kill(process, how, number=signal.SIGKILL):
    """True if somebody was there to be hit."""
    ranks = h.ranks_of(process)
    if process.poll() is not None or not ranks:
        return False
    if how == "launcher":
        h.send(process.pid, number)
    for pid in ranks if how == "all" else [random.choice(ranks)] if how == "one" else []:
        h.send(pid, number)
    return True


class TooSoon(Exception):
    """A job that was over before its control could be planted."""


class Campaign:
    """One job in one directory, through as many lives as it takes."""

    def __init__(self, folder, settings, seconds, limit):
        self.folder, self.out, self.limit = folder, folder / "out", limit
        self.settings, self.seconds = list(settings) + ["run.directory=out"], seconds
        self.newest, self.lives, self.kills, self.resumed = 0, 0, 0, 0
        self.orphans, self.had_orphans = [], False
        shutil.rmtree(self.out, ignore_errors=True)

    def life(self, may_kill):
        """One start of the program. Returns True when the job is done."""
        self.lives += 1
        self.resumed += self.newest > 0
        ranks = random.randint(1, 3)
        process = h.start(self.folder, ranks, h.train_arguments(self.settings))
        how = random.choices(("one", "all", "launcher"), (6, 3, 1))[0]
        killed = may_kill and self.kill_later(process, how)
        done = self.end(process, killed and how == "launcher")
        if killed and done.hung == "launcher":  # mpirun lost a rank that died while it started
            print(f"life {self.lives}: all ranks had ended, their launcher had not")
        elif done.hung:
            raise Wrong("hang", f"life {self.lives} on {ranks} ranks outlived {self.limit} s\n"
                                f"{done.output}")
        if not killed and done.code != h.DONE:
            raise Wrong("exit", f"life {self.lives} on {ranks} ranks: {done.code}\n{done.output}")
        self.check_nothing_lost()
        return done.code == h.DONE

    def kill_later(self, process, how):
        """At any instant of the first generations of a life: what it has done counts, not the
        clock, so that a busy machine's lives get as far as a quiet one's."""
        generations, rest = random.choice((0, 1, 1, 2, 3)), random.uniform(0, 0.15)
        while h.newest(self.out) < self.newest + generations and process.poll() is None:
            time.sleep(0.005)
        if not generations:  # while it starts
            rest = random.uniform(0, 0.25) * self.seconds
        end = time.monotonic() + rest
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.005)
        hit = kill(process, how)
        self.kills += hit
        return hit

    def end(self, process, leave_orphans):
        """Orphans of a killed launcher meet the next life; they are reaped after it."""
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
        if left and not self.had_orphans:  # the next life cannot clear away what is still in use
            raise Wrong("left", f"after {self.kills} kills: {', '.join(left)}")


def loop(args, folder, wanted, seconds):
    kills = lives = resumed = campaigns = 0
    while kills < args.kills:
        campaign = Campaign(folder, args.settings, seconds, args.limit)
        while not campaign.life(kills + campaign.kills < args.kills):
            pass
        campaign.judge(wanted)
        kills, lives, campaigns = kills + campaign.kills, lives + campaign.lives, campaigns + 1
        resumed += campaign.resumed
    h.check(4 * resumed >= lives, f"only {resumed} of {lives} lives began from a checkpoint")
    return f"{kills} kills, {lives} lives, {resumed} of them resumed, {campaigns} campaigns"


def start_and_kill(campaign, least=2):
    """A first life with at least `least` generations committed; all ranks killed."""
    process = h.start(campaign.folder, 2, h.train_arguments(campaign.settings))
    end = time.monotonic() + 60
    while h.newest(campaign.out) < least and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    campaign.kills += kill(process, "all")
    campaign.end(process, False)
    campaign.check_nothing_lost()
    if not campaign.newest or h.is_complete(campaign.out):
        raise TooSoon("the job was over before its second checkpoint")


def control_float(campaign, wanted):
    start_and_kill(campaign)
    if h.change_one_float(h.checkpoint(campaign.out, campaign.newest)) is None:
        raise TooSoon("all members had ended")
    campaign.life(False)
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
    """The judgement must fail, and for the reason that was planted."""
    function, law = CONTROLS[name]
    campaign = Campaign(folder, args.settings, seconds, args.limit)
    try:
        function(campaign, wanted)
    except Wrong as wrong:
        h.check(wrong.args[0] == law, f"control {name}: {wrong.args}")
        print(f"control {name}: seen, {wrong.args[1].splitlines()[0]}")
        return
    h.fail(f"control {name}: the harness saw nothing")


def undisturbed(args, folder, epochs):
    args.settings = [f"train.epochs={epochs}", "checkpoint.every=50ms"]
    wanted, seconds = h.undisturbed(folder, args.settings, name=f"wanted{epochs}")
    print(f"undisturbed: {args.settings[0]}, {seconds:.1f} s", flush=True)
    return wanted, seconds


def controls(args, folder, epochs):
    """A longer job where a machine that has become faster ends it too soon."""
    for longer in (1, 4, 16):
        wanted, seconds = undisturbed(args, folder, longer * epochs)
        try:
            for name in CONTROLS if args.control == "all" else [args.control]:
                run_control(name, args, folder, wanted, seconds)
            h.finish("negative controls")
        except TooSoon as run:
            print(f"too soon: {run}", flush=True)
    sys.exit("control: every job was over too soon: give it more --seconds")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2, help="of training in all")
    parser.add_argument("--limit", type=float, default=60, help="seconds a life may take")
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
