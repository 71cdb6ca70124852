#!/usr/bin/python3
"""How many labels does a simulation save that explores with the model?

  exploration.py run FILE.tsv CLUSTER [--tutti build/tutti] [--seeds 1-5] [--labels 400]
  exploration.py show FILE.tsv

The campaign of examples/exploration, whose program CLUSTER was compiled there, three times for each
seed, which draws the first rows, the test trajectory, the simulations and the weights:
explore  as it is: the members choose from trajectories of the model
chance   random frames of such trajectories
shaken   random rows of a fixed pool: 2,000 icosahedra whose atoms were moved by a normal deviate of
         standard deviation 0 to 0.2, without overlaps
`show` prints the test RMSE of each, geometric means over the seeds, and the labels after which
explore has the error that the others have at the end.
"""
import argparse
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROUND = re.compile(r"round (\d+): (\d+) labels, test rmse (\S+);")
RANDOM = ["--set", "score.acquisition=random", "--set", "select.method=top"]
MORE = {"explore": [], "chance": RANDOM, "shaken": RANDOM}


def write_shaken_pool(path, seed):
    golden, rng, rows = (1 + 5**0.5) / 2, np.random.default_rng(seed), []
    side = 1.082 / math.sqrt(1 + golden**2)
    flat = np.array([(s, t * golden, 0) for s in (-side, side) for t in (-side, side)])
    atoms = np.vstack([np.roll(flat, axis, axis=1) for axis in range(3)] + [np.zeros((1, 3))])
    first, second = np.triu_indices(13, 1)
    while len(rows) < 2000:
        at = atoms + rng.uniform(0, 0.2) * rng.standard_normal(atoms.shape)
        d = np.sort(np.linalg.norm(at[first] - at[second], axis=1))
        if d[0] >= 0.8:
            rows.append(1 / d)
    head = ",".join(f"u{i}" for i in range(len(first)))
    np.savetxt(path, rows, "%.9g", ",", header=head, comments="")


def run_campaign(o, seed, arm, folder):
    shutil.copy(o.cluster, folder / "cluster")
    text = (pathlib.Path(__file__).parents[2] / "examples/exploration/campaign.yaml").read_text()
    if arm == "shaken":
        write_shaken_pool(folder / "pool.csv", seed)
        text = re.sub(r"pool: #.*?\n\n", "pool: {file: pool.csv, inputs: 'u*'}\n\n", text, flags=re.S)
    (folder / "campaign.yaml").write_text(text.replace("tutti import", f"{o.tutti} import"))
    subprocess.run(["./cluster", "first", "first.csv", str(seed)], cwd=folder, check=True)
    done = subprocess.run([o.tutti, "campaign", "run", "campaign.yaml", "--set", f"run.seed={seed}", "--set",
                           f"stop.labels={o.labels}", *MORE[arm]], cwd=folder, text=True, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(done.stderr)
    return [(int(labels), float(rmse)) for _, labels, rmse in ROUND.findall(done.stderr)]


def run(o):
    first, last = (int(s) for s in o.seeds.split("-"))
    o.tutti = str(pathlib.Path(o.tutti).resolve())
    with open(o.file, "w") as out:
        print("arm\tseed\tlabels\trmse", file=out)
        for seed in range(first, last + 1):
            for arm in MORE:
                with tempfile.TemporaryDirectory() as folder:
                    for labels, rmse in run_campaign(o, seed, arm, pathlib.Path(folder)):
                        print(arm, seed, labels, rmse, sep="\t", file=out, flush=True)


def show(o):
    table = {}
    for line in pathlib.Path(o.file).read_text().splitlines()[1:]:
        arm, _, labels, rmse = line.split("\t")
        table.setdefault(arm, {}).setdefault(int(labels), []).append(float(rmse))
    mean = {arm: {n: np.exp(np.mean(np.log(r))) for n, r in row.items()} for arm, row in table.items()}
    print("labels  " + "  ".join(f"{arm:>8}" for arm in mean))
    for n in mean["explore"]:
        print(f"{n:6}  " + "  ".join(f"{mean[arm][n]:8.3f}" for arm in mean))
    for arm in ("chance", "shaken"):
        last = max(mean[arm])
        enough = min(n for n, rmse in mean["explore"].items() if rmse <= mean[arm][last])
        print(f"explore has the error of {arm} with {last} labels at {enough}")


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("what", choices=("run", "show"))
p.add_argument("file")
p.add_argument("cluster", nargs="?")
p.add_argument("--tutti", default="build/tutti")
p.add_argument("--seeds", default="1-5")
p.add_argument("--labels", type=int, default=400)
options = p.parse_args()
run(options) if options.what == "run" else show(options)
