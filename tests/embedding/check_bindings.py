"""check_bindings.py c|cpp|fortran COMPILER — a binding of the library.

Compiles the examples of examples/embed and a program with everything of the binding, with all
warnings as errors; trains the model of the examples, and one of classes; the printed predictions must
have the bits of `tutti predict`, what trainers print those of tutti.Trainer, and the examples their
physics. C has the example that trains its own model. The programs of docs/trainer.md print the same
in all languages. Exit status 77 without a compiler.
"""
import math
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import folder, h5py, launcher, LIBRARY, np, ROOT, run, skip, tutti, TUTTI

sys.path.insert(0, str(ROOT / "python"))
import tutti as package

language, compiler = sys.argv[1:]
example = ROOT / "examples/embed"
MODULES = [ROOT / "src/api" / f"{name}.f90" for name in ("tutti", "tutti_training")
           if language == "fortran"]

# Whether the pendulum accelerates, brakes, or neither.
CLASSES = """\
data: {file: classes.h5}
model: {hidden: [6]}
ensembles: [{name: change, members: 3}]
train: {loss: cross_entropy, epochs: 3}
run: {device: cpu, directory: classes}
"""


def build(program, *sources, by=compiler):
    folder = os.path.dirname(LIBRARY)
    flags = {"fortran": ["-std=f2008"], "c": ["-std=c17", "-Wconversion", f"-I{ROOT}/src/api"],
             "cpp": ["-std=c++11", "-Wpedantic", "-Wconversion", f"-I{ROOT}/src/api"]}[language]
    run(by, *flags, "-Wall", "-Wextra", "-Werror", *sources, "-o", program, f"-L{folder}", "-ltutti",
        f"-Wl,-rpath,{folder}", "-lm")


def predict(x, *options, model="out/model.h5"):
    with h5py.File("rows.h5", "w") as f:
        f["x"] = np.asarray(x, dtype=float)
    tutti("predict", model, "rows.h5", "-q", "--force", *options)
    with h5py.File("pred.h5") as f:
        return {name: f[name][()] for name in f if name.startswith("y_")}


def numbers(text):
    return np.array([[float(n) for n in line.split()] for line in text.splitlines()])


def check_time_loop():
    build("./time_loop", MODULES[0], example / "time_loop.f90")
    lines = run("./time_loop", "out/model.h5").out.splitlines()
    rows = numbers("\n".join(lines[:-1]))
    assert rows.shape == (8, 5), lines
    want = predict(rows[:, 1:3])
    assert (rows[:, 3] == want["y_pred_mean"][:, 0]).all() and (rows[:, 4] == want["y_pred_std"][:, 0]).all()
    angle, velocity, error = 2.0, 0.0, 0.0
    for step in range(400):
        if step % 50 == 0:
            error = max(error, abs(angle - rows[step // 50, 1]))
        velocity += 0.01 * (-9.81 * math.sin(angle) - 0.3 * velocity)
        angle += 0.01 * velocity
    print(f"time loop: {error:.3f} rad from the exact pendulum; {lines[-1]}")
    assert error < 0.1, error


def check_online(source, by, ranks):
    """The force that moves the pendulum of a rank is rarely called, and the angle is that of the exact motion."""
    build("./online", *MODULES, example / source, by=by)
    out = run(*launcher(ranks), "./online").out
    rows = numbers("\n".join(re.findall(r"^[\d.eE+ -]+$", out, re.M)))
    assert rows.shape == (6 * (ranks or 1), 5 if ranks else 4), out
    ends = [re.search(rf"^{'rank %d: ' % rank if ranks else ''}(\d+) calls in 6000 steps, angle within (\S+) rad$",
                      out, re.M).groups() for rank in range(ranks or 1)]
    for rank, (calls, within) in enumerate(ends):
        check_pendulum(rank, rows[rows[:, 0] == rank, 1:] if ranks else rows, int(calls), float(within))
    saved = package.Model("online.h5").predict([[0.5, 1.0]])
    assert abs(saved.mean[0] - (-9.81 * math.sin(0.5) - 0.3)) < 0.5, saved.mean


def check_pendulum(rank, rows, calls, within):
    angle, velocity, error = 2 - 0.5 * rank, 0.0, 0.0
    for step in range(6000):
        if step % 1000 == 0:
            error = max(error, abs(angle - rows[step // 1000, 1]))
        force = -9.81 * math.sin(angle) - 0.3 * velocity
        velocity += 0.01 * (force + 5 * math.cos(0.015 * step))
        angle += 0.01 * velocity
    print(f"online, pendulum {rank}: {error:.3f} rad from the exact one, at most {within}; {calls} calls")
    assert 32 < rows[-1, 3] <= calls < 900, (rows, calls)
    assert error <= within + 5e-4 and within < 0.25, (error, within)


def check_optimizer():
    build("./optimize", example / "optimize.cpp")
    lines = run("./optimize", "out/model.h5").out.splitlines()
    rows = numbers("\n".join(lines[:-1]))
    want = predict(np.stack([rows[:, 1], 0 * rows[:, 1]], axis=1))
    assert (rows[:, 2] == want["y_pred_mean"][:, 0]).all() and (rows[:, 3] == want["y_pred_std"][:, 0]).all()
    print(lines[-1])
    best = float(re.match(r"best angle (\S+): acceleration ", lines[-1])[1])
    assert abs(best + math.pi / 2) < 0.1, best
    assert "No such file" in run("./optimize", "none.h5", code=1).err


def check_other_mpi():
    build("./other_mpi", ROOT / "tests/embedding/other_mpi.cpp")
    run("./other_mpi", "out/model.h5")
    run("env", "MPI_RUNS=1", "./other_mpi", "out/model.h5")


def block(kind):
    """The first block of a language in docs/trainer.md."""
    return re.search(rf"^```{kind}\n(.*?)^```", (ROOT / "docs/trainer.md").read_text(), re.M | re.S)[1]


def check_page():
    source = pathlib.Path("page." + {"fortran": "f90"}.get(language, language))
    source.write_text(block(language))
    build("./page", *MODULES, source)
    got = run("./page").out
    want = run(sys.executable, "-c", block("python"), env={**os.environ, "PYTHONPATH": f"{ROOT}/python"}).out
    assert numbers(got).shape == (1, 3) and (numbers(got) == numbers(want)).all(), (got, want)
    print(f"docs/trainer.md: {got.strip()}")


def train_classes():
    with h5py.File("pendulum.h5") as f, h5py.File("classes.h5", "w") as to:
        to["x"], y = f["x"][()], f["y"][()]
        to["y"] = 1.0 + (y > 3) - (y < -3)
    pathlib.Path("classes.yaml").write_text(CLASSES)
    tutti("train", "classes.yaml", "-q")


def trainer_numbers():
    """What the programs print of a trainer, with tutti.Trainer."""
    i = np.arange(6)
    x = np.stack([(i % 3 - 1) / 2, (i * i % 7 - 3) / 4], axis=1).astype(np.float32)
    y = x[:, 0] * x[:, 1] - x[:, 0]
    rows = [[0, 1, 2, 3], [5, 5, 0, 4], [2, 1, 1, 3]]
    own = x.reshape(3, 2, 2)
    with package.Trainer(inputs=2, epoch_rows=6, hidden=[5, 4], batch_size=8, learning_rate=0.02,
                         epochs=40, schedule="cosine", ensembles=[{"name": "e", "members": 3}], seed=7,
                         x_scale=([0.25, 0], [2, 0.5]), y_scale=([0.5], [4]), program=TUTTI) as t:
        found = [t.step(x, y, 1 + i % 2), t.step(x, y, index=rows), t.step(own, y.reshape(3, 2))]
        found.append(t.backward(t.forward(x) - y[:, None], inputs=True))
        t.update()
        found.append(t.forward(x, rows))
        t.backward(found[-1])
        t.update()
        found.append(t.forward(own))
        t.backward(found[-1])
        found.append(t.take_gradient())
        t.set_learning_rate(0.01)
        t.set_learning_rate(0.03, 1)
        found.append([t.learning_rate(m) for m in range(3)])
        found.append(t.step(x, y))
        t.set_weights(1, t.get_weights(0))
        t.reset(2)
        found += [t.get_weights(2), t.predict(x), t.model().predict(x).mean]
        saved = package.Model("trained.h5").predict(x).mean
        assert (saved == found[-1]).all(), (saved, found[-1])
    return np.concatenate([np.ravel(part) for part in found]).astype(float)


def check_everything():
    """Everything of the binding for three rows: one number a line, in the order of the files; then
    those of a trainer."""
    name = {"fortran": "everything.f90", "cpp": "everything.cpp"}[language]
    build("./everything", *MODULES, ROOT / "tests/embedding" / name)
    got = numbers(run("./everything", "out/model.h5", "classes/model.h5").out)[:, 0]
    trained = trainer_numbers()
    assert (got[-len(trained):] == trained).all(), (got[-len(trained):], trained)
    got = got[:-len(trained)]
    x = [[0.5, -1.0], [1.0, 2.0], [-3.0, 0.25]]
    want = predict(x, "--jacobian", "--quantiles", "0.1,0.9")
    want.update(predict(x, "--members", model="classes/model.h5"), **want)
    parts = ["y_pred_mean", "y_pred_std", "y_pred_std_aleatoric", "y_pred_std_epistemic"]
    parts += [f"{part}_jacobian" for part in parts] + [
        "y_pred_quantile", "y_pred_lower", "y_pred_upper", "y_entropy", "y_mutual_information",
        "y_member_mean", "y_member_variance"]
    expected = np.concatenate([want[part].ravel() for part in parts])
    assert len(got) == len(expected), (got, expected)
    slopes = np.concatenate([np.full(want[part].size, part.endswith("_jacobian")) for part in parts])
    assert (got[~slopes] == expected[~slopes]).all(), (got, expected)
    # those of the library are in single precision
    np.testing.assert_allclose(got[slopes], expected[slopes], rtol=0, atol=1e-5 * abs(expected[slopes]).max())
    print(f"{len(got)} numbers of tutti predict, of which {slopes.sum()} are derivatives; "
          f"{len(trained)} of tutti.Trainer")


if not shutil.which(compiler):
    skip(f"no compiler {compiler}")
with folder():
    check_page()
    if language != "cpp":
        check_online(*{"c": ("online.c", "mpicc", 2), "fortran": ("online.f90", compiler, 0)}[language])
    if language == "c":
        sys.exit()
    shutil.copy(example / "job.yaml", ".")
    tutti("import", example / "pendulum.csv", "-o", "pendulum.h5", "--inputs", "angle,velocity",
        "--targets", "acceleration", "-q")
    tutti("train", "job.yaml", "-q")
    train_classes()
    (check_time_loop if language == "fortran" else check_optimizer)()
    check_everything()
    if language == "cpp":
        check_other_mpi()
