#!/usr/bin/env python3
"""What does a search find beside the searches of other programs, in the same processor time?

  searches.py run FILE.jsonl [--tutti build/tutti] [--recipes fast,catboost] [--splits 1-1] [--sets a,b]
  searches.py show FILE.jsonl

Sets, splits and training rows are those of studies/recipes.py; one thread. `fast` and `good` are
searches of tutti. Each of the others has the CPU seconds of `fast` on the same rows, at least one
trial, and may finish the one that has begun:
catboost   CatBoost, Optuna's sampler TPE, trials of five folds that stop early; the mean of the five
           models of the best trial predicts
torch      a network in PyTorch, Optuna's TPE, one part of a fifth of the rows to stop early; the best
           trial predicts
realmlp    RealMLP-TD with its tuned defaults and five folds, one fit, however long it takes
No method sees a test row. Needs h5py, optuna 5.0, catboost 1.2.10, pytabkit 1.7.3, torch 2.15.

`run` appends a line for each method, set and split: rmse of the test rows, for classes nll, and CPU
seconds without imports; lines that are there are skipped. `show` prints the ratios to the lowest of a
set (nll with a floor of 0.01), their geometric mean, the highest ratio, and the CPU seconds.
"""
import pathlib
import resource
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "studies"))
import peers
import recipes
import study

SETS = "heating,concrete,yacht,friedman1,smooth2,categorical,spirals,mixed"
FOLDS, FLOOR = 5, 0.01


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def error(p, y, classes):
    """nll of probabilities [row, class], or rmse."""
    if classes:
        return float(-np.mean(np.log(np.maximum(p[np.arange(len(y)), y.astype(int)], 1e-12))))
    return float(np.sqrt(np.mean((p - y) ** 2)))


def folds(rows, seed):
    return np.array_split(np.random.RandomState(seed).permutation(rows), FOLDS)


def search(space, fit, keep, budget, classes, x, y, test, seed):
    """The mean prediction of the `keep` best trials; fit(configuration) gives the validation error and the
    prediction of the test rows."""
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tuner = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    end, found = cpu_seconds() + budget, []
    while not found or cpu_seconds() < end:
        trial = tuner.ask()
        score, p = fit(space(trial))
        tuner.tell(trial, score)
        found.append((score, p))
    found.sort(key=lambda f: f[0])
    return np.mean([p for _, p in found[:keep]], 0), len(found)


def catboost(x, y, test, classes, seed, budget):
    from catboost import CatBoostClassifier, CatBoostRegressor
    make, parts = CatBoostClassifier if classes else CatBoostRegressor, folds(len(x), seed)

    def space(t):
        return {"learning_rate": t.suggest_float("learning_rate", 0.01, 0.3, log=True),
                "depth": t.suggest_int("depth", 3, 9), "l2_leaf_reg": t.suggest_float("l2", 0.3, 30, log=True),
                "random_strength": t.suggest_float("random_strength", 0.1, 10, log=True),
                "subsample": t.suggest_float("subsample", 0.5, 1), "bootstrap_type": "Bernoulli"}

    def fit(options):
        scores, sums = [], 0
        for part in parts:
            rest = np.setdiff1d(np.arange(len(x)), part)
            m = make(iterations=2000, early_stopping_rounds=50, thread_count=1, random_seed=seed, verbose=0,
                     allow_writing_files=False, **options)
            m.fit(x[rest], y[rest], eval_set=(x[part], y[part]))
            ask = m.predict_proba if classes else m.predict
            scores.append(error(ask(x[part]), y[part], classes))
            sums = sums + ask(test) / FOLDS
        return float(np.mean(scores)), sums
    return search(space, fit, 1, budget, classes, x, y, test, seed)


def torch_network(x, y, test, classes, seed, budget):
    import torch
    torch.set_num_threads(1)
    part = folds(len(x), seed)[0]
    rest = np.setdiff1d(np.arange(len(x)), part)
    x_mean, x_scale = x[rest].mean(0), np.maximum(x[rest].std(0), 1e-12)
    y_mean, y_scale = (0, 1) if classes else (y[rest].mean(), y[rest].std())
    outputs = int(y.max()) + 1 if classes else 1
    kind = torch.long if classes else torch.float32
    a, b = (torch.tensor((x[r] - x_mean) / x_scale, dtype=torch.float32) for r in (rest, part))
    ya, yb = (torch.tensor((y[r] - y_mean) / y_scale).to(kind) for r in (rest, part))
    c = torch.tensor((test - x_mean) / x_scale, dtype=torch.float32)

    def space(t):
        return {"width": t.suggest_categorical("width", [32, 64, 128, 256]), "depth": t.suggest_int("depth", 1, 4),
                "act": t.suggest_categorical("act", ["ReLU", "SiLU", "Tanh"]), "batch": t.suggest_categorical("batch", [16, 32, 64, 128]),
                "rate": t.suggest_float("rate", 3e-4, 3e-2, log=True), "decay": t.suggest_float("decay", 1e-6, 1e-1, log=True),
                "drop": t.suggest_float("drop", 0, 0.3)}

    def loss(net, inputs, labels):
        out = net(inputs)
        return torch.nn.functional.cross_entropy(out, labels) if classes else ((out[:, 0] - labels) ** 2).mean()

    def fit(o):
        torch.manual_seed(seed)
        layers, width = [], x.shape[1]
        for _ in range(o["depth"]):
            layers += [torch.nn.Linear(width, o["width"]), getattr(torch.nn, o["act"])(), torch.nn.Dropout(o["drop"])]
            width = o["width"]
        net = torch.nn.Sequential(*layers, torch.nn.Linear(width, outputs))
        steps = -(-len(a) // o["batch"])
        epochs = max(20, min(400, 12000 // steps))
        tool = torch.optim.AdamW(net.parameters(), lr=o["rate"], weight_decay=o["decay"])
        rate = torch.optim.lr_scheduler.CosineAnnealingLR(tool, epochs * steps)
        best, state = np.inf, None
        for _ in range(epochs):
            net.train()
            for rows in torch.randperm(len(a)).split(o["batch"]):
                tool.zero_grad()
                loss(net, a[rows], ya[rows]).backward()
                tool.step()
                rate.step()
            net.eval()
            with torch.no_grad():
                now = float(loss(net, b, yb))
            if now < best:
                best, state = now, {k: v.clone() for k, v in net.state_dict().items()}
        net.load_state_dict(state)
        with torch.no_grad():
            p = net(c)
        return best, torch.softmax(p, 1).numpy() if classes else p[:, 0].numpy() * y_scale + y_mean
    return search(space, fit, 1, budget, classes, x, y, test, seed)


def realmlp(x, y, test, classes, seed, _):
    from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor
    make = RealMLP_TD_Classifier if classes else RealMLP_TD_Regressor
    m = make(device="cpu", n_threads=1, random_state=seed, n_cv=FOLDS).fit(x, y)
    return (m.predict_proba(test) if classes else m.predict(test).ravel()), 1


PEERS = {"catboost": catboost, "torch": torch_network, "realmlp": realmlp}


def measure(args, method, name, split, budget):
    with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
        folder, classes = pathlib.Path(folder), recipes.SETS[name][0] == "classes"
        part = study.write(folder, name, split)
        if method not in PEERS:
            found = recipes.measure(str(args.tutti.resolve()), folder, study.METHODS[method], name, part, split)
            return found[0], found[4], None
        import h5py
        with h5py.File(folder / "data.h5") as f:
            x, y = f["x"][()], f["y"][:, 0]
    before = cpu_seconds()
    p, trials = PEERS[method](x[part < 2], y[part < 2], x[part == 2], classes, split, budget)
    return error(p, y[part == 2], classes), cpu_seconds() - before, trials


def run(args):
    import catboost as _, optuna as _, pytabkit as _, torch as _  # noqa: not in the seconds

    def values(method, name, split, done):
        budget = None if method not in PEERS else done[name, split, "fast"]["seconds"]
        found, seconds, trials = measure(args, method, name, split, budget)
        return {"error": found, "seconds": round(seconds, 2), **({} if trials is None else {"trials": trials})}
    peers.run(args, values)


def show(args):
    found = peers.read(args.file)
    methods = [m for m in args.recipes.split(",") if any(k[2] == m for k in found)]
    pairs = sorted({k[:2] for k in found if all((*k[:2], m) in found for m in methods)})
    logs = {m: {} for m in methods}
    for name, split in pairs:
        floor = FLOOR if recipes.SETS[name][0] == "classes" else 0
        value = {m: np.log(found[name, split, m]["error"] + floor) for m in methods}
        for m in methods:
            logs[m].setdefault(name, []).append(value[m] - min(value.values()))
    print(f"{len(pairs)} pairs of a set and a split\n| set | " + " | ".join(methods) + " |\n|" + "---|" * (len(methods) + 1))
    mean = {m: {n: np.mean(v) for n, v in logs[m].items()} for m in methods}
    for name in mean[methods[0]]:
        print(f"| {name} | " + " | ".join(f"{np.exp(mean[m][name]):.2f}" for m in methods) + " |")
    rows = {"geometric mean": lambda m: np.exp(np.mean(list(mean[m].values()))),
            "worst set": lambda m: np.exp(max(mean[m].values())),
            "CPU s": lambda m: sum(found[*p, m]["seconds"] for p in pairs)}
    for title, value in rows.items():
        print(f"| {title} | " + " | ".join(f"{value(m):.2f}" for m in methods) + " |")


def main():
    recipes.job = study.job
    parser = recipes.study_arguments(__doc__, ("run", "show"), "file", ["fast", *PEERS], SETS.split(","))
    parser.set_defaults(splits="1-1")
    args = parser.parse_args()
    {"run": run, "show": show}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
