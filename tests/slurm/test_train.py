#!/usr/bin/python3
"""train.sbatch on 1, 2 and 4 nodes, with srun and with mpirun, and plain srun: the bits of a local
run. `tutti status` reports the state, also during the run."""
import json

import slurm_rig as rig
from slurm_rig import h

# nodes, ranks on each, launcher; one after another, because waiting ranks use the processor too
SHAPES = ((1, 1, None), (2, 2, None), (4, 1, None), (2, 1, "mpirun"))
SETTINGS = ["train.epochs=60", "checkpoint.every=20ms"]


def status_of(directory):
    done = rig.command(h.TUTTI, "status", "--json", directory)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def submit(folder, nodes, ranks, launch=None):
    name = f"nodes{nodes}x{ranks}" + ("-mpirun" if launch else "")
    text = rig.script("train.sbatch", ranks, [*SETTINGS, f"run.directory={name}"], launch=launch)
    return name, rig.submit(folder, name, text, f"--nodes={nodes}", "--time=10")


def check_status(folder, name, job):
    report = status_of(folder / name)
    wanted = {"state": "done", "exit_code": 0, "job": job, "restart": 0, "members": 7,
              "training": 0, "finished": 7, "results": 1, "eta": 0}
    for key, value in wanted.items():
        h.check(report.get(key) == value, f"{name}: status has {key} {report.get(key)}")
    h.check(report["rate"] > 0 and report["generation"] > 0, f"{name}: {report}")
    text = rig.command(h.TUTTI, "status", folder / name).stdout
    for words in ("state       done, exit code 0, Slurm job ", "7 finished", "model.h5"):
        h.check(words in text, f"{name}: \"{words}\" is not in\n{text}")


def status_while_running(folder, name):
    """Whenever the status is read it is complete and gives the state of the run."""
    seen = rig.wait_for(f"the status of {name}", lambda: status_of(folder / name))
    h.check(seen["state"] in ("training", "done"), f"{name}: state {seen['state']}")
    nothing = rig.command(h.TUTTI, "status", folder / "tmp")
    h.check(nothing.returncode == 66 and "no run has started" in nothing.stderr,
            "status of nothing")


def plain_srun(folder, wanted):
    """Without a script: it stops before the end of the job, and continues when run again."""
    settings = [*SETTINGS, "run.directory=plain"]
    start = ["srun", "-Q", "--mpi=pmix", "-K1", "-N2", "-n2", "-t1", h.TUTTI]
    done = rig.command(*start, *h.train_arguments([*settings, "run.stop_margin=1h"]), folder=folder)
    stopped = rig.command(h.TUTTI, "status", "--json", folder / "plain").stdout
    if h.check(h.newest(folder / "plain") > 0, f"plain srun: no checkpoint\n{done.stderr}"):
        stopped = json.loads(stopped)
        h.check((stopped["exit_code"], stopped["stop"]) == (75, "time"), f"plain srun: {stopped}")
    h.check(done.returncode != 0, "plain srun: stopped in time, but exit 0")
    done = rig.command(*start, *h.train_arguments(settings), folder=folder)
    if h.check(done.returncode == 0, f"plain srun: exit {done.returncode}\n{done.stderr}"):
        h.check_same(folder / "plain", wanted, "plain srun")


def main():
    with rig.workplace() as folder:
        wanted = rig.local_run(folder, "wanted", SETTINGS)
        for shape in SHAPES:
            name, job = submit(folder, *shape)
            status_while_running(folder, name)
            rig.check_done(job, folder / name, wanted, name, rig.output(folder, name, job))
            log = rig.output(folder, name, job)
            h.check(": it is done" in log, f"{name}: the log does not report the end\n{log}")
            h.check(rig.restarts(job) == 0, f"{name}: queued again")
            check_status(folder, name, job)
        plain_srun(folder, wanted)
        h.finish(f"{len(SHAPES)} jobs")


if __name__ == "__main__":
    main()
