"""examples/q-learning in short: the heads find the way, and PyTorch does the same."""
import sys
import unittest

import numpy as np

from common import ROOT

sys.path.insert(0, str(ROOT / "examples" / "q-learning"))
import q_learning  # noqa: E402

try:
    import torch
    import torch_peer
except ImportError:
    torch = None

STATES, HEADS, SEED = 6, 16, 1
BEST = 12  # of every chain


def play(kind, episodes, heads=HEADS):
    """The networks afterwards, and the returns."""
    networks = kind(heads, STATES, SEED)
    chain = q_learning.Chain(STATES, SEED)
    return networks, q_learning.train(networks, heads, chain, episodes, SEED)


class Example(unittest.TestCase):
    def test_the_heads_find_the_way(self):
        heads, returns = play(q_learning.Heads, 150)
        self.assertLess(returns[0], 1)  # the first episode does not arrive
        self.assertEqual(np.median(returns[-20:]), BEST)
        chain = q_learning.Chain(STATES, SEED)
        to_the_right = heads.values(chain.inputs).argmax(2) == chain.right
        self.assertGreater(to_the_right[:, 1:].mean(), 0.9)

    def test_heads_learn_from_their_own_transitions(self):
        heads = q_learning.Heads(4, STATES, SEED)
        before = [heads.online.get_weights(m) for m in range(4)]
        mask = np.zeros((4, STATES), dtype=np.float32)
        mask[2, 3] = 1
        x, action = np.eye(STATES, dtype=np.float32), np.zeros(STATES, dtype=int)
        heads.learn(x, action, np.ones(STATES, dtype=np.float32), mask)
        moved = [(heads.online.get_weights(m) != before[m]).any() for m in range(4)]
        self.assertEqual(moved, [False, False, True, False])

    @unittest.skipUnless(torch, "torch is not installed")
    def test_the_peer_does_the_same(self):
        ours, returns = play(q_learning.Heads, 12)
        peer, others = play(torch_peer.TorchHeads, 12)
        np.testing.assert_array_equal(returns, others)
        x = q_learning.Chain(STATES, SEED).inputs
        np.testing.assert_allclose(ours.values(x), peer.values(x), atol=1e-4)


if __name__ == "__main__":
    unittest.main()
