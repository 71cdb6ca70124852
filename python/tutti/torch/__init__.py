"""From PyTorch and back: `import tutti.torch` needs torch.

    >>> trainer = tutti.torch.trainer(nets, optimizer=torch.optim.AdamW(...), loss=nn.MSELoss())
    >>> trainer.step(x, y)
    >>> net = tutti.torch.module(trainer, member=3)

`Ensemble` is a torch.nn.Module for a loop of one's own: loss.backward() gives the gradients of all
members, and step() takes the optimizer step.
"""
from __future__ import annotations

import math
from typing import Any, Mapping, Optional, Sequence, Union

import torch
from torch import nn

from ..library import Model
from ..trainer import Trainer
from .ensemble import Ensemble
from .networks import Network, Residual, fill, network_options, weights
from .options import ACTIVATIONS, loss_options, optimizer_options
from .schedules import scheduler_options

__all__ = ["Ensemble", "Residual", "loss_options", "members", "module", "network_options",
           "optimizer_options", "scheduler_options", "set_member", "trainer", "weights"]


def _describe(net: nn.Module, optimizer: Any, loss: Any, scheduler: Any,
              options: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a Trainer of networks like this one."""
    read = Network(net)
    described = read.options()
    described.update(optimizer_options(optimizer) if optimizer is not None else {})
    described.update(loss_options(loss) if loss is not None else {})
    described.update(_schedule(scheduler, options) if scheduler is not None else {})
    last = read.dense[-1].linear.out_features
    classes = described.get("loss") == "cross_entropy"
    if classes:
        described["classes"] = last
    return {"inputs": _inputs(read, options), "targets": 1 if classes else last, **described}


def _inputs(read: Network, options: Mapping[str, Any]) -> int:
    """Values of a row; a front needs the shape of its images or profiles."""
    if not read.front.rows:
        return read.dense[0].linear.in_features
    name, axes = ("image", "height, width") if read.front.is_image() else ("profile", "length")
    shape = options.get(name)
    if shape is None:
        raise TypeError(f"the network has convolutions: give {name}=[channels, {axes}]")
    return math.prod(shape)


def _schedule(scheduler: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a schedule, whose epochs fit to those of the trainer."""
    found, what = scheduler_options(scheduler), type(scheduler).__name__
    rows, steps = options.get("epoch_rows"), found.pop("steps", None)
    if not rows:
        raise TypeError(f"{what}: give epoch_rows, the rows of an epoch, e.g. len(loader.dataset)")
    if steps is not None:
        each = math.ceil(rows / options.get("batch_size", 32))
        if steps % each:
            raise TypeError(f"{what}: {steps} steps are no whole number of epochs of {each} steps")
        found["epochs"] = steps // each
    if options.get("epochs", found.get("epochs")) != found.get("epochs", options.get("epochs")):
        raise TypeError(f"{what} ends after {found['epochs']} epochs, but epochs="
                        f"{options['epochs']}")
    return found


def trainer(nets: Union[nn.Module, Sequence[nn.Module]],
            optimizer: Optional[torch.optim.Optimizer] = None, loss: Optional[nn.Module] = None,
            *, scheduler: Any = None, members: Optional[int] = None, **options: Any) -> Trainer:
    """A Trainer of networks of torch.

    Parameters
    ----------
    nets : nn.Sequential or ResNet of torchvision, or a list of them
        A list: the members begin with their weights. One network: its shape alone, for `members`
        members with initial weights of their own. Convolutions need `image=[channels, height,
        width]` or `profile=[channels, length]`.
    optimizer, loss, scheduler : optional
        Of torch; their settings become options. A schedule needs `epoch_rows`.
    **options
        As for `Trainer`, which also knows what torch has not: members, schedules, averages.

    Raises
    ------
    TypeError
        A module, optimizer, loss or schedule that tutti computes otherwise; the message names it.
    """
    several = [nets] if isinstance(nets, nn.Module) else list(nets)
    described = _describe(several[0], optimizer, loss, scheduler, options)
    for k, net in enumerate(several[1:], 1):
        if network_options(net) != network_options(several[0]):
            raise TypeError(f"network {k} is not like network 0: all members have one shape")
    begins = not isinstance(nets, nn.Module)
    made = Trainer(members=len(several) if begins else members, **{**described, **options})
    for member, net in enumerate(several if begins else ()):
        set_member(made, net, member)
    return made


def set_member(target: Trainer, net: nn.Module, member: int = 0) -> None:
    """Give a member the weights of `net`, a network of the same shape; its optimizer goes on."""
    target.set_weights(member, weights(net))


def module(source: Trainer, net: nn.Module, member: int = 0) -> nn.Module:
    """Put the weights of a member into `net`, a network of the same shape, and return it."""
    return fill(net, source.get_weights(member))


def members(model: Model, ensemble: Optional[str] = None) -> list[nn.Sequential]:
    """The members of a trained ensemble that predictions use, as networks of torch.

    Inputs and outputs are normalized: `Model.arrays` has the scales. With output `mean` the
    prediction of a member is net((x - x_mean) / x_scale) * y_scale + y_mean.

    Raises
    ------
    ValueError
        The networks are not dense layers in a row; the message says why.
    """
    a = model.arrays(ensemble)
    kind = next(kind for kind, name, _ in ACTIVATIONS if name == a["activation"])
    nets = []
    for values in a["parameters"]:
        modules: list[nn.Module] = []
        for l, layer in enumerate(a["layers"]):
            _, out, into = layer["weight"].shape
            body: list[nn.Module] = [nn.utils.skip_init(nn.Linear, into, out)]
            body += [nn.LayerNorm(out)] if "gain" in layer else []
            body += [kind()] if l + 1 < len(a["layers"]) else []
            sums = a["residual"] and l > 0 and into == out and l + 1 < len(a["layers"])
            modules += [Residual(nn.Sequential(*body))] if sums else body
        nets.append(fill(nn.Sequential(*modules), values))
    return nets


