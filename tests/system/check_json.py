#!/usr/bin/python3
"""--json of every verb that tells something: one object, with the keys of docs/json.md and the
numbers of the files.

    check_json.py TUTTI SOURCE
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import h5py

JOB = """\
title: A "title"
data: {file: samples.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {hidden: [4], output: mean_variance}
ensembles: [{name: one, target: y, members: 3}]
train: {epochs: 5, loss: gaussian_nll}
run: {device: cpu, directory: out}
"""


def run(*command, codes=(0,)):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in codes, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def documented(source):
    """{verb: keys of its object} in docs/json.md."""
    keys, verb = {}, None
    for line in (pathlib.Path(source) / "docs/json.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and ("`" in cells[1] or (not cells[1] and verb)):
            verb = cells[1].replace("`", "") or verb
            keys.setdefault(verb, set()).update(re.findall(r"`(\w+)`", cells[2]))
    return keys


def check_keys(keys, verb, got, lists):
    """The keys of the object, and those of the elements of its lists, are in the page."""
    assert set(got) == keys[verb], (verb, set(got) ^ keys[verb])
    for name in lists:
        assert got[name] and all(set(row) == set(got[name][0]) for row in got[name]), (verb, name)


def main(tutti, source):
    keys = documented(source)
    text = (pathlib.Path(source) / "docs/json.md").read_text()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        rows = "\n".join(f"{i % 7},{i % 5},{(i * i) % 11}" for i in range(60))
        pathlib.Path("samples.csv").write_text("a,b,y\n" + rows + "\n")
        run(tutti, "import", "samples.csv", "-o", "samples.h5", "--inputs", "a,b", "--targets", "y")
        pathlib.Path("job.yaml").write_text(JOB)
        run(tutti, "train", "job.yaml", "-q")
        got = {verb: json.loads(run(tutti, *words, "--json", codes=(0, 69) if verb == "doctor" else (0,)))
               for verb, words in (("info", ["info", "out/model.h5"]), ("plan", ["plan", "job.yaml", "--ranks", "2"]),
                                   ("report", ["report", "out"]), ("doctor", ["doctor"]),
                                   ("options", ["options"]), ("status", ["status", "out"]))}
        check_keys(keys, "info", got["info"], [])
        check_keys(keys, "plan", got["plan"], ["cohorts"])
        check_keys(keys, "report", got["report"], ["targets"])
        check_keys(keys, "doctor", got["doctor"], ["ranks"])
        check_keys(keys, "options", got["options"], ["options"])
        for verb, name in (("plan", "cohorts"), ("report", "targets"), ("doctor", "ranks"), ("options", "options")):
            for key in got[verb][name][0]:
                assert f"`{key}`" in text, (verb, name, key)
        for key in got["info"]["provenance"]:
            assert f"`{key}`" in text, key
        with h5py.File("out/results.h5") as f:
            rmse, inside = f["ensemble_rmse"][0], f["coverage"][1, 0]
        target = got["report"]["targets"][0]
        assert abs(target["rmse"] - rmse) < 1e-9 and abs(target["coverage"] - inside) < 1e-9, target
        assert got["info"]["title"] == 'A "title"' and got["info"]["provenance"]["seed"] == 1
        shapes = {d["name"]: d["shape"] for d in got["info"]["datasets"]}
        with h5py.File("out/model.h5") as f:
            assert all(list(f[name].shape) == shape for name, shape in shapes.items()), shapes
        assert got["plan"]["members_of_rank"] == [2, 1] and got["plan"]["cohorts"][0]["layers"] == [4, 2]
        assert got["plan"]["memory_of_rank"]["peak"] > 0 and got["plan"]["data"]["rows"] == 60
        assert [got["plan"]["data"][f"{part}_rows"] for part in ("training", "validation", "test")] == [36, 12, 12]
        names = [o["name"] for o in got["options"]["options"]]
        listed = re.findall(r"^  (?:- )?([\w.]+)$", run(tutti, "options"), re.M)
        assert names == listed and len(names) > 100, set(names) ^ set(listed)
        epochs = next(o for o in got["options"]["options"] if o["name"] == "train.epochs")
        assert epochs["kind"] == "i64" and epochs["low"] == 1, epochs
        assert got["status"]["state"] == "done" and got["status"]["finished"] == 3
        run(tutti, "report", "out/results.h5", "--json", codes=(64,))


if __name__ == "__main__":
    main(*sys.argv[1:])
