#!/usr/bin/env python3
"""Signals with an echo: writes profiles.csv, and profiles.svg, a picture of four of them.

A row is 64 samples of a pulse and its echo: the same pulse, later by `delay` samples and smaller by
the factor `ratio`, with noise. The pulse begins anywhere. The same file on every machine.
"""
import math
import random

ROWS, SAMPLES, SHOWN = 1500, 64, 4


def pulse(t):
    """A wave of about six samples that fades."""
    return math.exp(-(t / 3) ** 2) * math.cos(1.2 * t)


def signal(rng):
    start, delay = rng.uniform(6, 28), rng.uniform(4, 28)
    ratio = rng.uniform(0.3, 0.9)
    values = [pulse(t - start) + ratio * pulse(t - start - delay) + rng.gauss(0, 0.08)
              for t in range(SAMPLES)]
    return values, delay, ratio


def picture(rows):
    width, height, lines = 640, 96, []
    for i, (values, delay, ratio) in enumerate(rows):
        middle = height * (i + 0.55)
        points = " ".join(f"{8 + t * (width - 16) / (SAMPLES - 1):.1f},{middle - 34 * v:.1f}"
                          for t, v in enumerate(values))
        lines.append(f'<polyline fill="none" stroke="#1f5a94" stroke-width="1.5" points="{points}"/>\n'
                     f'<text x="{width - 8}" y="{height * i + 14}" text-anchor="end">'
                     f"delay {delay:.1f}, ratio {ratio:.2f}</text>")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height * len(rows)}" '
            f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(lines) + "\n</svg>\n")


def main():
    rng = random.Random(1)
    rows = [signal(rng) for _ in range(ROWS)]
    with open("profiles.csv", "w") as f:
        f.write(",".join([f"sample{t}" for t in range(SAMPLES)] + ["delay", "ratio"]) + "\n")
        for values, delay, ratio in rows:
            f.write(",".join(f"{v:.4f}" for v in [*values, delay, ratio]) + "\n")
    with open("profiles.svg", "w") as f:
        f.write(picture(rows[:SHOWN]))


main()
