#!/usr/bin/python3
"""Members combined, calibrated and scored out of bag: the same on any number of ranks, and what the
files say is what follows from the predictions in them.

    validated.py TUTTI MPIRUN...

Exit status 77 without h5py and numpy.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError:
    sys.exit(77)

JOB = """\
data: {file: data.h5, split: {train: 0.5, validation: 0.25, test: 0.25, seed: 3}}
model: {hidden: [8]}
train: {epochs: 3, learning_rate: 1e-2, resample: bootstrap}
ensembles:
  - {name: wide, target: y0, members: 6, train: {loss: gaussian_nll}}
  - {name: levels, target: y0, members: 3, train: {loss: quantile}}
combine: {method: greedy}
calibration: {conformal: [0.5, 0.9]}
"""


def run(*command, folder):
    env = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run([str(c) for c in command], cwd=folder, env=env, text=True,
                          capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def make_data(folder):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 3))
    y = x[:, :1] + np.sin(2 * x[:, 1:2]) + 0.3 * rng.normal(size=(400, 1))
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = x, y
    return y[:, 0]


def same(a, b):
    """Every dataset outside /provenance has the same bytes."""
    with h5py.File(a) as f, h5py.File(b) as g:
        names = []
        f.visititems(lambda n, o: names.append(n) if isinstance(o, h5py.Dataset) else None)
        for name in (n for n in names if not n.startswith("provenance")):
            if f[name].shape and f[name][()].tobytes() != g[name][()].tobytes():
                sys.exit(f"{name} differs between {a} and {b}")
        return len(names)


def near(what, got, want):
    if not np.allclose(got, want, rtol=1e-9, atol=1e-12):
        sys.exit(f"{what}: {got} against {want}")


def check_predictions(folder, y):
    with h5py.File(folder / "pred.h5") as p, h5py.File(folder / "scores.h5") as s:
        inside = (y[:, None] >= p["y_pred_lower"][()]) & (y[:, None] <= p["y_pred_upper"][()])
        near("conformal coverage", inside.mean(axis=1), s["conformal_coverage"][()])
        error = p["y_pred_mean"][:, 0] - y
        near("rmse", np.sqrt((error**2).mean()), s["ensemble_rmse"][0])
        wide = np.abs(error) <= 1.6448536269514727 * p["y_pred_std"][:, 0]
        near("coverage", wide.mean(), s["coverage"][1, 0])
        level = p["y_pred_mean"][:, 1:6]
        tau = np.array([0.05, 0.25, 0.5, 0.75, 0.95], dtype="f4").astype("f8")
        left = y[:, None] - level
        near("pinball", np.maximum(tau * left, (tau - 1) * left).mean(axis=0),
             s["ensemble_pinball"][1:6])
    with h5py.File(folder / "one" / "results.h5") as r, h5py.File(folder / "one" / "model.h5") as m:
        shares = m["member_weight"][()]
        if not (np.all(shares == np.round(shares)) and 0 < shares[:6].sum() <= 50):
            sys.exit(f"greedy shares {shares}")
        rows = r["oob_rows"][()]
        if not np.all((0 < rows) & (rows < 200)) or not np.all(np.isfinite(r["oob_rmse"][()])):
            sys.exit(f"out of bag: {rows} rows")
        near("rows learnt from", m["calibration/rows"][()], 100)


def main(tutti, *mpirun):
    with tempfile.TemporaryDirectory(prefix="tutti-validated-") as name:
        folder = pathlib.Path(name)
        y = make_data(folder)
        (folder / "job.yaml").write_text(JOB)
        run(tutti, "train", "job.yaml", "-q", "--set", "run.directory=one", folder=folder)
        run(*mpirun, 3, tutti, "train", "job.yaml", "-q", "--set", "run.directory=three",
            folder=folder)
        same(folder / "one" / "model.h5", folder / "three" / "model.h5")
        same(folder / "one" / "results.h5", folder / "three" / "results.h5")
        run(tutti, "predict", "one/model.h5", "data.h5", "-q", folder=folder)
        run(tutti, "evaluate", "one/model.h5", "data.h5", "-q", "-o", "scores.h5", folder=folder)
        check_predictions(folder, y)
    print("shares, intervals and scores follow from the predictions, on any number of ranks")


if __name__ == "__main__":
    main(*sys.argv[1:])
