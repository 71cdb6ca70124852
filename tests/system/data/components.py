#!/usr/bin/python3
"""data.targets_pca, with a column of categories: components, predictions, derivatives, scores and exported models against an independent computation in NumPy; the library has the bits of
the program, and two ranks those of one.
"""
import ctypes
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
import model_numpy
import onnx_numpy
from nets import layers_of
from rig import check_same, h5py, np, package, run, test, tutti, write_json

TARGETS, KEPT, LEVELS = 24, 4, [1, 2, 5]
JOB = {"data": {"file": "d.h5", "targets_pca": KEPT, "categories": {"k": "error"},
                "normalize": {"y2?": "log"}, "split": {"column": "split"}},
       "model": {"hidden": [6]},
       "train": {"loss": "gaussian_nll", "epochs": 12, "learning_rate": 0.02, "batch_size": 32},
       "calibration": {"recalibrate": "all", "conformal": [0.8]},
       "combine": {"method": "weights"},
       "ensembles": [{"name": "n", "members": 3}, {"name": "m", "members": 2},
                     {"name": "p", "members": 2, "train": {"loss": "mse"}}],
       "run": {"device": "cpu", "threads": 1}}
PARTS = ["y_pred_mean", "y_pred_std", "y_pred_std_aleatoric", "y_pred_std_epistemic"]
MEMBERS = [(0, [0, 1, 2]), (0, [3, 4]), (1, [0, 1])]  # cohort and members in it of each ensemble


def write_data():
    """Spectra of three lines, with noise; the last four targets are positive."""
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(size=(300, 3)), rng.choice(LEVELS, (300, 1))], 1)
    at = np.linspace(0, 1, TARGETS)
    lines = [np.exp(-((at - c) / 0.12) ** 2) for c in (0.2, 0.45, 0.8)]
    y = sum(np.sin(x[:, [k]] * (k + 1)) * line for k, line in enumerate(lines))
    y = y * (5 + x[:, 3:] % 2) + 0.3 * rng.normal(size=y.shape)
    y[:, 20:] = np.exp(0.3 * y[:, 20:])
    y[7, 3] = np.nan
    names = [f"y{k:02}" for k in range(TARGETS)]
    with h5py.File("d.h5", "w") as f:
        f["x"], f["y"] = x, y
        f["split"] = np.repeat([0, 1, 2], [160, 60, 80]).astype("i1")
        f["feature_name"], f["target_name"] = list("abck"), names
    with h5py.File("test.h5", "w") as f:
        f["x"], f["y"] = x[220:], y[220:]
        f["feature_name"], f["target_name"] = list("abck"), names
    return x, y


def check_table():
    """Of many targets tutti evaluate prints one line each, with the scores of the file."""
    done = tutti("evaluate", "out/model.h5", "test.h5").out
    lines = done.splitlines()
    assert len(lines) == 3 * (2 + TARGETS) and max(map(len, lines)) < 80, done
    assert lines[0] == f"{JOB['ensembles'][0]['name']}: 24 targets, 3 members", lines[0]
    assert lines[1].split() == ["rows", "rmse", "nll", "crps", "r2", "in", "90", "%"], lines[1]
    with h5py.File("scores.h5") as f:
        for k in range(TARGETS):
            name, rows, rmse, nll, _, _, inside = lines[2 + k].split()
            assert name == f"y{k:02}" and int(rows) == f["test_rows"][k], lines[2 + k]
            assert np.allclose([float(rmse), float(nll)],
                               [f["ensemble_rmse"][k], f["ensemble_nll"][k]], rtol=6e-3), lines[2 + k]
            assert 0 <= float(inside) <= 1, lines[2 + k]


def close(what, got, want, precision=1e-5):
    """Relative to the largest value."""
    error = abs(got - want).max() / abs(want).max()
    assert error <= precision, f"{what}: {error}"


def forward(y):
    return np.concatenate([y[..., :20], np.log(y[..., 20:])], -1)


def normalized(f, y):
    return (forward(y) - f["scaler/y_mean"][()]) / f["scaler/y_scale"][()]


def check_components(f, y):
    """The leading eigenvectors of the covariance of the training rows that have all labels."""
    z = normalized(f, y[:160])
    z = z[np.isfinite(z).all(1)]
    assert len(z) == 159
    value, vector = np.linalg.eigh(np.cov(z.T, bias=True))
    value, vector = value[::-1], vector[:, ::-1]
    vector *= np.sign(vector[abs(vector).argmax(0), range(TARGETS)])
    close("components", f["scaler/y_component"][()], (vector * np.sqrt(value)).T[:KEPT])
    close("means", f["scaler/y_component_mean"][()] + 1, z.mean(0) + 1)
    close("residuals", f["scaler/y_residual"][()], (vector[:, KEPT:] ** 2 * value[KEPT:]).sum(1))


def members(f, x):
    """Normalized targets of each ensemble: means and variances (member, row, target)."""
    c, rest = f["scaler/y_component"][()], f["scaler/y_residual"][()]
    for cohort, own in MEMBERS:
        layers, floor = layers_of(f, cohort), float(f["net/variance_floor"][cohort])
        amounts = ((x - f["scaler/x_mean"][()]) / f["scaler/x_scale"][()])[:, :3]
        h = np.concatenate([amounts, x[:, 3:] == LEVELS], 1)
        h = np.broadcast_to(h, (len(own), *h.shape))
        for layer in range(2):
            w, b = (part[own] for part in layers[layer])
            h = h @ w.swapaxes(1, 2) + b[:, None]
            h = h / (1 + np.exp(-h)) if layer == 0 else h
        v = np.logaddexp(0, h[..., KEPT:]) + floor if cohort == 0 else 0 * h
        yield h[..., :KEPT] @ c + f["scaler/y_component_mean"][()], v @ c ** 2 + rest


def shares(f):
    weight = f["member_weight"][()]
    return [w / w.sum() for w in np.split(weight, [3, 5])]


def members_of(f, x):
    """Of each ensemble: means and variances (member, row, target) in the user's units, and the
    variances without what recalibration adds."""
    scale, offset = f["scaler/y_scale"][()], f["scaler/y_mean"][()]
    for e, ((m, v), w) in enumerate(zip(members(f, x), shares(f))):
        s, noise = (f[f"calibration/{name}"][e * TARGETS:(e + 1) * TARGETS] for name in ("std_scale", "noise"))
        center, near = np.tensordot(w, m, 1), np.minimum(s, 1)
        own = v * (s * scale) ** 2 + (noise * scale) ** 2
        v = own + (s * s - near * near) * np.tensordot(w, (m - center) ** 2, 1) * scale ** 2
        m = (center + near * (m - center)) * scale + offset
        mean, var = m.copy(), [v.copy(), own.copy()]
        mean[..., 20:] = np.exp((m + v / 2)[..., 20:])
        for of, latent in zip(var, (v, own)):
            of[..., 20:] = (np.expm1(latent) * np.exp(2 * m + latent))[..., 20:]
        yield mean, *var


def predict(f, x):
    """Mean and standard deviations (part, row, column)."""
    results = []
    for (mean, var, own), w in zip(members_of(f, x), shares(f)):
        average = lambda a: np.tensordot(w, a, 1)
        center = average(mean)
        within, between = average(own), average((mean - center) ** 2 + var - own)
        results.append([center, *np.sqrt([within + between, within, between])])
    return np.concatenate(results, -1)


def check_predictions(f, pred, x):
    want = predict(f, x)
    for part, name in enumerate(PARTS):
        close(name, pred[name], want[part])
        assert (pred[name + "_jacobian"][..., 3] == 0).all(), "derivative by a category"
    for d in range(3):
        step = np.eye(4)[d] * 1e-5
        slope = (predict(f, x + step) - predict(f, x - step)) / 2e-5
        for part, name in enumerate(PARTS):
            close(f"{name} by input {d}", pred[name + "_jacobian"][..., d], slope[part], 1e-4)


def check_leverage(f, pred, x, train):
    """The disagreement of the members compared with that on the training rows."""
    def epistemic(x):
        parts = []
        for (m, v), w in zip(members(f, x), shares(f)):
            parts.append(np.sqrt(np.tensordot(w, (m - np.tensordot(w, m, 1)) ** 2, 1)))
        return np.concatenate(parts, -1)

    typical = np.sqrt((epistemic(train) ** 2).mean(0))
    close("typical epistemic", f["typical_epistemic"][()], typical)
    close("leverage", pred["leverage"], epistemic(x) / typical, 1e-4)


def check_calibration(f, x, y):
    """On the validation rows: standard deviations that fit the errors, and intervals that hold 80 %."""
    z = normalized(f, y[160:220])
    for e, ((m, v), w) in enumerate(zip(members(f, x[160:220]), shares(f))):
        center = np.tensordot(w, m, 1)
        sd = np.sqrt(np.tensordot(w, v + (m - center) ** 2, 1))
        own = np.s_[e * TARGETS:(e + 1) * TARGETS]
        wider = 1 + (2 / 60) ** 0.5                     # these rows chose the epochs too
        scale, noise = f["calibration/std_scale"][own], f["calibration/noise"][own]
        assert (noise > 0).all() == (e == 2) == (noise > 0).any(), noise  # of mse
        if e < 2:
            close("recalibration", scale, wider * np.sqrt((((center - z) / sd) ** 2).mean(0)), 1e-4)
        score = np.sort(abs(center - z) / np.hypot(sd * scale, noise), 0)
        close("conformal", f["calibration/conformal_width"][0][own], score[48], 1e-4)


def check_weights(f, x, y):
    """combine.method: weights, by the losses of the members on the validation rows."""
    z = normalized(f, y[160:220])
    for (m, v), w, gaussian in zip(members(f, x[160:220]), shares(f), (1, 1, 0)):
        loss = ((m - z) ** 2 / v + np.log(v)) / 2 if gaussian else (m - z) ** 2
        order = np.argsort(loss.mean((1, 2)))
        assert (np.diff(w[order]) <= 0).all() and w.std() > 0, (loss.mean((1, 2)), w)


def check_scores(f, scores, x, y):
    mean, total = predict(f, x)[:2]
    label = np.tile(y, 3)
    close("rmse", scores["ensemble_rmse"], np.sqrt(((mean - label) ** 2).mean(0)))
    plain = np.arange(label.shape[1]) % TARGETS < 20  # without a transform
    nll = (np.log(2 * np.pi * total ** 2) + ((label - mean) / total) ** 2)[:, plain].mean(0) / 2
    close("nll", scores["ensemble_nll"][plain], nll)


def check_exports(cc, pred, x):
    want = [pred[name] for name in PARTS]
    for kind in ("onnx", "c"):
        tutti("export", "out/model.h5", f"--{kind}", "-q")
    by_numpy = model_numpy.predict(model_numpy.read_model("out/model.h5"), x)
    run(cc, "-std=c17", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fPIC", "-shared", "model.c",
        "-o", "./model.so", "-lm")
    function, by_c = ctypes.CDLL("./model.so").model_predict, np.empty_like(np.array(want))
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    for r, row in enumerate(np.ascontiguousarray(x)):
        function(pointer(row), *(pointer(by_c[part, r]) for part in range(4)))
    with np.errstate(all="ignore"):
        by_onnx = onnx_numpy.run("model.onnx", x)[0]
    for part, name in enumerate(("mean", "total", "aleatoric", "epistemic")):
        close(f"NumPy {name}", by_numpy[part], want[part])
        close(f"C {name}", by_c[part], want[part])
        close(f"ONNX {name}", by_onnx[name], want[part])


def check_library(pred, x):
    model = package().Model("out/model.h5")
    for rows in (len(x), 1):
        got = model.predict(x[:rows], gradient=True)
        for key, name in zip(("mean", "std", "aleatoric", "epistemic"), PARTS):
            assert (np.asarray(got[key]).reshape(rows, -1) == pred[name][:rows]).all(), key
            assert (got[key + "_gradient"] == pred[name + "_jacobian"][:rows]).all(), key


def check_refusals():
    train = ["train", "job.json", "--set", "run.directory=other", "--set"]
    error = tutti(*train, "data.targets_pca=25", code=65)
    assert "data.targets_pca is 25, but there are 24 targets" in error, error
    with h5py.File("d.h5", "r+") as f:
        f["y"][:, 20:] = 2.0
        f["y"][:, 3:20] = f["y"][:, 2:3]
    error = tutti(*train, "data.normalize=none", "--set", "data.targets_pca=4", code=65)
    assert "the training rows differ in 3 directions only" in error, error


def main():
    x, y = write_data()
    write_json("job.json", JOB)
    tutti("train", "-q", "job.json")
    tutti("train", "-q", "job.json", "--set", "run.directory=two", ranks=2)
    check_same("out", "two")
    tutti("predict", "out/model.h5", "test.h5", "-q", "--jacobian")
    tutti("evaluate", "out/model.h5", "test.h5", "-q", "-o", "scores.h5")
    check_table()
    read = lambda name: {n: d[()] for n, d in h5py.File(name).items() if isinstance(d, h5py.Dataset)}
    pred, scores = read("pred.h5"), read("scores.h5")
    with h5py.File("out/model.h5") as f:
        check_components(f, y)
        check_weights(f, x, y)
        check_calibration(f, x, y)
        check_predictions(f, pred, x[220:])
        check_leverage(f, pred, x[220:], x[:160])
        check_scores(f, scores, x[220:], y[220:])
    check_exports(sys.argv[1], pred, x[220:])
    if package():
        check_library(pred, x[220:])
    check_refusals()


test(main)
