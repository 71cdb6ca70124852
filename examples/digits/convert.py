#!/usr/bin/python3
"""Write digits.csv: the handwritten digits that come with scikit-learn (Debian: python3-sklearn).

Columns pixel0 ... pixel63 (ink of 8 x 8 pixels, 0 to 16, row by row) and digit (0 to 9).
"""
import pathlib

from sklearn.datasets import load_digits

digits = load_digits()
path = pathlib.Path(__file__).with_name("digits.csv")
with open(path, "w") as f:
    f.write(",".join([f"pixel{i}" for i in range(64)] + ["digit"]) + "\n")
    for x, y in zip(digits.data.astype(int), digits.target):
        f.write(",".join(map(str, [*x, y])) + "\n")
print(f"{path}: {len(digits.target)} rows")
