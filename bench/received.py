#!/usr/bin/python3
"""Bytes that MPI gives to the ranks of a training, counted by tests/mpi/ranks/received.c.

  received.py [--tutti build/tutti] [--ranks 2,16,64,128] [--members 64] [--hidden 64]

Trains one epoch on one machine, and prints a line for each number of ranks.
"""
import argparse
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def write_job(folder, args):
    import h5py
    import numpy as np
    draw = np.random.default_rng(1)
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = draw.random((2000, 8), "f4"), draw.random((2000, 1), "f4")
    (folder / "job.yaml").write_text(
        f"data: {{file: data.h5}}\nmodel: {{hidden: [{args.hidden}, {args.hidden}]}}\n"
        f"ensembles: [{{name: only, members: {args.members}}}]\ntrain: {{epochs: 1}}\n"
        "run: {device: cpu, threads: 1, directory: out}\n")


def count(args, folder, ranks):
    log = folder / f"log-{ranks}"
    env = {**os.environ, "LD_PRELOAD": str(folder / "received.so"), "RECEIVED_LOG": str(log),
           "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1",
           "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    subprocess.run(["mpirun", "--oversubscribe", "-n", str(ranks), os.path.abspath(args.tutti), "train",
                    "job.yaml", "-q", "--set", f"run.directory=out-{ranks}"],
                   cwd=folder, env=env, check=True, capture_output=True)
    lines = sorted(tuple(map(int, line.split())) for line in log.read_text().splitlines())
    return lines[0], max(lines[1:], key=lambda line: line[2])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--tutti", default="build/tutti")
    p.add_argument("--ranks", default="2,16,64,128")
    p.add_argument("--members", type=int, default=64)
    p.add_argument("--hidden", type=int, default=64)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_job(folder, args)
        subprocess.run(["mpicc", "-shared", "-fPIC", "-O1", f"-I{HERE.parent}", "-o",
                        folder / "received.so", HERE.parent / "tests/mpi/ranks/received.c"], check=True)
        print("ranks\tbytes of rank 0\tmost bytes of another rank\tcalls of rank 0")
        for ranks in map(int, args.ranks.split(",")):
            root, other = count(args, folder, ranks)
            print(ranks, root[2], other[2], root[1], sep="\t", flush=True)


if __name__ == "__main__":
    main()
