#!/usr/bin/python3
"""Labels with error bars: the last round of a campaign trains as a job on a table of the same rows,
whatever way the labels took. stop.error: rows drawn at random that no training sees."""
import json
import os
import pathlib
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, h5py, np, test, tutti

JOB = """\
data: {file: FILE, inputs: [a, b], targets: [u, v], sigma: SIGMA, split: {column: part}}
model: {hidden: [6]}
ensembles: [{name: one, members: 2}]
train: {epochs: 5, batch_size: 16}
run: {device: cpu, threads: 1, seed: 4}
"""
CAMPAIGN = JOB.replace("FILE", "data.csv").replace("SIGMA", "[su, sv]") + """\
pool: {file: pool.csv}
select: {batch: 5}
label: {command: [./oracle.py, "{input}", "{output}"], rows_per_call: 5, sigma: 0.2, max_failed: 1}
stop: {rounds: 2}
"""
# u and v of the candidates; one has no label, one no v, some no error bar.
ORACLE = """\
#!/usr/bin/python3
import csv, os, sys
import numpy as np
source, output = sys.argv[1:]
if source.endswith(".csv"):
    rows = list(csv.DictReader(open(source)))
    number, x = [int(r["id"]) for r in rows], np.array([[float(r["a"]), float(r["b"])] for r in rows])
else:
    import h5py
    with h5py.File(source) as f:
        number, x = f["id"][:], f["x"][:]
y = np.stack([x[:, 0] + x[:, 1], x[:, 0] * x[:, 1]], 1)
sd = 0.1 + abs(x)
sd[np.array(number) % 2 == 0] = np.nan
y[np.array(number) % 5 == 0, 1] = np.nan
if BAD: sd[:, 1] = -1
if output.endswith(".csv"):
    lines = [f"{i},{b!r},{a!r},{s[1]!r}".replace("nan", "") + f",{s[0]!r}".replace("nan", "")
             for i, (a, b), s in zip(number, y.tolist(), sd.tolist())]
    open(output + ".part", "w").write("\\n".join(["id,v,u,sd_v,sd_u", *lines]) + "\\n")
else:
    with h5py.File(output + ".part", "w") as f:
        f["id"], f["y"], f["sd"], f["target_name"] = number, y[:, ::-1], sd[:, ::-1], [b"v", b"u"]
os.rename(output + ".part", output)
"""


def oracle(bad=0):
    pathlib.Path("oracle.py").write_text(ORACLE.replace("BAD", str(bad)))
    os.chmod("oracle.py", 0o755)


def table(path, names, rows):
    lines = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in rows]
    pathlib.Path(path).write_text("\n".join([names, *lines]) + "\n")


def write_tables():
    random = np.random.default_rng(2)
    x = random.uniform(-1, 1, (50, 2))
    sd = random.uniform(0.05, 0.4, (50, 2))
    part = np.arange(50) % 5 // 3 + (np.arange(50) % 5 == 4)  # train, validation, test
    data = np.column_stack([x, x[:, 0] + x[:, 1], x[:, 0] * x[:, 1], sd, part])
    table("data.csv", "a,b,u,v,su,sv,part", data)
    table("pool.csv", "a,b", random.uniform(-1, 1, (40, 2)))
    return data


def parameters(path):
    with h5py.File(path) as f:
        return f["net/parameters"][:]


def as_a_table(data, directory, labels=10):
    """Train on the rows of the last round: data.csv and the labels in campaign.h5."""
    with h5py.File(f"{directory}/campaign.h5") as f:
        x, y, split, rounds = (f[name][:] for name in ("query_x", "query_y", "query_split", "round"))
        names = f["target_name"][:].tobytes().replace(b"\0", b"").decode()
    check(names == "uvsd_usd_v", f"{directory}: labels {names}")
    whole = y[~np.isnan(y[:, 1])]  # other rows are not trained on
    check(len(y) == labels > len(whole) and np.isnan(whole[:, 2]).any(), f"{directory}: {y}")
    check(np.isnan(y[:, 3])[np.isnan(y[:, 1])].all(), f"{directory}: an error bar without a label")
    sd = np.where(np.isnan(y[:, 2:]), 0.2, y[:, 2:])
    table("all.csv", "a,b,u,v,su,sv,part", np.vstack([data, np.column_stack([x, y[:, :2], sd, split])]))
    pathlib.Path("all.yaml").write_text(JOB.replace("FILE", "all.csv").replace("SIGMA", "[su, sv]"))
    seed = 4 + (len(rounds) - 1) * 1000003
    tutti("train", "all.yaml", "-q", "--resume", "never", "--set", f"run.seed={seed}")
    check(np.array_equal(parameters("out/model.h5"), parameters(f"{directory}/model.h5")),
          f"{directory}: the last round has not trained on these error bars")


def told(data):
    """The same labels by tutti ask and tutti tell, and one that nobody asked for."""
    run = ["campaign", "run", "campaign.yaml", "-q", "--set", "campaign.directory=ask", "--set",
           "label.mode=ask", "--set", "label.max_wait=0s"]
    tutti(*run, code=75)
    new = pathlib.Path("new.csv")
    for row, said in (("9,9,1,2,-0.1,\n", "new.csv:2: 'sd_u' is -0.1"),
                      ("9,9,1,2,1,\n9,9,2,2,1,\n", "new.csv:3: the inputs of this row occur twice, also in new.csv:2")):
        new.write_text("a,b,u,v,sd_u,sd_v\n" + row)
        err = tutti("tell", "ask", "new.csv", "--new", code=65).err
        check(said in err, err)
    new.write_text("a,b,u,v,sd_v\n9,9,1,2,0.3\n")
    tutti("tell", "ask", "new.csv", "--new")
    tutti(*run, "--set", "select.batch=3", "--from", "1:label", code=75)
    points = tutti("campaign", "check", "ask").out
    check("queued: 3\nlabeled: 1\n" in points, f"--new is lost, or other queries stay: {points}")
    tutti(*run, code=75)
    for code in (75, 0):
        pathlib.Path("points.csv").write_text(tutti("ask", "ask", "-k", "9").out)
        os.system("./oracle.py points.csv labels.csv")
        tutti("tell", "ask", "labels.csv")
        tutti(*run, code=code)
    as_a_table(data, "ask", 11)


def honest_stop():
    """Seven rows besides the batch of round 1, only for tests; their rmse is that of results.h5."""
    run = ["campaign", "run", "campaign.yaml", "-q", "--set", "campaign.directory=honest", "--set",
           "stop.rounds=4", "--set", "stop.error_rows=7", "--set", "label.format=csv", "--set"]
    tutti(*run, "stop.error=1e-9")
    with h5py.File("honest/campaign.h5") as f:
        rounds, drawn, split, number = (f[name][:] for name in (
            "query_round", "query_random", "query_split", "query_row"))
        error, se, rows = f["error"][:], f["error_se"][:], f["error_rows"][:]
    check((np.bincount(rounds)[1:] == [12, 5, 5, 5]).all(), f"queries {rounds}")
    check((drawn == (split == 2)).all() and drawn.sum() == 7 and (rounds[drawn > 0] == 1).all(), f"{drawn} {split}")
    with h5py.File("honest/round-0005/results.h5") as f:
        picks = f["sample"][:] >= 50
        off = (f["y_pred_mean"][:] - f["y_true"][:])[picks]
    count = (~np.isnan(off)).sum(0)
    rmse = np.sqrt(np.nanmean(off ** 2, 0))
    its_se = np.nanstd(off ** 2, 0, ddof=1) / np.sqrt(count) / 2 / rmse
    worst = (rmse + its_se).argmax()
    check(np.isnan(error[0]) and rows[0] == 0 and rows[4] == count[worst], f"rows {rows}, {count}")
    check(np.allclose([error[4], se[4]], [rmse[worst], its_se[worst]], rtol=1e-6), f"{error} {se} {rmse} {its_se}")
    limit = float(error[1] + se[1]) * (1 + 1e-6)
    tutti(*run, f"stop.error={limit!r}", "--set", "campaign.directory=again")
    state = json.loads(tutti("status", "again", "--json").out)
    check((state["rounds"], state["ended"]) == (2, "error"), f"{state}")
    check("rows drawn at random (stop.error)" in tutti("status", "again").out, "status")
    said = tutti(*run, "stop.error=0.1", "--set", "pool.file=''", "--set", "pool.command=[./oracle.py]", code=78).err
    check("stop.error draws rows of pool.file" in said, said)


def main():
    data = write_tables()
    pathlib.Path("campaign.yaml").write_text(CAMPAIGN)
    oracle()
    run = ["campaign", "run", "campaign.yaml", "-q", "--set"]
    for form in ("csv", "hdf5"):
        tutti(*run, f"campaign.directory={form}", "--set", f"label.format={form}")
        as_a_table(data, form)
    told(data)
    oracle(bad=1)
    said = tutti(*run, "campaign.directory=bad", code=65).err
    check("target 'sd_v', is -1, but has to be a standard deviation" in said, said)
    oracle()
    said = tutti(*run, "campaign.directory=none", "--set", "label.sigma=auto", code=65).err
    check("has no error bar ('sd_u'): give label.sigma" in said, said)
    for option, reason in (("label.mode=hidden", "hidden labels have no error bars"),
                           ("campaign.warm_start=params", "cannot be used together")):
        said = tutti(*run, option, "--set", "label.sigma=auto", code=78).err
        check(reason in said, said)
    honest_stop()


test(main)
