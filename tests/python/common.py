"""Data and programs of the tests of the Python package."""
import os
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
TUTTI = os.environ["TUTTI"]

# Small and fast: a fit takes a few milliseconds of CPU.
SMALL = {"hidden": [4], "members": 3, "epochs": 3, "device": "cpu", "threads": 1, "quiet": True}


def numbers(rows=60, columns=3, targets=1):
    """X [rows][columns], y [rows] or [rows][targets]."""
    random = np.random.default_rng(7)
    x = random.normal(size=(rows, columns))
    y = np.stack([np.sin(x[:, 0] + k) + x[:, 1] for k in range(targets)], axis=1)
    y += 0.1 * random.normal(size=y.shape)
    return x, y[:, 0] if targets == 1 else y
