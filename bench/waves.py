#!/usr/bin/python3
"""A job of ten times the memory that run.memory allows: time and memory, beside the sum of its waves.

  waves.py [--tutti build/tutti] [--members 6000] [--epochs 30] [--repeats 3] [--together] [-o FILE.jsonl]

Members 8-64-64-1 with Adam on one rank. Three runs, one after the other, several times: all members at
once; in waves, with a tenth of that memory; and every wave as a job of its own. Prints seconds of
processor time (user + system) and of the clock, and the largest anonymous memory of the process
(RssAnon, looked at every 20 ms): pages of files are not in it, because the kernel may drop them. The
weights of all three must be equal. With --together the ensemble stops as a whole (train.early_stopping:
ensemble), so that its waves take turns, and no wave is a job of its own. Exit 1 if weights are not equal, or
if the waves need more memory than they may.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROWS, INPUTS = 1000, 8


def write_job(folder, name, first, members, args):
    stop = f", early_stopping: ensemble, patience: {args.epochs}" if args.together else ""
    (folder / f"{name}.yaml").write_text(
        "data: {file: data.h5, split: {train: 0.8, validation: 0.1, test: 0.1}}\n"
        f"ensembles: [{{name: only, members: {members}, first_member: {first}}}]\n"
        f"train: {{loss: mse, batch_size: 32, epochs: {args.epochs}{stop}}}\n"
        "run: {device: cpu, threads: 1, directory: none}\n")


def anonymous_bytes(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", text, re.M)
    return 1024 * int(found[1]) if found else 0


def train(args, folder, job, out, *settings):
    """Seconds of the processor and of the clock, largest anonymous memory, standard error."""
    sets = [word for s in (f"run.directory={out}", *settings) for word in ("--set", s)]
    before = time.monotonic()
    with open(folder / "log", "w+") as log:
        child = subprocess.Popen([args.tutti, "train", f"{job}.yaml", "--resume", "never", *sets], cwd=folder,
                                 env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.DEVNULL,
                                 stderr=log)
        most = 0
        while True:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            most = max(most, anonymous_bytes(child.pid))
            time.sleep(0.02)
        log.seek(0)
        text = log.read()
    if status:
        sys.exit(f"{job}: status {status}\n{text}")
    return used.ru_utime + used.ru_stime, time.monotonic() - before, most, text


def weights(path):
    with h5py.File(path) as f:
        return {"weights": f["net/parameters"][()].reshape(len(f["net/first_parameter"]), -1)}


def check_equal(folder, slices):
    whole, waves = weights(folder / "at-once/model.h5"), weights(folder / "waves/model.h5")
    for name, value in whole.items():
        if value.tobytes() != waves[name].tobytes():
            return f"{name} differs in waves"
        for k, (first, count) in enumerate(slices):
            alone = weights(folder / f"wave-{k}/model.h5")[name]
            if value[first:first + count].tobytes() != alone.tobytes():
                return f"{name} of wave {k} differs from a job of its own"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default="build/tutti", type=os.path.abspath)
    parser.add_argument("--members", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("-o", "--output", type=os.path.abspath)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as place:
        folder = pathlib.Path(place).resolve()
        draw = np.random.default_rng(1)
        with h5py.File(folder / "data.h5", "w") as f:
            x = draw.normal(size=(ROWS, INPUTS)).astype("f4")
            f["x"], f["y"] = x, np.sin(x.sum(1)) + 0.1 * draw.normal(size=ROWS)
        write_job(folder, "job", 0, args.members, args)
        plan = [args.tutti, "plan", "job.yaml", "--json"]
        need = json.loads(subprocess.run(plan, cwd=folder, check=True, capture_output=True).stdout)
        allowed = need["memory_of_rank"]["peak"] / 10
        memory = f"run.memory={allowed:.0f}B"
        found = json.loads(subprocess.run([*plan, "--set", memory], cwd=folder, check=True,
                                          capture_output=True).stdout)
        wave = found["waves"]["members"]
        starts = [] if args.together else range(0, args.members, wave)
        slices = [(first, min(wave, args.members - first)) for first in starts]
        for k, (first, count) in enumerate(slices):
            write_job(folder, f"wave-{k}", first, count, args)
        lines, bad = [], None
        for repeat in range(args.repeats):
            once = train(args, folder, "job", "at-once")
            waves = train(args, folder, "job", "waves", memory)
            alone = [train(args, folder, f"wave-{k}", f"wave-{k}") for k in range(len(slices))]
            bad = bad or check_equal(folder, slices)
            if waves[2] > allowed:
                bad = f"waves took {waves[2] / 2**20:.1f} MiB"
            lines.append({
                "members": args.members, "epochs": args.epochs, "together": args.together,
                "waves": found["waves"]["waves"], "wave_members": wave,
                "peak_planned_at_once": need["memory_of_rank"]["peak"], "allowed": allowed,
                "stored": found["memory_of_rank"]["stored"], "load": os.getloadavg()[0],
                "cpu_at_once": once[0], "cpu_waves": waves[0], "cpu_sum_of_waves": sum(a[0] for a in alone),
                "seconds_at_once": once[1], "seconds_waves": waves[1],
                "seconds_sum_of_waves": sum(a[1] for a in alone),
                "anonymous_at_once": once[2], "anonymous_waves": waves[2]})
            print(json.dumps(lines[-1]), flush=True)
    for of in ("at_once",) if args.together else ("at_once", "sum_of_waves"):
        ratio = sorted(line["cpu_waves"] / line[f"cpu_{of}"] for line in lines)[len(lines) // 2]
        print(f"processor time of the waves: {ratio:.3f} of {of.replace('_', ' ')} (median)")
    if args.output:
        pathlib.Path(args.output).write_text("".join(json.dumps(line) + "\n" for line in lines))
    if bad:
        sys.exit(bad)


if __name__ == "__main__":
    main()
