#!/usr/bin/python3
"""data.categories and data.missing: indicator: what is stored and predicted, by an independent
computation in NumPy; the same bits from a CSV file, HDF5 files, two ranks and the library; other
levels and what cannot be done are refused.
"""
import csv
import json
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from nets import layers_of
from rig import h5py, np, package, sets, test, tutti, write_json

ROWS, TRAIN = 240, 160
TEXTS = ["brass", "steel, hard", "Öl", "'quoted \"x\"'"]
COLUMNS = ["a", "material", "b", "code", "site"]
JOB = {"data": {"file": "t.csv", "split": {"column": "part"}, "decimal": "comma", "delimiter": "semicolon",
                "categories": {"material": "error", "code": "zeros", "site": "zeros"},
                "missing": {"b": "indicator", "site": "indicator"},
                "normalize": {"a": "log", "*": "minmax"}},
       "model": {"hidden": [6]},
       "train": {"loss": "gaussian_nll", "epochs": 10, "learning_rate": 0.02, "batch_size": 32},
       "ensembles": [{"name": "n", "members": 3, "target": "y"}],
       "run": {"device": "cpu", "threads": 1}}
STD = ["y_pred_mean", "y_pred_std", "y_pred_std_aleatoric", "y_pred_std_epistemic"]


def make_data():
    """a: amount; material: texts; b: amount with gaps; code: numbers; site: texts with gaps, one of
    them in the last rows alone."""
    rng = np.random.default_rng(7)
    a = np.exp(rng.normal(size=ROWS))
    material = rng.choice(TEXTS, ROWS)
    b = np.where(rng.random(ROWS) < 0.25, np.nan, rng.normal(size=ROWS) * 5)
    code = rng.choice([-2.5, 3.0, 11.0], ROWS)
    site = rng.choice(np.array(["n", "s", ""], object), ROWS)
    site[TRAIN + 5] = "west"
    y = np.log(a) + (material == "brass") - 2 * (code == 3) + np.isnan(b) + 0.5 * (site == "s")
    return dict(a=a, material=material, b=b, code=code, site=site, y=y,
                part=np.repeat([0, 1, 2], [TRAIN, 40, 40]))


def cell(v):
    if isinstance(v, str):
        return '"' + v.replace('"', '""') + '"' if set(v) & set(';",') else v
    return "" if np.isnan(v) else repr(float(v)).replace(".", ",")


def write_csv(name, data, columns):
    lines = [";".join(columns)] + [";".join(cell(data[c][i]) for c in columns) for i in range(len(data["a"]))]
    pathlib.Path(name).write_text("\n".join(lines) + "\n")


def write_h5(name, data, columns):
    with h5py.File(name, "w") as f:
        for c in columns:
            texts = data[c].dtype.kind in "OU"
            f.create_dataset(c, data=[str(v) for v in data[c]] if texts else data[c],
                             dtype=h5py.string_dtype() if texts else None)


def refused(code, text, *words):
    said = tutti(*words, code=code)
    assert text in said, f"{words}: {said}"


def read(name, *datasets):
    with h5py.File(name) as f:
        return [f[d][()] for d in datasets]


def one_hot(data):
    """The inputs of the networks, (row, 12), in double, by the training rows."""
    log = np.log(data["a"])
    b = data["b"][:TRAIN]
    at = lambda v: v[:TRAIN][~np.isnan(v[:TRAIN])]
    filled = np.where(np.isnan(data["b"]), np.nanmean(b), data["b"])
    columns = [(log - log[:TRAIN].mean()) / log[:TRAIN].std()]
    columns += [data["material"] == t for t in sorted(TEXTS, key=lambda t: t.encode())]
    columns += [(filled - at(data["b"]).min()) / np.ptp(at(data["b"])), np.isnan(data["b"])]
    columns += [data["code"] == v for v in (-2.5, 3, 11)]
    columns += [data["site"] == s for s in ("n", "s")] + [data["site"] == ""]
    return np.stack(columns, 1).astype(float)


def outputs(model, x):
    """Of the last layer, (member, row, output), in double."""
    with h5py.File(model) as f:
        for layer in range(2):
            w, b = (part.astype(float) for part in layers_of(f)[layer])
            h = (x if layer == 0 else h) @ w.swapaxes(1, 2) + b[:, None]
            h = h / (1 + np.exp(-h)) if layer == 0 else h
    return h


def predict(model, x):
    """Mean and standard deviations of the ensemble, in double."""
    h = outputs(model, x)
    with h5py.File(model) as f:
        offset, scale = f["scaler/y_mean"][0], f["scaler/y_scale"][0]
        m = h[..., 0] * scale + offset
        v = (np.logaddexp(0, h[..., 1]) + f["net/variance_floor"][0]) * scale**2
    return [m.mean(0), np.sqrt(v.mean(0) + m.var(0)), np.sqrt(v.mean(0)), m.std(0)]


def same(what, got, want, precision=1e-5):
    error = abs(got - want).max() / abs(want).max()
    assert error < precision, f"{what}: {error}"


def check_model(model, x):
    column, kind, level, name = read(model, *(f"network_input_{n}" for n in
                                              ("column", "kind", "level", "level_name")))
    assert column.tolist() == [0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4], column
    assert kind.tolist() == [0, 1, 1, 1, 1, 0, 2, 1, 1, 1, 1, 1, 2], kind
    names = [bytes(n).decode().rstrip("\0") for n in name.view(f"S{name.shape[1]}")[:, 0]]
    want = [""] + sorted(TEXTS, key=lambda t: t.encode()) + [""] * 5 + ["n", "s", ""]
    assert names == want, names
    assert level[7:10].tolist() == [-2.5, 3, 11] and level[1:5].tolist() == [0, 1, 2, 3], level
    low, high = read(model, "scaler/x_low", "scaler/x_high")
    assert np.allclose(low, x[:TRAIN].min(0), atol=1e-6) and np.allclose(high, x[:TRAIN].max(0), atol=1e-6)


def codes(model, data, rows):
    """The rows as the library takes them."""
    site = [np.nan if s == "" else model.level_value("site", s) for s in data["site"][rows]]
    material = [model.level_value("material", t) for t in data["material"][rows]]
    return np.stack([data["a"][rows], material, data["b"][rows], data["code"][rows], site], 1)


def check_library(data, pred, slopes):
    model = package().Model("out/model.h5")
    assert model.input_levels["material"] == sorted(TEXTS, key=lambda t: t.encode())
    assert model.input_levels["code"] == ["-2.5", "3", "11"] and model.input_levels["a"] == []
    assert np.isnan(model.level_value("material", "wood"))
    mapping = {c: data[c] for c in COLUMNS}
    for rows in (slice(None), slice(0, 1)):
        x = codes(model, data, rows)
        x[np.isnan(x[:, 4]) & (data["site"][rows] != ""), 4] = -1
        for given in (x, {c: v[rows] for c, v in mapping.items()}):
            got = model.predict(given)
            for name, wanted in zip(("mean", "std", "aleatoric", "epistemic"), STD):
                assert (np.asarray(got[name]).ravel() == pred[wanted][rows].ravel()).all(), name
    got = model.predict(x, gradient=True).mean_gradient.reshape(slopes[:1].shape)
    assert (abs(got - slopes[:1]) <= 1e-5 * abs(slopes[:1]).max()).all()
    x[0, 1] = 17
    try:
        model.predict(x)
    except package().InputError as e:
        assert "column 1 (material) is 17, which is no level of the training rows ('quoted" in str(e), e
    else:
        raise AssertionError("17 is no level")


def check_slopes(model, data, x, slopes):
    """By amounts as differences in NumPy; 0 by categories and missing values."""
    assert (slopes[:, 0, [1, 3, 4]] == 0).all() and (slopes[np.isnan(data["b"]), 0, 2] == 0).all()
    step = 1e-5
    for column, at in (("a", 0), ("b", 2)):
        up, down = (predict(model, one_hot_at(data, column, s))[0] for s in (step, -step))
        known = ~np.isnan(data[column])
        want = ((up - down) / (2 * step))[known]
        assert np.allclose(slopes[known, 0, at], want, rtol=1e-4, atol=1e-6), column


def one_hot_at(data, column, step):
    """one_hot of other values of a column, normalized by the old ones."""
    base, scale = one_hot(data), {"a": 0, "b": 5}[column]
    if column == "a":
        log = np.log(data["a"])
        base[:, scale] = (np.log(data["a"] + step) - log[:TRAIN].mean()) / log[:TRAIN].std()
    else:
        b = data["b"][:TRAIN][~np.isnan(data["b"][:TRAIN])]
        base[:, scale] += np.where(np.isnan(data["b"]), 0, step / np.ptp(b))
    return base


def check_refusals(data):
    train = ["train", "job.json", "--set", "run.directory=x", "--set"]
    for how, code, text in (
            ("data.categories={material: error}", 65, "'n' is not a number"),
            ("data.categories={code: error}", 65, "if the values of an input are levels: data.categories: {material: error}"),
            ("data.categories={material: error, site: error}", 65,
             "t.csv:167: column 'site': 'west' is no level of the training rows (n, s); "
             "data.categories: zeros accepts other levels"),
            ("data.categories={material: error, sit: zeros}", 65, "data.categories: there is no column 'sit'"),
            ("data.categories={material: errors}", 78, "'errors' is not one of none, error, zeros"),
            ("data.missing={material: mean, '[bs]*': indicator}", 78,
             "data.missing: mean for the input 'material': its values are levels, which have no mean; "
             "choose by column: data.missing: {material: indicator, '*': mean}"),
            ("data.missing={b: indicator}", 65, "the level is missing; data.missing: indicator accepts this")):
        refused(code, text, *train, how)
    wood = {c: v[:3].copy() for c, v in data.items()}
    wood["material"] = np.array(["brass", "wood", "brass"], object)
    write_csv("wood.csv", wood, COLUMNS)
    write_h5("wood.h5", wood, COLUMNS)
    predict = ["predict", "out/model.h5", "-o", "x.h5", "--decimal", "comma", "--delimiter", "semicolon"]
    refused(65, "wood.csv:3: column 'material': 'wood' is no level of the training rows ('quoted",
            *predict, "wood.csv")
    refused(65, "wood.h5: dataset 'material', row 1 (from 0): 'wood' is no level", *predict, "wood.h5")
    many = dict(data, site=np.array([f"s{i}" for i in range(ROWS)], object))
    for c in many:
        many[c] = np.tile(many[c], 5)
    many["site"] = np.array([f"s{i}" for i in range(5 * ROWS)], object)
    write_csv("many.csv", many, [*COLUMNS, "y", "part"])
    refused(65, "the column has more than 1000 levels", *train, "data.file=many.csv")


def check_campaign(data):
    """Numbers are levels in the rounds of a campaign."""
    for name, rows in (("first.h5", slice(0, 30)), ("pool.h5", slice(30, ROWS))):
        with h5py.File(name, "w") as f:
            f["x"] = np.stack([data["a"], data["code"]], 1)[rows]
            f["y"] = data["y"][rows]
            f["feature_name"], f["target_name"] = ["a", "code"], ["y"]
    job = {"data": {"file": "first.h5", "categories": {"code": "error"}},
           "model": {"hidden": [4]}, "train": {"epochs": 3, "batch_size": 8},
           "ensembles": [{"name": "n", "members": 2, "target": "y"}],
           "pool": {"file": "pool.h5", "labels": "y"}, "label": {"mode": "hidden"},
           "select": {"batch": 2, "method": "kcenter"}, "stop": {"rounds": 1}, "run": JOB["run"]}
    write_json("campaign.json", job)
    tutti("campaign", "run", "campaign.json")
    level, inputs = read("campaign/model.h5", "network_input_level", "net/layer_in")
    assert level[1:].tolist() == [-2.5, 3, 11] and inputs[0, 0] == 4, (level, inputs)


WOOD = 'wood, "dry"'
QUERY_JOB = {"data": {"file": "first.csv", "inputs": "a,material", "targets": "y", "split": {"column": "part"},
                      "categories": {"material": "zeros"}},
             "model": {"hidden": [5]}, "train": {"loss": "mse", "epochs": 20, "batch_size": 8},
             "ensembles": [{"name": "n", "members": 3, "target": "y"}],
             "pool": {"file": "pool.csv"}, "select": {"batch": 12, "method": "top"}, "stop": {"rounds": 1},
             "label": {"mode": "ask", "max_wait": "10ms"},
             "run": JOB["run"]}


def texts_of(array):
    """Texts of characters (..., length)."""
    return [bytes(v).rstrip(b"\0").decode() for v in array.reshape(-1, array.shape[-1]).view(f"S{array.shape[-1]}")[:, 0]]


def candidates(n=60, seed=3):
    """Some have a text that no training row has. Other seeds: other rows."""
    rng = np.random.default_rng(seed)
    material = rng.choice(np.array([*TEXTS[:3], WOOD], object), n)
    return rng.normal(size=n), material


def check_round(folder, a, material, levels):
    """Model, scores and queries of a round, against NumPy and the texts of the pool."""
    names = texts_of(*read(f"{folder}/model.h5", "network_input_level_name"))
    assert names == ["", *levels], names
    mean, scale = (v[0] for v in read(f"{folder}/model.h5", "scaler/x_mean", "scaler/x_scale"))
    x = np.stack([(a - mean) / scale, *(material == t for t in levels)], 1).astype(float)
    want = outputs(f"{folder}/model.h5", x)[..., 0].std(0)
    score, = read(f"{folder}/pool_scores.h5", "score")
    same("scores", score[0], want)
    row, x, number, name, column = read(f"{folder}/queries.h5", "row", "x", "level", "level_name",
                                        "level_column")
    assert sorted(row) == sorted(np.argsort(-want)[:len(row)]) and (column == 1).all(), row
    text = dict(zip(number, texts_of(name)))
    assert list(text.values()) == levels
    assert [text.get(v, WOOD) for v in x[:, 1]] == material[row].tolist() and (x[:, 0] == a[row]).all()
    assert {-1.0, 0.0} <= set(x[:, 1]), x[:, 1]
    return row


def check_texts():
    """Texts as levels in a campaign: the oracle gets the texts, also those that are no level; the
    levels stay those of the training rows of data.file."""
    a, material = candidates()
    first = candidates(40, seed=4)
    keep = first[1] != WOOD
    first = dict(a=first[0][keep], material=first[1][keep])
    first.update(y=first["a"] + (first["material"] == "brass"), part=np.arange(keep.sum()) % 5 // 4)
    levels = sorted(TEXTS[:3], key=lambda t: t.encode())
    pool = dict(material=material, a=a)
    for name, data in (("first.csv", first), ("pool.csv", pool)):
        with open(name, "w", newline="") as f:
            csv.writer(f).writerows([list(data), *zip(*data.values())])
    write_h5("pool.h5", pool, pool)
    write_json("texts.json", QUERY_JOB)
    go = ["campaign", "run", "texts.json", "--set"]
    line = list(material).index(WOOD) + 2
    refused(65, f"pool.csv:{line}: column 'material': '{WOOD}' is no level of the training rows", *go,
            "data.categories={material: error}", "--set", "campaign.directory=c2")
    tutti(*go, "pool.file=pool.h5", *sets("campaign.directory=c3"), ranks=2, code=75)
    row = check_round("c3/round-0001", a, material, levels)
    with open("c3/events.jsonl") as f:
        text = [own for event in map(json.loads, f) for own in event.get("text", [])]
    assert text == [[None, name] for name in material[row].tolist()]
    tutti(*go, "campaign.directory=c4", code=75)
    assert (check_round("c4/round-0001", a, material, levels) == row).all()
    with open("asked.csv", "w") as f:
        f.write(tutti("ask", "c4", "-k", len(row)).out)
    with open("asked.csv", newline="") as f:
        points = list(csv.DictReader(f))
    assert [(float(q["a"]), q["material"]) for q in points] == list(zip(a[row], material[row]))
    with open("labels.csv", "w") as f:
        f.write("id,y\n" + "".join(f"{q['id']},{float(q['a']) + len(q['material'])}\n" for q in points))
    tutti("tell", "c4", "labels.csv")
    tutti(*go, "campaign.directory=c4")
    names, = read("c4/model.h5", "network_input_level_name")
    assert texts_of(names) == ["", *levels]
    y, x, part, name = read("c4/campaign.h5", "query_y", "query_x", "query_split", "level_name")
    assert np.allclose(y[:, 0], [a[r] + len(material[r]) for r in row]) and texts_of(name) == levels
    mean, scale = read("c4/model.h5", "scaler/x_mean", "scaler/x_scale")
    used = np.concatenate([first["a"][first["part"] == 0], x[part == 0, 0]])
    assert np.isclose(mean[0], used.mean()) and (mean[1], scale[1]) == (0, 1) and (x[part == 0, 1] == -1).any()
    plan = tutti("plan", "texts.json", "--set", "pool.file=pool.h5").out
    assert f"pool.h5: {len(a)} rows" in plan, plan


def main():
    data = make_data()
    write_csv("t.csv", data, [*COLUMNS, "y", "part"])
    write_h5("t.h5", data, [*COLUMNS, "y", "part"])
    write_json("job.json", JOB)
    tutti("train", "-q", "job.json")
    plan = json.loads(tutti("plan", "job.json", "--json").out)
    assert plan["cohorts"][0]["inputs"] == 13 and plan["data"]["inputs"] == 5, plan
    x = one_hot(data)
    check_model("out/model.h5", x)
    tutti("predict", "out/model.h5", "t.csv", "-q", "--jacobian", "--decimal", "comma",
        "--delimiter", "semicolon")
    pred = dict(zip([*STD, "extrapolation"], read("pred.h5", *STD, "extrapolation")))
    for name, want in zip(STD, predict("out/model.h5", x)):
        same(name, pred[name][:, 0], want)
    beyond = np.maximum(0, np.maximum(x[:TRAIN].min(0) - x, x - x[:TRAIN].max(0)))
    want = (beyond / np.ptp(x[:TRAIN], axis=0)).max(1)
    assert np.allclose(pred["extrapolation"], want, atol=1e-5) and (want > 0).any()
    slopes, = read("pred.h5", "y_pred_mean_jacobian")
    check_slopes("out/model.h5", data, x, slopes)
    if package():
        check_library(data, pred, slopes)
    tutti("train", "-q", "job.json", *sets("run.directory=two", "data.inputs=a,material,b,code,site", "data.file=t.h5"),
          ranks=2)
    trained = read("out/model.h5", "net/parameters")[0]
    assert (read("two/model.h5", "net/parameters")[0] == trained).all()
    tutti("predict", "two/model.h5", "t.h5", "-q", "-o", "two.h5")
    assert (read("two.h5", STD[0])[0] == pred[STD[0]]).all()
    np.savez("t.npz", **{c: data[c].astype(str) if data[c].dtype.kind == "O" else data[c] for c in COLUMNS})
    tutti("predict", "two/model.h5", "t.npz", "-q", "-o", "npz.h5")
    assert (read("npz.h5", STD[0])[0] == pred[STD[0]]).all()
    found = json.loads(tutti("explain", "out/model.h5", "t.h5", "--json", "-q").out)["columns"][0]
    gain = {i["name"]: i["permutation_importance"] for i in found["inputs"]}
    assert gain["code"] > 0.3 and gain["material"] > 0.1, gain
    check_campaign(data)
    check_texts()
    check_refusals(data)


test(main)
