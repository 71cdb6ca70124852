"""case.py: shared by the programs of this folder: the case, the check against the reference losses,
the timing, and the commands.

A case is a folder that `bench_engine --export` wrote and reference.py completed. A program gives
main() its ways: functions that take (case, precision, settings) and return a Contender, or raise
Refused. It is timed only after its losses have agreed with the reference for all steps of the case.

  PROGRAM --case DIR --way NAME [--precision NAME] [--repeats N] [--seconds S] [--check]
  PROGRAM --serve         commands as bench_engine --serve reads them: list, prepare, time, drop
"""
import argparse
import gc
import json
import pathlib
import statistics
import sys
import time

import numpy as np

TOLERANCE = {"fp32": 1e-5, "tf32": 5e-4}
SHORTEST_CALL = 0.1  # seconds between two clock readings, so that their cost is negligible


class Refused(Exception):
    """This way cannot run here; the text gives the reason."""


class Case:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        with open(self.folder / "case.json", encoding="utf-8") as f:
            self.__dict__.update(json.load(f))
        self.x = self.read("x.f4", "<f4").reshape(self.rows, self.widths[0])
        self.y = self.read("y.f4", "<f4").reshape(self.rows, self.targets)

    def read(self, name, kind):
        return np.fromfile(self.folder / name, dtype=kind)

    def weights(self):
        """[W1 (M, out, in), b1 (M, out), W2, ...] before the first step."""
        flat = self.read("weights.f4", "<f4").reshape(self.members, self.params)
        out = []
        for i, (n_in, n_out) in enumerate(zip(self.widths, self.widths[1:])):
            w, b = self.weight_at[i], self.bias_at[i]
            out.append(flat[:, w : w + n_in * n_out].reshape(self.members, n_out, n_in).copy())
            out.append(flat[:, b : b + n_out].copy())
        return out

    def order(self):
        """Rows of every step (steps, M, B)."""
        flat = self.read("order.i4", "<i4").reshape(self.members, self.steps, self.batch)
        return np.ascontiguousarray(flat.transpose(1, 0, 2))

    def reference(self):
        return self.read("reference.f8", "<f8").reshape(len(self.checked), self.steps)


class Contender:
    """One prepared way. A unit is the smallest part that runs at once."""

    member_steps_per_unit = 0  # optimizer steps of single members

    def losses(self):
        """Take the first steps of the case: losses (checked, steps)."""
        raise NotImplementedError

    def units(self, count):
        """Run units and wait for them."""
        raise NotImplementedError

    def memory(self):
        """Bytes used on the device; None if unknown."""
        return None


def difference(case, losses):
    """Largest difference, relative to the largest loss."""
    want = case.reference()
    gap = np.abs(np.asarray(losses, dtype=np.float64) - want)
    return float(np.nan_to_num(gap, nan=np.inf).max() / np.abs(want).max())


class Timed:
    """A contender that agrees with the reference and is warmed up."""

    def __init__(self, case, make, precision, settings):
        begin = time.perf_counter()
        self.case, self.precision = case, precision
        self.it = make(case, precision, settings)
        self.gap = difference(case, self.it.losses())
        if not self.gap <= TOLERANCE[precision]:
            raise Refused(f"losses of {case.steps} steps differ from the reference by "
                          f"{self.gap:.3g}, more than {TOLERANCE[precision]:g}: wrong "
                          "results, not timed")
        self.prepare_s = time.perf_counter() - begin
        self.warm_up()

    def warm_up(self):
        first, self.count = time.perf_counter(), 1
        while True:
            begin = time.perf_counter()
            self.it.units(self.count)
            if time.perf_counter() - begin > SHORTEST_CALL:
                break
            self.count *= 2
        self.warm_up_s = time.perf_counter() - first

    def time(self, seconds):
        """Steps of the whole ensemble, and the seconds they took."""
        if hasattr(self.it, "rate"):  # it measures the time itself
            return self.it.rate(seconds) * seconds / self.case.members, seconds
        gc.collect()
        gc.disable()
        units, begin = 0, time.perf_counter()
        while units == 0 or time.perf_counter() - begin < seconds:
            self.it.units(self.count)
            units += self.count
        taken = time.perf_counter() - begin
        gc.enable()
        return units * self.it.member_steps_per_unit / self.case.members, taken

    def facts(self):
        return {"check_difference": self.gap, "check_tolerance": TOLERANCE[self.precision],
                "check_steps": self.case.steps, "bytes": self.it.memory(),
                "prepare_s": self.prepare_s, "warm_up_s": self.warm_up_s}


def summary(times, case):
    """The fields of bench_engine for repetitions; times are (steps, seconds)."""
    us = sorted(1e6 * seconds / steps for steps, seconds in times)
    median = statistics.median(us)
    return {"us_per_step": median, "us_min": us[0], "us_max": us[-1], "repeats": len(us),
            "member_steps_per_s": 1e6 * case.members / median,
            "gflops": 1e-3 * case.flops / median, "seconds": sum(s for _, s in times)}


class Program:
    def __init__(self, name, ways, settings, facts):
        self.name, self.ways, self.settings, self.general = name, ways, settings, facts
        self.held, self.case = {}, None

    def head(self, way, precision):
        case = self.case
        return {"program": self.name, "workload": case.workload, "way": way,
                "precision": precision, "members": case.members, "widths": case.widths,
                "batch": case.batch, **self.general}

    def prepare(self, folder, way, precision):
        """The output line; the contender is stored under (way, precision) if it was not refused."""
        if self.case is None or str(self.case.folder) != folder:
            self.drop()
            self.case = Case(folder)
        if any(held != precision for _, held in self.held):
            self.drop()  # libraries have one precision setting for all operations
        line = self.head(way, precision)
        try:
            if way not in self.ways:
                raise Refused(f"there is no way '{way}'")
            if precision not in TOLERANCE:
                raise Refused(f"there is no precision '{precision}'")
            timed = Timed(self.case, self.ways[way], precision, self.settings)
        except Refused as why:
            return {**line, "refused": str(why)}
        except Exception as fault:  # an error of one library must not end the others
            return {**line, "refused": f"{type(fault).__name__}: {str(fault)[:400]}"}
        self.held[way, precision] = timed
        return {**line, **timed.facts()}

    def drop(self):
        self.held.clear()
        gc.collect()
        if "release" in self.settings:
            self.settings["release"]()
        return {}

    def obey(self, words):
        if words[0] == "list":
            return {"ways": list(self.ways), "precisions": list(TOLERANCE)}
        if words[0] == "prepare":
            return self.prepare(*words[1:])
        if words[0] == "time":
            steps, seconds = self.held[words[1], words[2]].time(float(words[3]))
            return {"steps": steps, "seconds": seconds}
        return self.drop() if words[0] == "drop" else {"error": f"unknown command {words[0]}"}

    def serve(self):
        for line in sys.stdin:
            try:
                answer = self.obey(line.split())
            except Exception as fault:
                answer = {"error": f"{type(fault).__name__}: {str(fault)[:400]}"}
            print(json.dumps(answer), flush=True)

    def once(self, args):
        line = self.prepare(str(args.case), args.way, args.precision)
        timed = self.held.get((args.way, args.precision))
        if timed and not args.check:
            each = args.seconds / args.repeats
            line.update(summary([timed.time(each) for _ in range(args.repeats)], self.case))
        print(json.dumps(line))


def arguments(doc, **more):
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", type=pathlib.Path)
    parser.add_argument("--way")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--check", action="store_true", help="compare, time nothing")
    parser.add_argument("--serve", action="store_true")
    for name, settings in more.items():
        parser.add_argument(f"--{name}", **settings)
    args = parser.parse_args()
    if not args.serve and not (args.case and args.way):
        parser.error("--case and --way, or --serve")
    return args


def main(program, args):
    """program is a Program."""
    if args.serve:
        program.serve()
    else:
        program.once(args)
