#!/usr/bin/python3
"""Is what a person sees in the terminal complete, and in one piece?

A table is one write, so that no line of another rank stands between its rows; `report` names the
files that it wrote; `info` lists every dataset and the names of the inputs in 80 columns; a progress
line fits into 80 columns; a binding of mpirun that withholds cores is reported with its fix.
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import h5py, MPIRUN, run, sets, test, tutti, TUTTI

INPUTS = ["a_first_input", "b", "input_with_a_long_name", "d", "e", "another_long_input_name", "g"]
JOB = """\
data: {file: samples.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {hidden: [4]}
ensembles: [{name: one, target: y0, members: 3}, {name: two, target: y1, members: 2}]
train: {epochs: 3, loss: gaussian_nll}
run: {device: cpu, directory: out}
"""


def writes(*command, codes=(0,)):
    """What a command writes to its standard output, each write of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, open("messages", "w") as messages:
        child = subprocess.Popen(command, stdout=theirs, stderr=messages)
        theirs.close()
        got = list(iter(lambda: ours.recv(1 << 20).decode(), ""))
        assert child.wait() in codes, f"{command}: {child.returncode}"
        if child.returncode:
            assert "sees no GPU" in got[0] and "\n2. " not in got[0], got
    return got


def make_samples():
    columns = INPUTS + ["y0", "y1"]
    rows = [[str((7 * r + 3 * c) % 23 / 23) for c in range(len(columns))] for r in range(60)]
    text = "\n".join(",".join(row) for row in [columns, *rows]) + "\n"
    pathlib.Path("samples.csv").write_text(text)
    tutti("import", "samples.csv", "-o", "samples.h5", "--inputs", ",".join(INPUTS),
        "--targets", "y0,y1")
    pathlib.Path("job.yaml").write_text(JOB)


def check_tables():
    tables = writes(TUTTI, "train", "job.yaml")
    assert len(tables) == 1 and re.search(r"^one: y0,(.*\n)+two: y1,", tables[0]), tables
    messages = pathlib.Path("messages").read_text().splitlines()
    progress = [line for line in messages if "epoch 3/3, loss " in line]
    assert progress and all(len(line) <= 80 for line in progress), messages
    assert any("quartiles of the members' training losses" in line for line in messages), messages
    for verb in (["evaluate", "out/model.h5", "samples.h5"], ["status", "out"], ["plan", "job.yaml"],
                 ["info", "out/results.h5"], ["doctor"]):
        # doctor: 69 for a build with CUDA on a machine without a GPU
        pieces = writes(TUTTI, *verb, codes=(0, 69) if verb == ["doctor"] else (0,))
        assert len(pieces) == 1, (verb, pieces)


def check_plan():
    """How the ranks of a team share a member, and what the ways to do it would bring."""
    deep = ["--set", "model.hidden=[64, 64, 64, 64]", "--set", "train.parts=6"]
    text = tutti("plan", "job.yaml", *deep, "--ranks", "4", "--set", "run.stages=4").out
    for words in ("1 team of 4 ranks", "5 layers in 4 stages: 1 + 1 + 1 + 2; with 6 parts a stage "
                  "waits 33 % of the time", "at most 2.01 times as fast as one rank; a rank sends "
                  "up to 16.0 KiB a step, "):
        assert words in text, (words, text)
    text = tutti("plan", "job.yaml", *deep, "--ranks", "6", "--set", "run.stages=6").out
    assert "1 of 6 ranks have no layers: 5 stages of 1" in text, text
    text = tutti("plan", "job.yaml", *deep, "--ranks", "4", "--set", "run.stages=2",
               "--set", "run.ranks_per_member=2").out
    for words in ("1 team of 4 ranks", "5 layers in 2 stages: 2 + 3; with 3 parts a stage waits 25 % ",
                  "2 ranks for each stage, to which the parts of a batch are dealt 3 + 3"):
        assert words in text, (words, text)
    text = tutti("plan", "job.yaml", *deep, "--ranks", "12").out
    for words in ("run.ranks_per_member: 3 at most 3.00 times as fast",
                  "run.stages: 3 at most 2.17 times as fast (waits 25 %)"):
        assert words in text, (words, text)


def check_one_row():
    """A score that has no value, such as the R2 of one row, is left out of the table."""
    lines = pathlib.Path("samples.csv").read_text().splitlines()
    pathlib.Path("row.csv").write_text("\n".join(lines[:2]) + "\n")
    tutti("import", "row.csv", "-o", "row.h5", "--inputs", ",".join(INPUTS), "--targets", "y0,y1")
    table = tutti("evaluate", "out/model.h5", "row.h5").out
    assert "rmse" in table and "r2" not in table and "nan" not in table, table


def check_info():
    for file in ("samples.h5", "out/model.h5", "out/results.h5"):
        lines = tutti("info", file).out.splitlines()
        listed = {line.split()[0] for line in lines if re.match(r"  \S", line)}
        with h5py.File(file) as f:
            there = set()
            f.visititems(lambda name, d: there.add(name) if isinstance(d, h5py.Dataset) and not
                         d.attrs.get("NAME", b"").startswith(b"This is a netCDF dim") else None)
        assert listed == there, (file, listed ^ there)
        assert all(len(line) <= 80 or len(line.split()) == 1 for line in lines), lines
    text = " ".join(tutti("info", "out/model.h5").out.split())
    assert ", ".join(INPUTS) in text and "one, two" in text, text
    assert "one (3 times), two (2 times)" in " ".join(tutti("info", "out/results.h5").out.split())


def check_predict():
    """A file that exists stays as it is, unless --force; the model and the data always."""
    command = ["predict", "out/model.h5", "samples.h5", "-o", "p.h5"]
    pathlib.Path("p.h5").write_text("mine")
    assert "p.h5 exists; give another output file, or --force" in tutti(*command, code=73).err
    table = [word.replace("p.h5", "p.npy") for word in command]
    assert "p.npy: the output is an HDF5 file; give a name that ends in .h5" in tutti(*table, code=64).err
    assert pathlib.Path("p.h5").read_text() == "mine"
    for own in ("out/model.h5", "samples.h5"):  # the files that it reads
        same = tutti(*command[:-1], f"out/../{own}", "--force", code=64)
        assert f"{own} is read by this command; give another output file" in same
    tutti(*command, "--force")
    with h5py.File("p.h5") as f:
        assert f["y_pred_mean"].shape == (60, 2), f["y_pred_mean"]
    command = ["evaluate", "out/model.h5", "samples.h5", "-o", "s.h5"]
    pathlib.Path("s.h5").write_text("mine")
    table = tutti("evaluate", "out/model.h5", "samples.h5", "-o", "s.csv", code=64).err
    assert "s.csv: the output is an HDF5 file; give a name that ends in .h5" in table
    assert "s.h5 exists; give another output file, or --force" in tutti(*command, code=73).err
    assert pathlib.Path("s.h5").read_text() == "mine"
    tutti(*command, "--force")
    with h5py.File("s.h5") as f:
        assert f["ensemble_rmse"].shape == (2,), f["ensemble_rmse"]


def contents(folder):
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in pathlib.Path(folder).iterdir()}


def check_again():
    """A complete run that is started again is left as it is; another job names what differs."""
    tutti("train", "job.yaml", "-q", "--resume", "never")
    before = contents("out")
    for _ in range(2):
        said = tutti("train", "job.yaml").err
        assert "complete and of this job: nothing was done" in said, said
        assert contents("out") == before
    os.remove("out/results.h5")  # then it is written again, from the checkpoint
    assert "nothing was done" not in tutti("train", "job.yaml").err
    assert os.path.exists("out/results.h5")
    said = tutti("train", "job.yaml", "--set", "train.epochs=4", "--set", "run.seed=5", "--set",
               "ensembles.two.members=4", code=65).err
    for words in ("run.seed is 1 there and 5 here", "train.epochs is 3 there and 4 here",
                  "ensembles[1].members is 2 there and 4 here", "--resume never"):
        assert words in said, (words, said)
    assert said.count(" there and ") == 3 and "hash" not in said, said


def check_binding():
    cores = len(os.sched_getaffinity(0))
    bound = run(*MPIRUN, 1, "--bind-to", "core", TUTTI, "train", "job.yaml", "--resume", "never").err
    assert ("--bind-to none" in bound) == (cores > 1), (cores, bound)
    free = run(*MPIRUN, 1, "--bind-to", "none", TUTTI, "train", "job.yaml", "--resume", "never").err
    assert "--bind-to none" not in free, free
    few = ["--set", "ensembles[0].members=1", "--set", "ensembles[1].members=1"]
    idle = tutti("train", "job.yaml", "--resume", "never", *few, ranks=3).err
    assert "3 ranks, but 2 members to train: the others are idle" in idle, idle
    assert "are idle" not in free, free


def check_places():
    """Which rank computes where, ranks without work, GPUs that nobody uses."""
    pathlib.Path("one.yaml").write_text(re.sub(r"ensembles:.*", "ensembles: [{name: one, target: y0, members: 1}]", JOB))
    host = r"on \S+: CPU, \d+ threads?"
    for more, places, idle in ((["-v"], 3, "train.parts above 1, which run.ranks_per_member"),
                               (["--set", "train.parts=2"], 1, "3 ranks for each member, but its batches have 2 parts")):
        said = tutti("train", "one.yaml", "--resume", "never", "--set", "run.gpu_map=[0]",
                     "--set", "run.ranks_per_member=3", *more, ranks=3).err
        assert len(re.findall(rf"tutti: ranks 0 to 2 {host} each\n", said)) == 1, said
        assert len(re.findall(rf"tutti: debug: rank \d {host}\n", said)) == (3 if "-v" in more else 0), said
        assert idle in said and "names GPUs, but no rank uses one" in said, said
    plan = tutti("plan", "one.yaml", "--ranks", "2", "--set", "train.parts=2", "--set", "run.ranks_per_member=2").out
    assert "ranks      2: 1 team of 2 ranks, 1 member in it\n" in plan, plan


def check_slurm():
    """No more GPUs than the members can use, and as many as were asked for."""
    for members, more, gpus in ((9, "", 4), (3, "", 3), (1, "run: {stages: 2}\ntrain: {parts: 4}", 2),
                                (1, "run: {ranks_per_member: 4}\ntrain: {parts: 8}", 4)):
        pathlib.Path("few.yaml").write_text(
            f"data: {{file: samples.h5}}\nensembles: [{{name: one, target: y0, members: {members}}}]\n{more}\n")
        said = tutti("slurm", "train", "few.yaml").out
        assert f"#SBATCH --gpus-per-node={gpus}\n" in said and f"--ntasks-per-node={gpus}" in said, said
        assert "--gpus-per-node=4\n" in tutti("slurm", "train", "few.yaml", "--gpus-per-node", "4").out


def check_front():
    """plan and train describe a network with a front in the same way."""
    pathlib.Path("front.yaml").write_text(
        JOB.replace("{hidden: [4]}", "{profile: [1, 7], front: [conv 2 3], hidden: [4]}"))
    said = tutti("train", "front.yaml", "--resume", "never").err
    assert "network 7-front-14-4-2, " in said, said
    assert "network    7-front-14-4-2, " in tutti("plan", "front.yaml").out
    pathlib.Path("front.yaml").write_text(
        JOB.replace("{hidden: [4]}", "{profile: [1, 7], front: [pool max 3 stride 2 pad 1, basic 4 stride 2], "
                                     "hidden: [4], activation: silu}"))
    assert """
        1  pool max 1 x 4
        2  conv 4 x 2, 12 parameters
        3  batch_norm 4 x 2, 8 parameters
        4  conv 4 x 2, 48 parameters
        5  batch_norm 4 x 2, 8 parameters
        6  conv 4 x 2, 4 parameters, projection of layer 1
        7  batch_norm 4 x 2, 8 parameters, projection, plus layer 5, then silu
""" in tutti("plan", "front.yaml").out
    plan = json.loads(tutti("plan", "front.yaml", "--json").out)["cohorts"][0]
    assert [layer["parameters"] for layer in plan["front"]] == [0, 12, 8, 48, 8, 4, 8], plan
    assert plan["parameters"] == 12 + 8 + 48 + 8 + 4 + 8 + (8 + 1) * 4 + (4 + 1) * 2, plan
    assert f", {plan['parameters']} parameters" in tutti("train", "front.yaml", "--resume", "never").err


def check_campaign():
    """The notice about columns without names comes once; an ended campaign cannot be paused."""
    tutti("campaign", "init", "active")
    with h5py.File("active/pool.h5") as old, h5py.File("active/plain.h5", "w") as new:
        new["x"] = old["x"][:50]
        new["y"] = old["y"][:50]
    few = ("stop.rounds=1", "train.epochs=2", "pool.file=''", "pool.command=[cp, plain.h5, '{output}']", "pool.chunks=3")
    said = tutti("campaign", "run", "active/campaign.yaml", *sets(*few)).err
    assert len(re.findall("/pool-0000.h5: the columns of 'x' .* by position", said)) == 1, said
    assert said.count("by position") == said.count("by position, as those") <= 2 and ".tmp" not in said, said
    said = tutti("campaign", "pause", "active/campaign").err
    assert "has ended; there is nothing to pause" in said and not os.path.exists("active/campaign/STOP"), said


def main():
    make_samples()
    check_tables()
    check_plan()
    check_one_row()
    check_info()
    check_predict()
    check_again()
    check_binding()
    check_places()
    check_slurm()
    check_front()
    check_campaign()


test(main)
