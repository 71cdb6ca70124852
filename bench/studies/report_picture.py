"""report_picture.py REPORT.html PICTURE.svg — one picture of the report of a run: of each of its first two targets
the predicted and measured values, the learning curves and the calibration.

The picture of the README, after script/demo:
  bench/studies/report_picture.py out/demo/report.html docs/energy.svg
"""
import pathlib
import re
import sys

CHARTS = ("Predicted and measured", "Learning curves", "Calibration")
WIDTH, HEIGHT, HEAD = 360, 338, 30  # of a chart, and of the title above it


def whole_pixels(trace):
    """The path of one member, a thin line: a tenth of a pixel is not seen, and half of the file."""
    path = re.sub(r' data-[mt]="[^"]*"', "", trace[0])
    return re.sub(r"\d+\.\d", lambda number: f"{float(number[0]):.0f}", path)


def main(report, picture):
    page = pathlib.Path(report).read_text()
    style = re.search(r"<style>(.*?):root", page, re.S)[1]  # the charts' part of the page's style
    title = re.search(r"<h1>(.*?)</h1>", page)[1]
    width, height = len(CHARTS) * WIDTH, 40 + 2 * (HEIGHT + HEAD)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>',
             f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" role="img">',
             f"<title>{title}</title>", f"<style>{style.split('@media')[0]}.page{{font-size:18px;font-weight:600}}"
             ".title{font-size:15px;font-weight:600}</style>",
             f'<rect width="{width}" height="{height}" fill="#ffffff"/>', f'<text class="page" x="15" y="26">{title}</text>']
    for column, name in enumerate(CHARTS):
        found = re.findall(rf'<svg class="chart"[^>]*aria-label="{name}"[^>]*>(.*?)</svg>', page, re.S)
        for row, chart in enumerate(found[:2]):
            chart = re.sub(r'<path class="trace.*?/>', whole_pixels, chart)
            x, y = column * WIDTH, 40 + row * (HEIGHT + HEAD)
            lines += [f'<text class="title" x="{x + 15}" y="{y + 18}">{name}</text>',
                      f'<g transform="translate({x},{y + HEAD})">{chart}</g>']
    pathlib.Path(picture).write_text("\n".join(lines + ["</svg>"]) + "\n")


main(*sys.argv[1:])
