#!/usr/bin/env python3
"""The same as q_learning.py with PyTorch: same chain, batches, masks, and weights at the start.

All heads are in one: stacked weights and torch.baddbmm. The options are those of q_learning.py.
"""
import numpy as np
import torch

import q_learning


def start_weights(heads, inputs, seed):
    """[W1 (heads, in, out), b1 (heads, 1, out), W2, ...] of tutti before the first step."""
    trainer = q_learning.Heads(heads, inputs, seed).online
    flat = torch.from_numpy(np.stack([trainer.get_weights(m) for m in range(heads)]))
    sizes, at, found = [inputs, *q_learning.HIDDEN, 2], 0, []
    for n_in, n_out in zip(sizes, sizes[1:]):
        weights = flat[:, at:at + n_in * n_out].reshape(heads, n_out, n_in).transpose(1, 2)
        at += n_in * n_out
        found += [weights.contiguous(), flat[:, at:at + n_out].reshape(heads, 1, n_out).clone()]
        at += n_out
    return found


def values_of(weights, x):
    """Value of each action, (heads, rows, 2)."""
    h = torch.from_numpy(x).expand(len(weights[0]), -1, -1)
    for i in range(0, len(weights), 2):
        h = torch.baddbmm(weights[i + 1], h, weights[i])
        h = torch.relu(h) if i + 2 < len(weights) else h
    return h


class TorchHeads:
    """q_learning.Heads in PyTorch."""

    def __init__(self, heads, inputs, seed):
        torch.set_num_threads(1)
        self.online = [torch.nn.Parameter(w) for w in start_weights(heads, inputs, seed)]
        self.adam = torch.optim.Adam(self.online, lr=q_learning.RATE)
        self.copy_to_targets()

    def values(self, x):
        with torch.no_grad():
            return values_of(self.online, x).numpy()

    def target_values(self, x):
        return values_of(self.target, x).numpy()

    def learn(self, x, action, goal, mask):
        """One step of Adam for the sum of the losses of the heads."""
        picked = values_of(self.online, x)[:, torch.arange(len(action)), torch.from_numpy(action)]
        loss = (torch.from_numpy(mask) * (picked - torch.from_numpy(goal)) ** 2).sum()
        self.adam.zero_grad()
        (loss / (2 * len(action))).backward()
        self.adam.step()

    def copy_to_targets(self):
        self.target = [w.detach().clone() for w in self.online]


if __name__ == "__main__":
    q_learning.main(TorchHeads)
