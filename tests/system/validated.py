#!/usr/bin/python3
"""Combining, calibration and out-of-bag scores: the same on any number of ranks, and the values in
the files follow from the predictions in them. Sample weights count in every score, and quantiles
are those of the predicted mixture, or refused where there is none.
"""
import math
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check_same, h5py, np, test, tutti

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
WEIGHTED = """\
data: {file: data.h5, weights: w, split: {train: 0.5, validation: 0.25, test: 0.25, seed: 3}}
model: {hidden: [8]}
train: {epochs: 3, learning_rate: 1e-2, resample: bootstrap}
ensembles:
  - {name: points, target: y0, members: 3, train: {loss: mse}}
  - {name: classes, target: y1, members: 2, train: {loss: bce}}
  - {name: counts, target: y2, members: 3, train: {loss: poisson}}
"""
LEVELS = [0.05, 0.5, 0.95]


def make_data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 3))
    y = x[:, :1] + np.sin(2 * x[:, 1:2]) + 0.3 * rng.normal(size=(400, 1))
    more = [y[:, 0] > 0, rng.poisson(np.exp(1 + 0.5 * x[:, 0]))]
    with h5py.File("data.h5", "w") as f:
        f["x"], f["y"] = x, np.column_stack([y[:, 0], *more])
        f["w"] = rng.integers(0, 4, size=400).astype("f4")
    return y[:, 0]


def near(what, got, want):
    if not np.allclose(got, want, rtol=1e-9, atol=1e-12, equal_nan=True):
        sys.exit(f"{what}: {got} against {want}")


def check_predictions(y):
    with h5py.File("pred.h5") as p, h5py.File("scores.h5") as s:
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
    with h5py.File("one/results.h5") as r, h5py.File("one/model.h5") as m:
        shares = m["member_weight"][()]
        if not (np.all(shares == np.round(shares)) and 0 < shares[:6].sum() <= 50):
            sys.exit(f"greedy shares {shares}")
        rows = r["oob_rows"][()]
        if not np.all((0 < rows) & (rows < 200)) or not np.all(np.isfinite(r["oob_rmse"][()])):
            sys.exit(f"out of bag: {rows} rows")
        near("rows learned from", m["calibration/rows"][()], 100)


def check_quantiles(p):
    """Smallest count with P(X <= k) >= q, from the rates of the members."""
    rate = p["y_member_mean"][5:8, :, 0].astype("f8")
    k = np.arange(200)[:, None, None]
    log_factorial = np.concatenate([[0], np.cumsum(np.log(np.arange(1, 200)))])[:, None, None]
    below = np.cumsum(np.exp(k * np.log(rate) - rate - log_factorial), axis=0).mean(axis=1)
    for i, q in enumerate(LEVELS):
        near(f"quantile {q} of counts", p["y_pred_quantile"][i, :, 2], (below < q).sum(axis=0))
    if not np.isnan(p["y_pred_quantile"][:, :, 1]).all():
        sys.exit("classes have quantiles")


normal_distance = np.vectorize(lambda m, v: np.sqrt(2 * v / np.pi) * np.exp(-m * m / (2 * v))
                               + m * math.erf(m / np.sqrt(2 * v)))


def mixture_of(part, m):
    """Means and variance of the Gaussians of members without a variance, with factor and noise."""
    f, noise = (m["calibration/" + name][0] for name in ("std_scale", "noise"))
    if not noise > 0:
        sys.exit(f"noise {noise}")
    center, g = part.mean(0), min(f, 1)
    return center + g * (part - center), ((f * f - g * g) * part.var(0)
                                          + (noise * m["scaler/y_scale"][0]) ** 2)


def check_scores(p, s, y, w, model):
    """Scores of numbers and of probabilities, with the weights of the rows."""
    def mean(value):
        return np.average(value, weights=w)
    error, sd = p["y_pred_mean"][:, 0] - y[:, 0], p["y_pred_std"][:, 0]
    part, z90 = p["y_member_mean"][:3, :, 0].astype("f8"), 1.6448536269514727
    outside = np.maximum(np.abs(error) - z90 * sd, 0)
    label = y[:, 0] - mean(y[:, 0])
    means, v = mixture_of(part, model)
    near_by = normal_distance(means[:, None] - means[None], 2 * v[None, None]).mean(axis=(0, 1))
    density = (np.exp(-(means - y[:, 0]) ** 2 / (2 * v)) / np.sqrt(2 * np.pi * v)).mean(0)
    want = {"rmse": np.sqrt(mean(error**2)), "bias": mean(error), "sharpness": mean(sd),
            "r2": 1 - mean(error**2) / mean(label**2), "z_rms": np.sqrt(mean((error / sd)**2)),
            "interval_score": mean(2 * z90 * sd + 20 * outside),
            "nll": mean(np.log(2 * np.pi * sd**2) / 2 + (error / sd)**2 / 2),
            "mixture_nll": -mean(np.log(density)),
            "crps": mean(normal_distance(means - y[:, 0], v[None]).mean(axis=0) - near_by / 2)}
    for name, value in want.items():
        got = s[f"ensemble_{name}"][0]
        if not np.isclose(got, value, rtol=1e-5):
            sys.exit(f"{name}: {got} against {value}")
    chance = p["y_pred_mean"][:, 1]
    want = -mean(np.where(y[:, 1] > 0, np.log(chance), np.log1p(-chance)))
    if not np.isclose(s["ensemble_nll"][1], want, rtol=1e-6):  # members predict in single precision
        sys.exit(f"nll of classes: {s['ensemble_nll'][1]} against {want}")
    near("rows", s["test_rows"][()], (w > 0).sum())


def check_weighted():
    pathlib.Path("weighted.yaml").write_text(WEIGHTED)
    tutti("train", "weighted.yaml", "-q", "--set", "run.directory=w")
    tutti("predict", "w/model.h5", "data.h5", "-q", "--members", "--quantiles",
        ",".join(map(str, LEVELS)), "-o", "quantiles.h5")
    tutti("evaluate", "w/model.h5", "data.h5", "-q", "--weights", "w", "-o", "ws.h5")
    with h5py.File("quantiles.h5") as p, h5py.File("ws.h5") as s, \
            h5py.File("data.h5") as d, h5py.File("w/results.h5") as r, \
            h5py.File("w/model.h5") as m:
        check_quantiles(p)
        check_scores(p, s, d["y"][()], d["w"][()], m)
        for name in ("oob_nll", "oob_crps", "oob_coverage"):  # rows with one member, or none
            if not np.isfinite(r[name][..., 0]).all():
                sys.exit(f"{name}: {r[name][()]}")
        z = (r["y_true"][:, 0] - r["y_pred_mean"][:, 0]) / r["y_pred_std"][:, 0]
        near("z-scores", r["y_z_score"][:, 0], z)
        near("classes have no z-scores", r["y_z_score"][:, 1], np.nan)
    only = [line for line in WEIGHTED.splitlines() if "points" not in line and "counts" not in line]
    for loss, reason in (("bce", "have no quantiles"), ("quantile", "no distribution")):
        pathlib.Path("none.yaml").write_text("\n".join(only).replace("bce", loss))
        tutti("train", "none.yaml", "-q", "--set", f"run.directory={loss}")
        text = tutti("predict", f"{loss}/model.h5", "data.h5", "--quantiles", "0.5",
                   "--force", code=64)
        if reason not in text:
            sys.exit(f"no reason: {text}")


def check_noise():
    """Fitted to rows out of bag where there are no validation rows: z-scores of size 1, more where
    the rows chose the epochs; with neither, or without the option, `predict` warns."""
    for resample, low, high in (("bootstrap", 0.95, 1.05), ("kfold", 0.75, 0.95), ("none", 0, 0)):
        how = ["--set", "data.split.validation=0", "--set", f"train.resample={resample}"]
        for directory, ranks in (("one", 0), ("three", 3)):
            tutti("train", "points.yaml", "-q", *how, "--set", f"run.directory={resample}-{directory}",
                  ranks=ranks)
        check_same(f"{resample}-one", f"{resample}-three")
        said = tutti("predict", f"{resample}-one/model.h5", "data.h5", "--force")
        if ("predicts no noise" in said) != (resample == "none"):
            sys.exit(f"{resample}: {said}")
        with h5py.File(f"{resample}-one/results.h5") as r:
            if resample != "none" and not low < r["oob_z_rms"][0] < high:
                sys.exit(f"{resample}: z-scores {r['oob_z_rms'][()]}")


def main():
    y = make_data()
    pathlib.Path("job.yaml").write_text(JOB)
    tutti("train", "job.yaml", "-q", "--set", "run.directory=one")
    tutti("train", "job.yaml", "-q", "--set", "run.directory=three", ranks=3)
    check_same("one", "three")
    tutti("predict", "one/model.h5", "data.h5", "-q")
    tutti("evaluate", "one/model.h5", "data.h5", "-q", "-o", "scores.h5")
    check_predictions(y)
    check_weighted()
    pathlib.Path("points.yaml").write_text("\n".join(
        line for line in WEIGHTED.splitlines() if "classes" not in line and "counts" not in line))
    check_noise()


test(main)
