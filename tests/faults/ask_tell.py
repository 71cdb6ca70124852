#!/usr/bin/python3
"""Eight processes ask for points and tell labels, without a campaign and beside one that is killed.

  ask_tell.py [--batch 48] [--kills 3] [--seed 1]

No point is asked twice at the same time, none is lost, each is labeled once; every tell is told
twice, which changes nothing; of a file with one wrong row nothing is taken. Askers, tellers and the
campaign are killed (SIGKILL) at random. In the end model.h5 has the bits of the same campaign with
label.mode command.
"""
import argparse
import calendar
import csv
import io
import json
import math
import os
import random
import signal
import subprocess
import threading
import time

import campaign_kill
import harness as h

CAMPAIGN = campaign_kill.CAMPAIGN.replace("epochs: 300", "epochs: 8").replace(
    "rounds: 4", "rounds: 2")
ORACLE = """\
#!/usr/bin/python3 -SE
import csv, math, os, sys
with open(sys.argv[1]) as f, open(sys.argv[2] + ".part", "w") as to:
    to.write("id,y0,y1\\n")
    for id, *x in list(csv.reader(f))[1:]:
        x = [float(v) for v in x]
        y = ("nan", "nan") if x[3] > 0.9 else (math.sin(3 * x[0]) + x[1], x[2] * x[3])
        to.write(f"{id},{y[0]},{y[1]}\\n")
os.rename(sys.argv[2] + ".part", sys.argv[2])
"""


def prepare(folder, batch):
    campaign_kill.prepare(folder)
    (folder / "oracle.py").write_text(ORACLE)
    (folder / "campaign.yaml").write_text(CAMPAIGN.replace("batch: 8,", f"batch: {batch},"))


def command(folder, *args, kill=False):
    """A command of its own process, or one that is killed; its exit code, output and errors."""
    p = subprocess.Popen([h.TUTTI, *args], cwd=folder, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    if kill:
        time.sleep(random.uniform(0, 0.03))
        p.kill()
    out, err = p.communicate(timeout=90)
    return p.returncode, out, err


def label(row):
    x = [float(row[k]) for k in row if k != "id"]
    if x[3] > 0.9:
        return f"{row['id']},,,impossible"
    return f"{row['id']},{math.sin(3 * x[0]) + x[1]!r},{x[2] * x[3]!r},ok"


class Labelers:
    """Processes that ask and tell until the campaign has ended, or no point is left."""

    def __init__(self, folder, out, kills, beside):
        self.folder, self.out, self.kills, self.beside = folder, out, kills, beside
        self.threads = [threading.Thread(target=self.work, args=(n,)) for n in range(8)]
        self.lock, self.killed = threading.Lock(), 0
        for t in self.threads:
            t.start()

    def wait(self):
        for t in self.threads:
            t.join(120)
            h.check(not t.is_alive(), "a labeler does not end")

    def may_kill(self):
        with self.lock:
            kill = self.killed < self.kills and random.random() < 0.3
            self.killed += kill
        return kill

    def work(self, n):
        kill = self.may_kill()
        while True:
            code, out, err = command(self.folder, "ask", self.out, "-k", "8", "--lease", "2s",
                                     "--who", f"w{n}", kill=kill)
            if code == 1 or (code == 75 and not self.beside and "lease" not in err):
                return
            if code == 0:
                self.tell(n, list(csv.DictReader(io.StringIO(out))))
            elif not h.check(code == 75 or (kill and code == -9), f"ask: {code}\n{err}"):
                return
            else:
                time.sleep(0.4)
            kill = self.may_kill()

    def tell(self, n, rows):
        file = f"labels{n}.csv"
        (self.folder / file).write_text("id,y0,y1,status\n" + "".join(
            label(r) + "\n" for r in rows))
        if self.may_kill():
            command(self.folder, "tell", self.out, file, kill=True)
        for again in range(2):
            code, _, err = command(self.folder, "tell", self.out, file)
            h.check(code == 0 and (not again or "already known" in err), f"tell: {code}\n{err}")


def events(folder, out):
    return [json.loads(line) for line in (folder / out / "events.jsonl").read_text().splitlines()]


def judge(folder, out, points):
    """Each point is labeled once, and nobody has a point that somebody else has: until the end of
    the lease."""
    state, done, until = {}, {}, {}
    for e in events(folder, out)[1:]:
        if "begin" in e:
            continue
        for i, n in enumerate(e["point"]):
            now = e["state"] if isinstance(e["state"], str) else e["state"][i]
            h.check(now != "asked" or state[n] == "queued", f"point {n} was {state.get(n)}: {e}")
            state[n] = now
            until[n] = e.get("until", until.get(n))
            told = calendar.timegm(time.strptime(e["time"], "%Y-%m-%dT%H:%M:%SZ"))
            h.check(e["state"] != "expired" or told >= until[n], f"expired before {until[n]}: {e}")
            done[n] = done.get(n, 0) + (now in ("labeled", "impossible") and "again" not in e)
    h.check(len(state) == points, f"{len(state)} points, not {points}")
    h.check(set(done.values()) == {1}, f"answers of points: {sorted(done.values())}")
    code, text, err = command(folder, "campaign", "check", out)
    h.check(code == 0 and f"points: {points}" in text, f"check: {code}\n{text}{err}")


def refused(folder, out, rows):
    """One wrong row among the others: nothing is taken, and the row is named."""
    before = (folder / out / "events.jsonl").read_bytes()
    good = [label(r) for r in rows]
    for wrong, words in (("99999,1,2,ok", "is no point"), (f"{rows[0]['id']},1,2,ok", "twice"),
                         (f"{rows[-1]['id']},1,inf,ok", "is inf"), (",1,2,ok", "id"),
                         (f"{rows[-1]['id']},1,2,fine", "status")):
        (folder / "bad.csv").write_text("\n".join(["id,y0,y1,status", *good[:-1], wrong, ""]))
        code, _, err = command(folder, "tell", out, "bad.csv")
        h.check(code == 65 and words in err and f"bad.csv:{len(rows) + 1}" in err,
                f"'{wrong}': {code}\n{err}")
    h.check((folder / out / "events.jsonl").read_bytes() == before, "a refused file left something")


def leases(folder, out):
    """A lease runs out, another has the point; the late answer counts, once."""
    first = list(csv.DictReader(io.StringIO(
        command(folder, "ask", out, "-k", "6", "--lease", "1s")[1])))
    refused(folder, out, first)
    time.sleep(2.1)
    second = list(csv.DictReader(io.StringIO(command(folder, "ask", out, "-k", "6")[1])))
    h.check(first == second, f"{first} were not asked again: {second}")
    for name in ("0123456789abcdef.json", "0123456789abcdef.answer", ".tmp-of-a-killed-client"):
        left = folder / out / "inbox" / name
        left.write_text('{"act": "ask", "k": 9}')
        os.utime(left, (0, 0))
    for values, code in (("1,2", 0), ("1,2", 0), ("1,3", 65)):
        (folder / "late.csv").write_text(f"id,y0,y1\n{first[0]['id']},{values}\n")
        got = command(folder, "tell", out, "late.csv")
        h.check(got[0] == code, f"late answer {values}: {got}")
    files = [f.name for f in (folder / out / "inbox").iterdir()]
    h.check(files == ["lock"], f"files of killed processes: {files}")
    (folder / "late.csv").write_text("id,y0,y1,status\n" + label(first[0]) + "\n" + "".join(
        f"{r['id']},,,later\n" for r in second[1:]))
    got = command(folder, "tell", out, "late.csv", "--replace")
    h.check(got[0] == 0 and events(folder, out)[-1].get("again"), f"--replace: {got}")


def told_later(folder, points):
    """Points that are told during a round do not change it: a start that continues it queries no
    other points."""
    h.copy_directory(folder / "out", folder / "own")
    (folder / "new.csv").write_text("x0,x1,x2,x3,y0,y1\n.1,.2,.3,.4,1,2\n")
    for told in range(2):
        done = h.run(folder, 0, ["campaign", "run", "campaign.yaml", "-q", "--set", "label.mode=ask",
                                 "--set", "label.max_wait=0s", "--set", "campaign.directory=own"])
        h.check(done.code == h.STOPPED, f"the campaign ended with {done.code}\n{done.output}")
        text = command(folder, "campaign", "check", "own")[1]
        h.check(f"points: {points + told}\n" in text, f"{told} told, but\n{text}")
        got = command(folder, "tell", "own", "new.csv", "--new")
        h.check(got[0] == 0 and ("known" in got[2]) == bool(told) or "1 new" in got[2], f"--new: {got}")


def other_mode(folder, points):
    """People label what a killed start has asked a program for; and, after other queries, no point
    of the first ones."""
    args = ["campaign", "run", "campaign.yaml", "-q", "--set", "campaign.directory=other"]
    process = h.start(folder, 0, [*args, "--set", "label.command=[sleep, '9']"])
    while "asked: " not in command(folder, "campaign", "check", "other")[1]:
        time.sleep(0.2)
    h.send(process.pid, signal.SIGKILL)
    h.reap(process)
    for more in (), ("--from", "1:select", "--set", "select.method=top"):
        h.run(folder, 0, [*args, "--set", "label.mode=ask", "--set", "label.max_wait=0s", *more])
        text = command(folder, "campaign", "check", "other")[1]
        count = {k: int(n) for k, n in (line.split(": ") for line in text.splitlines())}
        h.check(count["queued"] + count.get("asked", 0) == points, text)
        h.check(count["points"] > points if more else "asked" not in count, text)
        command(folder, "ask", "other", "-k", "9")
    args += ["--set", "label.mode=ask", "--set", "select.method=top"]
    first = h.start(folder, 0, args, log="first")
    while h.status_of(folder / "other").get("reason") != "label":
        time.sleep(0.1)
    second = h.start(folder, 0, args)
    done = h.wait(folder, first, 60)
    h.check(done.code == h.STOPPED and "taken the directory over" in done.output, f"taken over: {done.code}\n{done.output}")
    command(folder, "campaign", "pause", "other")
    h.check(h.wait(folder, second, 60).code == h.STOPPED, "the second start does not pause")


def beside(folder, out, kills):
    """The campaign runs, is killed, and runs to its end."""
    more = ["--set", f"campaign.directory={out}", "--set", "label.mode=ask"]
    start = lambda: h.start(folder, random.randint(0, 2) if kills > 9 else 0, ["campaign", "run", "campaign.yaml", "-q",
                                                          *more])
    process, labelers = start(), Labelers(folder, out, kills, True)
    runners = 0
    for _ in range(kills):
        time.sleep(random.uniform(0.2, 1.0))
        if process.poll() is not None:
            break
        h.send(process.pid, signal.SIGKILL)
        h.reap(process)
        process, runners = start(), runners + 1
    done = h.wait(folder, process, 200)
    h.check(done.code == h.DONE, f"the campaign ended with {done.code}\n{done.output}")
    labelers.wait()
    return runners, labelers.killed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    with h.workplace() as folder:
        prepare(folder, args.batch)
        campaign_kill.whole(folder, "wanted", 0)
        wanted = campaign_kill.history(folder, "wanted")
        h.run(folder, 0, ["campaign", "run", "campaign.yaml", "-q", "--set", "label.mode=ask",
                          "--set", "label.max_wait=0s", "--set", "campaign.directory=out"])
        leases(folder, "out")
        alone = Labelers(folder, "out", args.kills, False)
        alone.wait()
        code, _, err = command(folder, "ask", "out")
        h.check(code == 75, f"all points are labeled, but ask gives {code}\n{err}")
        told_later(folder, 2 * args.batch)
        other_mode(folder, args.batch)
        runners, labelers = beside(folder, "out", args.kills)
        campaign_kill.judge_history(folder, "out", wanted)
        judge(folder, "out", 2 * args.batch)
        h.finish(f"{2 * args.batch} points, {len(events(folder, 'out'))} events; killed: campaigns "
                 f"{runners}, others {alone.killed + labelers}")


if __name__ == "__main__":
    main()
