"""check_rows.py SOURCE WORK [--control] [CMAKE OPTION...] — add one row of each kind and run the laws.

Copies the tree SOURCE to WORK/tree, applies every <kind>.patch of tests/rows, builds it with the
address and undefined-behavior sanitizers, and runs the laws on the cpu engine and over the double,
the unit tests, the tests on 2 ranks, and the program.
--control, after that: a patch whose context is gone must be reported by its kind, and a wrong
derivative of the new activation must break laws.gradients; of WORK/tree it builds only the generic
kernels of the cpu engine again. Exit status 0 if all is well.
"""
import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Most files of a kind: of the product with its manual, and of the references that tests compare with.
# A head comes with the loss that trains it; a score with its line of the manual.
MOST_FILES = {
    "activation": (1, 1), "front": (1, 1), "init": (1, 1), "loss": (1, 1), "output": (2, 1), "optimizer": (1, 1),
    "schedule": (1, 1), "metric": (1, 0), "acquisition": (2, 1), "select": (2, 1),
    "normalization": (1, 0), "verb": (2, 0), "path": (3, 0),
}
TREES = ["core", "mpi", "io", "cuda", "src", "cmake", "tests", "bench", "slurm", "examples", "docs", "script"]
FILES = ["CMakeLists.txt", "README.md", "LICENSE"]
SKIPPED = shutil.ignore_patterns("build*", "__pycache__", ".git")
# -g1, because reports need only line numbers; -O0, because compiling takes longer than the tests;
# the inner loops, the laws and the double have their own level. No -Werror, because gcc guesses at -O1.
OPTIONS = ["-DTUTTI_SANITIZE=ON", "-DTUTTI_CUDA=OFF", "-DBUILD_TESTING=ON",
           "-DTUTTI_LONG_TESTS=OFF", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
           "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O0 -g1 -DNDEBUG",
           "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 -g1 -DNDEBUG"]
# This test takes longest of all: it gets more of the cores than a test beside it.
PROCESSES = os.cpu_count() + 1
# The program itself has no list of what MPI keeps to the end.
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}
NAMES = {
    "model.activation": "log_sigmoid", "model.init": "fan_out_uniform", "train.loss": "log_cosh",
    "train.optimizer": "adadelta", "train.schedule": "linear", "model.output": "positive",
    "score.acquisition": "aleatoric_std", "select.method": "oldest", "data.normalize": "max_abs",
}
JOBS = {
    "rows": "data: {file: d.h5, normalize: max_abs, split: {train: 0.6, validation: 0.2, test: 0.2}}\n"
            "model: {hidden: [8], activation: log_sigmoid, init: fan_out_uniform, profile: [1, 2],\n"
            "        front: [conv 3 2 pad 1, pool mean_square 2 stride 1]}\n"
            "train: {loss: log_cosh, optimizer: adadelta, schedule: linear, epochs: 40,\n"
            "        learning_rate: 0.5, batch_size: 16}\n",
    "head": "data: {file: d.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}\n"
            "model: {hidden: [8], activation: log_sigmoid, output: positive}\n"
            "train: {loss: positive_mse, optimizer: adadelta, epochs: 40, learning_rate: 0.5,\n"
            "        batch_size: 16}\n",
}
REST = "ensembles: [{name: e, members: 2}]\nrun: {device: cpu, threads: 1, directory: %s}\n"


def run(*words, cwd=None, good=True, more={}):
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMP_NUM_THREADS": "1", **more}
    done = subprocess.run([str(w) for w in words], cwd=cwd, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if (done.returncode == 0) != good:
        sys.exit(f"{done.stdout[-6000:]}\nFAILED: {' '.join(map(str, words))}: exit status "
                 f"{done.returncode}")
    return done.stdout


def apply(tree, kind, text):
    """The message of what went wrong, or None."""
    done = subprocess.run(["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-r", "-"], cwd=tree,
                          input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return f"{kind}.patch does not apply:\n{done.stdout}" if done.returncode else None


def count_files(kind, text):
    touched = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
    tests = sum(name.startswith("tests/") for name in touched)
    print(f"{kind:14} {' '.join(touched)}")
    if len(touched) - tests > MOST_FILES[kind][0] or tests > MOST_FILES[kind][1]:
        return f"{kind}.patch edits {len(touched) - tests} files and {tests} of the tests; most are " \
               f"{MOST_FILES[kind]}"
    return None


def bring_over(fresh, tree):
    """Make `tree` equal to `fresh`; files that are equal keep their times, so that little is built."""
    wanted = {p.relative_to(fresh) for p in fresh.rglob("*") if p.is_file()}
    for name in wanted:
        to = tree / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists() or not filecmp.cmp(fresh / name, to, shallow=False):
            shutil.copyfile(fresh / name, to)
            shutil.copymode(fresh / name, to)
    for p in tree.rglob("*"):
        name = p.relative_to(tree)
        if p.is_file() and name.parts[0] != "build" and name not in wanted:
            p.unlink()
    shutil.rmtree(fresh)


def patched_tree(source, work, name, patches):
    fresh, tree = work / f"{name}.fresh", work / name
    shutil.rmtree(fresh, ignore_errors=True)
    for part in TREES:
        shutil.copytree(source / part, fresh / part, ignore=SKIPPED)
    for part in FILES:
        shutil.copyfile(source / part, fresh / part)
    failures = [text for text in (apply(fresh, kind, patch) for kind, patch in patches.items()) if text]
    if failures:
        sys.exit("\n".join(failures))
    tree.mkdir(exist_ok=True)
    bring_over(fresh, tree)
    return tree


def build(tree, options):
    if shutil.which("ccache"):
        for name in ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"):
            os.environ.setdefault(name, "ccache")
        os.environ.setdefault("CCACHE_BASEDIR", str(tree))
        os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    run("cmake", "-S", tree, "-B", tree / "build", *OPTIONS, *options)
    build_again(tree, "tutti", "sanitized_tests")


def build_again(tree, *programs):
    run("cmake", "--build", tree / "build", "-j", PROCESSES, "--target", *programs)


def check_laws(tree):
    page = run(tree / "build/tutti", "options", "--markdown", more=NO_LEAKS)  # a test compares it
    (tree / "docs/options.md").write_text(page)
    run("ctest", "--test-dir", tree / "build", "--output-on-failure", "--no-tests=error", "-j",
        PROCESSES, "-L", "unit|laws|mpi|double|fuzz", "-LE", "long")
    run(tree / "build/tests/laws_on_double", "steps.steps_follow_the_textbook")


def check_program(tutti, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    options = run(tutti, "options", more=NO_LEAKS)
    for option, name in NAMES.items():
        if not re.search(rf"\b{name}\b", options):
            sys.exit(f"FAILED: `tutti options` has no {name} of {option}")
    if "log_sigmoid" not in run(tutti, "activations", more=NO_LEAKS).split():
        sys.exit("FAILED: the new verb does not answer")
    rows = "".join(f"{i % 17},{i % 23},{(i % 17) * 0.5 + (i % 23) ** 2 * 0.01}\n" for i in range(300))
    (folder / "d.csv").write_text("a,b,y\n" + rows)
    run(tutti, "import", "d.csv", "-o", "d.h5", "--inputs", "a,b", "--targets", "y", cwd=folder,
        more=NO_LEAKS)
    for name, job in JOBS.items():
        (folder / f"{name}.yaml").write_text(job + REST % name)
        run(tutti, "train", f"{name}.yaml", cwd=folder, more=NO_LEAKS)
        run(tutti, "predict", f"{name}/model.h5", "d.h5", "-o", f"{name}.h5", cwd=folder,
            more=NO_LEAKS)
        scores = run(tutti, "evaluate", f"{name}/model.h5", "d.h5", cwd=folder, more=NO_LEAKS)
        if "mean_cube" not in scores:
            sys.exit(f"FAILED: `tutti evaluate` does not print mean_cube:\n{scores}")


def check_report(work, source, patch):
    """A patch whose context is gone is reported by its kind."""
    tree = work / "control"
    shutil.rmtree(tree, ignore_errors=True)
    for name in re.findall(r"^--- a/(\S+)", patch, re.M):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, tree / name)
    gone = re.sub(r"(?m)^ .*X\(.*$", "  X(a row that nobody has)", patch)
    if said := apply(tree, "activation", patch):
        sys.exit(f"FAILED: {said}")
    said = apply(tree, "activation", gone)
    if not said or "activation.patch does not apply" not in said:
        sys.exit("FAILED: a patch whose context is gone is not reported")


def check_wrong_row(tree):
    """A wrong derivative in the product breaks laws.gradients. Only the generic kernels of the cpu
    engine are compiled with it: the header keeps its time while it is wrong."""
    header, kernels = tree / "core/formulas/elementwise.h", tree / "src/cpu/kernels/kernels_generic.c"
    right, times = header.read_text(), header.stat()

    def put(text):
        header.write_text(text)
        os.utime(header, ns=(times.st_atime_ns, times.st_mtime_ns))
        kernels.touch()

    wrong = right.replace("tt_sigmoid(-x), 1,", "tt_sigmoid(x), 1,")
    if wrong == right:
        sys.exit("FAILED: the new activation has no derivative that can be made wrong")
    try:
        put(wrong)
        build_again(tree, "laws")
        text = run(tree / "build/tests/laws", "gradients", good=False)
    finally:
        put(right)
    if "log_sigmoid" not in text:
        sys.exit(f"{text}\nFAILED: laws.gradients does not name the activation")


def main():
    options = [a for a in sys.argv[1:] if a.startswith("-") and a != "--control"]
    source, work = (pathlib.Path(a).resolve() for a in sys.argv[1:] if not a.startswith("-"))
    work.mkdir(parents=True, exist_ok=True)
    here = source / "tests/rows"
    patches = {p.stem: p.read_text() for p in sorted(here.glob("*.patch"))}
    if set(patches) != set(MOST_FILES):
        sys.exit(f"FAILED: patches of {sorted(patches)}, but kinds are {sorted(MOST_FILES)}")
    if "--control" in sys.argv:
        check_report(work, source, patches["activation"])
        return check_wrong_row(work / "tree")
    failures = [text for text in (count_files(k, p) for k, p in patches.items()) if text]
    if failures:
        sys.exit("\n".join(failures))
    tree = patched_tree(source, work, "tree", patches)
    build(tree, options)
    check_laws(tree)
    check_program(tree / "build/tutti", work / "job")


main()
