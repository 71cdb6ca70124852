#!/usr/bin/python3
"""Draw the learning curves recorded by active_learning.py, over all splits and seeds of a record.

  learning_picture.py RECORD.jsonl PICTURE.svg

Lines: median over the campaigns; bands: 10 % to 90 % of them. For examples/active-learning:

  bench/studies/learning_picture.py bench/results/campaigns/2026-11-22-active-learning.jsonl examples/active-learning/learning.svg
"""
import json
import math
import pathlib
import sys

import numpy as np

LABELS = np.arange(20, 121, 10)
LEFT, RIGHT, TOP, BOTTOM, WIDTH, HEIGHT = 78, 738, 96, 406, 760, 464
LOW, HIGH = 0.5, 20  # of the y axis
STYLE = """<style>
text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;font-size:13px;fill:#24292f}
.title{font-size:15px;font-weight:600}.note{fill:#57606a}.ground{fill:#ffffff}
.grid{stroke:#e1e4e8}.axis{stroke:#57606a}.line{fill:none}.band{opacity:0.25}.mark{stroke:#ffffff}
.s0{stroke:#0072b2}.m0{fill:#0072b2}.s1{stroke:#d55e00}.m1{fill:#d55e00}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.ground{fill:#0d1117}
.grid{stroke:#30363d}.axis{stroke:#9198a1}.mark{stroke:#0d1117}.s0{stroke:#56b4e9}.m0{fill:#56b4e9}}
</style>"""


def x_of(labels):
    return LEFT + (RIGHT - LEFT) * (labels - LABELS[0]) / (LABELS[-1] - LABELS[0])


def y_of(rmse):
    return BOTTOM + (TOP - BOTTOM) * math.log(rmse / LOW) / math.log(HIGH / LOW)


def points(values):
    return [f"{x_of(n):.1f} {y_of(v):.1f}" for n, v in zip(LABELS, values)]


def text(x, y, words, how=""):
    return f'<text x="{x}" y="{y:.1f}" {how}>{words}</text>'


def axes():
    lines = []
    for v in (0.5, 1, 2, 5, 10, 20):
        lines += [f'<path class="grid" d="M{LEFT} {y_of(v):.1f}H{RIGHT}"/>',
                  text(LEFT - 8, y_of(v) + 4.5, f"{v:g}", 'text-anchor="end"')]
    for n in LABELS[::2]:
        lines.append(text(x_of(n), BOTTOM + 20, n, 'text-anchor="middle"'))
    middle = (TOP + BOTTOM) / 2
    return lines + [
        f'<path class="axis line" d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"/>',
        text((LEFT + RIGHT) / 2, BOTTOM + 44, "labeled rows", 'text-anchor="middle"'),
        text(18, middle, "test rmse of residuary_resistance",
             f'text-anchor="middle" transform="rotate(-90 18 {middle:.1f})"')]


def curve(values, style, name):
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9), axis=0)
    band, x = points(high) + points(low)[::-1], LEFT + 200 * style
    dashes = ' stroke-dasharray="7 4"' if style else ""
    return [f'<path class="band m{style}" d="M{"L".join(band)}Z"/>',
            f'<path class="line s{style}" stroke-width="{3 - style}"{dashes} d="M{"L".join(points(middle))}"/>',
            *(f'<circle class="mark m{style}" cx="{x_of(n):.1f}" cy="{y_of(v):.1f}" r="4"/>'
              for n, v in zip(LABELS, middle)),
            f'<path class="line s{style}" stroke-width="{3 - style}"{dashes} d="M{x} 74h28"/>',
            text(x + 36, 78.5, name)]


def main(record, picture):
    runs = [json.loads(line) for line in pathlib.Path(record).read_text().splitlines()]
    rows = [row for run in runs for row in run["splits"]]
    splits = len({(run["published"], row["split"]) for run in runs for row in run["splits"]})
    seeds = len({run["seed"] for run in runs})
    title = "Learning curves of active learning and of random queries"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', f"<title>{title}</title>", STYLE,
             f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
             text(LEFT, 30, title, 'class="title"'),
             text(LEFT, 50, f"median and 10 % to 90 % of {len(rows)} campaigns each: "
                  f"{splits} splits of the rows, {seeds} seeds", 'class="note"'), *axes()]
    for style, (key, name) in reversed(list(enumerate([("picked", "epistemic_std"), ("random", "random")]))):
        lines += curve(np.array([row[key] for row in rows]), style, name)
    pathlib.Path(picture).write_text("\n".join(lines + ["</svg>"]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
