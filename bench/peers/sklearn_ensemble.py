#!/usr/bin/python3
"""The example data sets: an ensemble of tutti beside one of scikit-learn or PyTorch, on the same rows.

  sklearn_ensemble.py FILE.tsv [--peer sklearn|torch|none] [--tutti build/tutti] [--seeds 1-3] [--sets a,b]
                      [--examples] [--loss mse] [--kfold]

5 members each; rows split 0.8, 0.1, 0.1 at random by the seed. tutti: the defaults, and the loss of JOBS;
--examples: model and train of the job of the example. scikit-learn: MLPRegressor or MLPClassifier
with two hidden layers of 64, Adam, rate 1e-3, batch 32, to convergence (500 epochs at most; 40 epochs
without a better score on 10 % of the training rows end it), inputs and targets standardized; the
members differ in their seed and in these 10 %, the prediction is their mean. PyTorch: the same protocol,
all members at once in stacked weights (torch.baddbmm), silu, torch.optim.Adam, the weights of the best
epoch of each member, at most 1000 epochs. --kfold: the members of tutti use rows as those of the peers
do, each leaves out its own tenth of the training and validation rows. FILE gets one line per
set and seed: rmse (digits: error rate in percent) and CPU seconds of both; the last lines compare:
mean difference and its standard error over the seeds. Needs h5py, yaml, and scikit-learn or torch.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

import h5py
import numpy as np
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMBERS = 5
TARGET = {"energy": "heating_load", "concrete": "compressive_strength", "yacht": "residuary_resistance",
          "digits": "digit"}
JOBS = {name: {"loss": "cross_entropy" if name == "digits" else "gaussian_nll"} for name in TARGET}


def table(name):
    path = ROOT / f"examples/{name}/{name}.csv"
    with open(path) as f:
        names = f.readline().strip().split(",")
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    targets = {"energy": ["heating_load", "cooling_load"]}.get(name, [TARGET[name]])
    inputs = [n for n in names if n not in targets]
    return inputs, values[:, [names.index(n) for n in inputs]], values[:, names.index(TARGET[name])]


def of_tutti(tutti, settings, seed, x, y, inputs, kfold):
    """Error, and the rows for training, validation and test. settings: model and train of the job."""
    train = {**settings.get("train", {}), **({"resample": "kfold", "folds": 10} if kfold else {})}
    with tempfile.TemporaryDirectory() as folder:
        order = np.random.default_rng(seed).permutation(len(x))
        split = np.full(len(x), 2)
        split[order[:int(0.8 * len(x))]] = 0
        split[order[int(0.8 * len(x)):int(0.9 * len(x))]] = 1
        with h5py.File(f"{folder}/d.h5", "w") as f:
            given = np.where(split == 1, 0, split) if kfold else split
            f["x"], f["y"], f["split"] = x, y, given.astype("i1")
            f["feature_name"] = inputs
        job = {"data": {"file": "d.h5", "split": {"column": "split"}}, "train": train,
               "model": settings.get("model", {}),
               "ensembles": [{"name": "e", "members": MEMBERS}],
               "run": {"seed": seed, "device": "cpu", "threads": 1, "directory": "out"}}
        pathlib.Path(folder, "job.json").write_text(json.dumps(job))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([tutti, "train", "-q", "job.json"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        with h5py.File(f"{folder}/out/results.h5") as f:
            if "ensemble_accuracy" in f:
                error = 100 * (1 - f["ensemble_accuracy"][0])
            else:
                error = f["ensemble_rmse"][0]
    return error, split, after.ru_utime - before.ru_utime


def of_sklearn(name, seed, x, y, split):
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.preprocessing import StandardScaler
    start = time.process_time()
    fit, test = split < 2, split == 2
    sx = StandardScaler().fit(x[fit])
    kind = MLPClassifier if name == "digits" else MLPRegressor
    mean, scale = (0, 1) if name == "digits" else (y[fit].mean(), y[fit].std())
    found = 0
    for member in range(MEMBERS):
        net = kind(hidden_layer_sizes=(64, 64), learning_rate_init=1e-3, batch_size=32,
                   max_iter=500, early_stopping=True, validation_fraction=0.1,
                   n_iter_no_change=40, tol=0, random_state=100 * seed + member)
        net.fit(sx.transform(x[fit]), (y[fit] - mean) / scale)
        new = sx.transform(x[test])
        found = found + (net.predict_proba(new) if name == "digits" else net.predict(new)) / MEMBERS
    if name == "digits":
        error = 100 * (found.argmax(1) != y[test]).mean()
    else:
        error = np.sqrt(((found * scale + mean - y[test]) ** 2).mean())
    return error, time.process_time() - start


def train_torch(x, y, outputs, loss_of, seed):
    """Five members; each leaves out its own 10 % of the rows, and keeps its best weights."""
    import torch
    rng, patience, most = np.random.default_rng(seed), 40, 1000
    torch.manual_seed(seed)
    sizes = [x.shape[1], 64, 64, outputs]
    layers = [[torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])] for _ in range(MEMBERS)]
    stack = lambda l, of: torch.nn.Parameter(torch.stack([of(m[l]).detach() for m in layers]))
    weights = [w for l in range(3) for w in (stack(l, lambda m: m.weight.T), stack(l, lambda m: m.bias[None]))]
    order = np.stack([rng.permutation(len(x)) for _ in range(MEMBERS)])
    held, own = order[:, :len(x) // 10], order[:, len(x) // 10:]
    best, kept, since = np.full(MEMBERS, np.inf), [w.detach().clone() for w in weights], np.zeros(MEMBERS)
    adam = torch.optim.Adam(weights, lr=1e-3)

    def network(h, of):
        for l in range(3):
            h = torch.baddbmm(of[2 * l + 1], h, of[2 * l])
            h = torch.nn.functional.silu(h) if l < 2 else h
        return h

    for _ in range(most):
        shuffled = np.stack([rng.permutation(rows) for rows in own])
        for first in range(0, shuffled.shape[1], 32):
            rows = shuffled[:, first:first + 32]
            adam.zero_grad()
            loss_of(network(x[rows], weights), y[rows]).sum().backward()
            adam.step()
        with torch.no_grad():
            loss = loss_of(network(x[held], weights), y[held]).numpy()
        better = loss < best
        since = np.where(better, 0, since + 1)
        best = np.where(better, loss, best)
        for to, now in zip(kept, weights):
            to[better] = now.detach()[better]
        if (since >= patience).all():
            break
    return lambda new: network(new.expand(MEMBERS, -1, -1), kept).detach()


def of_torch(name, seed, x, y, split):
    import torch
    torch.set_num_threads(1)
    start = time.process_time()
    fit, test = split < 2, split == 2
    mean, scale = x[fit].mean(0), x[fit].std(0)
    scale[scale == 0] = 1
    put = lambda a: torch.tensor((a - mean) / scale, dtype=torch.float32)
    if name == "digits":
        of = lambda o, label: torch.nn.functional.cross_entropy(
            o.flatten(0, 1), label.flatten(), reduction="none").view(label.shape).mean(1)
        model = train_torch(put(x[fit]), torch.tensor(y[fit].astype(int)), 10, of, seed)
        error = 100 * (model(put(x[test])).softmax(-1).mean(0).argmax(1).numpy() != y[test]).mean()
    else:
        center, size = y[fit].mean(), y[fit].std()
        of = lambda o, label: ((o[..., 0] - label) ** 2).mean(1)
        model = train_torch(put(x[fit]), torch.tensor((y[fit] - center) / size, dtype=torch.float32), 1, of,
                            seed)
        found = model(put(x[test])).mean(0)[:, 0].numpy() * size + center
        error = np.sqrt(((found - y[test]) ** 2).mean())
    return error, time.process_time() - start


PEERS = {"sklearn": of_sklearn, "torch": of_torch, "none": lambda *_: (np.nan, 0)}


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("file")
    ask.add_argument("--peer", choices=PEERS, default="sklearn")
    ask.add_argument("--tutti", default=str(ROOT / "build/tutti"))
    ask.add_argument("--seeds", default="1-3")
    ask.add_argument("--sets", default=",".join(TARGET))
    ask.add_argument("--examples", action="store_true")
    ask.add_argument("--loss", help="of tutti in the place of that of JOBS")
    ask.add_argument("--kfold", action="store_true")
    given = ask.parse_args()
    jobs = {name: {"train": train} for name, train in JOBS.items()}
    if given.examples:
        jobs = {name: yaml.safe_load((ROOT / f"examples/{name}/job.yaml").read_text()) for name in jobs}
    for job in jobs.values():
        job["train"]["loss"] = given.loss or job["train"]["loss"]
        job["train"] = {k: float(v) if k == "learning_rate" else v for k, v in job["train"].items()}
    low, _, high = given.seeds.partition("-")
    with open(given.file, "w") as out:
        print(f"set\tseed\ttutti\t{given.peer}\ttutti_cpu_s\t{given.peer}_cpu_s", file=out)
        for name in given.sets.split(","):
            inputs, x, y = table(name)
            both = []
            for seed in range(int(low), int(high or low) + 1):
                own, split, seconds = of_tutti(os.path.abspath(given.tutti), jobs[name], seed, x, y, inputs,
                                               given.kfold)
                peer, peer_seconds = PEERS[given.peer](name, seed, x, y, split)
                both.append((own, peer))
                print(f"{name}\t{seed}\t{own:.4f}\t{peer:.4f}\t{seconds:.1f}\t{peer_seconds:.1f}",
                      file=out, flush=True)
            gap = np.diff(np.array(both), axis=1)[:, 0]  # peer - tutti
            error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
            print(f"# {name}: {given.peer} - tutti {gap.mean():.4f} +- {error:.4f}", file=out, flush=True)


if __name__ == "__main__":
    main()
