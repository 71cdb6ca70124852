#!/usr/bin/env python3
"""Label the points of a campaign, and bring points of its own: the steps of a local search.

  optimize.py start     write start.csv, the first labels, and knobs.csv, the candidates
  optimize.py           ask, label and tell until the campaign has ended
"""
import csv
import math
import random
import subprocess
import sys

try:
    from scipy.optimize import minimize
except ImportError:
    minimize = None


def loss(a, b):
    """The machine (Branin's function, smallest value 0.398)."""
    x, y = 15 * a - 5, 15 * b
    return (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6)**2 + 10 * (
        1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def write(name, header, rows):
    with open(name, "w", newline="") as f:
        csv.writer(f).writerows([header, *rows])


def start():
    draw = random.Random(1)
    points = [(draw.random(), draw.random()) for _ in range(2010)]
    write("start.csv", ("a", "b", "loss"), [(*p, loss(*p)) for p in points[:10]])
    write("knobs.csv", ("a", "b"), points[10:])


def tutti(*words):
    return subprocess.run(["tutti", *words], stdout=subprocess.PIPE, text=True)


def search(best):
    """Points around the best one: those of SciPy, or random ones."""
    seen = []

    def step(p):
        seen.append((*map(float, p), loss(*p)))
        return seen[-1][2]

    if minimize:
        minimize(step, best, method="Nelder-Mead", options={"maxfev": 10})
    else:
        for _ in range(10):
            step([min(max(v + random.gauss(0, 0.03), 0), 1) for v in best])
    return seen


def label():
    known = []
    while True:
        asked = tutti("ask", "campaign", "-k", "8", "--who", "optimizer")
        if asked.returncode == 1:  # the campaign has ended
            break
        if asked.returncode == 75:  # train the next round
            tutti("campaign", "run", "campaign.yaml", "-q")
            continue
        rows = [(r["id"], loss(float(r["a"]), float(r["b"])), float(r["a"]), float(r["b"]))
                for r in csv.DictReader(asked.stdout.splitlines())]
        write("labels.csv", ("id", "loss", "a", "b"), rows)
        tutti("tell", "campaign", "labels.csv")
        known += [(value, a, b) for _, value, a, b in rows]
        own = search(min(known)[1:])
        write("own.csv", ("a", "b", "loss"), own)
        tutti("tell", "campaign", "own.csv", "--new")
        known += [(value, a, b) for a, b, value in own]
    print("smallest loss %.3f at a = %.3f, b = %.3f" % min(known))


if __name__ == "__main__":
    start() if sys.argv[1:] == ["start"] else label()
