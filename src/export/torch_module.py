"""A trained ensemble as a module of PyTorch, exported by tutti.

    from model import Ensemble              # the name of this file
    mean, total, aleatoric, epistemic = Ensemble()(x)
    mean, variance = Ensemble().members(x)
    Ensemble(group="Oslo")                   # a model that was trained with `by`: choose the group

x (row, input) and the results (row, column) are in the units of the training data; input_name,
input_units, level_name, column_ensemble, column_label and column_units of an ensemble say what they
are. The members (member, row, column) are those that predictions use: member_ensemble and
member_index say which ones of their ensembles. It computes in double; Ensemble().float() is faster and has the accuracy of single precision.
Weights and biases are parameters, everything else is a buffer. Ensemble("model.h5") is another model
of tutti. Needs PyTorch 1.11 or newer, NumPy and h5py.
"""
import base64
import io

import h5py
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

LAYER_NORM_EPSILON = 1e-5
ACTIVATION = {"identity": lambda z: z, "relu": F.relu, "leaky_relu": F.leaky_relu, "elu": F.elu,
              "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu,
              "softplus": F.softplus, "sine": torch.sin, "hardtanh": F.hardtanh}


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
         "batch_norm": lambda l, h: F.batch_norm(h, l.running_mean, l.running_variance, l.weight, l.bias,
                                                 eps=LAYER_NORM_EPSILON),
         "pool": lambda l, h: POOL[l.pool](h, l.size, l.stride, l.pad), "dropout": lambda l, h: h,
         "global_mean": lambda l, h: h.mean((2, 3), keepdim=True)}


def texts(data):
    """Letters (text, letter) -> array of texts."""
    return np.array([row.tobytes().decode().rstrip("\0") for row in data[()]])


# Parameters of a norm: one for each channel.
NORM = {"group_norm": ["weight", "bias"], "batch_norm": ["weight", "bias", "running_mean", "running_variance"]}


def window(words, option, axes, size):
    """What the window of a row is (height, width), and the size of the result."""
    of = {}
    for name, n in (("size", words[1]), ("stride", option["stride"]), ("pad", option.get("pad", 0)),
                    ("dilation", option.get("dilation", 1))):
        of[name] = (int(n) if axes == 2 else int(name != "pad"), int(n))
    of["out"] = [(n + 2 * pad - dilation * (k - 1) - 1) // stride + 1
                 for n, k, stride, pad, dilation in zip(size, *of.values())]
    return of


def add_layer(layers, source, axes, kind, *words):
    """Append the layer of a row of a front, which reads layer `source`."""
    before, option = layers[source], dict(zip(words[2::2], words[3::2]))
    of = {"kind": kind, "source": source, "skip": -1, "activates_sum": False, "activation": "identity",
          "channels": before["channels"], "out": before["out"], "shapes": {}}
    if kind in ("conv", "pool"):
        of.update(window(words, option, axes, before["out"]))
    if kind == "pool":
        of["pool"] = words[0]
    if kind == "global_mean":
        of["out"] = [1, 1]
    if kind == "group_norm":
        of["groups"] = int(words[0])
    if kind == "conv":
        of.update(channels=int(words[0]), groups=int(option["groups"]),
                  activation=option["activation"].replace("none", "identity"))
        of["shapes"] = {"weight": (of["channels"], before["channels"] // of["groups"], *of["size"]),
                        "bias": (of["channels"],)}
    if kind in NORM:
        of["shapes"] = {name: (of["channels"],) for name in NORM[kind]}
        if before["kind"] == "conv" and before["skip"] < 0:  # it comes before the activation
            of["activation"], before["activation"] = before["activation"], "identity"
            if kind == "batch_norm":
                del before["shapes"]["bias"]
    layers.append(of)


def end_residual(layers, first, axes, options):
    """Add the input of layer `first` to the result of the last layer."""
    last, source = len(layers) - 1, layers[first]["source"]
    end = layers[last]
    if "project" in options:  # a convolution gives the input the shape of the result
        stride = max(-(-n // out) for n, out in zip(layers[source]["out"], end["out"]))
        add_layer(layers, source, axes, "conv", end["channels"], 1, "stride", stride, "groups", 1, "activation", "none")
        if end["kind"] in NORM:
            add_layer(layers, last + 1, axes, end["kind"], end.get("groups"))
    layers[-1]["skip"] = last if "project" in options else source
    if "activate" in options:  # after the addition
        activation, end["activation"] = end["activation"], "identity"
        layers[-1].update(activation=activation, activates_sum=True)


def read_front(net, w):
    """Layers of a front from its rows, and their parameters, the first ones of w (member, parameter). The
    numbers of the layers begin with 1; 0 is the inputs."""
    layers = [{"kind": "inputs", "channels": net["front_shape"][0], "out": net["front_shape"][1:]}]
    axes, at, left = net["front_axes"], 0, 0
    for kind, *words in (row.split() for row in net["front"].split(", ")):
        if kind == "residual":
            first, left, options = len(layers), int(words[0]), words[1:]
            continue
        if kind == "conv" and "activation" not in words:  # a file of an earlier version
            words += ["activation", net["front_activation"]]
        add_layer(layers, len(layers) - 1, axes, kind, *words)
        left -= 1
        if left == 0:
            end_residual(layers, first, axes, options)
    for of in layers[1:]:
        for name, shape in of["shapes"].items():
            of[name] = w[:, at:at + np.prod(shape)].reshape(-1, *shape)
            at += np.prod(shape)
    return layers[1:]


def read_network(f, network, members):
    """The network of some members; its layers have their weights."""
    net = {}
    for name, item in f["net"].items():
        if item.shape[:1] == f["net/n_layers"].shape and item.dtype.kind != "S":
            net[name] = item[network]
    net.update({name: texts(f["net"][name])[network] for name in
                ("output", "activation", "front", "front_activation") if name in f["net"]})
    first = f["net/first_parameter"][()]
    end = np.append(first[1:], f["net/parameters"].size)
    w = np.stack([f["net/parameters"][first[m]:end[m]] for m in members])
    layers, last = [], int(net["n_layers"]) - 1
    for l in range(last + 1):
        out, inputs, gain = (int(net[name][l]) for name in ("layer_out", "layer_in", "gain_offset"))
        part = lambda at, *shape: w[:, at:at + np.prod(shape)].reshape(-1, *shape)
        of = {"weight": part(net["weight_offset"][l], out, inputs), "bias": part(net["bias_offset"][l], out),
              "residual": bool(net["residual"] and 0 < l < last and out == inputs),
              "activation": net["activation"] if l < last else "identity"}
        if gain >= 0:
            of.update(gain=part(gain, out), shift=part(gain + out, out))
        layers.append(of)
    net.update(layers=layers, members=len(members), front=read_front(net, w) if net["front_axes"] else [])
    return net


def transforms(by):
    """Names of the transforms of normalizations; those without a transform shift and scale alone."""
    return np.array([name if name in TRANSFORM else "identity" for name in by])


def read_cohort(f, s, ensembles, column):
    """Ensembles of one network, or an ensemble of several; its columns begin at `column`; s: the scales."""
    first, count = f["ensemble_first"][()], f["ensemble_members"][()]
    members = np.arange(first[ensembles[0]], first[ensembles[-1]] + count[ensembles[-1]])
    members = members[f["member_weight"][()][members] > 0]
    if not len(members):
        raise ValueError("no member can predict: all diverged")
    weight, network_of = f["member_weight"][()][members], f["net/network_of_member"][()][members]
    of = f["ensemble_of_member"][()][members].astype(np.int64) - ensembles[0]
    networks = [read_network(f, k, members[network_of == k]) for k in np.unique(network_of)]
    net = networks[0]
    outputs, quantities = {"mean_variance": (2, 1), "quantiles": (net["levels"], net["levels"]), "softmax": (
        net["levels"], net["levels"] + 1)}.get(net["output"], (1, 1))
    target = f["ensemble_column"][()][ensembles]
    target = target[:, target[0] >= 0].repeat(quantities, 1).ravel()
    column = ensembles[0] * len(target) if "by" in f else column
    fitted = f.get("calibration", {})
    std, noise = (fitted[name][column:column + len(target)] if name in fitted else np.full(len(target), other)
                  for name, other in (("std_scale", 1.0), ("noise", 0.0)))
    scale, by = s["y_scale"][()][target], transforms(texts(s["y_normalize"]))[target]
    cohort = {"networks": networks, "targets": int(net["layer_out"][net["n_layers"] - 1] // outputs),
              "output": net["output"], "variance_floor": float(net["variance_floor"]),
              "ensembles": len(ensembles), "ensemble": of, "share": weight / np.bincount(of, weight)[of],
              "scale": scale, "offset": s["y_mean"][()][target], "std_scale": scale * std,
              "noise": scale * noise,
              "y_lambda": s["y_lambda"][()][target], "transform": by, "of_member": ensembles[of],
              "member_index": f["member_index"][()][members],
              "units": np.where(net["output"] in ("softmax", "sigmoid"), "1", texts(f["names/target_units"])[target]),
              "of_column": np.repeat(ensembles, len(target) // len(ensembles))}
    if "y_component" in s:
        cohort.update(component=s["y_component"][()], component_mean=s["y_component_mean"][()],
                      residual_variance=s["y_residual"][()])
    return cohort


def find_group(f, group):
    """Number of the ensemble of a group, for a small group of that of all rows."""
    names = list(texts(f["ensemble_name"]))
    if "(pooled)" in names and "by/small_name" in f and group in texts(f["by/small_name"]):
        group = "(pooled)"
    if group not in names:
        raise ValueError(f"no group {group!r}; choose one of the {len(names)}, for example {names[-1]!r}")
    return names.index(group)


def read_model(f, group=None):
    """What predictions need of an open model.h5: the members with a weight, and all scales."""
    s, first, of = f["scaler"], f["ensemble_first"][()], f["net/network_of_member"][()]
    groups = np.split(np.arange(len(first)), 1 + np.nonzero(np.diff(of[first]))[0])
    if group is not None or "by" in f:
        groups = [[find_group(f, group)]]
        s = {name: item[groups[0][0]] if item.dtype.kind == "f" else item for name, item in s.items()}
    column = f.get("network_input_column", np.arange(len(s["x_mean"])))[()].astype(np.int64)
    kind = f.get("network_input_kind", np.zeros(len(column)))[()]
    amounts = lambda name, other: np.where(kind == 0, s[name][()][column] if name in s else other, other)
    cohorts, columns = [], 0
    for ensembles in groups:
        cohorts.append(read_cohort(f, s, np.array(ensembles), columns))
        columns += len(cohorts[-1]["scale"])
    join = lambda name: np.concatenate([cohort[name] for cohort in cohorts])
    return {"cohorts": cohorts, "x_mean": amounts("x_mean", 0.0), "x_scale": amounts("x_scale", 1.0),
            "x_lambda": amounts("x_lambda", 0.0), "x_fill": amounts("x_fill", np.nan),
            "x_transform": np.where(kind == 0, transforms(texts(s["x_normalize"]))[column], "identity"),
            "mapped": "network_input_column" in f or "x_fill" in s, "x_column": column,
            "is_level": kind == 1, "is_missing": kind == 2,
            "x_level": f.get("network_input_level", np.full(len(column), np.nan))[()],
            "level_name": list(texts(f["network_input_level_name"])) if "network_input_level_name" in f else [],
            "input_name": list(texts(f["names/feature_name"])),
            "input_units": list(texts(f["names/feature_units"])),
            "column_ensemble": list(texts(f["ensemble_name"])[join("of_column")]),
            "member_ensemble": list(texts(f["ensemble_name"])[join("of_member")]),
            "member_index": join("member_index").tolist(),
            "column_label": list(texts(f["column_label"])), "column_units": list(join("units"))}


def tensor(array):
    return torch.tensor(array, dtype=torch.float64)


class FrontLayer(nn.Module):
    """One layer of all members, which are groups of its channels."""

    def __init__(self, get, members):
        super().__init__()
        self.kind, self.pool = get("kind"), get("pool")
        self.source, self.skip, self.activates_sum = get("source"), get("skip"), get("activates_sum")
        self.activation, self.groups = get("activation"), get("groups", 1) * members
        self.size, self.stride, self.pad, self.dilation = (
            get(name) for name in ("size", "stride", "pad", "dilation"))
        self.weight, self.bias = (None if array is None else nn.Parameter(tensor(array).flatten(0, 1))
                                  for array in (get("weight"), get("bias")))
        for name in ("running_mean", "running_variance"):  # of batch_norm
            self.register_buffer(name, None if get(name) is None else tensor(get(name)).flatten(0, 1))

    def forward(self, results):
        """The result from those of the inputs and of the layers before."""
        z = FRONT[self.kind](self, results[self.source])
        skip = results[self.skip] if self.skip >= 0 else 0
        activation = ACTIVATION[self.activation]
        return activation(z + skip) if self.activates_sum else activation(z) + skip


class Front(nn.Module):
    """Layers for images and profiles: inputs (row, input) -> features (member, row, feature)."""

    def __init__(self, get, members):
        super().__init__()
        self.members, self.shape = members, get("front_shape").tolist()
        self.layers = nn.ModuleList(FrontLayer(layer.get, members) for layer in get("front"))

    def forward(self, x):
        channels, height, width = self.shape
        h = x.reshape(-1, 1, channels, height, width).expand(-1, self.members, -1, -1, -1)
        results = [h.flatten(1, 2)]
        for layer in self.layers:
            results.append(layer(results))
        return results[-1].reshape(x.shape[0], self.members, -1).transpose(0, 1)


class Layer(nn.Module):
    """One layer of all members: (row, in) or (member, row, in) -> (member, row, out)."""

    def __init__(self, get):
        super().__init__()
        self.weight = nn.Parameter(tensor(get("weight")))  # (member, out, in)
        self.bias = nn.Parameter(tensor(get("bias")).unsqueeze(1))
        self.residual, self.activation = get("residual"), get("activation")
        self.gain, self.shift = (None if array is None else nn.Parameter(tensor(array).unsqueeze(1))
                                 for array in (get("gain"), get("shift")))

    def forward(self, h):
        z = h @ self.weight.transpose(1, 2) + self.bias
        if self.gain is not None:
            z = F.layer_norm(z, z.shape[-1:], eps=LAYER_NORM_EPSILON) * self.gain + self.shift
        z = ACTIVATION[self.activation](z)
        return z + h if self.residual else z


class Network(nn.Module):
    """Members with one network: normalized inputs (row, input) -> outputs (member, row, output)."""

    def __init__(self, get):
        super().__init__()
        self.front = Front(get, get("members")) if get("front") else nn.Identity()
        self.layers = nn.Sequential(*(Layer(layer.get) for layer in get("layers")))

    def forward(self, h):
        return self.layers(self.front(h))


class Cohort(nn.Module):
    """Ensembles whose networks have the same shape, or one ensemble of several networks:
    normalized inputs (row, input) -> results."""

    def __init__(self, get):
        super().__init__()
        ensembles, of = get("ensembles"), get("ensemble")
        self.networks = nn.ModuleList(Network(network.get) for network in get("networks"))
        self.targets, self.output = get("targets"), get("output")
        self.variance_floor = get("variance_floor")
        self.register_buffer("ensemble", torch.tensor(of))  # of each member
        self.register_buffer("share", tensor(get("share") * (of == np.arange(ensembles)[:, None])))
        for name in ("component", "component_mean", "residual_variance"):
            self.register_buffer(name, None if get(name) is None else tensor(get(name)))
        column = of[:, None] * (len(get("scale")) // ensembles)
        column = (column + np.arange(len(get("scale")) // ensembles))[:, None]  # (member, 1, value)
        for name in ("scale", "offset", "std_scale", "noise", "y_lambda"):
            self.register_buffer(name, tensor(get(name)[column]))
        kind = get("transform")[column]
        self.undo = [name for name in UNDO if (kind == name).any()]
        for name in self.undo:
            self.register_buffer(name, torch.tensor(kind == name))

    def normalized(self, h):
        """Mean and variance of each member (member, row, value), of normalized targets."""
        h = torch.cat([network(h) for network in self.networks])
        o = h.reshape(*h.shape[:2], -1, self.targets).transpose(2, 3)
        mu, v = (a.flatten(2) for a in OUTPUT[self.output](o, self.variance_floor))
        if self.component is not None:  # amplitudes of components -> targets
            mu = mu @ self.component + self.component_mean
            v = v @ self.component ** 2 + self.residual_variance
        return mu, v

    def members(self, h):
        """Mean and variance of each member (member, row, value), without recalibration."""
        mu, v = self.normalized(h)
        return self.without_transforms(mu * self.scale + self.offset, v * self.scale ** 2)

    def forward(self, h):
        mu, v, added = self.in_user_units(*self.normalized(h))
        mean, within = self.average(mu), self.average(v)
        between = self.average((mu - self.of_members(mean)) ** 2 + added)
        mean, within, between = (a.flatten(1) for a in (mean, within, between))
        return [mean, *(torch.sqrt(a) for a in (within + between, within, between))]

    def in_user_units(self, mu, v):
        """Recalibrated, with transforms undone; and what recalibration adds to the variances."""
        center = self.of_members(self.average(mu))
        apart = self.of_members(self.average((mu - center) ** 2))
        near = torch.minimum(self.std_scale, self.scale)
        mu = center * self.scale + self.offset + (mu - center) * near
        v = v * self.std_scale ** 2 + self.noise ** 2
        own = self.without_transforms(mu, v)[1]
        mu, v = self.without_transforms(mu, v + (self.std_scale ** 2 - near ** 2) * apart)
        return mu, own, v - own

    def without_transforms(self, mu, v):
        for name in self.undo:
            here = getattr(self, name)
            mean, variance = UNDO[name](torch.where(here, mu, torch.zeros_like(mu)),
                                        torch.where(here, v, torch.ones_like(v)), self.y_lambda)
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

    def __init__(self, file=None, group=None):
        super().__init__()
        with h5py.File(file or io.BytesIO(base64.b64decode(MODEL))) as model:
            f = read_model(model, group)
        for name in ("input_name", "input_units", "level_name", "column_ensemble", "column_label",
                     "column_units", "member_ensemble", "member_index"):
            setattr(self, name, f[name])
        self.transform = f["x_transform"].tolist()
        for name in ("x_mean", "x_scale", "x_lambda"):
            self.register_buffer(name, tensor(f[name]))
        self.mapped = f["mapped"]
        if self.mapped:
            for name in ("x_column", "is_level", "is_missing"):
                self.register_buffer(name, torch.tensor(f[name]))
            for name in ("x_level", "x_fill"):
                self.register_buffer(name, tensor(f[name]))
        self.cohorts = nn.ModuleList(Cohort(cohort.get) for cohort in f["cohorts"])

    def net_inputs(self, x):
        """Levels and indicators of missing values as 0 or 1, missing amounts filled."""
        v = x[:, self.x_column]
        amount = torch.where(v.isnan(), self.x_fill, v)
        other = torch.where(self.is_missing, v.isnan().to(v), amount)
        return torch.where(self.is_level, (v == self.x_level).to(v), other)

    def normalized(self, x):
        x = x.to(self.x_mean.dtype)
        if self.mapped:
            x = self.net_inputs(x)
        t = torch.stack([TRANSFORM[name](x[:, i], self.x_lambda[i])
                         for i, name in enumerate(self.transform)], 1)
        return (t - self.x_mean) / self.x_scale

    def members(self, x):
        """Mean and variance of each member, (member, row, column of its ensemble), without
        recalibration; NaN beyond the columns of its ensemble."""
        h = self.normalized(x)
        each = [cohort.members(h) for cohort in self.cohorts]
        width = max(mean.shape[2] for mean, _ in each)
        return tuple(torch.cat([F.pad(a, (0, width - a.shape[2]), value=torch.nan) for a in part])
                     for part in zip(*each))

    def forward(self, x):
        h = self.normalized(x)
        return tuple(torch.cat(a, 1) for a in zip(*(cohort(h) for cohort in self.cohorts)))


# model.h5 in base64.
