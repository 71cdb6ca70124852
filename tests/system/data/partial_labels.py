#!/usr/bin/python3
"""data.partial_labels: use. Weights, losses and scores of every loss where labels are missing, by an
independent computation in NumPy; complete data keep their bits; a small study of what it is good for.
"""
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from nets import layers_of
from rig import h5py, np, sets, test, tutti, write_json

ROWS, EPOCHS, RATE, FLOOR, DELTA = 90, 4, 0.05, 1e-3, 0.4
LEVELS = np.array([0.25, 0.5, 0.875])
TARGETS = {"mean": ["u", "v", "w"], "rate": ["n", "m"], "sigmoid": ["b", "c"], "softmax": ["k", "l"]}
LOSSES = {"mse": "mean", "gaussian_nll": "mean", "mae": "mean", "huber": "mean",
          "quantile": "mean", "poisson": "rate", "bce": "sigmoid", "cross_entropy": "softmax"}
NAMES = [name for group in TARGETS.values() for name in group]
JOB = {"data": {"file": "d.h5", "split": {"column": "split"}, "partial_labels": "use"},
       "model": {"hidden": [5], "activation": "tanh", "quantiles": LEVELS.tolist()},
       "train": {"optimizer": "sgd", "schedule": "constant", "learning_rate": RATE,
                 "epochs": EPOCHS, "batch_size": 1000, "variance_floor": FLOOR, "huber_delta": DELTA},
       "ensembles": [{"name": loss, "targets": TARGETS[kind], "members": 2, "train": {"loss": loss}}
                     for loss, kind in LOSSES.items()],
       "run": {"device": "cpu", "threads": 1}}


def write_data():
    """Labels of every kind, each missing with probability 0.4; the rows have weights."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, 3))
    s = x @ rng.normal(size=(3, len(NAMES))) + 0.3 * rng.normal(size=(ROWS, len(NAMES)))
    y = np.concatenate([s[:, :3], np.floor(np.exp(0.4 * s[:, 3:5])), s[:, 5:7] > 0,
                        np.digitize(s[:, 7:], [-0.7, 0.7])], 1).astype(float)
    y[rng.random(y.shape) < 0.4] = np.nan
    y[0] = np.nan
    split = np.repeat([0, 1, 2], [50, 20, 20])
    y[1, 7:] = 2  # every class has a label
    with h5py.File("d.h5", "w") as f:
        f["x"], f["y"], f["split"] = x, y, split.astype("i1")
        f["weight"], f["target_name"] = rng.uniform(0.5, 2, ROWS), NAMES
    return x, y, split


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def softplus(v):
    return np.logaddexp(0, v)


def gaussian(o, y):
    v = softplus(o[1]) + FLOOR
    z = (o[0] - y) ** 2 / v
    return (np.log(v) + z) / 2, np.stack([(o[0] - y) / v, (1 - z) / (2 * v) * sigmoid(o[1])]), v


def loss_of(kind, o, y):
    """Loss [rows][K] and its derivatives [q][rows][K] by the outputs o[q][rows][K]."""
    e = o[0] - y
    if kind == "mse":
        return e**2, 2 * e[None]
    if kind == "mae":
        return abs(e), np.sign(e)[None]
    if kind == "huber":
        cut = np.clip(e, -DELTA, DELTA)
        return cut * (e - cut / 2), cut[None]
    if kind == "gaussian_nll":
        value, d, v = gaussian(o, y)
        return value, d * v**0.5
    if kind == "poisson":
        return np.exp(o[0]) - y * o[0], (np.exp(o[0]) - y)[None]
    if kind == "bce":
        return softplus(o[0]) - y * o[0], (sigmoid(o[0]) - y)[None]
    if kind == "quantile":
        t, below = LEVELS[:, None, None], y - o
        slope = np.where(below < 0, t - 1, t)
        return (slope * below).mean(0), -slope / 3
    p = np.exp(o - o.max(0))
    p /= p.sum(0)
    is_right = np.arange(3)[:, None, None] == y
    return -np.log((p * is_right).sum(0)), p - is_right


def masked(kind, o, y, weight):
    """Loss of the rows with a label, and dL/do [q][rows][K]: unknown labels count for nothing."""
    known = ~np.isnan(y)
    value, d = loss_of(kind, o, np.where(known, y, 0))
    rows = known.any(1)
    share = weight[:, None] / rows.sum() / y.shape[1]
    return (np.where(known, value, 0) * share).sum(), np.where(known, d, 0) * share


def follow(kind, x, y, weight, net):
    """EPOCHS steps of gradient descent of one member with all rows in one batch."""
    history = []
    for _ in range(EPOCHS):
        (w0, b0), (w1, b1) = net
        h = np.tanh(x @ w0.T + b0)
        o = (h @ w1.T + b1).reshape(len(x), -1, y.shape[1]).transpose(1, 0, 2)
        loss, d = masked(kind, o, y, weight)
        history.append(loss)
        d = d.transpose(1, 0, 2).reshape(len(x), -1)
        back = (d @ w1) * (1 - h**2)
        net = [(w0 - RATE * back.T @ x, b0 - RATE * back.sum(0)),
               (w1 - RATE * d.T @ h, b1 - RATE * d.sum(0))]
    return net, history


def read_nets(path):
    with h5py.File(path) as f:
        return [[[(w[m].astype(float), b[m].astype(float)) for w, b in layers_of(f, c)]
                 for m in range(2)] for c in range(len(LOSSES))]


def check_training(x, y, split):
    train = ["train", write_json("job.json", JOB), "--set", "data.weights=weight"]
    tutti(*train, *sets("run.directory=start", "train.learning_rate=0"))
    said = tutti(*train)
    labels = ", ".join(f"{t} {np.isfinite(y[split == 0, k]).sum()}" for k, t in enumerate("uvw"))
    rows = np.isfinite(y[split == 0, :3]).any(1).sum()
    assert f"ensemble mse: {rows} training rows with labels: {labels}" in said, said
    with h5py.File("out/model.h5") as f, h5py.File("d.h5") as d:
        x = (x - f["scaler/x_mean"][()]) / f["scaler/x_scale"][()]
        y = (y - f["scaler/y_mean"][()]) / f["scaler/y_scale"][()]
        weight = d["weight"][()] / d["weight"][()][split == 0].mean()
    begin, end = read_nets("start/model.h5"), read_nets("out/model.h5")
    with h5py.File("out/results.h5") as f:
        train, validation = f["loss_train"][()], f["loss_validation"][()]
        test_rows = f["test_rows"][()]
    at = 0
    for c, (loss, kind) in enumerate(LOSSES.items()):
        columns = [NAMES.index(t) for t in TARGETS[kind]]
        part = [(x[split == s], y[split == s][:, columns], weight[split == s]) for s in range(3)]
        for m in range(2):
            net, history = follow(loss, *part[0], begin[c][m])
            for got, want in zip(end[c][m], net):
                for g, w in zip(got, want):
                    assert np.allclose(g, w, rtol=1e-5, atol=1e-5), (loss, m, abs(g - w).max())
            assert np.allclose(train[2 * c + m], history, rtol=1e-5), (loss, train[2 * c + m], history)
            (w0, b0), (w1, b1) = net
            o = np.tanh(part[1][0] @ w0.T + b0) @ w1.T + b1
            o = o.reshape(len(o), -1, len(columns)).transpose(1, 0, 2)
            want = masked(loss, o, *part[1][1:])[0]
            assert abs(validation[2 * c + m, -1] - want) < 1e-5 * (1 + abs(want)), (loss, want)
        width = {"quantile": 3, "cross_entropy": 4}.get(loss, 1)
        counts = np.repeat(np.isfinite(part[2][1]).sum(0), width)
        assert (test_rows[at:at + len(counts)] == counts).all(), (loss, test_rows, counts)
        at += len(counts)


def weights(path):
    with h5py.File(path) as f:
        return f["net/parameters"][()]


def check_bits(x, y):
    """Complete data: the same bits with and without the option."""
    with h5py.File("whole.h5", "w") as f:
        f["x"], f["y"] = x, np.nan_to_num(y[:, :3])
    job = {"data": {"file": "whole.h5"}, "model": {"hidden": [8]}, "run": JOB["run"],
           "train": {"loss": "gaussian_nll", "epochs": 5}, "ensembles": [{"name": "e", "members": 2}]}
    write_json("whole.json", job)
    for how in "drop", "use":
        tutti("train", "whole.json", *sets(f"data.partial_labels={how}", f"run.directory={how}"))
    for a, b in zip(weights("drop/model.h5"), weights("use/model.h5")):
        assert (a == b).all()


def check_worth():
    """Three targets, half of the labels missing at random: RMSE against dropping the rows."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(640, 4))
    h = np.tanh(x @ rng.normal(size=(4, 3)))
    y = h @ rng.normal(size=(3, 3)) + 0.05 * rng.normal(size=(640, 3))
    truth = y[400:].copy()
    y[:400][rng.random((400, 3)) < 0.5] = np.nan
    with h5py.File("half.h5", "w") as f:
        f["x"], f["y"] = x, y
        f["split"] = np.repeat([0, 1, 2], [340, 60, 240]).astype("i1")
    job = {"data": {"file": "half.h5", "split": {"column": "split"}}, "model": {"hidden": [24]},
           "train": {"epochs": 150, "patience": 30, "learning_rate": 0.01,
                     "schedule": "constant"},
           "ensembles": [{"name": "e", "members": 3}], "run": JOB["run"]}
    write_json("half.json", job)
    rmse = {}
    for how, *options in (["drop"], ["use"], ["use", "combine.method=greedy"],
                          ["use", "calibration.conformal=[0.8]"]):
        out = f"half{len(rmse)}"
        said = tutti("train", "half.json", *sets(f"run.directory={out}", f"data.partial_labels={how}", *options))
        assert ("are left out: e (" in said) == (how == "drop"), said
        with h5py.File(f"{out}/results.h5") as f:
            error = f["y_pred_mean"][()] - truth
            if "calibration.conformal=[0.8]" in options:
                inside = f["conformal_coverage"][()]
                assert (abs(inside - 0.8) < 0.12).all(), inside
        rmse[" ".join([how, *options])] = np.sqrt((error**2).mean())
    print(rmse)
    assert all(rmse[how] <= 0.8 * rmse["drop"] for how in rmse if how != "drop"), rmse


def main():
    x, y, split = write_data()
    check_training(x, y, split)
    check_bits(x, y)
    check_worth()


test(main)
