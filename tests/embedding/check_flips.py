#!/usr/bin/env python3
"""Flip single bits of model.h5: every damaged file is refused with the code of damaged files, or
predicts the same bits. Usage: check_flips.py [FLIPS of each model, 100]"""
import ctypes
import pathlib
import random
import shutil
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from content_hash import content_hash
from rig import check, finish, folder, h5py, LIBRARY, np, run, tutti, write_h5

flips = int(sys.argv[1]) if len(sys.argv) > 1 else 100
ROWS, INPUTS, DAMAGED = 5, 3, 65
PREDICTION = 19  # words of struct tutti_prediction: its size, the workspace, then the four moments
lib = ctypes.CDLL(LIBRARY)
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


def changed_by_copies(name, x, right):
    """Copies by other programs, and one with an attribute of its own, are the same model."""
    for command in (["nccopy"], ["h5repack", "-f", "GZIP=4"], ["cp"]):
        if not shutil.which(command[0]):
            continue
        run(*command, f"{name}/model.h5", "copy.h5")
        with h5py.File("copy.h5", "r+") as f:
            f.attrs["comment"] = f["net"].attrs["comment"] = "mine"
        code, found = predict(pathlib.Path("copy.h5").read_bytes(), x)
        check(not code and found == right, f"{name}: {command[0]}: code {code}, '{lib.tutti_error().decode()}'")


def main():
    draw = random.Random(6)
    x = np.random.default_rng(1).normal(size=(ROWS, INPUTS))
    for name, ensembles in JOBS.items():
        pathlib.Path("job.yaml").write_text(
            "data: {file: data.h5, inputs: x, targets: y}\nmodel: {hidden: [64, 64]}\n"
            "train: {epochs: 2, loss: gaussian_nll}\ncalibration: {conformal: [0.8]}\n"
            f"run: {{directory: '{name}'}}\n" + ensembles)
        tutti("train", "job.yaml")
        whole = pathlib.Path(name, "model.h5").read_bytes()
        with h5py.File(f"{name}/model.h5") as f:
            assert content_hash(f) == f.attrs["content_hash_xxh3"].decode()
        code, right = predict(whole, x)
        assert code == 0 and right
        changed_by_copies(name, x, right)
        codes = {}
        for _ in range(flips):
            image, bit = bytearray(whole), draw.randrange(8 * len(whole))
            image[bit // 8] ^= 1 << bit % 8
            code, found = predict(bytes(image), x)
            codes[code] = codes.get(code, 0) + 1
            text = lib.tutti_error().decode()
            check(code == DAMAGED and text or not code and found == right, f"{name}: bit {bit}: code {code}, '{text}'")
        print(f"{name}: {len(whole)} bytes, {flips} flips: "
              + ", ".join(f"{n} with code {c}" for c, n in sorted(codes.items())))


with folder():
    r = np.random.default_rng(2)
    write_h5("data.h5", x=r.normal(size=(120, INPUTS)), y=r.normal(size=(120, 2)))
    main()
finish()
