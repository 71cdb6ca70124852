#!/usr/bin/python3
"""Members that train in waves: the same files as without waves.

    waves.py TUTTI MPIRUN...

Two cohorts with early stopping, bootstrap and dropout; waves of several sizes, on one and two ranks,
with the states in memory and in files, after a kill and a start with other waves; snapshots; ensembles that
stop as a whole. A job that cannot fit ends with both figures before anything is written. Exit status 0 if
there is no error, 77 without python3-h5py.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from checks import check, finish, kill_when_saved  # noqa: E402

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


class Rig:
    def __init__(self, folder, tutti, launch):
        self.folder, self.tutti, self.launch = folder, tutti, launch
        rng = np.random.default_rng(5)
        x = rng.normal(size=(200, 3))
        with h5py.File(folder / "data.h5", "w") as f:
            f["x"], f["y"] = x, np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
        (folder / "job.yaml").write_text(JOB)

    def command(self, out, settings, ranks=1):
        start = [*self.launch, str(ranks)] if ranks > 1 else []
        sets = [word for s in (f"run.directory={out}", *settings) for word in ("--set", s)]
        return [*start, self.tutti, "train", "job.yaml", *sets]

    def train(self, out, *settings, ranks=1, code=0, says=""):
        done = subprocess.run(self.command(out, settings, ranks), cwd=self.folder, capture_output=True,
                              text=True, timeout=120)
        check(done.returncode == code, f"{out}: exit {done.returncode}\n{done.stderr}")
        check(re.search(says, done.stderr), f"{out}: no \"{says}\" in\n{done.stderr}")

    def kill_when_saved(self, out, *settings):
        kill_when_saved(self.command(out, settings), self.folder / out)

    def same(self, one, *others):
        for other in others:
            for name in ("model.h5", "results.h5"):
                a, b = tensors(self.folder / one / name), tensors(self.folder / other / name)
                different = [n for n in sorted(a.keys() | b.keys()) if a.get(n) != b.get(n)]
                check(a and not different, f"{one} and {other}: {name} differs in {different}")

    def plan(self, *settings, json=False):
        sets = [word for s in settings for word in ("--set", s)]
        return subprocess.run([self.tutti, "plan", "job.yaml", *["--json"] * json, *sets], cwd=self.folder,
                              capture_output=True, text=True, check=True).stdout


def tensors(path):
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith("provenance"):
            found[name] = item[()].tobytes()

    with h5py.File(path, "r") as f:
        f.visititems(visit)
    return found


def check_plan(rig):
    """With less and less memory: states in files, then waves, the largest ones that fit; the job says the same."""
    in_memory = json.loads(rig.plan("run.wave=1", json=True))["memory_of_rank"]["peak"]
    stored = json.loads(rig.plan(f"run.memory={in_memory - 2**20:.0f}B", json=True))
    check(stored["waves"]["waves"] == 1, f"states in files, {stored['waves']}")
    less = stored["memory_of_rank"]["peak"] - 2**21
    memory = f"run.memory={less:.0f}B"
    text = rig.plan(memory)
    found = re.search(r"^waves +(\d+) of at most (\d+) members? of a rank", text, re.M)
    if not check(found and "in files of run.directory" in text, f"plan without waves:\n{text}"):
        return
    waves, members = int(found[1]), int(found[2])
    check(waves == -(-140 // members) and waves > 1, f"{waves} waves of {members} members")
    plan = json.loads(rig.plan(memory, json=True))
    check(plan["waves"] == {"waves": waves, "members": members}, f"{plan['waves']}")
    need = plan["memory_of_rank"]
    check(need["peak"] <= less < need["peak"] + 2**18, f"peak {need['peak']}")
    check(need["stored"] > 4e6, f"in files {need['stored']}")
    rig.train("files", memory, says=rf"rank 0 trains {members} members? at once, in {waves} waves; "
              r"the states of all its members are in files of .*files \([\d.]+ MiB\)")


def main(tutti, launch):
    with tempfile.TemporaryDirectory(dir=".") as place:
        rig = Rig(pathlib.Path(place).resolve(), tutti, launch)
        rig.train("one")
        rig.train("w1", "run.wave=1", says="rank 0 trains 1 member at once, in 140 waves; .* in memory")
        rig.train("ranks", "run.wave=25", ranks=2, says="in [2-5] waves")
        rig.kill_when_saved("killed", "run.wave=50")
        rig.train("killed", "run.wave=37")
        check_plan(rig)
        rig.same("one", "w1", "ranks", "killed", "files")
        snapshots = ("train.method=snapshot", "train.snapshots=2", "train.patience=0")
        rig.train("snapshots", *snapshots)
        rig.train("snapshot-waves", *snapshots, "run.wave=77", "run.memory=26MiB")
        rig.same("snapshots", "snapshot-waves")
        together = ("train.early_stopping=ensemble",)
        rig.train("together", *together)
        rig.kill_when_saved("together-waves", *together, "run.wave=50")
        rig.train("together-waves", *together, "run.wave=37", ranks=2)
        rig.train("together-files", *together, "run.memory=26MiB", says="in files of")
        rig.same("together", "together-waves", "together-files")
        rig.train("never", "run.memory=20MiB", code=MEMORY,
                  says=r"a rank needs at least [\d.]+ MiB of memory, with one member at a time and the states in "
                  r"files \([\d.]+ MiB of it for data and program\), but run.memory is 20.0 MiB: use more ranks")
        check(not (rig.folder / "never").exists(), "a job that does not fit leaves files")
    finish()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
