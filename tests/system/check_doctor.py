#!/usr/bin/python3
"""`tutti doctor` describes the machine and finds every problem.

    check_doctor.py TUTTI MPIRUN...

Runs it on 1 and 3 ranks, without a problem and with every problem that is possible without a GPU:
each must be reported, also all together, and the exit status is 69 exactly if there are problems.
The links between ranks, and what `tutti plan --links` says about teams of ranks over them.
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

SOUND, UNAVAILABLE, USAGE, BAD_DATA = 0, 69, 64, 65
FOUND = re.compile(r"^\d+\. (.*)", re.MULTILINE)
TUTTI, MPIRUN = sys.argv[1], sys.argv[2:]
HOST = socket.gethostname()
JOB = """\
data: {file: no_such_data.h5}
ensembles: [{name: all}]
run: {device: cpu, threads: 1, directory: out}
"""


def fail(message):
    sys.exit(f"check_doctor: {message}")


def doctor(ranks, arguments=(), cores=None, environment=None):
    """Run it; ranks=0: without a launcher. cores: the only ones that it may use."""
    start = [] if ranks == 0 else [*MPIRUN, str(ranks), "--bind-to", "none"]
    done = subprocess.run(
        [*start, TUTTI, "doctor", *arguments], capture_output=True, text=True, timeout=120,
        env={**os.environ, **(environment or {})},
        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
    return done.returncode, done.stdout, FOUND.findall(done.stdout), done.stderr


def table(text):
    """The rows of the ranks, as {column: cell} of the columns without blanks."""
    lines = text.splitlines()
    head = lines[0].split()
    if head[:8] != ["rank", "host", "on", "node", "cores", "threads", "engine", "gpu"]:
        fail(f"unknown table:\n{text}")
    rows = []
    for line in lines[1:lines.index("")]:
        cells = line.split()
        rows.append(dict(zip(("rank", "host", "node", "cores", "threads", "engine", "gpu"), cells)))
    return rows


def expect(what, run, wanted):
    """Check exit status and problems; `wanted` holds words of each expected problem."""
    code, out, found, error = run
    if code != (UNAVAILABLE if wanted else SOUND):
        fail(f"{what}: exit status {code}, {len(wanted)} problems expected\n{out}{error}")
    if len(found) != len(wanted):
        fail(f"{what}: {len(found)} problems, {len(wanted)} expected\n{out}{error}")
    for words, text in zip(wanted, found):
        if words not in text:
            fail(f"{what}: '{words}' is not in '{text}'")
    if ("no problems found" in out) != (not wanted):
        fail(f"{what}: {out}")
    return out


def check_table(what, text, ranks, cores):
    rows = table(text)
    if [row["rank"] for row in rows] != [str(r) for r in range(ranks)]:
        fail(f"{what}: not one line for each rank\n{text}")
    for row in rows:
        if row["host"] != HOST or row["node"] != row["rank"] or int(row["cores"]) != cores:
            fail(f"{what}: {row}, host {HOST}, {cores} cores")
    for words in ("tutti ", "MPI ", "HDF5 ", "parallel", "CUDA", "vector instructions: "):
        if words not in text:
            fail(f"{what}: no version of '{words}'\n{text}")


def without_a_job(cores, no_gpu):
    """no_gpu: the problems of a tutti that was built for GPUs, on a machine without one."""
    for ranks in (1, 3):
        busy = [f"{ranks} ranks of {HOST}"] if ranks > cores else []
        what = f"{ranks} ranks"
        check_table(what, expect(what, doctor(ranks), no_gpu + busy), ranks, cores)


def with_faults(folder, cores, no_gpu):
    one = {min(os.sched_getaffinity(0))}
    job = folder / "job.yaml"
    job.write_text(JOB)
    bad = folder / "bad.yaml"
    bad.write_text(JOB.replace("threads: 1", "threats: 1"))
    file = folder / "file"
    file.write_text("")
    expect("a job", doctor(1, [job]), [])
    if sorted(folder.iterdir()) != sorted([job, bad, file]):
        fail(f"files left behind: {list(folder.iterdir())}")
    expect("a bad job", doctor(1, [bad]), ["bad.yaml:3:"] + no_gpu)
    expect("4 threads on 1 core", doctor(1, [job, "--set", "run.threads=4"], one),
           ["4 threads on 1 core:"])
    expect("3 ranks on 1 core", doctor(3, [job], one), [f"3 ranks of {HOST}"])
    expect("no directory", doctor(1, [job, "--set", f"run.directory={file}/out"]),
           ["cannot create a file"])
    expect("settings", doctor(1, [job], None, {"OMPI_MCA_sharedfp": "sm"}),
           ["OMPI_MCA_sharedfp is 'sm'"])
    expect("singletons", doctor(0, [job], None, {"SLURM_NTASKS": "3"}), ["srun --mpi=pmix"])
    everything = [job, "--set", "run.threads=4", "--set", f"run.directory={file}/out"]
    expect("everything", doctor(0, everything, one,
                                {"SLURM_NTASKS": "3", "OMPI_MCA_sharedfp": "sm"}),
           ["srun --mpi=pmix", "OMPI_MCA_sharedfp is 'sm'", "cannot create a file",
            "4 threads on 1 core:"])
    code = doctor(0, ["--share-gpu"])[0]
    if code != USAGE:
        fail(f"--share-gpu without a job: exit status {code}")


def links():
    """One link between two ranks of this node, none on one rank; a machine moves a small message in
    between 10 ns and 1 s, and at least 1 MB/s."""
    if json.loads(doctor(1, ["--json"])[1])["links"]:
        fail("a link on one rank")
    shown = re.findall(r"^link between ranks 0 and 1, on one node: ([\d.]+) us, ([\d.]+) GB/s$",
                       doctor(2)[1], re.MULTILINE)
    text = doctor(2, ["--json"])[1]
    link, = json.loads(text)["links"]
    if link["between"] != [0, 1] or link["one_node"] is not True or len(shown) != 1:
        fail(f"links: {link}, {shown}")
    if not 1e-8 < link["latency_seconds"] < 1 or not link["bytes_per_second"] > 1e6:
        fail(f"not a link: {link}")
    return text


def plan(folder, *arguments):
    done = subprocess.run([TUTTI, "plan", folder / "plan.yaml", *arguments], capture_output=True,
                          text=True, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def plan_with_links(folder, measured):
    """tutti plan says when a team pays; by hand for 4-4x64-1, 8 parts, 2 ranks, 2 us, 1 GB/s."""
    rows = "\n".join(f"{i % 7},{i % 5},{i % 3},{i % 11},{i % 13}" for i in range(600))
    (folder / "rows.csv").write_text("a,b,c,d,y\n" + rows + "\n")
    (folder / "plan.yaml").write_text(
        "data: {file: rows.csv}\nensembles: [{name: all, members: 1}]\n"
        "model: {hidden: [64, 64, 64, 64]}\n"
        "train: {batch_size: 256, parts: 8}\nrun: {device: cpu, directory: out}\n")
    (folder / "measured.json").write_text(measured)
    code, text = plan(folder, "--ranks", "2", "--links", "measured.json")
    if code or text.count("over the slowest link the exchange of a step takes") != 1:
        fail(f"plan with measured links: {code}\n{text}")
    link = {"between": [0, 1], "one_node": True}
    (folder / "links.json").write_text(json.dumps({"links": [
        {**link, "latency_seconds": 2e-6, "bytes_per_second": 9e9},
        {**link, "latency_seconds": 1e-6, "bytes_per_second": 1e9}]}))
    params = 4 * 64 + 64 + 3 * (64 * 64 + 64) + 64 + 1
    for stages, messages, sent, speedup in (("1", 3, 4 * params, 2.0),
                                            ("2", 8 + 2, 4 * 64 * 256, None)):
        code, text = plan(folder, "--ranks", "2", "--links", "links.json", "--set",
                          f"run.stages={stages}")
        exchange = 1e3 * (messages * 2e-6 + sent / 1e9)
        found = re.search(r"takes ([\d.]+) ms; faster than one rank if a step takes more than "
                          r"([\d.]+) ms there", text)
        speedup = speedup or float(re.search(r"at most ([\d.]+) times as fast", text)[1])
        wanted = exchange, exchange / (1 - 1 / speedup)
        if code or any(abs(float(a) - b) > 0.02 * b for a, b in zip(found.groups(), wanted)):
            fail(f"plan, stages {stages}: {wanted} ms expected\n{text}")
    (folder / "none.json").write_text('{"links": []}')
    code, text = plan(folder, "--ranks", "2", "--links", "none.json")
    if code != BAD_DATA or "none.json: no links between ranks" not in text:
        fail(f"plan without links: {code}\n{text}")


def main():
    cores = len(os.sched_getaffinity(0))
    text = doctor(1)[1]
    if "built without CUDA" not in text and table(text)[0]["engine"] != "cpu":
        print("skipped: this machine has a GPU, the test is for those without")
        sys.exit(77)
    no_gpu = [] if "built without CUDA" in text else ["sees no GPU"]
    without_a_job(cores, no_gpu)
    measured = links()
    with tempfile.TemporaryDirectory() as folder:
        with_faults(pathlib.Path(folder), cores, no_gpu)
        plan_with_links(pathlib.Path(folder), measured)


if __name__ == "__main__":
    main()
