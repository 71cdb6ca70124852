#!/usr/bin/python3
"""Trainings and campaigns under every kind of disturbance, one after the other, as long as there is
time: the same bits in the end, nothing lost, no hang, nothing labeled twice.

  torture.py --shim libfaultio.so [--kills 200] [--minutes M] [--seed 1] [--only NAME,...]

Each trial takes one job through several starts on 1 to 3 ranks. A start is killed (one rank, all,
or the launcher), stopped for a while (SIGSTOP, SIGCONT), raced by a second start in the same
directory, gets a full or broken disk, or a wall clock that jumps. Then the job ends by itself and
is compared with an undisturbed run, bit by bit. A trial that fails is reported with its seed, and
the next one begins. --kills counts disturbances of all kinds.
"""
import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import sys
import time

import campaign_kill as active
import harness as h
import kill_loop

HEAD = """\
data:  {file: data.h5, split: {train: 0.7, validation: 0.15, test: 0.15, seed: 3}}
checkpoint: {every: 50ms, keep: 2}
run: {seed: 11, device: cpu, threads: 1, directory: out}
"""
JOBS = {
    "cohorts": """\
model: {hidden: [16, 16], activation: tanh}
ensembles:
  - {name: one, target: y0, members: 4, train: {loss: gaussian_nll}}
  - {name: two, target: y1, members: 3, model: {hidden: [8]},
     train: {optimizer: sgd, momentum: 0.9}}
  - {name: wide, targets: [y0, y1], members: 2, train: {loss: quantile, average: ema}}
train: {loss: mse, learning_rate: 2e-3, batch_size: 16, resample: bootstrap}
""",
    "sweep": """\
model: {hidden: [10]}
ensembles:
  - {name: swept, target: y0, members: 6,
     sweep: {learning_rate: {list: [1e-3, 2e-3, 3e-3, 5e-3, 7e-3, 1e-2]}}}
  - {name: wild, target: y1, members: 3,
     train: {optimizer: sgd, on_diverged: {retries: 2, lr_scale: 1e-6}},
     sweep: {learning_rate: {list: [1e-2, 1e4, 1e-2]}}}
train: {loss: mse, batch_size: 16, schedule: cosine, warmup: 3}
""",
    "rules": """\
model: {hidden: [10], residual: true}
ensembles:
  - {name: folds, target: y0, members: 5, train: {resample: kfold, dropout: 0.1, average: swa}}
  - {name: noisy, target: y0, members: 2, train: {label_noise: 0.1}}
train: {loss: mse, learning_rate: 1e-2, batch_size: 16, schedule: reduce_on_plateau}
""",
}
CAMPAIGN = "campaign"
KINDS = {"kill": 10, "pause": 2, "race": 2, "disk": 3, "clock": 2}
LAWS = ("lost", "bits", "hang", "exit", "left", "mixed", "twice")
SECONDS = 1.5  # of training without a disturbance


def choose_kind():
    return random.choices(list(KINDS), KINDS.values())[0]


def disk_fault(args, folder, pattern):
    """A call that fails: once, or it and all later ones; on one rank or on all."""
    op = random.choice(("write", "write", "open", "fsync", "ftruncate", "rename"))
    error = random.choice(("ENOSPC", "EIO", "SHORT") if op == "write" else ("ENOSPC", "EIO"))
    return h.shim(args.shim, folder, pattern, op, random.randint(1, 40), error,
                  random.random() < 0.5, random.choice((None, 0, 1)))


def clock_jump(args):
    seconds = random.choice((-10**7, -900, 7200, 10**8))
    return {"LD_PRELOAD": args.shim, "FAULTIO_CLOCK": str(seconds),
            "FAULTIO_CLOCK_AT": str(random.randint(1, 300))}


def pause(process):
    """Stop one rank or all for a while."""
    time.sleep(random.uniform(0, SECONDS))
    ranks = h.ranks_of(process)
    victims = ranks if random.random() < 0.5 else ranks[:1]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in victims:
            h.send(pid, number)
        time.sleep(random.uniform(0.05, 1.5) if number == signal.SIGSTOP else 0)


def race(start, folder, limit):
    """Two starts in one directory; the first may be stopped while the second begins. One of them
    ends well; the other too, or it has lost the directory."""
    counts = random.sample((1, 2, 3), 2)
    first = start(counts[0])
    time.sleep(random.uniform(0, SECONDS))
    held = h.ranks_of(first) if random.random() < 0.5 else []
    for pid in held:
        h.send(pid, signal.SIGSTOP)
    second = start(counts[1], log="log2")
    if held:
        time.sleep(random.uniform(0.2, 2 * SECONDS))
    for pid in held:
        h.send(pid, signal.SIGCONT)
    ends = [h.wait(folder, second, limit), h.wait(folder, first, limit)]
    output = "\n".join(f"exit {e.code}\n{e.output}" for e in ends)
    if any(e.hung == "ranks" for e in ends):
        raise kill_loop.Wrong("hang", f"race of {counts} ranks\n{output}")
    codes = [e.code for e in ends]
    if h.DONE not in codes or any(c not in (h.DONE, h.STOPPED) for c in codes):
        raise kill_loop.Wrong(
            "exit", f"race of {counts} ranks, first one stopped: {bool(held)}: {codes}\n{output}")


class Training(kill_loop.Campaign):
    """One job of JOBS, through several disturbances."""

    def __init__(self, args, folder, name, wanted):
        super().__init__(folder, wanted[name].settings, SECONDS, args.limit, f"{name}.yaml")
        self.args, self.wanted = args, wanted[name].directory

    def disturb(self, kind):
        """True when the job is done."""
        return getattr(self, kind)()

    def kill(self):
        return self.run_once(True)

    def pause(self):
        process = self.launch(random.randint(1, 3))
        pause(process)
        return self.settle(process, random.random() < 0.5 and self.kill_later(process, "all"))

    def clock(self):
        process = self.launch(random.randint(1, 3), rank_env=clock_jump(self.args))
        return self.settle(process, random.random() < 0.5 and self.kill_later(process, "one"))

    def disk(self):
        plan = disk_fault(self.args, self.folder, f"{self.out}/*")
        process = self.launch(random.randint(1, 3), rank_env=plan)
        done = self.end(process, False)
        if done.hung == "ranks":
            raise kill_loop.Wrong("hang", f"{plan}\n{done.output}")
        fired = "fired " in (self.folder / "shim.log").read_text()
        if done.code != h.DONE and not fired:
            raise kill_loop.Wrong("exit", f"no fault fired, exit {done.code}\n{done.output}")
        self.check_nothing_lost()
        return done.code == h.DONE

    def race(self):
        race(self.launch, self.folder, self.limit)
        while self.orphans:
            h.reap(self.orphans.pop())
        ranks = [self.ranks_in(file) for file in ("model.h5", "results.h5")]
        if ranks[0] != ranks[1]:
            raise kill_loop.Wrong(
                "mixed", f"model.h5 is of {ranks[0]} ranks, results.h5 of {ranks[1]}")
        self.check_nothing_lost()
        return True

    def ranks_in(self, file):
        with h.h5py.File(self.out / file, "r") as f:
            return int(f["provenance"].attrs["ranks"])

    def finish(self):
        while not self.run_once(False):
            pass
        self.judge(self.wanted)


class ActiveLearning:
    """One campaign, through several disturbances."""

    def __init__(self, args, folder, name, wanted):
        self.args, self.folder, self.out, self.wanted = args, folder, "out", wanted[name]
        self.starts = self.resumed = 0
        shutil.rmtree(folder / self.out, ignore_errors=True)
        (folder / "oracle.log").unlink(missing_ok=True)
        self.killer = active.Killer(folder, self.out)

    def disturb(self, kind):
        self.resumed += bool(active.entries(self.folder, self.out))
        self.starts += 1
        return getattr(self, kind)()

    def launch(self, ranks, **how):
        return active.start(self.folder, self.out, ranks, **how)

    def settle(self, process, may_fail=False):
        done = h.wait(self.folder, process, self.args.limit)
        if done.hung == "ranks":
            raise kill_loop.Wrong("hang", done.output)
        if done.code != h.DONE and not may_fail:
            raise kill_loop.Wrong("exit", f"{done.code}\n{done.output}")
        return done.code == h.DONE

    def kill(self):
        hits = self.killer.hits
        return not self.killer.run_once(min(active.STAGES, key=lambda stage: hits[stage]))

    def pause(self):
        process = self.launch(random.randint(1, 3))
        pause(process)
        return self.settle(process)

    def clock(self):
        return self.settle(self.launch(random.randint(1, 3), rank_env=clock_jump(self.args)))

    def disk(self):
        """Files of tutti, not those of the oracle."""
        pattern = f"{self.folder}/{self.out}/*" + random.choice((".h5*", "journal*", "status*"))
        plan = disk_fault(self.args, self.folder, pattern)
        return self.settle(self.launch(random.randint(1, 3), rank_env=plan), may_fail=True)

    def race(self):
        race(self.launch, self.folder, self.args.limit)
        return True

    def finish(self):
        before = len(h.failures)
        if not active.whole(self.folder, self.out):
            raise kill_loop.Wrong("exit", h.failures.pop())
        active.judge_history(self.folder, self.out, self.wanted)
        if len(h.failures) > before:
            raise kill_loop.Wrong("bits", h.failures.pop())
        active.judge_labels(self.folder, self.out)
        if len(h.failures) > before:
            raise kill_loop.Wrong("twice", h.failures.pop())


Wanted = collections.namedtuple("Wanted", "directory settings")


def prepare(folder, names):
    """The undisturbed run of every job."""
    wanted = {}
    for name in names:
        if name == CAMPAIGN:
            active.prepare(folder)
            if not active.whole(folder, "wanted"):
                h.finish("the undisturbed campaign failed")
            wanted[name] = active.history(folder, "wanted")
            continue
        job = f"{name}.yaml"
        (folder / job).write_text(HEAD + JOBS[name])
        epochs = max(20, h.epochs_for(folder, SECONDS, job) // 20 * 20)  # whole cycles
        settings = [f"train.epochs={epochs}"]
        directory, seconds = h.undisturbed(folder, settings, name=f"wanted-{name}", job=job)
        print(f"{name}: {epochs} epochs, {seconds:.1f} s", flush=True)
        wanted[name] = Wanted(directory, settings)
    return wanted


def trial(args, folder, name, wanted, tally):
    """One job from its first start to its end."""
    t = (ActiveLearning if name == CAMPAIGN else Training)(args, folder, name, wanted)
    done, left = False, random.randint(1, 8)
    try:
        while not done and left > 0:
            kind, left = choose_kind(), left - 1
            tally[kind] += 1
            done = t.disturb(kind)
        t.finish()
    finally:
        tally.update(trials=1, starts=t.starts + 1, resumed=t.resumed)


def print_table(tallies, seconds):
    columns = ("trials", "starts", "resumed", *KINDS, *LAWS)
    print("\n" + f"{'':10}" + "".join(f"{c:>9}" for c in columns))
    total = collections.Counter()
    for tally in tallies.values():
        total.update(tally)
    for name, tally in [*tallies.items(), ("all", total)]:
        print(f"{name:10}" + "".join(f"{tally[c]:9d}" for c in columns))
    return f"{sum(total[k] for k in KINDS)} disturbances in {seconds:.0f} s"


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", required=True, type=os.path.abspath)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=90, help="seconds a start may take")
    parser.add_argument("--only", default=",".join([*JOBS, CAMPAIGN]))
    return parser.parse_args()


def main():
    args, begin, number = parse(), time.monotonic(), 0
    names = args.only.split(",")
    tallies = {name: collections.Counter() for name in names}
    with h.workplace() as folder:
        wanted = prepare(folder, names)
        while (sum(t[k] for t in tallies.values() for k in KINDS) < args.kills
               and time.monotonic() - begin < 60 * args.minutes):
            name, number = names[number % len(names)], number + 1
            random.seed(f"{args.seed}.{number}")
            try:
                trial(args, folder, name, wanted, tallies[name])
            except kill_loop.Wrong as wrong:
                tallies[name][wrong.args[0]] += 1
                h.fail(f"{name}, seed {args.seed}, trial {number}: "
                       f"{wrong.args[0]}: {wrong.args[1]}")
        h.finish(print_table(tallies, time.monotonic() - begin))


if __name__ == "__main__":
    main()
