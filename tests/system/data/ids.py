#!/usr/bin/python3
"""data.id: ids of rows from every kind of file are no input and come back in results and predictions;
bad ones are refused by plan, train and predict with the same words.
"""
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, h5py, np, ROOT, sets, test, TUTTI, tutti, write_json

ROWS = 40
JOB = {"ensembles": [{"name": "e", "target": "y", "members": 2}], "model": {"hidden": [3]}, "train": {"epochs": 2},
       "run": {"device": "cpu"}}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(ROWS, 2))
Y = X.sum(1)
NUMBERS = 100 + RNG.permutation(ROWS)
TEXTS = [f"größe {n}" for n in NUMBERS]


def write(name, ids, x=X):
    """A data file of the kind that the name says; ids None: none."""
    columns = {"a": x[:, 0], "b": x[:, 1], "y": x.sum(1)}
    if name.endswith(".csv"):
        cells = {**({} if ids is None else {"shot": ids}), **columns}
        lines = [",".join(map(str, row)) for row in zip(*cells.values())]
        pathlib.Path(name).write_text("\n".join([",".join(cells), *lines, ""]), encoding="utf-8")
    elif name.endswith(".npz"):
        np.savez(name, **columns, **({} if ids is None else {"shot": np.array(ids)}))
    else:
        with h5py.File(name, "w") as f:
            f["x"], f["y"], f["feature_name"], f["target_name"] = x, columns["y"], ["a", "b"], ["y"]
            if ids is not None:
                f["shot"] = ids


def found(path):
    """[(row, id)] of a file; None: it has no ids."""
    with h5py.File(path) as f:
        if "sample_id" not in f:
            return None
        ids = f["sample_id"][()]
        if ids.dtype.kind == "S":
            ids = [b"".join(row).rstrip(b"\0").decode() for row in ids]
        return list(zip(f["sample"][()].tolist(), list(ids)))


def train(file, out, id_="shot", ranks=0):
    write_json("job.json", {**JOB, "data": {"file": file, "id": id_}})
    return tutti("train", "job.json", "--set", f"run.directory={out}", ranks=ranks)


def check_sources():
    for kind in ("csv", "h5", "npz"):
        for what, ids in (("number", NUMBERS), ("text", TEXTS)):
            name, out = f"{what}.{kind}", f"{what}-{kind}"
            write(name, ids)
            said = train(name, out, ranks=2 * (out == "text-csv"))
            check("2 inputs: a, b; ids: shot" in said, f"{name}: the inputs in {said[:300]}")
            expected = [(r, ids[r]) for r in range(ROWS)]
            tested = found(f"{out}/results.h5")
            check(tested and len(tested) == 4 and set(tested) <= set(expected), f"{name}: results {tested}")
            tutti("predict", f"{out}/model.h5", name, "-o", "pred.h5", "--force", "-q")
            check(found("pred.h5") == expected, f"{name}: predictions {str(found('pred.h5'))[:200]}")
    for name, ids in (("other.csv", None), ("new.csv", TEXTS), ("far.csv", NUMBERS)):
        write(name, ids, X * (5 if name == "far.csv" else 1))
        said = tutti("predict", "number-csv/model.h5", name, "-o", "pred.h5", "--force", ranks=2 * (name == "new.csv"))
        expected = ids is not None and [(r, ids[r]) for r in range(ROWS)]
        check((found("pred.h5") or False) == expected, f"{name}: {str(found('pred.h5'))[:200]}")
        far = int(np.argmax(abs(X).max(1)))
        check(("(id 1" in said) == (name == "far.csv"), f"{name}: farthest row about {far}: {said}")


def check_refused():
    holes, twice = [*NUMBERS], [*NUMBERS]
    holes[30], twice[20] = "", NUMBERS[7]
    write("holes.csv", holes)
    write("twice.csv", twice)
    write("twice.h5", twice)
    write("half.h5", NUMBERS + 0.5)
    for file, set_, code, text in (
            ("holes.csv", [], 65, "holes.csv:32: column 'shot': the id is missing"),
            ("twice.csv", [], 65, f"twice.csv:22: column 'shot': another row has the same id (id {NUMBERS[7]}): "),
            ("twice.h5", [], 65, f"another row has the same id (id {NUMBERS[7]}): "),
            ("half.h5", [], 65, f"{NUMBERS[0]}.5 is no id"),
            ("number.csv", ["data.id=nix"], 65, "there is no column 'nix'"),
            ("number.csv", ["data.inputs=[a,shot]"], 78, "column 'shot' has ids (data.id), and is also one of the inputs"),
            ("number.csv", ["data.id=y"], 78, "column 'y' has ids (data.id), and is also one of the targets")):
        write_json("job.json", {**JOB, "data": {"file": file, "id": "shot"}})
        words = ["job.json", *sets(*set_, "run.directory=never")]
        for verb in ("plan", "train"):
            said = tutti(verb, *words, code=code)
            check(text in said, f"{verb} of {file} {set_}: {said[-500:]}")
        if file.startswith("twice"):
            check(text in tutti("predict", "number-csv/model.h5", file, "-o", "p.h5", code=65), f"predict {file}")
    check(not pathlib.Path("never/model.h5").exists() and not pathlib.Path("p.h5").exists(), "something was written")


def check_python():
    """The index of a DataFrame, if it is not 0, 1, 2, ... and its labels are different."""
    import pandas
    sys.path.insert(0, str(ROOT / "python"))
    from tutti import ensemble
    from tutti.data import dataset
    frame = pandas.DataFrame(X, columns=["a", "b"], index=TEXTS)
    table = dataset.inputs(frame)
    check(dataset.ids(table.index).tolist() == TEXTS, "ids of a DataFrame")
    for index in (range(ROWS), [1] * ROWS, np.linspace(0, 1, ROWS)):
        check(dataset.ids(pandas.Index(index)) is None, f"index {index} has ids")
    check(dataset.ids(pandas.date_range("2024-01-01", periods=3)).tolist()[0].startswith("2024-01-01"), "times")
    fitted = ensemble.Ensemble(members=2, epochs=2, hidden=[3], quiet=True, program=TUTTI, directory="frame")
    fitted.fit(frame, Y)
    tested = found(fitted.run_.path("results.h5"))
    check(set(tested) <= set(enumerate(TEXTS)) and tested, f"results of a DataFrame: {tested}")


def main():
    check_sources()
    check_refused()
    check_python()


test(main)
