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
try:
    import torchvision
except ImportError:
    torchvision = None

STEPS = 20


def network():
    return nn.Sequential(nn.Linear(5, 16), nn.LayerNorm(16), nn.SiLU(),
                         nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(8), nn.SiLU()), nn.Linear(8, 2))


@unittest.skipUnless(torch, "torch is not installed")
class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)  # other tests run beside this one
        self.x, self.y = torch.randn(40, 5), torch.randn(40, 2)

    def farthest(self, trainer, nets):
        return max(np.abs(trainer.get_weights(m) - tutti.torch.weights(net)).max()
                   for m, net in enumerate(nets))

    def follow(self, make, loss, y=None, net=network, x=None, schedule=None, steps=STEPS, **options):
        """Largest distance of the weights after the same steps in torch and here."""
        x, y = self.x if x is None else x, self.y if y is None else y
        nets = [net() for _ in range(3)]
        optimizers = [make(net.parameters()) for net in nets]
        schedules = [schedule(optimizer) for optimizer in optimizers] if schedule else []
        if schedules:
            options.update(scheduler=schedules[0], epoch_rows=len(x))
        trainer = tutti.torch.trainer(nets, optimizers[0], loss, batch_size=len(x), **options)
        for _ in range(steps):
            trainer.step(x, y)
            for net, optimizer in zip(nets, optimizers):
                optimizer.zero_grad()
                loss(net(x), y).backward()
                optimizer.step()
            for each in schedules:
                each.step()
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

    def test_schedules(self):
        """Each epoch is one step, and each has another learning rate."""
        s = torch.optim.lr_scheduler
        for make, options in (
                (lambda o: s.StepLR(o, 3, 0.5), {}), (lambda o: s.MultiStepLR(o, [2, 5, 11]), {}),
                (lambda o: s.ExponentialLR(o, 0.9), {}),
                (lambda o: s.CosineAnnealingLR(o, STEPS, eta_min=1e-3), {"epochs": STEPS}),
                (lambda o: s.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=1e-4), {}),
                (lambda o: s.OneCycleLR(o, 0.1, total_steps=STEPS + 1, cycle_momentum=False), {})):
            with self.subTest(make(torch.optim.SGD([torch.zeros(1)], lr=0.05))):
                self.assertLess(self.follow(lambda p: torch.optim.SGD(p, lr=0.05), nn.MSELoss(),
                                            schedule=make, **options), 5e-5)

    def follow_images(self, net, **options):
        """Steps on images of 2 x 6 x 6; the members in eval mode are those of the trainer."""
        x, y = torch.randn(16, *options.get("image", options.get("profile"))), torch.randn(16, 2)
        far = self.follow(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), nn.MSELoss(), y, net, x,
                          steps=6, **options)
        self.assertLess(far, 5e-5)
        nets = [net() for _ in range(2)]
        trainer = tutti.torch.trainer(nets, batch_size=16, **options)
        trainer.step(x, y)
        for member in range(2):
            back = tutti.torch.module(trainer, net(), member).eval()
            torch.testing.assert_close(back(x).detach(), torch.from_numpy(trainer.predict(x)[member]),
                                       rtol=1e-4, atol=1e-4)

    def test_images_and_profiles(self):
        self.follow_images(lambda: nn.Sequential(
            nn.Conv2d(2, 6, 3, stride=2, padding=1, groups=2), nn.GroupNorm(3, 6), nn.SiLU(),
            nn.Conv2d(6, 4, 3, padding="same", dilation=2), nn.MaxPool2d(2, stride=1, padding=1),
            nn.Flatten(), nn.Linear(64, 5), nn.SiLU(), nn.Linear(5, 2)), image=[2, 6, 6])
        self.follow_images(lambda: nn.Sequential(
            nn.Conv1d(3, 6, 5, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.AvgPool1d(2, padding=1),
            nn.Conv1d(6, 4, 1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2)),
            profile=[3, 12])

    def test_residual_blocks(self):
        def norm(into, out, stride=1):
            return nn.Sequential(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out))

        self.follow_images(lambda: nn.Sequential(
            tutti.torch.Residual(nn.Sequential(norm(2, 4, 2), nn.ReLU(), norm(4, 4)),
                                 nn.Sequential(nn.Conv2d(2, 4, 1, 2, bias=False), nn.BatchNorm2d(4)),
                                 nn.ReLU()),
            tutti.torch.Residual(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.GELU())),
            nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(4, 6), nn.ReLU(),
            tutti.torch.Residual(nn.Sequential(nn.Linear(6, 6), nn.ReLU())), nn.Linear(6, 2)),
            image=[2, 6, 6])

    @unittest.skipUnless(torchvision, "torchvision is not installed")
    def test_resnets_of_torchvision(self):
        resnet = torchvision.models.resnet

        def small(block, out):
            down = nn.Sequential(nn.Conv2d(4, out, 1, 2, bias=False), nn.BatchNorm2d(out))
            return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
                                 block(4, 4, 2, down), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                 nn.Linear(out, 2))

        self.follow_images(lambda: small(resnet.BasicBlock, 4), image=[2, 6, 6])
        self.follow_images(lambda: small(resnet.Bottleneck, 16), image=[2, 6, 6])
        nets = [resnet.resnet18(num_classes=3).eval() for _ in range(2)]
        for net in nets:  # running values of a trained network
            for module in net.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.running_mean.normal_(0, 0.1)
                    module.running_var.uniform_(0.5, 2)
        trainer = tutti.torch.trainer(nets, loss=nn.CrossEntropyLoss(), image=[3, 32, 32], batch_size=4)
        x = torch.randn(4, 3, 32, 32)
        with torch.no_grad():
            for member, net in enumerate(nets):
                out = net(x).numpy()
                np.testing.assert_allclose(trainer.predict(x)[member], out, rtol=1e-3, atol=1e-3)
                back = tutti.torch.module(trainer, resnet.resnet18(num_classes=3), member).eval()
                np.testing.assert_array_equal(back(x).numpy(), out)

    def test_an_optimizer_of_torch(self):
        """Parameters of the module, and an optimizer that tutti does not have."""
        trainer = tutti.torch.trainer([network() for _ in range(3)], batch_size=40)
        ensemble = tutti.torch.Ensemble(trainer, parameters=True)
        nets = [tutti.torch.module(trainer, network(), m) for m in range(3)]
        optimizers = [torch.optim.NAdam(module.parameters(), lr=1e-2) for module in (ensemble, *nets)]
        for _ in range(STEPS):
            for optimizer in optimizers:
                optimizer.zero_grad()
            for outputs in (ensemble(self.x), torch.stack([net(self.x) for net in nets])):
                ((outputs - self.y) ** 2).mean((1, 2)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
        ensemble(self.x)  # gives the last weights to the trainer
        self.assertLess(self.farthest(trainer, nets), 5e-5)
        with self.assertRaisesRegex(RuntimeError, "of the optimizer that has the parameters"):
            ensemble.step()
        tutti.torch.set_member(trainer, nets[2], 0)
        np.testing.assert_array_equal(trainer.get_weights(0), tutti.torch.weights(nets[2]))

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
                        {"hidden": [6, 6, 6], "residual": True, "layer_norm": True},
                        {"activation": "leaky_relu", "loss": "gaussian_nll"}):
            ensemble = tutti.Ensemble(**{**common.SMALL, "hidden": [6, 5], **options}).fit(x, y)
            model = ensemble.run_.model
            a, nets = model.arrays(), tutti.torch.members(model)
            normalized = torch.tensor((x - a["x_mean"]) / a["x_scale"], dtype=torch.float32)
            outputs = torch.stack([net(normalized) for net in nets])[..., :2].detach().numpy()
            want = model.predict(x, members=True).member_mean
            np.testing.assert_allclose(outputs * a["y_scale"] + a["y_mean"], want, rtol=0, atol=1e-5)

    def test_second_derivatives_are_refused(self):
        ensemble = tutti.torch.Ensemble(tutti.torch.trainer(network(), members=2, batch_size=40))
        x = self.x.requires_grad_()
        slope, = torch.autograd.grad((ensemble(x) ** 2).sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "once_differentiable"):
            slope.sum().backward()

    def refuse_schedules(self, optimizer):
        s, net = torch.optim.lr_scheduler, nn.Sequential(nn.Linear(2, 1))
        old = s.StepLR(optimizer, 3)
        old.step()
        for schedule, words, options in (
                (s.ReduceLROnPlateau(optimizer), "ReduceLROnPlateau.*no validation rows", {}),
                (s.LambdaLR(optimizer, lambda e: 1), "LambdaLR.*set_learning_rate", {}),
                (old, "has taken 1 steps", {}),
                (s.OneCycleLR(optimizer, 1, 10, div_factor=10, cycle_momentum=False), "div_factor=10", {}),
                (s.StepLR(optimizer, 3), "give epoch_rows", {"epoch_rows": 0}),
                (s.CosineAnnealingLR(optimizer, 7), "ends after 7 epochs", {"epochs": 9})):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                tutti.torch.trainer(net, optimizer, scheduler=schedule, members=2,
                                    **{"epoch_rows": 20, **options})

    def test_refusals_name_what_is_wrong(self):
        linear = nn.Linear

        def behind(*modules):
            return nn.Sequential(*modules, nn.Flatten(), nn.LazyLinear(2))

        for net, words in (
                (nn.Sequential(linear(2, 2), nn.BatchNorm1d(2)), "layer 1: BatchNorm1d"),
                (linear(2, 2), "only nn.Sequential"),
                (nn.Sequential(linear(2, 2, bias=False)), "bias=False"),
                (nn.Sequential(linear(2, 2), nn.GELU("tanh"), linear(2, 1)), "approximate='tanh'"),
                (nn.Sequential(linear(2, 2), nn.ReLU()), "behind the last Linear"),
                (nn.Sequential(linear(2, 2), nn.ReLU(), linear(2, 2), nn.Tanh(), linear(2, 1)),
                 "the same activation"),
                (nn.Sequential(nn.Conv1d(1, 1, 1)), "no Linear"),
                (nn.Sequential(nn.ConvTranspose2d(1, 1, 1)), "layer 0: ConvTranspose2d before the first"),
                (behind(nn.Conv2d(2, 4, (3, 1))), r"Conv2d\(kernel_size=\(3, 1\)\): one number"),
                (behind(nn.Conv2d(2, 4, 3, padding_mode="circular")), "padding_mode='circular'"),
                (behind(nn.Conv2d(2, 4, 3, bias=False)), r"layer 0: Conv2d\(bias=False\) without Batch"),
                (behind(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)), "has no bias.*use bias=False"),
                (behind(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4)), "layer 1: InstanceNorm2d.*GroupNorm"),
                (behind(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), nn.ReLU()), "layer 2: ReLU.*Conv before it"),
                (behind(nn.Conv2d(2, 4, 3), nn.AdaptiveAvgPool2d(2)), "output_size=2"),
                (nn.Sequential(nn.Conv2d(2, 4, 3), nn.Linear(4, 2)), "needs a Flatten"),
                (behind(nn.Conv2d(2, 4, 3), nn.Conv1d(4, 4, 3)), "Conv1d and Conv2d"),
                (nn.Sequential(linear(2, 4), tutti.torch.Residual(linear(4, 4)), linear(4, 4),
                               linear(4, 1)), "all residual, or none")):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                tutti.torch.trainer(net, members=2, image=[2, 8, 8])
        with self.assertRaisesRegex(TypeError, r"give image=\[channels, height, width\]"):
            tutti.torch.trainer(behind(nn.Conv2d(2, 4, 3)), members=2)
        self.refuse_schedules(torch.optim.SGD([torch.zeros(1)], lr=0.1))
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
