#!/usr/bin/python3
"""bench/gpu fails if a race times nothing: here because numpy, which the reference needs, is missing.
With --beside, it times two versions of tutti in turn. Its jobs run.

    kit_race.py SOURCE BUILD

Control: with numpy the same race passes.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:])
try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def race(place, modules):
    done = subprocess.run(
        [sys.executable, "-B", SOURCE / "bench" / "gpu", "--device", "cpu", "--build", BUILD,
         "--out", place / "out", "--parts", "race,versions,jobs", "--workloads", "E", "--repeats", "1",
         "--beside", f"again={BUILD}@E",
         "--seconds", "0.02", "--minutes", "20"],
        env={**os.environ, "PYTHONPATH": str(modules)}, capture_output=True, text=True, timeout=280)
    return done.returncode, done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        code, said = race(place, place)
        assert len(re.findall(r"^\| (?:plain|extras|heads|front|stages) \| -?\d", said, re.M)) >= 5, said
        assert code == 0 and "### E, fp32" in said and "Broken: nothing" in said, said
        assert re.search(r"### Versions, us.*\n\n\| \| tutti \| again \| .*\n.*\n\| E \w+ \| \d", said), said
        (place / "numpy.py").write_text("raise ImportError('no numpy here')\n")
        code, said = race(place, place)
        assert code == 1 and "Broken: race E fp32: no reference" in said, said
        assert "no numpy here" in (place / "out" / "log.txt").read_text()
    print("a race without a reference failed")


main()
