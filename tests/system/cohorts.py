#!/usr/bin/python3
"""Ensembles of different networks in one job: the same bits on any number of ranks, after a kill
and a resumption, and as in separate jobs.

Three ensembles, two cohorts.
"""
import os
import pathlib
import re
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from nets import layers_of
from rig import check, check_same, h5py, kill_when_saved, np, ROOT, run, sets, tensors, test, tutti, write_h5

ENSEMBLES = {
    "slim": "{name: slim, target: y0, members: 3}",
    "wide": "{name: wide, targets: [y1, y2], members: 2, model: {hidden: [24, 24]},"
            " train: {epochs: 90}}",
    "other": "{name: other, target: y1, members: 2}",
}
JOB = """\
data:  {file: data.h5, split: {train: 0.7, validation: 0.15, test: 0.15, seed: 3}}
model: {hidden: [12], activation: tanh, output: mean_variance}
ensembles:
%s
train: {loss: gaussian_nll, learning_rate: 2e-3, batch_size: 16, epochs: 60, patience: 25,
        dropout: 0.1, resample: bootstrap}
checkpoint: {every: 50ms}
run: {seed: 11, device: cpu, threads: 1, directory: out}
"""


def prepare():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(600, 3))
    y = np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2], x[:, 0] - x[:, 1]], axis=1)
    write_h5("data.h5", x=x, y=y + 0.1 * rng.normal(size=y.shape),
             part=np.arange(600) % 3)  # 0 training, 1 validation, 2 test
    joint = "".join(f"  - {text}\n" for text in ENSEMBLES.values())
    pathlib.Path("job.yaml").write_text(JOB % joint.rstrip())
    for name, text in ENSEMBLES.items():
        pathlib.Path(f"{name}.yaml").write_text(JOB % f"  - {text}")


def training(job, out):
    return ["train", f"{job}.yaml", "--set", f"run.directory={out}", "-q"]


def train(job, out, ranks=0):
    tutti(*training(job, out), ranks=ranks)


def networks(path, ensemble):
    """All tensors of the members of one ensemble: {name: array [member, ...]}"""
    with h5py.File(path, "r") as f:
        names = ["".join(c.decode() for c in row if c).strip() for row in f["ensemble_name"][()]]
        e = names.index(ensemble)
        first, count = int(f["ensemble_first"][e]), int(f["ensemble_members"][e])
        found = {}
        of = f["net/network_of_member"][()]
        k = int(of[first])
        first -= int(np.argmax(of == k))
        for layer, parts in enumerate(layers_of(f, k)):
            for name, values in zip(("weight", "bias"), parts):
                found[f"layer{layer}/{name}"] = values[first:first + count]
        return found


def check_alone(name):
    """The members of an ensemble have the same weights with and without other ensembles."""
    joint = networks("one/model.h5", name)
    alone = networks(f"alone-{name}/model.h5", name)
    check(joint.keys() == alone.keys(), f"{name}: other tensors when trained alone")
    for tensor in joint:
        check(joint[tensor].tobytes() == alone[tensor].tobytes(),
              f"{name} trained alone: {tensor} differs")


def check_axes(path):
    """One axis of members with a cohort and an ensemble for each; padded histories."""
    with h5py.File(path, "r") as f:
        names = [["".join(c.decode() for c in row).strip("\0 ") for row in f[name][()]]
                 for name in ("ensemble", "column_ensemble", "column_target")]
        check(names == [["slim"] * 3 + ["wide"] * 2 + ["other"] * 2, ["slim", "wide", "wide", "other"],
                        ["y0", "y1", "y2", "y1"]], f"members and columns in the order of the job: {names}")
        check(list(f["cohort"][()]) == [0, 0, 0, 1, 1, 0, 0], "cohort of the members")
        check(f["loss_train"].shape == (7, 90), "histories are as long as the longest")
        check(np.isnan(f["loss_train"][()][[0, 1, 2, 5, 6], 60:]).all(), "NaN beyond 60 epochs")
        check(np.isfinite(f["loss_train"][:, 0]).all(), "first epoch of all")
        own = np.array([[1, 0, 0]] * 3 + [[0, 1, 1]] * 2 + [[0, 1, 0]] * 2, bool)
        check((np.isfinite(f["test_rmse"][()]) == own).all(), "scores of the targets of each member, else NaN")
        check(np.isfinite(f["y_pred_mean"][()]).all(), "predictions of all columns")
        check(f["y_pred_mean"].shape[1] == 4, "columns of all ensembles")


def check_slopes():
    """Derivatives of the columns of all ensembles: the same bits on three ranks, and differences of the
    predictions; not of the epistemic part, which has a kink where two members agree."""
    rows, step = np.random.default_rng(8).normal(size=(20, 3)), 0.01
    moved = [rows + sign * step * unit for unit in np.eye(3) for sign in (1, -1)]
    write_h5("rows.h5", x=np.concatenate([rows, *moved]))
    for ranks in (1, 3):
        tutti("predict", "one/model.h5", "rows.h5", "--jacobian", "-q", "-o", f"slopes-{ranks}.h5", ranks=ranks)
    one, three = tensors("slopes-1.h5"), tensors("slopes-3.h5")
    check(one == three, f"derivatives on 1 and 3 ranks: {[n for n in one if one[n] != three.get(n)]} differ")
    with h5py.File("slopes-1.h5") as f:
        for name in ("y_pred_mean", "y_pred_std", "y_pred_std_aleatoric"):
            value = f[name][()][20:].reshape(3, 2, 20, 4)
            want = (value[:, 0] - value[:, 1]) / (2 * step)
            got = f[f"{name}_jacobian"][()][:20].transpose(2, 0, 1)
            error = (abs(got - want).max(axis=(0, 1)) / abs(want).max(axis=(0, 1))).max()
            check(error < 0.01, f"derivatives of {name}: {error}")


def check_many():
    """Of many networks the log has one line, the files as many datasets as of two; the members train as alone."""
    widths = range(1, 15)
    text = "".join(f"  - {{name: w{k}, target: y0, members: 2, model: {{hidden: [{k}]}}}}\n" for k in widths)
    for name, ensembles in (("many", text), ("w9", text.splitlines()[8]), ("two", "\n".join(text.splitlines()[7:9]))):
        pathlib.Path(f"{name}.yaml").write_text(JOB % ensembles.rstrip())
        said = tutti("train", f"{name}.yaml", *sets("train.epochs=2", f"run.directory={name}")).err
        listed = sum("cohort " in line for line in said.splitlines())
        check(listed == (2 if name == "two" else 0), f"{name}: {listed} lines of cohorts\n{said}")
        check(("cohorts: 2 to 2 members" in said) == (name == "many"), f"{name}: {said}")
    for file in ("model.h5", "ckpt-g000001.h5"):
        names = [set(tensors(max(pathlib.Path(name).glob(file.replace("000001", "*"))))) for name in ("many", "two")]
        check(names[0] == names[1], f"{file}: {names[0] ^ names[1]}")
    joint, alone = networks("many/model.h5", "w9"), networks("w9/model.h5", "w9")
    check(joint.keys() == alone.keys() and all(joint[n].tobytes() == alone[n].tobytes() for n in joint), "w9 differs")


MIXED = "{name: mix, target: y1, networks: [%s], train: {%sepochs: 20, patience: %d}}"
NETWORKS = ("model: {hidden: [12]}", "model: {hidden: [6, 6], activation: relu, layer_norm: true}, train: {loss: gaussian_nll}",
            "model: {hidden: []}, train: {learning_rate: 3e-2}, sweep: {l2: {uniform: [0, 1e-3]}}")
COUNT = (3, 2, 4)


def mixed_jobs():
    """An ensemble of three networks; each of them as an ensemble of its own with the same members."""
    joint = ", ".join(f"{{members: {n}, {text}}}" for n, text in zip(COUNT, NETWORKS))
    pathlib.Path("mix.yaml").write_text(JOB % f"  - {MIXED % (joint, '', 5)}" + "combine: {method: weights}\n"
                                     "calibration: {recalibrate: all, conformal: [0.8]}\n")
    for k, network in enumerate(NETWORKS):
        own = network if "train" in network else network + ", train: {}"
        own = own.replace("train: {", "train: {epochs: 20, patience: 5, ")
        pathlib.Path(f"part{k}.yaml").write_text(
            JOB % f"  - {{name: mix, target: y1, first_member: {sum(COUNT[:k])}, members: {COUNT[k]}, {own}}}")


def check_mixture(path, model):
    """The columns of `predict --members` are the statistics of its members."""
    with h5py.File(path) as f, h5py.File(model) as m:
        w = m["member_weight"][()] / m["member_weight"][()].sum()
        mu, v = (f[f"y_member_{name}"][..., 0].astype(float) for name in ("mean", "variance"))
        mean, spread = w @ mu, m["calibration/std_scale"][0]
        within, between = w @ v, w @ (mu - mean) ** 2
        want = {"mean": mean, "std": spread * np.sqrt(within + between), "std_aleatoric": spread * np.sqrt(within),
                "std_epistemic": spread * np.sqrt(between)}
        check(len(set(np.round(w, 12))) > 2, f"weights of the members {w}")
        for name, value in want.items():
            error = abs(f[f"y_pred_{name}"][:, 0] - value).max()
            check(error < 1e-6 * max(1, abs(value).max()), f"{path}: y_pred_{name} is {error} away")


def check_mixed():
    """One ensemble of three networks: members as in separate jobs, statistics over all of them."""
    mixed_jobs()
    parts = re.findall(r"^ensemble   mix: (\d+ of \d+) members", tutti("plan", "mix.yaml"), re.M)
    check(parts == [f"{n} of {sum(COUNT)}" for n in COUNT], f"members of the networks in the plan: {parts}")
    train("mix", "mix1")
    train("mix", "mix3", ranks=3)
    check_same("mix1", "mix3")
    with h5py.File("mix1/model.h5") as f, h5py.File("mix1/results.h5") as r:
        check(len(f["net/n_layers"]) == 3 and list(f["ensemble_members"]) == [9], "one ensemble of three networks")
        check(list(f["member_index"]) == list(range(9)), "numbers of the members")
        check(r["y_pred_mean"].shape[1] == 1 and list(r["cohort"]) == [0] * 3 + [1] * 2 + [2] * 4, "one column")
        names = ["".join(c.decode() for c in row).strip("\0 ") for row in r["network"][()]]
        check(names == ["12 tanh"] * 3 + ["6-6 relu, layer_norm"] * 2 + ["linear"] * 4, f"networks {names}")
        check(r["oob_rmse"].shape == (1,) and (np.isfinite(r["test_rmse"]).sum(1) == 1).all(), "scores")
        for k in range(3):
            train(f"part{k}", f"part{k}")
            with h5py.File(f"part{k}/model.h5") as alone:
                same = [x.tobytes() == y.tobytes() for a, b in zip(layers_of(f, k), layers_of(alone)) for x, y in zip(a, b)]
                check(all(same), f"network {k} alone: other weights")
    tutti("predict", "mix1/model.h5", "rows.h5", "--members", "--jacobian", "-o", "mixture.h5")
    check_mixture("mixture.h5", "mix1/model.h5")
    tutti("evaluate", "mix1/model.h5", "data.h5")
    tutti("explain", "mix1/model.h5", "data.h5", "-o", "importance.h5")
    tutti("report", "mix1")
    page = next(pathlib.Path("mix1").glob("*.html")).read_text()
    check("<th>network</th>" in page and "<td>6-6 relu, layer_norm</td>" in page, "networks in the report")
    tutti("plan", "mix.yaml")
    tutti("train", "mix.yaml", "--set", "train.init_from=mix1/model.h5", "--set", "run.directory=fine",
        "--set", "ensembles.mix.networks[1].train.epochs=2")
    with h5py.File("fine/results.h5") as f:
        done = f["epochs_done"][()]
        check(max(done[3:5]) == 2 < max(done), f"--set of one network: {done}")


def check_auto():
    """`model: auto`: the same bits on two ranks after a kill; the members and their weights are those of a job
    that lists the networks of its resolved configuration; the report says which networks won."""
    pathlib.Path("auto.yaml").write_text("""\
data:  {file: data.h5, split: {column: part}}
model: auto
ensembles: [{name: e, target: y1, members: 2}]
train: {epochs: 25, learning_rate: 3e-3}
checkpoint: {every: 50ms}
run: {device: cpu, threads: 1}
""")
    train("auto", "auto1")
    kill_when_saved("auto2", *training("auto", "auto2"))
    train("auto", "auto2", ranks=2)
    check_same("auto1", "auto2")
    with h5py.File("auto1/model.h5") as f, h5py.File("auto1/results.h5") as r:
        weight, cohort = f["member_weight"][()], r["cohort"][()]
        pathlib.Path("listed.yaml").write_bytes(f["provenance/resolved_config"][()].tobytes().rstrip(b"\0"))
        names = ["".join(c.decode() for c in row).strip("\0 ") for row in r["network"][()]]
        check((r["member_weight"][()] == weight).all() and weight.max() > 0, "weights in results.h5")
    check(len(set(cohort)) * 2 == len(weight) and len(set(names)) == len(set(cohort)), f"networks {names}")
    for k in set(cohort):
        check(len(set(weight[cohort == k])) == 1, f"the members of network {k} share its weight: {weight}")
    train("listed", "listed")
    check(networks("listed/model.h5", "e").keys() == networks("auto1/model.h5", "e").keys(), "networks of the list")
    with h5py.File("listed/model.h5") as f:
        check((f["member_weight"][()] == weight).all(), "weights of the listed networks")
    tutti("report", "auto1")
    page = next(pathlib.Path("auto1").glob("*.html")).read_text()
    check(all(f"<td>{name}</td>" in page for name in names), "networks in the report")


def check_folds():
    """Networks of kfold members are weighted on out-of-fold rows, without validation rows: the loss with their
    weights is the out-of-bag error of the ensemble."""
    said = tutti("train", "auto.yaml", *sets("train.resample=kfold", "train.folds=2", "run.directory=folds",
                                             "data.split.column=''", "data.split.validation=0")).err
    loss = float(re.search(r"\(greedy\), validation loss (\S+)", said)[1])
    with h5py.File("folds/results.h5") as r, h5py.File("folds/model.h5") as f:
        target = ["".join(c.decode() for c in row).strip("\0 ") for row in f["names/target_name"][()]].index("y1")
        error = (r["oob_rmse"][0] / f["scaler/y_scale"][target]) ** 2
        check(r["oob_rows"][0] == 480 and abs(loss - error) < 1e-4 * error, f"loss {loss}, out of bag {error}")


TABLES = """
import sys
import h5py, xarray as xr
path, engine = sys.argv[1:]
net = xr.open_dataset(path, group="net", engine=engine)
with h5py.File(path) as f:
    named = {n for n, item in f["net"].items() if "DIMENSION_LIST" in item.attrs}
assert named == set(net) and "phony" not in str(net.dims), net
"""


def check_slices(path):
    """h5py reads each layer of each member as docs/files.md says, and xarray every table."""
    code = (ROOT / "docs/files.md").read_text().split("m, l = ", 1)[1].split("\n", 1)[1].split("```")[0]
    with h5py.File(path) as f:
        of = f["net/network_of_member"][()]
        for m, k in enumerate(of):
            for l, (want, _) in enumerate(layers_of(f, k)):
                found = {"h5py": h5py, "m": m, "l": l}
                exec(code.replace("out/model.h5", path), found)
                want = want[m - int(np.argmax(of == k))]
                check(found["w"].shape == want.shape and (found["w"] == want).all(), f"member {m}, layer {l}")
    for engine in ("h5netcdf", "netcdf4"):
        said = run(sys.executable, "-B", "-c", TABLES, path, engine, code=(0, 1))
        if "ModuleNotFoundError" in said:
            return print(f"skipped: tables by xarray: {said.splitlines()[-1]}")
        check(not said, f"{engine}: {said}")


def main():
    prepare()
    train("job", "one")
    train("job", "three", ranks=3)
    check_same("one", "three")
    check_axes("one/results.h5")
    check_slopes()
    kill_when_saved("killed", *training("job", "killed"))
    train("job", "killed", ranks=3)
    check_same("one", "killed")
    for name in ENSEMBLES:
        train(name, f"alone-{name}")
        check_alone(name)
    check_many()
    check_mixed()
    check_auto()
    check_folds()
    check_slices("many/model.h5")


test(main)
