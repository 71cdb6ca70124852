"""wheel_user.py TABLE — what a newcomer does: train on a table, predict, draw a report, export, by the
command tutti (or $TUTTI) and from Python; in the current folder. Prints scores to the bit."""
import os
import subprocess
import sys
import time

begin = time.monotonic()
import tutti  # noqa: E402
imported = time.monotonic() - begin
import h5py  # noqa: E402
import numpy as np  # noqa: E402

TARGETS = ["heating_load", "cooling_load"]


def command(*words):
    begin = time.monotonic()
    subprocess.run([os.environ.get("TUTTI", "tutti"), *words], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def main(table):
    seconds = {"import": imported}
    seconds["version"] = min(command("--version") for _ in range(5))
    command("train", table, "--targets", ",".join(TARGETS), "-q", "-o", "run")
    command("predict", "run/model.h5", table, "-o", "predicted.csv")
    command("report", "run")
    command("export", "run/model.h5", "--onnx", "-o", "model.onnx")
    with h5py.File("run/results.h5") as f:
        print("table", *(v.hex() for v in f["ensemble_rmse"][()].ravel()))

    rows = np.genfromtxt(table, delimiter=",", names=True)
    y = np.stack([rows[t] for t in TARGETS], axis=1)
    X = np.stack([rows[n] for n in rows.dtype.names if n not in TARGETS], axis=1)
    ensemble = tutti.Ensemble(hidden=[32], members=10, epochs=20, seed=3, quiet=True).fit(X, y)
    print("python", *(float(v).hex() for v in ensemble.predict(X[:2]).std.ravel()))
    smallest = []
    for _ in range(5):
        begin = time.monotonic()
        tutti.Ensemble(members=1, hidden=[4], epochs=1, quiet=True).fit(X[::13], y[::13])
        smallest.append(time.monotonic() - begin)
    seconds["smallest_fit"] = min(smallest)
    for file in ("predicted.csv", "run/report.html", "model.onnx"):
        assert os.path.getsize(file) > 1000, file
    print({name: round(value, 3) for name, value in seconds.items()}, file=sys.stderr)


main(os.path.abspath(sys.argv[1]))
