#!/usr/bin/env python3
"""record.py: what bench/gpu has measured on hardware, as one page of Markdown: the time of tutti in
each workload beside the fastest other program, and where each path computed what the reference
computes.

  bench/kit/record.py [FOLDER]    reads FOLDER/*-kit.jsonl, by default bench/results/gpu

A later file replaces the figures of an earlier one. The verdict is `ahead` or `behind` only if all
repetitions of one program are faster than all of the other.
"""
import pathlib
import re
import sys

import kit

WORKLOADS = ("A", "B", "C", "D", "E", "U1", "U2", "U3")


def read_all(folder):
    """The last race of each workload and precision, {path, precision: {workload: the last run}}."""
    races, paths = {}, {}
    for path in sorted(folder.glob("*-kit.jsonl")):
        for run in kit.read_runs(kit.whole_lines(path)):
            name = run.machine["device"]["name"].removeprefix("NVIDIA ")
            place = f"{name}, {path.name[:10]}"
            commit = re.search(r"\b(?:[\w.]+-g)?([0-9a-f]{7,})", run.machine["packed"] or "")
            for program, workload, way, precision in run.heads:
                if program == "tutti" and way != "auto":
                    paths.setdefault((way, precision), {})[workload] = (
                        f"{place}, {commit[1]}" if commit else place)
            for _, found in run.heats:
                rival = kit.rival(found)
                for r in found:
                    if rival and (r.head["program"], r.head["way"]) == ("tutti", "auto"):
                        races[r.head["workload"], r.head["precision"]] = (place, r, rival)
    return races, paths


def verdict(mine, rival):
    if mine.most < rival.least:
        return "ahead"
    return "behind" if mine.least > rival.most else "equal"


def page(folder):
    races, paths = read_all(folder)
    lines = ["# What was measured on GPUs", "",
             "Made by `bench/kit/record.py` from the raw lines in this folder. Microseconds for one step "
             "of the whole ensemble, median (min to max).", "",
             "| workload | precision | GPU, date | tutti | fastest other program | ratio | verdict |",
             "|" + "---|" * 7]
    for precision in kit.HOPPER_ROOF:
        for workload in WORKLOADS:
            if (workload, precision) not in races:
                lines.append(f"| {workload} | {precision} | not measured | | | | |")
                continue
            place, mine, rival = races[workload, precision]
            name = f"{rival.head['program']} {rival.head['way']}"
            lines.append(f"| {workload} | {precision} | {place} | {cell(mine)} | {name} "
                         f"{cell(rival)} | {rival.us / mine.us:.2f} | {verdict(mine, rival)} |")
    lines += ["", "Paths whose losses of 50 steps were those of the reference, in float64:", "",
              "| path | precision | workloads: GPU, date, commit |", "|---|---|---|"]
    for way, precision in sorted(key for key in paths if key[1] in kit.HOPPER_ROOF):
        found = {}
        for workload, place in sorted(paths[way, precision].items()):
            found.setdefault(place, []).append(workload)
        text = "; ".join(f"{' '.join(names)}: {place}" for place, names in found.items())
        lines.append(f"| {way} | {precision} | {text} |")
    return "\n".join(lines) + "\n"


def cell(result):
    return f"{result.us:.2f} ({result.least:.2f} to {result.most:.2f})"


if __name__ == "__main__":
    print(page(pathlib.Path(sys.argv[1]) if sys.argv[1:] else kit.ROOT / "bench" / "results" / "gpu"),
          end="")
