"""kit.py: what bench/gpu is made of: the time budget of a run, the programs that are timed in turn,
facts of the device, and the tables at the end."""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# TFLOP/s of the whole chip, dense: H100 and H200 (SXM) at 1.98 GHz.
HOPPER_ROOF = {"fp32": 66.9, "tf32": 494.7}
DEVICE_QUERY = ("name,uuid,driver_version,memory.total,compute_cap,clocks.sm,clocks.mem,"
                "clocks.max.sm,power.draw,power.limit,temperature.gpu,mig.mode.current")
STATE_QUERY = "clocks.sm,power.draw,temperature.gpu,utilization.gpu"


class Out:
    """All results, as lines of JSON in a file and as text; after those of earlier calls."""

    def __init__(self, folder, earlier=""):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lines = open(self.folder / "lines.jsonl", "w", encoding="utf-8")
        self.lines.write(earlier)
        self.log = open(self.folder / "log.txt", "w", encoding="utf-8")

    def line(self, **what):
        self.lines.write(json.dumps(what) + "\n")
        self.lines.flush()

    def say(self, text):
        print(text, flush=True)
        self.log.write(text + "\n")
        self.log.flush()

    def keep(self, text):
        """For the log alone."""
        self.log.write(text + "\n")
        self.log.flush()


class Clock:
    """The time of the whole run, and of the part that is running. `now`: seconds."""

    def __init__(self, minutes, now=time.monotonic):
        self.now, self.begin = now, now()
        self.end = self.part_end = self.begin + 60 * minutes

    def passed(self):
        return self.now() - self.begin

    def part(self, weight, weights_left):
        """Start a part. It may use its share, by weight, of the time that is left: a part that ends
        early leaves more to those after it. `weights_left`: the sum for this part and those."""
        now = self.now()
        self.part_end = now + (self.end - now) * weight / weights_left

    def left(self):
        return self.part_end - self.now()


# Programs on the test double, below build/tests, and the names of the programs that run.
ON_DOUBLE = {"tutti": "double/tutti_on_double", "laws": "laws_on_double",
             "short_run": "double_tests", "bench_engine": "double/bench_engine_on_double",
             "cublas_graph": "double/cublas_graph_on_double"}
NAMES = {}


def program(name, build, pack=ROOT):
    """Absolute path of a program: in a pack, or in a build folder."""
    name = NAMES.get(name, name)
    build, pack = pathlib.Path(build).absolute(), pathlib.Path(pack).absolute()
    for folder in (pack / "bin", build, build / "tests", build / "bench"):
        if os.access(folder / name, os.X_OK) and (folder / name).is_file():
            return str(folder / name)
    return None


def version(pair):
    """NAME=DIR[@A,B]: (NAME, (DIR, the workloads or None))."""
    name, place = pair.split("=", 1)
    place, _, workloads = place.partition("@")
    return name, (place, workloads.split(",") if workloads else None)


def packed_versions():
    """The other versions of a pack, as version() gives them; a folder is NAME or NAME@WORKLOADS."""
    found = {}
    for place in sorted((ROOT / "versions").glob("*")):
        name, _, workloads = place.name.partition("@")
        found[name] = (str(place), workloads.split(",") if workloads else None)
    return found


def take_environment():
    """The environment after env.sh of a pack, for the programs of the pack. Returns the one before,
    for PyTorch and JAX."""
    before = dict(os.environ)
    script = ROOT / "env.sh"
    if script.exists():
        said = subprocess.run(["bash", "-c", '. "$1" && env -0', "bash", str(script)],
                              capture_output=True, check=True).stdout.decode()
        os.environ.update(part.split("=", 1) for part in said.split("\0") if "=" in part)
    os.environ.update(TUTTI_TEST_DATA=str(ROOT / "tests" / "data"),
                      OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return before


def query(fields):
    """{field: text} of the first GPU; {} without a GPU."""
    if not shutil.which("nvidia-smi"):
        return {}
    done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
                          capture_output=True, text=True)
    first = done.stdout.strip().splitlines()[:1]
    if done.returncode or not first:
        return {}
    return dict(zip(fields.split(","), (word.strip() for word in first[0].split(","))))


def run(command, seconds, env=None, folder=None):
    """Exit status (None: killed after `seconds`, with all its children) and output."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", env={**os.environ, **(env or {})},
                               start_new_session=True, cwd=folder)
    try:
        said, _ = process.communicate(timeout=max(1, seconds))
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


NCU_SECTIONS = ("SpeedOfLight", "SchedulerStats", "WarpStateStats", "InstructionStats",
                "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "SourceCounters")


def find_ncu():
    """Nsight Compute, in PATH or where NVIDIA installs it; None if there is none."""
    places = sorted(pathlib.Path("/opt/nvidia/nsight-compute").glob("*/ncu"))
    return shutil.which("ncu") or (str(places[-1]) if places else None)


# Of a path with one kernel: a launch after those of single steps. Of the layered path: about two
# steps.
FUSED = ("--kernel-name", "regex:_train", "--launch-skip", "54", "--launch-count", "1")
LAYERED = ("--launch-skip", "1300", "--launch-count", "40")


def profile(ncu, target, base, seconds):
    """Write base.txt and base.csv: the report on kernels of a training step. Returns why there is
    none, or "". The clocks stay as they are."""
    report = pathlib.Path(f"{base}.ncu-rep")
    sections = [word for section in NCU_SECTIONS for word in ("--section", section)]
    for which in (FUSED, LAYERED):
        code, said = run([ncu, "--clock-control", "none", "--graph-profiling", "node", "-f", "-o",
                          str(base), *sections, *which, *target], seconds)
        if report.exists():
            break
    else:
        return (said.strip().splitlines() or [f"exit status {code}"])[-1]
    for page, suffix in ((("details",), "txt"), (("source", "--csv"), "csv")):
        _, text = run([ncu, "--import", str(report), "--page", *page], 60)
        pathlib.Path(f"{base}.{suffix}").write_text(text)
    report.unlink()
    return ""


class Server:
    """A program that is timed: it reads commands and answers each with one line of JSON."""

    def __init__(self, name, command, out, env=None):
        self.name, self.command, self.out, self.env = name, command, out, env
        self.process, self.rest = None, b""

    def start(self):
        self.rest = b""
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.out.log, bufsize=0,
                                        env=self.env)

    def stop(self):
        if self.process:
            self.process.stdin.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.process = None

    def ask(self, command, seconds):
        """The answer; {"error": why} if there is none in time, and then the program is killed."""
        if not self.process:
            self.start()
        try:
            self.process.stdin.write((command + "\n").encode())
            return json.loads(self.read_line(time.monotonic() + seconds))
        except (OSError, EOFError, ValueError) as fault:
            self.process.kill()
            self.stop()
            return {"error": str(fault) or "it has ended; see log.txt"}

    def read_line(self, end):
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise OSError("no answer in time")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise EOFError
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line


class Result:
    """Median and extremes of the repetitions of one way, in microseconds per ensemble step."""

    def __init__(self, head, times):
        us = sorted(1e6 * seconds / steps for steps, seconds in times)
        self.head, self.repeats = head, len(us)
        self.us, self.least, self.most = statistics.median(us), us[0], us[-1]


class Run:
    """What the lines of a run say. tests: those that passed; heads: {(program, workload, way,
    precision): line} of what computed as the reference; heats: [(line at the end, [Result])];
    jobs: {(program, job): [us]}; done: other parts."""

    def __init__(self, machine):
        self.machine, self.tests, self.heads, self.heats = machine, set(), {}, []
        self.jobs, self.done, self.times = {}, set(), {}

    def read(self, line):
        program, key = line.get("program"), tuple(line.get(word) for word in KEY)
        if program == "test" and line["result"] == "passed":
            self.tests.add(line["test"])
        elif program == "device" and line["when"] == "before":
            self.times = {}
        elif program == "device":
            self.heats.append((line, [Result(self.heads[key], times)
                                      for key, times in self.times.items() if key in self.heads]))
        elif program == "profile":
            self.done.add(line["workload"])
        elif line.get("job") and line["us"] is not None:
            self.jobs.setdefault((program, line["job"]), []).append(line["us"])
        elif "check_difference" in line:
            self.heads[key] = line
        elif "round" in line and "steps" in line:
            self.times.setdefault(key, []).append((line["steps"], line["seconds"]))


KEY = ("program", "workload", "way", "precision")


def whole_lines(path):
    """The text of a file, without a last line that was not written to its end."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return text[:text.rfind("\n") + 1]


def read_runs(text):
    """The runs in lines of JSON; those of several calls follow each other."""
    runs = []
    for line in map(json.loads, text.splitlines()):
        if line.get("program") == "machine":
            runs.append(Run(line))
        else:
            runs[-1].read(line)
    return runs


def flops(head):
    """Of the matrix products of one step of the ensemble; the first layer has no input gradient."""
    widths = head["widths"]
    weights = sum(a * b for a, b in zip(widths, widths[1:]))
    return 2 * head["batch"] * (3 * weights - widths[0] * widths[1]) * head["members"]


RIVALS = ("torch", "jax", "cublas")


def rival(results):
    """The fastest other program, for the ratios; None if there is none."""
    return min((r for r in results if r.head["program"] in RIVALS), key=lambda r: r.us, default=None)


def table(workload, precision, results, roofs):
    """Markdown; one table per precision."""
    lines = [f"### {workload}, {precision}", "",
             "| program | way | us per step (min to max) | member-steps/s | GFLOP/s | % of roof | "
             "MiB | warm-up s | against the best rival |", "|" + "---|" * 9]
    best, roof = rival(results), roofs.get(precision)
    for r in sorted(results, key=lambda r: r.us):
        rate, head = flops(r.head) / r.us * 1e-3, r.head
        part = f"{rate / roof / 10:.1f}" if roof else "-"
        size = f"{head['bytes'] / 2**20:.0f}" if head.get("bytes") else "-"
        warm = head.get("prepare_s", 0) + head.get("warm_up_s", 0)
        ratio = f"{best.us / r.us:.2f}" if best else "-"
        lines.append(f"| {head['program']} | {head['way']} | {r.us:.2f} ({r.least:.2f} to "
                     f"{r.most:.2f}) | {1e6 * head['members'] / r.us:.4g} | {rate:.1f} | {part} | "
                     f"{size} | {warm:.1f} | {ratio} |")
    return "\n".join(lines)


# "| A | block | fp32 | 9 to 12 |" in NOTES.md; rivals: "| A | torch vmap_graph | fp32 | 60 to 100 |"
PREDICTION = re.compile(r"^\| (\w+) \| (?:(torch|jax|cublas) )?(\w+)[^|]* \| (fp32|tf32) \| "
                        r"([\d.]+) to ([\d.]+)", re.M)


def read_predictions():
    """Rows of NOTES.md: (workload, program, way, precision, least, most)."""
    text = (ROOT / "bench" / "NOTES.md").read_text()
    return [(workload, program or "tutti", way, precision, float(least), float(most))
            for workload, program, way, precision, least, most in PREDICTION.findall(text)]


def compare_predictions(predictions, results):
    """Markdown: predicted, measured and their ratio, measured / nearest end of the range."""
    measured = {(r.head["workload"], r.head["program"], r.head["way"], r.head["precision"]): r.us
                for r in results}
    lines = ["### Predictions, us per step of the ensemble", "",
             "| workload | program | way | precision | predicted | measured | ratio |",
             "|" + "---|" * 7]
    for *key, least, most in predictions:
        us = measured.get(tuple(key))
        ratio = "-" if us is None else f"{us / min(max(us, least), most):.2f}"
        lines.append(f"| {' | '.join(key)} | {least:g} to {most:g} | "
                     f"{'not measured' if us is None else f'{us:.2f}'} | {ratio} |")
    return "\n".join(lines)
