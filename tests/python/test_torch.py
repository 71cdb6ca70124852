"""tutti.torch: networks, optimizers and losses of PyTorch, their weights after twenty steps, and a
module with a loss of one's own. Needs torch, which CI does not install: it is 200 MB and more.
"""
import unittest

import numpy as np

import common  # finds the package of the tree
import tutti

try:
    import torch
    from torch import nn
    import tutti.torch
except ImportError:
    torch = None

STEPS = 20


def network():
    return nn.Sequential(nn.Linear(5, 16), nn.LayerNorm(16), nn.SiLU(),
                         nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(8), nn.SiLU()), nn.Linear(8, 2))


@unittest.skipUnless(torch, "torch is not installed")
class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x, self.y = torch.randn(40, 5), torch.randn(40, 2)

    def farthest(self, trainer, nets):
        return max(np.abs(trainer.get_weights(m) - tutti.torch.weights(net)).max()
                   for m, net in enumerate(nets))

    def follow(self, make, loss, y=None, net=network):
        """Largest distance of the weights after the same steps in torch and here."""
        y = self.y if y is None else y
        nets = [net() for _ in range(3)]
        optimizers = [make(net.parameters()) for net in nets]
        trainer = tutti.torch.trainer(nets, optimizers[0], loss, batch_size=40)
        for _ in range(STEPS):
            trainer.step(self.x, y)
            for net, optimizer in zip(nets, optimizers):
                optimizer.zero_grad()
                loss(net(self.x), y).backward()
                optimizer.step()
        return self.farthest(trainer, nets)

    def test_optimizers(self):
        optim = torch.optim
        for make in (lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
                     lambda p: optim.SGD(p, lr=0.05), lambda p: optim.Adam(p, weight_decay=1e-2),
                     lambda p: optim.Adam(p, lr=1e-2, amsgrad=True),
                     lambda p: optim.AdamW(p, lr=1e-2, betas=(0.8, 0.99)),
                     lambda p: optim.RMSprop(p, lr=1e-3, momentum=0.5),
                     lambda p: optim.Adagrad(p, lr=1e-2)):
            with self.subTest(make([torch.zeros(1)])):
                self.assertLess(self.follow(make, nn.MSELoss()), 5e-5)

    def test_losses(self):
        labels = torch.randint(0, 2, (40, 2)).float()
        for loss, y in ((nn.L1Loss(), None), (nn.HuberLoss(delta=0.3), None),
                        (nn.SmoothL1Loss(), None), (nn.BCEWithLogitsLoss(), labels),
                        (nn.PoissonNLLLoss(), torch.randint(0, 5, (40, 2)).float())):
            with self.subTest(loss):
                self.assertLess(self.follow(lambda p: torch.optim.SGD(p, lr=1e-2), loss, y), 5e-5)

    def test_classes(self):
        nets = [nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4)) for _ in range(2)]
        loss, label = nn.CrossEntropyLoss(), torch.randint(0, 4, (40,))
        optimizers = [torch.optim.Adam(net.parameters(), lr=1e-2) for net in nets]
        trainer = tutti.torch.trainer(nets, optimizers[0], loss, batch_size=40)
        for _ in range(STEPS):
            trainer.step(self.x, label)
            for net, optimizer in zip(nets, optimizers):
                optimizer.zero_grad()
                loss(net(self.x), label).backward()
                optimizer.step()
        self.assertLess(self.farthest(trainer, nets), 5e-5)

    def test_own_loss(self):
        """A joint loss of all members, and its gradient by the inputs."""
        rate = {"lr": 1e-2}
        trainer = tutti.torch.trainer([network() for _ in range(3)],
                                      torch.optim.Adam([torch.zeros(1)], **rate), batch_size=40)
        ensemble = tutti.torch.Ensemble(trainer)
        nets = [tutti.torch.module(trainer, network(), m) for m in range(3)]
        optimizers = [torch.optim.Adam(net.parameters(), **rate) for net in nets]

        def joint(outputs):
            return ((outputs.mean(0) - self.y) ** 2).mean() + 0.1 * outputs.var(0).mean()

        for _ in range(STEPS):
            here, there = (self.x.clone().requires_grad_() for _ in range(2))
            joint(ensemble(here)).backward()
            ensemble.step()
            for optimizer in optimizers:
                optimizer.zero_grad()
            joint(torch.stack([net(there) for net in nets])).backward()
            for optimizer in optimizers:
                optimizer.step()
            torch.testing.assert_close(here.grad, there.grad, rtol=0, atol=1e-6)
        self.assertLess(self.farthest(trainer, nets), 5e-5)
        outputs = ensemble(self.x)
        ensemble.eval()
        torch.testing.assert_close(ensemble(self.x), outputs.detach(), rtol=0, atol=1e-6)
        ensemble.train()
        outputs.sum().backward()
        ensemble.step()
        with self.assertRaisesRegex(RuntimeError, "no longer those of forward"):
            outputs = ensemble(self.x)
            ensemble(self.x).sum().backward()
            ensemble.step()
            outputs.sum().backward()

    def test_members_of_a_model(self):
        x, y = self.x.numpy() * 3 + 1, self.y.numpy()
        for options in ({"activation": "gelu", "layer_norm": True}, {"activation": "identity"},
                        {"activation": "leaky_relu", "loss": "gaussian_nll"}):
            ensemble = tutti.Ensemble(**{**common.SMALL, "hidden": [6, 5], **options}).fit(x, y)
            model = ensemble.run_.model
            a, nets = model.arrays(), tutti.torch.members(model)
            normalized = torch.tensor((x - a["x_mean"]) / a["x_scale"], dtype=torch.float32)
            outputs = torch.stack([net(normalized) for net in nets])[..., :2].detach().numpy()
            want = model.predict(x, members=True).member_mean
            np.testing.assert_allclose(outputs * a["y_scale"] + a["y_mean"], want, rtol=0, atol=1e-5)
        ensemble = tutti.Ensemble(**{**common.SMALL, "hidden": [6, 6], "residual": True}).fit(x, y)
        with self.assertRaisesRegex(ValueError, "residual layers"):
            tutti.torch.members(ensemble.run_.model)

    def test_second_derivatives_are_refused(self):
        ensemble = tutti.torch.Ensemble(tutti.torch.trainer(network(), members=2, batch_size=40))
        x = self.x.requires_grad_()
        slope, = torch.autograd.grad((ensemble(x) ** 2).sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "once_differentiable"):
            slope.sum().backward()

    def test_refusals_name_what_is_wrong(self):
        linear = nn.Linear
        for net, words in (
                (nn.Sequential(nn.Conv1d(1, 1, 1)), "layer 0: Conv1d"),
                (nn.Sequential(linear(2, 2), nn.BatchNorm1d(2)), "layer 1: BatchNorm1d"),
                (linear(2, 2), "only nn.Sequential"),
                (nn.Sequential(linear(2, 2, bias=False)), "bias=False"),
                (nn.Sequential(linear(2, 2), nn.GELU("tanh"), linear(2, 1)), "approximate='tanh'"),
                (nn.Sequential(linear(2, 2), nn.ReLU()), "behind the last Linear"),
                (nn.Sequential(linear(2, 2), nn.ReLU(), linear(2, 2), nn.Tanh(), linear(2, 1)),
                 "the same activation")):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                tutti.torch.trainer(net, members=2)
        weight = [torch.zeros(1)]
        for optimizer, words in (
                (torch.optim.RMSprop(weight, centered=True), "centered=True"),
                (torch.optim.Adamax(weight), "Adamax has no counterpart"),
                (torch.optim.SGD([{"params": weight}, {"params": [torch.ones(1)]}]), "param_groups")):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                tutti.torch.optimizer_options(optimizer)
        for loss, words in ((nn.GaussianNLLLoss(), "gaussian_nll"), (nn.MSELoss(reduction="sum"), "reduction"),
                            (nn.CrossEntropyLoss(label_smoothing=0.1), "label_smoothing"),
                            (nn.SmoothL1Loss(beta=0.5), "beta=0.5"), (nn.KLDivLoss(), "no counterpart")):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                tutti.torch.loss_options(loss)


if __name__ == "__main__":
    unittest.main()
