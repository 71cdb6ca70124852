"""Trainers and model files from the weights of networks (`tutti.Model.arrays`)."""
from __future__ import annotations

import warnings
from typing import Any, Mapping, Optional

import numpy as np

from ..library import Model
from ..places import PathLike
from ..program import level_of_caller
from ..weights import read_weights
from .trainer import Trainer

# The loss that a network with this output is trained with, unless the caller names another one.
_LOSS = {"mean": "mse", "mean_variance": "gaussian_nll", "quantiles": "quantile",
         "softmax": "cross_entropy", "sigmoid": "bce", "rate": "poisson"}
_LINEAR = ("none", "standard", "minmax", "robust")  # (value - mean) / scale


def _check(a: Mapping[str, Any], what: str) -> None:
    """ValueError if a trainer cannot have these scales or weights of members."""
    names = [(name, kind) for axis, names in (("x", "input_name"), ("y", "target_name"))
             for name, kind in zip(a.get(names, ()), a.get(f"{axis}_normalize", ()))
             if kind not in _LINEAR]
    if names:
        raise ValueError(f"{what}: {names[0][0]} has the transform {names[0][1]} of "
                         "data.normalize, a trainer has scales only")
    weight = np.asarray(a.get("member_weight", 1.0))
    if (weight != weight.flat[0]).any():
        raise ValueError(f"{what}: its members have different weights in the mean, those of a "
                         "trainer have the same")


def _targets(a: Mapping[str, Any], output: str, outputs: int) -> int:
    each = {"softmax": outputs, "mean_variance": 2, "quantiles": len(a.get("level", (0,)))}
    count, rest = divmod(outputs, each.get(output, 1))
    if rest:
        raise ValueError(f"{outputs} outputs are no targets with the output {output}")
    return count


def _options(a: Mapping[str, Any], what: str, loss: Optional[str]) -> dict[str, Any]:
    """Parameters of a `Trainer` for arrays as those of `Model.arrays`."""
    _check(a, what)
    layers, output = a["layers"], a.get("output", "mean")
    if output not in _LOSS:
        raise ValueError(f"{what}: output={output!r}: {', '.join(_LOSS)}")
    last = layers[-1]["weight"].shape[1]
    options = {"inputs": layers[0]["weight"].shape[2], "targets": _targets(a, output, last),
               "ensembles": [{"name": a.get("name", "ensemble")}],
               "members": len(layers[0]["weight"]), "activation": a["activation"],
               "hidden": [layer["weight"].shape[1] for layer in layers[:-1]],
               "layer_norm": "gain" in layers[0], "residual": bool(a.get("residual")),
               "output": output, "loss": loss or _LOSS[output]}
    for axis, names in (("x", "input_name"), ("y", "target_name")):
        if names in a:
            options[f"{names.replace('_name', '')}_names"] = list(a[names])
        if f"{axis}_scale" in a:
            options[f"{axis}_scale"] = (a[f"{axis}_mean"], a[f"{axis}_scale"])
    if output == "softmax":
        options["classes"] = last
    if output == "quantiles":
        options["quantiles"] = a["level"]
    if output == "mean_variance" and "variance_floor" in a:
        options["variance_floor"] = a["variance_floor"]
    return options


def _parameters(a: Mapping[str, Any]) -> np.ndarray:
    """[members, parameters] in the order of `Trainer.set_weights`."""
    members = len(a["layers"][0]["weight"])
    return np.concatenate([np.asarray(layer[name], np.float32).reshape(members, -1)
                           for layer in a["layers"] for name in ("weight", "bias", "gain", "shift")
                           if name in layer], axis=1)


def trainer_of(a: Mapping[str, Any], what: str, loss: Optional[str], kind: type[Trainer],
               **options: Any) -> Trainer:
    """A trainer whose members begin with these weights."""
    made = kind(**_options(a, what, loss), **options)
    made.set_weights(-1, _parameters(a))
    return made


def trainer_of_model(model: Model, ensemble: Optional[str], loss: Optional[str],
                     kind: type[Trainer], **options: Any) -> Trainer:
    """What `Trainer.from_model` returns; warns of what it leaves out."""
    a = read_weights(model, ensemble)
    with model.open_file() as f:
        recalibrated = any(name in f and bool((f[name][()] != plain).any()) for name, plain in (
            ("calibration/std_scale", 1), ("calibration/noise", 0)))
    lost = [text for there, text in (
        (recalibrated, "noise and factor of the standard deviations"),
        (model.levels, "conformal intervals")) if there]
    if lost:
        warnings.warn(f"{model.file}: the {' and the '.join(lost)} are left out: they belong to "
                      "the weights before the training, and a trainer has no validation rows to "
                      "find new ones; fit with init_from= finds them", UserWarning,
                      stacklevel=level_of_caller())
    return trainer_of(a, f"{model.file}: ensemble {a['name']}", loss, kind, **options)


def write_model(file: PathLike, arrays: Mapping[str, Any], *,
                program: Optional[PathLike] = None) -> None:
    """Write networks of any origin as a model file, for `Model` and every other use.

    Parameters
    ----------
    file : path
        One that is there is replaced.
    arrays : mapping
        As `Model.arrays` returns. `layers` and `activation` are needed: in each layer `weight`
        (members, out, in), `bias` (members, out), with layer_norm `gain` and `shift`. `output` is
        mean by default; without `x_mean`, `x_scale`, `y_mean`, `y_scale` the networks get and
        predict the user's units. `parameters` is not used.

    Raises
    ------
    ValueError
        A trainer cannot have these networks, or these scales; the message says why.
    """
    with trainer_of(arrays, "arrays", None, Trainer, program=program, device="cpu") as trainer:
        trainer.save(file)
