"""harness.py: shared by the fault tests: a small job, starting and ending ranks, comparing files.

The program under test is $TUTTI (default build/tutti), the launcher $TUTTI_MPIRUN. A test calls
check()/fail() and ends with finish(); if it cannot run it calls skip(), exit status 77.
"""
import collections
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "rig"))
from rig import (MPIRUN, ROOT, launcher, TUTTI, check, differences, failures, finish,  # noqa: E402, F401
                 h5py, np, sets, skip, tensors)

DONE, STOPPED, CANNOT_CREATE, IO_ERROR = 0, 75, 73, 74
LAUNCHER_ENDS = 20  # seconds that mpirun may need after its last rank

# The fields of a member in a checkpoint, in the order of its checksum, read from the table.
STATE_FIELDS = re.findall(r"^  X\((\w+), \w+, ", (ROOT / "core/model/state.h").read_text(), re.M)

JOB = """\
title: a job for fault tests
data:  {file: data.h5, split: {train: 0.8, validation: 0.1, test: 0.1, seed: 3}}
model: {hidden: [16, 16], activation: tanh, output: mean_variance}
ensembles:
  - {name: one, target: y0, members: 4}
  - {name: two, target: y1, members: 3}
train: {loss: gaussian_nll, optimizer: adam, learning_rate: 2e-3, batch_size: 16, epochs: 60,
        resample: bootstrap}
checkpoint: {every: 200ms, keep: 2}
run: {seed: 11, device: cpu, threads: 1, directory: out}
"""

Run = collections.namedtuple("Run", "code hung seconds output")


def fail(text):
    check(False, text)


def require_program():
    if not os.access(TUTTI, os.X_OK):
        sys.exit(f"{TUTTI} does not exist: build it, or set TUTTI")


@contextlib.contextmanager
def workplace():
    """A temporary directory with data.h5 and job.yaml; TMPDIR of the launcher is in it too."""
    require_program()
    with tempfile.TemporaryDirectory(prefix="tutti-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        (folder / "tmp").mkdir()
        write_data(folder / "data.h5")
        (folder / "job.yaml").write_text(JOB)
        yield folder


def write_data(path, rows=240, inputs=4, targets=2):
    draw = np.random.RandomState(5)
    x = draw.uniform(-1, 1, (rows, inputs))
    y = np.stack([np.sin(3 * x[:, 0]) + x[:, k % inputs] ** 2 for k in range(targets)], 1)
    y += 0.1 * draw.standard_normal(y.shape)
    with h5py.File(path, "w") as f:
        f["x"], f["y"] = x.astype("f4"), y.astype("f4")


def environment(folder, extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMIX_"))}
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    env.update(TMPDIR=str(folder / "tmp"), OMPI_MCA_btl_vader_single_copy_mechanism="none")
    env.update(ASAN_OPTIONS="detect_leaks=0:verify_asan_link_order=0")
    preload = env.get("LD_PRELOAD", "")
    env.update(extra or {})
    if preload not in env.get("LD_PRELOAD", ""):  # beside the library of the test
        env["LD_PRELOAD"] += f":{preload}"
    return env


def launch_command(ranks, args, rank_env=None, ulimit=None):
    """ranks 0 starts the program itself, without a launcher. rank_env and ulimit ("-f 8") reach the
    ranks only."""
    start = launcher(ranks)
    setting = ["env"] + [f"{k}={v}" for k, v in rank_env.items()] if rank_env else []
    limit = ["sh", "-c", f'ulimit {ulimit} && exec "$@"', "sh"] if ulimit else []
    return start + setting + limit + [TUTTI] + [str(a) for a in args]


def launch(folder, command, env=None, log="log"):
    """Start a command in a session of its own; the output goes to folder/log."""
    with open(folder / log, "w") as to:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=to,
                                   stderr=subprocess.STDOUT, env=environment(folder, env),
                                   start_new_session=True)
    process.log = log
    return process


def start(folder, ranks, args, env=None, rank_env=None, ulimit=None, log="log"):
    return launch(folder, launch_command(ranks, args, rank_env, ulimit), env, log)


def busy():
    """How many times longer everything may take, because other programs run too."""
    return min(6.0, max(1.0, os.getloadavg()[0] / os.cpu_count()))


def wait(folder, process, limit):
    """Wait for the end; after `limit` seconds, more on a busy machine, kill all processes it started.
    Then Run.hung is "ranks", or "launcher" if all ranks ended long before: mpirun waits forever for a
    rank that died during the start-up handshake."""
    begin, hung, seen = time.monotonic(), "", 0
    gone = begin
    while not hung:
        try:
            process.wait(0.5)
            break
        except subprocess.TimeoutExpired:
            ranks, now = ranks_of(process), time.monotonic()
        seen = max(seen, len(ranks))
        gone = now if ranks or not seen else gone
        if now - begin > limit * busy():
            hung = "ranks" if ranks else "launcher"
        elif now - gone > LAUNCHER_ENDS * busy():
            hung = "launcher"
    states = f"\nharness: ranks still alive: {ranks}\n" if hung else ""
    reap(process)
    output = (folder / process.log).read_text(errors="replace") + states
    return Run(process.returncode, hung, time.monotonic() - begin, output)


def run(folder, ranks, args, env=None, rank_env=None, ulimit=None, limit=60):
    return wait(folder, start(folder, ranks, args, env, rank_env, ulimit), limit)


def train(folder, ranks, settings=(), args=(), job="job.yaml", **how):
    """`tutti train` with --set for each of `settings`."""
    return run(folder, ranks, train_arguments(settings, args, job), **how)


def train_arguments(settings=(), args=(), job="job.yaml"):
    return ["train", job, "-q", "--resume", "auto"] + sets(*settings) + list(args)


def process_table():
    """{pid: (parent, session, state)} of this machine."""
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            text = pathlib.Path("/proc", name, "stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        table[int(name)] = (int(fields[1]), int(fields[3]), fields[0])
    return table


def ranks_of(process):
    """Process numbers of the ranks that a launcher has started so far."""
    table = process_table()
    return sorted(p for p, (parent, _, state) in table.items()
                  if parent == process.pid and state != "Z")


def wait_for_ranks(process, ranks, limit=20):
    end = time.monotonic() + limit
    while len(ranks_of(process)) < ranks and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    return ranks_of(process)


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def reap(process):
    """Kill the remaining processes of a session that this test started, and wait until they have
    disappeared. Zombies too, because their process numbers still exist."""
    for _ in range(500):
        process.poll()
        table = process_table()
        left = [p for p, (_, session, _) in table.items() if session == process.pid]
        if not left:
            break
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.01)
    process.wait()


def generations(directory):
    """Numbers of the checkpoints in a run directory, ascending."""
    names = [re.fullmatch(r"ckpt-g(\d+)\.h5", p.name) for p in pathlib.Path(directory).glob("*")]
    return sorted(int(m[1]) for m in names if m)


def newest(directory):
    return max(generations(directory), default=0)


def checkpoint(directory, generation):
    return pathlib.Path(directory) / f"ckpt-g{generation:06d}.h5"


def is_complete(directory):
    return all((pathlib.Path(directory) / n).exists() for n in ("model.h5", "results.h5"))


def leftovers(directory):
    """Temporary names in a run directory: a finished run leaves none behind."""
    if not pathlib.Path(directory).is_dir():
        return []
    return sorted(n for n in os.listdir(directory) if n.startswith(".tmp-"))


def check_same(got, wanted, text):
    if not check(is_complete(got), f"{text}: model.h5 and results.h5 are not both there"):
        return False
    different = differences(got, wanted)
    return check(not different, f"{text}: other bits in {', '.join(different[:8])}")


def undisturbed(folder, settings=(), ranks=2, name="wanted", job="job.yaml"):
    """Train once without a fault; its run directory. Also the time it takes."""
    begin = time.monotonic()
    done = train(folder, ranks, list(settings) + [f"run.directory={name}"], job=job, limit=300)
    seconds = time.monotonic() - begin
    if done.code != DONE:
        sys.exit(f"the undisturbed run ended with {done.code}:\n{done.output}")
    left = leftovers(folder / name)
    check(not left, f"the undisturbed run left behind: {', '.join(left)}")
    return folder / name, seconds


def epochs_for(folder, seconds, job="job.yaml"):
    """Number of epochs that take about `seconds` on 2 ranks of this machine and build. It uses the
    training time that the program reports, without the start-up time."""
    epochs, took = 250, 0
    while took < min(0.5, seconds):
        epochs *= 2
        undisturbed(folder, [f"train.epochs={epochs}", "checkpoint.every=1h"], name="timed",
                    job=job)
        took = status_of(folder / "timed")["seconds"]
        shutil.rmtree(folder / "timed")
    return int(epochs * seconds / took)


def stopped(folder, settings, name="stopped", ranks=2):
    """A run directory with the first two generations of a job: two starts with a time limit of
    0."""
    for generation in (1, 2):
        arguments = list(settings) + [f"run.directory={name}"]
        done = train(folder, ranks, arguments, ["--set", "run.max_time=10ms"])
        if done.code != STOPPED or generations(folder / name)[-1:] != [generation]:
            sys.exit(f"a run without time ended with {done.code}, generations "
                     f"{generations(folder / name)}\n{done.output}")
    return folder / name


def shim(library, folder, pattern, ops="write", at=0, error="ENOSPC", sticky=False, rank=None):
    """Environment of ranks in which one call fails (faultio.c); what happened is in shim.log."""
    (folder / "shim.log").write_text("")
    one = {} if rank is None else {"FAULTIO_RANK": str(rank)}
    return {"LD_PRELOAD": str(library), "FAULTIO_PATH": str(pattern), "FAULTIO_OPS": ops,
            "FAULTIO_AT": str(at), "FAULTIO_ERROR": error, "FAULTIO_STICKY": str(int(sticky)),
            "FAULTIO_LOG": str(folder / "shim.log"), **one}


def copy_directory(source, target):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target


def error_lines(output):
    """The error messages of all ranks."""
    return [line for line in output.splitlines() if re.match(r"tutti(\[\d+\])?: error: ", line)]


def member_hash(f, member):
    """XXH3 (64 bits) over the fields of one member in an open checkpoint of one cohort, each seeded with the hash
    of the fields before it; files have no fields without values."""
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
    xxh3.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)
    xxh3.restype = ctypes.c_uint64
    value = 0
    for name in STATE_FIELDS:
        data = f[name][()].reshape(len(f["status"]), -1)[member].tobytes() if name in f else b""
        value = xxh3(data, len(data), value)
    return value


def change_one_float(path):
    """Change one weight of the first member still in training and update its checksum: a wrong
    checkpoint that looks valid. Returns the member, or None if all have ended."""
    with h5py.File(path, "r+") as f:
        training = np.flatnonzero(f["status"][()] == 0)
        if not len(training):
            return None
        m = int(training[0])
        wanted = member_hash(f, m)
        if int(f["member_hash"][m]) != wanted:
            sys.exit(f"{path}: member_hash of member {m} is not XXH3 of {', '.join(STATE_FIELDS)}")
        at = m * int(f["cohort_params"][0])
        f["weights"][at] = np.nextafter(f["weights"][at], np.float32(np.inf))
        f["member_hash"][m] = member_hash(f, m)
    return m


def status_of(directory):
    """The status file of a run directory as a dictionary, {} if it is missing or torn."""
    try:
        return json.loads((pathlib.Path(directory) / "status.json").read_text())
    except (OSError, ValueError):
        return {}
