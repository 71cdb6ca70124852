#!/usr/bin/python3
"""bench/gpu fails if a race times nothing: here because numpy, which the reference needs, is missing;
and if something has no turn. With --beside, it times two versions of tutti in turn. Its jobs run. A
call with --after repeats nothing. The time is shared as documented, and the page of results is that of
their raw lines.

The calls are rehearsed on the test double: a complete one, one without time, and one that goes on.

    kit_race.py SOURCE BUILD

Control: with numpy the same race passes.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(SOURCE / "bench" / "kit"))
import jobs  # noqa: E402
import kit  # noqa: E402
import record  # noqa: E402


def share_time():
    """A part that uses nothing leaves its share to those after it, by their weights."""
    weights, seconds = [3, 2, 1, 5], [0.0]
    for lazy in range(len(weights)):
        clock, given = kit.Clock(1, now=lambda: seconds[0]), []
        for i, weight in enumerate(weights):
            clock.part(weight, sum(weights[i:]))
            given.append(clock.left())
            seconds[0] += 0 if i == lazy else clock.left()
        scale = 60 / sum(weights)
        more = scale * (1 + weights[lazy] / max(1, sum(weights[lazy + 1:])))
        for i, weight in enumerate(weights):
            share = weight * (scale if i <= lazy else more)
            assert abs(given[i] - share) < 1e-6, (lazy, given)


def compare_pages():
    """record.md, and the table in docs/benchmarks.md, which rounds."""
    folder = SOURCE / "bench" / "results" / "gpu"
    page = record.page(folder)
    assert page == (folder / "record.md").read_text(), "run bench/kit/record.py > record.md"
    races, _ = record.read_all(folder)
    text = (SOURCE / "docs" / "benchmarks.md").read_text().partition("## One H100\n")[2]
    rows = re.findall(r"^\|[^|]* x \([^|]*\| ([\d.]+) \|.* ([\d.]+) \|$", text, re.M)
    assert len(rows) == len(record.WORKLOADS), rows
    for workload, (us, ratio) in zip(record.WORKLOADS, rows):
        _, mine, rival = races[workload, "fp32"]
        assert abs(float(us) / mine.us - 1) < 5e-3, (workload, us, mine.us)
        assert ratio == f"{rival.us / mine.us:.2f}", (workload, ratio, rival.us / mine.us)


def race(place, modules, *more, minutes=90, out="out", device="double"):
    done = subprocess.run(
        [sys.executable, "-B", SOURCE / "bench" / "gpu", "--device", device, "--build", BUILD,
         "--out", place / out, "--parts", "race,versions,jobs", "--workloads", "E", "--repeats", "1",
         "--beside", f"again={BUILD}@E",
         "--seconds", "0.02", "--minutes", str(minutes), *more],
        env={**os.environ, "PYTHONPATH": str(modules), "TUTTI_SELF_CHECK": "0"}, capture_output=True, text=True, timeout=1200)
    return done.returncode, done.stdout + done.stderr


def measurements(folder):
    """What was timed, without the list of other lines."""
    lines = map(json.loads, (folder / "lines.jsonl").read_text().splitlines())
    return [line for line in lines if "round" in line]


def continue_it(place):
    """A call after a complete one measures nothing again, and has the same tables. After one without
    time it does all of it."""
    code, said = race(place, place, minutes=0, out="none")
    left = re.search("^No turn: (.*)", said, re.M)[1]
    assert code == 1 and all(f"job {name} of tutti" in left for name in jobs.JOBS), said
    code, said = race(place, place, "--after", place / "out", out="again")
    assert code == 0 and measurements(place / "again") == measurements(place / "out"), said
    tables = [re.findall(r"^\|.*", (place / name / "summary.md").read_text(), re.M)
              for name in ("out", "again")]
    assert tables[0] == tables[1], tables


def main():
    share_time()
    compare_pages()
    try:
        import numpy  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        code, said = race(place, place)
        assert len(re.findall(r"^\| (?:plain|extras|heads|front|stages) \| -?\d", said, re.M)) >= 5, said
        assert code == 0 and "### E, fp32" in said and "Broken: nothing" in said, said
        for way in ("auto", "warp", "block", "layered", "cluster"):
            assert f"| tutti | {way} |" in said, said
        assert "| cublas | graph |" in said, said
        assert re.search(r"### Versions, us.*\n\n\| \| tutti \| again \| .*\n.*\n\| E \w+ \| \d", said), said
        continue_it(place)
        (place / "numpy.py").write_text("raise ImportError('no numpy here')\n")
        code, said = race(place, place, out="out2", device="cpu")
        assert code == 1 and "Broken: race E fp32: no reference" in said, said
        assert "no numpy here" in (place / "out2" / "log.txt").read_text()
    print("a race without a reference failed, and one without time; a second call repeated nothing")


main()
