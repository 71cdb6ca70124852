#!/usr/bin/python3
"""Axes of every file that the program writes: each has a dimension scale, and names where its elements
have names; units are those of UDUNITS; members have scores of their own targets alone.
"""
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
import netCDF4
import output_files
from rig import check, h5py, np, test, tutti, write_json

UNITS = {"1", "s"}  # of the program; the data have none
NAMED = ("feature", "target", "ensemble", "column", "list", "stage", "network_input")


def datasets(f):
    """{path: dataset} of a file."""
    found = {}
    f.visititems(lambda path, item: found.update({path: item}) if isinstance(item, h5py.Dataset) else None)
    return found


def check_scales(name, f):
    all_of = datasets(f)
    texts = set()  # axes of lists of texts
    for path, d in all_of.items():
        if d.dtype.kind == "S" and d.ndim == 2 and len(d.dims[0]):
            texts.add(d.dims[0][0].name)
        units = d.attrs.get("units", b"1").decode()
        check(units in UNITS, f"{name}: {path} has units {units!r}")
        if h5py.h5ds.is_scale(d.id):
            continue
        for axis in range(d.ndim):
            sizes = [s.shape[0] for s in d.dims[axis].values()]
            check(sizes in ([d.shape[axis]], [0]), f"{name}: axis {axis} of {path} {d.shape} has scales of sizes {sizes}")
    for path, d in all_of.items():
        if h5py.h5ds.is_scale(d.id) and path.rpartition("/")[2] in NAMED:
            check(d.name in texts, f"{name}: axis {path} has no names")
    with netCDF4.Dataset(f.filename) as nc:
        for group in (nc, *nc.groups.values()):
            phony = [d for d in group.dimensions if d.startswith("phony")]
            check(not phony, f"{name}: {group.path} has dimensions without a name: {phony}")


def texts_of(f, path):
    return [b"".join(row).rstrip(b"\0").decode() for row in f[path][()]]


def check_member_scores(name, f):
    """NaN exactly where the ensemble of a member does not predict the target."""
    targets, owner = texts_of(f, "target_name"), texts_of(f, "ensemble")
    pairs = set(zip(texts_of(f, "column_ensemble"), texts_of(f, "column_target")))
    own = np.array([[(o, t) in pairs for t in targets] for o in owner])
    check(0 < own.sum() < own.size, f"{name}: every member has every target, the check checks nothing")
    scores = [f[n] for n in f if n.startswith("test_") and f[n].ndim == 2]
    check(all((np.isnan(s[()]) | own).all() for s in scores), f"{name}: scores of targets of other ensembles")
    check((np.any([np.isfinite(s[()]) for s in scores], axis=0) == own).all(), f"{name}: scores are missing")


def check_places(name, f):
    """member_column has the columns of the ensemble of the member, then -1."""
    owner, columns = texts_of(f, "ensemble"), texts_of(f, "column_ensemble")
    for member, places in zip(owner, f["member_column"][()]):
        own = [k for k, of in enumerate(columns) if of == member]
        if f["member_column"].dims[1][0].name == "/ensemble_target":
            own = [k for k in own if k == 0 or texts_of(f, "column_target")[k] != texts_of(f, "column_target")[k - 1]
                   or columns[k] != columns[k - 1]]
        check(list(places) == own + [-1] * (len(places) - len(own)), f"{name}: {member} has columns {places}, own {own}")


def check_long_names():
    """The columns of a target whose name has 600 characters keep their whole names."""
    name = "t" * 600
    rows = "".join(f"{i % 7},{i * i % 11},{i % 5}\n" for i in range(60))
    pathlib.Path("long.csv").write_text(f"a,b,{name}\n{rows}")
    tutti("train", write_json("long.json", {
        "data": {"file": "long.csv", "targets": [name]}, "model": {"hidden": [4]},
        "ensembles": [{"name": "e", "members": 2}], "train": {"epochs": 1, "loss": "quantile"},
        "run": {"directory": "long"}}))
    for file in ("model.h5", "results.h5"):
        with h5py.File(f"long/{file}") as f:
            labels = texts_of(f, "column_label")
            check(len(set(labels)) == 5 and all(label.startswith(name + " q") for label in labels),
                  f"{file}: columns of a long name: {[label[-12:] for label in labels]}")


def main():
    check_long_names()
    for name, path in output_files.make().items():
        with h5py.File(path) as f:
            check_scales(name, f)
            if "test_nll" in f:
                check_member_scores(name, f)
            if name.endswith(("queries.h5", "input.h5")):  # ids of the pool, by the number of the candidate
                number = f["row" if "row" in f else "id"][()]
                check(texts_of(f, "sample_id") == [f"pool {n}" for n in number], f"{name}: ids of the candidates")
            if "member_column" in f:
                check_places(name, f)
            if "y_pred_mean" in f and "y_true" not in f:
                check((f["sample"][()] == np.arange(len(f["y_pred_mean"]))).all(), f"{name}: sample is not the row")


test(main)
