#!/usr/bin/python3
"""The tables of `tutti report` equal what numpy computes from the same results.h5, and the SVG
shows these values.

    check_report.py TUTTI RESULTS.h5
"""
import pathlib
import subprocess
import sys
import tempfile
import warnings

import h5py
import numpy as np
from check_campaign_report import SVG, check_picture

ROOT = pathlib.Path(__file__).resolve().parents[3]


def table(path):
    lines = path.read_text().splitlines()
    return lines[0].split("\t"), np.array([line.split("\t") for line in lines[1:]], dtype=float)


def texts(dataset):
    return [b"".join(row).rstrip(b"\0").decode() for row in dataset[()]]


def expected_history(f):
    """Columns by name: the quantiles over the members still in training."""
    owner = np.array(texts(f["ensemble"]))
    columns = {"epoch": np.arange(f["epoch"].shape[0], dtype=float)}
    for name in dict.fromkeys(owner):
        for part in ("train", "validation"):
            loss = f["loss_" + part][owner == name].astype(float)
            if part == "train":
                columns[f"{name}.members"] = np.isfinite(loss).sum(axis=0)
            for q in (10, 50, 90):
                columns[f"{name}.{part}_q{q}"] = np.nanquantile(loss, q / 100, axis=0)
    return columns


def expected_predictions(f):
    columns = {"row": f["sample"][()]}
    parts = {"true": "y_true", "mean": "y_pred_mean", "std": "y_pred_std",
             "std_aleatoric": "y_pred_std_aleatoric", "std_epistemic": "y_pred_std_epistemic"}
    names = zip(texts(f["column_ensemble"]), texts(f["column_target"]))
    for k, (ensemble, target) in enumerate(names):
        for part, variable in parts.items():
            columns[f"{ensemble}.{target}.{part}"] = f[variable][:, k]
    return columns


def compare(path, expected):
    header, values = table(path)
    if header != list(expected):
        return [f"{path.name}: columns {header}, expected {list(expected)}"]
    return [f"{path.name}: column '{name}' is {values[:, i]}, expected {column}"
            for i, (name, column) in enumerate(expected.items())
            if not np.allclose(values[:, i], column, rtol=1e-8, equal_nan=True)]


def check_charts(path, f):
    """Three charts of each target, and a point for each test row that has a label."""
    picture = check_picture(path)
    said = [text.text for text in picture.iter(SVG + "text")]
    names = list(zip(texts(f["column_ensemble"]), texts(f["column_target"])))
    titles = [f"{ensemble}: {target}" for ensemble, target in dict.fromkeys(names)]
    missing = [t for t in titles + ["Learning curves", "members training", "Calibration"] if t not in said]
    labels = np.isfinite(f["y_true"][()] + f["y_pred_mean"][()]).sum()
    points = len([mark for mark in picture.iter(SVG + "circle") if mark.get("class") == "mark m0"])
    if points < labels:
        missing.append(f"{labels} points, not {points}")
    return [f"{path.name}: no {what}" for what in missing]


def main(tutti, results):
    with tempfile.TemporaryDirectory() as made, h5py.File(results, "r") as f:
        folder = pathlib.Path(made) / "tables"
        other = pathlib.Path(made) / "other.txt"
        other.write_text("mine")
        folder.mkdir()
        for name in ("history.tsv", "predictions.tsv", "report.svg"):
            (folder / name).symlink_to(other)  # a link is not replaced; with --force, not followed
        refused = subprocess.run([tutti, "report", results, "-o", str(folder)], stderr=subprocess.PIPE)
        assert refused.returncode == 73 and b"--force" in refused.stderr, refused
        subprocess.run([tutti, "report", results, "-o", str(folder), "--force"], check=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # epochs without a member
            faults = compare(folder / "history.tsv", expected_history(f))
        faults += compare(folder / "predictions.tsv", expected_predictions(f))
        faults += check_charts(folder / "report.svg", f)
        faults += [] if other.read_text() == "mine" else ["a file was written through a link"]
        faults += [f"left behind: {p.name}" for p in folder.glob(".tmp-*")]
    for picture in ("docs/energy.svg", "examples/active-learning/learning.svg"):
        check_picture(ROOT / picture)
    print("\n".join(faults) or "equal to numpy")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
