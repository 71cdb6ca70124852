#!/usr/bin/python3
"""by: the ensemble of a group is that of a job with its rows alone, bit for bit, on any number of
ranks and in any order of the groups; predictions go to the ensemble of each row.
"""
import csv
import ctypes
import importlib.util
import pathlib
import shutil
import resource
import sys
from unittest import mock

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
import model_numpy
import onnx_numpy
from rig import (check, check_same, h5py, kill_when_saved, np, package, run, test, tutti,
                 write_json)

SIZES = {"5": 33, "17": 40, "Bergen": 60, "Oslo": 48, "Rome, IT": 36, "tiny": 4, "flat": 30}
JOB = {"by": "station", "data": {"inputs": ["a", "b"], "targets": "y", "split": {"test": 0.2, "train": 0.6, "validation": 0.2}},
       "model": {"hidden": [6], "front": ["ple 4"]}, "train": {"epochs": 8, "patience": 3, "resample": "bootstrap"},
       "calibration": {"conformal": [0.8]}, "ensembles": [{"name": "all", "members": 3}],
       "run": {"device": "cpu"}}
PER_ROW = ["y_true", "y_pred_mean", "y_pred_std", "y_pred_std_epistemic"]


def write_rows(path, rows, columns=("station", "season", "a", "b", "y")):
    with open(path, "w", newline="") as f:
        csv.writer(f).writerows([columns] + [[row[c] for c in columns] for row in rows])
    return path


def make_rows():
    rng, rows = np.random.default_rng(3), []
    for number, (name, size) in enumerate(SIZES.items()):
        a, b = rng.normal(size=(2, size))
        y = (number + 1) * a + np.sin(b) + 10 * number + 0.1 * rng.normal(size=size)
        y = np.full(size, 7.0) if name == "flat" else y
        rows += [{"station": name, "season": "ws"[i % 2], "a": repr(float(a[i])),
                  "b": repr(float(b[i])), "y": repr(float(y[i]))} for i in range(size)]
    return [rows[i] for i in rng.permutation(len(rows))]


def texts(f, name):
    return [t.decode() for t in f[name][()].view(f"S{f[name].shape[1]}").ravel()]


def train(out, file, job=JOB, **how):
    job = {**job, "data": {**job["data"], "file": file}, "run": {**job["run"], "directory": out}}
    return tutti("train", write_json(f"{out}.json", job), "--resume", "never", **how)


def check_law(rows, out="out", job=JOB):
    """Everything that both runs have is equal: of members, columns, and test rows of the group."""
    with h5py.File(f"{out}/model.h5") as model, h5py.File(f"{out}/results.h5") as results:
        names, each = texts(model, "ensemble_name"), 3
        check(names == ["(pooled)", "5", "17", "Bergen", "Oslo", "Rome, IT", "flat"], names)
        check(texts(model, "by/small_name") == ["tiny"] and model["by/small_rows"][0] == 4, "small")
        for g, name in enumerate(names):
            own = [r for r in rows if name in (r["station"], "(pooled)")]
            train("one", write_rows("one.csv", own), {k: v for k, v in job.items() if k != "by"})
            params = len(model["net/parameters"]) // len(names)
            with h5py.File("one/model.h5") as one, h5py.File("one/results.h5") as scores:
                pairs = [(one["net/parameters"][()], model["net/parameters"][g * params:][:params]),
                         (one["calibration/conformal_width"][()],
                          model["calibration/conformal_width"][:, g:g + 1])]
                pairs += [(one["typical_epistemic"][()], model["typical_epistemic"][g:g + 1])]
                pairs += [(v[()], model[f"scaler/{k}"][g]) for k, v in one["scaler"].items()
                          if v.dtype == float]
                pairs += [(v[()], results[k][g]) for k, v in scores.items()
                          if k.startswith(("ensemble_", "oob_")) and v.dtype == float and v.ndim == 1]
                pairs += [(scores[k][()], results[k][()][g * each:][:each])
                          for k in ("loss_train", "loss_validation", "best_epoch", "test_rmse")]
                if g:
                    mine = results["sample_group"][()] == g
                    pairs += [(scores[k][()], results[k][()][mine]) for k in PER_ROW]
                    place = [i for i, r in enumerate(rows) if r["station"] == name]
                    check(list(results["sample"][()][mine]) == [place[i] for i in scores["sample"]],
                          f"{name}: rows of the file")
            check(len(pairs) > 25 and all(np.array_equal(*p, equal_nan=True) for p in pairs),
                  f"group {name}: {[i for i, p in enumerate(pairs) if not np.array_equal(*p, equal_nan=True)]}")


def check_predictions(rows):
    new = rows[:30] + [{**rows[0], "station": n} for n in ("tiny", "Nowhere", "Oslo", "flat", "05.0")]
    said = tutti("predict", "out/model.h5", write_rows("new.csv", new), "-o", "p.h5", "--quantiles",
                 "0.1,0.9", ranks=2)
    check("1 row of 1 unknown group, for example 'Nowhere': predicted by" in said, said)
    tutti("predict", "out/model.h5", "new.csv", "-o", "p.csv")
    with h5py.File("p.h5") as f, open("p.csv", newline="") as table:
        group = [texts(f, "group")[i] for i in f["sample_group"]]
        own = f["group_own"][()][f["sample_group"][()]]
        check(group == [r["station"] for r in new[:-1]] + ["5"], group)  # 05.0 is the number 5
        flat = group.index("flat")
        check(abs(f["y_pred_mean"][flat, 0] - 7) < 1e-5 and f["y_pred_std"][flat, 0] < 1e-5, "flat")
        check(list(own) == [int(g not in ("tiny", "Nowhere")) for g in group], own)
        lines = list(csv.DictReader(table))
        check([r["station"] for r in lines[:-1]] == group[:-1] and
              np.allclose([float(r["y_mean"]) for r in lines], f["y_pred_mean"][:, 0]), "table")
        for name in ("Oslo", "tiny", "(pooled)"):
            tutti("predict", "out/model.h5", "new.csv", "-o", "q.h5", "--force", "--group", name,
                  "--quantiles", "0.1,0.9")
            mine = [i for i, n in enumerate(group)
                    if n == name or (name == "(pooled)" and not own[i])]
            with h5py.File("q.h5") as q:
                for k in ["y_pred_quantile", "y_pred_lower", "leverage"] + PER_ROW[1:]:
                    same = np.array_equal(q[k][()][..., mine, :], f[k][()][..., mine, :])
                    check(same and len(mine), f"predict --group {name}: {k}")
        if package():
            model = package().Model("out/model.h5", group="Oslo")
            i = group.index("Oslo")
            got = model.predict([[float(new[i]["a"]), float(new[i]["b"])]]).mean
            check(np.array_equal(np.ravel(got), f["y_pred_mean"][i]), got)


def check_refused(rows):
    tutti("predict", "out/model.h5", "new.csv", "--group", "Osla", code=64, says="did you mean 'Oslo'")
    tutti("export", "out/model.h5", "--torch", "--group", "Oslo", code=64, says="writes all groups")
    tutti("export", "out/model.h5", "--onnx", "-o", ".", code=73, says="exists")
    tutti("export", "out/model.h5", "--c", "-o", "Oslo.c", "--group", "Oslo")
    check("Oslo_predict(const double *x" in pathlib.Path("Oslo.c").read_text(), "Oslo.c")
    for change, says in (({"search": {"preset": "good"}}, "by and search cannot be used together"),
                         ({"ensembles": [{"name": n} for n in "ab"]}, "by needs one ensemble"),
                         ({"train": {"label_noise": 0.1}}, "by and train.label_noise cannot be used together"),
                         ({"by_transfer": "pooled"}, "by_transfer and train.resample cannot be used together")):
        train("bad", "d.csv", {**JOB, **change}, code=78, says=says)
    gap = [{**r, "z": "" if r["station"] == "Oslo" else r["a"]} for r in rows]
    write_rows("z.csv", gap, ("station", "a", "b", "y", "z"))
    said = train("z", "z.csv", {**JOB, "data": {**JOB["data"], "targets": ["y", "z"]}})
    check("Oslo (48)" in said, said)
    train("bad", "d.csv", {**JOB, "by": "stat"}, code=65, says="station")
    train("bad", "d.csv", {**JOB, "by_min_rows": 100, "by_small": "none"}, code=65,
          says="none of the 7 groups has 100 rows")
    train("bad", write_rows("gap.csv", [{**rows[0], "station": ""}] + rows), code=65,
          says="the value is missing (by)")


def check_export(model, new, names, transformed=""):
    """One C file with all groups: the predictions of tutti predict; unknown groups have those of all rows."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return
    tutti("predict", model, new, "-o", "e.h5", "--force")
    tutti("export", model, "--c", "-o", f"all{transformed}.c")
    run(compiler, "-std=c17", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fPIC", "-shared",
        f"all{transformed}.c", "-o", f"./all{transformed}.so", "-lm")
    predict = getattr(ctypes.CDLL(f"./all{transformed}.so"), f"all{transformed}_predict")
    with open(new, newline="") as table, h5py.File("e.h5") as f:
        own = f["group_own"][()][f["sample_group"][()]]
        for i, row in enumerate(csv.DictReader(table)):
            x, out = (ctypes.c_double * 2)(float(row["a"]), float(row["b"])), (ctypes.c_double * 4)()
            at = [ctypes.byref(out, 8 * k) for k in range(4)]
            name = "5" if row["station"] == "05.0" else row["station"]
            check(predict(name.encode(), x, *at) == own[i], f"C: {name}")
            want = [f[k][i, 0] for k in names]
            check(np.allclose(out, want, rtol=1e-4, atol=1e-6, equal_nan=True), (name, list(out), want))


def check_export_each(rows):
    """ONNX has a file for each group, the module of PyTorch takes the group: both predict as tutti does."""
    tutti("export", "out/model.h5", "--onnx", "-o", "each")
    stations = [n for n in SIZES if n != "tiny"] + ["(pooled)"]
    check({p.name for p in pathlib.Path("each").iterdir()} == {f"{n}.onnx" for n in stations}, "each")
    pathlib.Path("part/Oslo.onnx").mkdir(parents=True)
    tutti("export", "out/model.h5", "--onnx", "-o", "part", "--force", code=73, says="Oslo.onnx")
    check([p.name for p in pathlib.Path("part").iterdir()] == ["Oslo.onnx"], "all files, or none")
    x = np.array([[float(r["a"]), float(r["b"])] for r in rows[:30]])
    for name in stations:
        tutti("predict", "out/model.h5", "new.csv", "-o", "g.h5", "--force", "--group", name)
        got = onnx_numpy.run(f"each/{name}.onnx", x)[0]
        read = model_numpy.read_model("out/model.h5", name)
        module = dict(zip(("mean", "total", "aleatoric", "epistemic"), model_numpy.predict(read, x)))
        with h5py.File("g.h5") as f:
            for k, key in (("mean", "y_pred_mean"), ("total", "y_pred_std"), ("epistemic", "y_pred_std_epistemic")):
                want = f[key][:30]
                check(np.allclose(got[k], want, rtol=1e-4, atol=1e-5), f"ONNX {name}: {k}")
                check(np.allclose(module[k], want, rtol=1e-4, atol=1e-5), f"PyTorch {name}: {k}")
    try:
        check(not model_numpy.read_model("out/model.h5", "Nowhere"), "a group that does not exist")
    except ValueError as e:
        check("choose one of the 7" in str(e), e)


def check_common(rows):
    """by_normalize: all groups have the scales of all rows; with one group both choices give the same."""
    job = {**JOB, "train": {"epochs": 200}, "calibration": {}}
    train("common", "d.csv", {**job, "by_normalize": "common"})
    with h5py.File("common/model.h5") as m, h5py.File("common/results.h5") as r:
        for k in ("x_mean", "x_scale", "y_mean", "y_scale"):
            check((m[f"scaler/{k}"][()] == m[f"scaler/{k}"][0]).all(), k)
        check((r["ensemble_rmse"][1:] < 6).all(), r["ensemble_rmse"][()])
    write_rows("alone.csv", [r for r in rows if r["station"] == "Oslo"])
    for name in ("group", "common"):
        train(f"alone_{name}", "alone.csv", {**JOB, "by_normalize": name})
    with h5py.File("alone_group/model.h5") as a, h5py.File("alone_common/model.h5") as b:
        check(np.array_equal(a["net/parameters"][()], b["net/parameters"][()]), "one group")


def check_transfer(rows):
    """All groups begin with the network of all: its frozen layers are theirs. Same bits on other
    ranks and after a kill in each of the two trainings."""
    job = {**JOB, "by_transfer": "pooled", "train": {"epochs": 400, "freeze": 2},
           "data": {**JOB["data"], "normalize": {"y": "yeo_johnson", "*": "standard"}}}
    said = train("transfer", "d.csv", job)
    check("one ensemble learns from the 247 rows of all groups" in said, said)
    with h5py.File("transfer/model.h5") as m, h5py.File("transfer/transfer/model.h5") as first:
        all_w, w = m["net/parameters"][()].reshape(7, 3, -1), first["net/parameters"][()].reshape(3, -1)
        last = 6 + 1  # of the output layer
        check((all_w[..., :-last] == w[:, :-last]).all(), "frozen layers")
        check((all_w[..., -last:] != w[:, -last:]).any(axis=2).all(), "the last layer")
        check((m["scaler/x_mean"][()] == m["scaler/x_mean"][0]).all(), "common inputs")
        check(len(set(m["scaler/y_mean"][:, 0])) == 7, "targets of each group")
    with h5py.File("transfer/results.h5") as r, h5py.File("transfer/transfer/results.h5") as first:
        tested = r["sample"][()][r["sample_group"][()] > 0]
        check(sorted(tested) == sorted(first["sample"][()]), "both trainings test the same rows")
    train("transfer3", "d.csv", job, ranks=3)
    killed = {**job, "data": {**job["data"], "file": "d.csv"}, "checkpoint": {"every": "0.01s"},
              "run": {**job["run"], "directory": "killed"}}
    for out in ("killed/transfer", "killed"):
        kill_when_saved(out, "train", write_json("killed.json", killed))
    tutti("train", "killed.json")
    check_same("transfer", "transfer3", "killed")
    check_export("transfer/model.h5", "new.csv", [*PER_ROW[1:3], "y_pred_std_aleatoric", PER_ROW[3]], "2")


def check_map(rows):
    """The lines of docs/by.md draw the error of each station at its place; a small one has none."""
    if not all(map(importlib.util.find_spec, ("pandas", "xarray"))):
        return
    stations = list(SIZES)
    write_rows("stations.csv", [{**r, "lat": stations.index(r["station"]), "lon": 9} for r in rows],
               ("station", "lat", "lon", "a", "b", "y"))
    train("out", "stations.csv")
    plot = mock.MagicMock()
    page = (pathlib.Path(__file__).parents[3] / "docs/by.md").read_text()
    with mock.patch.dict(sys.modules, {"matplotlib": mock.MagicMock(pyplot=plot), "matplotlib.pyplot": plot}):
        exec(page.split("```python\n")[1].split("```")[0], {})
    (lon, lat), color = plot.scatter.call_args.args, plot.scatter.call_args.kwargs["c"]
    with h5py.File("out/model.h5") as model, h5py.File("out/results.h5") as results:
        want = dict(zip(texts(model, "ensemble_name"), results["ensemble_rmse"][:, 0]))
    got = {stations[int(y)]: c for y, c in zip(lat, color)}
    check(set(lon) == {9} and set(got) == set(stations), got)
    for name in stations:
        check(np.isclose(got[name], want.get(name, np.nan), equal_nan=True), (name, got[name], want))


def check_diverged(rows):
    """A group whose members all diverge changes no other group, and is left out of the C file."""
    plain = {**JOB, "data": {**JOB["data"], "normalize": {"y": "none", "*": "standard"}},
             "by_small": "none", "calibration": {}}
    wild = [{**r, "station": "wild", "y": f"{(-1) ** i}e30"} for i, r in enumerate(rows[:40])]
    train("calm", "d.csv", plain)
    said = train("wild", write_rows("wild.csv", rows + wild), plain, code=(0, 76))
    with h5py.File("calm/model.h5") as a, h5py.File("wild/model.h5") as b:
        n = len(a["net/parameters"])
        check(texts(b, "ensemble_name")[-1] == "wild" and (b["member_weight"][-3:] == 0).all(), said)
        check(np.array_equal(a["net/parameters"][()], b["net/parameters"][:n]), "a diverged group")
    tutti("predict", "wild/model.h5", "wild.csv", "-o", "w.h5")
    with h5py.File("w.h5") as f:
        none = [r["station"] in ("wild", "tiny") for r in rows + wild]
        check(list(np.isnan(f["y_pred_mean"][:, 0])) == none, "predictions of a diverged group")


def check_without_pooled(rows):
    said = train("classes", write_rows("c.csv", [{**r, "y": i % 3} for i, r in enumerate(rows)]),
                 {**JOB, "calibration": {}, "train": {"epochs": 2, "loss": "cross_entropy"},
                  "model": {"output": "softmax", "classes": 3}})
    check("y: brier" in said and said.count(", quartiles") == 1, said)
    train("none", "d.csv", {**JOB, "by": ["station", "season"], "by_min_rows": 24, "by_small": "none"})
    tutti("predict", "none/model.h5", "new.csv", "-o", "n.h5")
    with h5py.File("none/model.h5") as m, h5py.File("n.h5") as f:
        names = texts(m, "ensemble_name")
        check(names == ["Bergen,s", "Bergen,w", "Oslo,s", "Oslo,w"], names)
        known = f["group_own"][()][f["sample_group"][()]] == 1
        check(np.array_equal(~np.isnan(f["y_pred_mean"][:, 0]), known) and known.any(), known)


def check_expected_size():
    """Files may have 1 MiB, and results.h5 has 0.2: its expected size may not be above the limit."""
    rng, limit = np.random.default_rng(4), 1 << 20
    rows = [dict(zip(("station", "a", "b", "y"), (i // 8, *rng.normal(size=3)))) for i in range(2400)]
    train("many", write_rows("many.csv", rows, ("station", "a", "b", "y")),
          {**JOB, "by_min_rows": 6, "by_small": "none", "calibration": {}, "train": {"epochs": 1},
           "model": {"hidden": [2]}, "ensembles": [{"name": "all", "members": 1}]},
          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))


def main():
    rows = make_rows()
    write_rows("d.csv", rows)
    said = train("out", "d.csv")
    check("by station: 6 groups of 30 to 60 rows, and one ensemble for all rows" in said, said)
    check("1 group has too few rows with labels" in said and "tiny (4)" in said, said)
    check("1 group has one value of a target in all training rows, which is predicted: flat (30)" in said, said)
    check_law(rows)
    kfold = {**JOB, "train": {"epochs": 3, "resample": "kfold", "folds": 3}}
    twice = rows + [r for r in rows if r["station"] == "Oslo"]  # rows of one group are equal
    train("kfold", write_rows("e.csv", twice), kfold)
    check_law(twice, "kfold", kfold)
    train("ranks", "d.csv", ranks=3)
    by_group = sorted(rows, key=lambda r: list(SIZES)[::-1].index(r["station"]))
    train("sorted", write_rows("sorted.csv", by_group))
    check_same("out", "ranks")
    with h5py.File("out/model.h5") as a, h5py.File("sorted/model.h5") as b:
        first = len(a["net/parameters"]) // len(a["ensemble_first"])  # behind those of all rows
        check(np.array_equal(a["net/parameters"][first:], b["net/parameters"][first:]), "sorted")
    check_predictions(rows)
    check_refused(rows)
    check_export("out/model.h5", "new.csv", [*PER_ROW[1:3], "y_pred_std_aleatoric", PER_ROW[3]])
    check_export_each(rows)
    check_common(rows)
    check_transfer(rows)
    check_diverged(rows)
    check_without_pooled(rows)
    check_expected_size()
    check_map(rows)


test(main)
