#!/usr/bin/python3
"""How busy are the places of an oracle, and what do its labels bring, with campaign.mode
asynchronous beside rounds?

  labels_beside.py run FILE.jsonl [--tutti build/tutti] [--seeds 1-8] [--rounds 5]
  labels_beside.py show FILE.jsonl

The work: 4 inputs, 20 labels at first, 8 places, batch 16, labels of 0.3 to 6 s by id, 5 rounds;
5 members of 4-32-1, 150 epochs, 1,000 test rows, a pool of 3,000. A seed draws the rows and the
weights; both modes run at the same time, so that the load of the machine is the same for both.

busy: the part of the time of the 8 places, from the first call to the beginning of the last
training, in which a call runs. error: at equal numbers of labels, the mean over the curve of the
test RMSE of asynchronous by that of rounds (interpolated, logarithm). `show` prints the means over
the seeds with their standard errors, and exits with 1 if busy is below 0.95 or the error is more
than 5 % above 1.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import h5py
import numpy as np

PLACES, BATCH, FIRST = 8, 16, 20

CAMPAIGN = """\
data: {{file: first.h5, split: {{column: split}}}}
model: {{hidden: [32], activation: tanh}}
ensembles: [{{name: one, target: y0, members: 5}}]
train: {{epochs: 150, learning_rate: 1e-2, batch_size: 10}}
run: {{seed: {seed}, device: cpu, threads: 1}}
campaign: {{mode: {mode}, directory: {mode}}}
pool: {{file: pool.h5}}
select: {{batch: {batch}}}
label: {{command: [./oracle, {mode}, "{{input}}", "{{output}}"], format: csv,
         concurrency: {places}}}
stop: {{rounds: {rounds}}}
"""

ORACLE = r"""
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
static int note(const char *mode, double begin, double end)
{
  char line[256], path[256];
  int n = snprintf(line, sizeof line, "%.6f %.6f\n", begin, end);
  snprintf(path, sizeof path, "%s.log", mode);
  return write(open(path, O_WRONLY | O_APPEND | O_CREAT, 0666), line, n) != n;
}
int main(int argc, char **argv)
{
  double begin = now(), x[4];
  long id;
  char line[256], part[4096];
  FILE *f = fopen(argv[2], "r");
  if (argc != 4 || !f || note(argv[1], begin, 0) || !fgets(line, sizeof line, f) ||
      fscanf(f, "%ld,%lf,%lf,%lf,%lf", &id, x, x + 1, x + 2, x + 3) != 5)
    return 2;
  usleep(1e6 * (0.3 + 5.7 * (id * 7919 % 1009) / 1008));
  snprintf(part, sizeof part, "%s.part", argv[3]);
  f = fopen(part, "w");
  fprintf(f, "id,y0\n%ld,%.17g\n", id,
          sin(3 * x[0]) + exp(-4 * x[1] * x[1]) * x[2] + 0.3 * x[3]);
  fclose(f);
  rename(part, argv[3]);
  return note(argv[1], begin, now());
}
"""


def prepare(folder, seed, rounds):
    draw = np.random.RandomState(seed)

    def rows(count):
        x = draw.uniform(-1, 1, (count, 4))
        y = np.sin(3 * x[:, 0]) + np.exp(-4 * x[:, 1] ** 2) * x[:, 2] + 0.3 * x[:, 3]
        return x, y[:, None]

    with h5py.File(folder / "first.h5", "w") as f:
        f["x"], f["y"] = rows(FIRST + 1000)
        f["split"] = np.repeat([0, 2], [FIRST, 1000]).astype("i1")
    with h5py.File(folder / "pool.h5", "w") as f:
        f["x"] = rows(3000)[0]
    for mode in ("rounds", "asynchronous"):
        (folder / f"{mode}.yaml").write_text(CAMPAIGN.format(
            mode=mode, seed=seed, batch=BATCH, places=PLACES, rounds=rounds))
    (folder / "oracle.c").write_text(ORACLE)
    subprocess.run(["cc", "-O1", "-o", "oracle", "oracle.c", "-lm"], cwd=folder, check=True)


def last_training(directory):
    """When the last round began, in whole seconds before."""
    times = [json.loads(line)["time"] for line in open(directory / "events.jsonl")
             if '"begin"' in line]
    return np.datetime64(times[-1].rstrip("Z")).astype("datetime64[s]").astype(float)


def measure(folder, mode):
    ended = {}  # a call that was killed at the end has no end
    for first, last in np.loadtxt(folder / f"{mode}.log"):
        ended[first] = last or np.inf
    calls = np.array(list(ended.items()))
    begin, end = calls[:, 0].min(), last_training(folder / mode)
    if mode == "rounds":
        end = calls[:, 1].max()
    inside = np.minimum(calls[:, 1], end) - np.minimum(calls[:, 0], end)
    with h5py.File(folder / mode / "campaign.h5") as f:
        labels, rmse = f["labels"][()].tolist(), f["rmse"][()][:, 0].tolist()
        train = f["seconds"][()][:, 0].mean()
    return {"busy": inside.sum() / (end - begin) / PLACES, "seconds": end - begin,
            "labels": labels, "rmse": rmse, "train_s": train}


def run(args):
    first, _, last = args.seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            prepare(folder, seed, args.rounds)
            tutti = os.path.abspath(args.tutti)
            running = [subprocess.Popen([tutti, "campaign", "run", f"{mode}.yaml", "-q"],
                                        cwd=folder) for mode in ("rounds", "asynchronous")]
            if any(process.wait() for process in running):
                sys.exit("a campaign failed")
            record = {mode: measure(folder, mode) for mode in ("rounds", "asynchronous")}
        record.update(seed=seed, cpu=platform.processor() or platform.machine(),
                      cores=os.cpu_count(), load=os.getloadavg()[0])
        with open(args.file, "a") as f:
            f.write(json.dumps(record) + "\n")


def error_ratio(record):
    a, b = record["asynchronous"], record["rounds"]
    low, high = max(a["labels"][1], b["labels"][1]), min(a["labels"][-1], b["labels"][-1])
    at = np.linspace(low, high, 50)
    curve = [np.interp(at, c["labels"], np.log(c["rmse"])) for c in (a, b)]
    return np.exp(np.mean(curve[0] - curve[1]))


def show(args):
    records = [json.loads(line) for line in open(args.file)]

    def mean(values):
        return np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))

    busy = {mode: mean([r[mode]["busy"] for r in records]) for mode in ("rounds", "asynchronous")}
    ratio = mean([error_ratio(r) for r in records])
    for mode, (value, error) in busy.items():
        speed = mean([len(r[mode]["labels"]) and (r[mode]["labels"][-1] - FIRST) * 60
                      / r[mode]["seconds"] for r in records])
        print(f"{mode:13} busy {value:.3f} +- {error:.3f}, labels a minute {speed[0]:.0f}")
    print(f"error at equal labels: {ratio[0]:.3f} +- {ratio[1]:.3f} of rounds, {len(records)} seeds")
    sys.exit(busy["asynchronous"][0] < 0.95 or ratio[0] > 1.05)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("file")
    parser.add_argument("--tutti", default="build/tutti")
    parser.add_argument("--seeds", default="1-8")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    {"run": run, "show": show}[args.what](args)


if __name__ == "__main__":
    main()
