#!/usr/bin/python3
"""A sweep of 64 learning rates in one job equals 64 jobs of one member, bit by bit.

    sweep.py TUTTI LIBTUTTI MPIRUN...

One job draws 64 learning rates for the members of an ensemble, on 1 and on 2 ranks. Then each of 64
jobs with one member gets one of the drawn values. Weights must be bit-identical.
"""
import ctypes
import pathlib
import subprocess
import sys
import tempfile

MEMBERS = 64
JOB = """\
data: {file: samples.h5}
model: {hidden: [4]}
train: {epochs: 3, batch_size: 16, optimizer: adamw}
run: {device: cpu, threads: 1, directory: out}
ensembles:
- {name: a, target: y0, rows: chosen, members: 64%s}
"""
SWEEP = """, sweep: {learning_rate: {log_uniform: [1e-4, 1e-1]},
   weight_decay: {choice: [0, 0.01, 0.1]}, batch_order: {list: [%s]}}"""


def fail(message):
    sys.exit(f"sweep: {message}")


def train_each(library, jobs):
    """In a separate process: MPI starts once, then one job after another."""
    tutti = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    tutti.tutti_error.restype = ctypes.c_char_p
    tutti.MPI_Init(None, None)
    for job in jobs:
        file, *sets = job.encode().split(b" ")
        texts = (ctypes.c_char_p * len(sets))(*sets)
        if tutti.tutti_train(file, texts, len(sets)):
            fail(tutti.tutti_error().decode())
    tutti.MPI_Finalize()


def make_samples(file):
    import h5py
    import numpy

    draw = numpy.random.default_rng(1)
    x = draw.normal(size=(120, 3)).astype("f4")
    with h5py.File(file, "w") as f:
        f["x"] = x
        f["y"] = numpy.stack([numpy.sin(x[:, 0]) + x[:, 1], x[:, 2] ** 2], axis=1)
        f["chosen"] = x[:, 2] > -1.0  # a mask of type bool of h5py


def values_of(directory):
    """{name: [members][...]} of all weights, and the swept options."""
    import h5py

    got = {}
    with h5py.File(directory / "model.h5") as f:
        got["parameters"] = f["net/parameters"][()].reshape(f["member_index"].size, -1)
    with h5py.File(directory / "results.h5") as f:
        swept = {name: f[name][()] for name in ("learning_rate", "weight_decay", "batch_order")}
    return got, swept


def run(work, *command):
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=120)
    if done.returncode:
        fail(f"{' '.join(map(str, command[:4]))}: {done.returncode}\n{done.stdout}{done.stderr}")


def same(what, got, wanted, member, of):
    for name, value in wanted.items():
        if got[name][member].tobytes() != value[of].tobytes():
            fail(f"{what}: {name} of member {of} differs:\n{got[name][member]}\n{value[of]}")


def main(tutti, library, mpirun):
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        make_samples(work / "samples.h5")
        words = ", ".join("own" if m % 3 else "shared" for m in range(MEMBERS))
        (work / "sweep.yaml").write_text(JOB % (SWEEP % words))
        (work / "one.yaml").write_text(JOB % "")
        run(work, tutti, "train", "sweep.yaml")
        run(work, *mpirun, "2", tutti, "train", "sweep.yaml", "--set", "run.directory=two_ranks")
        weights, swept = values_of(work / "out")
        if len(set(swept["learning_rate"].tolist())) < MEMBERS:
            fail(f"equal learning rates: {swept['learning_rate']}")
        two_ranks = values_of(work / "two_ranks")[0]
        for m in range(MEMBERS):
            same("on two ranks", two_ranks, weights, m, m)
        jobs = [f"one.yaml run.directory=m{m} ensembles.a.first_member={m} ensembles.a.members=1 "
                f"train.learning_rate={swept['learning_rate'][m]:.9g} "
                f"train.weight_decay={swept['weight_decay'][m]:.9g} "
                f"train.batch_order={'shared' if swept['batch_order'][m] else 'own'}"
                for m in range(MEMBERS)]
        run(work, sys.executable, pathlib.Path(__file__).resolve(), "--each", library, *jobs)
        for m in range(MEMBERS):
            same("alone", values_of(work / f"m{m}")[0], weights, 0, m)


if sys.argv[1] == "--each":
    train_each(sys.argv[2], sys.argv[3:])
else:
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
