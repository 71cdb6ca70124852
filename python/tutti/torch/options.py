"""Options of the program for activations, optimizers and losses of PyTorch."""
from __future__ import annotations

from typing import Any, Mapping, Optional

import torch
from torch import nn

# Module, model.activation, and the parameters that it must have.
ACTIVATIONS: tuple[tuple[Any, str, Mapping[str, Any]], ...] = (
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


def activation_of(name: str, module: nn.Module) -> Optional[str]:
    """model.activation of a module; None if it is no activation. Raises TypeError."""
    for kind, activation, only in ACTIVATIONS:
        if type(module) is kind:
            need(f"layer {name}: {kind.__name__}", vars(module), only)
            return activation
    return None


def need(what: str, has: Mapping[str, Any], only: Mapping[str, Any]) -> None:
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
    need(what, group, _ONLY)
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
    need(what, {**vars(loss), "weight": getattr(loss, "weight", None)}, {**_ONLY, "weight": None})
    for kind, name in _LOSSES:
        if type(loss) is not kind:
            continue
        if kind is nn.HuberLoss:
            return {"loss": name, "huber_delta": float(loss.delta)}
        if kind is nn.SmoothL1Loss:
            need(what, vars(loss), {"beta": 1.0})
            return {"loss": name, "huber_delta": 1.0}
        return {"loss": name}
    hint = ("; loss='gaussian_nll' has two outputs a target: the mean, and softplus^-1 of the "
            "variance" if type(loss) is nn.GaussianNLLLoss else "")
    raise TypeError(f"the loss {what} has no counterpart{hint}")
