#!/usr/bin/python3
"""Does the library work in programs of other people?

    check_library.py LIBTUTTI

In a program whose locale has a decimal comma, results are those of the locale "C". The German locale
is built in a folder of its own; in both locales a process trains one job, predicts a row and provokes
errors: weights, configuration, predictions, derivatives and messages must be equal, and the locale of the
process must be what it was before. A process that no launcher has started starts no MPI and can train
often. Below a launcher training starts MPI, so that the second training is an error with the fix; the
model is the same.
"""
import ctypes
import locale
import os
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy

GERMAN = "de_DE.UTF-8"
JOB = """\
data: {file: samples.h5, split: {train: 0.7, validation: 0.2, test: 0.1}}
model: {hidden: [4]}
ensembles: [{name: a, members: 2}]
train: {epochs: 3, learning_rate: 0.013}
run: {device: cpu, threads: 1}
"""


class Wanted(ctypes.Structure):
    """struct tutti_prediction of tutti.h; `rest` are fields that are not used here."""

    _fields_ = [("size", ctypes.c_size_t), ("workspace", ctypes.c_void_p), ("mean", ctypes.c_void_p),
                ("others", ctypes.c_void_p * 3), ("mean_gradient", ctypes.c_void_p),
                ("rest", ctypes.c_void_p * 12)]


def has_comma():
    return locale.localeconv()["decimal_point"] == ","


def load(library):
    tutti = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    tutti.tutti_error.restype = ctypes.c_char_p
    return tutti


def train_twice(library, directory):
    tutti, started = load(library), ctypes.c_int()
    below_launcher = "PMI_SIZE" in os.environ
    sets = (ctypes.c_char_p * 1)(f"run.directory={directory}".encode())
    assert tutti.tutti_train(b"job.yaml", sets, 1) == 0, tutti.tutti_error()
    code = tutti.tutti_train(b"job.yaml", sets, 1)
    tutti.MPI_Initialized(ctypes.byref(started))
    assert started.value == below_launcher, started
    if below_launcher:
        assert code == 69 and b"MPI_Init before" in tutti.tutti_error(), (code, tutti.tutti_error())
    else:
        assert code == 0, tutti.tutti_error()


def use_library(library, directory):
    """Prints the prediction of a row and two error messages."""
    tutti = load(library)
    tutti.MPI_Init(None, None)  # once; tutti_train is called twice
    german = has_comma()

    def call(name, *arguments):
        code = getattr(tutti, name)(*arguments)
        assert has_comma() == german, f"{name} changed the locale of its caller"
        return code, tutti.tutti_error().decode() if code else ""

    sets = (ctypes.c_char_p * 2)(f"run.directory={directory}".encode(), b"train.l2=0.25")
    wrong = (ctypes.c_char_p * 1)(b"train.learning_rate=-1.5")
    result = call("tutti_train", b"job.yaml", sets, 2)
    assert result == (0, ""), result
    print(call("tutti_train", b"job.yaml", wrong, 1))
    model, mean = ctypes.c_void_p(), ctypes.c_double()
    result = call("tutti_open", f"{directory}/model.h5".encode(), ctypes.byref(model))
    assert result == (0, ""), result
    for row in ([0.5, -0.25], [0.5, float("inf")]):
        x = (ctypes.c_double * 2)(*row)
        slope = (ctypes.c_double * 2)()
        wanted = Wanted(size=ctypes.sizeof(Wanted), mean=ctypes.addressof(mean),
                        mean_gradient=ctypes.addressof(slope))
        print(call("tutti_predict", model, ctypes.c_int64(1), x, 1, ctypes.byref(wanted)), mean.value,
              *slope)
    bytes_of_model = pathlib.Path(f"{directory}/model.h5").read_bytes()
    again = ctypes.c_void_p()
    size = ctypes.c_int64(len(bytes_of_model))
    print(call("tutti_open_memory", bytes_of_model, size, ctypes.byref(again)))
    print(call("tutti_open_memory", b"1,5", ctypes.c_int64(3), ctypes.byref(again)))
    tutti.MPI_Finalize()


def child(*arguments, **env):
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "LOCPATH": os.getcwd(), **env})
    if done.returncode:
        sys.exit(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def contents(directory):
    """The weights and the configuration of a model."""
    got = {}
    with h5py.File(f"{directory}/model.h5") as f:
        f["net"].visititems(lambda at, d: got.update({at: d[()].tobytes()})
                            if hasattr(d, "shape") else None)
        config = f["provenance/resolved_config"][()].tobytes().decode()
        got["configuration"] = config.replace(directory, "")
    return got


def in_locale(library, name, directory):
    return {"printed": child(library, name, directory), **contents(directory)}


def check_same(one, other):
    differ = [name for name in one if one[name] != other[name]]
    for name in differ:
        print(f"{name} differs:\n{one[name]}\n{other[name]}")
    return not differ


def make_locale():
    try:
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", "./" + GERMAN], check=True,
                       capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as why:
        print(f"skipped: localedef cannot make {GERMAN} (Debian package locales): {why}")
        sys.exit(77)


def main(library):
    library = str(pathlib.Path(library).resolve())
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        x = numpy.linspace(-1, 1, 60).reshape(30, 2)
        with h5py.File("samples.h5", "w") as f:
            f["x"], f["y"] = x, x[:, :1] * x[:, 1:]
        pathlib.Path("job.yaml").write_text(JOB)
        child(library, "twice", "alone")
        child(library, "twice", "launched", PMI_SIZE="1")
        same = check_same(contents("alone"), contents("launched"))
        make_locale()
        german, plain = in_locale(library, GERMAN, "german"), in_locale(library, "C", "plain")
        assert "0.013" in plain["configuration"] and "-1.5" in plain["printed"], plain
        return not (check_same(german, plain) and same)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(main(sys.argv[1]))
    if sys.argv[2] == "twice":
        sys.exit(train_twice(sys.argv[1], sys.argv[3]))
    locale.setlocale(locale.LC_ALL, sys.argv[2])
    assert has_comma() == (sys.argv[2] == GERMAN)
    use_library(sys.argv[1], sys.argv[3])
