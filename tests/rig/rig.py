"""rig.py — shared by the Python tests: the program under test, a folder, data, checks.

    import sys
    sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
    from rig import check, np, test, tutti, write_h5, write_json

    def main():
        write_h5("d.h5", x=np.ones((9, 2)), y=np.ones(9))
        said = tutti("train", write_json("job.json", {"data": {"file": "d.h5"}}), ranks=2, code=78)
        check("job.json:1:" in said, said)

    test(main)

The program is $TUTTI (default build/tutti), its library $TUTTI_LIBRARY, the launcher $TUTTI_MPIRUN.
A test runs in a folder of its own; with TUTTI_TEST_KEEP=FOLDER in that one, which stays. A test that
cannot run calls skip(): exit status 77. `from rig import h5py, np` skips it where these are missing.
"""
import contextlib
import importlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTTI = os.path.abspath(os.environ.get("TUTTI", ROOT / "build/tutti"))
LIBRARY = os.environ.get("TUTTI_LIBRARY")  # none with sanitizers: Python cannot load it
MPIRUN = shlex.split(os.environ.get("TUTTI_MPIRUN", "mpirun --oversubscribe -n"))
for _name in ("OMP_NUM_THREADS", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
    os.environ.setdefault(_name, "1")

failures = []


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def __getattr__(name):
    if name not in ("h5py", "np"):
        raise AttributeError(name)
    try:
        return importlib.import_module({"np": "numpy"}.get(name, name))
    except ImportError as missing:
        skip(f"{missing}; Debian: python3-h5py")


def check(good, text):
    """Count a failure and go on."""
    if not good:
        failures.append(text)
        print(f"FAILED: {text}", flush=True)
    return good


def finish(summary=""):
    """End the test: exit status 0 without failures, else 1."""
    print(summary, f"{len(failures)} failures" if failures else "passed")
    sys.exit(1 if failures else 0)


@contextlib.contextmanager
def folder():
    """An empty folder, in which the test runs."""
    before = os.getcwd()
    with contextlib.ExitStack() as stack:
        keep = os.environ.get("TUTTI_TEST_KEEP")
        if keep:
            os.makedirs(keep, exist_ok=True)
        place = keep or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="tutti-test-", ignore_cleanup_errors=True))
        os.chdir(place)
        try:
            yield pathlib.Path(place).resolve()
        finally:
            os.chdir(before)


def test(main, *arguments):
    """Run a test in a folder, and end it."""
    with folder():
        main(*arguments)
    finish()


class Said(str):
    """What a command has printed: `out` and then `err`."""

    out = err = ""


def run(*words, code=0, says="", timeout=120, **how):
    """Run a command, which must end with this exit code, or with one of several; `says` is a part of
    what it must print."""
    words = [str(w) for w in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, **how)
    said = Said(done.stdout + done.stderr)
    said.out, said.err = done.stdout, done.stderr
    if done.returncode not in (code if isinstance(code, tuple) else (code,)):
        sys.exit(f"{shlex.join(words)}: exit {done.returncode}, not {code}\n{said}")
    check(says in said, f"{shlex.join(words)}: '{says}' is missing in\n{said}")
    return said


def tutti(*words, ranks=0, **how):
    """Run the program; ranks=0: without a launcher."""
    return run(*launcher(ranks), TUTTI, *words, **how)


def launcher(ranks):
    if (ranks or 1) > 1 and MPIRUN[0].endswith("one_process.sh"):
        skip(f"{ranks} ranks of a build without MPI")
    return [*MPIRUN, str(ranks)] if ranks else []


def package():
    """The Python package of the tree; None without the library."""
    if LIBRARY:
        sys.path.insert(0, str(ROOT / "python"))
        return importlib.import_module("tutti")
    return None


def sets(*settings):
    """["--set", setting] of each."""
    return [word for s in settings for word in ("--set", s)]


def write_json(path, content):
    """Returns the path: a job file may be JSON."""
    pathlib.Path(path).write_text(json.dumps(content), encoding="utf-8")
    return path


def write_h5(path, **datasets):
    import h5py
    with h5py.File(path, "w") as f:
        for name, values in datasets.items():
            f[name] = values


def tensors(path):
    """{name: (type, shape, bytes)} of every dataset outside /provenance."""
    import h5py
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith("provenance"):
            found[name] = (str(item.dtype), item.shape, item[()].tobytes())

    with h5py.File(path, "r") as f:
        f.visititems(visit)
    return found


def differences(got, wanted):
    """Names of the tensors of model.h5 and results.h5 that are not the same to the bit."""
    different = []
    for file in ("model.h5", "results.h5"):
        a, b = tensors(pathlib.Path(got) / file), tensors(pathlib.Path(wanted) / file)
        assert b, f"{wanted}/{file} holds no tensor"
        different += [f"{file}:/{n}" for n in sorted(a.keys() | b.keys()) if a.get(n) != b.get(n)]
    return different


def check_same(wanted, *others):
    for other in others:
        different = differences(other, wanted)
        check(not different, f"{other} and {wanted}: other bits in {', '.join(different[:8])}")


def kill_when_saved(out, *words):
    """Run the program, which trains in the directory `out`, and kill it after the first checkpoint."""
    out = pathlib.Path(out)
    process = subprocess.Popen([TUTTI, *words], start_new_session=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(out.glob("ckpt-g*.h5")):
        time.sleep(0.002)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if (out / "model.h5").exists():
        print(f"{out.name} was over before it could be killed")
