#!/usr/bin/python3
"""tutti.Ensemble.fit(submit=...) and tutti.campaign(submit=...) on a real Slurm: the batch job is
queued, and another object comes back to its bits; a canceled job ends the wait."""
import os
import pathlib
import sys
import tempfile

import h5py
import numpy as np

import slurm_rig as rig
from slurm_rig import h

sys.path.insert(0, str(h.ROOT / "python"))
import tutti  # noqa: E402

# One rank for each pretended GPU; the CPU trains.
JOB = {"time": "10:00", "gpus_per_node": 2, "cpus_per_task": 1}
OPTIONS = {"hidden": [4], "members": 3, "epochs": 5, "device": "cpu", "threads": 1, "quiet": True}


def make_rows(n):
    random = np.random.default_rng(7)
    x = random.normal(size=(n, 2))
    return x, np.sin(x[:, 0]) + x[:, 1]


def truth(x):
    """The oracle of the campaign; a process of the batch job imports it."""
    return np.sin(x["x0"]) + x["x1"]


def come_back(directory):
    """What a later Python does."""
    run = tutti.open_run(directory)
    rig.started.append(pathlib.Path(directory, "slurm_job").read_text().strip())
    return run.wait(timeout=rig.LIMIT, poll=0.5)


def check_fit(folder):
    x, y = make_rows(60)
    there = os.path.join(folder, "run")
    tutti.Ensemble(**OPTIONS, directory=there).fit(x, y, submit=JOB)
    run = come_back(there)
    number = rig.started[-1]
    h.check(run.status()["job"] == number, f"{run.status()}: not job {number}")
    wanted = tutti.Ensemble(**OPTIONS).fit(x, y).predict(x)
    h.check(np.array_equal(run.predict(x).mean, wanted.mean), "other bits than without Slurm")
    with h5py.File(run.path("model.h5")) as f:
        h.check(f["provenance"].attrs["ranks"] == 2, f"{f['provenance'].attrs['ranks']} ranks")


def check_campaign(folder):
    x, _ = make_rows(90)
    start = x[:20]
    there = os.path.join(folder, "campaign")
    described = {**{k: v for k, v in OPTIONS.items() if k != "quiet"}, "select": {"batch": 4},
                 "stop": {"rounds": 1}}
    tutti.campaign(described, "test_python:truth", directory=there, pool=x[20:],
                   data=(start, truth({"x0": start[:, 0], "x1": start[:, 1]})), submit=JOB)
    history = come_back(there).history()
    expected = np.sin(history["query_x"][:, 0]) + history["query_x"][:, 1]
    h.check(np.array_equal(history["query_y"][:, 0], expected), "labels of the campaign")


def check_canceled(folder):
    x, y = make_rows(60)
    there = os.path.join(folder, "canceled")
    tutti.Ensemble(**OPTIONS, directory=there).fit(x, y, submit={**JOB, "hold": True})
    number = pathlib.Path(there, "slurm_job").read_text().strip()
    rig.command("scancel", number)
    try:
        tutti.open_run(there).wait(timeout=rig.LIMIT, poll=0.5)
        h.check(False, "a canceled job is a complete run")
    except tutti.Error as error:
        h.check("the batch job has ended" in str(error), f"{type(error).__name__}: {error}")


def main():
    rig.require_cluster()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(h.ROOT / "python"), os.path.dirname(__file__)])
    with tempfile.TemporaryDirectory(prefix="tutti-slurm-", ignore_cleanup_errors=True) as folder:
        try:
            for check in (check_fit, check_campaign, check_canceled):
                check(folder)
        finally:
            if rig.started:
                rig.command("scancel", "-f", *rig.started)
        h.finish("3 batch jobs")


if __name__ == "__main__":
    main()
