"""From PyTorch and back: `import tutti.torch` needs torch.

    >>> trainer = tutti.torch.trainer(nets, optimizer=torch.optim.AdamW(...), loss=nn.MSELoss())
    >>> trainer.step(x, y)
    >>> net = tutti.torch.module(trainer, member=3)

`Ensemble` is a torch.nn.Module for a loop of one's own: loss.backward() gives the gradients of all
members, and step() takes the optimizer step.
"""
from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
import torch
from torch import nn

from ..library import Model
from .options import ACTIVATIONS, loss_options, need, optimizer_options
from ..trainer import Trainer

__all__ = ["Ensemble", "loss_options", "members", "module", "network_options",
           "optimizer_options", "trainer", "weights"]


def _modules(net: nn.Module) -> Iterator[nn.Module]:
    for module in net.children():
        if isinstance(module, nn.Sequential):
            yield from _modules(module)
        else:
            yield module


def _activation(i: int, module: nn.Module) -> Optional[str]:
    for kind, name, only in ACTIVATIONS:
        if type(module) is kind:
            need(f"layer {i}: {kind.__name__}", vars(module), only)
            return name
    return None


class _Layer:
    """A Linear with what follows it."""

    def __init__(self, linear: nn.Linear) -> None:
        self.linear = linear
        self.norm: Optional[nn.LayerNorm] = None
        self.activation: Optional[str] = None
        self.dropout = 0.0

    def add(self, i: int, module: nn.Module) -> None:
        """The next module, in the order LayerNorm, activation, Dropout."""
        name = _activation(i, module)
        if isinstance(module, nn.LayerNorm) and not (self.norm or self.activation or self.dropout):
            need(f"layer {i}: LayerNorm", vars(module), {"eps": 1e-5, "elementwise_affine": True})
            self.norm = module
        elif name and not (self.activation or self.dropout):
            self.activation = name
        elif isinstance(module, nn.Dropout) and not self.dropout:
            self.dropout = module.p
        else:
            raise TypeError(f"layer {i}: {type(module).__name__} has no counterpart at this place: "
                            "a layer is Linear, LayerNorm, activation, Dropout")


def _layers(net: nn.Module) -> list[_Layer]:
    if not isinstance(net, nn.Sequential):
        raise TypeError(f"{type(net).__name__}: only nn.Sequential can be read, because its "
                        "modules are its forward()")
    layers: list[_Layer] = []
    for i, module in enumerate(_modules(net)):
        if isinstance(module, nn.Linear):
            if module.bias is None:
                raise TypeError(f"layer {i}: Linear(bias=False) has no counterpart")
            layers.append(_Layer(module))
        elif layers:
            layers[-1].add(i, module)
        else:
            raise TypeError(f"layer {i}: {type(module).__name__} before the first Linear")
    if not layers:
        raise TypeError("the network has no Linear")
    last = layers[-1]
    if last.norm or last.activation or last.dropout:
        raise TypeError("behind the last Linear nothing may follow: it belongs to the loss")
    return layers


def network_options(net: nn.Module) -> dict[str, Any]:
    """Options of `model` and `train` for an nn.Sequential of dense layers. Raises TypeError."""
    *hidden, _ = _layers(net)
    found = {"activation": [layer.activation or "identity" for layer in hidden],
             "layer_norm": [layer.norm is not None for layer in hidden],
             "dropout": [layer.dropout for layer in hidden]}
    for name, values in found.items():
        if len(set(values)) > 1:
            raise TypeError(f"all hidden layers must have the same {name}: {values}")
    options = {name: values[0] for name, values in found.items() if values and values[0]}
    return {"hidden": [layer.linear.out_features for layer in hidden], **options}


def weights(net: nn.Module) -> np.ndarray:
    """Parameters of a network in the order of `Trainer.set_weights`."""
    parts: list[np.ndarray] = []
    for layer in _layers(net):
        modules = [layer.linear] + ([layer.norm] if layer.norm is not None else [])
        for module in modules:
            parts += [p.detach().cpu().numpy().astype(np.float32).ravel()
                      for p in (module.weight, module.bias)]
    return np.concatenate(parts)


def trainer(nets: Union[nn.Module, Sequence[nn.Module]],
            optimizer: Optional[torch.optim.Optimizer] = None, loss: Optional[nn.Module] = None,
            *, members: Optional[int] = None, **options: Any) -> Trainer:
    """A Trainer of networks of torch.

    Parameters
    ----------
    nets : nn.Sequential, or a list of them
        A list: the members begin with their weights. One network: its shape alone, for `members`
        members with initial weights of their own.
    optimizer, loss : optional
        Of torch; their settings become options.
    **options
        As for `Trainer`, which also knows what torch has not: members, schedules, averages.

    Raises
    ------
    TypeError
        A module, optimizer or loss that tutti computes otherwise; the message names it.
    """
    several = [nets] if isinstance(nets, nn.Module) else list(nets)
    described = network_options(several[0])
    for k, net in enumerate(several[1:], 1):
        if network_options(net) != described:
            raise TypeError(f"network {k} is not like network 0: all members have one shape")
    if optimizer is not None:
        described.update(optimizer_options(optimizer))
    if loss is not None:
        described.update(loss_options(loss))
    last = _layers(several[0])[-1].linear.out_features
    classes = described.get("loss") == "cross_entropy"
    if classes:
        described["classes"] = last
    first = _layers(several[0])[0].linear.in_features
    begins = not isinstance(nets, nn.Module)
    made = Trainer(inputs=first, targets=1 if classes else last,
                   members=len(several) if begins else members, **{**described, **options})
    for member, net in enumerate(several if begins else ()):
        made.set_weights(member, weights(net))
    return made


def _fill(net: nn.Module, values: np.ndarray) -> nn.Module:
    """Put the parameters of a member into a network of its shape."""
    count, used = sum(p.numel() for p in net.parameters()), 0
    if count != len(values):
        raise TypeError(f"the network has {count} parameters, a member {len(values)}")
    with torch.no_grad():
        for layer in _layers(net):
            for part in [layer.linear] + ([layer.norm] if layer.norm is not None else []):
                for p in (part.weight, part.bias):
                    p.copy_(torch.from_numpy(values[used:used + p.numel()].reshape(p.shape)))
                    used += p.numel()
    return net


def module(source: Trainer, net: nn.Module, member: int = 0) -> nn.Module:
    """Put the weights of a member into `net`, a network of the same shape, and return it."""
    return _fill(net, source.get_weights(member))


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
    if a["residual"]:
        raise ValueError(f"{model.file}: ensemble {a['name']}: its networks have residual layers, "
                         "which nn.Sequential cannot have; tutti export --torch has them")
    kind = next(kind for kind, name, _ in ACTIVATIONS if name == a["activation"])
    nets = []
    for values in a["parameters"]:
        modules: list[nn.Module] = []
        for layer in a["layers"]:
            _, out, into = layer["weight"].shape
            modules.append(nn.utils.skip_init(nn.Linear, into, out))
            modules += [nn.LayerNorm(out)] if "gain" in layer else []
            modules.append(kind())
        nets.append(_fill(nn.Sequential(*modules[:-1]), values))
    return nets


class _Outputs(torch.autograd.Function):
    """Outputs of all members; backward gives the trainer their gradients."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, hook: torch.Tensor, owner: Ensemble) -> torch.Tensor:
        """The outputs, (members, rows, outputs)."""
        ctx.save_for_backward(x)
        ctx.owner, ctx.updates = owner, owner.updates
        return torch.from_numpy(owner.trainer.forward(x))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        """Add up the gradients of the weights; the gradient by x."""
        (x,), owner = ctx.saved_tensors, ctx.owner
        if ctx.updates != owner.updates:
            raise RuntimeError("backward after step(): the weights are no longer those of forward")
        owner.trainer.forward(x)  # the rows that the gradients belong to
        slope = owner.trainer.backward(gradient, inputs=ctx.needs_input_grad[0])
        if slope is None:
            return None, None, None
        by_x = torch.from_numpy(slope)
        return (by_x if x.dim() == 3 else by_x.sum(0)), None, None


class Ensemble(nn.Module):
    """Members as one module: forward(x) has the outputs (members, rows, outputs).

    The loss is the user's: any function of these outputs, also over several members. After
    loss.backward(), `step` takes the optimizer step of the options. Without gradients, and in eval
    mode, the outputs are those of predictions.

    Parameters
    ----------
    trainer : Trainer
        E.g. `tutti.Trainer(inputs=8, targets=1, members=128, hidden=[64, 64])`.
    """

    def __init__(self, trainer: Trainer) -> None:
        super().__init__()
        self.trainer = trainer
        self.updates = 0
        self._hook = torch.zeros((), requires_grad=True)  # so that autograd calls backward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of all members.

        Parameters
        ----------
        x : tensor of float32, shape (rows, inputs) or (members, rows, inputs)
        """
        if self.training and torch.is_grad_enabled():
            return _Outputs.apply(x, self._hook, self)
        return torch.from_numpy(self.trainer.predict(x))

    def step(self) -> None:
        """The optimizer step of all members with the gradients since the last one."""
        self.trainer.update()
        self.updates += 1
