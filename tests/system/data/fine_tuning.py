#!/usr/bin/python3
"""train.init_from, freeze, layer_rates: members begin with trained weights and predict what these
predict, layers keep their weights; the same bits on two ranks and after restarts; what does not fit
is refused.
"""
import json
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from content_hash import seal
from nets import layers_of, parameters_of
from rig import h5py, np, test, tutti, write_json

def job(name, ensembles, *, data="new.h5", model=None, train=None, run=None, target="y"):
    content = {"data": {"file": data, "split": {"train": 0.7, "validation": 0.3, "test": 0}},
               "model": model or {"hidden": [7, 5]},
               "train": {"epochs": 4, "batch_size": 8, **(train or {})},
               "ensembles": [{"members": 3, "target": target, **e} for e in ensembles],
               "run": {"directory": name, "device": "auto", "threads": 1, **(run or {})}}
    return write_json(f"{name}.json", content)


def write_data():
    """Other rows in other units than those of the first job: another mean and scale."""
    rng = np.random.default_rng(7)
    for name, rows, shift in (("old.h5", 60, 0.0), ("new.h5", 30, 3.0)):
        x = rng.normal(size=(rows, 3)) * (1 + shift) + shift
        with h5py.File(name, "w") as f:
            f["x"], f["feature_name"] = x, list("abc")
            f["y"] = np.stack([np.sin(x[:, 0]) + x[:, 1] * x[:, 2], 1e4 + x[:, 1]], 1)
            f["target_name"] = ["y", "z"]


def weights(name, cohort=0):
    """[member, parameter] of each layer."""
    with h5py.File(f"{name}/model.h5") as f:
        return [np.concatenate([b, w.reshape(len(w), -1)], 1) for w, b in layers_of(f, cohort)]


def predict(model):
    tutti("predict", f"{model}/model.h5", "new.h5", "-o", "pred.h5", "--force")
    with h5py.File("pred.h5") as f:
        return f["y_pred_mean"][()]


def members_begin_with_trained_weights():
    tutti("train", job("base", [{"name": "one"}], data="old.h5", train={"epochs": 9}))
    tuned = job("tuned", [{"name": "still", "members": 4, "train": {"learning_rate": 0}},
                          {"name": "frozen", "train": {"freeze": 2}},
                          {"name": "slow", "train": {"layer_rates": [1, 0, 0.1]}}],
                train={"init_from": "base/model.h5"})
    said = tutti("train", tuned)
    assert "members start with weights of" in said, said
    base = weights("base")
    still, frozen, slow = (weights("tuned", k) for k in range(3))
    for layer in range(3):  # member 3 begins with member 0: the model has three
        assert np.array_equal(still[layer], base[layer][[0, 1, 2, 0]])
        assert np.array_equal(frozen[layer], base[layer]) == (layer < 2)
        assert np.array_equal(slow[layer], base[layer]) == (layer == 1)
    with h5py.File("base/model.h5") as a, h5py.File("tuned/model.h5") as b:
        for name in ("x_mean", "x_scale", "y_mean", "y_scale"):
            assert np.array_equal(a["scaler"][name], b["scaler"][name]), name
    return base


def one_for_all_and_some_layers(base):
    """Another target, whose scale the model does not use: the layers before the output are taken."""
    with h5py.File("new.h5") as f:
        rows = f["y"][()]
    with h5py.File("other.h5", "w") as f, h5py.File("new.h5") as old:
        f["x"], f["feature_name"] = old["x"][()], list("abc")
        f["y"], f["target_name"] = rows[:, :1] * 7 + 2, ["w"]
    tutti("train", job("moved", [{"name": "w"}], data="other.h5", target="w",
                            train={"init_from": "base/model.h5", "init_member": 1, "init_layers": 2,
                                   "learning_rate": 0}))
    now = weights("moved")
    assert np.array_equal(now[0], base[0][[1] * 3]) and np.array_equal(now[1], base[1][[1] * 3])
    assert not np.array_equal(now[2], base[2][[1] * 3])
    with h5py.File("base/model.h5") as a, h5py.File("moved/model.h5") as b:
        assert np.array_equal(a["scaler/x_mean"], b["scaler/x_mean"])
        assert not np.isclose(a["scaler/y_mean"][0], b["scaler/y_mean"][0])


def front_of(name):
    """[member, parameter] of the front."""
    with h5py.File(f"{name}/model.h5") as f:
        net, w = parameters_of(f, 0)
        return w[:, :net["weight_offset"][0]]


def fronts_with_running_values():
    """Frozen layers keep the running means and variances of batch_norm that they begin with."""
    model = {"profile": [1, 3], "front": ["basic 4 stride 2"], "hidden": [5]}
    tutti("train", job("front", [{"name": "one"}], data="old.h5", model=model))
    train = {"init_from": "front/model.h5", "init_layers": 6, "freeze": 6}
    tutti("train", job("tuned-front", [{"name": "one"}], model={**model, "hidden": [4]}, train=train))
    front = front_of("front")
    mean, variance = front[:, 20:24], front[:, 24:28]  # behind 12 weights, gains and shifts
    assert np.array_equal(front_of("tuned-front"), front) and (mean != 0).all() and (variance != 1).all(), front
    model["front"] = ["residual 4 project", "conv 4 3 stride 2", "batch_norm", "conv 4 3", "batch_norm"]
    said = tutti("train", job("other-front", [{"name": "one"}], model=model, train=train), code=65)
    assert "the front of ensemble one has other options there" in said.replace("\n", " "), said


def labels_are_not_normalized():
    """Classes of a target that the model knows as a number: its scale is not theirs."""
    with h5py.File("classes.h5", "w") as f, h5py.File("new.h5") as old:
        f["x"], f["feature_name"] = old["x"][()], list("abc")
        f["y"], f["target_name"] = (old["y"][:, :1] > 0).astype(float), ["y"]
    start = {"init_from": "base/model.h5", "init_layers": 2, "loss": "bce"}
    tutti("train", job("classes", [{"name": "y"}], data="classes.h5", train=start))
    with h5py.File("classes/model.h5") as f:
        assert f["scaler/y_mean"][0] == 0 and f["scaler/y_scale"][0] == 1
    again = job("again", [{"name": "y"}], data="classes.h5",
                train={"init_from": "classes/model.h5", "loss": "bce"})
    for name, value in (("y_mean", 1e6), ("y_scale", 1e-9)):  # a file of a stranger
        with h5py.File("classes/model.h5", "r+") as f:
            good, f["scaler"][name][0] = f["scaler"][name][0], value
        said = tutti("train", again, code=65)
        assert f"'scaler/{name}'" in said and f"{value:g}" in said, said
        with h5py.File("classes/model.h5", "r+") as f:
            f["scaler"][name][0] = good


def one_member_predicts_what_it_predicted():
    tutti("train", job("same", [{"name": "one"}], train={
        "init_from": "base/model.h5", "learning_rate": 0, "epochs": 1}))
    assert np.array_equal(predict("same"), predict("base"))


def the_same_bits_on_ranks_and_after_restarts():
    train = {"init_from": "base/model.h5", "epochs": 600, "freeze": 1, "clip_norm": 0.1}
    tutti("train", job("whole", [{"name": "one"}], train=train))
    size = pathlib.Path("base/model.h5").stat().st_size
    need = [json.loads(tutti("plan", "whole.json", "--json", "--ranks", ranks))["memory_of_rank"]
            for ranks in "12"]
    assert min(n["data"] for n in need) > size and need[1]["reading"] > size, need
    tutti("train", job("two", [{"name": "one"}], train=train), ranks=2)
    cut = job("cut", [{"name": "one"}], train=train)
    tutti("train", cut, "--set", "run.max_time=0.01s", code=75)
    model = pathlib.Path("base/model.h5").read_bytes()
    with h5py.File("base/model.h5", "r+") as f:
        f["scaler/x_mean"][0] += 1
        seal(f)
    said = tutti("train", cut, code=65)
    assert "train.init_from" in said, said
    pathlib.Path("base/model.h5").write_bytes(model)
    tutti("train", cut)
    for name in ("two", "cut"):
        for a, b in zip(weights("whole"), weights(name)):
            assert np.array_equal(a, b), name


def what_does_not_fit_is_refused():
    start = {"init_from": "base/model.h5"}
    for text, change in (
            ("layer 2 of 3 of ensemble one is 7 -> 5 silu there and 7 -> 6 silu here",
             {"model": {"hidden": [7, 6]}}),
            ("has the inputs a, b, c; data.inputs are x0, x1", {"data": "narrow.h5"}),
            ("'a' is normalized by standard in", {"normalize": "minmax"}),
            ("ensemble one of", {"train": {**start, "init_member": 3}}),
            ("No such file", {"train": {"init_from": "none/model.h5"}, "code": 66})):
        code, normalize = change.pop("code", 65), change.pop("normalize", None)
        path = job("bad", [{"name": "one"}], **{"train": start, **change})
        words = ("--set", f"data.normalize={normalize}") if normalize else ()
        said = tutti("train", path, *words, code=code)
        assert text in said.replace("\n", " "), (text, said)


def main():
    write_data()
    with h5py.File("new.h5") as f, h5py.File("narrow.h5", "w") as to:
        to["x"], to["y"], to["target_name"] = f["x"][:, :2], f["y"][()], ["y", "z"]
    base = members_begin_with_trained_weights()
    one_for_all_and_some_layers(base)
    fronts_with_running_values()
    labels_are_not_normalized()
    one_member_predicts_what_it_predicted()
    the_same_bits_on_ranks_and_after_restarts()
    what_does_not_fit_is_refused()


test(main)
