#!/usr/bin/python3
"""tutti explain: permutation importance by an independent computation in NumPy, with the same
permutations; the same bits on two ranks.
"""
import json
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from nets import layers_of, parameters_of
from rig import h5py, np, test, tutti, write_json

ROWS, USED, REPEATS, SEED, MEMBERS = 130, 100, 3, 7, 3
M32 = 0xFFFFFFFF
JOB = {"data": {"file": "d.h5", "normalize": {"a": "log", "b": "minmax"}},
       "model": {"hidden": [6], "activation": "tanh"}, "train": {"epochs": 4},
       "ensembles": [{"name": "n", "members": MEMBERS, "targets": ["u", "v"],
                      "train": {"loss": "gaussian_nll"}},
                     {"name": "k", "members": MEMBERS, "target": "class",
                      "model": {"profile": [1, 4], "front": ["conv 3 3"]},
                     "train": {"loss": "cross_entropy"}}],
       "run": {"device": "cpu", "threads": 1}}


def philox(key, counter):
    """Philox4x32-10, Salmon et al. 2011."""
    k, c = list(key), list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & M32, (a >> 32) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def mix(x):
    x = (x ^ x >> 16) * 0x85EBCA6B & M32
    x = (x ^ x >> 13) * 0xC2B2AE35 & M32
    return x ^ x >> 16


def shuffle(n, stream, step):
    """The random order of core/base/rng.h: a Feistel network with eight rounds and cycle walking."""
    key = (SEED + 13 * 0x9E3779B97F4A7C15) & (1 << 64) - 1
    keys = [w for i in (0, 4) for w in philox((key & M32, key >> 32), (M32 - i, step, stream, 0))]
    bits = max(6, (n - 1).bit_length())
    right, left = bits - bits // 2, bits // 2

    def turn(i):
        a, b = i >> right, i & (1 << right) - 1
        for r in range(0, 8, 2):
            a ^= mix(b ^ keys[r]) >> 8 & (1 << left) - 1
            b ^= mix(a ^ keys[r + 1]) >> 8 & (1 << right) - 1
        return a << right | b

    def at(i):
        i = turn(i)
        while i >= n:
            i = turn(i)
        return i
    return np.array([at(i) for i in range(n)])


def write_data():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(ROWS, 4))
    x = np.concatenate([np.exp(z[:, :1]), 5 * z[:, 1:]], 1)
    y = np.stack([z[:, 0] - z[:, 1], 20 * z[:, 1] * z[:, 2], np.digitize(z[:, 0], [-0.6, 0.6])], 1)
    y[3:9, 0] = y[6:20, 1] = np.nan
    with h5py.File("d.h5", "w") as f:
        f["x"], f["y"], f["w"] = x, y, rng.uniform(0.5, 2, ROWS)
        f["one"], f["ones"] = x[:1], y[:1]
        f["feature_name"], f["target_name"] = list("abcd"), ["u", "v", "class"]
        return x, y, f["w"][()]


def predict(f, cohort, x):
    """Means of the members [member][row][column] in the user's units: u, v, or probabilities."""
    t = x.copy()
    t[:, 0] = np.log(t[:, 0])
    h = (t - f["scaler/x_mean"][()]) / f["scaler/x_scale"][()]
    h = np.broadcast_to(h, (MEMBERS, *h.shape))
    if cohort == 1:
        net, w = parameters_of(f, 1)  # the front begins: 3 weights of each channel, then the biases
        channels = int(net["weight_offset"][0]) // 4
        b = w[:, None, 3 * channels:4 * channels].astype(float)
        w = w[:, :3 * channels].astype(float).reshape(-1, 1, channels, 3)
        wide = np.pad(h, [(0, 0), (0, 0), (1, 1)])[:, :, None]
        z = sum(w[..., k:k + 1] * wide[..., k:k + 4] for k in range(3)) + b[..., None]
        h = np.tanh(z).reshape(*h.shape[:2], -1)
    for layer in range(2):
        w, b = (part.astype(float) for part in layers_of(f, cohort)[layer])
        h = h @ w.swapaxes(1, 2) + b[:, None]
        h = np.tanh(h) if layer == 0 else h
    if cohort == 0:
        return h[..., :2] * f["scaler/y_scale"][:2] + f["scaler/y_mean"][:2]
    p = np.exp(h)
    return p / p.sum(-1, keepdims=True)


def errors(cohort, p, y, weight):
    """Per target, of predictions p [row][column]: rmse of numbers, nll of the class."""
    if cohort:
        return np.array([(weight * -np.log(p[np.arange(len(p)), y[:, 2].astype(int)])).sum()
                         / weight.sum()])
    known = np.isfinite(y[:, :2])
    square = np.where(known, (p - y[:, :2]) ** 2, 0) * weight[:, None]
    return np.sqrt(square.sum(0) / (known * weight[:, None]).sum(0))


def close(got, want, name, scale=0):
    """To 1e-5; increases of an error to 1e-5 of the error, because predictions are in float32."""
    scale = np.maximum(scale, abs(np.asarray(want)).max())
    assert (abs(got - want) <= 1e-5 * scale).all(), (name, got, want)


def check(model, found, x, y, weight):
    chosen = np.sort(np.nonzero(shuffle(ROWS, 0, 0) < USED)[0])
    x, y, weight = x[chosen], y[chosen], weight[chosen]
    place = np.searchsorted(np.cumsum(weight), (np.arange(USED) + 0.5) / USED * weight.sum())
    columns = {0: slice(0, 2), 1: slice(2, 6)}
    for cohort in 0, 1:
        at, mean = columns[cohort], predict(model, cohort, x)
        base = errors(cohort, mean.mean(0), y, weight)
        base_members = np.stack([errors(cohort, p, y, weight) for p in mean])
        error = np.resize(base, at.stop - at.start)
        close(found["error"][at], error, "error")
        for d in range(4):
            increase, members = [], []
            for repeat in range(REPEATS):
                moved = x.copy()
                moved[:, d] = x[place[shuffle(USED, d + 1, repeat)], d]
                p = predict(model, cohort, moved)
                increase.append(errors(cohort, p.mean(0), y, weight) - base)
                members.append([errors(cohort, q, y, weight) for q in p] - base_members)
            size = at.stop - at.start
            own = np.mean(members, 0)
            close(found["permutation_importance"][at, d], np.resize(np.mean(increase, 0), size), d, error)
            close(found["permutation_importance_std_members"][at, d],
                  np.resize(np.std(own, 0), size), d, error)


def read(path):
    with h5py.File(path) as f:
        assert f.attrs["tutti_schema"] == b"tutti-importance-1.0"
        assert (f.attrs["rows"], f.attrs["repeats"]) == (USED, REPEATS)
        return {n: d[()] for n, d in f.items() if isinstance(d, h5py.Dataset)}


def check_weight_0(explain, x, y, weight, found):
    """Rows of weight 0 change no bit."""
    with h5py.File("zero.h5", "w") as f:
        for name, rows, more in (("x", x, 1000), ("y", y, 1), ("w", weight, 0)):
            f[name] = np.insert(rows, [0, 50, 50, len(rows)], more, axis=0)
        f["feature_name"], f["target_name"] = list("abcd"), ["u", "v", "class"]
    tutti(*explain[:2], "zero.h5", *explain[3:], "-o", "zero-out.h5")
    zero = read("zero-out.h5")
    assert all(found[n].tobytes() == zero[n].tobytes() for n in found)
    with h5py.File("zero.h5", "r+") as f:
        f["w"][1:] = 0
    assert "has 0" in tutti(*explain[:2], "zero.h5", *explain[3:], "-o", "x.h5", code=64)


def main():
    options = ["--weights", "w", "--rows", USED, "--repeats", REPEATS, "--seed", SEED, "-q"]
    x, y, weight = write_data()
    write_json("job.json", JOB)
    tutti("train", "-q", "job.json")
    explain = ["explain", "out/model.h5", "d.h5", *options]
    printed = tutti(*explain).out
    found = read("importance.h5")
    with h5py.File("out/model.h5") as f:
        check(f, found, x, y, weight)
    check_weight_0(explain, x, y, weight, found)
    said = json.loads(tutti(*explain, "--json", "-o", "two.h5", ranks=2).out)
    two = read("two.h5")
    assert all((found[n].tobytes() == two[n].tobytes()) for n in found)
    order = np.argsort(-found["permutation_importance"][1])
    first = said["columns"][1]
    assert (first["ensemble"], first["target"], first["error_metric"]) == ("n", "v", "rmse")
    assert [i["name"] for i in first["inputs"]] == ["abcd"[d] for d in order], first
    importance = found["permutation_importance"][1, order[0]]
    assert abs(first["inputs"][0]["permutation_importance"] / importance - 1) < 1e-9
    line = next(l for l in printed.splitlines()[2:] if l.startswith(" a "))
    assert float(line.split()[1]) == float(f"{found['permutation_importance'][0, 0]:.4g}"), line
    assert "importance.h5 exists; give another" in tutti(*explain, code=73)
    assert "at least 2 rows" in tutti(*explain[:3], "--inputs", "one", "--targets", "ones", "-o", "x.h5",
                                      code=64)
    assert not pathlib.Path("x.h5").exists()


test(main)
