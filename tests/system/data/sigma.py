#!/usr/bin/python3
"""data.sigma: known error bars of the labels. Weights, losses and scores by an independent computation
in NumPy; a study of what it is good for; what cannot be done is refused.

With gpu: weights, losses and scores of the cuda engine alone.
"""
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from nets import layers_of
from rig import h5py, np, sets, test, tutti, write_json

ROWS, EPOCHS, RATE, FLOOR = 90, 4, 2e-3, 1e-3
JOB = {"data": {"file": "d.h5", "split": {"column": "split"}, "partial_labels": "use",
                "normalize": {"v": "log"}, "sigma": "sigma"},
       "model": {"hidden": [5], "activation": "tanh"},
       "train": {"optimizer": "sgd", "schedule": "constant", "learning_rate": RATE,
                 "epochs": EPOCHS, "batch_size": 1000, "variance_floor": FLOOR},
       "ensembles": [{"name": n, "targets": ["u", "v"], "members": 2, "train": {"loss": n}}
                     for n in ("mse", "gaussian_nll")],
       "run": {"device": "auto", "threads": 1}}


def write_data():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(ROWS, 3))
    y = np.stack([3 * x[:, 0] + rng.normal(size=ROWS), np.exp(x[:, 1] + 0.3 * x[:, 2])], 1)
    sigma = np.stack([rng.uniform(0.1, 2, ROWS), 0.3 * y[:, 1]], 1)
    y[4:12, 0] = y[70:75, 1] = sigma[4:12, 0] = np.nan
    split = np.repeat([0, 1, 2], [50, 15, 25])
    with h5py.File("d.h5", "w") as f:
        f["x"], f["y"], f["split"], f["sigma"] = x, y, split.astype("i1"), sigma
        f["short"], f["negative"], f["unknown"] = sigma[1:], -sigma, np.full(ROWS, np.nan)
        f["feature_name"], f["target_name"] = list("abc"), ["u", "v"]
    text = lambda v: "" if np.isnan(v) else repr(float(v))
    rows = [",".join(map(text, [*x[i], *y[i], *sigma[i], split[i]])) for i in range(ROWS)]
    pathlib.Path("d.csv").write_text("\n".join(["a,b,c,u,v,su,sv,split", *rows]) + "\n")
    return x, y, sigma, split


def masked(kind, o, y, noise):
    """Loss of all rows with a label and dL/do [q][rows][2]; `noise`: variances of the labels."""
    known = ~np.isnan(y)
    e = o[0] - np.where(known, y, 0)
    noise = np.where(known, noise, 1)
    if kind == "mse":
        value, d = e**2 / (noise + FLOOR), (2 * e / (noise + FLOOR))[None]
    else:
        v = np.logaddexp(0, o[1]) + FLOOR + noise
        value = (np.log(v) + e**2 / v) / 2
        d = np.stack([e / v, (1 - e**2 / v) / (2 * v) / (1 + np.exp(-o[1]))])
    share = 1 / known.any(1).sum() / 2
    return np.where(known, value, 0).sum() * share, np.where(known, d, 0) * share


def outputs(x, net):
    (w0, b0), (w1, b1) = net
    h = np.tanh(x @ w0.T + b0)
    return h, (h @ w1.T + b1).reshape(len(x), -1, 2).transpose(1, 0, 2)


def follow(kind, x, y, noise, net):
    for _ in range(EPOCHS):
        (w0, b0), (w1, b1) = net
        h, o = outputs(x, net)
        loss, d = masked(kind, o, y, noise)
        d = d.transpose(1, 0, 2).reshape(len(x), -1)
        back = (d @ w1) * (1 - h**2)
        net = [(w0 - RATE * back.T @ x, b0 - RATE * back.sum(0)),
               (w1 - RATE * d.T @ h, b1 - RATE * d.sum(0))]
    return net, loss


def read_nets(f):
    return [[[(w[m].astype(float), b[m].astype(float)) for w, b in layers_of(f, c)]
             for m in range(2)] for c in range(2)]


def close(got, want, name):
    assert np.allclose(got, want, rtol=1e-5, atol=1e-5, equal_nan=True), (name, got, want)


def check(x, y, sigma, split):
    with h5py.File("start/model.h5") as f:
        begin = read_nets(f)
    with h5py.File("out/model.h5") as f:
        end = read_nets(f)
        sx, sy = ((f[f"scaler/{a}_mean"][()], f[f"scaler/{a}_scale"][()]) for a in "xy")
    with h5py.File("out/results.h5") as f:
        found = {n: f[n][()] for n in f if isinstance(f[n], h5py.Dataset)}
    x = (x - sx[0]) / sx[1]
    t = np.stack([y[:, 0], np.log(y[:, 1])], 1)
    noise = (sigma / np.stack([np.ones(ROWS), y[:, 1]], 1) / sy[1]) ** 2
    t = (t - sy[0]) / sy[1]
    part = [(x[split == s], t[split == s], noise[split == s]) for s in range(3)]
    for c, kind in enumerate(["mse", "gaussian_nll"]):
        mean, variance = [], []
        for m in range(2):
            net, loss = follow(kind, *part[0], begin[c][m])
            for got, want in zip(end[c][m], net):
                for g, w in zip(got, want):
                    close(g, w, (kind, m))
            close(found["loss_train"][2 * c + m, -1], loss, "training loss")
            o = outputs(part[1][0], net)[1]
            close(found["loss_validation"][2 * c + m, -1], masked(kind, o, *part[1][1:])[0], "loss")
            o = outputs(part[2][0], net)[1]
            mean.append(o[0])
            variance.append(np.logaddexp(0, o[1]) + FLOOR if c else 0 * o[0])
        center = np.mean(mean, 0)
        total = np.mean(variance, 0) + np.var(mean, 0)
        scored = total + part[2][2]
        columns = slice(2 * c, 2 * c + 2)
        close(found["y_z_score"][:, columns], (part[2][1] - center) / np.sqrt(scored), "z")
        close(found["y_pred_std"][:, 2 * c], np.sqrt(total[:, 0]) * sy[1][0], "std of the truth")
        e2 = (part[2][1] - center) ** 2
        nll = (np.log(2 * np.pi * scored * sy[1] ** 2) + e2 / scored) / 2
        nll[:, 1] += np.log(y[split == 2, 1])
        close(found["ensemble_nll"][columns], np.nanmean(nll, 0), "nll")
        for m in range(2):
            v = variance[m] + part[2][2]
            nll = (np.log(2 * np.pi * v * sy[1] ** 2) + (part[2][1] - mean[m]) ** 2 / v) / 2
            nll[:, 1] += np.log(y[split == 2, 1])
            close(found["test_nll"][2 * c + m], np.nanmean(nll, 0), "nll of a member")
            shown = mean[m] * sy[1] + sy[0]  # the error of the label is not in the mean of the truth
            shown[:, 1] = np.exp(shown[:, 1] + variance[m][:, 1] * sy[1][1] ** 2 / 2)
            rmse = np.sqrt(np.nanmean((shown - y[split == 2]) ** 2, 0))
            close(found["test_rmse"][2 * c + m], rmse, "rmse of a member")


def check_worth():
    """Labels with known errors of very different size: the noise is not taken for scatter of the
    truth, and precise labels count more."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (500, 1))
    truth = np.sin(2 * x[:, 0])
    sigma = np.where(rng.random(500) < 0.7, 1.5, 0.05)
    with h5py.File("bars.h5", "w") as f:
        f["x"], f["y"], f["s"] = x, truth + sigma * rng.normal(size=500), sigma
        f["split"] = np.repeat([0, 1, 2], [300, 80, 120]).astype("i1")
    job = {"data": {"file": "bars.h5", "split": {"column": "split"}}, "model": {"hidden": [16]},
           "train": {"epochs": 120, "learning_rate": 0.03, "batch_size": 50}, "run": JOB["run"],
           "ensembles": [{"name": n, "members": 3, "train": {"loss": n}}
                         for n in ("mse", "gaussian_nll")]}
    write_json("bars.json", job)
    error = {}
    for name in "", "s":
        tutti("train", "-q", "bars.json", *sets(f"data.sigma='{name}'", f"run.directory=bars{name}"))
        with h5py.File(f"bars{name}/results.h5") as f:
            error[name] = np.sqrt(((f["y_pred_mean"][()] - truth[380:, None]) ** 2).mean(0))
            noise = np.median(f["y_pred_std_aleatoric"][:, 1])
            inside = f["coverage"][1, 1]
        assert (noise < 0.3) == (name == "s"), (name, noise)
    print(f"rmse of the truth {error['']} without, {error['s']} with data.sigma; 90 % intervals hold "
          f"{100 * inside:.0f} % of the labels")
    assert (error["s"] < 0.7 * error[""]).all() and 0.8 < inside < 0.98, (error, inside)


def check_refusals():
    for how, code, text in (
            ("data.sigma=short", 65, "'short' (data.sigma) is 89 x 2"),
            ("data.sigma=negative", 65, "data.sigma must be a finite number and not negative"),
            ("data.sigma=unknown", 65, "dataset 'unknown', row 0, column 0: nan; data.sigma must be"),
            ("calibration.conformal=[0.8]", 78, "calibration.conformal does not know the errors")):
        said = tutti("train", "-q", "job.json", *sets("run.directory=x", how), code=code)
        assert text in said, said
    write_json("mae.json", dict(JOB, ensembles=[{"name": "n", "members": 1}]))
    said = tutti("train", "-q", "mae.json", "--set", "train.loss=mae", code=78)
    assert "data.sigma needs train.loss: gaussian_nll or mse (ensemble n)" in said, said


def main():
    data = write_data()
    on_gpu = sys.argv[2:] == ["gpu"]
    train = ["train", "-q", write_json("job.json", dict(JOB, run={"threads": 1, "device": "gpu" if on_gpu else "auto"}))]
    tutti(*train, *sets("run.directory=start", "train.learning_rate=0"))
    tutti(*train)
    check(*data)
    if on_gpu:
        return
    tutti(*train, *sets("run.directory=csv", "data.file=d.csv", "data.sigma=[su, sv]", "data.targets=[u, v]"))
    with h5py.File("out/model.h5") as a, h5py.File("csv/model.h5") as b:
        for c in range(2):
            assert (layers_of(a, c)[0][0] == layers_of(b, c)[0][0]).all()
    check_worth()
    check_refusals()


test(main)
