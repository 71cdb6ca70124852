#!/usr/bin/python3
"""Record what PyTorch does in fifty steps: tests/data/oracle.h5, to which tests/laws/test_oracle.c holds
the engines. Needs Debian's python3-torch, python3-h5py.   Usage: record.py FILE

One small network, full batches, double precision. A group of the file is a run: the attribute
`settings` says what tutti is to be told ("key=value ..."), `init` and `weights` are flat as in
core/model/model.h: of each layer W [out][in], b, then gain and shift of its layer_norm; the first 24 rows
train, the others validate.
Schedules are stepped once an epoch, which is one step here; one_cycle and warm-up are per step anyway.
"""
import sys

import h5py
import numpy as np
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules
from torch.optim.swa_utils import AveragedModel

STEPS, KEPT, TARGETS, ROWS, CHECKS = 50, (10, 50), 2, 24, 12
LEVELS = torch.tensor([0.125, 0.5, 0.875], dtype=torch.float64)
FLOOR = 1e-3


def exact(a):
    """Numbers that a float holds."""
    return torch.tensor(np.asarray(a, np.float32).astype(np.float64))


class Hidden(nn.Module):
    def __init__(self, n_in, n_out, norm, residual):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out, dtype=torch.float64)
        self.norm = nn.LayerNorm(n_out, dtype=torch.float64) if norm else None
        self.residual = residual

    def forward(self, x):
        z = self.linear(x)
        y = torch.tanh(self.norm(z) if self.norm else z)
        return y + x if self.residual else y


def network(each, layers):
    """3 inputs, two hidden layers, `each` outputs a target; output j of target k is number j * K + k."""
    wide = 8 if layers else 6
    return nn.Sequential(Hidden(3, 8, layers, False), Hidden(8, wide, layers, layers),
                         nn.Linear(wide, each * TARGETS, dtype=torch.float64))


def data(output):
    rng = np.random.default_rng(1)
    x = exact(rng.uniform(-1, 1, (ROWS + CHECKS, 3)))
    y = torch.stack([torch.sin(2 * x[:, 0] + x[:, 1]), x[:, 2] * x[:, 0] - 0.5], 1)
    y = y + 0.1 * exact(rng.standard_normal((ROWS + CHECKS, TARGETS)))
    if output == "softmax":
        y = (y > -0.4).double() + (y > 0.3)
    if output == "sigmoid":
        y = (y > 0).double()
    if output == "rate":
        y = torch.floor(2 + 2 * y)
    return x, exact(y)


def nll(o, y):
    v = nn.functional.softplus(o[:, 1]) + FLOOR
    return 0.5 * (torch.log(v) + (y - o[:, 0]) ** 2 / v), v


def beta_nll(o, y):
    value, v = nll(o, y)
    return (value * v.detach() ** 0.5).mean()


def pinball(o, y):
    e = y[:, None, :] - o
    t = LEVELS[None, :, None]
    return torch.maximum(t * e, (t - 1) * e).mean()


def entropy(o, y):
    return nn.functional.cross_entropy(o, y.long())


# name: output, outputs a target, loss of outputs [N][each][K] and labels [N][K]
LOSSES = {
    "mse": ("mean", 1, lambda o, y: nn.MSELoss()(o[:, 0], y)),
    "mae": ("mean", 1, lambda o, y: nn.L1Loss()(o[:, 0], y)),
    "huber": ("mean", 1, lambda o, y: nn.HuberLoss(delta=0.25)(o[:, 0], y)),
    "gaussian_nll": ("mean_variance", 2, lambda o, y: nll(o, y)[0].mean()),
    "beta_nll": ("mean_variance", 2, beta_nll),
    "poisson": ("rate", 1, lambda o, y: nn.PoissonNLLLoss()(o[:, 0], y)),
    "bce": ("sigmoid", 1, lambda o, y: nn.BCEWithLogitsLoss()(o[:, 0], y)),
    "quantile": ("quantiles", 3, pinball),
    "cross_entropy": ("softmax", 3, entropy),
}
TOLD = {"gaussian_nll": "gaussian_nll nll_beta=0", "beta_nll": "gaussian_nll nll_beta=0.5"}  # to tutti

ADAM = dict(betas=(0.9, 0.99), eps=1e-8)
# name: what tutti is told, and how torch makes it of the parameters and a learning rate
OPTIMIZERS = {
    "sgd": ("optimizer=sgd", lambda p, lr: torch.optim.SGD(p, lr)),
    "momentum": ("optimizer=sgd momentum=0.9", lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)),
    "nesterov": ("optimizer=sgd momentum=0.9 nesterov=1 l2=0.01",
                 lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True, weight_decay=0.01)),
    "adam": ("optimizer=adam", lambda p, lr: torch.optim.Adam(p, lr, **ADAM)),
    "adam_l2": ("optimizer=adam l2=0.01",
                lambda p, lr: torch.optim.Adam(p, lr, weight_decay=0.01, **ADAM)),
    "adamw": ("optimizer=adamw weight_decay=0.1",
              lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.1, **ADAM)),
    "rmsprop": ("optimizer=rmsprop momentum=0.5",
                lambda p, lr: torch.optim.RMSprop(p, lr, alpha=0.99, eps=1e-8, momentum=0.5)),
    "amsgrad": ("optimizer=amsgrad",
                lambda p, lr: torch.optim.Adam(p, lr, amsgrad=True, **ADAM)),
    "amsgrad_decay": ("optimizer=amsgrad weight_decay=0.1",
                      lambda p, lr: torch.optim.AdamW(p, lr, amsgrad=True, weight_decay=0.1, **ADAM)),
}

# name: what tutti is told, and the scheduler of an optimizer with learning rate lr
SCHEDULES = {
    "constant": ("schedule=constant", lambda o, lr: schedules.LambdaLR(o, lambda t: 1.0)),
    "step": ("schedule=step schedule_step=7 schedule_gamma=0.5",
             lambda o, lr: schedules.StepLR(o, 7, 0.5)),
    "multistep": ("schedule=multistep milestones=10,30 schedule_gamma=0.25",
                  lambda o, lr: schedules.MultiStepLR(o, [10, 30], 0.25)),
    "exponential": ("schedule=exponential schedule_gamma=0.9375",
                    lambda o, lr: schedules.ExponentialLR(o, 0.9375)),
    "cosine": ("schedule=cosine schedule_min=0.125",
               lambda o, lr: schedules.CosineAnnealingLR(o, STEPS, eta_min=0.125 * lr)),
    "cosine_restarts": ("schedule=cosine_restarts schedule_step=5 growth=2 schedule_min=0.125",
                        lambda o, lr: schedules.CosineAnnealingWarmRestarts(o, 5, 2, 0.125 * lr)),
    "one_cycle": ("schedule=one_cycle peak=0.25",
                  lambda o, lr: schedules.OneCycleLR(o, lr, total_steps=STEPS, pct_start=0.25,
                                                     cycle_momentum=False)),
    "warmup": ("schedule=constant warmup=10",
               lambda o, lr: schedules.LambdaLR(o, lambda t: min(1.0, (t + 1) / 10))),
    "reduce_on_plateau": ("schedule=reduce_on_plateau schedule_step=2 schedule_gamma=0.5 "
                          "schedule_min=0.0625 min_delta=0.015625",
                          lambda o, lr: schedules.ReduceLROnPlateau(
                              o, factor=0.5, patience=2, threshold=0.015625, threshold_mode="abs",
                              min_lr=0.0625 * lr, eps=0)),
}

AVERAGES = {
    "ema": ("average=ema average_decay=0.875",
            lambda a, w, n: 0.875 * a + 0.125 * w),
    "swa": ("average=swa", None),
}


def flat(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()]).numpy()


def run(file, name, loss="mse", optimizer="adam", schedule="constant", average=None, layers=False,
        clip=0.0, lr=0.0078125):
    torch.manual_seed(len(name))
    output, each, value = LOSSES[loss]
    x, y = data(output)
    net = network(each, layers)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(exact(p))
    told, make = OPTIMIZERS[optimizer]
    opt = make(net.parameters(), lr)
    paced, pace = SCHEDULES[schedule]
    scheduler = pace(opt, lr)
    mean = AveragedModel(net, avg_fn=AVERAGES[average][1]) if average else None

    def loss_of(part):
        return value(net(x[part]).reshape(-1, each, TARGETS), y[part])

    group, kept = file.create_group(name), []
    group["init"] = flat(net).astype(np.float32)
    for step in range(1, STEPS + 1):
        opt.zero_grad()
        loss_of(slice(0, ROWS)).backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        opt.step()
        if mean:
            mean.update_parameters(net)
        if schedule == "reduce_on_plateau":
            scheduler.step(loss_of(slice(ROWS, None)).item())
        else:
            scheduler.step()
        if step in KEPT:
            kept.append(flat(mean.module if mean else net))
    if "y_" + output not in file:
        file["y_" + output] = y.numpy().astype(np.float32)
    group["weights"] = np.array(kept, np.float32)
    group.attrs["settings"] = np.bytes_(
        f"loss={TOLD.get(loss, loss)} output={output} learning_rate={lr} clip_norm={clip} layers={int(layers)} "
        f"{told} {paced} {AVERAGES[average][0] if average else ''} ")


def main():
    with h5py.File(sys.argv[1], "w", libver="latest") as file:
        file.attrs["torch"] = np.bytes_(torch.__version__)
        file["kept"] = np.array(KEPT, np.int32)
        file["x"] = data("mean")[0].numpy().astype(np.float32)
        for optimizer in OPTIMIZERS:
            run(file, "optimizer_" + optimizer, optimizer=optimizer)
        for schedule in SCHEDULES:
            which = "nesterov" if schedule in ("step", "one_cycle") else "adamw"
            run(file, "schedule_" + schedule, optimizer=which, schedule=schedule, lr=0.03125)
        for loss in LOSSES:
            # slopes in steps may cancel to 0 but for rounding, which adam would blow up
            steps = loss in ("mae", "quantile")
            run(file, "loss_" + loss, loss=loss, optimizer="momentum" if steps else "adam")
        for average in AVERAGES:
            run(file, "average_" + average, average=average)
        run(file, "layers", layers=True)
        run(file, "layers_cosine", layers=True, optimizer="amsgrad", schedule="cosine", loss="huber")
        run(file, "clipped", optimizer="momentum", clip=0.25)


if __name__ == "__main__":
    main()
