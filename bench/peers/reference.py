#!/usr/bin/python3
"""The losses that every program must reproduce, in double with numpy alone.

  reference.py DIR...     each a folder that `bench_engine --export` wrote; adds reference.f8 to it

Multilayer perceptron with the activation and the loss of the case (mean over rows and targets), Adam
with epsilon outside the root (Kingma & Ba 2015), of a few members and the first steps.
"""
import sys

import numpy as np

from case import Case


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def silu_slope(z):
    return sigmoid(z) * (1 + z * (1 - sigmoid(z)))


# the function of z, and its slope
ACTIVATIONS = {"relu": (lambda z: np.maximum(z, 0), lambda z: z > 0),
               "silu": (lambda z: z * sigmoid(z), silu_slope)}


def mse(_case, o, y):
    return ((o - y)**2).mean(), 2 * (o - y) / y.size


def gaussian_nll(case, o, y):
    """The outputs of a target are the mean and s, with the variance softplus(s) + floor."""
    mean, s = o[:, 0::2], o[:, 1::2]
    variance = np.logaddexp(0, s) + case.variance_floor
    z = (mean - y)**2 / variance
    slopes = [(mean - y) / variance, (1 - z) / (2 * variance) * sigmoid(s)]
    loss = ((np.log(variance) + z) / 2).mean()
    return loss, np.stack(slopes, -1).reshape(o.shape) / y.size


LOSSES = {"mse": mse, "gaussian_nll": gaussian_nll}


def gradient(case, w, x, y):
    """Loss and gradients of [W1, b1, W2, ...]."""
    value, slope = ACTIVATIONS[case.activation]
    layers, h, z = len(w) // 2, [x], []
    for i in range(layers):
        z.append(h[i] @ w[2 * i].T + w[2 * i + 1])
        h.append(value(z[i]))
    loss, d = LOSSES[case.loss](case, z[-1], y)
    grads = [None] * len(w)
    for i in reversed(range(layers)):
        if i < layers - 1:
            d = d * slope(z[i])
        grads[2 * i], grads[2 * i + 1] = d.T @ h[i], d.sum(0)
        d = d @ w[2 * i]
    return loss, grads


def trajectory(case, w, order):
    """Losses (steps) of one member; order (steps, B)."""
    x, y = case.x.astype(np.float64), case.y.astype(np.float64)
    w = [p.astype(np.float64) for p in w]
    m, v = [np.zeros_like(p) for p in w], [np.zeros_like(p) for p in w]
    losses = []
    for t, rows in enumerate(order, 1):
        loss, grads = gradient(case, w, x[rows], y[rows])
        losses.append(loss)
        for p, g, a, b in zip(w, grads, m, v):
            a += (1 - case.beta1) * (g - a)
            b += (1 - case.beta2) * (g * g - b)
            root = np.sqrt(b / (1 - case.beta2**t))
            p -= case.learning_rate * (a / (1 - case.beta1**t)) / (root + case.epsilon)
    return losses


def main():
    for folder in sys.argv[1:]:
        case = Case(folder)
        weights, order = case.weights(), case.order()
        losses = [trajectory(case, [p[i] for p in weights], order[:, i]) for i in case.checked]
        np.asarray(losses, dtype="<f8").tofile(case.folder / "reference.f8")
        ends = ", ".join(f"{row[-1]:.6f}" for row in losses)
        print(f"{case.workload}: {case.steps} steps of members {case.checked}, losses {ends}")


if __name__ == "__main__":
    main()
