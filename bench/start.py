#!/usr/bin/python3
"""Time of small commands, several programs in turn: what starts cost.

  start.py [--runs 20] TUTTI [TUTTI ...]

Prints a line for each command and program: the median and the smallest of the runs, in seconds of
wall time and of CPU time. `energy` is the job of examples/energy, 100 members, with one epoch and
one thread, then its plan, predict and report; the others are for 3 tiny members; `fit` is one call
of the Python package in a process that has imported it.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
JOB = """\
data: {file: data.csv, targets: y}
model: {hidden: [8]}
ensembles: [{name: only, target: y, members: 3}]
train: {epochs: 2}
"""
COMMANDS = {"plan": ["plan", "job.yaml"],
            "train": ["train", "job.yaml", "-q", "--resume", "never"],
            "predict": ["predict", "out/model.h5", "data.csv", "-o", "p.h5", "--force", "-q"]}
ENERGY_OPTIONS = [word for option in ("train.epochs=1", "run.threads=1", "run.device=cpu",
                                      "run.directory=energy") for word in ("-s", option)]
ENERGY = {"energy train": ["train", "energy.yaml", "-q", "--resume", "never", *ENERGY_OPTIONS],
          "energy plan": ["plan", "energy.yaml", *ENERGY_OPTIONS],
          "energy predict": ["predict", "energy/model.h5", "energy.csv", "-o", "e.h5", "--force",
                             "-q"],
          "energy report": ["report", "energy"]}


def write_job(folder):
    import numpy as np
    draw = np.random.default_rng(1)
    x = draw.normal(size=(60, 4))
    np.savetxt(folder / "data.csv", np.column_stack([x, x.sum(1)]), fmt="%.5f", delimiter=",",
               header="a,b,c,d,y", comments="")
    (folder / "job.yaml").write_text(JOB)
    return x, x.sum(1)


def write_energy(folder, program):
    source = HERE.parent / "examples" / "energy"
    (folder / "energy.csv").write_bytes((source / "energy.csv").read_bytes())
    (folder / "energy.yaml").write_bytes((source / "job.yaml").read_bytes())
    names = (folder / "energy.csv").read_text().split("\n", maxsplit=1)[0].split(",")
    subprocess.run([os.path.abspath(program), "import", "energy.csv", "-o", "energy.h5", "--inputs",
                    ",".join(names[:8]), "--targets", ",".join(names[8:])],
                   cwd=folder, check=True, capture_output=True)


def seconds_of(action):
    """Wall and CPU seconds of an action that starts processes."""
    def used():
        of = resource.getrusage(resource.RUSAGE_CHILDREN)
        return of.ru_utime + of.ru_stime
    start, before = time.perf_counter(), used()
    action()
    return time.perf_counter() - start, used() - before


def fit(program, x, y):
    import tutti
    os.environ["TUTTI"] = program
    tutti.Ensemble(hidden=[8], members=3, epochs=2).fit(x, y)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--runs", type=int, default=20)
    p.add_argument("tutti", nargs="+")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folders = {program: pathlib.Path(name) / str(i) for i, program in enumerate(args.tutti)}
        for program, folder in folders.items():
            folder.mkdir()
            x, y = write_job(folder)
            write_energy(folder, program)

        def run(program, words):
            subprocess.run([os.path.abspath(program), *words], cwd=folders[program], check=True,
                           capture_output=True)
        commands = COMMANDS | ENERGY
        print("command\tprogram\tmedian\tsmallest\tmedian of CPU\tsmallest of CPU")
        for command in [*commands, "fit"]:
            taken = {program: [] for program in args.tutti}
            for _ in range(args.runs):
                for program, times in taken.items():
                    times.append(seconds_of(lambda: fit(os.path.abspath(program), x, y) if command == "fit"
                                            else run(program, commands[command])))
            for program, times in taken.items():
                found = [f"{of(t):.4f}" for t in zip(*times) for of in (statistics.median, min)]
                print(command, program, *found, sep="\t", flush=True)


if __name__ == "__main__":
    main()
