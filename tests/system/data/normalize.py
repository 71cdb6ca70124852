#!/usr/bin/python3
"""data.normalize by column: what is stored, predicted and scored, by an independent computation in
NumPy; the library has the bits of the program; what cannot be done is refused.
"""
import math
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from content_hash import seal
from nets import layers_of
from rig import h5py, np, package, test, tutti, write_json

HOW = {"a": "log", "b": "robust", "c": "yeo_johnson", "d": "minmax", "e*": "log1p", "u": "log",
       "v": "yeo_johnson", "w": "standard"}
JOB = {"data": {"file": "d.h5", "normalize": HOW, "split": {"column": "split"}},
       "model": {"hidden": [6]},
       "train": {"loss": "gaussian_nll", "nll_beta": 0, "epochs": 8, "learning_rate": 0.02,
                 "schedule": "constant", "batch_size": 32},
       "calibration": {"recalibrate": "all", "conformal": [0.8]},
       "ensembles": [{"name": "n", "members": 3, "targets": ["w", "u", "v"]}],
       "run": {"device": "cpu", "threads": 1}}
STD = ["y_pred_mean", "y_pred_std", "y_pred_std_aleatoric", "y_pred_std_epistemic"]
erf = np.vectorize(math.erf)


def write_data():
    rng = np.random.default_rng(11)
    z = rng.normal(size=(300, 5))
    x = np.stack([np.exp(3 * z[:, 0]), 1e4 + z[:, 1] ** 3, np.sinh(2 * z[:, 2]), z[:, 3] + 7,
                  np.expm1(abs(z[:, 4]))], 1)
    y = np.stack([np.exp(z[:, 0] + 0.3 * z[:, 4]), np.sinh(z[:, 2]) + 0.1, z[:, 1] * 50], 1)
    y[5, 0] = np.nan
    with h5py.File("d.h5", "w") as f:
        f["x"], f["y"] = x, y
        f["split"] = np.repeat([0, 1, 2], [160, 60, 80]).astype("i1")
        f["feature_name"], f["target_name"] = list("abcd") + ["e1"], list("uvw")
    with h5py.File("test.h5", "w") as f:
        f["x"], f["y"] = x[220:], y[220:]
        f["feature_name"], f["target_name"] = list("abcd") + ["e1"], list("uvw")
    return x, y


def yeo_johnson(v, p):
    with np.errstate(all="ignore"):
        return np.where(v >= 0, ((1 + v) ** p - 1) / p, -((1 - v) ** (2 - p) - 1) / (2 - p))


def forward(kind, v, p):
    return {"log": np.log, "log1p": np.log1p, "yeo_johnson": lambda v: yeo_johnson(v, p)}.get(
        kind, lambda v: v)(v)


def inverse(kind, t, p):
    with np.errstate(all="ignore"):
        johnson = np.where(t >= 0, (1 + p * t) ** (1 / p) - 1, 1 - (1 - (2 - p) * t) ** (1 / (2 - p)))
    return {"log": np.exp(t), "log1p": np.expm1(t), "yeo_johnson": johnson}.get(kind, t)


def slope(kind, v, p):
    """Of the forward function, by differences."""
    step = 1e-6 * np.maximum(abs(v), 1e-2)
    return (forward(kind, v + step, p) - forward(kind, v - step, p)) / (2 * step)


def likelihood(v, p):
    t = yeo_johnson(v, p)
    return -len(v) / 2 * np.log(t.var()) + (p - 1) * (np.sign(v) * np.log1p(abs(v))).sum()


def texts(dataset):
    raw = dataset[()]
    return [bytes(r).decode().rstrip("\0") for r in raw.view(f"S{raw.shape[1]}")[:, 0]]


def check_scaler(f, side, columns, wanted):
    """Offsets and scales of the training rows."""
    assert texts(f[f"scaler/{side}_normalize"]) == wanted
    for k, (v, kind) in enumerate(zip(columns.T, wanted)):
        v = v[np.isfinite(v)]
        p = f[f"scaler/{side}_lambda"][k]
        t = forward(kind, v, p)
        q = np.quantile(t, [0.25, 0.5, 0.75])
        offset, scale = {"robust": (q[1], q[2] - q[0]), "minmax": (t.min(), np.ptp(t))}.get(
            kind, (t.mean(), t.std()))
        got = f[f"scaler/{side}_mean"][k], f[f"scaler/{side}_scale"][k]
        assert np.allclose(got, (offset, scale), rtol=1e-9), (side, k, kind, got, offset, scale)
        if kind == "yeo_johnson":
            best = max(likelihood(v, p + d) for d in (-1e-3, 1e-3) if 0 <= p + d <= 2)
            assert 0 <= p <= 2 and likelihood(v, p) >= best, (p, best)


def network(f, x):
    """Normalized means and variances (member, row, target) in double."""
    kinds, lam = texts(f["scaler/x_normalize"]), f["scaler/x_lambda"]
    t = np.stack([forward(k, v, p) for k, v, p in zip(kinds, x.T, lam)], 1)
    h = (t - f["scaler/x_mean"][()]) / f["scaler/x_scale"][()]
    h = np.broadcast_to(h, (3, *h.shape))
    for layer in range(2):
        w, b = (part.astype(float) for part in layers_of(f)[layer])
        h = h @ w.swapaxes(1, 2) + b[:, None]
        h = h / (1 + np.exp(-h)) if layer == 0 else h
    return h[..., :3], np.logaddexp(0, h[..., 3:]) + f["net/variance_floor"][0]


def mixtures(f, x):
    """For each predicted target: kind, lambda, slope of the scale, and the recalibrated Gaussians of
    the transformed target."""
    mu, v = network(f, x)
    for k, target in enumerate(f["ensemble_column"][0]):
        kind = texts(f["scaler/y_normalize"])[target]
        offset, scale = f["scaler/y_mean"][target], f["scaler/y_scale"][target]
        s, p = f["calibration/std_scale"][k], f["scaler/y_lambda"][target]
        m, var = mu[..., k] * scale + offset, v[..., k] * scale ** 2
        near = min(s, 1)  # a factor above 1 makes members wider, not their means more distant
        yield (k, target, kind, p, s, m, var, m.mean(0) + near * (m - m.mean(0)),
               s * s * var + (s * s - near * near) * m.var(0))


def user_moments(kind, p, m, v):
    """Mean and variance of the inverse, by 1001 points of the density."""
    z = np.linspace(-9, 9, 1001)
    w = np.exp(-z * z / 2)
    value = inverse(kind, m[..., None] + np.sqrt(v)[..., None] * z, p)
    mean = (value * w).sum(-1) / w.sum()
    return mean, ((value - mean[..., None]) ** 2 * w).sum(-1) / w.sum()


def same(what, got, want, precision=2e-4):
    error = (abs(got - want) / (abs(want) + 0.01 * abs(want).max())).max()
    assert error < precision, f"{what}: {error}"


def parts_of(kind, p, s, v, centered, scaled):
    """Mean and total, aleatoric and epistemic standard deviation of a target."""
    mean, var = user_moments(kind, p, centered, scaled)
    own = user_moments(kind, p, centered, s * s * v)[1].mean(0)
    total = var.mean(0) + mean.var(0)
    return [mean.mean(0), *np.sqrt([total, own, total - own])]


def check_predictions(f, pred, x):
    for k, _, kind, p, s, m, v, centered, scaled in mixtures(f, x):
        for name, want in zip(STD, parts_of(kind, p, s, v, centered, scaled)):
            same(f"{kind} {name}", pred[name][:, k], want)
        own = user_moments(kind, p, m, v)
        same(f"{kind} members", pred["y_member_mean"][..., k], own[0])
        same(f"{kind} members' variances", pred["y_member_variance"][..., k], own[1], 1e-3)
        for i, q in enumerate((0.05, 0.5, 0.9)):
            t = forward(kind, pred["y_pred_quantile"][i][:, k], p)
            cdf = (0.5 * (1 + erf((t - centered) / np.sqrt(2 * scaled)))).mean(0)
            same(f"{kind} quantile {q}", cdf, np.full(len(x), q), 1e-4)


def check_offset(pred):
    """A target far from 0 has the spread of the same target near 0."""
    with h5py.File("out/model.h5") as f, h5py.File("far-model.h5", "w") as g:
        for name in f:
            f.copy(name, g)
        g.attrs.update(f.attrs)
        g["scaler/y_mean"][2] += 1e7
        seal(g)
    tutti("predict", "far-model.h5", "test.h5", "-q", "--members", "-o", "far-members.h5")
    with h5py.File("far-members.h5") as f:
        far, mean = f["y_member_mean"][..., 0], f["y_pred_mean"][:, 0]
    assert abs(far - 1e7 - pred["y_member_mean"][..., 0]).max() < 1e-7, "members of a target far from 0"
    assert abs(far.mean(0) - mean).max() < 1e-7, "their mean is that of the ensemble"


def differences(f, x, d):
    """Steps of input d, and the mixtures at both ends, target by target."""
    step = np.zeros(x.shape)
    step[:, d] = 1e-5 * np.maximum(abs(x[:, d]), 1e-3) * (1e-2 if d == 1 else 1)
    return step, zip(mixtures(f, x + step), mixtures(f, x - step))


def check_jacobian(f, pred, x):
    """Against central differences in double."""
    for d in range(x.shape[1]):
        step, ends = differences(f, x, d)
        for high, low in ends:
            ends_of = [parts_of(kind, p, s, *gaussians) for _, _, kind, p, s, _, *gaussians in (high, low)]
            for name, above, below in zip(STD, *ends_of):
                want = (above - below) / (2 * step[:, d])
                same(f"{high[2]} {name} by input {d}", pred[name + "_jacobian"][:, high[0], d], want,
                     2e-2 if high[2] == "yeo_johnson" else 5e-4)


def check_scores(f, scores, x, y):
    for k, target, kind, p, _, m, v, centered, scaled in mixtures(f, x):
        label = y[:, target]
        t, jacobian = forward(kind, label, p), np.log(slope(kind, label, p))
        nll = lambda m, v: 0.5 * (np.log(2 * np.pi * v) + (t - m) ** 2 / v)
        mixture = -np.log(np.exp(-nll(centered, scaled)).mean(0)) - jacobian
        same(f"{kind} mixture_nll", scores["ensemble_mixture_nll"][k], mixture.mean())
        total = centered.var(0) + scaled.mean(0)
        same(f"{kind} nll", scores["ensemble_nll"][k], (nll(centered.mean(0), total) - jacobian).mean())
        same(f"{kind} members' nll", scores["test_nll"][:, target], (nll(m, v) - jacobian).mean(1))
        mean = user_moments(kind, p, centered, scaled)[0].mean(0)
        same(f"{kind} rmse", scores["ensemble_rmse"][k], np.sqrt(((mean - label) ** 2).mean()))


def check_intervals(pred, y):
    order = [2, 0, 1]
    inside = (pred["y_pred_lower"][0] <= y[:, order]) & (y[:, order] <= pred["y_pred_upper"][0])
    assert (inside.mean(0) > 0.6).all() and (pred["y_pred_lower"][0][:, 1] > 0).all(), inside.mean(0)


def check_library(pred, x):
    model = package().Model("out/model.h5")
    for rows in (len(x), 1):
        got = model.predict(x[:rows], gradient=True)
        for name, wanted in zip(("mean", "std", "aleatoric", "epistemic"), STD):
            assert (np.asarray(got[name]).reshape(rows, -1) == pred[wanted][:rows]).all(), name
            assert (got[name + "_gradient"] == pred[wanted + "_jacobian"][:rows]).all(), name


def check_missing(x, y):
    """data.missing: learned from the training rows, the same as filled data; in CSV files, HDF5
    files and the library."""
    rng = np.random.default_rng(2)
    with_gaps = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    with_gaps[:, 3] = x[:, 3]
    fills = [np.nanmedian(with_gaps[:160, 0])] + [np.nanmean(with_gaps[:160, k]) for k in (1, 2)]
    filled = with_gaps.copy()
    for k, value in enumerate(fills + [0, np.nanmean(with_gaps[:160, 4])]):
        filled[np.isnan(filled[:, k]), k] = value
    text = lambda v: "" if np.isnan(v) else repr(float(v))
    split = np.repeat([0, 1, 2], [160, 60, 80])
    for name, table in ("gaps", with_gaps), ("filled", filled):
        rows = [",".join([*map(text, row), text(label[2]), str(part)])
                for row, label, part in zip(table, y, split)]
        pathlib.Path(f"{name}.csv").write_text("\n".join(["a,b,c,d,e1,w,split", *rows]) + "\n")
    job = dict(JOB, ensembles=[{"name": "n", "members": 2, "target": "w"}], calibration={})
    job["data"] = {"file": "gaps.csv", "normalize": "minmax", "split": {"column": "split"},
                   "missing": {"a": "median", "[bce]*": "mean"}}
    write_json("gaps.json", job)
    tutti("train", "-q", "gaps.json", "--set", "run.directory=gaps")
    with h5py.File("gaps/model.h5") as f:
        fill = f["scaler/x_fill"][()]
        assert np.allclose(fill[[0, 1, 2]], fills, rtol=1e-12) and np.isnan(fill[3]), (fill, fills)
    tutti("train", "-q", "gaps.json", "--set", "run.directory=full", "--set",
        "data.file=filled.csv", "--set", "data.missing=error")
    with h5py.File("gaps.h5", "w") as f:
        f["x"], f["feature_name"] = with_gaps, list("abcd") + ["e1"]
    found = []
    for model, data in (("gaps", "gaps.csv"), ("gaps", "filled.csv"), ("full", "filled.csv"),
                        ("gaps", "gaps.h5")):
        tutti("predict", f"{model}/model.h5", data, "-q", "--force", "-o", "m.h5")
        with h5py.File("m.h5") as f:
            found.append(f["y_pred_mean"][()])
    assert np.allclose(found[0], found[1], rtol=1e-5) and np.allclose(found[0], found[2], rtol=1e-3)
    assert (found[0] == found[3]).all()
    if package():
        got = package().Model("gaps/model.h5").predict(with_gaps)["mean"]
        assert (np.asarray(got).reshape(found[0].shape) == found[0]).all()
    refused(65, "gaps.csv:", "predict", "full/model.h5", "gaps.csv", "-o", "x.h5")
    refused(65, "gaps.csv:3: column 'c': nan; every input must be", "train", "gaps.json",
            "--set", "run.directory=x", "--set", "data.missing={b: mean}")


def refused(code, text, *words):
    error = tutti(*words, code=code)
    assert text in error, f"{words}: {error}"


def check_extrapolation(f, pred, x, train):
    """Distances beyond the range of the training rows, and the warning."""
    def normalized(v):
        kinds, lam = texts(f["scaler/x_normalize"]), f["scaler/x_lambda"]
        t = np.stack([forward(k, c, p) for k, c, p in zip(kinds, v.T, lam)], 1)
        return (t - f["scaler/x_mean"][()]) / f["scaler/x_scale"][()]
    low, high = normalized(train).min(0), normalized(train).max(0)
    beyond = lambda v: np.maximum(0, np.maximum(low - normalized(v), normalized(v) - high)) / (high - low)
    want = beyond(x).max(1)
    assert np.allclose(pred["extrapolation"], want, atol=1e-5) and 0 < (want > 0).sum() < len(x)
    far = x[:3].copy()
    far[1, 3] = train[:, 3].max() + 2 * np.ptp(train[:, 3])
    with h5py.File("far.h5", "w") as g:
        g["x"], g["feature_name"] = far, list("abcd") + ["e1"]
    said = tutti("predict", "out/model.h5", "far.h5", "-o", "far-pred.h5")
    outside = (beyond(far).max(1) > 0).sum()
    assert f"rows outside the training inputs: {outside} of 3" in said, said
    assert "farthest 'd' in row 1, by 2 of its range" in said, said


def check_refusals(x, y):
    with h5py.File("bad.h5", "w") as f:
        bad, labels = x[220:].copy(), y[220:].copy()
        bad[3, 0] = -2
        labels[4, 0] = 0
        f["bad"], f["x"], f["y"] = bad, x[220:], labels
        f["feature_name"], f["target_name"] = list("abcd") + ["e1"], list("uvw")
    refused(65, "row 3, column 0 (a) is -2; the model normalizes it by log, which needs a value "
            "above 0", "predict", "out/model.h5", "bad.h5", "--inputs", "bad", "-o", "b.h5")
    refused(65, "target 'u' is 0 in row 4; the model normalizes it by log", "evaluate",
            "out/model.h5", "bad.h5")
    train = ["train", "job.json", "--set", "run.directory=other", "--set"]
    for how, code, text in (
            ("{b: log, d: log1p, v: log}", 65, "column 1 ('v'): "),
            ("{aa: log}", 65, "data.normalize: there is no column 'aa'; did you mean 'a'?"),
            ("{a: lag}", 78, "data.normalize: column 'a': 'lag' is not one of none, standard, minmax"),
            ("{a: [log]}", 78, "data.normalize: column 'a': expected a name, found a list")):
        refused(code, text, *train, f"data.normalize={how}")
    counts = ["--set", "train.loss=poisson", "--set", "calibration.recalibrate=none", "--set",
              "calibration.conformal=[]"]
    refused(78, "'u' is log1p, but ensemble n uses it as a label, unchanged; write 'u': none",
            *train, "data.normalize={u: log1p}", *counts)
    refused(78, "'u' is standard, but ensemble n uses it as a label, unchanged; write 'u': none",
            *train, "data.normalize={'[u-w]': standard}", *counts)
    error = tutti("train", "job.json", "--set", "data.normalize=standard", "--set",
                "train.epochs=9", code=65)
    assert "data.normalize is {\"a\": log" in error and "there and standard here" in error, error


def main():
    x, y = write_data()
    write_json("job.json", JOB)
    tutti("train", "-q", "job.json")
    with h5py.File("out/model.h5", "r+") as f:
        f["calibration/std_scale"][...] *= [2, 1, 1.3]  # factors on both sides of 1
        seal(f)
    tutti("predict", "out/model.h5", "test.h5", "-q", "--members", "--quantiles", "0.05,0.5,0.9",
        "--jacobian")
    tutti("evaluate", "out/model.h5", "test.h5", "-q", "-o", "scores.h5")
    read = lambda name: {n: d[()] for n, d in h5py.File(name).items() if isinstance(d, h5py.Dataset)}
    pred, scores = read("pred.h5"), read("scores.h5")
    with h5py.File("out/model.h5") as f:
        check_scaler(f, "x", x[:160], ["log", "robust", "yeo_johnson", "minmax", "log1p"])
        check_scaler(f, "y", y[:160], ["log", "yeo_johnson", "standard"])
        check_predictions(f, pred, x[220:])
        check_jacobian(f, pred, x[220:])
        check_scores(f, scores, x[220:], y[220:])
        check_extrapolation(f, pred, x[220:], x[:160])
    check_intervals(pred, y[220:])
    check_offset(pred)
    if package():
        check_library(pred, x[220:])
    check_refusals(x, y)
    check_missing(x, y)


test(main)
