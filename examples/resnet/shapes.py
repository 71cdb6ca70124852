#!/usr/bin/env python3
"""Images of shapes: writes shapes.csv, unseen.csv with a shape that no network has seen, and
shapes.svg, a picture of some of them.

A row is an image of 16 x 16 pixels, row by row from the top, with a disc, a square, a triangle or a
cross of any size, place and angle, in noise; then its class 0, 1, 2 or 3. The unseen shape is a
ring. The same files on every machine.
"""
import math
import random

ROWS, UNSEEN, SIDE, NOISE = 1500, 200, 16, 0.2
SHAPES = {
    "disc": lambda x, y: math.hypot(x, y) < 1,
    "square": lambda x, y: max(abs(x), abs(y)) < 0.9,
    "triangle": lambda x, y: y > -0.6 and y + 1.8 * abs(x) < 1,
    "cross": lambda x, y: min(abs(x), abs(y)) < 0.3 and max(abs(x), abs(y)) < 1,
    "ring": lambda x, y: 0.7 < math.hypot(x, y) < 1,
}
CLASSES = ["disc", "square", "triangle", "cross"]


def image(rng, shape):
    size, angle = rng.uniform(3.5, 6), rng.uniform(0, 2 * math.pi)
    center = [rng.uniform(size, SIDE - size) for _ in range(2)]
    turn, pixels = (math.cos(angle) / size, math.sin(angle) / size), []
    for i in range(SIDE * SIDE):
        x, y = i % SIDE + 0.5 - center[0], i // SIDE + 0.5 - center[1]
        inside = SHAPES[shape](x * turn[0] + y * turn[1], y * turn[0] - x * turn[1])
        pixels.append(inside + rng.gauss(0, NOISE))
    return pixels


def write(name, rows):
    with open(name, "w") as f:
        f.write(",".join([f"pixel{i}" for i in range(SIDE * SIDE)] + ["shape"]) + "\n")
        for pixels, number in rows:
            f.write(",".join(f"{v:.2f}" for v in pixels) + f",{number}\n")


def picture(images):
    """Six gray levels; the pixels of one are one path."""
    cell, gap, parts = 6, 10, []
    for k, (pixels, name) in enumerate(images):
        left, levels = gap + k * (SIDE * cell + gap), [[] for _ in range(6)]
        for i, v in enumerate(pixels):
            levels[round(5 * min(max((v + 0.5) / 2, 0), 1))].append(
                f"M{left + i % SIDE * cell} {gap + i // SIDE * cell}h{cell}v{cell}h-{cell}z")
        for level, paths in enumerate(levels):
            gray = f"{255 - 51 * level:02x}"
            parts.append(f'<path fill="#{gray * 3}" d="{"".join(paths)}"/>')
        parts.append(f'<text x="{left}" y="{gap + SIDE * cell + 16}">{name}</text>')
    width = gap + len(images) * (SIDE * cell + gap)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIDE * cell + 40}" '
            f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def main():
    rng = random.Random(1)
    numbers = [rng.randrange(len(CLASSES)) for _ in range(ROWS)]
    rows = [(image(rng, CLASSES[k]), k) for k in numbers]
    rings = [(image(rng, "ring"), 0) for _ in range(UNSEEN)]
    write("shapes.csv", rows)
    write("unseen.csv", rings)
    shown = [next(r for r in rows if r[1] == k) for k in range(4)]
    with open("shapes.svg", "w") as f:
        f.write(picture([(p, CLASSES[k]) for p, k in shown] + [(p, "ring, unseen") for p, _ in rings[:2]]))


main()
