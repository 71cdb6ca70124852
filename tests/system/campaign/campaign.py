#!/usr/bin/python3
"""Campaigns of hidden labels: the same history on any number of ranks, after any number of starts,
and after manual changes; errors.
"""
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, h5py, np, sets, tensors, test, tutti, TUTTI

CAMPAIGN = """\
data: {file: data.h5, split: {column: split}}
model: {hidden: [12], activation: tanh}
ensembles:
  - {name: one, target: y0, members: 3}
  - {name: two, target: y1, members: 2}
train: {epochs: 40, learning_rate: 1e-2, schedule: constant, batch_size: 16}
run: {device: cpu, threads: 1, seed: 3}
pool: {file: pool.h5, labels: y, exclude: never}
select: {batch: 7, method: kcenter, lower: q0.2, upper: q0.99, random_fraction: 0.3}
label: {mode: hidden}
stop: {rounds: 3}
"""
# Each row uses a path through the stages that the others do not use.
WAYS = {
    "kcenter": [],
    "quota": ["score.ensemble_reduction=quota", "score.weights=[2, 1]", "select.method=top",
              "data.normalize={x0: yeo_johnson, x1: robust, y0: yeo_johnson, y1: minmax}"],
    "stochastic": ["select.method=stochastic"],
    "warm": ["campaign.warm_start=params", "select.method=penalty",
               "score.acquisition=total_std", "ensembles[0].train.loss=gaussian_nll"],
}


def prepare():
    rng = np.random.default_rng(5)

    def samples(n):
        x = rng.uniform(-1, 1, (n, 3))
        return x, np.stack([np.sin(3 * x[:, 0]) * x[:, 1], x[:, 2] ** 2], 1)

    with h5py.File("data.h5", "w") as f:
        f["x"], f["y"] = samples(60)
        f["split"] = np.repeat([0, 1, 2], [16, 4, 40]).astype("i1")
    with h5py.File("pool.h5", "w") as f:
        f["x"], f["y"] = samples(2000)
        f["never"] = np.isin(np.arange(2000), np.arange(10, 40))
    pathlib.Path("campaign.yaml").write_text(CAMPAIGN)
    pathlib.Path("job.yaml").write_text(CAMPAIGN[:CAMPAIGN.index("pool:")])


def command(verb, out, settings, more, file="campaign.yaml"):
    own = [] if file == "job.yaml" else [f"campaign.directory={out}"]
    return ["campaign", verb, file, *sets(*own, *settings), *more]


def go(ranks, out, settings=(), more=(), verb="run", file="campaign.yaml", **how):
    return tutti(*command(verb, out, settings, more, file), ranks=0 if ranks == 1 else ranks, **how)


def history(out):
    """All datasets of history and weights, without times and provenance."""
    return {f"{file}/{name}": value for file in ("campaign.h5", "model.h5")
            for name, value in tensors(f"{out}/{file}").items() if "seconds" not in name}


def same(out, wanted, text, but=()):
    a, b = history(out), history(wanted)
    names = [n for n in a.keys() | b.keys() if a.get(n) != b.get(n) and n not in but]
    check(not names, f"{text}: other values in {', '.join(sorted(names))}")


def check_ranks():
    for name, settings in WAYS.items():
        few = settings and [*settings, "stop.rounds=1"]
        go(1, name, few)
        go(3, f"{name}-3", few)
        same(f"{name}-3", name, f"{name} on 3 ranks")
    go(2, "kcenter-2")
    same("kcenter-2", "kcenter", "2 ranks")


def check_picks():
    with h5py.File("kcenter/campaign.h5") as f:
        row, label = f["query_row"][()], f["query_y"][()]
        drawn, rounds = f["query_random"][()], f["query_round"][()]
        sizes = f["labels"][()].tolist()
        merge = f["seconds"][:3, -1]
    with h5py.File("pool.h5") as f:
        truth = f["y"][()]
    check(len(row) == 21 and len(set(row)) == 21, f"picks: {row}")
    check(not set(row) & set(range(10, 40)), "an excluded candidate was queried")
    check(np.array_equal(label, truth[row]), "labels are not those of the queries")
    check(all(drawn[rounds == r].sum() == 2 for r in (1, 2, 3)), f"drawn at random: {drawn}")
    check((merge > 0).all(), f"seconds of stage merge: {merge}")
    check(sizes == [20, 27, 34, 41], f"labels by round: {sizes}")


def check_stepwise():
    """Run stage by stage, paused, stopped by a time limit, repeated from a stage, and extended."""
    stop = pathlib.Path("stepwise/STOP")
    stop.parent.mkdir()
    stop.touch()
    go(1, "stepwise", verb="step", code=75)
    check(not stop.exists(), "the start that obeyed STOP removes it")
    for _ in range(3):
        go(1, "stepwise", verb="step")
    go(1, "stepwise", more=["--set", "run.max_time=10ms"], code=75)
    go(2, "stepwise", ["stop.rounds=2"])
    go(1, "stepwise")
    same("stepwise", "kcenter", "step by step")
    go(1, "stepwise", ["stop.rounds=1"], more=["--from", "2"])
    go(1, "stepwise")
    unknown = {"campaign.h5/change"}  # of round 2: the files of round 1 are gone
    same("stepwise", "kcenter", "from round 2 on again", unknown)
    go(1, "stepwise", more=["--from", "3:select"])
    same("stepwise", "kcenter", "from the queries of round 3 on again", unknown)
    go(1, "stepwise", more=["--from", "3:merge"])
    same("stepwise", "kcenter", "from the labels of round 3 on again", unknown)


def check_keep():
    """campaign.keep: only the files of the last round are kept; warm starts still work."""
    settings = ["campaign.keep=1", "campaign.warm_start=params", "train.epochs=5"]
    few, more = [*settings, "stop.rounds=1"], [*settings, "stop.rounds=2"]
    go(1, "kept", more)
    go(1, "reopened", few)
    go(2, "reopened", more)
    same("reopened", "kept", "one round is kept, and the campaign continues after its end")
    go(1, "kept", more, ["--from", "2:label"], code=64, says="start from the weights in")
    pathlib.Path("other.yaml").write_text(CAMPAIGN.replace("name: two", "name: three"))
    go(1, "kept", [*settings, "campaign.warm_start=none", "stop.rounds=3"], file="other.yaml",
       code=65, says="has other predicted columns")


def check_warm():
    """With a learning rate of 0 the members stay those of the first round, with its normalization."""
    still = ["train.learning_rate=0", "train.epochs=2"]
    go(1, "first", [*still, "stop.rounds=0"])
    for ranks, how in ((2, "params"), (1, "none")):
        go(ranks, how, [*still, f"campaign.warm_start={how}", "stop.rounds=1"])
        found, wanted = tensors(f"{how}/model.h5"), tensors("first/model.h5")
        for name in ("net/parameters", "scaler/x_mean", "scaler/y_scale"):
            check((found[name] == wanted[name]) == (how == "params"), f"warm_start: {how}: {name}")


def check_own_pool():
    """The initial data as pool, under another name: training and test rows are no candidates."""
    os.symlink("data.h5", "link.h5")
    settings = ["pool.file=link.h5", "pool.inputs=/x", "pool.exclude=''", "stop.rounds=0",
                "data.split.column=''", "data.split.train=0.3", "data.split.validation=0",
                "data.split.test=0.4", "train.epochs=1"]
    go(2, "own", settings)
    with h5py.File("own/campaign.h5") as f:
        check((f["labels"][0], f["pool"][0]) == (18, 18), "initial data are candidates")


def check_copies():
    """Candidates with the inputs of others, or of training rows, are not queried again."""
    with h5py.File("pool.h5") as f, h5py.File("data.h5") as d, \
            h5py.File("copies.h5", "w") as to:
        x, y = f["x"][:20], f["y"][:20]
        x[3, 1], copies = 0.0, [*range(10), 3]
        to["x"] = np.concatenate([x, x[copies], d["x"][10:18]])
        to["x"][30, 1] = -0.0
        to["y"] = np.concatenate([y, y[copies], d["y"][10:18]])
    settings = ["pool.file=copies.h5", "pool.exclude=''", "stop.rounds=9", "train.epochs=1",
                "select.batch=14", "select.lower=''", "select.upper=''"]
    for ranks, out in (1, "stochastic"), (2, "penalty"):
        go(ranks, f"copies-{out}", [*settings, f"select.method={out}"], says="candidates (no row of the pool is left)")
        with h5py.File(f"copies-{out}/campaign.h5") as f:
            row, rounds = f["query_row"][()], f["queried"][()].tolist()
            check(sorted(np.where(row < 20, row, np.take(copies, row - 20, mode="clip"))) ==
                  list(range(20)) and rounds[-1] == 0, f"{out}: queries {row} in {rounds}")
            check((f["duplicate"][0], f["duplicate"][-1]) == (8, 19), f"{out}: {f['duplicate'][()]}")
            check(rounds == [14, 6, 0], f"{out}: {rounds}")


def check_classes():
    """A label that is no class ends the run before it enters the history."""
    with h5py.File("pool.h5") as f, h5py.File("odd.h5", "w") as to:
        to["x"], to["y"] = f["x"][()], f["y"][()] * 0 + 2
    with h5py.File("data.h5") as f, h5py.File("classes.h5", "w") as to:
        to["x"], to["y"], to["split"] = f["x"][()], f["y"][()] > 0.1, f["split"][()]
    settings = ["data.file=classes.h5", "pool.file=odd.h5", "pool.exclude=''", "score.acquisition=entropy",
                "ensembles[0].train.loss=cross_entropy", "train.epochs=2", "stop.rounds=1",
                "ensembles[1].train.loss=bce"]
    go(2, "classes", settings, code=65, says="has to be a whole number from 0 to the number of classes - 1")


def check_batch():
    """Other batch size and training options in the middle of a round: labels of candidates that are
    queried again are kept."""
    settings = ["label.mode=ask", "label.max_wait=10ms", "pool.labels=''", "select.random_fraction=1",
                "train.epochs=1"]
    go(1, "batch", settings, code=75)
    asked = list(csv.DictReader(io.StringIO(tutti("ask", "batch", "-k", "2").out)))
    with h5py.File("batch/round-0001/queries.h5") as f:
        rows = f["row"][:2]
    pathlib.Path("told.csv").write_text("".join(
        ["id,y0,y1\n"] + [f"{q['id']},{2 * i + 1},{2 * i + 2}\n" for i, q in enumerate(asked)]))
    tutti("tell", "batch", "told.csv")
    go(1, "batch", settings, code=75)
    settings[-1] = "train.epochs=2"
    go(1, "batch", [*settings, "select.batch=9"], code=75)
    check(pathlib.Path("batch/round-0001.before-1").exists(), "it has not trained again")
    for batch, *more in (1,), (2, "--from", "1:select"), (2, "--from", "1:merge"):
        go(1, "batch", [*settings, f"select.batch={batch}"], more, code=75)
        with h5py.File("batch/campaign.h5") as f:
            check(np.array_equal(f["query_row"], rows[:batch]) and
                  f["query_y"][()].tolist() == [[1, 2], [3, 4]][:batch],
                  f"existing labels were not used {more}")


ASKED = '''cut -d, -f1 "$0" | tail -n +2 >> asked
awk -F, 'NR == 1 { print "id,y0,y1" } NR > 1 { print $1 "," $2 "," $3 }' "$0" > "$1"'''


def check_again():
    """A repeated round requests no label twice, unless its stage label is repeated."""
    settings = ["label.mode=command", "label.format=csv", "label.rows_per_call=3", "pool.labels=''",
                "train.epochs=1", "stop.rounds=2", "select.batch=7",
                f"label.command={json.dumps(['sh', '-c', ASKED, '{input}', '{output}'])}"]
    go(1, "again", settings)
    before, asked = history("again"), pathlib.Path("asked").read_text().split()
    go(1, "again", settings, ["--from", "1:select"])
    check(history("again") == before, "other values after rounds with the same queries")
    check(pathlib.Path("asked").read_text().split() == asked, "labels were requested again")
    settings[-2] = "select.batch=9"
    go(1, "again", settings, ["--from", "1:select"])
    asked = pathlib.Path("asked").read_text().split()
    with h5py.File("again/campaign.h5") as f:
        row, rounds = f["query_row"][()], f["query_round"][()]
        check(np.array_equal(f["query_y"], f["query_x"][:, :2]), "labels of other candidates")
    check(len(row) == 18 and len(set(asked)) == len(asked) > 17, f"requested {asked} for {row}")
    go(1, "again", settings, ["--from", "2:label"])
    more = pathlib.Path("asked").read_text().split()[len(asked):]
    check(sorted(map(int, more)) == sorted(row[rounds == 2]), f"requested {more} again")


def check_failed():
    """Too many rows without labels end the run, not the round: they can be queried again."""
    settings = ["label.mode=command", "label.command=[\"false\"]", "label.rows_per_call=7", "stop.rounds=1"]
    go(1, "failed", settings, code=76, says="7 of 7 queried rows have no label")
    pathlib.Path("failed/round-0001/label/0001/failed").unlink()
    go(1, "failed", [*settings, "label.command=[sh, -c, exit 70]"], code=69)
    go(1, "failed", [*settings, "label.command=[\"false\"]", "label.max_failed=1"])
    with h5py.File("failed/campaign.h5") as f:
        check(f["label_failed"][()].tolist() == [7, 0], "rows without labels are not counted")


def check_fence():
    """A second start takes over; the first ends with an error and changes no file."""
    settings = ["stop.rounds=6"]
    go(1, "alone", settings)
    first = subprocess.Popen([TUTTI, *command("run", "twice", settings, ["-q"])], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not pathlib.Path("twice/campaign.h5").exists() and time.monotonic() < end:
        time.sleep(0.005)
    go(1, "twice", settings, code=(0, 75))
    said = first.communicate(timeout=60)[1]
    check(first.returncode in (0, 75), f"two at once: {first.returncode}\n{said}")
    go(1, "twice", settings)
    same("twice", "alone", "two at once")


def check_refused():
    for code, text, how in (
            (78, "is a job, not a campaign", dict(file="job.yaml")),
            (64, "--from 9: give a round from 1 to 5", dict(more=["--from", "9"])),
            (64, "--from 2:pick: after the round", dict(more=["--from", "2:pick"])),
            (64, "is gone (campaign.keep: 2); begin at 1:train", dict(more=["--from", "1:label"])),
            (65, "belongs to another campaign", dict(settings=["run.seed=4"])),
            (78, "score.target_weights has length 2",
             dict(settings=["score.target_reduction=weighted", "score.target_weights=[1, 2]"])),
            (65, "'y' has 2 columns: x0, x1; but data.file has 3: x0, x1, x2",
             dict(settings=["pool.inputs=y"])),
            (69, "label.command: './nowhere' cannot be started", dict(settings=[
                "label.mode=command", "label.command=[./nowhere]", "pool.labels=''"])),
            (69, "'data.h5' cannot be started in", dict(settings=[
                "pool.command=[data.h5, '{output}']", "pool.file=''", "pool.exclude=''"])),
            (66, "label.script: ", dict(settings=["label.mode=slurm", "label.command=[nowhere]",
                                                  "label.script=nowhere.sh", "pool.labels=''"]))):
        go(2, "kcenter", **how, code=code, says=text)
    same("kcenter", "kcenter-2", "after the errors")


def main():
    prepare()
    check_ranks()
    check_picks()
    check_stepwise()
    check_keep()
    check_warm()
    check_own_pool()
    check_copies()
    check_classes()
    check_batch()
    check_again()
    check_failed()
    check_fence()
    check_refused()


if __name__ == "__main__":
    test(main)
