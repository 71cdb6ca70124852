"""Arrays and texts of HDF5 files."""
from __future__ import annotations

from typing import BinaryIO, Union

import h5py
import numpy as np

from ..places import PathLike


def read_text(dataset: h5py.Dataset) -> np.ndarray:
    """Texts of a dataset, in any form that HDF5 has, as str."""
    values = read_values(dataset)
    return dataset.asstr()[()] if values.dtype.kind in "OS" else values


def read_values(dataset: h5py.Dataset) -> np.ndarray:
    """Values of a dataset; texts, which are stored as characters, as str."""
    values = dataset[()]
    if isinstance(values, np.ndarray) and values.dtype == "S1" and values.ndim:
        texts = np.ascontiguousarray(values).view(f"S{values.shape[-1]}")[..., 0]
        return np.char.decode(texts, "utf-8")
    return values


def read_arrays(file: Union[PathLike, BinaryIO]) -> dict[str, np.ndarray]:
    """All variables at the root of an output file (docs/files.md) under their names."""
    with h5py.File(file) as f:
        return {name: read_values(item) for name, item in f.items()
                if isinstance(item, h5py.Dataset) and not name.endswith("_strlen")}


def has_names(model: h5py.File) -> bool:
    """False if the names of the inputs are default ones (x0, x1, ...)."""
    names = model.get("names/feature_name")
    return names is not None and bool(names.attrs.get("given", 1))
