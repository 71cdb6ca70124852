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

from .trainer import Trainer

# Module, model.activation, and the parameters that it must have.
_ACTIVATIONS: tuple[tuple[Any, str, Mapping[str, Any]], ...] = (
    (nn.ReLU, "relu", {}), (nn.LeakyReLU, "leaky_relu", {"negative_slope": 0.01}),
    (nn.Tanh, "tanh", {}), (nn.Sigmoid, "sigmoid", {}), (nn.SiLU, "silu", {}),
    (nn.GELU, "gelu", {"approximate": "none"}), (nn.ELU, "elu", {"alpha": 1.0}),
    (nn.Softplus, "softplus", {"beta": 1, "threshold": 20}), (nn.Identity, "identity", {}))
_ADAM = {"betas": ("beta1", "beta2"), "eps": "epsilon"}
# Optimizer of torch, train.optimizer, and the option of each of its settings.
_OPTIMIZERS: tuple[tuple[Any, str, Mapping[str, Any]], ...] = (
    (torch.optim.SGD, "sgd",
     {"momentum": "momentum", "nesterov": "nesterov", "weight_decay": "l2"}),
    (torch.optim.AdamW, "adamw", {**_ADAM, "weight_decay": "weight_decay"}),
    (torch.optim.Adam, "adam", {**_ADAM, "weight_decay": "l2"}),
    (torch.optim.RMSprop, "rmsprop",
     {"momentum": "momentum", "alpha": "beta2", "eps": "epsilon", "weight_decay": "l2"}),
    (torch.optim.Adagrad, "adagrad", {"eps": "epsilon", "weight_decay": "l2"}))
# Settings of optimizers and losses that tutti has with one value only.
_ONLY = {"maximize": False, "dampening": 0, "centered": False, "lr_decay": 0,
         "initial_accumulator_value": 0, "reduction": "mean", "pos_weight": None,
         "label_smoothing": 0.0, "ignore_index": -100, "log_input": True, "full": False}
_LOSSES: tuple[tuple[Any, str], ...] = (
    (nn.MSELoss, "mse"), (nn.L1Loss, "mae"), (nn.BCEWithLogitsLoss, "bce"),
    (nn.CrossEntropyLoss, "cross_entropy"), (nn.PoissonNLLLoss, "poisson"),
    (nn.HuberLoss, "huber"), (nn.SmoothL1Loss, "huber"))


def _need(what: str, has: Mapping[str, Any], only: Mapping[str, Any]) -> None:
    for name, value in only.items():
        if name in has and has[name] != value:
            raise TypeError(f"{what}({name}={has[name]!r}): tutti has {name}={value!r} only")


def optimizer_options(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Options of `train` for an optimizer of torch.

    Raises
    ------
    TypeError
        tutti computes another step; the message names the setting.
    """
    if len(optimizer.param_groups) != 1:
        raise TypeError("several param_groups: use train.layer_rates or train.freeze")
    group, what = dict(optimizer.param_groups[0]), type(optimizer).__name__
    _need(what, group, _ONLY)
    for kind, name, settings in _OPTIMIZERS:
        if type(optimizer) is not kind:
            continue
        options: dict[str, Any] = {"optimizer": name, "learning_rate": float(group["lr"])}
        if group.get("amsgrad"):
            options["optimizer"] = "amsgrad"
        for setting, option in settings.items():
            values = group[setting] if isinstance(option, tuple) else (group[setting],)
            names = option if isinstance(option, tuple) else (option,)
            options.update({n: v for n, v in zip(names, values) if v or n.startswith("beta")})
        return options
    raise TypeError(f"the optimizer {what} has no counterpart: "
                    f"{', '.join(kind.__name__ for kind, *_ in _OPTIMIZERS)}")


def loss_options(loss: nn.Module) -> dict[str, Any]:
    """Options of `train` for a loss of torch. Raises TypeError as `optimizer_options`."""
    what = type(loss).__name__
    _need(what, {**vars(loss), "weight": getattr(loss, "weight", None)}, {**_ONLY, "weight": None})
    for kind, name in _LOSSES:
        if type(loss) is not kind:
            continue
        if kind is nn.HuberLoss:
            return {"loss": name, "huber_delta": float(loss.delta)}
        if kind is nn.SmoothL1Loss:
            _need(what, vars(loss), {"beta": 1.0})
            return {"loss": name, "huber_delta": 1.0}
        return {"loss": name}
    hint = ("; loss='gaussian_nll' has two outputs a target: the mean, and softplus^-1 of the "
            "variance" if type(loss) is nn.GaussianNLLLoss else "")
    raise TypeError(f"the loss {what} has no counterpart{hint}")


def _modules(net: nn.Module) -> Iterator[nn.Module]:
    for module in net.children():
        if isinstance(module, nn.Sequential):
            yield from _modules(module)
        else:
            yield module


def _activation(i: int, module: nn.Module) -> Optional[str]:
    for kind, name, only in _ACTIVATIONS:
        if type(module) is kind:
            _need(f"layer {i}: {kind.__name__}", vars(module), only)
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
            _need(f"layer {i}: LayerNorm", vars(module), {"eps": 1e-5, "elementwise_affine": True})
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


def module(source: Trainer, net: nn.Module, member: int = 0) -> nn.Module:
    """Put the weights of a member into `net`, a network of the same shape, and return it."""
    values, used = source.get_weights(member), 0
    layers = _layers(net)
    if sum(p.numel() for p in net.parameters()) != len(values):
        raise TypeError(f"the network has {sum(p.numel() for p in net.parameters())} parameters, "
                        f"a member {len(values)}")
    with torch.no_grad():
        for layer in layers:
            for part in [layer.linear] + ([layer.norm] if layer.norm is not None else []):
                for p in (part.weight, part.bias):
                    p.copy_(torch.from_numpy(values[used:used + p.numel()].reshape(p.shape)))
                    used += p.numel()
    return net


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
