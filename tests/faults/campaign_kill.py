#!/usr/bin/python3
"""A campaign killed in every stage, also during labeling, on random rank counts: the same queries,
labels, errors and weights in the end; no row labeled twice, no label lost.

  campaign_kill.py [--kills 30] [--seed 1] [--control]

Each kill is in the stage with the fewest kills so far: SIGKILL to one rank or to all, when the
journal says that the stage before is done, after a random part of the duration of the stage. The
oracle logs every finished call. --control changes labels, and lets some rows be labeled twice: the
same checks must fail.
"""
import argparse
import collections
import json
import random
import signal
import stat
import time

import harness as h

STAGES = ("train", "score", "select", "label", "merge")

CAMPAIGN = """\
data: {file: first.h5, split: {column: split}}
model: {hidden: [16], activation: tanh}
ensembles:
  - {name: one, target: y0, members: 3}
  - {name: two, target: y1, members: 2}
train: {epochs: 300, learning_rate: 1e-2, batch_size: 8}
checkpoint: {every: 50ms}
run: {seed: 11, device: cpu, threads: 1}
campaign: {warm_start: params, keep: 3}
pool: {file: pool.h5}
select: {batch: 8, method: kcenter, random_fraction: 0.25}
label: {command: [./oracle.py, "{input}", "{output}"], format: csv, rows_per_call: 3, concurrency: 2}
stop: {rounds: 4}
"""

# y0 is missing in every 5th row; each 11th point cannot be labeled at all.
ORACLE = """\
#!/usr/bin/python3 -SE
import csv, math, os, sys, time
with open(sys.argv[1]) as f:
    rows = list(csv.reader(f))[1:]
time.sleep(0.02)
with open(sys.argv[2] + ".part", "w") as f:
    f.write("id,y0,y1\\n")
    for id, *x in rows:
        x = [float(v) for v in x]
        if int(id) % 11 == 0:
            f.write(f"{id},nan,nan\\n")
            continue
        y0 = "nan" if int(id) % 5 == 0 else repr(math.sin(3 * x[0]) + x[1])
        f.write(f"{id},{y0},{x[2] * x[3]!r}\\n")
os.rename(sys.argv[2] + ".part", sys.argv[2])
log = os.open("oracle.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, ("".join(row[0] + "\\n" for row in rows)).encode())
"""


def prepare(folder):
    draw = h.np.random.RandomState(5)
    with h.h5py.File(folder / "first.h5", "w") as f:
        x = draw.uniform(-1, 1, (70, 4))
        f["x"], f["y"] = x, h.np.stack([h.np.sin(3 * x[:, 0]) + x[:, 1], x[:, 2] * x[:, 3]], 1)
        f["split"] = h.np.repeat([0, 1, 2], [24, 6, 40]).astype("i1")
    with h.h5py.File(folder / "pool.h5", "w") as f:
        f["x"] = draw.uniform(-1, 1, (3000, 4))
    (folder / "campaign.yaml").write_text(CAMPAIGN)
    oracle = folder / "oracle.py"
    oracle.write_text(ORACLE)
    oracle.chmod(oracle.stat().st_mode | stat.S_IXUSR)


def entries(folder, out):
    """The complete lines of the journal."""
    try:
        text = (folder / out / "journal.jsonl").read_text()
    except OSError:
        return []
    return [json.loads(line) for line in text.splitlines(True) if line.endswith("\n")]


def running_stage(lines):
    """The stage after the last one that is done, and how many are done."""
    done = STAGES.index(lines[-1]["stage"]) + 1 if lines else 0
    return STAGES[done % len(STAGES)]


def history(folder, out):
    found = {}
    for file in ("campaign.h5", "model.h5"):
        for name, value in h.tensors(folder / out / file).items():
            if "seconds" not in name:
                found[f"{file}/{name}"] = value
    return found


def start(folder, out, ranks, settings=(), **how):
    return h.start(folder, ranks, ["campaign", "run", "campaign.yaml", "-q"] +
                   h.sets(f"campaign.directory={out}", *settings), **how)


def whole(folder, out, ranks=2):
    done = h.wait(folder, start(folder, out, ranks), 120)
    h.check(done.code == h.DONE and not done.hung, f"{out}: exit {done.code}\n{done.output}")
    return done.code == h.DONE


class Killer:
    def __init__(self, folder, out):
        self.folder, self.out = folder, out
        self.hits = collections.Counter()
        self.took = {}
        for line in entries(folder, "wanted"):
            self.took.setdefault(line["stage"], []).append(line["seconds"])

    def wait_for(self, process, stage):
        """Wait until this stage runs, and then a part of its duration."""
        while process.poll() is None:
            if running_stage(entries(self.folder, self.out)) == stage and h.ranks_of(process):
                break
            time.sleep(0.002)
        took = self.took[stage]
        time.sleep(random.uniform(0, 0.9) * sum(took) / len(took))

    def run_once(self, stage):
        """One start, killed in `stage`. False if it ended before."""
        process = start(self.folder, self.out, random.randint(1, 3))
        self.wait_for(process, stage)
        at = running_stage(entries(self.folder, self.out))
        ranks = h.ranks_of(process)
        if process.poll() is None and ranks:
            for pid in ranks if random.random() < 0.5 else [random.choice(ranks)]:
                h.send(pid, signal.SIGKILL)
            self.hits[at] += 1
        done = h.wait(self.folder, process, 60)
        h.check(done.hung != "ranks", f"a start killed in {stage} did not end\n{done.output}")
        return done.code != h.DONE


def judge_history(folder, out, wanted):
    got = history(folder, out)
    other = [n for n in got.keys() | wanted.keys() if got.get(n) != wanted.get(n)]
    h.check(not other, f"other values in {', '.join(sorted(other)[:8])}")


def judge_labels(folder, out):
    """No row in two finished calls; every label is that of the oracle."""
    asked = collections.Counter((folder / "oracle.log").read_text().split())
    twice = [n for n, times in asked.items() if times > 1]
    h.check(not twice, f"labeled twice: candidates {', '.join(twice[:8])}")
    with h.h5py.File(folder / out / "campaign.h5") as f:
        row, answer = f["query_row"][()], f["query_label_status"][()]
    h.check(set(asked) == {str(n) for n in row}, "the labeled rows are not the queries")
    h.check(list(answer) == [int(n % 11 != 0) for n in row], "labels are lost")


def campaigns(folder, kills, wanted):
    """Run campaigns until the number of kills is reached; each start is killed in the next
    stage."""
    total, number = collections.Counter(), 0
    while sum(total.values()) < kills and not h.failures:
        out, number = f"out{number}", number + 1
        (folder / "oracle.log").unlink(missing_ok=True)
        killer = Killer(folder, out)
        continues = True
        while continues and sum((total + killer.hits).values()) < kills:
            hits = total + killer.hits
            continues = killer.run_once(min(STAGES, key=lambda stage: hits[stage]))
        if not whole(folder, out):
            break
        total += killer.hits
        judge_history(folder, out, wanted)
        judge_labels(folder, out)
    for stage in STAGES:
        h.check(total[stage] >= kills // 10, f"{stage} was killed {total[stage]} times")
    return f"{kills} kills in {number} campaigns: " + ", ".join(
        f"{stage} {total[stage]}" for stage in STAGES)


def seen(text):
    """Check that the check failed, and reset its result."""
    good = bool(h.failures)
    h.failures.clear()
    h.check(good, f"control: {text} not seen")


def control(folder, wanted):
    """Other labels from round 3 on; then a round that is labeled again."""
    (folder / "oracle.log").unlink(missing_ok=True)
    command = ["campaign", "step", "campaign.yaml", "-q", "--set", "campaign.directory=control"]
    for _ in range(2):
        h.run(folder, 1, command)
    oracle = folder / "oracle.py"
    oracle.write_text(oracle.read_text().replace("math.sin(3", "math.sin(2"))
    if whole(folder, "control"):
        judge_history(folder, "control", wanted)
        seen("other labels were")
    command = ["campaign", "run", "campaign.yaml", "-q", "--from", "4:label", "--set",
               "campaign.directory=control"]
    h.run(folder, 1, command)
    judge_labels(folder, "control")
    seen("rows labeled twice were")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--control", action="store_true")
    args = parser.parse_args()
    random.seed(args.seed)
    with h.workplace() as folder:
        prepare(folder)
        if not whole(folder, "wanted"):
            h.finish("the undisturbed campaign failed")
        judge_labels(folder, "wanted")
        wanted = history(folder, "wanted")
        if args.control:
            control(folder, wanted)
            h.finish("negative control")
        h.finish(campaigns(folder, args.kills, wanted))


if __name__ == "__main__":
    main()
