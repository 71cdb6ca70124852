#!/usr/bin/python3
"""Can other programs read what `tutti campaign status --json` and `report` leave?

    check_story.py TEST_STORY

Runs the test program, which makes campaigns and tells of them, then parses every picture as XML,
every status as JSON and every table. Exit status 0 if all is well.
"""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"


def check_picture(path):
    """Valid XML, everything within the picture, no number that is none."""
    root = tree.parse(path).getroot()
    assert root.tag == SVG + "svg", root.tag
    width, height = (float(n) for n in root.get("viewBox").split()[2:])
    for mark in root.iter(SVG + "circle"):
        assert 0 <= float(mark.get("cx")) <= width and 0 <= float(mark.get("cy")) <= height, path
    for text in root.iter(SVG + "text"):
        assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height, path
    with open(path, encoding="utf-8") as f:
        content = f.read().lower()
    assert "nan" not in content and "inf" not in content, path
    return root


def refuse(name):
    raise ValueError(f"{name} is no JSON")


def check_status(path):
    with open(path, encoding="utf-8") as f:
        status = json.load(f, parse_constant=refuse)
    for key in ("state", "round", "rounds", "stage", "ended", "seconds", "age_seconds"):
        assert key in status, (path, key)
    return status


def check_table(path, campaigns, rounds):
    """Campaigns one after the other, as gnuplot and pandas read them."""
    with open(path, encoding="utf-8") as f:
        rows = [row for row in csv.DictReader(f, delimiter="\t") if row["round"]]
    assert len(rows) == campaigns * rounds, (path, len(rows))
    for i, row in enumerate(rows):
        assert None not in row and None not in row.values(), row
        assert int(row["round"]) == i % rounds + 1
        float(row["error"]), float(row["seconds.label"])
    return rows


def main(program):
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([program], check=True, timeout=120,
                       env={**os.environ, "TUTTI_TEST_KEEP": place})
        pictures = glob.glob(place + "/**/*.svg", recursive=True)
        assert len(pictures) > 10, pictures
        for path in pictures:
            check_picture(path)
        for path in glob.glob(place + "/*.json"):
            check_status(path)
        rows = check_table(os.path.join(place, "report/learning.tsv"), 2, 5)
        assert {row["campaign"] for row in rows} == {"epistemic_std", "random"}
        assert abs(float(rows[4]["error"]) - 1 / 3) < 1e-6 and "rmse.q<e>" in rows[0]
        picture = check_picture(os.path.join(place, "report/learning.svg"))
        texts = [text.text for text in picture.iter(SVG + "text")]
        assert "random" in texts and "labelled rows" in texts, texts
        assert any("mean over 2 columns (round 1 = 1)" in text for text in texts), texts
        assert len(list(picture.iter(SVG + "circle"))) == 10
        one = check_picture(os.path.join(place, "report-one/learning.svg"))
        assert any("rmse of q<e> [kW h m-2]" in (t.text or "") for t in one.iter(SVG + "text"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
