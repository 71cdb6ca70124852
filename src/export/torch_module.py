"""A trained ensemble as a module of PyTorch, exported by tutti.

    from model import Ensemble              # the name of this file
    mean, total, aleatoric, epistemic = Ensemble()(x)

x (row, input) and the results (row, column) are in the units of the training data; input_name,
input_units, column_ensemble, column_label and column_units of an ensemble say what they are. It
computes in double; Ensemble().float() is faster and has the accuracy of single precision. Weights
and biases are parameters, everything else is a buffer. Needs PyTorch 1.11 or newer, and NumPy.
"""
import base64
import io

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

LAYER_NORM_EPSILON = 1e-5
ACTIVATION = {"identity": lambda z: z, "relu": F.relu, "leaky_relu": F.leaky_relu, "elu": F.elu,
              "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu,
              "softplus": F.softplus}


def yeo_johnson(v, p):
    """p in [0, 2]; the limit of power 0 is the logarithm."""
    power = torch.where(v < 0, 2 - p, p).clamp(min=1e-12)
    return torch.copysign(torch.expm1(power * torch.log1p(v.abs())) / power, v)


TRANSFORM = {"identity": lambda v, p: v, "log": lambda v, p: torch.log(v),
             "log1p": lambda v, p: torch.log1p(v), "yeo_johnson": yeo_johnson}


def log_normal(mean, variance, shift):
    return (torch.exp(mean + variance / 2) + shift,
            torch.expm1(variance) * torch.exp(2 * mean + variance))


def undo_yeo_johnson(mean, variance, p):
    """By the trapezoidal rule with steps of half a standard deviation."""
    z = torch.arange(-18, 19, dtype=mean.dtype, device=mean.device) / 2
    weight = torch.softmax(-z ** 2 / 2, 0)
    t = mean.unsqueeze(-1) + variance.sqrt().unsqueeze(-1) * z
    power = torch.where(t < 0, 2 - p.unsqueeze(-1), p.unsqueeze(-1)).clamp(min=1e-12)
    value = torch.copysign(torch.expm1(torch.log1p(power * t.abs()) / power), t)
    mean = value @ weight
    return mean, (value - mean.unsqueeze(-1)) ** 2 @ weight


# Mean and variance of a Gaussian number after the transform of a target is undone.
UNDO = {"log": lambda m, v, p: log_normal(m, v, 0), "log1p": lambda m, v, p: log_normal(m, v, -1),
        "yeo_johnson": undo_yeo_johnson}


def mean_variance(o, floor):
    return o[..., :1], F.softplus(o[..., 1:]) + floor


def softmax(o, floor):
    """The probabilities of the classes, then the entropy."""
    log_p = F.log_softmax(o, -1)
    p = log_p.exp()
    entropy = -(p * log_p).sum(-1, keepdim=True)
    return torch.cat([p, entropy], -1), torch.cat([p * (1 - p), torch.zeros_like(entropy)], -1)


def sigmoid(o, floor):
    return torch.sigmoid(o), torch.sigmoid(o) * torch.sigmoid(-o)


# Outputs of the networks (member, row, target, value) -> mean and variance of what they predict.
OUTPUT = {"mean": lambda o, floor: (o, torch.zeros_like(o)), "mean_variance": mean_variance,
          "quantiles": lambda o, floor: (o.sort(-1).values, torch.zeros_like(o)),
          "softmax": softmax, "sigmoid": sigmoid, "rate": lambda o, floor: (o.exp(), o.exp())}


# Layers of a front: l, h (row, member * channel, height, width) -> the same axes.
POOL = {"max": F.max_pool2d, "mean": F.avg_pool2d}
FRONT = {"conv": lambda l, h: F.conv2d(h, l.weight, l.bias, l.stride, l.pad, l.dilation, l.groups),
         "group_norm": lambda l, h: F.group_norm(h, l.groups, l.weight, l.bias, LAYER_NORM_EPSILON),
         "pool": lambda l, h: POOL[l.pool](h, l.size, l.stride), "dropout": lambda l, h: h,
         "global_mean": lambda l, h: h.mean((2, 3), keepdim=True)}


def tensor(array):
    return torch.tensor(array, dtype=torch.float64)


class FrontLayer(nn.Module):
    """One layer of all members, which are groups of its channels."""

    def __init__(self, get, number, members):
        super().__init__()
        get = lambda name, number=number, get=get: get(f"front{number}_{name}")
        self.kind, self.pool = str(get("kind"), "ascii"), str(get("pool"), "ascii")
        self.activation = ACTIVATION[str(get("activation"), "ascii")]
        self.size, self.stride, self.pad, self.dilation = (
            tuple(get(name).tolist()) for name in ("size", "stride", "pad", "dilation"))
        self.groups, self.skip = int(get("groups")) * members, int(get("skip"))
        self.weight, self.bias = (None if array is None else nn.Parameter(tensor(array).flatten(0, 1))
                                  for array in (get("weight"), get("bias")))

    def forward(self, h):
        return self.activation(FRONT[self.kind](self, h))


class Front(nn.Module):
    """Layers for images and profiles: inputs (row, input) -> features (member, row, feature)."""

    def __init__(self, get, members):
        super().__init__()
        self.members, self.shape = members, get("front_shape").tolist()
        self.layers = nn.ModuleList(FrontLayer(get, i, members)
                                    for i in range(int(get("front_layers"))))

    def forward(self, x):
        channels, height, width = self.shape
        h = x.reshape(-1, 1, channels, height, width).expand(-1, self.members, -1, -1, -1)
        results = [h.flatten(1, 2)]
        for layer in self.layers:
            h = layer(results[-1])
            results.append(h + results[layer.skip + 1] if layer.skip >= -1 else h)
        return results[-1].reshape(x.shape[0], self.members, -1).transpose(0, 1)


class Layer(nn.Module):
    """One layer of all members: (row, in) or (member, row, in) -> (member, row, out)."""

    def __init__(self, get, number, activation):
        super().__init__()
        self.weight = nn.Parameter(tensor(get(f"weight{number}")))  # (member, out, in)
        self.bias = nn.Parameter(tensor(get(f"bias{number}")).unsqueeze(1))
        self.residual, self.activation = bool(get(f"residual{number}")), activation
        self.gain, self.shift = (None if array is None else nn.Parameter(tensor(array).unsqueeze(1))
                                 for array in (get(f"gain{number}"), get(f"shift{number}")))

    def forward(self, h):
        z = h @ self.weight.transpose(1, 2) + self.bias
        if self.gain is not None:
            z = F.layer_norm(z, z.shape[-1:], eps=LAYER_NORM_EPSILON) * self.gain + self.shift
        z = self.activation(z)
        return z + h if self.residual else z


class Network(nn.Module):
    """Members with one network: normalised inputs (row, input) -> outputs (member, row, output)."""

    def __init__(self, get):
        super().__init__()
        activation = [ACTIVATION[str(get("activation"), "ascii")]] * (int(get("layers")) - 1)
        activation.append(ACTIVATION["identity"])
        members = len(get("weight0"))
        self.front = Front(get, members) if int(get("front_layers")) else nn.Identity()
        self.layers = nn.Sequential(*(Layer(get, i, a) for i, a in enumerate(activation)))
        for name in ("x_factor", "x_offset"):  # members that leave out a fold
            self.register_buffer(name, None if get(name) is None else tensor(get(name)))

    def forward(self, h):
        if self.x_factor is not None:
            h = h * self.x_factor + self.x_offset
        return self.layers(self.front(h))


class Cohort(nn.Module):
    """Ensembles whose networks have the same shape, or one ensemble of several networks:
    normalised inputs (row, input) -> results."""

    def __init__(self, get):
        super().__init__()
        ensembles, of = int(get("ensembles")), get("ensemble")
        self.networks = nn.ModuleList(
            Network(lambda name, n=n: get(f"network{n}_{name}" if n else name))
            for n in range(int(get("networks"))))
        self.targets, self.output = int(get("targets")), OUTPUT[str(get("output"), "ascii")]
        self.variance_floor = float(get("variance_floor"))
        self.register_buffer("ensemble", torch.tensor(of))  # of each member
        self.register_buffer("share", tensor(get("share") * (of == np.arange(ensembles)[:, None])))
        for name in ("component", "component_mean", "residual_variance"):
            self.register_buffer(name, None if get(name) is None else tensor(get(name)))
        for name in ("y_factor", "y_offset"):  # (member, 1, value)
            self.register_buffer(name, None if get(name) is None else tensor(get(name)[:, None]))
        column = of[:, None] * (len(get("scale")) // ensembles)
        column = (column + np.arange(len(get("scale")) // ensembles))[:, None]  # (member, 1, value)
        for name in ("scale", "offset", "std_scale", "lambda"):
            self.register_buffer(name, tensor(get(name)[column]))
        kind, self.undo = get("transform")[column], []
        for name, function in UNDO.items():
            if (kind == name.encode()).any():
                self.undo.append((name, function))
                self.register_buffer(name, torch.tensor(kind == name.encode()))

    def forward(self, h):
        h = torch.cat([network(h) for network in self.networks])
        o = h.reshape(*h.shape[:2], -1, self.targets).transpose(2, 3)
        mu, v = (a.flatten(2) for a in self.output(o, self.variance_floor))
        if self.y_factor is not None:  # members that leave out a fold
            mu, v = mu * self.y_factor + self.y_offset, v * self.y_factor ** 2
        if self.component is not None:  # amplitudes of components -> targets
            mu = mu @ self.component + self.component_mean
            v = v @ self.component ** 2 + self.residual_variance
        mu, v, added = self.in_user_units(mu, v)
        mean, within = self.average(mu), self.average(v)
        between = self.average((mu - self.of_members(mean)) ** 2 + added)
        mean, within, between = (a.flatten(1) for a in (mean, within, between))
        return [mean, *(torch.sqrt(a) for a in (within + between, within, between))]

    def in_user_units(self, mu, v):
        """Recalibrated, with transforms undone; and what recalibration adds to the variances."""
        centre = self.of_members(self.average(mu))
        apart = self.of_members(self.average((mu - centre) ** 2))
        near = torch.minimum(self.std_scale, self.scale)
        mu = centre * self.scale + self.offset + (mu - centre) * near
        v = v * self.std_scale ** 2
        own = self.without_transforms(mu, v)[1]
        mu, v = self.without_transforms(mu, v + (self.std_scale ** 2 - near ** 2) * apart)
        return mu, own, v - own

    def without_transforms(self, mu, v):
        for name, function in self.undo:
            here = getattr(self, name)
            mean, variance = function(torch.where(here, mu, torch.zeros_like(mu)),
                                      torch.where(here, v, torch.ones_like(v)),
                                      self.get_buffer("lambda"))
            mu, v = torch.where(here, mean, mu), torch.where(here, variance, v)
        return mu, v

    def of_members(self, a):
        """(row, ensemble, value) -> (member, row, value)"""
        return a.transpose(0, 1)[self.ensemble]

    def average(self, a):
        """(member, row, value) -> (row, ensemble, value)"""
        return torch.einsum("eg,gnw->new", self.share, a)


class Ensemble(nn.Module):
    """x (row, input) -> mean, total, aleatoric and epistemic standard deviation (row, column)."""

    def __init__(self):
        super().__init__()
        f = np.load(io.BytesIO(base64.b64decode(ARCHIVE)))
        for name in ("input_name", "input_units", "column_ensemble", "column_label", "column_units"):
            setattr(self, name, [text.decode() for text in f[name]])
        self.transform = [TRANSFORM[text.decode()] for text in f["x_transform"]]
        for name in ("x_mean", "x_scale", "x_lambda"):
            self.register_buffer(name, tensor(f[name]))
        self.mapped = "x_column" in f  # inputs of the networks are not the columns
        if self.mapped:
            self.register_buffer("x_column", torch.tensor(f["x_column"]))
            for kind in ("level", "missing"):
                self.register_buffer(f"is_{kind}", torch.tensor(f["x_kind"] == kind.encode()))
            for name in ("x_level", "x_fill"):
                self.register_buffer(name, tensor(f[name]))
        self.cohorts = nn.ModuleList(Cohort(lambda name, c=c: f.get(f"cohort{c}_{name}"))
                                     for c in range(int(f["cohorts"])))

    def net_inputs(self, x):
        """Levels and indicators of missing values as 0 or 1, missing amounts filled."""
        v = x[:, self.x_column]
        amount = torch.where(v.isnan(), self.x_fill, v)
        other = torch.where(self.is_missing, v.isnan().to(v), amount)
        return torch.where(self.is_level, (v == self.x_level).to(v), other)

    def forward(self, x):
        x = x.to(self.x_mean.dtype)
        if self.mapped:
            x = self.net_inputs(x)
        t = torch.stack([f(x[:, i], self.x_lambda[i]) for i, f in enumerate(self.transform)], 1)
        h = (t - self.x_mean) / self.x_scale
        return tuple(torch.cat(a, 1) for a in zip(*(cohort(h) for cohort in self.cohorts)))


# The weights and all scales: a NumPy archive (tutti export --npz) in base64.
