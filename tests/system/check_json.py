#!/usr/bin/python3
"""--json of every verb that tells something: one object, with the keys of docs/json.md and the
numbers of the files."""
import json
import pathlib
import re
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import ROOT, h5py, np, sets, test, tutti


JOB = """\
title: A "title"
data: {file: samples.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {hidden: [4], output: mean_variance}
ensembles: [{name: one, target: y, members: 3}]
train: {epochs: 5, loss: gaussian_nll}
calibration: {conformal: [0.8]}
run: {device: cpu, directory: out}
"""


def run(*words, code=0):
    return tutti(*words, code=code).out


def documented(page):
    """{verb: keys of its object} in docs/json.md."""
    keys, verb = {}, None
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and ("`" in cells[1] or (not cells[1] and verb)):
            verb = cells[1].replace("`", "") or verb
            keys.setdefault(verb, set()).update(re.findall(r"`(\w+)`", cells[2]))
    return keys


def all_keys(value):
    """Keys of an object and of all objects in it, but for names of columns."""
    if isinstance(value, list):
        return set().union(*map(all_keys, value))
    if not isinstance(value, dict):
        return set()
    inner = (all_keys(v) for k, v in value.items() if k not in ("rmse", "nll", "spread", "scores"))
    return set(value).union(*inner)


def lines_with(text, label):
    return [" ".join(line.split()[1:]) for line in text.splitlines() if line.startswith(label)]


def check_plan(keys, *words):
    """The plan as JSON says what the plan as text says; returns it."""
    plan = json.loads(run("plan", *words, "--json"))
    text = run("plan", *words)
    check_keys(keys, "plan", plan, ["cohorts"])
    paths = [path for cohort in plan["cohorts"] for path in cohort["cuda_paths"]]
    said = [f"path {p['path'] or 'none'} on {p['gpu']}: {p['why']}" for p in paths]
    assert said == [line for line in lines_with(text, "CUDA path")], (said, text)
    assert (plan["engine"] == "cpu") == (not paths), plan["engine"]
    assert (plan["exchange"] is None) == (not lines_with(text, "exchange")), (plan["exchange"], text)
    return plan, text


def check_measure():
    """The measured time: a number for each part; training grows with the epochs. It writes nothing."""
    before = sorted(pathlib.Path(".").rglob("*"))
    few, many = (json.loads(run("plan", "job.yaml", "--json", "--measure", "--set", f"train.epochs={n}"))["seconds"]
                 for n in (20000, 200000))
    assert all(value > 0 for value in (*few.values(), *many.values())), (few, many)
    assert 3 < many["training"] / few["training"] < 30, (few, many)
    assert lines_with(run("plan", "job.yaml", "--measure", "--set", "train.epochs=2"), "time")
    assert sorted(pathlib.Path(".").rglob("*")) == before, "files"
    run("plan", "job.yaml", "--measure", "--ranks", "2", code=64)


def check_cuda(keys):
    """The CUDA paths, in a build with CUDA; it needs no GPU. A wide network takes another path."""
    if "built without CUDA" in tutti("plan", "job.yaml", *sets("run.device=gpu"), code=(0, 69)).err:
        print("skipped: CUDA paths: this tutti was built without CUDA")
        return
    for hidden, path in (("[4]", "warp"), ("[512,512]", "layered")):
        plan, text = check_plan(keys, "job.yaml", "--set", "run.device=gpu", "--set", "model.hidden=" + hidden)
        paths = plan["cohorts"][0]["cuda_paths"]
        assert len(paths) == 4 and all(p["path"] == path and p["why"] for p in paths), paths
    check_exchange(keys)
    print("CUDA paths:", ", ".join(f"{p['path']} on {p['gpu']}" for p in paths))


def check_exchange(keys):
    """Text and JSON name the same memory, that of run.exchange; auto may be host, as the MPI library is."""
    words = {"host": "host memory", "device": "GPU memory, as", "nccl": "GPU memory, by NCCL", "auto": "GPU memory where"}
    for wanted in words:
        plan, text = check_plan(keys, "job.yaml", "--ranks", "4", "--set", "run.device=gpu", "--set", "train.parts=4",
                                "--set", "run.ranks_per_member=2", "--set", f"run.exchange={wanted}")
        found = plan["exchange"]["from"]
        assert found == wanted or (wanted, found) == ("auto", "host"), (wanted, found)
        line, = lines_with(text, "exchange")
        assert line.startswith("gradients and weights from " + words[found]), (found, line)
        assert (plan["exchange"]["gpu_bytes"] > 0) == (found != "host"), plan["exchange"]
        assert plan["members_of_rank"] == [2, 2, 1, 1], plan["members_of_rank"]
        assert lines_with(text, "ranks") == ["4: 2 teams of 2 ranks, 2 members in the first, 1 in the last"], text


def check_campaign(keys, known):
    """plan, status and report of a campaign."""
    run("campaign", "init", "c")
    settings = ["--set", "train.epochs=5", "--set", "stop.rounds=2", "--set", "run.device=cpu"]
    text = check_plan(keys, "c/campaign.yaml", *settings)[1]
    assert lines_with(text, "rounds") == ["at most 2 of 10 queries each, then a last training"], text
    first, new, last = map(int, re.findall(r"\d+", lines_with(text, "labels")[0]))
    assert (new, last) == (20, first + 20) and "2000 rows, with hidden labels" in lines_with(text, "pool")[0], text
    run("campaign", "run", "c/campaign.yaml", "-q", *settings)
    status = json.loads(run("status", "c/campaign", "--json"))
    assert set(status) == keys["status of a campaign"] - {"training"}, set(status) ^ keys["status of a campaign"]
    assert status["rounds"] == 3 and status["labels_now"] == last, status
    tutti("status", "c", code=66, says="did you mean 'c/campaign'?")
    report = json.loads(run("report", "c/campaign", "--json"))
    assert set(report) == keys["report of a campaign"], set(report) ^ keys["report of a campaign"]
    assert report["curves"][0]["error"] == report["error"] and report["rounds"] == 3, report
    for got in (status, report):
        assert all_keys(got) <= known, all_keys(got) - known


def check_keys(keys, verb, got, lists):
    """The keys of the object, and those of the elements of its lists, are in the page."""
    assert set(got) == keys[verb], (verb, set(got) ^ keys[verb])
    for name in lists:
        assert got[name] and all(set(row) == set(got[name][0]) for row in got[name]), (verb, name)


def check_evaluate(got):
    """The numbers of the file of scores."""
    with h5py.File("s.h5") as f:
        for name, value in got["scores"].items():
            stored = f["ensemble_" + name][0]
            assert abs(value - stored) <= 1e-9 * abs(stored), (name, value, stored)
        assert {"rmse", "nll", "crps", "r2"} < set(got["scores"]) and "accuracy" not in got["scores"]
        for kind, level, inside in (("intervals", "coverage_level", "coverage"),
                                    ("conformal", "conformal_level", "conformal_coverage")):
            want = list(zip(f[level][()], f[inside][:, 0]))
            assert np.allclose([(i["level"], i["inside"]) for i in got[kind]], want), (kind, got, want)
    assert (got["members"], got["rows"], got["units"]) == (3, 60, ""), got
    assert len(got["conformal"]) == 1 and 0 < got["error_correlation"] <= 1, got


def check_verbs(keys):
    """Every verb with --json is in the page, and no other one."""
    verbs = re.findall(r"^  (\w+) ", run("help"), re.M)
    able = {verb for verb in verbs if "--json" in run("help", verb, code=(0, 64))}
    assert able - {"campaign"} == {name.split()[0] for name in keys}, (able, set(keys))


def main():
    page = (ROOT / "docs/json.md").read_text()
    keys, known = documented(page), set(re.findall(r"`(\w+)`", page))
    rows = "\n".join(f"{i % 7},{i % 11},{(i * i) % 11}" for i in range(60))
    pathlib.Path("samples.csv").write_text("a,b,y\n" + rows + "\n")
    run("import", "samples.csv", "-o", "samples.h5", "--inputs", "a,b", "--targets", "y")
    pathlib.Path("job.yaml").write_text(JOB)
    run("train", "job.yaml", "-q")
    got = {verb: json.loads(run(*words, "--json", code=(0, 69) if verb == "doctor" else 0))
           for verb, words in (("info", ["info", "out/model.h5"]),
                               ("evaluate", ["evaluate", "out/model.h5", "samples.h5", "-o", "s.h5"]),
                               ("explain", ["explain", "out/model.h5", "samples.h5"]),
                               ("report", ["report", "out"]), ("doctor", ["doctor"]),
                               ("status", ["status", "out"]))}
    got["plan"], _ = check_plan(keys, "job.yaml", "--ranks", "2")
    check_evaluate(got["evaluate"]["targets"][0])
    for verb, lists in (("info", []), ("evaluate", ["targets"]), ("explain", ["columns"]), ("report", ["targets"]), ("doctor", ["ranks"]),
                        ("status", [])):
        check_keys(keys, verb, got[verb], lists)
    for verb, answer in got.items():
        assert all_keys(answer) <= known, (verb, all_keys(answer) - known)
    check_verbs(keys)
    check_measure()
    check_cuda(keys)
    check_campaign(keys, known)
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
    assert got["status"]["state"] == "done" and got["status"]["finished"] == 3
    run("report", "out/results.h5", "--json", code=66)


test(main)
