#!/usr/bin/python3
"""Invalid input of every kind: a message that names it, the exit code of the table, no new file.

  bad_input.py [--only TEXT] [--list]

One row of CASES is one case: what is damaged, the command, the exit code, and texts that the
message must contain. A case also fails if the program crashes, is slow, prints more than one
"tutti: error:" line (argp reports a wrong command line without that prefix), or leaves a new file
other than status.json and the owner file of the run directory.
"""
import argparse
import collections
import concurrent.futures
import os
import shutil
import socket
import stat
import subprocess
import sys

import h5py
import numpy as np

import harness as h

USAGE, DATA, NOINPUT, CANTCREAT, IO, CONFIG = 64, 65, 66, 73, 74, 78
MAY_STAY = ("status.json", "owner")
SECONDS = 20
EPOCHS = "train.epochs=2"

Case = collections.namedtuple("Case", "name args code said spoil ranks user")
CASES = []


def case(name, args, code, *said, spoil=(), ranks=0, user=None):
    CASES.append(Case(name, args, code, said, spoil, ranks, user))


# ways to damage the input; each is called with the directory of the case

def job(old, new):
    def change(folder):
        assert old in h.JOB, old
        (folder / "job.yaml").write_text(h.JOB.replace(old, new))
    return [change]


def write(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    return [lambda folder: (folder / name).write_bytes(data)]


def dataset(name, change):
    """Replace dataset `name` of data.h5 by change(old value); None removes it."""
    def spoil(folder):
        with h5py.File(folder / "data.h5", "r+") as f:
            old = f[name][()] if name in f else None
            if name in f:
                del f[name]
            new = change(old)
            if new is not None:
                f[name] = new
    return [spoil]


def element(name, place, value):
    def change(old):
        old[place] = value
        return old
    return dataset(name, change)


def cut(name, share):
    def spoil(folder):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * share)])
    return [spoil]


def remove(name):
    return [lambda folder: (folder / name).unlink()]


def make_socket(name):
    def spoil(folder):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(folder / name))
    return [spoil]


def link(name, to):
    return [lambda folder: (folder / name).symlink_to(to)]


def make_fifo(name):
    return [lambda folder: os.mkfifo(folder / name)]


def make_device(name):
    """A copy of /dev/null, or a link to it for users that may not create devices."""
    def spoil(folder):
        if os.getuid() == 0:
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        else:
            (folder / name).symlink_to("/dev/null")
    return [spoil]


def make_directory(name, mode=0o755):
    def spoil(folder):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    return [spoil]


def train(*sets):
    return ["train", "job.yaml"] + [w for s in (EPOCHS, *sets) for w in ("--set", s)]


def only_set(*sets):
    return ["train", "job.yaml"] + [w for s in sets for w in ("--set", s)]


PREDICT = ["predict", "model.h5", "data.h5", "--force", "-o", "pred.h5"]
IMPORT = ["import", "table.csv", "-o", "table.h5", "--inputs", "a,b", "--targets", "c"]


# the configuration

def bad_job(name, old, new, *said):
    case(name, ["train", "job.yaml"], CONFIG, *said, spoil=job(old, new))


def keys_and_values():
    bad = bad_job
    bad("unknown key", "epochs: 60", "color: 60", "job.yaml:7", "color")
    bad("misspelt key", "learning_rate:", "learning_rat:", "learning_rat", "learning_rate")
    bad("duplicate key", "epochs: 60", "epochs: 60, epochs: 61", "epochs")
    bad("misspelt section", "train: {", "trian: {", "trian", "train")
    bad("duplicate section", "run: {", "model: {hidden: [3]}\nrun: {", "model")
    bad("text for a number", "epochs: 60", "epochs: many", "many", "epochs")
    bad("letter O in a number", "epochs: 60", "epochs: 6O", "6O")
    bad("text after a number", "2e-3", "2e-3x", "2e-3x", "learning_rate")
    bad("fraction for a whole number", "epochs: 60", "epochs: 6.5", "6.5")
    bad("too small", "epochs: 60", "epochs: 0", "epochs", "0")
    bad("negative", "batch_size: 16", "batch_size: -16", "batch_size", "-16")
    bad("negative rate", "2e-3", "-2e-3", "learning_rate")
    bad("not a number", "2e-3", ".nan", "learning_rate")
    bad("infinite", "2e-3", ".inf", "learning_rate")
    bad("number beyond 64 bits", "seed: 11", "seed: 99999999999999999999", "seed")
    bad("unknown choice", "activation: tanh", "activation: tahn", "tahn", "tanh")
    bad("unknown loss", "loss: gaussian_nll", "loss: least_squares", "least_squares", "mse")
    bad("number for a list", "[16, 16]", "16", "hidden")
    bad("zero width", "[16, 16]", "[16, 0]", "hidden")
    bad("text in a list of numbers", "[16, 16]", "[16, wide]", "wide")
    bad("list for a number", "epochs: 60", "epochs: [60]", "epochs")
    bad("mapping for a number", "epochs: 60", "epochs: {a: 60}", "epochs")
    bad("unknown unit", "every: 200ms", "every: 5parsecs", "parsecs")
    bad("empty value", "epochs: 60", "epochs: ~", "epochs")


def jobs():
    bad, plain = bad_job, ["train", "job.yaml"]
    bad("no file", "file: data.h5, ", "", "file")
    bad("fractions above one", "train: 0.8", "train: 0.95", "1.15")
    bad("loss that needs a variance", "mean_variance", "mean", "gaussian_nll", "mean_variance")
    bad("two ensembles of one name", "name: two", "name: one", "one")
    bad("slash in a name", "name: two", "name: t/wo", "t/wo")
    bad("ensemble without a name", "name: two, ", "", "name")
    bad("no members", "members: 3", "members: 0", "members")
    bad("unknown target", "target: y1", "target: y7", "y7", "y0")
    bad("YAML that does not end", "model: {", "model: {{", "job.yaml:")
    bad("two errors at once", "batch_size: 16, epochs: 60", "batch_size: 0, epochs: x",
        "batch_size", "epochs", "2 errors")
    case("empty job", plain, CONFIG, "job.yaml", spoil=write("job.yaml", ""))
    case("job is a list", plain, CONFIG, "job.yaml", spoil=write("job.yaml", "- 1\n- 2\n"))
    case("zero byte in the job", plain, CONFIG, "job.yaml",
         spoil=write("job.yaml", h.JOB.encode() + b"\0"))
    case("job that is not UTF-8", plain, CONFIG, "job.yaml",
         spoil=write("job.yaml", h.JOB.encode() + b"# \xff\xfe\n"))
    case("job longer than 1 MiB", plain, NOINPUT, "1 MiB",
         spoil=write("job.yaml", h.JOB + "#" * (1 << 20)))
    case("--set of an unknown key", only_set("train.epoch=3"), CONFIG, "epoch")
    case("--set without a value", only_set("train.epochs"), (USAGE, CONFIG), "train.epochs")
    case("--set out of range", only_set("train.epochs=-3"), CONFIG, "-3")
    case("--set of a section", only_set("train=3"), CONFIG, "train")
    case("bad configuration on two ranks", only_set("train.epochs=-3"), CONFIG, "-3", ranks=2)


# the command line

def command_line():
    case("no verb", [], USAGE, "tutti")
    case("unknown verb", ["trian", "job.yaml"], USAGE, "trian")
    case("unknown option", ["train", "job.yaml", "--frobnicate"], USAGE, "frobnicate")
    case("train without a job", ["train"], USAGE, "train")
    case("two jobs", ["train", "job.yaml", "job.yaml"], USAGE, "unexpected argument")
    case("unknown --resume", ["train", "job.yaml", "--resume", "perhaps"], USAGE, "perhaps")
    case("predict without data", ["predict", "model.h5", "-o", "p.h5"], USAGE, "predict")
    case("quantile above one", PREDICT + ["--quantiles", "0.5,1.5"], USAGE, "1.5")
    case("quantile that is no number", PREDICT + ["--quantiles", "0.5,x"], USAGE, "x")
    case("no ranks to plan for", ["plan", "job.yaml", "--ranks", "0"], USAGE, "0")
    case("import without columns", ["import", "table.csv", "-o", "t.h5"], USAGE, "--inputs")


# missing files and files of another kind

def files():
    case("no job file", ["train", "nowhere.yaml"], NOINPUT, "nowhere.yaml")
    case("no data file", train(), NOINPUT, "data.h5", spoil=remove("data.h5"))
    case("data file is a directory", train(), NOINPUT, "data.h5",
         spoil=remove("data.h5") + make_directory("data.h5"))
    case("no model", ["predict", "nowhere.h5", "data.h5", "-o", "p.h5"], NOINPUT, "nowhere.h5")
    case("no rows to predict", ["predict", "model.h5", "nowhere.h5", "-o", "p.h5"], NOINPUT,
         "nowhere.h5")
    case("no status file", ["info", "nowhere.h5"], NOINPUT, "nowhere.h5")
    case("nothing to resume", train() + ["--resume", "must"], (NOINPUT, DATA), "out")
    case("text instead of HDF5", train(), DATA, "data.h5", spoil=write("data.h5", "a,b\n1,2\n"))
    case("empty data file", train(), DATA, "data.h5", spoil=write("data.h5", ""))
    case("truncated data file", train(), DATA, "data.h5", spoil=cut("data.h5", 0.6))
    case("truncated data file, two ranks", train(), DATA, "data.h5", spoil=cut("data.h5", 0.6),
         ranks=2)
    case("truncated model", PREDICT, DATA, "model.h5", spoil=cut("model.h5", 0.5))
    case("truncated model, two ranks", PREDICT, DATA, "model.h5", spoil=cut("model.h5", 0.5),
         ranks=2)
    case("data as a model", ["predict", "data.h5", "data.h5", "-o", "p.h5"], DATA, "data.h5")
    case("results as a model", ["predict", "results.h5", "data.h5", "-o", "p.h5"], DATA,
         "results.h5")
    case("text as a model", PREDICT, DATA, "model.h5", spoil=write("model.h5", "model\n"))
    case("info of a text", ["info", "job.yaml"], DATA, "job.yaml")


def not_files():
    """What is not a regular file is named, and never waited for."""
    fifo = lambda name: [lambda folder: ((folder / name).unlink(missing_ok=True),
                                         (folder / name).parent.mkdir(exist_ok=True),
                                         os.mkfifo(folder / name))]
    said = "is a FIFO, not a regular file"
    case("job is a FIFO", ["train", "job.yaml"], NOINPUT, "job.yaml", said, spoil=fifo("job.yaml"))
    case("job is a FIFO, two ranks", ["train", "job.yaml"], NOINPUT, "job.yaml", said,
         spoil=fifo("job.yaml"), ranks=2)
    case("job is a directory", ["plan", "job.yaml"], NOINPUT, "job.yaml is a directory",
         spoil=remove("job.yaml") + make_directory("job.yaml"))
    case("job is a device", ["plan", "/dev/zero"], NOINPUT, "/dev/zero is a device")
    case("job is a socket", ["plan", "job.yaml"], NOINPUT, "job.yaml is a socket",
         spoil=remove("job.yaml") + make_socket("job.yaml"))
    case("data file is a FIFO", train(), NOINPUT, "data.h5", said, spoil=fifo("data.h5"))
    case("table is a FIFO", IMPORT, NOINPUT, "table.csv", said, spoil=fifo("table.csv"))
    case("status is a FIFO", ["status", "out"], NOINPUT, "status.json", said,
         spoil=fifo("out/status.json"))
    case("journal is a FIFO", ["status", "out"], (NOINPUT, IO), "journal.jsonl", said,
         spoil=fifo("out/journal.jsonl") + write("out/status.json", '{"state": "running"}'))


# ranks that were started differently

def ranks_differ():
    """Open MPI starts two commands as one world; rank 1 has the second one."""
    two = lambda first, second: first + [":", "-n", "1", h.TUTTI] + second
    both = lambda name, first, second, *said: case(name, two(first, second), CONFIG, *said,
                                                   "not all ranks have the same", ranks=1)
    both("another --set on a rank", train(), train("train.learning_rate=0.5"), "rank 1 has",
         "'--set train.learning_rate=0.5'", "rank 0 has nothing")
    both("another value on a rank", train("train.batch_size=4"), train("train.batch_size=8"),
         "'--set train.batch_size=8'", "'--set train.batch_size=4'")
    both("another --resume on a rank", train(), train() + ["--resume", "never"],
         "--resume never")
    both("another job on a rank", train(), ["train", "other.yaml"], "other.yaml", "job.yaml")
    both("another verb on a rank", train(), PREDICT, "tutti predict", "tutti train")
    both("a campaign on a rank", PREDICT, ["campaign", "run", "job.yaml"], "tutti campaign run")
    both("doctor on a rank", ["doctor", "job.yaml"], train(), "tutti doctor")
    both("a verb without MPI on a rank", train(), ["plan", "job.yaml"], "tutti plan", "tutti train")
    both("a verb without MPI on rank 0", ["info", "data.h5"], PREDICT, "tutti info", "tutti predict")
    both("verbs without MPI", ["info", "data.h5"], ["plan", "job.yaml"], "tutti info", "tutti plan")
    both("another output on a rank", PREDICT, PREDICT[:-1] + ["other.h5"], "other.h5", "pred.h5")


# content of the data

def contents():
    nan, inf = np.nan, np.inf
    case("no inputs", train(), DATA, "'x'", "y", spoil=dataset("x", lambda _: None))
    case("no targets", train(), DATA, "'y'", spoil=dataset("y", lambda _: None))
    case("inputs named wrongly", train("data.inputs=features"), DATA, "features", "x")
    case("inputs are a group", train("data.inputs=g"), DATA, "g",
         spoil=[lambda d: h5py.File(d / "data.h5", "r+").create_group("g").file.close()])
    case("inputs with three axes", train(), DATA, "x", spoil=dataset("x", lambda x: x[:, :, None]))
    case("inputs without columns", train(), DATA, "x", spoil=dataset("x", lambda x: x[:, :0]))
    case("inputs without rows", train(), DATA, "x",
         spoil=dataset("x", lambda x: x[:0]) + dataset("y", lambda y: y[:0]))
    case("inputs of text", train(), DATA, "x", spoil=dataset("x", lambda x: x.astype("S8")))
    case("rows that do not match", train(), DATA, "240", "200",
         spoil=dataset("y", lambda y: y[:200]))
    case("NaN in inputs", train(), DATA, "x", "17", "2", spoil=element("x", (17, 2), nan))
    case("NaN in inputs, two ranks", train(), DATA, "x", "17", spoil=element("x", (17, 2), nan),
         ranks=2)
    case("infinite input", train(), DATA, "x", "230", spoil=element("x", (230, 0), inf))
    case("infinite target", train(), DATA, "y", "5", spoil=element("y", (5, 1), -inf))
    case("no labeled row", train(), DATA, "one", spoil=element("y", np.s_[:, 0], nan))
    case("negative weight", train("data.weights=w"), DATA, "w", "9",
         spoil=dataset("w", lambda _: np.r_[np.ones(9), -1.0, np.ones(230)]))
    case("too few weights", train("data.weights=w"), DATA, "w",
         spoil=dataset("w", lambda _: np.ones(7)))
    case("no such weights", train("data.weights=w"), DATA, "w")
    case("unknown part of the split", train("data.split.column=s"), DATA, "s", "7",
         spoil=dataset("s", lambda _: np.r_[np.zeros(239), 7]))
    case("prediction of another width", PREDICT, DATA, "4", "6",
         spoil=dataset("x", lambda x: np.hstack([x, x[:, :2]])))
    case("prediction without inputs", PREDICT + ["--inputs", "z"], DATA, "z", "x")
    case("prediction of a NaN", PREDICT, DATA, "x", "17", spoil=element("x", (17, 2), nan))
    case("evaluation without targets", ["evaluate", "model.h5", "data.h5"], DATA, "y",
         spoil=dataset("y", lambda _: None))


# tables

def tables():
    bad = lambda name, text, *said, code=DATA: case(
        name, IMPORT, code, *said, spoil=write("table.csv", text))
    bad("text for a number in a table", "a,b,c\n1,2,3\n4,five,6\n", "table.csv:3", "b", "five")
    bad("row too short", "a,b,c\n1,2,3\n4,5\n", "table.csv:3", "3")
    bad("row too long", "a,b,c\n1,2,3\n4,5,6,7\n", "table.csv:3")
    bad("column missing", "a,x,c\n1,2,3\n", "b", code=(USAGE, DATA))
    bad("column twice", "a,a,b,c\n1,2,3,4\n", "a")
    bad("empty table", "", "table.csv")
    bad("header only", "a,b,c\n", "table.csv")
    bad("quote that does not end", 'a,b,c\n1,"2,3\n', "table.csv")
    bad("empty input cell", "a,b,c\n1,,3\n", "table.csv:2", "b")
    bad("zero byte in a table", "a,b,c\n1,\0,3\n", "table.csv")
    case("no table", IMPORT, NOINPUT, "table.csv")


# output paths

def outputs():
    case("run directory is a file", train("run.directory=taken"), CANTCREAT, "taken",
         spoil=write("taken", "x"))
    case("run directory below a file", train("run.directory=taken/deep"), CANTCREAT, "taken",
         spoil=write("taken", "x"))
    case("run directory in /proc", train("run.directory=/proc/tutti"), CANTCREAT, "/proc/tutti")
    case("prediction into no directory", PREDICT[:-1] + ["nowhere/p.h5"], CANTCREAT, "nowhere")
    case("prediction onto a directory", PREDICT[:-1] + ["taken"], CANTCREAT, "taken",
         spoil=make_directory("taken"))
    for verb in (PREDICT[:-1], ["explain", *PREDICT[1:-1]], ["evaluate", *PREDICT[1:-1]],
                 ["export", "--c", "model.h5", "--force", "-o"]):
        case(f"{verb[0]} onto a FIFO", verb + ["taken"], CANTCREAT, "taken is a FIFO, not a",
             spoil=make_fifo("taken"))
    case("prediction onto a device", PREDICT[:-1] + ["taken"], CANTCREAT, "taken is a device",
         spoil=make_device("taken"))
    case("table onto a FIFO", IMPORT + ["--force"], CANTCREAT, "table.h5 is a FIFO",
         spoil=write("table.csv", "a,b,c\n1,2,3\n") + make_fifo("table.h5"))
    for name in ("model.h5", "results.h5", "status.json", "config.yaml"):
        case(f"training with {name} as a FIFO", train(), CANTCREAT, f"out/{name} is a FIFO",
             spoil=make_directory("out") + make_fifo(f"out/{name}"))
    case("report with report.html as a FIFO", ["report", ".", "--force"], CANTCREAT,
         "report.html is a FIFO", spoil=make_fifo("report.html"))
    case("prediction onto a link as /dev/stdout is one", PREDICT[:-1] + ["taken"], CANTCREAT,
         "taken is a link to an open file", spoil=link("taken", "/proc/self/fd/1"))
    case("table into no directory", IMPORT[:3] + ["nowhere/t.h5"] + IMPORT[4:], CANTCREAT,
         "nowhere", spoil=write("table.csv", "a,b,c\n1,2,3\n"))
    case("run directory without permission", train("run.directory=locked/out"), CANTCREAT,
         "locked", spoil=make_directory("locked", 0o555), user="nobody")
    case("run directory without permission, two ranks", train("run.directory=locked/out"),
         CANTCREAT, "locked", spoil=make_directory("locked", 0o555), user="nobody", ranks=2)
    case("prediction without permission", PREDICT[:-1] + ["locked/p.h5"], CANTCREAT, "locked",
         spoil=make_directory("locked", 0o555), user="nobody")


# running a case

def listing(folder):
    """Every file below a directory, without those of the launcher and those a failed run may
    leave."""
    found = set()
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith("tmp/") and path.name not in MAY_STAY:
            found.add(name)
    return found


def command_of(c, folder):
    command = h.launch_command(c.ranks, c.args)
    if not c.user or os.getuid() != 0:
        return command
    for path in [folder / "tmp", folder]:
        path.chmod(0o777 if path.name == "tmp" else 0o755)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] + command


def check_case(c, template):
    """The problems as texts, [] if there is none."""
    folder = template.parent / f"case-{CASES.index(c)}"
    shutil.copytree(template, folder)
    for spoil in c.spoil:
        spoil(folder)
    before, command = listing(folder), command_of(c, folder)
    try:
        done = subprocess.run(command, cwd=folder, env=h.environment(folder), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [f"still running after {SECONDS} s"]
    wrong = judge(c, done, listing(folder) - before)
    shutil.rmtree(folder, ignore_errors=True)
    return wrong


def judge(c, done, left):
    codes = c.code if isinstance(c.code, tuple) else (c.code,)
    wrong = [f"'{s}' is not in the message" for s in c.said if s not in done.stderr]
    if done.returncode not in codes:
        wrong.append(f"exit {done.returncode}, not {c.code}")
    lines = len(h.error_lines(done.stderr))
    if lines > 1 or (lines == 0 and done.returncode != USAGE):
        wrong.append(f"{lines} error lines, not 1")
    if left:
        wrong.append(f"left behind: {', '.join(sorted(left))}")
    return wrong + [f"the message was:\n{done.stderr}"] if wrong else []


def can_be_nobody(folder):
    """Root may write everywhere, so these cases run as another user, who must be able to run
    tutti."""
    if os.getuid() != 0:
        return True
    probe = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x", h.TUTTI]
    try:
        return subprocess.run(probe, capture_output=True).returncode == 0
    except OSError:
        return False


def prepare(folder):
    """The directory with which every case starts: job, data, a model and its results."""
    template = folder / "template"
    template.mkdir()
    wanted, _ = h.undisturbed(folder, [EPOCHS], ranks=1)
    (template / "tmp").mkdir()
    for source in (wanted / "model.h5", wanted / "results.h5", folder / "data.h5",
                   folder / "job.yaml"):
        shutil.copy(source, template)
    folder.chmod(0o755)
    return template


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    for part in (keys_and_values, jobs, command_line, files, not_files, ranks_differ,
                 contents, tables, outputs):
        part()
    chosen = [c for c in CASES if args.only in c.name]
    if args.list:
        print("\n".join(c.name for c in chosen))
        sys.exit(0)
    with h.workplace() as folder:
        template = prepare(folder)
        if not can_be_nobody(folder):
            skipped = [c.name for c in chosen if c.user]
            print(f"not run, another user cannot start the program: {', '.join(skipped)}")
            chosen = [c for c in chosen if not c.user]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for c, wrong in zip(chosen, pool.map(lambda c: check_case(c, template), chosen)):
                h.check(not wrong, f"{c.name}: " + "; ".join(wrong))
        h.finish(f"{len(chosen)} cases")


if __name__ == "__main__":
    main()
