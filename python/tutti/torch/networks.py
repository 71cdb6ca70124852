"""Networks of PyTorch as options of the program, and their weights in its order."""
from __future__ import annotations

from typing import Any, Iterator, Optional

import numpy as np
import torch
from torch import nn

from .front import Front, blocks_of
from .options import activation_of, need

Named = Iterator[tuple[str, nn.Module]]
_OF_RESNET = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool")


class Residual(nn.Module):
    """body(x) + x, or with `project` body(x) + project(x); then `activate`, if given.

    For dense layers `body` is Linear, LayerNorm, activation, Dropout; for fronts it is what a
    `residual` row of docs/front.md can say.
    """

    def __init__(self, body: nn.Module, project: Optional[nn.Module] = None,
                 activate: Optional[nn.Module] = None) -> None:
        super().__init__()
        self.body, self.project, self.activate = body, project, activate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum."""
        sum_ = self.body(x) + (x if self.project is None else self.project(x))
        return sum_ if self.activate is None else self.activate(sum_)


def modules_of(net: nn.Module, path: str = "") -> Named:
    """Modules in the order of forward(), with their names."""
    if type(net).__module__ == "torchvision.models.resnet" and type(net).__name__ == "ResNet":
        for name in _OF_RESNET:
            child = getattr(net, name)
            yield from modules_of(child, name + ".") if isinstance(child, nn.Sequential) else [
                (name, child)]
        yield "flatten", nn.Flatten()
        yield "fc", net.get_submodule("fc")
        return
    if not isinstance(net, nn.Sequential):
        raise TypeError(f"{type(net).__name__}: only nn.Sequential can be read, because its "
                        "modules are its forward(), and ResNets of torchvision; write a sum as "
                        "tutti.torch.Residual")
    for name, child in net.named_children():
        if isinstance(child, nn.Sequential):
            yield from modules_of(child, f"{path}{name}.")
        else:
            yield path + name, child


class Dense:
    """A Linear with what follows it."""

    def __init__(self, linear: nn.Linear, residual: bool = False) -> None:
        self.linear, self.residual = linear, residual
        self.norm: Optional[nn.LayerNorm] = None
        self.activation: Optional[str] = None
        self.dropout = 0.0

    def add(self, name: str, module: nn.Module) -> None:
        """The next module, in the order LayerNorm, activation, Dropout."""
        kind = activation_of(name, module)
        if isinstance(module, nn.LayerNorm) and not (self.norm or self.activation or self.dropout):
            need(f"layer {name}: LayerNorm", vars(module),
                 {"eps": 1e-5, "elementwise_affine": True})
            self.norm = module
        elif kind and not (self.activation or self.dropout):
            self.activation = kind
        elif isinstance(module, nn.Dropout) and not self.dropout:
            self.dropout = module.p
        else:
            raise TypeError(f"layer {name}: {type(module).__name__} has no counterpart at this "
                            "place: a layer is Linear, LayerNorm, activation, Dropout")


class Network:
    """What there is in a network: rows of a front, then dense layers."""

    def __init__(self, net: nn.Module) -> None:
        self.front = Front()
        self.dense: list[Dense] = []
        self._flat = True
        for name, module in modules_of(net):
            self._add(name, module)
        if not self.dense:
            raise TypeError("the network has no Linear")
        last = self.dense[-1]
        if last.norm or last.activation or last.dropout or last.residual:
            raise TypeError("behind the last Linear nothing may follow: it belongs to the loss")
        self._check_residual()

    def _add(self, name: str, module: nn.Module) -> None:
        body, project, activate = blocks_of(name, module)
        if isinstance(module, nn.Flatten):
            need(f"layer {name}: Flatten", vars(module), {"start_dim": 1, "end_dim": -1})
            self._flat = True
        elif body and isinstance(body[0][1], nn.Linear):
            self._add_residual(name, body, project, activate)
        elif isinstance(module, nn.Linear):
            self._add_linear(name, module, False)
        elif self.dense:
            self.dense[-1].add(name, module)
        elif isinstance(module, nn.LayerNorm) or self.front.rows and self._flat:
            raise TypeError(f"layer {name}: {type(module).__name__} before the first Linear")
        else:
            self._flat = False
            self.front.add(name, module)

    def _add_linear(self, name: str, linear: nn.Linear, residual: bool) -> None:
        if linear.bias is None:
            raise TypeError(f"layer {name}: Linear(bias=False) has no counterpart")
        if not self._flat:
            raise TypeError(f"layer {name}: Linear behind a front needs a Flatten before it")
        self.dense.append(Dense(linear, residual))

    def _add_residual(self, name: str, body: list[tuple[str, nn.Module]],
                      project: Any, activate: Any) -> None:
        """A residual dense layer."""
        linear = body[0][1]
        if project is not None or activate is not None or linear.in_features != linear.out_features:
            raise TypeError(f"layer {name}: a residual dense layer has one width, no project and "
                            "no activate")
        if not self.dense:
            raise TypeError(f"layer {name}: the first dense layer has no residual counterpart")
        self._add_linear(body[0][0], linear, True)
        for inner, module in body[1:]:
            if isinstance(module, nn.Linear):
                raise TypeError(f"layer {inner}: a residual dense layer has one Linear")
            self.dense[-1].add(inner, module)

    def _check_residual(self) -> None:
        """All hidden layers of one width are residual, or none."""
        can = [layer for layer in self.dense[1:-1]
               if layer.linear.in_features == layer.linear.out_features]
        if len({layer.residual for layer in can}) > 1:
            raise TypeError("hidden layers of one width are all residual, or none is")

    def options(self) -> dict[str, Any]:
        """Options of `model` and `train`."""
        *hidden, _ = self.dense
        found: dict[str, list[Any]] = {
            "activation": [layer.activation or "identity" for layer in hidden],
            "layer_norm": [layer.norm is not None for layer in hidden],
            "dropout": [layer.dropout for layer in hidden] + self.front.dropouts}
        for name, values in found.items():
            if len(set(values)) > 1:
                raise TypeError(f"all hidden layers must have the same {name}: {values}")
        options = {name: values[0] for name, values in found.items() if values and values[0]}
        if any(layer.residual for layer in hidden):
            options["residual"] = True
        if self.front.rows:
            options.setdefault("activation", self.front.activation())
            options["front"] = self.front.texts(options["activation"])
        return {"hidden": [layer.linear.out_features for layer in hidden], **options}

    def tensors(self) -> list[torch.Tensor]:
        """Parameters and running values in the order of `Trainer.set_weights`."""
        modules: list[nn.Module] = [m for layer in self.dense for m in (layer.linear, layer.norm)
                                    if m is not None]
        return self.front.tensors + [t for m in modules for t in (m.weight, m.bias)]


def network_options(net: nn.Module) -> dict[str, Any]:
    """Options of `model` and `train` for a network. Raises TypeError."""
    return Network(net).options()


def weights(net: nn.Module) -> np.ndarray:
    """Parameters of a network in the order of `Trainer.set_weights`, with the running values of
    batch norms."""
    return np.concatenate([t.detach().cpu().numpy().astype(np.float32).ravel()
                           for t in Network(net).tensors()])


def fill(net: nn.Module, values: np.ndarray) -> nn.Module:
    """Put the parameters of a member into a network of its shape."""
    tensors, used = Network(net).tensors(), 0
    count = sum(t.numel() for t in tensors)
    if count != len(values):
        raise TypeError(f"the network has {count} parameters, a member {len(values)}")
    with torch.no_grad():
        for t in tensors:
            t.copy_(torch.from_numpy(values[used:used + t.numel()].reshape(t.shape)))
            used += t.numel()
    return net
