#!/usr/bin/python3
"""Row `ple` of model.front: the layer in model.h5 against numpy.quantile of the training rows, also
of levels and missing values; another network of the ensemble has none; two ranks;
derivatives of predictions against differences; what a table of waves gains.
"""
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check_same, h5py, np, test, tutti, write_json

BINS, ROWS, TRAIN = 12, 400, 300
JOB = {"data": {"file": "d.h5", "split": {"column": "split"}, "categories": {"x2": "zeros"}, "missing": {"x1": "median"}},
       "train": {"epochs": 40},
       "ensembles": [{"name": "e", "networks": [{"members": 2, "model": {"front": [f"ple {BINS}"], "hidden": [24]}},
                                                {"members": 1, "model": {"hidden": [24, 24]}}]}],
       "run": {"device": "cpu", "threads": 1}}


def write_data():
    random = np.random.default_rng(3)
    x = np.stack([random.uniform(size=ROWS), random.normal(size=ROWS), random.choice([1, 2, 5], ROWS)], 1)
    y = np.sin(20 * x[:, 0]) + 0.1 * x[:, 1] + (x[:, 2] == 2)
    x[::9, 1] = np.nan
    with h5py.File("d.h5", "w") as f:
        f["x"], f["y"] = x, y[:, None]
        f["split"] = np.repeat([0, 1, 2], [TRAIN, 50, 50]).astype("i1")


def inputs(f, x):
    """As the networks see them: two amounts, three levels."""
    x = np.where(np.isnan(x[:, :2]), f["scaler/x_fill"][:2], x[:, :2]), x[:, 2:] == [1, 2, 5]
    return np.hstack([(x[0] - f["scaler/x_mean"][:2]) / f["scaler/x_scale"][:2], x[1]])


def check_layer(f, x):
    """Each output is -1, 1, or linear between two quantiles; the first one has the whole range."""
    z, w = inputs(f, x), f["net/parameters"][:2 * 5 * (BINS + 1)].reshape(2, 5, BINS + 1)
    for k in range(5):
        edge = np.quantile(z[:TRAIN, k].astype("f4").astype(float), np.linspace(0, 1, BINS + 1))
        low, high = np.append(edge[0], edge[:-1]), np.append(edge[-1], edge[1:])
        kept = high - low > 1e-3 * np.maximum(abs(low), abs(high))
        want = np.where(kept, np.clip(2 * (z[:, k:k + 1] - low) / np.where(kept, high - low, 1) - 1, -1, 1), 0)
        got = np.clip(z[:, k:k + 1] * w[0, k] + w[1, k], -1, 1)
        assert abs(got - want).max() < 1e-3, (k, abs(got - want).max())


def check_derivatives():
    """Central differences of the mean by the first input, at rows far from the ends of its bins."""
    at = np.array([[0.31, 0.2, 2], [0.52, -1, 1], [0.77, 0.4, 5]])
    step = np.array([[1e-4, 0, 0]])
    for name, x in (("at.h5", at), ("up.h5", at + step), ("down.h5", at - step)):
        with h5py.File(name, "w") as f:
            f["x"] = x
        tutti("predict", "out/model.h5", name, "-o", f"p{name}", "-q", "--force", *["--jacobian"] * (x is at))
    mean = {n: h5py.File(f"p{n}.h5")["y_pred_mean"][:, 0] for n in ("at", "up", "down")}
    with h5py.File("pat.h5") as f:
        got = f["y_pred_mean_jacobian"][:, 0, 0]
    want = (mean["up"] - mean["down"]) / 2e-4
    assert abs(got - want).max() < 2e-2 * abs(want).max(), (got, want)


def error(front):
    job = {**JOB, "ensembles": [{"name": "e", "members": 2, "model": {"hidden": [24], "front": front}}]}
    tutti("train", "-q", write_json("one.yaml", job), "--resume", "never", "--set", "run.directory=one")
    with h5py.File("one/results.h5") as f:
        return f["ensemble_rmse"][0]


def main():
    write_data()
    tutti("train", "-q", write_json("job.yaml", JOB))
    tutti("train", "-q", "job.yaml", "--set", "run.directory=two", ranks=2)
    check_same("out", "two")
    with h5py.File("out/model.h5") as f, h5py.File("d.h5") as d:
        check_layer(f, d["x"][()])
    check_derivatives()
    with_ple, without = error([f"ple {BINS}"]), error([])
    assert with_ple < 0.6 * without, (with_ple, without)
    said = tutti("train", "-q", "job.yaml", "--set", "model.front=[conv 4 3]", "--set", "ensembles=[{name: e}]", code=78).err
    assert "model.image" in said, said


test(main)
