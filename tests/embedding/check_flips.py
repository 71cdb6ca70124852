#!/usr/bin/env python3
"""Flip single bits of model.h5: every damaged file is refused with the code of damaged files, or
predicts the same bits. Usage: check_flips.py TUTTI LIBTUTTI [FLIPS]; FLIPS of each model is 100."""
import ctypes
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import h5py
import numpy as np

from content_hash import content_hash

program, library = (os.path.abspath(p) for p in sys.argv[1:3])
flips = int(sys.argv[3]) if len(sys.argv) > 3 else 100
ROWS, INPUTS, DAMAGED = 5, 3, 65
PREDICTION = 19  # words of struct tutti_prediction: its size, the workspace, then the four moments
lib = ctypes.CDLL(library)
lib.tutti_error.restype = ctypes.c_char_p
lib.tutti_columns.restype = ctypes.c_int64

JOBS = {"one network": "ensembles: [{name: e, targets: [y0, y1], members: 10}]\n",
        "several": "ensembles: [{name: a, target: y0, members: 2}, "
                   "{name: b, target: y1, members: 2, model: {hidden: [3, 3]}}]\n"}


def predict(image, x):
    """(code of tutti_open_memory, the predictions as bytes)"""
    model = ctypes.c_void_p()
    code = lib.tutti_open_memory(image, ctypes.c_int64(len(image)), ctypes.byref(model))
    if code:
        return code, b""
    columns = lib.tutti_columns(model)
    out = np.zeros((4, ROWS, columns))
    wanted = (ctypes.c_size_t * PREDICTION)(8 * PREDICTION, 0, *(part.ctypes.data for part in out))
    code = lib.tutti_predict(model, ctypes.c_int64(ROWS), ctypes.c_void_p(x.ctypes.data), 1,
                             ctypes.byref(wanted))
    lib.tutti_close(ctypes.byref(model))
    return code, out.tobytes()


def main():
    bad = 0
    draw = random.Random(6)
    x = np.random.default_rng(1).normal(size=(ROWS, INPUTS))
    for name, ensembles in JOBS.items():
        pathlib.Path("job.yaml").write_text(
            "data: {file: data.h5, inputs: x, targets: y}\nmodel: {hidden: [64, 64]}\n"
            "train: {epochs: 2, loss: gaussian_nll}\ncalibration: {conformal: [0.8]}\n"
            f"run: {{directory: '{name}'}}\n" + ensembles)
        subprocess.run([program, "train", "job.yaml"], check=True, capture_output=True)
        whole = pathlib.Path(name, "model.h5").read_bytes()
        with h5py.File(f"{name}/model.h5") as f:
            assert content_hash(f) == f.attrs["content_hash_xxh3"].decode()
        code, right = predict(whole, x)
        assert code == 0 and right
        codes = {}
        for _ in range(flips):
            image, bit = bytearray(whole), draw.randrange(8 * len(whole))
            image[bit // 8] ^= 1 << bit % 8
            code, found = predict(bytes(image), x)
            codes[code] = codes.get(code, 0) + 1
            text = lib.tutti_error().decode()
            refused = code == DAMAGED and text
            if not refused and (code or found != right):
                bad += 1
                print(f"FAILED: {name}: bit {bit}: code {code}, '{text}'")
        print(f"{name}: {len(whole)} bytes, {flips} flips: "
              + ", ".join(f"{n} with code {c}" for c, n in sorted(codes.items())))
    return bad


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    r = np.random.default_rng(2)
    with h5py.File("data.h5", "w") as f:
        f["x"] = r.normal(size=(120, INPUTS))
        f["y"] = r.normal(size=(120, 2))
    sys.exit(1 if main() else 0)
