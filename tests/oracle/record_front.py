#!/usr/bin/python3
"""Record what PyTorch does in twenty steps with networks for images and profiles: tests/data/fronts.h5,
to which tests/laws/test_oracle.c holds the engines. Needs Debian's python3-torch, python3-h5py.
Usage: record_front.py FILE

Full batches, Adam, mean squared error, tanh, double precision. A group of the file is a network: its
attributes `front`, `axes` and `shape` are those of model.front, `init` and `weights` are flat as in
core/model/model.h: the layers of the front in order, then one dense layer.
"""
import sys

import h5py
import numpy as np
import torch
from torch import nn

STEPS, ROWS, RATE = 20, 24, 0.0078125
CASES = {
    "conv_image": (2, [2, 6, 5], "conv 4 3, conv 3 2 stride 2 pad 1"),
    "conv_profile": (1, [3, 1, 14], "conv 4 3 pad 0, conv 6 3 stride 2 pad 2 dilation 2"),
    "groups": (2, [4, 4, 4], "conv 6 3 groups 2, conv 4 1 groups 2"),
    "pool_max": (2, [1, 6, 7], "conv 5 3, pool max 2, pool max 2 stride 1"),
    "pool_mean": (2, [1, 6, 7], "conv 5 3, pool mean 3 stride 2"),
    "group_norm": (2, [1, 5, 5], "conv 4 3, group_norm 2, pool mean 2, group_norm 1"),
    "global_mean": (1, [2, 1, 11], "conv 6 5, global_mean"),
    "residual_net": (2, [1, 8, 8], "conv 8 3, group_norm 4, residual 4, conv 8 3, group_norm 2, conv 8 3, "
                                   "group_norm 2, conv 12 3 stride 2, residual 2, conv 12 3, conv 12 3, "
                                   "pool max 2, residual 1, conv 12 3 groups 3, global_mean"),
    "batch_norm": (1, [2, 1, 12], "conv 4 3, batch_norm, pool max 3 stride 2 pad 1, batch_norm, "
                                  "conv 3 3 activation none, pool mean 3 stride 2 pad 1"),
    "project": (2, [2, 6, 6], "conv 3 3, residual 2 project, conv 4 3 stride 2, conv 4 3, "
                              "residual 2 activate, conv 5 3, conv 4 3"),
    "resnet": (2, [1, 12, 12], "conv 4 5 stride 2 pad 2, batch_norm, pool max 3 stride 2 pad 1, basic 4 times 2, "
                               "basic 6 stride 2 times 2, global_mean"),
}


BASIC = "residual 4 {project}activate, conv {n} 3 stride {stride}, batch_norm, conv {n} 3, batch_norm"


def expand(rows, channels):
    """The rows, with those of a residual block for `basic`."""
    for row in rows.split(", "):
        words = row.split()
        if words[0] != "basic":
            yield row
            channels = int(words[1]) if words[0] == "conv" else channels
            continue
        option = dict(zip(words[2::2], map(int, words[3::2])))
        for k in range(option.get("times", 1)):
            stride = 1 if k else option.get("stride", 1)
            project = "project " if stride > 1 or channels != int(words[1]) else ""
            channels = int(words[1])
            yield from BASIC.format(n=channels, stride=stride, project=project).split(", ")


class Layer(nn.Module):
    """A layer that reads result `source`, and adds result `skip` unless None: before tanh with `sums`."""

    def __init__(self, layer, source, active=False):
        super().__init__()
        self.layer, self.source, self.active, self.skip, self.sums = layer, source, active, None, False


class Front(nn.Module):
    """The rows of model.front; an image is a tensor [rows][channels][height][width], as is a profile of
    height 1. Result 0 is the inputs, result i that of layer i."""

    def __init__(self, axes, shape, rows):
        super().__init__()
        self.axes, self.channels, self.layers = axes, shape[0], nn.ModuleList()
        words, span = [row.split() for row in expand(rows, shape[0])], None
        for i, row in enumerate(words):
            if row[0] == "residual":
                span = {"left": int(row[1]), "begin": len(self.layers), "channels": self.channels, "stride": 1,
                        "options": row[2:]}
                continue
            follows = words[i + 1][0] if i + 1 < len(words) else ""
            before = words[i - 1] if i else [""]
            norm = ("group_norm", "batch_norm")
            active = row[0] == "conv" and follows not in norm or row[0] in norm and before[0] == "conv"
            row_of_activation = row if row[0] == "conv" else before
            active = active and row_of_activation[-2:] != ["activation", "none"]
            option = dict(zip(row[3::2], row[4::2]))
            self.layers.append(Layer(self.make(row, option, follows != "batch_norm"), len(self.layers), active))
            if span:
                span["left"] -= 1
                span["stride"] *= int(option.get("stride", 1))
                if span["left"] == 0:
                    self.end(span, row)
                    span = None

    def make(self, row, option, bias):
        if row[0] == "conv":
            size, reach, channels = int(row[2]), int(option.get("dilation", 1)), self.channels
            pad = int(option.get("pad", reach * (size - 1) // 2))
            self.channels = int(row[1])
            return nn.Conv2d(channels, self.channels, self.pair(size, 1), self.pair(int(option.get("stride", 1)), 1),
                             self.pair(pad, 0), self.pair(reach, 1), int(option.get("groups", 1)), bias)
        if row[0] == "group_norm":
            return nn.GroupNorm(int(row[1]), self.channels)
        if row[0] == "batch_norm":
            return nn.BatchNorm2d(self.channels)
        if row[0] == "pool":
            size, pad = int(row[2]), int(option.get("pad", 0))
            kind = nn.MaxPool2d if row[1] == "max" else nn.AvgPool2d
            return kind(self.pair(size, 1), self.pair(int(option.get("stride", size)), 1), self.pair(pad, 0))
        return nn.AdaptiveAvgPool2d(1)

    def end(self, span, row):
        """The last row of a residual: its input is added, after a 1 x 1 convolution with `project`."""
        last, skip = self.layers[-1], span["begin"]
        if "project" in span["options"]:
            skip, bias = len(self.layers), row[0] != "batch_norm"
            conv = nn.Conv2d(span["channels"], self.channels, 1, self.pair(span["stride"], 1), bias=bias)
            self.layers.append(Layer(conv, span["begin"]))
            if row[0] == "batch_norm":
                self.layers.append(Layer(nn.BatchNorm2d(self.channels), len(self.layers)))
        end = self.layers[-1]
        end.skip = skip
        if "activate" in span["options"]:
            active, last.active = last.active, False
            end.active, end.sums = active, True

    def pair(self, n, other):
        return (n if self.axes == 2 else other, n)

    def forward(self, x):
        results = [x]
        for layer in self.layers:
            x = layer.layer(results[layer.source])
            if layer.sums:
                x = x + results[layer.skip]
            x = torch.tanh(x) if layer.active else x
            if layer.skip is not None and not layer.sums:
                x = x + results[layer.skip]
            results.append(x)
        return x.flatten(1)


def flat(net):
    """All parameters and the running values of batch_norm, layer by layer."""
    values = [p for name, p in net.state_dict().items() if not name.endswith("num_batches_tracked")]
    return torch.cat([p.detach().reshape(-1) for p in values]).numpy()


def run(file, name, axes, shape, rows):
    rng = np.random.default_rng(len(name))
    x = rng.uniform(-1, 1, (ROWS, *shape)).astype(np.float32)
    y = np.sin(3 * x.mean((1, 2, 3)) + x[:, 0, 0, 0])[:, None].astype(np.float32)
    torch.manual_seed(len(name))
    front = Front(axes, shape, rows).double()
    inputs, labels = torch.tensor(x).double(), torch.tensor(y).double()
    front.eval()
    net = nn.Sequential(front, nn.Linear(front(inputs).shape[1], 1, dtype=torch.float64)).train()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.tensor(p.numpy().astype(np.float32)).double())
    group, losses = file.create_group(name), []
    group["init"] = flat(net).astype(np.float32)
    opt = torch.optim.Adam(net.parameters(), RATE)
    for _ in range(STEPS):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(inputs), labels)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    group["weights"], group["loss"] = flat(net).astype(np.float32), np.array(losses)
    group["x"], group["y"] = x.reshape(ROWS, -1), y
    group.attrs["front"], group.attrs["axes"] = np.bytes_(rows), np.int32(axes)
    group.attrs["shape"] = np.array(shape, np.int64)


def main():
    with h5py.File(sys.argv[1], "w", libver="latest") as file:
        file.attrs["torch"] = np.bytes_(torch.__version__)
        for name, case in CASES.items():
            run(file, name, *case)


if __name__ == "__main__":
    main()
