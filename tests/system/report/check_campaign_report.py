#!/usr/bin/python3
"""Other programs can read what `tutti status` and `tutti report` say about campaigns.

    check_campaign_report.py TEST_PROGRAM

Runs the test program, which writes campaigns and their reports, then parses every SVG as XML and every
status as JSON. Exit status 0 if there is no error.
"""
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from page import Page, check_picture, validate

ROOT = pathlib.Path(__file__).parents[3]


def refuse(name):
    raise ValueError(f"{name} is not JSON")


def check_status(path):
    with open(path, encoding="utf-8") as f:
        status = json.load(f, parse_constant=refuse)
    for key in ("state", "round", "rounds", "stage", "ended", "seconds", "age_seconds"):
        assert key in status, (path, key)
    missing = set(status) - documented_keys("`status` of a campaign")
    assert not missing, (path, missing)
    return status


def documented_keys(verb):
    """Keys of an object in docs/json.md: its row and those below it without a verb."""
    text = (ROOT / "docs/json.md").read_text()
    rows = re.search(rf"^\| {re.escape(verb)} \|.*\n(?:\| \|.*\n)*", text, re.M)[0]
    return {key for row in rows.splitlines() for key in re.findall(r"`(\w+)`", row.split("|")[2])}


def check_page(place):
    """Two campaigns of two columns with 5 rounds; the error is 1 / 3 in the end."""
    page = Page(place / "report/report.html")
    for words in ("66.7 % less error", "From 20 to 60 labels the test error fell to 33.3 %",
                  "44 queries in 5 rounds, 4 without a label", "0:38 in all, 0:10 of it in the oracle", "q<e>",
                  "acquisition: epistemic_std", "4 50 0.4 0.4", "command /", "device CPU, 1 thread",
                  "hash of the data 00000000deadbeef"):
        assert words in page.text, (words, page.text)
    one = Page(place / "report-one/report.html")
    assert "test rmse (kW h m-2)" in one.text, one.text
    got = json.loads((place / "report-page.txt").read_text(), parse_constant=refuse)
    assert got["queries"] == 44 and got["without_label"] == 4 and got["rounds"] == 5, got
    assert [round(e, 4) for e in got["error"]] == [1, 0.6667, 0.5, 0.4, 0.3333], got
    text = (ROOT / "docs/json.md").read_text()
    assert all(f"`{key}`" in text for key in got), got.keys()


def check_comparison(place):
    """A curve of each campaign, in units of the first one."""
    got = json.loads((place / "compared.json").read_text(), parse_constant=refuse)
    powers = {"z-1": 0.4, "z-3": 0.6, "a-1": 0.2}
    assert [pathlib.Path(c["directory"]).name for c in got["curves"]] == list(powers), got["curves"]
    for (name, power), curve in zip(powers.items(), got["curves"]):
        labels = [20, 30, 40, 50, 60][:3 if name == "z-3" else 5]
        assert curve["labels"] == labels, curve
        assert np.allclose(curve["error"], [(20 / n) ** power for n in labels], rtol=1e-6), curve
        by = "random" if name == "a-1" else "epistemic_std"
        assert curve["name"] == f"{by} \u2013 {name}", curve["name"]
    page = Page(place / "compared/report.html")
    less = 100 * (1 - (1 / 2) ** 0.4 / (1 / 2) ** 0.6)
    for words in (f"fell to {100 * 3 ** -0.4:.3g} % of that of round 1.",
                  f"With 40 labels: {-less:.3g} % more error than epistemic_std \u2013 z-3",
                  "The rest of this page is about"):
        assert words in page.text, (words, page.text)


def main(program):
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([program], check=True, timeout=120,
                       env={**os.environ, "TUTTI_TEST_KEEP": place})
        pictures = [pathlib.Path(path) for path in glob.glob(place + "/*.svg")]
        assert len(pictures) > 10, pictures
        for path in [*pictures, ROOT / "docs/energy.svg", ROOT / "examples/active-learning/learning.svg"]:
            check_picture(path.read_bytes(), path)
        for path in set(glob.glob(place + "/*.json")) - {place + "/compared.json"}:
            check_status(path)
        check_page(pathlib.Path(place))
        check_comparison(pathlib.Path(place))
        os.chdir(place)
        print("validators:", ", ".join(validate()) or "none is installed")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
