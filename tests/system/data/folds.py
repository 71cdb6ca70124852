"""folds.py — with train.resample: kfold a member knows nothing of the rows that it
leaves out: their values may change, and no bit of its training losses does, with any normalization.
(They choose its best epoch, as validation rows do.) Members that train on these rows change, and with
data.normalize_folds: all every member does.

Folds are blocks of rows (data.split.order), so that the test knows them. Also: the bits are the same on
three ranks; error bars (data.sigma) and missing inputs; ensembles that leave out the same rows share a
fold; what `tutti predict` writes are the networks of model.h5 computed with NumPy; a job may begin
with one of the members (train.init_from), not with members of several folds.
"""
import json
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import h5py, np, test, tutti, write_json

ROWS, FOLDS, MEMBERS = 96, 4, 6


def table():
    random = np.random.default_rng(11)
    x = random.normal(size=(ROWS, 5)) * [1, 30, 0.01, 2, 1] + [0, 100, 5, 0, 3]
    y = np.stack([np.sin(x[:, 0]) + x[:, 1] / 50, np.exp(x[:, 3] / 3)], 1)
    x[:, 1], x[:, 3] = abs(x[:, 1]) + 1, np.expm1(abs(x[:, 3]))
    return x, y


def write(name, x, y):
    with h5py.File(name, "w") as f:
        f["x"], f["y"] = x, y
        f["time"], f["sigma"] = np.arange(float(ROWS)), 0.1 + 0.01 * abs(y)


def job(file, directory, **more):
    train = {"resample": "kfold", "folds": FOLDS, "epochs": 5, "batch_size": 16, "loss": "gaussian_nll"}
    spec = {"data": {"file": file, "sigma": "sigma", "split": {"train": 1, "validation": 0, "test": 0, "order": "time"},
                     "normalize": {"x0": "standard", "x1": "log", "x2": "minmax", "x3": "log1p", "x4": "robust",
                                   "y0": "standard", "y1": "log"}, **more.pop("data", {})},
            "model": {"hidden": [6]}, "train": {**train, **more.pop("train", {})},
            "ensembles": more.pop("ensembles", [{"name": "a", "members": MEMBERS}, {"name": "b", "target": "y1", "members": 2},
                                                {"name": "plain", "target": "y0", "members": 2,
                                                 "train": {"resample": "none"}}]),
            "run": {"directory": directory, "device": "cpu", "threads": 1}}
    return write_json(f"{directory}.yaml", spec)


def train(file, directory, ranks=0, **more):
    tutti("train", "-q", job(file, directory, **more), ranks=ranks)
    return h5py.File(f"{directory}/model.h5")


def losses(directory):
    """{(ensemble, number in it): training loss of each epoch}"""
    with h5py.File(f"{directory}/results.h5") as f, h5py.File(f"{directory}/model.h5") as model:
        return dict(zip(members(model), f["loss_train"][()]))


def members(model):
    """{(ensemble, number in it): weights}"""
    names = model["ensemble_name"][()].view(f"S{model['ensemble_name'].shape[1]}")[:, 0]
    first, weights = model["net/first_parameter"][()], {}
    ends = [*first[1:], model["net/parameters"].size]
    for member, (begin, end) in enumerate(zip(first, ends)):
        owner = names[model["ensemble_of_member"][member]].decode().rstrip("\0")
        weights[owner, int(model["member_index"][member])] = model["net/parameters"][begin:end]
    return weights


def check_bits(x, y):
    """A member that leaves out block 0 does not see it, with any normalization."""
    other_x, other_y = x.copy(), y.copy()
    block = slice(0, ROWS // FOLDS)
    other_x[block] = other_x[block] * 3 + 0.5
    other_y[block] = other_y[block] * 2 + 1
    write("other.h5", other_x, other_y)
    train("d.h5", "one"), train("other.h5", "two")
    before, after = losses("one"), losses("two")
    assert len(before) == MEMBERS + 4
    for (name, number), loss in before.items():
        left_out = name != "plain" and number % FOLDS == 0
        assert (loss == after[name, number]).all() == left_out, (name, number, left_out)
    for file, directory in (("d.h5", "all1"), ("other.h5", "all2")):
        train(file, directory, data={"normalize_folds": "all"})
    before, after = losses("all1"), losses("all2")
    assert not any((before[key] == after[key]).all() for key in before)
    alone = members(train("d.h5", "alone", ensembles=[{"name": "b", "target": "y1", "members": 2}]))
    one = members(h5py.File("one/model.h5"))
    assert all((alone[key] == one[key]).all() for key in alone), "other ensembles change bits"
    many = members(train("d.h5", "ranks", ranks=3))
    assert all((many[key] == one[key]).all() for key in one), "ranks change bits"


def check_scales(x, y):
    """The tables of the folds are the mean and the scale of the rows of the other blocks."""
    f = h5py.File("one/model.h5")
    net = f["net"]
    assert list(f["member_index"][:MEMBERS]) == [0, 4, 1, 5, 2, 3]
    assert np.bincount(net["network_of_member"])[:4].tolist() == [2, 2, 1, 1]
    for fold in range(FOLDS):
        rest = np.arange(ROWS) // (ROWS // FOLDS) != fold
        mean, scale = x[rest, 0].mean(), x[rest, 0].std()
        every = f["scaler/x_mean"][0], f["scaler/x_scale"][0]
        np.testing.assert_allclose(net["input_factor"][fold, 0], every[1] / scale, rtol=1e-12)
        np.testing.assert_allclose(net["input_offset"][fold, 0], (every[0] - mean) / scale, atol=1e-12)
        label = np.log(y[:, 1])
        np.testing.assert_allclose(net["target_factor"][fold, 1], label[rest].std() / label.std(), rtol=1e-12)
        np.testing.assert_allclose(net["target_offset"][fold, 1],
                                   (label[rest].mean() - label.mean()) / label.std(), atol=1e-12)
    assert (net["input_factor"][6] == 1).all() and (net["target_offset"][6] == 0).all()  # plain


def by_numpy(model, x):
    """Mean of target y0 of the members of ensemble a."""
    f, net, means = model, model["net"], []
    t = np.stack([x[:, 0], np.log(x[:, 1]), x[:, 2], np.log1p(x[:, 3]), x[:, 4]], 1)
    u = (t - f["scaler/x_mean"][()]) / f["scaler/x_scale"][()]
    for k in range(FOLDS):
        h0 = u * net["input_factor"][k] + net["input_offset"][k]
        for first in net["first_parameter"][net["network_of_member"][()] == k]:
            w = net["parameters"][first:].astype(float)
            layer = lambda l, h: h @ w[net["weight_offset"][k, l]:][:net["layer_out"][k, l] * net["layer_in"][k, l]].reshape(
                net["layer_out"][k, l], -1).T + w[net["bias_offset"][k, l]:][:net["layer_out"][k, l]]
            z = layer(0, h0)
            assert bytes(net["activation"][k]).rstrip(b"\0") == b"silu", net["activation"][k]
            out = layer(1, z / (1 + np.exp(-z)))[:, 0]
            means.append(out * net["target_factor"][k, 0] + net["target_offset"][k, 0])
    return np.mean(means, 0) * f["scaler/y_scale"][0] + f["scaler/y_mean"][0]


def check_predictions(x):
    tutti("predict", "one/model.h5", "d.h5", "-q", "-o", "p.h5")
    with h5py.File("p.h5") as p:
        np.testing.assert_allclose(p["y_pred_mean"][:, 0], by_numpy(h5py.File("one/model.h5"), x), rtol=2e-6)


def check_fine_tuning():
    """A job that begins with one member has its normalization; without a step it is this member."""
    few = {"ensembles": [{"name": "a", "members": 1}], "data": {"sigma": ""}, "train": {"init_from": "one/model.h5", "init_member": 5,
           "resample": "none", "epochs": 1, "learning_rate": 1e-12}}
    tuned = train("d.h5", "tuned", **json.loads(json.dumps(few)))
    tutti("predict", "one/model.h5", "d.h5", "-q", "--members", "-o", "m.h5")
    tutti("predict", "tuned/model.h5", "d.h5", "-q", "-o", "t.h5")
    with h5py.File("m.h5") as p, h5py.File("t.h5") as t:
        row = list(h5py.File("one/model.h5")["member_index"][:MEMBERS]).index(5)
        assert tuned["scaler/x_scale"][0] != h5py.File("one/model.h5")["scaler/x_scale"][0]
        np.testing.assert_allclose(t["y_pred_mean"][:, 0], p["y_member_mean"][row][:, 0], rtol=1e-5)
    few["train"].pop("init_member")
    few["ensembles"][0]["members"] = 2
    error = tutti("train", "-q", job("d.h5", "no", **few), code=65)
    assert "different normalizations" in error and "init_member" in error, error


def check_missing(x, y):
    """Values are filled in before the scales of a fold are applied."""
    holes = x.copy()
    holes[::7, 0] = np.nan
    write("holes.h5", holes, y)
    train("holes.h5", "holes", data={"missing": {"x0": "mean"}})
    tutti("predict", "holes/model.h5", "holes.h5", "-q", "-o", "h.h5")
    model = h5py.File("holes/model.h5")
    filled = np.where(np.isnan(holes), model["scaler/x_fill"][()], holes)
    with h5py.File("h.h5") as p:
        np.testing.assert_allclose(p["y_pred_mean"][:, 0], by_numpy(model, filled), rtol=2e-6)


def main():
    x, y = table()
    write("d.h5", x, y)
    check_bits(x, y)
    check_scales(x, y)
    check_predictions(x)
    check_fine_tuning()
    check_missing(x, y)
    print("folds: members know nothing of the rows that they leave out")


test(main)
