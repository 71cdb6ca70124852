#!/usr/bin/python3
"""From a table to a model without a job file: tutti init, train and predict of a table as people
have it, the job that is written, and tables that cannot be used.

Exit status 0 if all is well, 77 without python3-h5py.
"""
import csv
import json
import os
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, h5py, np, test, tutti

SMALL = ("--members", "2", "--epochs", "3", "-q")


def number(v):
    return f"{v:.4f}".replace(".", ",")


def write_people(name, rows=60, change=None):
    """A table with a decimal comma, texts, dates, missing cells, and a column that counts rows."""
    rng = np.random.default_rng(3)
    lines = ["nr;zone;since;age;size;unit;gain"]
    for i in range(rows):
        age, size = rng.uniform(20, 70), rng.normal()
        cells = [str(i + 1), ["north", "south", "west"][i % 3], f"{1 + i % 28}.03.2024",
                 "" if i % 10 == 4 else "NA" if i % 10 == 7 else number(age), number(size), "m",
                 number(age / 10 + size + i % 3)]
        lines.append(";".join(cells))
    for row, column, text in change or ():
        cells = lines[row - 1].split(";")
        cells[column] = text
        lines[row - 1] = ";".join(cells)
    pathlib.Path(name).write_text("\n".join(lines) + "\n")


def weights(model):
    parts = []
    with h5py.File(model) as f:
        f["net"].visititems(lambda _, v: parts.append(v[...].tobytes())
                            if isinstance(v, h5py.Dataset) else None)
    return parts


def check_two_commands():
    """No run is refused: the table is read as it is, and each column is used or left out for a reason."""
    said = tutti("train", "people.csv", "--targets", "gain", *SMALL[:-1], ranks=2)
    check("60 rows, 7 columns; delimiter semicolon, decimal comma: " in said and
          "missing values: empty cells, 'NA'" in said, said)
    tutti("report", "out")
    job = pathlib.Path("out/job.yaml").read_text()
    for line in ("  file: ../people.csv", "  delimiter: semicolon", "  decimal: comma  # '",
                 "    - zone   # texts, 3 different: 'north', ...", "  # - since  # left out: dates such as 1.03",
                 "; 20 % missing", "  # - unit   # left out: texts, 1 different: 'm', ..., one value",
                 "  categories: {zone: zeros}", "  missing: {age: mean}", "  id: nr",
                 "  - {name: gain, target: gain, members: 2}", "train: {epochs: 3}"):
        check(line in job, f"'{line}' is not in\n{job}")
    check(tutti("init", "people.csv", "--targets", "gain", *SMALL).out.split("inputs:")[1].split("run:")[0]
          in job, "init prints another job than train writes")


def check_job_runs_again():
    first = weights("out/model.h5")
    tutti("train", "out/job.yaml", "-q", "--resume", "never")
    check(weights("out/model.h5") == first, "out/job.yaml: other weights than those of the table")
    check("nothing was done" in tutti("train", "people.csv", "--targets", "gain", *SMALL[:-1]),
          "the same command trains again")
    said = tutti("train", "people.csv", "--targets", "gain", "-q", code=73)
    check("out/job.yaml exists, and is another job" in said, said)
    for how in ([], ["--set", "data.split.seed=7", "--set", "train.loss=gaussian_nll"]):
        tutti("train", "people.csv", "--targets", "gain", *SMALL, "-o", "new/deep", "--resume", "never", *how)
        there = weights("new/deep/model.h5")
        check((there == first) == (not how), f"{how}: weights")
        tutti("train", "new/deep/job.yaml", "-q", "--resume", "never")
        check(weights("new/deep/model.h5") == there, f"{how}: job.yaml has other weights")


def check_predict():
    """A table of the same kind needs no options; predictions as a table, the same on two ranks."""
    write_people("new.csv", 40)
    text = []
    for name, ranks in ("p.csv", None), ("p2.csv", 2):
        tutti("predict", "out/model.h5", "new.csv", "-o", name, "-q", "--quantiles", "0.05,0.5", ranks=ranks)
        text.append(pathlib.Path(name).read_text())
    check(text[0] == text[1], "other predictions on two ranks")
    tutti("predict", "out/model.h5", "new.csv", "-o", "p.h5", "-q", "--quantiles", "0.05,0.5")
    names, *rows = [line.split(",") for line in text[0].splitlines()]
    check(names == ["nr", *(f"gain_{k}" for k in ("mean", "std", "std_aleatoric", "std_epistemic", "q0.05", "q0.5")),
                    "extrapolation"], names)
    table = np.array(rows, float)
    with h5py.File("p.h5") as f:
        wanted = np.column_stack([f["sample_id"], f["y_pred_mean"][:, 0], f["y_pred_std"][:, 0]])
        check(np.allclose(table[:, [0, 1, 2]], wanted, rtol=1e-8) and
              np.allclose(table[:, 5:7], f["y_pred_quantile"][:, :, 0].T, rtol=1e-8), "p.csv is not p.h5")
    check("40 row" in tutti("evaluate", "out/model.h5", "new.csv"), "evaluate")
    tutti("predict", "out/model.h5", "new.csv", "-o", "p.csv", code=73, says="exists")
    tutti("predict", "out/model.h5", "new.csv", "-o", "p.csv", "--force", "--members", code=64, says="-o pred.h5")
    tutti("predict", "out/model.h5", "new.csv", "-o", "q.csv", "--decimal", "point", code=65, says="is not a number")
    check(not [f for f in os.listdir(".") if f.startswith((".tmp", "q."))], f"files are left: {os.listdir('.')}")


def check_classes():
    """Targets that are classes: a column of probabilities for each."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(90, 2))
    rows = [f"r{i},{a:.3f},{b:.3f},{int(a > 0) + int(b > 0)}" for i, (a, b) in enumerate(x)]
    pathlib.Path("flowers.csv").write_text("\n".join(["name,a,b,kind", *rows]) + "\n")
    tutti("train", "flowers.csv", "--targets", "kind", "--classes", "kind", *SMALL, "-o", "flowers")
    tutti("predict", "flowers/model.h5", "flowers.csv", "-o", "f.csv", "-q")
    names, *rows = [line.split(",") for line in pathlib.Path("f.csv").read_text().splitlines()]
    at = [names.index(f"kind={k}") for k in range(3)]
    check(names[0] == "name" and rows[7][0] == "r7", names)
    check(all(abs(sum(float(row[k]) for k in at) - 1) < 1e-6 for row in rows), "probabilities do not add up to 1")
    best = [max(range(3), key=lambda k: float(row[at[k]])) for row in rows]
    check([row[names.index("kind")] for row in rows] == [str(k) for k in best], "the class is not the most probable one")
    check_names_of_classes(best)


def check_names_of_classes(best):
    """Texts as classes train the same model as their numbers, and predictions tell the names."""
    kinds = ["aster, blue", "rose", "tulip"]
    head, *rows = pathlib.Path("flowers.csv").read_text().splitlines()
    cells = [row.split(",") for row in rows]
    named = [",".join([*row[:3], f'"{kinds[int(row[3])]}"']) for row in cells]
    pathlib.Path("named.csv").write_text("\n".join([head, *named]) + "\n")
    with h5py.File("named.h5", "w") as f:
        for k, name in enumerate(("a", "b")):
            f[name] = [float(row[1 + k]) for row in cells]
        f["kind"] = [kinds[int(row[3])].encode() for row in cells]
    for ranks in (1, 2):
        tutti("train", "named.csv", "--targets", "kind", *SMALL, "-o", f"named{ranks}", ranks=ranks)
        check(weights(f"named{ranks}/model.h5") == weights("flowers/model.h5"), f"weights on {ranks} ranks")
    tutti("predict", "named1/model.h5", "flowers.csv", "-o", "n.csv", "-q")
    names, *rows = list(csv.reader(open("n.csv")))
    check(all(f"kind={k}" in names for k in kinds), names)
    check([row[names.index("kind")] for row in rows] == [kinds[k] for k in best], "names of classes")
    scores = [tutti("evaluate", "named1/model.h5", f, "--json").out for f in ("named.csv", "named.h5")]
    check(json.loads(scores[0])["targets"] == json.loads(scores[1])["targets"], scores)
    job = pathlib.Path("named1/job.yaml").read_text()
    check('classes: {kind: ["aster, blue", "rose", "tulip"]}' in job, job)
    pathlib.Path("wilted.csv").write_text(pathlib.Path("named.csv").read_text().replace('"rose"', "oak"))
    says = "'oak' is none of the classes (aster, blue, rose, tulip)"
    tutti("evaluate", "named1/model.h5", "wilted.csv", code=65, says=says)
    for wrong, says in (("{kin: [a, b]}", "'kin' is none of the targets: kind"), ("{kind: a}", "expected 2 to 1024 names"),
                        ("{}", "data.classes: 0 elements; 1 to 10000 are allowed"), ("a", "expected a mapping from columns to lists of names")):
        tutti("plan", "named1/job.yaml", "--set", f"data.classes={wrong}", code=78, says=says)
    tutti("plan", "named1/job.yaml", "--set", "ensembles[0].train.loss=mse", code=78, says="set its train.loss to cross_entropy")


def check_refused():
    """All problems at once, the same in init, plan and train; nothing is written."""
    write_people("bad.csv", change=[(5, 4, "broken"), (9, 4, "1;2"), (12, 6, "x")])
    table = ("bad.csv", "--targets", "gain", *SMALL[:-1])
    found = [tutti(*words, code=65).err.split("error: ")[1] for words in
             (("train", *table, "-o", "nowhere"), ("plan", *table), ("init", *table))]
    for text in (":5: column 'size': 'broken' is not a number", ":9: number of cells: 8; number of columns",
                 ":12: column 'gain': 'x' is not a number"):
        check(all(text in said for said in found), f"'{text}' is not in\n{found[0]}")
    check(found[0] == found[1] == found[2], "\n".join(found))
    tutti("train", *table, "-o", "nowhere", ranks=2, code=65, says="column 'gain': 'x' is not a number")
    check(not os.path.exists("nowhere"), "a refused table left a directory")
    tutti("train", *table, "-o", "fixed", "-q", "--na", "broken", "--na", "x", code=65, says="number of cells")
    pathlib.Path("quoted.csv").write_text('a,b,y\n"1,5",2,3\n"2,5",3,4\n')
    said = tutti("init", "quoted.csv", "--targets", "y", code=65, says="column 'a': '1,5' is not a number")
    check("- a  # number, 0 to 0; WRONG: 2 cells are no number\n" in said and "categories" not in said.out, said)
    pathlib.Path("kinds.csv").write_text("a,kind\n1,x\n2,y\n5,y\n")
    said = tutti("init", "kinds.csv", "--targets", "kind")
    check('- kind  # 2 classes' in said.out and 'classes: {kind: ["x", "y"]}' in said.out, said)
    pathlib.Path("equal.csv").write_text("a,kind\n1,x\n5,x\n")
    said = tutti("init", "equal.csv", "--targets", "kind", code=65, says="if it is the class of a target: data.classes")
    check("- kind  # WRONG: texts, all equal" in said.out, said)
    tutti("init", "kinds.csv", "--targets", "a,kind", code=65, says="no column is left that can be an input")
    tutti("train", "people.csv", code=64, says="which columns are the targets? Give --targets with some of: nr, zone")
    tutti("train", "people.csv", "--targets", "gin", code=65, says="did you mean 'gain'?")
    tutti("train", "people.csv", "--targets", "gain", "--classes", "age", code=64, says="none of the targets")
    tutti("train", "out/job.yaml", "--epochs", "3", code=64, says="have no use for a job file")
    pathlib.Path("wide.csv").write_bytes("a;b\n1;2\n".encode("utf-16"))
    tutti("init", "wide.csv", "--targets", "b", code=65, says="iconv -f UTF-16 -t UTF-8")


def check_plan_of_jobs():
    """Labels and inputs of other files: plan refuses what train refuses, with all rows."""
    x, y = np.ones((20, 2)), np.arange(20.0)
    x[3, 1] = x[7, 1] = np.nan
    y[5] = np.inf
    with h5py.File("d.h5", "w") as f:
        f["x"], f["y"] = x, y
    pathlib.Path("j.yaml").write_text("data: {file: d.h5}\nensembles: [{name: a, members: 2}]\n")
    for verb in ("plan", "train"):
        said = tutti(verb, "j.yaml", code=65)
        check("row 3, column 1 ('x1'): nan; " in said and "1 more: 7" in said and "row 5, column 0 ('y0'): inf" in said
              and "3 cells or rows cannot be used; into the job: data: {missing: {x1: mean}}" in said, said)
    y[5] = 0
    with h5py.File("d.h5", "a") as f:
        f["y"][...] = y
    tutti("train", "d.h5", *SMALL, "-o", "h5")
    check("missing: mean" in pathlib.Path("h5/job.yaml").read_text(), "h5/job.yaml")


def main():
    write_people("people.csv")
    check_two_commands()
    check_job_runs_again()
    check_predict()
    check_classes()
    check_refused()
    check_plan_of_jobs()


test(main)
