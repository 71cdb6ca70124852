"""Weights of trained networks, from model.h5 (docs/files.md)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import h5py
import numpy as np

from .data.hdf5 import read_text

if TYPE_CHECKING:
    from .library import Model


def _only_ensemble(model: Model, name: Optional[str]) -> str:
    names = list(dict.fromkeys(model.ensembles))
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        raise ValueError(f"ensemble={name!r}: the model has {', '.join(names)}")
    return name


def _refuse(f: h5py.File, what: str, network: np.ndarray) -> None:
    """ValueError if the weights are no dense layers of the members with one network."""
    net, k = f["net"], network[0]
    for condition, reason in (
            ((network != k).any(), "its members have several networks"),
            (net["front_axes"][k] > 0, "its networks have layers for images or profiles"),
            ("network_input_column" in f, "its inputs have categories or missing values"),
            ("y_component" in f["scaler"], "its outputs are amplitudes of data.targets_pca")):
        if condition:
            raise ValueError(f"{what}: {reason}; h5py reads such files (docs/files.md)")


def _read_layers(net: h5py.Group, k: int, parameters: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Arrays of each layer: [members, ...]."""
    members, layers = len(parameters), []
    for l in range(int(net["n_layers"][k])):
        out, into = int(net["layer_out"][k, l]), int(net["layer_in"][k, l])
        places = [("weight", net["weight_offset"][k, l], (out, into)),
                  ("bias", net["bias_offset"][k, l], (out,))]
        gain = net["gain_offset"][k, l]
        if gain >= 0:
            places += [("gain", gain, (out,)), ("shift", gain + out, (out,))]
        layers.append({name: parameters[:, at:at + int(np.prod(shape))].reshape(members, *shape)
                       for name, at, shape in places})
    return layers


def _read_scales(f: h5py.File, ensemble: int) -> dict[str, np.ndarray]:
    s, targets = f["scaler"], f["ensemble_column"][ensemble]
    targets = targets[targets >= 0]
    scales = {}
    for name in ("mean", "scale", "lambda", "normalize"):
        x, y = (read_text(s[f"{axis}_{name}"]) if name == "normalize" else s[f"{axis}_{name}"][()]
                for axis in "xy")
        scales.update({f"x_{name}": x, f"y_{name}": y[targets]})
    return {**scales, "target_name": read_text(f["names/target_name"])[targets]}


def read_weights(model: Model, ensemble: Optional[str] = None) -> dict[str, Any]:
    """What `tutti.Model.arrays` returns."""
    name = _only_ensemble(model, ensemble)
    with model.open_file() as f:
        net, e = f["net"], list(read_text(f["ensemble_name"])).index(name)
        first, weight = int(f["ensemble_first"][e]), f["member_weight"][()]
        members = first + np.arange(int(f["ensemble_members"][e]))
        members = members[weight[members] > 0]
        network = net["network_of_member"][()][members]
        _refuse(f, f"{model.file}: ensemble {name}", network)
        k, begin = network[0], net["first_parameter"][()]
        end = np.append(begin[1:], net["parameters"].size)
        parameters = np.stack([net["parameters"][begin[m]:end[m]] for m in members])
        layers, levels = _read_layers(net, k, parameters), int(net["levels"][k])
        hidden = [layer["bias"].shape[1] for layer in layers[:-1]]
        return {"name": name, "input_name": list(model.input_names), "layers": layers,
                "parameters": parameters,
                "member_index": f["member_index"][()][members], "member_weight": weight[members],
                "activation": str(read_text(net["activation"])[k]),
                "output": str(read_text(net["output"])[k]),
                "level": net["level"][k, :levels] if "level" in net else np.empty(0),
                "levels": levels, "variance_floor": float(net["variance_floor"][k]),
                "layer_norm": bool(net["layer_norm"][k]),
                "residual": bool(net["residual"][k]) and any(
                    a == b for a, b in zip(hidden, hidden[1:])),
                **_read_scales(f, e)}
