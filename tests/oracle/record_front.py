#!/usr/bin/python3
"""Record what PyTorch does in twenty steps with networks for images and profiles: tests/data/fronts.h5,
to which tests/laws/test_front_oracle.c holds the engines. Needs Debian's python3-torch, python3-h5py.
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
}


class Front(nn.Module):
    """The rows of model.front; an image is a tensor [rows][channels][height][width], as is a profile of
    height 1."""

    def __init__(self, axes, shape, rows):
        super().__init__()
        self.axes, self.spans, self.rows = axes, [], []
        channels = shape[0]
        self.layers = nn.ModuleList()
        words = [row.split() for row in rows.split(", ")]
        for i, row in enumerate(words):
            if row[0] == "residual":
                self.spans.append((len(self.layers), len(self.layers) + int(row[1])))
                continue
            option = dict(zip(row[3::2], map(int, row[4::2])))
            if row[0] == "conv":
                size, reach = int(row[2]), option.get("dilation", 1)
                pad = option.get("pad", reach * (size - 1) // 2)
                layer = nn.Conv2d(channels, int(row[1]), self.pair(size, 1), self.pair(option.get("stride", 1), 1),
                                  self.pair(pad, 0), self.pair(reach, 1), option.get("groups", 1))
                channels = int(row[1])
            elif row[0] == "group_norm":
                layer = nn.GroupNorm(int(row[1]), channels)
            elif row[0] == "pool":
                size = int(row[2])
                kind = nn.MaxPool2d if row[1] == "max" else nn.AvgPool2d
                layer = kind(self.pair(size, 1), self.pair(option.get("stride", size), 1))
            else:
                layer = nn.AdaptiveAvgPool2d(1)
            follows = words[i + 1][0] if i + 1 < len(words) else ""
            before = words[i - 1][0] if i else ""
            active = row[0] == "conv" and follows != "group_norm" or row[0] == "group_norm" and before == "conv"
            self.layers.append(layer)
            self.rows.append(active)

    def pair(self, n, other):
        return (n if self.axes == 2 else other, n)

    def forward(self, x):
        results = [x]
        for i, layer in enumerate(self.layers):
            x = layer(x)
            x = torch.tanh(x) if self.rows[i] else x
            for begin, end in self.spans:
                x = x + results[begin] if end == i + 1 else x
            results.append(x)
        return x.flatten(1)


def flat(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()]).numpy()


def run(file, name, axes, shape, rows):
    rng = np.random.default_rng(len(name))
    x = rng.uniform(-1, 1, (ROWS, *shape)).astype(np.float32)
    y = np.sin(3 * x.mean((1, 2, 3)) + x[:, 0, 0, 0])[:, None].astype(np.float32)
    torch.manual_seed(len(name))
    front = Front(axes, shape, rows).double()
    inputs, labels = torch.tensor(x).double(), torch.tensor(y).double()
    net = nn.Sequential(front, nn.Linear(front(inputs).shape[1], 1, dtype=torch.float64))
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
