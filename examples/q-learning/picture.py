#!/usr/bin/env python3
"""Draw the returns that q_learning.py and torch_peer.py have recorded.

  picture.py RECORD.csv returns.svg

A line is a seed: the mean of the last 20 episodes.
"""
import pathlib
import sys

import numpy as np

LEFT, RIGHT, TOP, BOTTOM, WIDTH, HEIGHT, BEST, WINDOW = 62, 738, 84, 386, 760, 440, 12, 20
WAYS = {"Heads 128": ("tutti, 128 heads", ""), "TorchHeads 128": ("PyTorch, 128 heads", "7 4"),
        "Heads 1": ("tutti, 1 head", "2 3")}
STYLE = """<style>
text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;font-size:13px;fill:#24292f}
.title{font-size:15px;font-weight:600}.ground{fill:#ffffff}.grid{stroke:#e1e4e8}.line{fill:none}
.s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}.grid{stroke:#30363d}
.s0{stroke:#56b4e9}}
</style>"""


def text(x, y, words, how=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {how}>{words}</text>'


def axes(episodes):
    lines = [text(LEFT, 28, "Rewards of an episode on the chain; each line is a seed",
                  'class="title"')]
    for value in range(0, BEST + 1, 3):
        y = BOTTOM + (TOP - BOTTOM) * value / BEST
        lines += [f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>',
                  text(LEFT - 8, y + 4.5, value, 'text-anchor="end"')]
    for episode in range(0, episodes + 1, 100):
        x = LEFT + (RIGHT - LEFT) * episode / episodes
        lines.append(text(x, BOTTOM + 20, episode, 'text-anchor="middle"'))
    return lines + [text((LEFT + RIGHT) / 2, BOTTOM + 42, "episode", 'text-anchor="middle"')]


def curve(returns, style, dashes):
    means = np.convolve(returns, np.ones(WINDOW) / WINDOW, "valid")[::4]
    x = LEFT + (RIGHT - LEFT) * (WINDOW + 4 * np.arange(len(means))) / len(returns)
    y = BOTTOM + (TOP - BOTTOM) * means / BEST
    points = "L".join(f"{a:.0f} {b:.1f}" for a, b in zip(x, y))
    return f'<path class="line s{style}" stroke-width="1.6" {dashes} d="M{points}"/>'


def main(record, picture):
    rows = [line.split(",") for line in pathlib.Path(record).read_text().splitlines()]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', "<title>Returns</title>", STYLE,
             f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>', *axes(len(rows[0]) - 2)]
    for style, (name, (words, pattern)) in enumerate(WAYS.items()):
        dashes, x = f'stroke-dasharray="{pattern}"' if pattern else "", LEFT + 200 * style
        lines += [f'<path class="line s{style}" stroke-width="1.6" {dashes} d="M{x} 56h28"/>',
                  text(x + 36, 60.5, words)]
        lines += [curve(np.array(row[2:], dtype=float), style, dashes)
                  for row in rows if row[0] == name]
    pathlib.Path(picture).write_text("\n".join(lines + ["</svg>"]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
