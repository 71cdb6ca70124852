#!/usr/bin/python3
"""Two files meet: columns are matched by their names, or by position if a side has no names."""
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, h5py, np, test, tutti, write_h5

from campaign import go, same

TURNED = [2, 0, 1]
CAMPAIGN = """\
data: {file: data.h5, split: {train: 0.7, validation: 0.1, test: 0.2, seed: 1}}
model: {hidden: [12]}
ensembles: [{name: one, members: 2}]
train: {epochs: 10, batch_size: 16}
run: {device: cpu, threads: 1}
pool: {file: pool.h5, labels: y}
select: {batch: 4}
label: {mode: hidden}
stop: {rounds: 2}
"""
ORACLE = """\
#!/usr/bin/python3
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    x = f["x"][:]
with h5py.File(sys.argv[2], "w") as f:
    f["y"], f["target_name"] = 100 * x[:, [1, 0]], TARGETS
"""


def write(path, n, names=("a", "b", "c"), targets=("u", "v"), order=(0, 1, 2), odd=None, more=0):
    """Rows of a fixed table. The file has the columns in this order, u = 100 a, v = 100 b.
       odd   number of a row with another value
       more  number of rows that are appended"""
    x = np.random.default_rng(n).uniform(-1, 1, (n, 3))
    if odd:
        x[odd, 1] = 0.5
    x = np.concatenate([x, np.full((more, 3), 0.5)])
    y = 100 * x[:, :2]
    with h5py.File(path, "w") as f:
        f["x"] = x[:, order]
        f["y"] = y if targets is None or targets[0] == "u" else y[:, ::-1]
        if names:
            f["feature_name"] = [names[k] for k in order]
        if targets:
            f["target_name"] = list(targets)


def predict(name, code=0, says="", **how):
    """Scores of a file, and what predict has said; the means are in p.h5."""
    write(name, 50, **how)
    said = tutti("predict", "whole/model.h5", name, "--force", "-o", "p.h5", code=code, says=says)
    return said, tutti("evaluate", "whole/model.h5", name, code=code).out


def predicted():
    with h5py.File("p.h5") as f:
        return f["y_pred_mean"][:]


def check_predict():
    said, scored = predict("in.h5")
    check("columns" not in said, said)
    wanted = predicted()
    for how, notice in ((dict(order=TURNED, targets=("v", "u")), "in the order of the model: a, b, c"),
                        (dict(names=None, targets=None), "by position, as those of the model")):
        scores = predict("in.h5", says=notice, **how)[1]
        check(np.array_equal(predicted(), wanted), f"{how}: other predictions")
        check(scores == scored, f"{how}: {scores}")
    said = predict("in.h5", names=("a", "b", "d"), code=65, says="3 columns: a, b, d")[0]
    check("the model has 3: a, b, c" in said, f"other names: {said}")


def check_pool():
    write("pool.h5", 300, order=TURNED, targets=("v", "u"))
    done = go(2, "turned")
    check(done.err.count("in the order of data.file: a, b, c") == 1, done.err)
    same("turned", "whole", "a pool with its columns in another order")
    write("pool.h5", 300, names=None, targets=None)
    go(1, "unnamed")
    same("unnamed", "whole", "a pool without names")
    write("pool.h5", 300, names=("a", "c", "d"))
    go(1, "other", code=65, says="3 columns: a, c, d")
    write("pool.h5", 300)


def check_changed():
    """A pool that changes between two rounds, or while a round waits for labels. It is so large that
    the quick look at each start does not read the row that changes."""
    large, row = 40000, 20300
    write("large.h5", large)
    settings = ["pool.file=large.h5", "train.epochs=1"]
    go(1, "changed", settings, verb="step")
    for how, code, text in (
            (dict(odd=row), 65, "large.h5 has other inputs than in round 1"),
            (dict(more=1), 65, "large.h5 has 40001 rows, but had 40000"),
            (dict(names=None, order=TURNED), 65, "large.h5 has other values or columns"),
            (dict(order=TURNED), 0, "in the order of data.file: a, b, c")):
        write("large.h5", large, **how)
        go(2, "changed", settings, verb="step", code=code, says=text)
    settings += ["label.mode=ask", "label.max_wait=10ms", "pool.labels=''"]
    go(1, "waits", settings, code=75)
    write("large.h5", large, odd=row)
    go(2, "waits", settings, code=65, says="large.h5 has other inputs than in round 1")
    write("large.h5", large)
    go(1, "waits", settings, code=75)


def check_oracle():
    oracle = pathlib.Path("oracle")
    settings = ["label.mode=command", "label.command=[./oracle, '{input}', '{output}']",
                "label.rows_per_call=4", "label.retries=0", "stop.rounds=1", "pool.labels=''"]
    for targets, code in (["v", "u"], 0), (["v", "w"], 76):
        oracle.write_text(ORACLE.replace("TARGETS", str(targets)))
        oracle.chmod(0o755)
        done = go(1, f"oracle-{targets[1]}", settings, code=code)
    check("2 columns: v, w; but data.file has 2: u, v" in done.err, done.err)
    with h5py.File("oracle-u/campaign.h5") as f:
        check(np.array_equal(f["query_y"][:], 100 * f["query_x"][:, :2]), "an oracle's targets")


def check_history():
    """Other names in data.file, and the same values: the labels so far are of other columns."""
    write("data.h5", 60, names=("b", "a", "c"))
    go(1, "whole", ["stop.rounds=3"], code=65, says="now names them b, a, c")
    write("data.h5", 60, names=None, targets=None)
    go(1, "made")
    predict("in.h5")
    tutti("predict", "made/model.h5", "in.h5", "--force", "-o", "p.h5", says="by position")


def check_imported():
    """A model of an imported table has names; a plain NumPy x is used by position."""
    x = np.random.default_rng(1).uniform(-1, 1, (60, 3))
    lines = [",".join(f"{v:.17g}" for v in [*row, row[0]]) for row in x]
    pathlib.Path("table.csv").write_text("\n".join(["a,b,c,u", *lines]) + "\n")
    pathlib.Path("imported.yaml").write_text(
        CAMPAIGN[:CAMPAIGN.index("pool:")].replace("data.h5", "table.h5"))
    write_h5("plain.h5", x=x)
    found = []
    for command in (["import", "table.csv", "-o", "table.h5", "--inputs", "a,b,c", "--targets", "u"],
                    ["train", "imported.yaml", "--set", "run.directory=imported"],
                    ["predict", "imported/model.h5", "table.h5", "--force", "-o", "p.h5"],
                    ["predict", "imported/model.h5", "plain.h5", "--force", "-o", "p.h5"]):
        found.append((tutti(*command), predicted()))
    notice = "plain.h5: the columns of 'x' (x0, x1, x2) are used by position, as those of the model (a, b, c)"
    check(notice in found[3][0] and "by position" not in found[2][0], f"plain x: {found[3][0]}")
    check(np.array_equal(found[2][1], found[3][1]), "a plain x has other predictions")


def main():
    pathlib.Path("campaign.yaml").write_text(CAMPAIGN)
    write("data.h5", 60)
    write("pool.h5", 300)
    go(1, "whole")
    check_predict()
    check_pool()
    check_changed()
    check_oracle()
    check_history()
    check_imported()


test(main)
