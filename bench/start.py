#!/usr/bin/python3
"""Wall time of small commands, several programs in turn: what starts cost.

  start.py [--runs 20] TUTTI [TUTTI ...]

Prints a line for each command and program: the median and the smallest of the runs, in seconds.
`fit` is one call of the Python package in a process that has imported it.
"""
import argparse
import os
import pathlib
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


def write_job(folder):
    import numpy as np
    draw = np.random.default_rng(1)
    x = draw.normal(size=(60, 4))
    np.savetxt(folder / "data.csv", np.column_stack([x, x.sum(1)]), fmt="%.5f", delimiter=",",
               header="a,b,c,d,y", comments="")
    (folder / "job.yaml").write_text(JOB)
    return x, x.sum(1)


def seconds_of(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


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
        for folder in folders.values():
            folder.mkdir()
            x, y = write_job(folder)

        def run(program, words):
            subprocess.run([os.path.abspath(program), *words], cwd=folders[program], check=True,
                           capture_output=True)
        print("command\tprogram\tmedian\tsmallest")
        for command in [*COMMANDS, "fit"]:
            taken = {program: [] for program in args.tutti}
            for _ in range(args.runs):
                for program, times in taken.items():
                    times.append(seconds_of(lambda: fit(os.path.abspath(program), x, y) if command == "fit"
                                            else run(program, COMMANDS[command])))
            for program, times in taken.items():
                print(command, program, f"{statistics.median(times):.3f}", f"{min(times):.3f}", sep="\t",
                      flush=True)


if __name__ == "__main__":
    main()
