#!/usr/bin/python3
"""A search (`search:` of a job, tutti tune): trials that no budget, rank, thread or kill changes, rungs that
keep the best ones, and test rows that it never sees.

Two ensembles of different targets, so that each chooses for itself.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, check_same, h5py, np, sets, tensors, test, tutti, TUTTI, write_h5

FOLDS, RUNGS, LEAST = 3, 3, 5
JOB = """\
data:  {file: %s, split: {column: part}}
ensembles: [{name: first, target: y0}, {name: second, target: y1}]
train: {epochs: 26}
search: {budget: 14, folds: 3, space: {model: {hidden: {choice: [[4], [6, 6], [8, 4]]}},
                                       train: {batch_size: {choice: [16, 32]}}}}
checkpoint: {every: 10ms}
run: {device: cpu, threads: 1, directory: %s}
"""


def prepare():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, size=(240, 3))
    y = np.stack([np.sin(3 * x[:, 0]), x[:, 1] * x[:, 2]], axis=1) + 0.1 * rng.normal(size=(240, 2))
    part = np.arange(240) % 8 == 7
    write_h5("data.h5", x=x, y=y, part=2 * part)
    write_h5("other.h5", x=np.where(part[:, None], 0, x), y=np.where(part[:, None], rng.normal(size=(240, 2)), y),
             part=2 * part)  # other test rows
    np.savetxt("table.csv", np.c_[x, y[:, :1]], delimiter=",", header="a,b,c,y", comments="")


def job(out, data="data.h5"):
    pathlib.Path(f"{out}.yaml").write_text(JOB % (data, out))
    return "train", f"{out}.yaml"


def texts(values):
    return ["".join(c.decode() for c in row).strip("\0 ") for row in values]


def trials(out):
    """The table of the trials, by ensemble."""
    with h5py.File(f"{out}/results.h5") as f:
        found = {name: f["trial_" + name][()] for name in ("score", "rung", "weight")}
        found |= {name: np.array(texts(f["trial_" + name][()])) for name in ("ensemble", "label", "options")}
    return {name: {k: v[found["ensemble"] == name] for k, v in found.items()} for name in dict.fromkeys(found["ensemble"])}


def check_rungs(out):
    for name, t in trials(out).items():
        alive = np.arange(len(t["rung"]))
        for rung in range(RUNGS - 1):
            keep = max(-(-len(alive) // 3), min(len(alive), LEAST))
            best = alive[np.argsort(t["score"][alive, rung], kind="stable")[:keep]]
            alive = np.flatnonzero(t["rung"] > rung)
            check(set(alive) == set(best), f"{name}: {alive} go on after rung {rung}, but {sorted(best)} are the best")
        check(abs(t["weight"].sum() - 1) < 1e-12 and not t["weight"][t["rung"] < RUNGS - 1].any(),
              f"{name}: weights {t['weight']}")
        check(np.isnan(t["score"]).sum(1).tolist() == (RUNGS - 1 - t["rung"]).tolist(), f"{name}: scores {t['score']}")
        for rung in range(1, RUNGS):  # a lower loss is never lost
            check(not (t["score"][:, rung] > t["score"][:, rung - 1]).any(), f"{name}: {t['score']}")
    with h5py.File(f"{out}/model.h5") as f:
        check(list(f["ensemble_members"]) == [LEAST * FOLDS] * 2, f"members {list(f['ensemble_members'])}")
    with h5py.File(f"{out}/results.h5") as f:  # the score is that of the members
        loss = np.nanmin(f["loss_validation"][()], axis=1).reshape(-1, FOLDS).mean(1)
    want = np.concatenate([t["score"][t["rung"] == RUNGS - 1, -1] for t in trials(out).values()])
    check(np.allclose(loss, want, rtol=1e-6), f"validation losses {loss}, scores {want}")


def check_budget(out):
    """The first trials are the same with a smaller budget."""
    tutti(*job("small"), "-q", *sets("search.budget=9"))
    for name, t in trials("small").items():
        whole = trials(out)[name]
        for key in ("label", "options"):
            check((t[key] == whole[key][:9]).all(), f"{name}: {key} {t[key]} and {whole[key]}")
        check((t["score"][:, 0] == whole["score"][:9, 0]).all(), f"{name}: scores {t['score'][:, 0]}")
    tutti(*job("seed"), "-q", *sets("search.seed=2"))
    check((trials("seed")["first"]["options"] != trials(out)["first"]["options"]).sum() == 10, "another seed")


def kill_at(out, rung):
    """Kill a run when it says that a rung is over."""
    process = subprocess.Popen([TUTTI, *job(out)], start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               text=True)
    for line in process.stderr:
        if f"rung {rung} of" in line:
            time.sleep(0.02)
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()


def check_kills(out):
    for rung, ranks in ((1, 0), (2, 3)):
        kill_at(f"killed{rung}", rung)
        tutti(*job(f"killed{rung}"), "-q", ranks=ranks)
        check_same(out, f"killed{rung}")


def check_test_rows(out):
    """No test row decides anything."""
    tutti(*job("canary", "other.h5"), "-q")
    one, other = tensors(f"{out}/model.h5"), tensors("canary/model.h5")
    check(one == other, f"test rows change {[n for n in one if one[n] != other.get(n)]}")
    check(repr(trials(out)) == repr(trials("canary")), "test rows change the trials")


def check_tune():
    said = tutti("tune", "table.csv", "--targets", "y", "--budget", "400", "--time", "4s", "--folds", "2", "-o", "tuned",
                 *sets("run.threads=1"), timeout=60).err
    t = trials("tuned")["y"]
    check(len(t["rung"]) == 400 and 0 < (t["rung"] < 0).sum() < 400, f"trials {t['rung']}\n{said}")
    check("do not fit into search.time" in said or "time is over" in said, said)
    tutti("tune", "table.csv", "--targets", "y", "--time", "1s", "-o", "short", "-q", *sets("run.threads=1"))
    check((trials("short")["y"]["rung"] >= 0).any(), "no time at all: a trial has a score")
    tutti("tune", "table.csv", "--targets", "y", "--preset", "fast", "--epochs", "13", "-o", "fast", "-q")
    check("search: {preset: fast}" in pathlib.Path("fast/job.yaml").read_text(), "search in job.yaml")
    check("nothing was done" in tutti("train", "fast/job.yaml").err, "the job is that of the run")
    tutti("predict", "fast/model.h5", "table.csv", "-o", "pred.csv", "-q")
    job("none")
    tutti("tune", "none.yaml", code=64, says="is not a table")


def main():
    prepare()
    tutti(*job("one"), "-q")
    check_rungs("one")
    for out, ranks, threads in (("two", 2, 1), ("three", 3, 1), ("threads", 0, 3)):
        tutti(*job(out), "-q", *sets(f"run.threads={threads}"), ranks=ranks)
        check_same("one", out)
    check_budget("one")
    check_kills("one")
    check_test_rows("one")
    check_tune()


test(main)
