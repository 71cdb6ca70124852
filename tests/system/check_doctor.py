#!/usr/bin/python3
"""`tutti doctor` describes the machine and finds every problem.

Runs it on 1 and 3 ranks, without a problem and with every problem that is possible without a GPU:
each must be reported, also all together, and the exit status is 69 exactly if there are problems.
"""
import os
import pathlib
import re
import socket
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import TUTTI, check, launcher, run, sets, skip, test

SOUND, UNAVAILABLE, USAGE = 0, 69, 64
FOUND = re.compile(r"^\d+\. (.*)", re.MULTILINE)
HOST = socket.gethostname()
JOB = """\
data: {file: no_such_data.h5}
ensembles: [{name: all}]
run: {device: cpu, threads: 1, directory: out}
"""


def doctor(ranks, *arguments, code=(SOUND, UNAVAILABLE), cores=None, environment={}):
    """What it says; ranks=0: without a launcher. cores: the only ones that it may use."""
    start = [*launcher(ranks), "--bind-to", "none"] if ranks else []
    limit = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    return run(*start, TUTTI, "doctor", *arguments, code=code, env={**os.environ, **environment},
               preexec_fn=limit)


def table(text):
    """The rows of the ranks, as {column: cell} of the columns without blanks."""
    lines = text.splitlines()
    head = lines[0].split()
    check(head[:8] == ["rank", "host", "on", "node", "cores", "threads", "engine", "gpu"],
          f"unknown table:\n{text}")
    return [dict(zip(("rank", "host", "node", "cores", "threads", "engine", "gpu"), line.split()))
            for line in lines[1:lines.index("")]]


def expect(wanted, *arguments, **how):
    """Check exit status and problems; `wanted` holds words of each expected problem."""
    said = doctor(*arguments, code=UNAVAILABLE if wanted else SOUND, **how)
    found = FOUND.findall(said.out)
    check(len(found) == len(wanted), f"{len(wanted)} problems expected:\n{said}")
    for words, text in zip(wanted, found):
        check(words in text, f"'{words}' is not in '{text}'")
    check(("no problems found" in said.out) == (not wanted), said)
    return said.out


def check_table(text, ranks, cores):
    rows = table(text)
    check([row["rank"] for row in rows] == [str(r) for r in range(ranks)],
          f"{ranks} ranks: not one line for each\n{text}")
    for row in rows:
        check(row["host"] == HOST and row["node"] == row["rank"] and int(row["cores"]) == cores,
              f"{row}, host {HOST}, {cores} cores")
    for words in ("tutti ", "MPI ", "HDF5 ", "parallel", "CUDA", "vector instructions: "):
        check(words in text, f"no version of '{words}'\n{text}")


def without_a_job(cores, no_gpu):
    """no_gpu: the problems of a tutti that was built for GPUs, on a machine without one."""
    for ranks in (1, 3):
        busy = [f"{ranks} ranks of {HOST}"] if ranks > cores else []
        check_table(expect(no_gpu + busy, ranks), ranks, cores)


def with_faults(no_gpu):
    one = {min(os.sched_getaffinity(0))}
    pathlib.Path("job.yaml").write_text(JOB)
    pathlib.Path("bad.yaml").write_text(JOB.replace("threads: 1", "threats: 1"))
    pathlib.Path("file").touch()
    expect([], 1, "job.yaml")
    check(sorted(os.listdir()) == ["bad.yaml", "file", "job.yaml"], f"left behind: {os.listdir()}")
    expect(["bad.yaml:3:"] + no_gpu, 1, "bad.yaml")
    expect(["4 threads on 1 core:"], 1, "job.yaml", *sets("run.threads=4"), cores=one)
    expect([f"3 ranks of {HOST}"], 3, "job.yaml", cores=one)
    expect(["cannot create a file"], 1, "job.yaml", *sets("run.directory=file/out"))
    settings, tasks = {"OMPI_MCA_sharedfp": "sm"}, {"SLURM_NTASKS": "3"}
    expect(["OMPI_MCA_sharedfp is 'sm'"], 1, "job.yaml", environment=settings)
    expect(["srun --mpi=pmix"], 0, "job.yaml", environment=tasks)
    expect(["srun --mpi=pmix", "OMPI_MCA_sharedfp is 'sm'", "cannot create a file",
            "4 threads on 1 core:"], 0, "job.yaml", *sets("run.threads=4", "run.directory=file/out"),
           cores=one, environment={**settings, **tasks})
    doctor(0, "--set", "run.share_gpu=true", code=USAGE)


def main():
    cores = len(os.sched_getaffinity(0))
    text = doctor(1).out
    if "built without CUDA" not in text and table(text)[0]["engine"] != "cpu":
        skip("this machine has a GPU, the test is for those without")
    no_gpu = [] if "built without CUDA" in text else ["sees no GPU"]
    without_a_job(cores, no_gpu)
    with_faults(no_gpu)


test(main)
