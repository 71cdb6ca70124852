#!/usr/bin/python3
"""bench/peers/cublas_graph computes the losses of reference.py, and refuses to be timed otherwise.

    cublas_graph.py BENCH_ENGINE REFERENCE CUBLAS_GRAPH

The program runs on the test double, on two members of workloads A and E: two hidden layers, one
hidden layer. Control: one loss of the reference is changed by a thousandth.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
WRONG = 65
BENCH, REFERENCE, PEER = sys.argv[1:]


def peer(folder):
    done = subprocess.run([PEER, "--check", folder], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as place:
        for workload in ("A", "E"):
            folder = pathlib.Path(place) / workload
            for command in ([BENCH, "--workload", workload, "--members", "2", "--export", folder],
                            [sys.executable, "-B", REFERENCE, folder]):
                subprocess.run(command, check=True)
            code, said = peer(folder)
            assert code == 0 and json.loads(said)["check_difference"] < 1e-5, (workload, said)
            print(said, end="")
            losses = np.fromfile(folder / "reference.f8")
            losses[7] *= 1.001
            losses.tofile(folder / "reference.f8")
            code, said = peer(folder)
            assert code == WRONG and "wrong results, not timed" in said, (workload, said)


main()
