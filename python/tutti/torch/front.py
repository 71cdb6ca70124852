"""Convolutions, pools, norms and residual blocks of PyTorch as rows of a front (docs/front.md)."""
from __future__ import annotations

import collections
from typing import Any, Optional

import torch
from torch import nn

from .options import activation_of, need

_CONVS, _BATCH_NORMS = (nn.Conv1d, nn.Conv2d), (nn.BatchNorm1d, nn.BatchNorm2d)
_POOLS = {nn.MaxPool1d: "max", nn.MaxPool2d: "max", nn.AvgPool1d: "mean", nn.AvgPool2d: "mean"}
_DROPOUTS, _GLOBAL = (nn.Dropout1d, nn.Dropout2d), (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)
_KNOWN = _CONVS + _BATCH_NORMS + (nn.GroupNorm,) + tuple(_POOLS)
# Settings that the rows have with one value only.
_ONLY = {"padding_mode": "zeros", "eps": 1e-5, "momentum": 0.1, "affine": True,
         "track_running_stats": True, "ceil_mode": False, "return_indices": False,
         "count_include_pad": True, "divisor_override": None}
# Blocks of torchvision.models.resnet: modules of the body, in the order of forward().
_BLOCKS = {"BasicBlock": ("conv1", "bn1", "relu", "conv2", "bn2"),
           "Bottleneck": ("conv1", "bn1", "relu", "conv2", "bn2", "relu", "conv3", "bn3")}
_HINTS = {"LayerNorm": "use GroupNorm(1, channels)", "InstanceNorm1d": "use GroupNorm",
          "InstanceNorm2d": "use GroupNorm", "Dropout": "use Dropout2d or Dropout1d",
          "ConvTranspose2d": "a front has no such row"}


def _children(module: Optional[nn.Module], path: str) -> list[tuple[str, nn.Module]]:
    """A module as the list of its parts."""
    if module is None:
        return []
    if not isinstance(module, nn.Sequential):
        return [(path, module)]
    return [part for name, child in module.named_children()
            for part in _children(child, f"{path}.{name}")]


def blocks_of(name: str, module: nn.Module) -> tuple[list[tuple[str, nn.Module]], Any, Any]:
    """Body, projection (modules, or None) and activation of a residual block; ([], None, None)
    for every other module."""
    kind = type(module).__name__
    if type(module).__module__ == "torchvision.models.resnet" and kind in _BLOCKS:
        body = [(f"{name}.{part}", module.get_submodule(part)) for part in _BLOCKS[kind]]
        return body, getattr(module, "downsample"), getattr(module, "relu")
    if kind == "Residual" and hasattr(module, "body"):
        return (_children(module.get_submodule("body"), f"{name}.body"), getattr(module, "project"),
                getattr(module, "activate"))
    return [], None, None


def _one(name: str, module: nn.Module, setting: str) -> int:
    """A setting with one value for all axes."""
    value = getattr(module, setting)
    values = set(value) if isinstance(value, tuple) else {value}
    if len(values) != 1 or not isinstance(min(values), int):
        raise TypeError(f"layer {name}: {type(module).__name__}({setting}={value!r}): one number "
                        "for all axes has a counterpart")
    return int(min(values))


class _Row:
    """A row of a front."""

    def __init__(self, name: str, words: str, module: Optional[nn.Module] = None) -> None:
        self.name, self.words, self.module = name, words, module
        self.activation: Optional[str] = None  # of a conv


class Front:
    """Rows, and the tensors of their weights.

    Attributes
    ----------
    tensors : list of tensors
    dropouts : list of float
        Probabilities of the dropout rows.
    """

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self.tensors: list[torch.Tensor] = []
        self.dropouts: list[float] = []
        self._conv: Optional[_Row] = None  # that an activation behind may belong to

    def add(self, name: str, module: nn.Module) -> None:
        """The next module. Raises TypeError if no row computes the same."""
        body, project, activate = blocks_of(name, module)
        what = f"layer {name}: {type(module).__name__}"
        if not isinstance(module, _CONVS + _BATCH_NORMS):
            self._need_bias()
        if body:
            self._add_block(name, body, project, activate)
            return
        kind = activation_of(name, module)
        if isinstance(module, _KNOWN):
            need(what, vars(module), _ONLY)
        if isinstance(module, _CONVS):
            self._add_conv(name, module)
        elif isinstance(module, _BATCH_NORMS + (nn.GroupNorm,)):
            self._add_norm(name, module)
        elif kind and self._conv and self._conv.activation is None:
            self._conv.activation = kind
            self._conv = None
        elif isinstance(module, _DROPOUTS):
            self._add_row(name, "dropout")
            self.dropouts.append(module.p)
        elif isinstance(module, _GLOBAL):
            need(what, {"output_size": _one(name, module, "output_size")}, {"output_size": 1})
            self._add_row(name, "global_mean")
        elif type(module) in _POOLS:
            self._add_pool(name, module)
        else:
            self._refuse(what, type(module).__name__, bool(kind))

    def _refuse(self, what: str, kind: str, is_activation: bool) -> None:
        hint = ("an activation is that of the Conv before it, behind its norm" if is_activation
                else _HINTS.get(kind, "docs/front.md lists what can come before Flatten"))
        place = "" if self.rows else "before the first Linear "
        raise TypeError(f"{what} {place}has no counterpart: {hint}")

    def _add_row(self, name: str, words: str, module: Optional[nn.Module] = None) -> _Row:
        self.rows.append(_Row(name, words, module))
        self._conv = None
        return self.rows[-1]

    def _need_bias(self) -> None:
        """A conv without a bias needs a batch norm behind it."""
        last = self.rows[-1].module if self.rows else None
        if isinstance(last, _CONVS) and last.bias is None:
            raise TypeError(f"layer {self.rows[-1].name}: {type(last).__name__}(bias=False) "
                            "without BatchNorm behind it has no counterpart: use bias=True")

    def _add_conv(self, name: str, conv: Any) -> None:
        self._need_bias()
        size, dilation = (_one(name, conv, setting) for setting in ("kernel_size", "dilation"))
        if conv.padding == "same":
            if size % 2 == 0:
                raise TypeError(f"layer {name}: {type(conv).__name__}(padding='same') with an even "
                                "kernel_size has no counterpart")
            pad = dilation * (size - 1) // 2
        else:
            pad = 0 if conv.padding == "valid" else _one(name, conv, "padding")
        words = (f"conv {conv.out_channels} {size} stride {_one(name, conv, 'stride')} pad {pad}"
                 f" dilation {dilation} groups {conv.groups}")
        self._conv = self._add_row(name, words, conv)
        self.tensors += [conv.weight] + ([] if conv.bias is None else [conv.bias])

    def _add_norm(self, name: str, norm: Any) -> None:
        conv, before = self._conv, self.rows[-1].module if self.rows else None
        is_batch = isinstance(norm, _BATCH_NORMS)
        if is_batch and isinstance(before, _CONVS) and before.bias is not None:
            raise TypeError(f"layer {self.rows[-1].name}: {type(before).__name__} before BatchNorm "
                            "has no bias, which would change nothing: use bias=False")
        self._add_row(name, "batch_norm" if is_batch else f"group_norm {norm.num_groups}", norm)
        if conv and conv.module is before:
            self._conv = conv
        self.tensors += [norm.weight, norm.bias]
        self.tensors += [norm.running_mean, norm.running_var] if is_batch else []

    def _add_pool(self, name: str, pool: nn.Module) -> None:
        if hasattr(pool, "dilation"):
            need(f"layer {name}: pool", {"dilation": _one(name, pool, "dilation")}, {"dilation": 1})
        size, stride, pad = (_one(name, pool, s) for s in ("kernel_size", "stride", "padding"))
        self._add_row(name, f"pool {_POOLS[type(pool)]} {size} stride {stride} pad {pad}")

    def _add_block(self, name: str, body: list[tuple[str, nn.Module]], project: Any,
                   activate: Any) -> None:
        block = self._add_row(name, "residual")
        first = len(self.rows)
        for inner, module in body:
            self.add(inner, module)
        self._need_bias()
        count, conv, last = len(self.rows) - first, self._conv, self.rows[-1].module
        words = f"residual {count}"
        if project is not None:
            self._add_projection(f"{name}.project", project, last)
            words += " project"
        if activate is not None:
            kind = activation_of(name, activate)
            if not kind or not conv:
                raise TypeError(f"layer {name}: the body of a block with an activation behind the "
                                "sum ends with a Conv and its norm")
            conv.activation = kind
            words += " activate"
        block.words = words
        self._conv = None

    def _add_projection(self, name: str, project: nn.Module, last: Optional[nn.Module]) -> None:
        """A 1 x 1 convolution with the norm of the last row."""
        parts, side = _children(project, name), Front()
        for inner, module in parts:
            side.add(inner, module)
        side._need_bias()
        norms = [type(last)] if isinstance(last, _BATCH_NORMS + (nn.GroupNorm,)) else []
        kinds = [type(module) for _, module in parts]
        if not kinds or kinds[0] not in _CONVS or kinds[1:] != norms or " 1 stride" not in (
                side.rows[0].words):
            wanted = "".join(f", {norm.__name__}" for norm in norms)
            raise TypeError(f"layer {name}: a projection has a counterpart if it is a 1 x 1 "
                            f"Conv{wanted}")
        self.tensors += side.tensors

    def is_image(self) -> bool:
        """Whether the convolutions are those of images. Raises TypeError if some are not."""
        kinds = {type(row.module) for row in self.rows if isinstance(row.module, _CONVS)}
        if len(kinds) > 1:
            raise TypeError("Conv1d and Conv2d in one network have no counterpart")
        return kinds != {nn.Conv1d}

    def activation(self) -> str:
        """The most frequent one."""
        used = collections.Counter(row.activation for row in self.rows if row.activation)
        return used.most_common(1)[0][0] if used else "identity"

    def texts(self, activation: str) -> list[str]:
        """The rows, for a network with this activation."""
        self._need_bias()
        return [row.words + (f" activation {row.activation or 'none'}"
                             if isinstance(row.module, _CONVS) and row.activation != activation
                             else "") for row in self.rows]
