#!/usr/bin/python3
"""Two files meet: columns are matched by their names, or by position if a side has no names.

    columns.py TUTTI MPIRUN...

Exit status 0 if all is well, 77 without python3-h5py.
"""
import pathlib
import subprocess
import sys
import tempfile

from campaign import Runner, check, finish, h5py, np

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


def predict(run, name, **how):
    write(run.folder / name, 50, **how)
    call = [run.tutti, "predict", "whole/model.h5", name, "--force", "-o", "p.h5"]
    return run.call(call), run.call([run.tutti, "evaluate", "whole/model.h5", name])


class Columns(Runner):
    def call(self, command):
        return subprocess.run(command, text=True, cwd=self.folder, env=self.env,
                              capture_output=True, timeout=60)

    def predicted(self):
        with h5py.File(self.folder / "p.h5") as f:
            return f["y_pred_mean"][:]


def check_predict(run):
    done, scores = predict(run, "in.h5")
    check(done.returncode == 0 and "columns" not in done.stderr, done.stderr)
    wanted, scored = run.predicted(), scores.stdout
    for how, notice in ((dict(order=TURNED, targets=("v", "u")), "in the order of the model: a, b, c"),
                        (dict(names=None, targets=None), "by position, as those of the model")):
        done, scores = predict(run, "in.h5", **how)
        check(done.returncode == 0 and notice in done.stderr, f"{how}: {done.stderr}")
        check(np.array_equal(run.predicted(), wanted), f"{how}: other predictions")
        check(scores.returncode == 0 and scores.stdout == scored, f"{how}: {scores.stderr}")
    done, scores = predict(run, "in.h5", names=("a", "b", "d"))
    for text in ("3 columns: a, b, d", "the model has 3: a, b, c"):
        check(done.returncode == 65 and text in done.stderr, f"other names: {done.stderr}")


def check_pool(run):
    write(run.folder / "pool.h5", 300, order=TURNED, targets=("v", "u"))
    done = run.good(2, "turned")
    check(done.stderr.count("in the order of data.file: a, b, c") == 1, done.stderr)
    run.same("turned", "whole", "a pool with its columns in another order")
    write(run.folder / "pool.h5", 300, names=None, targets=None)
    run.good(1, "unnamed")
    run.same("unnamed", "whole", "a pool without names")
    write(run.folder / "pool.h5", 300, names=("a", "c", "d"))
    done = run.go(1, "other")
    check(done.returncode == 65 and "3 columns: a, c, d" in done.stderr, done.stderr)
    write(run.folder / "pool.h5", 300)


def check_changed(run):
    """A pool that changes between two rounds, or while a round waits for labels. It is so large that
    the quick look at each start does not read the row that changes."""
    large, row = 40000, 20300
    write(run.folder / "large.h5", large)
    settings = ["pool.file=large.h5", "train.epochs=1"]
    run.good(1, "changed", settings, verb="step")
    for how, code, text in (
            (dict(odd=row), 65, "large.h5 has other inputs than in round 1"),
            (dict(more=1), 65, "large.h5 has 40001 rows, but had 40000"),
            (dict(names=None, order=TURNED), 65, "large.h5 has other values or columns"),
            (dict(order=TURNED), 0, "in the order of data.file: a, b, c")):
        write(run.folder / "large.h5", large, **how)
        done = run.go(2, "changed", settings, verb="step")
        check(done.returncode == code and text in done.stderr, f"{how}: {done.stderr}")
    settings += ["label.mode=files", "label.max_wait=10ms", "label.poll_interval=10ms",
                 "pool.labels=''"]
    run.good(1, "waits", settings, code=75)
    write(run.folder / "large.h5", large, odd=row)
    done = run.good(2, "waits", settings, code=65)
    check("large.h5 has other inputs than in round 1" in done.stderr, done.stderr)
    write(run.folder / "large.h5", large)
    run.good(1, "waits", settings, code=75)


def check_oracle(run):
    oracle = run.folder / "oracle"
    settings = ["label.mode=command", "label.command=[./oracle, '{input}', '{output}']",
                "label.rows_per_call=4", "label.retries=0", "stop.rounds=1", "pool.labels=''"]
    for targets, code in (["v", "u"], 0), (["v", "w"], 76):
        oracle.write_text(ORACLE.replace("TARGETS", str(targets)))
        oracle.chmod(0o755)
        done = run.good(1, f"oracle-{targets[1]}", settings, code=code)
    check("2 columns: v, w; but data.file has 2: u, v" in done.stderr, done.stderr)
    with h5py.File(run.folder / "oracle-u/campaign.h5") as f:
        check(np.array_equal(f["query_y"][:], 100 * f["query_x"][:, :2]), "an oracle's targets")


def check_history(run):
    """Other names in data.file, and the same values: the labels so far are of other columns."""
    write(run.folder / "data.h5", 60, names=("b", "a", "c"))
    done = run.go(1, "whole", ["stop.rounds=3"])
    check(done.returncode == 65 and "now names them b, a, c" in done.stderr, done.stderr)
    write(run.folder / "data.h5", 60, names=None, targets=None)
    run.good(1, "made")
    done, scores = predict(run, "in.h5")
    call = [run.tutti, "predict", "made/model.h5", "in.h5", "--force", "-o", "p.h5"]
    done = run.call(call)
    check(done.returncode == 0 and "by position" in done.stderr, f"made-up names: {done.stderr}")


def check_imported(run):
    """A model of an imported table has names; a plain NumPy x is used by position."""
    x = np.random.default_rng(1).uniform(-1, 1, (60, 3))
    lines = [",".join(f"{v:.17g}" for v in [*row, row[0]]) for row in x]
    (run.folder / "table.csv").write_text("\n".join(["a,b,c,u", *lines]) + "\n")
    (run.folder / "imported.yaml").write_text(
        CAMPAIGN[:CAMPAIGN.index("pool:")].replace("data.h5", "table.h5"))
    with h5py.File(run.folder / "plain.h5", "w") as f:
        f["x"] = x
    found = []
    for command in (["import", "table.csv", "-o", "table.h5", "--inputs", "a,b,c", "--targets", "u"],
                    ["train", "imported.yaml", "--set", "run.directory=imported"],
                    ["predict", "imported/model.h5", "table.h5", "--force", "-o", "p.h5"],
                    ["predict", "imported/model.h5", "plain.h5", "--force", "-o", "p.h5"]):
        done = run.call([run.tutti, *command])
        check(done.returncode == 0, f"{command}: {done.stderr}")
        found.append((done.stderr, run.predicted()))
    notice = "plain.h5: the columns of 'x' (x0, x1, x2) are used by position, as those of the model (a, b, c)"
    check(notice in found[3][0] and "by position" not in found[2][0], f"plain x: {found[3][0]}")
    check(np.array_equal(found[2][1], found[3][1]), "a plain x has other predictions")


def main():
    with tempfile.TemporaryDirectory(prefix="tutti-columns-") as folder:
        run = Columns(sys.argv[1], sys.argv[2:], pathlib.Path(folder))
        (run.folder / "campaign.yaml").write_text(CAMPAIGN)
        write(run.folder / "data.h5", 60)
        write(run.folder / "pool.h5", 300)
        run.good(1, "whole")
        check_predict(run)
        check_pool(run)
        check_changed(run)
        check_oracle(run)
        check_history(run)
        check_imported(run)
    finish()


if __name__ == "__main__":
    main()
