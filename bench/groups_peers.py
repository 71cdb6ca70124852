#!/usr/bin/env python3
"""What others do for many groups: a loop of scikit-learn's MLPRegressor by joblib, a loop of
PyTorch, and vmap in JAX, which needs groups of one size. Times of some models; those of more are
extrapolated, and marked.

    python3 bench/groups_peers.py 60 [MODELS]    # rows of a group; needs scikit-learn, torch, jax

As in bench/groups.py: 5 inputs, networks of [16, 16], 200 epochs, batches of 32 rows, Adam.
Processor seconds (all threads and processes) of one model, so that other programs do not disturb.
"""
import os
import resource
import sys
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
import numpy as np

EPOCHS, BATCH, WIDTHS = 200, 32, [5, 16, 16, 1]


def processor_seconds():
    return sum(u.ru_utime + u.ru_stime for u in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def fit_sklearn(x, y):
    from sklearn.neural_network import MLPRegressor
    import warnings
    warnings.simplefilter("ignore")
    MLPRegressor(hidden_layer_sizes=(16, 16), batch_size=BATCH, max_iter=EPOCHS,
                 n_iter_no_change=EPOCHS).fit(x, y)


def run_joblib(x, y):
    import joblib
    joblib.Parallel(2, backend="multiprocessing")(joblib.delayed(fit_sklearn)(a, b) for a, b in zip(x, y))


def run_torch(x, y):
    import torch
    torch.set_num_threads(1)
    for a, b in zip(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)):
        net = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16),
                                  torch.nn.ReLU(), torch.nn.Linear(16, 1))
        adam = torch.optim.Adam(net.parameters())
        for _ in range(EPOCHS):
            for part in torch.randperm(len(a)).split(BATCH):
                adam.zero_grad()
                torch.mean((net(a[part])[:, 0] - b[part]) ** 2).backward()
                adam.step()


def run_jax(x, y):
    import jax
    import jax.numpy as jnp
    batches = x.shape[1] // BATCH or 1

    def loss(w, a, b):
        for i in range(0, len(w), 2):
            a = a @ w[i] + w[i + 1]
            a = jax.nn.relu(a) if i + 2 < len(w) else a
        return jnp.mean((a[:, 0] - b) ** 2)

    def train(key, a, b):
        keys = jax.random.split(key, len(WIDTHS))
        w = [v for i, k in enumerate(keys[1:]) for v in
             (jax.random.normal(k, WIDTHS[i:i + 2]) * (2 / WIDTHS[i]) ** 0.5,
              jnp.zeros(WIDTHS[i + 1]))]

        def epoch(carry, key):
            order = jax.random.permutation(key, len(a))[:batches * BATCH].reshape(batches, -1)

            def step(carry, part):
                w, m, v, t = carry
                t, g = t + 1, jax.grad(loss)(w, a[part], b[part])
                m = [0.9 * p + 0.1 * q for p, q in zip(m, g)]
                v = [0.999 * p + 0.001 * q * q for p, q in zip(v, g)]
                w = [p - 1e-3 * (q / (1 - 0.9**t)) / (jnp.sqrt(r / (1 - 0.999**t)) + 1e-8)
                     for p, q, r in zip(w, m, v)]
                return (w, m, v, t), None
            return jax.lax.scan(step, carry, order)

        zero = [jnp.zeros_like(p) for p in w]
        return jax.lax.scan(epoch, (w, zero, zero, 0), jax.random.split(keys[0], EPOCHS))[0][0]

    keys = jax.random.split(jax.random.key(1), len(x))
    jax.block_until_ready(jax.jit(jax.vmap(train))(keys, jnp.array(x), jnp.array(y)))


def main(rows, models=40):
    rng = np.random.default_rng(1)
    for name, run, count in (("joblib and scikit-learn", run_joblib, models),
                             ("loop of PyTorch", run_torch, models),
                             ("vmap in JAX, with its compilation", run_jax, 25 * models)):
        x = rng.normal(size=(count, rows, 5))
        y = x[..., 0] + np.sin(x[..., 1])
        run(x[:2], y[:2])  # imports
        before, clock = processor_seconds(), time.monotonic()
        run(x, y)
        each = (processor_seconds() - before) / count
        print(f"{name}: {count} models of {rows} rows: {each:.4f} processor seconds a model (wall "
              f"{time.monotonic() - clock:.1f} s); 500,000 models, extrapolated: {each * 5e5:.0f} s",
              flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
