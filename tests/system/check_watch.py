#!/usr/bin/python3
"""tutti watch, and the metrics that a run writes while it trains.

`watch` shows the state once if the output is no terminal, and until the run ends on a terminal; no
line has more than 80 columns. metrics.jsonl has a JSON object in each line, and ends with the last
state; the example passes its numbers to a writer of TensorBoard.
"""
import importlib
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import ROOT, run, test, TUTTI, tutti

JOB = """\
data: {file: samples.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {hidden: [4]}
ensembles: [{name: one, target: y, members: 3}]
train: {epochs: 40}
run: {device: cpu, directory: out}
"""
WRITER = """\
import json
class SummaryWriter:
    def __init__(self, directory): self.rows = []
    def add_scalar(self, *row): self.rows.append(row)
    def close(self): json.dump(self.rows, open("tensorboard.json", "w"))
"""
MLFLOW = """\
import contextlib, json
rows = []
@contextlib.contextmanager
def start_run(run_name):
    yield
    json.dump(rows, open("mlflow.json", "w"))
def log_metrics(values, step): rows.extend((name, value, step) for name, value in values.items())
"""


def metrics():
    return [json.loads(line) for line in open("out/metrics.jsonl")]


def check_importers():
    """The examples, with modules that write down what they get, and with the real ones."""
    wanted = {(name, row["epoch"]): row[name] for row in metrics() for name in ("loss_q50", "training")
              if row[name] is not None}
    os.makedirs("stand-in/torch/utils")
    pathlib.Path("stand-in/torch/utils/tensorboard.py").write_text(WRITER)
    pathlib.Path("stand-in/mlflow.py").write_text(MLFLOW)
    for name in ("tensorboard", "mlflow"):
        run(sys.executable, f"{ROOT}/examples/metrics/to_{name}.py", "out",
            env={**os.environ, "PYTHONPATH": os.getcwd() + "/stand-in"})
        got = {(name, step): value for name, value, step in json.load(open(name + ".json"))}
        assert {key: got.get(key) for key in wanted} == wanted, (name, got)
    for name, ask in (("tensorboard", ask_tensorboard), ("mlflow", ask_mlflow)):
        try:
            for module in ("mlflow",) if name == "mlflow" else ("tensorboard", "tensorboardX"):
                importlib.import_module(module)
        except Exception as missing:  # a module that is there may not fit to another one
            print(f"skipped: the real {name}: {missing}")
            continue
        env = {**os.environ, "MLFLOW_TRACKING_URI": "file:" + os.getcwd() + "/mlruns",
               "MLFLOW_ALLOW_FILE_STORE": "true"}
        run(sys.executable, f"{ROOT}/examples/metrics/to_{name}.py", "out", env=env)
        os.environ.update(env)
        got = ask()
        for key, value in wanted.items():
            assert abs(got[key] - value) <= 1e-6 * abs(value), (name, key, got[key], value)
        print(f"real {name}: {len(got)} values")


def ask_tensorboard():
    """What TensorBoard reads from the directory of the run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator("out")
    events.Reload()
    return {(name, e.step): e.value for name in events.Tags()["scalars"] for e in events.Scalars(name)}


def ask_mlflow():
    import mlflow
    client = mlflow.MlflowClient()
    found = client.search_runs(["0"])[0].info.run_id
    return {(name, m.step): m.value for name in ("loss_q50", "training", "rate")
            for m in client.get_metric_history(found, name)}


def check_metrics():
    tutti("train", "job.yaml", "-q")
    last = metrics()[-1]
    assert (last["epoch"], last["epochs"], last["finished"], last["training"]) == (40, 40, 3, 0), last
    assert 0 < last["loss_q25"] <= last["loss_q50"] <= last["loss_q75"] and last["steps"] > 0, last
    starts = len({row["start"] for row in metrics()})
    with open("out/metrics.jsonl", "a") as f:
        f.write('{"time": "a line that a kill has cut')
    first = metrics_after("--resume", "never")
    assert starts == 1 and first["start"] != last["start"], "the file begins again"
    check_importers()


def metrics_after(*options):
    tutti("train", "job.yaml", "-q", *options)
    return metrics()[0]


def stop_after_a_line():
    """A run that SIGTERM ends when it has written a line of metrics."""
    path = pathlib.Path("cut/metrics.jsonl")
    size = path.stat().st_size if path.exists() else 0
    child = subprocess.Popen([TUTTI, "train", "job.yaml", "-q", "--set", "run.directory=cut", "--set",
                              "train.epochs=1000000"], stderr=subprocess.DEVNULL)
    while child.poll() is None and not (path.exists() and path.stat().st_size > size + 100):
        time.sleep(0.01)
    child.terminate()
    assert child.wait(timeout=60) == 75, child.returncode


def check_cut_line():
    """A run that continues ends the line that a kill has cut, and appends its own."""
    stop_after_a_line()
    with open("cut/metrics.jsonl", "a") as f:
        f.write('{"cut": ')
    stop_after_a_line()
    lines = open("cut/metrics.jsonl").read().split("\n")
    cut = lines.index('{"cut": ')
    before, after = json.loads(lines[cut - 1]), json.loads(lines[cut + 1])
    assert before["start"] != after["start"] and before["epoch"] <= after["epoch"], (before, after)
    assert lines[-1] == ""


def status():
    path = pathlib.Path("endless/status.json")
    return json.loads(path.read_text()) if path.exists() else {"rate": 0}


def check_stop_file():
    """The first status that knows the speed comes soon. The file STOP ends the run that trains, or
    the next start if none does; that start removes it, so the one after it continues."""
    command = ["train", "job.yaml", "-q", "--set", "run.directory=endless", "--set",
               "train.epochs=1000000", "--set", "checkpoint.every=1h"]
    child = subprocess.Popen([TUTTI, *command], stderr=subprocess.PIPE, text=True)
    while child.poll() is None and not status()["rate"]:
        time.sleep(0.01)
    soon, stop = status(), pathlib.Path("endless/STOP")
    stop.touch()
    said = child.communicate(timeout=60)[1]
    assert soon["seconds"] < 10 and soon["training"] == 3, soon
    assert child.returncode == 75 and "the file STOP" in said and not stop.exists(), said
    stop.touch()
    said = tutti(*command, code=75).err
    assert "stopped by the file STOP at checkpoint 2" in said and not stop.exists(), said
    tutti(*command, "--set", "run.max_time=10ms", code=75)
    assert (status()["stop"], status()["resumed"]) == ("time", 2), status()


def check_once():
    shown, again = (re.sub(r"\d+:\d\d ago", "... ago", tutti("watch", *once, "out").out)
                    for once in ([], ["--once"]))  # a second may pass between them
    assert shown == again and "state       done" in shown, (shown, again)
    assert "\33" not in shown and "loss        " in shown and "40 of at most 40" in shown, shown
    assert "no run has started" in tutti("watch", "nowhere", code=66).err


def set_state(**what):
    path = pathlib.Path("out/status.json")
    status = {**json.loads(path.read_text()), **what}
    new = pathlib.Path("out/new.json")
    new.write_text(json.dumps(status))
    new.rename(path)


def check_begin():
    """Before training begins, time and epochs are not known."""
    shutil.copytree("out", "begun")
    path = pathlib.Path("begun/status.json")
    status = json.loads(path.read_text())
    path.write_text(json.dumps({**status, "state": "training", "epoch": 0, "epochs": 0, "eta": -1}))
    shown = tutti("status", "begun").out
    assert "epoch       not known before training begins\n" in shown and "time left   ?\n" in shown, shown


def check_live():
    set_state(state="training", members=10**9, training=10**9, reason="a long reason " * 20)
    ours, theirs = pty.openpty()
    child = subprocess.Popen([TUTTI, "watch", "out"], stdout=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown = ""
    while "results" not in shown:
        shown += os.read(ours, 65536).decode()
    set_state(state="done")
    end = time.monotonic() + 20
    while child.poll() is None and time.monotonic() < end:
        try:
            shown += os.read(ours, 65536).decode()
        except OSError:  # the terminal is closed
            break
    assert child.wait(timeout=20) == 0
    pictures = shown.split("\33[H\33[2J")[1:]
    assert len(pictures) >= 2 and "training" in pictures[0] and "state       done" in pictures[-1], shown
    assert all(len(line) <= 80 for line in shown.replace("\r", "").split("\n")), shown


def main():
    rows = "\n".join(f"{i % 7},{i % 5},{(i * i) % 11}" for i in range(60))
    pathlib.Path("samples.csv").write_text("a,b,y\n" + rows + "\n")
    tutti("import", "samples.csv", "-o", "samples.h5", "--inputs", "a,b", "--targets", "y")
    pathlib.Path("job.yaml").write_text(JOB)
    check_metrics()
    check_stop_file()
    check_once()
    check_begin()
    check_live()
    check_cut_line()


test(main)
