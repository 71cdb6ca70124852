"""Structs of tutti.h for trainers, and arrays for its functions."""
from __future__ import annotations

import ctypes
from typing import Any, ClassVar, Optional, Sequence

import numpy as np

POINTER = ctypes.c_void_p


class Options(ctypes.Structure):
    """struct tutti_trainer_options."""

    _fields_: ClassVar[Sequence[Any]] = [
        ("size", ctypes.c_size_t), ("options", ctypes.c_char_p), ("set", POINTER),
        ("nset", ctypes.c_int), ("threads", ctypes.c_int), ("inputs", ctypes.c_int64),
        ("targets", ctypes.c_int64)] + [
            (name, POINTER) for name in (
                "input_name", "target_name", "x_mean", "x_scale", "y_mean", "y_scale")] + [
                    ("epoch_rows", ctypes.c_int64), ("on_ranks", ctypes.c_int),
                    ("comm", ctypes.c_int)]


class Batch(ctypes.Structure):
    """struct tutti_batch."""

    _fields_ = [("size", ctypes.c_size_t), ("rows", ctypes.c_int64), ("x", POINTER),
                ("y", POINTER), ("weight", POINTER), ("count", ctypes.c_int64),
                ("index", POINTER), ("own_rows", ctypes.c_int)]


def values_of(array: Any, kind: Any = np.float32) -> np.ndarray:
    """An array of numpy or a tensor of torch on the CPU; copied only if it is of another type."""
    if hasattr(array, "detach"):
        array = array.detach()
    return np.ascontiguousarray(array, dtype=kind)


def flat_rows(x: np.ndarray, inputs: int) -> np.ndarray:
    """Rows (..., inputs) of images or profiles (..., channels, height, width)."""
    for lead in (1, 2):
        if x.ndim > lead + 1 and x.shape[-1] != inputs and np.prod(x.shape[lead:]) == inputs:
            return x.reshape(*x.shape[:lead], inputs)
    return x


def address(array: Optional[np.ndarray]) -> Optional[int]:
    """Of the first value; None stays None."""
    return None if array is None else array.__array_interface__["data"][0]


def check_shape(name: str, array: np.ndarray, rows: tuple[int, ...], columns: int = 1) -> None:
    """`array` has a value for each row and column; the axis of one column may be missing."""
    if array.shape != (*rows, columns) and (columns > 1 or array.shape != rows):
        raise ValueError(f"{name} has the shape {array.shape}: "
                         f"{(*rows, columns) if columns > 1 else rows}")


def texts(names: Optional[Sequence[str]], count: int, what: str) -> Optional[Any]:
    """Names as an array of C; None stays None."""
    if names is None:
        return None
    if len(names) != count:
        raise ValueError(f"{len(names)} {what} names for {count} columns")
    return (ctypes.c_char_p * count)(*[str(name).encode() for name in names])
