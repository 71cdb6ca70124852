#!/usr/bin/python3
"""Every file that the program writes says what it was made from: nothing is missing, empty or zero."""
import glob
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, h5py, np, test, tutti

ALL = {"command", "version", "commit", "mpi_version", "hdf5_version", "date_created", "host", "user", "directory",
       "wall_seconds"}
RUN = ALL | {"data_hash_xxh3", "result_hash_xxh3", "ranks"}
JOB = RUN | {"seed", "threads", "device"}
MODEL = JOB | {"model", "model_hash_xxh3"}
ROUND = "campaign/round-0001"
# file, the attributes of its /provenance at least, the model that it was made from
FILES = [("data.h5", ALL, ""), ("out/model.h5", JOB, ""), ("out/results.h5", JOB, ""), ("out/ckpt-g*.h5", RUN, ""),
         ("pred.h5", MODEL, "out"), ("scores.h5", MODEL, "out"), ("importance.h5", MODEL, "out"),
         (f"{ROUND}/model.h5", JOB, ""), (f"{ROUND}/results.h5", JOB, ""),
         (f"{ROUND}/pool_scores.h5", MODEL, ROUND), (f"{ROUND}/queries.h5", MODEL, ROUND),
         (f"{ROUND}/round_after_score.h5", MODEL, ROUND), (f"{ROUND}/round_after_select.h5", MODEL, ROUND),
         (f"{ROUND}/label/*/input.h5", ALL, ""), (f"{ROUND}/label/*/accepted.h5", ALL, ""),
         ("campaign/campaign.h5", MODEL, "campaign/round-0002")]
ORACLE = """\
import sys, h5py
with h5py.File(sys.argv[1]) as f, h5py.File(sys.argv[2], "w") as g:
    g["id"], g["y"] = f["id"][()], f["x"][:, :1]
"""
JOB_FILE = """\
title: a title
data: {file: data.h5}
model: {hidden: [5]}
ensembles: [{name: one, target: y, members: 2}]
train: {epochs: 2}
run: {device: cpu, threads: 1, seed: 3}
"""
CAMPAIGN = """\
pool: {file: pool.h5}
select: {batch: 4}
label: {mode: command, rows_per_call: 4, command: [PYTHON, oracle.py, '{input}', '{output}']}
stop: {rounds: 1}
"""


def text_of(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def check_file(name, wanted, made_from):
    with h5py.File(name) as f:
        at, root = f["provenance"].attrs, f.attrs
        check(wanted <= set(at), f"{name}: /provenance lacks {wanted - set(at)}")
        for key, value in at.items():
            check(text_of(value).strip("0. ") != "", f"{name}: {key} is '{value}'")
        history = text_of(root["history"])
        check(history == f"{text_of(at['date_created'])}: {text_of(at['command'])}", f"{name}: {history}")
        check("tutti_schema" in root and "Conventions" in root, f"{name}: {list(root)}")
        if wanted >= RUN:
            check(len(text_of(root["run"])) == 16, f"{name}: run {root['run']}")
        if wanted >= JOB:
            check(root["seed"] == at["seed"], f"{name}: seed {root['seed']}")
            for part in ("resolved_config", "original_config"):
                check(f[f"provenance/{part}"].shape[0] > 40, f"{name}: {part}")
        if made_from:
            model = pathlib.Path(made_from, "model.h5").resolve()
            check(text_of(at["model"]) == str(model), f"{name}: {at['model']}")
            with h5py.File(model) as m:
                check(at["model_hash_xxh3"] == m.attrs["content_hash_xxh3"], f"{name}: {at['model_hash_xxh3']}")
        return text_of(root["run"]) if wanted >= RUN else None


def main():

    x = np.random.default_rng(1).normal(size=(60, 3))
    rows = "".join(f"{a!r},{b!r},{c!r},{a + b!r}\n" for a, b, c in x.tolist())
    pathlib.Path("t.csv").write_text("a,b,c,y\n" + rows)
    pathlib.Path("job.yaml").write_text(JOB_FILE)
    pathlib.Path("campaign.yaml").write_text(JOB_FILE + CAMPAIGN.replace("PYTHON", sys.executable))
    pathlib.Path("oracle.py").write_text(ORACLE)
    with h5py.File("pool.h5", "w") as f:
        f["x"] = x[:40] + 1
    tutti("import", "t.csv", "-o", "data.h5", "--inputs", "a,b,c", "--targets", "y")
    tutti("train", "job.yaml")
    tutti("train", "job.yaml", "--set", "run.seed=4", "--set", "run.directory=other")
    tutti("predict", "out/model.h5", "data.h5", "-o", "pred.h5")
    tutti("evaluate", "out/model.h5", "data.h5", "-o", "scores.h5")
    tutti("explain", "out/model.h5", "data.h5", "-o", "importance.h5")
    tutti("campaign", "run", "campaign.yaml")
    runs = {}
    for pattern, wanted, made_from in FILES:
        found = glob.glob(pattern)
        check(found, f"there is no {pattern}")
        for name in found:
            runs[name] = check_file(name, wanted, made_from)
    other = check_file("other/model.h5", JOB, "")
    check(runs["out/model.h5"] == runs["out/results.h5"] == runs["pred.h5"] != other, f"runs: {runs}, {other}")


test(main)
