#!/usr/bin/python3
"""Tables as the data of a job: the same table in any kind of file gives the same bits of weights,
the same predictions and scores, and a wrong cell is refused with its place.

    tables.py TUTTI MPIRUN...

Exit status 0 if all is well, 77 without python3-h5py.
"""
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, finish, h5py, np

ROWS, INPUTS = 200, ["f1", "f2", "f3", "g"]
JOB = """\
data: {file: FILE}
ensembles: [{name: a, target: strength, members: 2}]
train: {epochs: 2}
model: {hidden: [8]}
run: {device: cpu, threads: 1}
"""
ALL_BUT_TEXT = "data.inputs=['*', '!id', '!note']"


def table():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, len(INPUTS)))
    y = x @ [1, 2, -1, 0.5] + 0.1 * rng.normal(size=ROWS)
    y[::17] = np.nan
    return x, y


def csv(x, y, separator=",", decimal=".", newline="\n", mark=""):
    """Text columns between the numbers, empty cells for missing labels, one fold column."""
    def number(v):
        return "" if np.isnan(v) else repr(float(v)).replace(".", decimal)
    lines = [separator.join(["id", "f1", "note", "f2", "f3", "g", "fold", "strength"])]
    for i, row in enumerate(x):
        cells = [number(v) for v in row]
        lines.append(separator.join([f"r{i}", cells[0], f'"text{separator} ""{i}"""', *cells[1:],
                                     str(i % 3), number(y[i])]))
    return (mark + newline.join(lines) + newline).encode()


class Tables:
    def __init__(self, tutti, mpirun, folder):
        self.tutti, self.mpirun, self.folder = tutti, mpirun, pathlib.Path(folder)
        self.runs = 0

    def call(self, *words, ranks=0):
        launch = [*self.mpirun, str(ranks)] if ranks else []
        return subprocess.run([*launch, self.tutti, *words], text=True, cwd=self.folder,
                              capture_output=True, timeout=60, env=os.environ)

    def weights(self, name, *settings, ranks=0):
        """Train on a file; all weights as one array."""
        self.runs += 1
        out = f"out{self.runs}"
        (self.folder / "job.yaml").write_text(JOB.replace("FILE", name))
        words = [w for s in (f"run.directory={out}", *settings) for w in ("--set", s)]
        done = self.call("train", "job.yaml", *words, ranks=ranks)
        check(done.returncode == 0, f"{name} {settings}: {done.stderr}")
        self.log = done.stderr
        if done.returncode:
            return np.zeros(0), out
        with h5py.File(self.folder / out / "model.h5") as f:
            parts = []
            f["net"].visititems(lambda _, v: parts.append(v[:].ravel())
                                if isinstance(v, h5py.Dataset) else None)
            return np.concatenate(parts), out


def write_all(folder, x, y):
    """The table in every kind of file; the settings of each."""
    (folder / "t.csv").write_bytes(csv(x, y))
    (folder / "german.csv").write_bytes(csv(x, y, ";", ",", "\r\n", "\ufeff"))
    with gzip.open(folder / "t.tsv.gz", "wb") as f:
        f.write(csv(x, y, "\t"))
    np.savez(folder / "arrays.npz", x=x, strength=y, fold=np.arange(ROWS) % 3, note=np.array(["a"]))
    np.savez_compressed(folder / "columns.npz", strength=y, **dict(zip(INPUTS, x.T)))
    np.save(folder / "t.npy", np.column_stack([x, y]))
    with h5py.File(folder / "matrix.h5", "w") as f:
        f["x"], f["y"], f["target_name"] = x, y, ["strength"]
    write_hdf5_columns(folder, x, y)
    write_sites(folder, x, y)
    named = "data.targets=strength"
    return {
        "columns.h5": ["data.weights=one"],
        "xarray.nc": [],
        "packed.nc": [],
        "matrix.h5": [],
        "t.csv": ["data.inputs=['f*', g, '!fold']"],
        "german.csv": ["data.decimal=comma", "data.inputs=[f1, f2, f3, g]"],
        "t.tsv.gz": ["data.inputs=['!id', '!note', '!fold']"],
        "arrays.npz": ["data.inputs=x", named],
        "columns.npz": [f"data.inputs={INPUTS}".replace("'", "")],
        "t.npy": ["data.targets=c4", "ensembles[0].target=c4"],
    }


def write_hdf5_columns(folder, x, y):
    """One dataset for each column, as pandas and xarray write them; packed variables."""
    columns = dict(zip(INPUTS, x.T))
    with h5py.File(folder / "columns.h5", "w") as f:
        for name, column in columns.items():
            f[name] = column
        f.create_dataset("strength", data=y, compression="gzip", chunks=(50,))
        f["note"], f["one"] = ["text"] * ROWS, np.ones(ROWS)
    rows = {name: ("index", column) for name, column in {**columns, "strength": y}.items()}
    try:
        import xarray
    except ImportError:
        return
    text = ("index", np.array(["text"] * ROWS, dtype=object))
    xarray.Dataset({**rows, "note": text}, {"index": np.arange(ROWS)}).to_netcdf(folder / "xarray.nc")
    xarray.Dataset({**rows, "g": ("index", x[:, 3])}).to_netcdf(
        folder / "packed.nc", encoding={"g": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}})


def write_sites(folder, x, y):
    """Rows with the name of their site."""
    site = [f"site {i * i % 23}" for i in range(ROWS)]
    with h5py.File(folder / "sites.h5", "w") as f:
        for name, column in zip([*INPUTS, "strength"], [*x.T, y]):
            f[name] = column
        f["site"] = site
    rows = [",".join([*(repr(float(v)) for v in row), "" if np.isnan(t) else repr(float(t)), s])
            for row, t, s in zip(x, y, site)]
    (folder / "sites.csv").write_text("\n".join([",".join([*INPUTS, "strength", "site"]), *rows]))


def check_same_bits(run, x, y):
    x[:, 3] = np.round(2 * x[:, 3]) / 2
    found = {name: run.weights(name, *how)
             for name, how in write_all(run.folder, x, y).items() if (run.folder / name).exists()}
    wanted = found["matrix.h5"][0]
    for name, (got, _) in found.items():
        check(np.array_equal(got, wanted), f"{name}: other weights than matrix.h5")
    several, _ = run.weights("t.csv", "data.inputs=['f[1-3]', g]", ranks=3)
    check(np.array_equal(several, wanted), "t.csv on 3 ranks: other weights than on one")
    return found["t.csv"][1]


def check_predict(run, model, x, y):
    """The columns of a table are those of the model, in any order, among others."""
    with h5py.File(run.folder / "new.h5", "w") as f:
        f["x"], f["y"], f["target_name"] = x, y, ["strength"]
        f["feature_name"] = INPUTS
    results = []
    for name in ("new.h5", "t.csv", "columns.npz"):
        done = run.call("predict", f"{model}/model.h5", name, "--force", "-o", "p.h5")
        scores = run.call("evaluate", f"{model}/model.h5", name)
        check(done.returncode == 0 and scores.returncode == 0, f"{name}: {done.stderr}{scores.stderr}")
        with h5py.File(run.folder / "p.h5") as f:
            results.append((f["y_pred_mean"][:].tobytes(), scores.stdout))
        check(results[-1] == results[0], f"{name}: other predictions or scores than new.h5")
    done = run.call("evaluate", f"{model}/model.h5", "german.csv", "--decimal", "comma", "--delimiter", "semicolon")
    check(done.stdout == results[0][1], f"german.csv: {done.stdout}{done.stderr}")
    rows = [",".join(map(repr, map(float, [*row, label]))) for row, label in zip(x, y)]
    rows[1] = rows[1].rsplit(",", 1)[0] + ",broken"
    (run.folder / "na.csv").write_text("\n".join([",".join([*INPUTS, "strength"]), *rows]) + "\n")
    done = run.call("evaluate", f"{model}/model.h5", "na.csv")
    check(done.returncode == 65 and "'broken'" in done.stderr, f"na.csv: {done.stderr}")
    for option in (["--na", "broken"], ["--na", "x", "--na", "broken"]):
        done = run.call("evaluate", f"{model}/model.h5", "na.csv", *option)
        check(f" {np.isfinite(y).sum() - 1} row" in done.stdout, f"na.csv {option}: {done.stdout}{done.stderr}")
    np.save(run.folder / "inputs.npy", x)
    done = run.call("predict", f"{model}/model.h5", "inputs.npy", "--force", "-o", "p.h5")
    with h5py.File(run.folder / "p.h5") as f:
        check("used by position" in done.stderr and f["y_pred_mean"][:].tobytes() == results[0][0],
              f"inputs.npy: {done.stderr}")
    np.save(run.folder / "inputs.npy", x[:, 1:])
    done = run.call("predict", f"{model}/model.h5", "inputs.npy", "--force", "-o", "p.h5")
    check(done.returncode == 65 and "has 3 columns" in done.stderr, f"inputs.npy: {done.stderr}")
    np.save(run.folder / "inputs.npy", x.astype(np.float16))
    done = run.call("predict", f"{model}/model.h5", "inputs.npy", "--force", "-o", "p.h5")
    check(done.returncode == 65 and "array 'c' has the type <f2; float32, float64" in done.stderr,
          f"inputs.npy: {done.stderr}")
    done = run.call("predict", model, "inputs.npy", "--force", "-o", "p.h5")
    check(done.returncode == 66 and f"is a directory; an HDF5 file is needed: {model}/model.h5" in done.stderr,
          f"directory: {done.stderr}")
    done = run.call("predict", f"{model}/model.h5", "german.csv", "--decimal", "Komma", "-o", "p.h5")
    check(done.returncode == 64 and "--decimal: there is no 'Komma'; give one of: point, comma" in done.stderr, done.stderr)


def check_split_and_plan(run):
    """A column is the split, and no input; the plan shows what is read."""
    done = run.call("plan", "job.yaml", "--set", "data.file=t.csv", "--set", "data.split.column=fold",
                    "--set", ALL_BUT_TEXT)
    check(f"{ROWS} rows, 4 inputs, 1 target" in done.stdout, f"plan: {done.stdout}{done.stderr}")
    parts = [len(range(k, ROWS, 3)) for k in range(3)]
    check("split      {} rows for training, {} for validation, {} for test\n".format(*parts)
          in done.stdout, f"plan: {parts} in {done.stdout}")
    done = run.call("train", "job.yaml", "--set", "data.file=t.csv", "--set", ALL_BUT_TEXT,
                    "--set", "data.split.column=fold", "--set", "data.weights=fold")
    check(done.returncode == 65 and "is zero on all training rows" in done.stderr, done.stderr)


def check_splits(run):
    """The same groups from texts of CSV and HDF5 give the same weights; the log has the sizes."""
    found = []
    even = "160 rows for training, 20 for validation, 20 for test"
    for name, setting, wanted in (
            ("sites.csv", "data.split.group=site", "rows for training"),
            ("sites.h5", "data.split.group=site", "rows for training"),
            ("sites.csv", "data.split.stratify=strength", even),
            ("sites.h5", "data.split.order=f1", even)):
        found.append(run.weights(name, "data.inputs=['f*', g]", setting)[0])
        check(run.log.count(wanted) == 1, f"{name} {setting}: {run.log}")
    check(np.array_equal(found[0], found[1]), "data.split.group: other weights from HDF5 than from CSV")


def check_equal_rows(run):
    """A row of a table that has each row four times is never in two parts; plan, log, model and page say so."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(50, 2))
    rows = [f"{a:.6f},{b:.6f},{a + b:.6f}" for a, b in x]
    (run.folder / "four.csv").write_text("\n".join(["a,b,y", *4 * rows]) + "\n")
    text = "150 rows have the inputs of an earlier row"
    for part, seen in (("fractions", 0), ("column", 1)):
        (run.folder / "four.yaml").write_text(JOB.replace("FILE", "four.csv").replace("strength", "y"))
        words = ["four.yaml", "--set", f"run.directory={part}"]
        if seen:
            (run.folder / "four.csv").write_text("\n".join(
                ["a,b,y,part", *(f"{r},{k % 3}" for k, r in enumerate(4 * rows))]) + "\n")
            words += ["--set", "data.split.column=part"]
        plan, train = run.call("plan", *words), run.call("train", *words)
        page = run.call("report", part)
        warning = "validation and test rows have the inputs of a training row"
        check(text in plan.stdout and text in train.stderr, f"{part}: {plan.stdout}{train.stderr}")
        check((warning in train.stderr) == bool(seen), f"{part}: {train.stderr}")
        html = (run.folder / part / "report.html").read_text()
        check(text in html and (warning in html) == bool(seen), f"{part}: {page.stderr}")
        with h5py.File(run.folder / part / "results.h5") as f:
            tested = {i % 50 for i in f["sample"][:]}
            check(seen or len(f["sample"]) == 4 * len(tested), f"{part}: rows {f['sample'][:]} for test")
            check(f["provenance"].attrs["repeated_rows"] == 150, part)


def check_names(run):
    """Names and levels with characters that are not printable: the file fits its own model, and no file has them."""
    bad = ["\x07", "\x1b", "\x7f", "\x85", "\u202a", "\u202e", "\u2066", "\u2069"]
    names = [f"a{c}{i}" for i, c in enumerate(bad)] + ["lev\u202eel"]
    rng = np.random.default_rng(2)
    rows = [",".join([*map(str, rng.normal(size=len(bad))), f"k\u202e{i % 2}", f"{rng.normal()}"]) for i in range(40)]
    (run.folder / "names.csv").write_text("\n".join([",".join([*names, "y"]), *rows]) + "\n", encoding="utf-8")
    (run.folder / "names.yaml").write_text(JOB.replace("FILE}", "names.csv, categories: {'lev?el': error}}").replace(
        "strength", "y"))
    done = run.call("train", "names.yaml", "--set", "run.directory=names")
    check(done.returncode == 0, f"names: {done.stderr}")
    for words in (["predict", "names/model.h5", "names.csv", "-o", "names.h5"],
                  ["export", "names/model.h5", "--c", "-o", "names.c"], ["report", "names"]):
        done = run.call(*words)
        check(done.returncode == 0, f"{words}: {done.stderr}")
    check(" * x has 9 values, the results have 1 " in (run.folder / "names.c").read_text(), "comment of names.c")
    done = run.call("export", "names/model.h5", "--torch", "-o", "names.pt")
    check(done.returncode == 64 and "give a name that ends in .py" in done.stderr, f"names.pt: {done.stderr}")
    for name in ("names/model.h5", "names.h5", "names.c", "names/report.html"):
        data = (run.folder / name).read_bytes() if (run.folder / name).exists() else b""
        check(data and not any(f"a{c}{i}".encode() in data for i, c in enumerate(bad)), f"{name} has them")
        check("\u202eel".encode() not in data and "k\u202e".encode() not in data, f"{name} has the level")
    (run.folder / "names.csv").write_text("a\x071,a\x081,y\n1,2,3\n4,5,6\n", encoding="utf-8")
    done = run.call("train", "names.yaml", "--set", "data.categories=none")
    check(done.returncode == 65 and "columns 1 and 2 are both named 'a?1'" in done.stderr, done.stderr)


FOLDED = """\
data: {file: shots.csv, inputs: ['s*', '!shot'], targets: y, split: {train: 1, validation: 0, test: 0}}
model: {hidden: []}
train: {resample: kfold, folds: 5, epochs: 40, learning_rate: 0.05}
ensembles: [{name: a, target: y, members: 5}]
run: {device: cpu, threads: 1}
"""


def check_folds(run):
    """Labels that only their shot decides: a fold that does not know the shot cannot predict them."""
    rng = np.random.default_rng(8)
    shot = np.repeat(np.arange(20), 10)
    y = rng.normal(size=20)[shot] + 0.01 * rng.normal(size=200)
    order = rng.permutation(200)
    lines = [",".join([f"s{k}" for k in range(21)] + ["shot", "time", "y"])]
    for r in order:  # s20 makes rows of one shot differ
        lines.append(",".join([str(int(shot[r] == k)) for k in range(20)] + [str(r), f"n{shot[r]}", str(r), str(y[r])]))
    for name in ("shots.csv", "candidates.csv"):
        (run.folder / name).write_text("\n".join(lines) + "\n")
    (run.folder / "folded.yaml").write_text(FOLDED)
    (run.folder / "folded-campaign.yaml").write_text(FOLDED.replace("train: 1, val", "train: 0.9, val").replace(
        "test: 0}", "test: 0.1}") + """\
pool: {file: candidates.csv, labels: y}
label: {mode: hidden}
select: {batch: 4}
stop: {rounds: 2}
""")

    def train(out, *settings, ranks=0, code=0):
        words = [w for s in (f"run.directory={out}", *settings) for w in ("--set", s)]
        done = run.call("train", "folded.yaml", "-q", *words, ranks=ranks)
        check(done.returncode == code, f"{settings}: {done.stderr}")
        return done.stderr

    def error_of(out):
        with h5py.File(run.folder / out / "results.h5") as f:
            return f["oob_rmse"][0]

    train("plain")
    train("shots", "data.split.group=shot")
    train("shots2", "data.split.group=shot", ranks=2)
    train("blocks", "data.split.order=time")
    train("equal", "data.inputs=['s*', '!shot', '!s20']")
    check(error_of("plain") < 0.3 * error_of("equal"), f"equal inputs: {error_of('plain')}, {error_of('equal')}")
    check(error_of("plain") < 0.3 * error_of("shots"), f"{error_of('plain')}, {error_of('shots')}")
    check(error_of("plain") < 0.3 * error_of("blocks"), f"{error_of('plain')}, {error_of('blocks')}")
    check(error_of("shots") == error_of("shots2"), "data.split.group: other folds on two ranks")
    error = train("few", "data.split.group=shot", "train.folds=25", code=78)
    check("train.folds is 25, but 5 of them have no rows" in error, error)
    for name, setting in (("plain", []), ("shots", ["--set", "data.split.group=shot"])):
        done = run.call("campaign", "run", "folded-campaign.yaml", "-q", "--set", f"campaign.directory=f-{name}",
                        *setting)
        check(done.returncode == 0, f"campaign with folds of {name}: {done.stderr}")
    check(error_of("f-plain/round-0001") < 0.5 * error_of("f-shots/round-0001"), "folds of a campaign")


def check_campaign(run):
    """Data and candidates of a campaign from tables with other columns, in another order."""
    (run.folder / "campaign.yaml").write_text(JOB.replace("FILE", "t.csv") + """\
pool: {file: pool.csv, labels: y}
label: {mode: hidden}
select: {batch: 4}
stop: {rounds: 1}
""")
    x, y = table()
    (run.folder / "pool.csv").write_bytes(csv(x + 0.5, np.nan_to_num(y)))
    with h5py.File(run.folder / "pool.h5", "w") as f:
        f["x"], f["y"] = (x + 0.5)[:, ::-1], np.nan_to_num(y)
        f["feature_name"], f["target_name"] = INPUTS[::-1], ["strength"]
    queries = []
    for pool in ("pool.csv", "pool.h5"):
        words = [w for s in ("data.inputs=['f[1-3]', g]", f"pool.file={pool}", f"campaign.directory=c-{pool}")
                 for w in ("--set", s)]
        done = run.call("campaign", "run", "campaign.yaml", "-q", *words)
        check(done.returncode == 0, f"campaign on {pool}: {done.stderr}")
        with h5py.File(run.folder / f"c-{pool}/campaign.h5") as f:
            queries.append((f["query_x"][:].tobytes(), f["query_y"][:].tobytes()))
    check(queries[0] == queries[1], "other queries from CSV than from HDF5")


def check_refused(run):
    for settings, text in (
            ([], "t.csv:2: column 'id': 'r0' is not a number; correct the cell; or leave the column out"),
            (["data.inputs=[f1, f22]"], "there is no column 'f22'; did you mean 'f2'?"),
            (["data.inputs=[f1, '!g1']"], "there is no column 'g1'"),
            (["ensembles[0].target=strenght"], "did you mean 'strength'?")):
        words = [w for s in ("data.file=t.csv", *settings) for w in ("--set", s)]
        done = run.call("train", "job.yaml", *words)
        check(done.returncode == 65 and text in done.stderr, f"{settings}: {done.stderr}")


def main():
    with tempfile.TemporaryDirectory(prefix="tutti-tables-") as folder:
        run = Tables(sys.argv[1], sys.argv[2:], folder)
        x, y = table()
        model = check_same_bits(run, x, y)
        check_predict(run, model, x, y)
        check_split_and_plan(run)
        check_splits(run)
        check_equal_rows(run)
        check_names(run)
        check_folds(run)
        check_campaign(run)
        check_refused(run)
    finish()


if __name__ == "__main__":
    main()
