#!/usr/bin/python3
"""An asynchronous campaign whose ranks, workers and calls of the oracle are killed at random
moments: every point is labeled once, no label is lost, `campaign check` agrees, and the replay of
its labels on 1 and 2 ranks gives the same model, bit by bit.

  campaign_beside.py [--kills 12] [--seed 1] [--slurm] [--control]

The oracle crashes, hangs, and finds points that cannot be labeled; it logs every label. --control
adds a label to the log, and removes one from the record: the checks must fail. With --slurm the
workers are the tasks of an array of a toy Slurm, which go on when the campaign is killed.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import stat
import time

import campaign_kill as rounds
import harness as h

CAMPAIGN = """\
data: {file: first.h5, split: {column: split}}
model: {hidden: [16], activation: tanh}
ensembles:
  - {name: one, target: y0, members: 3}
  - {name: two, target: y1, members: 2}
train: {epochs: 100, learning_rate: 1e-2, batch_size: 8, when: {share: 0.3, wait: 0.2s}}
run: {seed: 11, device: cpu, threads: 1}
campaign: {mode: asynchronous, warm_start: params}
pool: {file: pool.h5}
select: {batch: 8, random_fraction: 0.25}
label: {command: [./oracle.py, "{input}", "{output}"], format: csv, rows_per_call: 2,
        concurrency: 4, timeout: 6s}
stop: {labels: 100}
"""

ORACLE = """\
#!/usr/bin/python3 -SE
import csv, math, os, sys, time
with open(sys.argv[1]) as f:
    rows = list(csv.reader(f))[1:]
first, is_first_try = int(rows[0][0]), "/try-1/" in sys.argv[2]
time.sleep(0.02 + first * 37 % 10 / 30)
if first % 20 == 6 and is_first_try:
    sys.exit(1)
if first % 40 == 2 and is_first_try:
    time.sleep(100)
if first % 34 == 4:
    sys.exit(65)
with open(sys.argv[2] + ".part", "w") as f:
    f.write("id,y0,y1\\n")
    for id, *x in rows:
        x = [float(v) for v in x]
        f.write(f"{id},{math.sin(3 * x[0]) + x[1]!r},{x[2] * x[3]!r}\\n")
log = os.open("oracle.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, "".join(f"{row[0]} {os.getpid()}\\n" for row in rows).encode())
os.rename(sys.argv[2] + ".part", sys.argv[2])
"""


# Calls of the oracle that a kill may have ended after they wrote their labels: asked again.
cut_off = set()

# Commands of a toy Slurm in a directory: a job is the session of its tasks, kept in NUMBER.
SLURM = {
    "sbatch": """\
n=$(ls "$TOY" | grep -c '^[0-9]*$'); n=$((n + 1))
for a; do case $a in --array=0-*) last=${a#--array=0-}; last=${last%\\%*};; esac; done
: > "$TOY/$n"
for task in $(seq 0 "$last"); do
  SLURM_ARRAY_TASK_ID=$task setsid sh -c 'echo $$ >> "$0"; exec sh "$1"' "$TOY/$n" "$a" \
    > "$TOY/out" 2>&1 &
done
echo "$n"
""",
    "squeue": """\
for n in $(ls "$TOY" | grep '^[0-9]*$'); do
  for p in $(cat "$TOY/$n"); do kill -0 "$p" 2>/dev/null && echo "$n" && break; done
done
exit 0
""",
    "scancel": 'for p in $(cat "$TOY/$1"); do kill -- "-$p" 2>/dev/null; done; : > "$TOY/$1"\n',
    "scontrol": "echo MaxArraySize = 1001\n",
    "sacct": "exit 1\n",
}


def install_slurm(folder):
    """The toy Slurm in PATH of this test and all that it starts."""
    toy = folder / "toy"
    toy.mkdir()
    for name, text in SLURM.items():
        (toy / name).write_text("#!/bin/sh\n" + text)
        (toy / name).chmod(0o755)
    os.environ.update(TOY=str(toy), PATH=f"{toy}:{os.environ['PATH']}")
    (folder / "label.sh").write_text("#!/bin/sh\n")
    text = (folder / "campaign.yaml").read_text()
    (folder / "campaign.yaml").write_text(text.replace(
        "label: {", "label: {mode: slurm, script: label.sh, poll_interval: 200ms, "))


def end_slurm():
    """Kill the tasks that a campaign has left."""
    for job in os.listdir(os.environ["TOY"]):
        for pid in (pathlib.Path(os.environ["TOY"]) / job).read_text().split() if job.isdigit() else []:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)


def victims(process, kind):
    """Processes of a start: its ranks, the workers, or the calls of the oracle."""
    table = h.process_table()
    level = h.ranks_of(process)
    if "TOY" in os.environ and kind != "rank":
        jobs = pathlib.Path(os.environ["TOY"])
        level = [int(p) for job in jobs.iterdir() if job.name.isdigit()
                 for p in job.read_text().split() if int(p) in table]
        kind = "rank" if kind == "worker" else "worker"
    for _ in range(("rank", "worker", "call").index(kind)):
        level = [p for p, (parent, _, state) in table.items() if parent in level and state != "Z"]
    return level


def descendants(pid):
    table, found = h.process_table(), {pid}
    for _ in range(3):
        found |= {p for p, (parent, *_) in table.items() if parent in found}
    return found


def kill_one(process, kind):
    """1 if a process was there to be killed."""
    found = victims(process, kind)
    for pid in found if kind == "rank" and random.random() < 0.5 else found[:1]:
        cut_off.update(map(str, descendants(pid)))
        h.send(pid, signal.SIGKILL)
    return bool(found)


def run_killed(folder, out, left, hits):
    """One start with kills at random moments, until a rank dies or the campaign ends. True at its
    end."""
    process = rounds.start(folder, out, random.randint(1, 2))
    before = sum(hits.values())
    while process.poll() is None and sum(hits.values()) < left:
        time.sleep(random.uniform(0.2, 2.0))
        kind = min(("rank", "worker", "call"), key=lambda k: (hits[k], random.random()))
        hits[kind] += process.poll() is None and kill_one(process, kind)
    done = h.wait(folder, process, 120)
    h.check(done.hung != "ranks", f"a start did not end\n{done.output}")
    h.check(done.code == h.DONE or sum(hits.values()) > before,
            f"a start without a kill: exit {done.code}\n{done.output}")
    return done.code == h.DONE


def labeled_points(folder, out):
    """The labels in events.jsonl, by point; a second label of a point is a failure."""
    label = {}
    for line in (folder / out / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        state = event.get("state")
        for i, point in enumerate(event.get("point", [])):
            if (state if isinstance(state, str) else state[i]) != "labeled":
                continue
            h.check(point not in label, f"point {point} has two labels")
            label[point] = event["y"][i]
    return label


def judge(folder, out):
    calls = [line.split() for line in (folder / "oracle.log").read_text().splitlines()]
    asked = collections.Counter(int(point) for point, pid in calls if pid not in cut_off)
    twice = [n for n, times in asked.items() if times > 1]
    h.check(not twice, f"labeled twice: points {twice[:8]}")
    label = labeled_points(folder, out)
    lost = sorted(set(asked) - set(label) | set(label) - {int(point) for point, _ in calls})
    h.check(not lost, f"labels of points {lost[:8]} are lost, or from nowhere")
    done = h.run(folder, 0, ["campaign", "check", out])
    h.check(done.code == h.DONE, f"campaign check: {done.output}")
    for ranks in (1, 2):
        again = f"{out}-again{ranks}"
        done = h.run(folder, ranks, ["campaign", "replay", "campaign.yaml", out, "--to", again,
                                     "-q"], limit=300)
        h.check(done.code == h.DONE, f"the replay of {out}: exit {done.code}\n{done.output}")
        if done.code == h.DONE:
            last = max(folder.glob(f"{out}/round-*")).name
            different = h.differences(folder / again / last, folder / out / last)
            h.check(not different, f"replay on {ranks} ranks: other {', '.join(different[:8])}")
    return len(label)


def campaigns(folder, kills):
    hits, number, labels = collections.Counter(), 0, 0
    while sum(hits.values()) < kills and not h.failures:
        out, number = f"out{number}", number + 1
        (folder / "oracle.log").unlink(missing_ok=True)
        while not run_killed(folder, out, kills, hits) and not h.failures:
            pass
        labels += judge(folder, out)
    return (f"{sum(hits.values())} kills in {number} campaigns with {labels} labels: " +
            ", ".join(f"{kind} {hits[kind]}" for kind in hits))


def first_answer_fails(folder):
    """The first call finds no label, the others take longer than train.when.wait: few answers are
    no reason to end the campaign."""
    oracle, text = folder / "oracle.py", (folder / "oracle.py").read_text()
    oracle.write_text(text.replace("first, is_first_try", """\
try:
    os.open("began", os.O_CREAT | os.O_EXCL)
    sys.exit(65)
except FileExistsError:
    time.sleep(1.5)
first, is_first_try""", 1))
    done = h.wait(folder, rounds.start(folder, "few", 1, ["stop.labels=40"]), 120)
    h.check(done.code == h.DONE, f"the first call finds no label: exit {done.code}\n{done.output}")
    oracle.write_text(text)
    (folder / "oracle.log").unlink(missing_ok=True)


def removal_cut_off(folder):
    """A worker that was killed while it removed a group that has ended: its number is used again."""
    shutil.copytree(folder / "few", folder / "cut")
    for worker in (folder / "cut" / "label").glob("0*"):
        for text in worker.glob("0*/input.*"):
            text.unlink()
    done = h.wait(folder, rounds.start(folder, "cut", 1, ["stop.labels=52"]), 120)
    more = len(labeled_points(folder, "cut")) > len(labeled_points(folder, "few"))
    h.check(done.code == h.DONE and more, f"after a removal: exit {done.code}\n{done.output}")
    (folder / "oracle.log").unlink(missing_ok=True)


def control(folder):
    """Each of the three faults is seen."""
    done = h.wait(folder, rounds.start(folder, "control", 1), 120)
    h.check(done.code == h.DONE, f"exit {done.code}\n{done.output}")
    judge(folder, "control")
    if h.failures:
        h.finish("the undisturbed campaign failed")
    log, events = folder / "oracle.log", folder / "control" / "events.jsonl"
    text, lines = log.read_text(), events.read_text().splitlines(True)
    log.write_text(text + text.splitlines()[0] + "\n")
    judge(folder, "control")
    rounds.seen("a point labeled twice was")
    log.write_text(text)
    events.write_text("".join(line for i, line in enumerate(lines)
                              if i != max(k for k, one in enumerate(lines) if '"y"' in one)))
    for again in folder.glob("control-again*"):
        shutil.rmtree(again)
    judge(folder, "control")
    rounds.seen("a lost label was")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slurm", action="store_true")
    parser.add_argument("--control", action="store_true")
    args = parser.parse_args()
    random.seed(args.seed)
    with h.workplace() as folder:
        rounds.prepare(folder)
        (folder / "campaign.yaml").write_text(CAMPAIGN)
        oracle = folder / "oracle.py"
        oracle.write_text(ORACLE)
        oracle.chmod(oracle.stat().st_mode | stat.S_IXUSR)
        if args.control:
            first_answer_fails(folder)
            removal_cut_off(folder)
            control(folder)
            h.finish("negative control")
        if args.slurm:
            install_slurm(folder)
        try:
            done = campaigns(folder, args.kills)
        finally:
            if args.slurm:
                end_slurm()
        h.finish(done)


if __name__ == "__main__":
    main()
