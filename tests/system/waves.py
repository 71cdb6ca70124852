#!/usr/bin/python3
"""Members that train in waves: the same files as without waves.

Two cohorts with early stopping, bootstrap and dropout; waves of several sizes, on one and two ranks,
with the states in memory and in files, after a kill and a start with other waves; snapshots; ensembles that
stop as a whole. A job that cannot fit ends with both figures before anything is written. Exit status 0 if
there is no error, 77 without python3-h5py.
"""
import json
import pathlib
import re
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, check_same, kill_when_saved, np, sets, test, tutti, write_h5

MEMORY = 71
JOB = """\
data:  {file: data.h5, split: {train: 0.7, validation: 0.15, test: 0.15, seed: 3}}
model: {hidden: [64, 32], activation: tanh}
ensembles:
  - {name: slim, target: y0, members: 20, model: {hidden: [12]}}
  - {name: wide, targets: [y0, y1], members: 120}
train: {loss: mse, batch_size: 64, epochs: 4, patience: 1, dropout: 0.1, resample: bootstrap}
checkpoint: {every: 20ms}
run: {seed: 11, device: cpu, threads: 1, directory: none}
"""


def training(out, *settings):
    return ["train", "job.yaml", *sets(f"run.directory={out}", *settings)]


def train(out, *settings, says="", **how):
    said = tutti(*training(out, *settings), **how).err
    check(re.search(says, said), f"{out}: no \"{says}\" in\n{said}")


def kill(out, *settings):
    kill_when_saved(out, *training(out, *settings))


def plan(*settings):
    return json.loads(tutti("plan", "job.yaml", "--json", *sets(*settings)).out)


def check_plan():
    """With less and less memory: states in files, then waves, the largest ones that fit; the job says the same."""
    in_memory = plan("run.wave=1")["memory_of_rank"]["peak"]
    stored = plan(f"run.memory={in_memory - 2**20:.0f}B")
    check(stored["waves"]["waves"] == 1, f"states in files, {stored['waves']}")
    less = stored["memory_of_rank"]["peak"] - 2**21
    memory = f"run.memory={less:.0f}B"
    text = tutti("plan", "job.yaml", *sets(memory)).out
    found = re.search(r"^waves +(\d+) of at most (\d+) members? of a rank", text, re.M)
    if not check(found and "in files of run.directory" in text, f"plan without waves:\n{text}"):
        return
    waves, members = int(found[1]), int(found[2])
    check(waves == -(-140 // members) and waves > 1, f"{waves} waves of {members} members")
    again = plan(memory)
    check(again["waves"] == {"waves": waves, "members": members}, f"{again['waves']}")
    need = again["memory_of_rank"]
    check(need["peak"] <= less < need["peak"] + 2**18, f"peak {need['peak']}")
    check(need["stored"] > 4e6, f"in files {need['stored']}")
    train("files", memory, says=rf"rank 0 trains {members} members? at once, in {waves} waves; "
          r"the states of all its members are in files of .*files \([\d.]+ MiB\)")


def main():
    x = np.random.default_rng(5).normal(size=(200, 3))
    write_h5("data.h5", x=x, y=np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1))
    pathlib.Path("job.yaml").write_text(JOB)
    train("one")
    train("w1", "run.wave=1", says="rank 0 trains 1 member at once, in 140 waves; .* in memory")
    train("ranks", "run.wave=25", ranks=2, says="in [2-5] waves")
    kill("killed", "run.wave=50")
    train("killed", "run.wave=37")
    check_plan()
    check_same("one", "w1", "ranks", "killed", "files")
    snapshots = ("train.method=snapshot", "train.snapshots=2", "train.patience=0")
    train("snapshots", *snapshots)
    train("snapshot-waves", *snapshots, "run.wave=77", "run.memory=23MiB")
    check_same("snapshots", "snapshot-waves")
    together = ("train.early_stopping=ensemble",)
    train("together", *together)
    kill("together-waves", *together, "run.wave=50")
    train("together-waves", *together, "run.wave=37", ranks=2)
    least = plan(*together, "run.wave=1")["memory_of_rank"]["peak"] - 2**20
    train("together-files", *together, f"run.memory={least:.0f}B", says="in files of")
    check_same("together", "together-waves", "together-files")
    train("never", "run.memory=18.5MiB", code=MEMORY,
          says=r"a rank needs at least [\d.]+ MiB of memory, with one member at a time and the states in "
          r"files \([\d.]+ MiB of it for data and program\), but run.memory is 18.5 MiB: use more ranks")
    check(not pathlib.Path("never").exists(), "a job that does not fit leaves files")


test(main)
