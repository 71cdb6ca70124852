#!/usr/bin/python3
"""Ensembles of different networks in one job: the same bits on any number of ranks, after a kill
and a resumption, and as in separate jobs.

    cohorts.py TUTTI MPIRUN...

Three ensembles, two cohorts. Exit status 0 if there is no error, 77 without python3-h5py.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from nets import layers_of  # noqa: E402

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
failures = []


def check(good, text):
    if not good:
        failures.append(text)
        print(f"FAILED: {text}")


def prepare(folder):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(600, 3))
    y = np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2], x[:, 0] - x[:, 1]], axis=1)
    with h5py.File(folder / "data.h5", "w") as f:
        f["x"], f["y"] = x, y + 0.1 * rng.normal(size=y.shape)
    joint = "".join(f"  - {text}\n" for text in ENSEMBLES.values())
    (folder / "job.yaml").write_text(JOB % joint.rstrip())
    for name, text in ENSEMBLES.items():
        (folder / f"{name}.yaml").write_text(JOB % f"  - {text}")


def command(launch, tutti, ranks, job, out):
    start = [*launch, str(ranks)] if ranks > 1 else []
    return [*start, tutti, "train", f"{job}.yaml", "--set", f"run.directory={out}", "-q"]


def train(folder, *how):
    done = subprocess.run(command(*how), cwd=folder, capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, f"{how[-1]}: exit {done.returncode}\n{done.stderr}")


def kill_when_saved(folder, *how):
    """Kill all ranks after the first checkpoint; False if the run had ended before."""
    out = folder / how[-1]
    run = subprocess.Popen(command(*how), cwd=folder, start_new_session=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None and not list(out.glob("ckpt-g*.h5")):
        time.sleep(0.002)
    over = run.poll() is not None
    if not over:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    return not over and not (out / "model.h5").exists()


def tensors(path):
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith("provenance"):
            found[name] = item[()].tobytes()

    with h5py.File(path, "r") as f:
        f.visititems(visit)
    return found


def check_same(folder, one, other):
    for file in ("model.h5", "results.h5"):
        a, b = tensors(folder / one / file), tensors(folder / other / file)
        different = [n for n in sorted(a.keys() | b.keys()) if a.get(n) != b.get(n)]
        check(a and not different, f"{one} and {other}: {file} differs in {different}")


def networks(path, ensemble):
    """All tensors of the members of one ensemble: {name: array [member, ...]}"""
    with h5py.File(path, "r") as f:
        names = ["".join(c.decode() for c in row if c).strip() for row in f["ensemble_name"][()]]
        e = names.index(ensemble)
        first, count = int(f["ensemble_first"][e]), int(f["ensemble_members"][e])
        found = {}
        if "cohorts" not in f.attrs:
            f["net"].visititems(lambda n, item: found.update({n: item[first:first + count]})
                                if isinstance(item, h5py.Dataset) else None)
            return found
        k = int(f["ensemble_cohort"][e])
        first -= int(f["ensemble_first"][()][f["ensemble_cohort"][()] == k].min())
        for layer, parts in enumerate(layers_of(f, k)):
            for name, values in zip(("weight", "bias"), parts):
                found[f"layer{layer}/{name}"] = values[first:first + count]
        return found


def check_alone(folder, name):
    """The members of an ensemble have the same weights with and without other ensembles."""
    joint = networks(folder / "one" / "model.h5", name)
    alone = networks(folder / f"alone-{name}" / "model.h5", name)
    check(joint.keys() == alone.keys(), f"{name}: other tensors when trained alone")
    for tensor in joint:
        check(joint[tensor].tobytes() == alone[tensor].tobytes(),
              f"{name} trained alone: {tensor} differs")


def check_axes(path):
    """One axis of members with a cohort and an ensemble for each; padded histories."""
    with h5py.File(path, "r") as f:
        check(list(f["cohort"][()]) == [0, 0, 0, 0, 0, 1, 1], "cohort of the members")
        check(f["loss_train"].shape == (7, 90), "histories are as long as the longest")
        check(np.isnan(f["loss_train"][:5, 60:]).all(), "NaN beyond 60 epochs")
        check(np.isfinite(f["loss_train"][:, 0]).all(), "first epoch of all")
        check(np.isnan(f["test_rmse"][:5, 1]).all(), "NaN beyond the targets of a member")
        check(np.isfinite(f["test_rmse"][5:, :]).all(), "both targets of wide")
        check(np.isfinite(f["y_pred_mean"][()]).all(), "predictions of all columns")
        check(f["y_pred_mean"].shape[1] == 4, "columns of all ensembles")


def check_slopes(folder, launch, tutti):
    """Derivatives of the columns of all ensembles: the same bits on three ranks, and differences of the
    predictions; not of the epistemic part, which has a kink where two members agree."""
    rows, step = np.random.default_rng(8).normal(size=(20, 3)), 0.01
    moved = [rows + sign * step * unit for unit in np.eye(3) for sign in (1, -1)]
    with h5py.File(folder / "rows.h5", "w") as f:
        f["x"] = np.concatenate([rows, *moved])
    for ranks in (1, 3):
        start = [*launch, str(ranks)] if ranks > 1 else []
        done = subprocess.run([*start, tutti, "predict", "one/model.h5", "rows.h5", "--jacobian", "-q",
                               "-o", f"slopes-{ranks}.h5"], cwd=folder, capture_output=True, text=True)
        check(done.returncode == 0, f"predict on {ranks} ranks: exit {done.returncode}\n{done.stderr}")
    one, three = tensors(folder / "slopes-1.h5"), tensors(folder / "slopes-3.h5")
    check(one == three, f"derivatives on 1 and 3 ranks: {[n for n in one if one[n] != three.get(n)]} differ")
    with h5py.File(folder / "slopes-1.h5") as f:
        for name in ("y_pred_mean", "y_pred_std", "y_pred_std_aleatoric"):
            value = f[name][()][20:].reshape(3, 2, 20, 4)
            want = (value[:, 0] - value[:, 1]) / (2 * step)
            got = f[f"{name}_jacobian"][()][:20].transpose(2, 0, 1)
            error = (abs(got - want).max(axis=(0, 1)) / abs(want).max(axis=(0, 1))).max()
            check(error < 0.01, f"derivatives of {name}: {error}")


def check_many(folder, tutti):
    """Of many networks the log has one line, the files as many datasets as of two; the members train as alone."""
    widths = range(1, 15)
    text = "".join(f"  - {{name: w{k}, target: y0, members: 2, model: {{hidden: [{k}]}}}}\n" for k in widths)
    for name, ensembles in (("many", text), ("w9", text.splitlines()[8]), ("two", "\n".join(text.splitlines()[7:9]))):
        (folder / f"{name}.yaml").write_text(JOB % ensembles.rstrip())
        done = subprocess.run([tutti, "train", f"{name}.yaml", "--set", "train.epochs=2", "--set", f"run.directory={name}"],
                              cwd=folder, capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, f"{name}: exit {done.returncode}\n{done.stderr}")
        listed = sum("cohort " in line for line in done.stderr.splitlines())
        check(listed == (2 if name == "two" else 0), f"{name}: {listed} lines of cohorts\n{done.stderr}")
        check(("cohorts: 2 to 2 members" in done.stderr) == (name == "many"), f"{name}: {done.stderr}")
    for file in ("model.h5", "ckpt-g000001.h5"):
        names = [set(tensors(max((folder / name).glob(file.replace("000001", "*"))))) for name in ("many", "two")]
        check(names[0] == names[1], f"{file}: {names[0] ^ names[1]}")
    joint, alone = networks(folder / "many" / "model.h5", "w9"), networks(folder / "w9" / "model.h5", "w9")
    check(joint.keys() == alone.keys() and all(joint[n].tobytes() == alone[n].tobytes() for n in joint), "w9 differs")


def main(tutti, launch):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        prepare(folder)
        train(folder, launch, tutti, 1, "job", "one")
        train(folder, launch, tutti, 3, "job", "three")
        check_same(folder, "one", "three")
        check_axes(folder / "one" / "results.h5")
        check_slopes(folder, launch, tutti)
        if not kill_when_saved(folder, launch, tutti, 1, "job", "killed"):
            print("the run was over before it could be killed")
        train(folder, launch, tutti, 3, "job", "killed")
        check_same(folder, "one", "killed")
        for name in ENSEMBLES:
            train(folder, launch, tutti, 1, name, f"alone-{name}")
            check_alone(folder, name)
        check_many(folder, tutti)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
