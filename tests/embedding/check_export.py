"""check_export.py CC [--onnx | --torch] — exported models predict what
`tutti predict` predicts.

One job has an ensemble for every activation and one for every output, with and without layer
normalization and residual layers, images and profiles, several targets, classes, member weights, calibration and a diverged
member. Without --onnx: the C file, compiled with all warnings as errors; what the module of PyTorch
reads from model.h5, by model_numpy.py; the graph, by onnx_numpy.py. With --onnx: the graph, by onnx and onnxruntime of
the interpreter TUTTI_ONNX_PYTHON (default: this one); exit status 77 if it does not have them. With
--torch: the module, by PyTorch of the interpreter TUTTI_TORCH_PYTHON, in the same way.
"""
import base64
import ctypes
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
import model_numpy
import onnx_numpy
from content_hash import seal
from rig import h5py, np, run, skip, test, tutti, write_json

RESULTS = {"mean": "y_pred_mean", "total": "y_pred_std", "aleatoric": "y_pred_std_aleatoric",
           "epistemic": "y_pred_std_epistemic"}
LOSS = {"mean": "mse", "mean_variance": "gaussian_nll", "quantiles": "quantile",
        "softmax": "cross_entropy", "sigmoid": "bce", "rate": "poisson"}
TARGETS = {"softmax": ["digit", "other"], "sigmoid": ["yes", "no"], "rate": ["count"]}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
ONNX = """
import sys, numpy, onnx, onnxruntime
model, rows, out = sys.argv[1:]
onnx.checker.check_model(onnx.load(model), full_check=True)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
names = [o.name for o in session.get_outputs()]
numpy.savez(out, **dict(zip(names, session.run(None, {"x": numpy.load(rows)}))),
            **{k: numpy.array(v.split(chr(10))) for k, v in session.get_modelmeta().custom_metadata_map.items()})
"""
TORCH = """
import sys, numpy, torch
from model import Ensemble
rows, out = sys.argv[1:]
model, x = Ensemble(), torch.tensor(numpy.load(rows), requires_grad=True)
results = model(x)
slope, = torch.autograd.grad(results[0][:, 0].sum(), x)
single = Ensemble().float()
single.load_state_dict(model.state_dict())
x = x.detach()
torch.jit.trace(model, x, check_trace=True)
torch.save(model, "whole.pt")
saved = torch.load("whole.pt", weights_only=False)(x)
exported = torch.export.export(model, (x,)).module()(x)
member_mean, member_variance = model.members(x)
numpy.savez(out, single=single(x)[0].detach(), slope=slope, column_label=model.column_label,
            member_mean=member_mean.detach(), member_variance=member_variance.detach(),
            saved=torch.stack(saved).detach(), exported=torch.stack(exported).detach(),
            member_index=model.member_index, member_ensemble=model.member_ensemble,
            **dict(zip(("mean", "total", "aleatoric", "epistemic"), (r.detach() for r in results))))
"""


def choices(option):
    text = " ".join(tutti("options", option).out.split())
    return re.search(r" one of (.*?)(?:, or auto)? \(", text)[1].split(", ")


def write_data():
    random = np.random.default_rng(3)
    x = random.normal(size=(80, 4)) * [1, 10, 0.1, 3] + [0, 5, -2, 0]
    u = (x - x.mean(0)) / x.std(0)
    x[:, 1], x[:, 3] = np.exp(x[:, 1] / 10), np.expm1(abs(x[:, 3]))
    y = {"y0": np.sin(u[:, 0]) + u[:, 1], "y1": 100 * u[:, 2] * u[:, 0],
         "digit": np.arange(80) % 3, "other": np.arange(80) // 3 % 3,
         "yes": u[:, 0] > 0, "no": u[:, 1] > 0.5, "count": np.exp(u[:, 2]).round(),
         "t_e": np.exp(u[:, 0] + u[:, 3]), "n_e": np.expm1(abs(u[:, 1])), "skew": u[:, 2] ** 3 - 2}
    with h5py.File("d.h5", "w") as f:
        f["x"] = x
        f["y"] = np.stack(list(y.values()), axis=1).astype(float)
        f["target_name"] = np.array(list(y), dtype="S5")
        f["feature_name"] = np.array(["length */ evil", "b", "c", "d"], dtype="S20")
    with h5py.File("rows.h5", "w") as f:
        f["x"] = x[::-1][:17] * 1.3


def train():
    """One ensemble for each activation, one for each output; small networks in few epochs."""
    activations, outputs = choices("model.activation"), choices("model.output")
    ensembles = [(a, "mean_variance") for a in activations] + [("tanh", o) for o in outputs]
    rows = []
    for i, (activation, output) in enumerate(ensembles):
        rows.append({"name": f"e{i}", "members": 3, "targets": TARGETS.get(output, ["y0", "y1"]),
                     "model": {"activation": activation, "output": output, "hidden": [7, 7],
                               "layer_norm": i % 3 == 1, "residual": i % 2 == 0},
                     "train": {"loss": LOSS[output]}})
    rows.append({"name": "twin", "members": 2, "targets": ["y1", "y0"], "model": rows[0]["model"],
                 "train": rows[0]["train"]})
    for loss in ("gaussian_nll", "mse", "quantile"):  # two ensembles of transformed targets in a cohort
        for targets in (["t_e", "skew", "y0"], ["n_e", "y1", "t_e"]):
            rows.append({"name": f"{loss}-{targets[0]}", "members": 3, "targets": targets,
                         "model": {"hidden": [5]}, "train": {"loss": loss}})
    fronts = [{"profile": [2, 2], "front": ["conv 6 3", "group_norm 2", "residual 3", "conv 4 3 groups 2",
                                            "dropout", "conv 6 1", "group_norm 3", "pool max 2"]},
              {"image": [1, 2, 2], "front": ["residual 1", "pool mean 1", "conv 4 2 pad 2", "pool max 2 stride 1",
                                             "residual 2", "conv 3 3", "conv 4 3", "global_mean"]},
              {"profile": [1, 4], "front": ["conv 4 2 dilation 2 pad 2 stride 2", "pool mean 2"]},
              {"profile": [1, 4], "front": ["conv 4 3 activation none", "pool max 3 stride 2 pad 1", "batch_norm",
                                            "residual 3 project activate", "conv 3 3", "conv 5 3 stride 2", "batch_norm",
                                            "residual 2", "conv 3 3 activation tanh", "conv 5 3"]},
              {"profile": [1, 4], "front": ["basic 4 stride 2 times 2", "residual 2 project", "conv 6 3 stride 2",
                                            "group_norm 1"]},
              {"image": [1, 2, 2], "front": ["batch_norm", "pool mean 2 stride 1 pad 1", "bottleneck 2 8", "residual 1 project activate",
                                             "conv 4 3 stride 2", "group_norm 2"]}, {"front": ["ple 6"]}]
    for i, front in enumerate(fronts):
        activation = ["silu", "relu", "elu", "tanh", "relu", "silu", "silu"][i]
        rows.append({"name": f"f{i}", "members": 3, "targets": ["y0", "y1"], "train": {"dropout": 0.1},
                     "model": {**front, "hidden": [5] * (i != 2), "activation": activation}})
    rows.append({"name": "mixed", "targets": ["t_e", "skew", "y0"], "train": {"loss": "gaussian_nll"}, "networks": [
        {"members": 3, "model": {"hidden": [5]}}, {"members": 2, "model": {**fronts[0], "hidden": [4], "activation": "elu"}},
        {"members": 2, "model": {"hidden": [6, 6], "layer_norm": True, "residual": True}}]})
    for i, loss in enumerate(("gaussian_nll", "quantile")):  # members with scales of their own
        rows.append({"name": f"folds-{loss}", "members": 4 - i, "targets": ["t_e", "skew", "y0"], "model": {"hidden": [5]},
                     "train": {"loss": loss, "resample": "kfold", "folds": 3 + i}})
    rows.append({"name": "mixed-folds", "targets": ["y0", "y1"], "train": {"resample": "kfold", "folds": 2}, "networks": [
        {"members": 3, "model": {"hidden": [5]}}, {"members": 1, "model": {**fronts[0], "hidden": [4]}}]})
    rows.append({"name": "auto", "members": 1, "targets": ["y0", "y1"], "model": "auto"})
    rows.append({"name": "linear", "members": 2, "targets": ["y0"], "model": {"hidden": []}})
    how = {"length */ evil": "yeo_johnson", "b": "log", "c": "minmax", "d": "log1p",
           "t_e": "log", "n_e": "log1p", "skew": "yeo_johnson"}
    job = {"data": {"file": "d.h5", "normalize": how,
                    "split": {"train": 0.7, "validation": 0.3, "test": 0}},
           "model": {"quantiles": [0.1, 0.5, 0.9]}, "train": {"epochs": 4, "learning_rate": 0.03},
           "combine": {"method": "weights"}, "ensembles": rows,
           "run": {"device": "cpu", "threads": 1}}
    tutti("train", "-q", write_json("job.yaml", job))
    columns = len(predict()[2])
    with h5py.File("out/model.h5", "r+") as f:
        f["status"][1] = 3  # a member that predictions leave out
        f["member_weight"][1] = 0.0
        f["calibration/std_scale"][...] = np.linspace(0.5, 2, columns)
        f["calibration/noise"][...] = 0.3 * (np.arange(columns) % 3)
        seal(f)


def predict():
    tutti("predict", "out/model.h5", "rows.h5", "-q", "--force")
    with h5py.File("pred.h5") as f, h5py.File("rows.h5") as rows:
        labels = f["column_label"][()]
        return (rows["x"][()], {name: f[variable][()] for name, variable in RESULTS.items()},
                [bytes(label).decode().rstrip("\0") for label in labels.view(f"S{labels.shape[1]}")[:, 0]])


def compare(what, got, want):
    """1e-6 of the size of a column: its largest mean or standard deviation."""
    size = np.maximum(abs(want["mean"]), want["total"]).max(axis=0)
    worst = max((abs(got[name] - want[name]) / size).max() for name in RESULTS)
    print(f"{what}: {worst:.1e} apart, {want['mean'].shape[1]} columns")
    assert worst <= 1e-6 and all(np.isfinite(got[name]).all() for name in RESULTS), what


def with_categories():
    """Another folder with a model of levels and missing values; its rows have another level."""
    os.mkdir("levels")
    os.chdir("levels")
    random = np.random.default_rng(5)
    x = np.stack([np.exp(random.normal(size=60)), random.choice([-1, 2.5, 7], 60),
                  random.normal(size=60), random.normal(size=60)], 1)
    y = x[:, 0] + (x[:, 1] == 2.5) + x[:, 2]
    x[::5, 2] = x[::7, 3] = np.nan
    for name, rows in (("d.h5", 60), ("rows.h5", 17)):
        with h5py.File(name, "w") as f:
            f["x"], f["y"] = x[:rows], y[:rows]
            f["feature_name"] = np.array(["length */ evil", "b", "c", "d"], dtype="S20")
            if rows == 17:
                f["x"][2, 1] = 99
    job = {"data": {"file": "d.h5", "categories": {"b": "zeros"}, "normalize": {"length */ evil": "log"},
                    "missing": {"c": "indicator", "d": "median"}},
           "model": {"hidden": [5], "front": ["ple 3"]}, "train": {"loss": "gaussian_nll", "epochs": 4},
           "ensembles": [{"name": "e", "members": 2, "target": "y0"}],
           "run": {"device": "cpu", "threads": 1}}
    tutti("train", "-q", write_json("job.yaml", job))


def members_of_c(function, x):
    """The function of one member, by the numbers of model.h5; none for members that are not used."""
    tutti("predict", "out/model.h5", "rows.h5", "-q", "--force", "--members")
    with h5py.File("pred.h5") as f, h5py.File("out/model.h5") as model:
        want = np.stack([f["y_member_mean"], f["y_member_variance"]], 2)  # [members][rows][2][width]
        used = model["member_weight"][()] > 0
    got = np.full_like(want, np.nan)
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    for g, r in np.ndindex(len(used), len(x)):
        n = function(g, pointer(x[r]), pointer(got[g, r, 0]), pointer(got[g, r, 1]))
        assert n == (np.isfinite(want[g, r, 0]).sum() if used[g] else 0), (g, n)
    assert function(len(used), pointer(x[0]), None, None) == function(-1, pointer(x[0]), None, None) == 0
    got, want = got[used], want[used]
    size = np.nan_to_num(np.maximum(abs(want[:, :, 0]), np.sqrt(want[:, :, 1]))).max(axis=1, keepdims=True)
    for p in (0, 1):
        worst = np.nan_to_num(abs(got[:, :, p] - want[:, :, p]) / size ** (p + 1)).max()
        print(f"C, members: {worst:.1e} apart")
        assert worst <= 3e-6, (p, worst)


def by_c(cc, x, want):
    tutti("export", "out/model.h5", "--c", "-o", "a-model.c", "-q")
    run(cc, "-std=c17", "-O1", *WARNINGS, "-fPIC", "-shared", "a-model.c", "-o", "./a.so", "-lm")
    function = ctypes.CDLL(os.path.abspath("a.so")).a_model_predict
    got = {name: np.empty_like(want[name]) for name in RESULTS}
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    for r in range(len(x)):
        function(pointer(x[r]), *(pointer(got[name][r]) for name in RESULTS))
    compare("C", got, want)
    members_of_c(ctypes.CDLL(os.path.abspath("a.so")).a_model_member, x)
    again = np.empty_like(want["total"])
    for r in range(len(x)):
        function(pointer(x[r]), None, pointer(again[r]), None, None)
    assert (again == got["total"]).all()


def check_member_numbers(of):
    """Ensemble and number of each member that predictions use."""
    with h5py.File("out/model.h5") as f:
        weight, index, ensemble = (f[name][()] for name in (
            "member_weight", "member_index", "ensemble_of_member"))
        names = np.array([bytes(name).decode().rstrip("\0") for name in f["ensemble_name"]])
    assert list(of["member_index"]) == list(index[weight > 0]), of["member_index"]
    assert list(of["member_ensemble"]) == list(names[ensemble[weight > 0]])
    return weight > 0


def by_numpy(x, want, labels):
    read = model_numpy.read_model("out/model.h5")
    compare("NumPy", dict(zip(RESULTS, model_numpy.predict(read, x))), want)
    assert read["column_label"] == labels and len(read["input_name"]) == 4
    assert len(read["column_units"]) == len(read["column_ensemble"]) == len(labels)
    check_member_numbers(read)


def by_onnx(python, x, want, labels):
    tutti("export", "out/model.h5", "--onnx", "-q")
    np.save("rows.npy", x)
    run(python, "-c", ONNX, "model.onnx", "rows.npy", "onnx.npz")
    got = np.load("onnx.npz")
    compare("onnxruntime", got, want)
    assert list(got["column_label"]) == labels and list(got["input_name"])[1:] == ["b", "c", "d"]


def by_onnx_numpy(x, want, labels):
    tutti("export", "out/model.h5", "--onnx", "-q")
    with np.errstate(all="ignore"):  # of values that Where does not take
        (got, texts), one = onnx_numpy.run("model.onnx", x), onnx_numpy.run("model.onnx", x[:1])[0]
    compare("ONNX", got, want)
    assert texts["column_label"].split("\n") == labels
    assert texts["input_name"].split("\n")[1:] == ["b", "c", "d"] and len(texts) == 7
    with h5py.File("out/model.h5") as f:
        content = np.bytes_(f.attrs["content_hash_xxh3"]).decode()
    assert texts["model"] == os.path.abspath("out/model.h5") and texts["model_hash_xxh3"] == content
    tutti("export", "out/model.h5", "--c", "-q", "-o", "named.c")
    head = pathlib.Path("named.c").read_text()[:1000]
    assert os.path.abspath("out/model.h5") in head and content in head, head
    assert one["mean"].shape == (1, len(labels))


def by_torch_file():
    """Without PyTorch: the file is the program of the tree, with model.h5."""
    tutti("export", "out/model.h5", "--torch", "-q")
    program, found, model = pathlib.Path("model.py").read_text().partition('MODEL = """\n')
    assert found and model.endswith('\n"""\n') and program == model_numpy.TORCH_MODULE.read_text()
    assert max(map(len, model.split("\n"))) == 76
    assert base64.b64decode(model[:-4]) == pathlib.Path("out/model.h5").read_bytes()


def check_members(got, mean, variance):
    used = check_member_numbers(got)
    size = np.nan_to_num(np.maximum(abs(mean), np.sqrt(variance))[used]).max(axis=1, keepdims=True)
    for name, want, unit in (("member_mean", mean, size), ("member_variance", variance, size ** 2)):
        assert got[name].shape == want[used].shape, (name, got[name].shape, want[used].shape)
        assert (np.isnan(got[name]) == np.isnan(want[used])).all(), name
        worst = np.nan_to_num(abs(got[name] - want[used]) / unit).max()
        print(f"{name}: {worst:.1e} apart")
        assert worst <= 3e-6, (name, worst)


def by_torch(python, x, want, labels):
    tutti("export", "out/model.h5", "--torch", "-q")
    tutti("predict", "out/model.h5", "rows.h5", "-q", "--force", "--jacobian", "--members")
    np.save("rows.npy", x)
    run(python, "-c", TORCH, "rows.npy", "torch.npz")
    got = np.load("torch.npz")
    compare("PyTorch", got, want)
    for way in ("saved", "exported"):
        compare(f"PyTorch, {way}", dict(zip(RESULTS, got[way])), want)
    size = np.maximum(abs(want["mean"]), want["total"]).max(axis=0)
    assert (abs(got["single"] - want["mean"]) <= 1e-3 * size).all() and list(got["column_label"]) == labels
    with h5py.File("pred.h5") as f:
        slope = f["y_pred_mean_jacobian"][:, 0]
        check_members(got, f["y_member_mean"][()], f["y_member_variance"][()])
    assert (abs(got["slope"] - slope) <= 1e-5 * abs(slope).max(axis=0)).all(), (got["slope"], slope)


def python_with(packages, variable, advice):
    python = os.environ.get(variable, sys.executable)
    if subprocess.run([python, "-c", f"import {packages}"], capture_output=True).returncode:
        skip(f"{python} has no {packages}: {advice}; {variable}=$PWD/v/bin/python")
    return python


def refusals():
    error = tutti("export", "out/model.h5", code=64).err
    assert "exactly one of --onnx, --c and --torch" in error, error
    tutti("export", "out/model.h5", "--c", "--onnx", code=64)
    tutti("export", "none.h5", "--c", code=66)
    error = tutti("export", "out/model.h5", "--c", "-o", "a-model.c", code=73).err
    assert "--force" in error, error
    tutti("export", "out/model.h5", "--torch", "-o", "a-model.c", "--force")
    assert pathlib.Path("a-model.c").read_text().startswith(model_numpy.TORCH_MODULE.read_text())
    tutti("export", "out/model.h5", "--c", "-o", "no/folder.c", code=73)
    wide = {"data": {"file": "d.h5"}, "model": {"profile": [1, 4], "front": ["conv 11000 1"], "hidden": []},
            "ensembles": [{"name": "wide", "members": 1, "target": "y0"}], "train": {"epochs": 1},
            "run": {"device": "cpu", "threads": 1, "directory": "wide"}}
    tutti("train", "-q", write_json("wide.yaml", wide))
    error = tutti("export", "wide/model.h5", "--c", "-o", "wide.c", code=64).err
    assert "44000 values for each row, in a C file it may have 43690" in error, error
    with h5py.File("out/model.h5", "r+") as f:
        f["status"][:3] = 3
        f["member_weight"][:3] = 0.0
        seal(f)
    error = tutti("export", "out/model.h5", "--torch", "-o", "dead.py", code=64).err
    assert "no member of ensemble 'e0' can predict" in error, error
    assert not pathlib.Path("dead.py").exists()


def main():
    cc = sys.argv[1]
    by_other = None
    if "--onnx" in sys.argv:
        by_other, python = by_onnx, python_with(
            "onnx, onnxruntime", "TUTTI_ONNX_PYTHON",
            "python3 -m venv v; v/bin/pip install onnx==1.23.2 onnxruntime==1.32.0")
    if "--torch" in sys.argv:
        by_other, python = by_torch, python_with(
            "torch, numpy, h5py", "TUTTI_TORCH_PYTHON", "python3 -m venv v; v/bin/pip install torch numpy h5py")
    write_data()
    train()
    x, want, labels = predict()
    if by_other:
        by_other(python, x, want, labels)
        with_categories()
        by_other(python, *predict())
        return
    by_c(cc, x, want)
    by_numpy(x, want, labels)
    by_onnx_numpy(x, want, labels)
    by_torch_file()
    refusals()
    with_categories()
    x, want, labels = predict()
    by_c(cc, x, want)
    by_numpy(x, want, labels)
    by_onnx_numpy(x, want, labels)


test(main)
