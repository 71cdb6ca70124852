"""slurm_rig.py: functions shared by the tests on the cluster of cluster.py. Every wait is for a state,
with a time limit."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
import cluster  # noqa: E402
import harness as h  # noqa: E402

RUN = pathlib.Path(os.environ.get("TUTTI_SLURM", "build/slurm")).resolve()
SCRIPTS = h.ROOT / "slurm"
LIMIT = 150  # seconds for any wait; an idle machine needs a tenth
SITE = "#SBATCH --ntasks-per-node={ranks}\n#SBATCH --cpus-per-task=1\n"


def require_cluster():
    """Skip if Slurm is not installed; set the environment so that every child uses the cluster and
    finds the program under test as `tutti`."""
    with contextlib.suppress(OSError):
        h.skip((RUN / "skipped").read_text().strip())
    if not (RUN / "etc" / "slurm.conf").exists():
        h.skip("the cluster is not running: cluster.py start")
    h.require_program()
    os.environ.update(cluster.environment(RUN))
    os.environ["PATH"] = f"{pathlib.Path(h.TUTTI).resolve().parent}:{os.environ['PATH']}"


@contextlib.contextmanager
def workplace():
    """A folder with data.h5 and job.yaml, the directory of all jobs; deleted at the end."""
    require_cluster()
    with tempfile.TemporaryDirectory(prefix="tutti-slurm-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        (folder / "tmp").mkdir()
        h.write_data(folder / "data.h5")
        (folder / "job.yaml").write_text(h.JOB)
        try:
            yield folder
        finally:
            if started:
                command("scancel", "-f", *started)


started = []  # job numbers of this test


def command(*words, folder=None, good=False):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, cwd=folder,
                          check=False, timeout=LIMIT)
    if good and done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def local_run(folder, name, settings=()):
    """The expected bits: one rank, no Slurm."""
    done = command(h.TUTTI, *h.train_arguments([*settings, f"run.directory={name}"]), folder=folder)
    if done.returncode:
        sys.exit(f"the local run ended with {done.returncode}\n{done.stderr}")
    return folder / name


def script(template, ranks=1, train=(), launch=None):
    """A template with the changes that a user makes: the block of the site, and options of the run."""
    text = (SCRIPTS / template).read_text()
    launch = launch or "srun --mpi=pmix --kill-on-bad-exit=1"
    block = f"{SITE.format(ranks=ranks)}launch=({launch})\n"
    text = re.sub(r"(?s)# ---- site.*# ---- end of site\n", block.replace("\\", r"\\"), text)
    if train:
        words = " ".join(f"--set '{s}'" for s in train)
        text = text.replace('run=("$job"', f'run=("$job" {words}', 1)
    return text


def submit(folder, name, text, *options):
    (folder / f"{name}.sbatch").write_text(text)
    done = command("sbatch", "--parsable", f"--job-name={name}", *options, f"{name}.sbatch",
                   folder=folder, good=True)
    started.append(done.stdout.strip())
    return done.stdout.strip()


def describe(job):
    """The output of scontrol for a job or the task of an array, as a dictionary."""
    done = command("scontrol", "-o", "show", "job", job)
    line = done.stdout.splitlines()[0] if done.stdout else ""
    return dict(w.split("=", 1) for w in line.split() if "=" in w)


def state(job):
    return describe(job).get("JobState", "")


def restarts(job):
    return int(describe(job).get("Restarts", 0))


def wait_for(what, ready, limit=LIMIT):
    """Wait for a true value of ready() and return it; the test fails after a time limit."""
    end = time.monotonic() + limit
    while True:
        value = ready()
        if value:
            return value
        if time.monotonic() > end:
            show_jobs()
            sys.exit(f"waited {limit} s for {what}")
        time.sleep(0.2)


def show_jobs():
    print(command("squeue", "-t", "all", "-o", "%i %j %T %r %N").stdout)


ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"}


def wait_end(job):
    """Wait for the final state of a job; a requeued job has not ended."""
    return wait_for(f"the end of job {job}", lambda: (s := state(job)) in ENDED and s)


def exit_code(job):
    return int(describe(job)["ExitCode"].split(":")[0])


def wait_generation(directory, least=1):
    return wait_for(f"checkpoint {least} of {directory}",
                    lambda: h.newest(directory) >= least and h.newest(directory))


def output(folder, name, job):
    file = folder / f"{name}-{job}.out"
    return file.read_text(errors="replace") if file.exists() else ""


def starts(directory):
    """Rows of starts.tsv as dictionaries, without an incomplete last row."""
    try:
        text = (pathlib.Path(directory) / "starts.tsv").read_text()
    except OSError:
        return []
    lines = text[:text.rfind("\n") + 1].splitlines()
    head = lines[0].lstrip("#").split("\t") if lines else []
    return [dict(zip(head, line.split("\t"))) for line in lines[1:]]


def check_done(job, directory, wanted, text, log=""):
    if h.check(wait_end(job) == "COMPLETED", f"{text}: {state(job)}\n{log}"):
        h.check_same(directory, wanted, text)

