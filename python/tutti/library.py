"""Trained models in memory, through libtutti."""
from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Optional

import h5py
import numpy as np

from . import dataset
from .prediction import Prediction
from .program import PathLike, error_of, find_library

_DOUBLES = ctypes.POINTER(ctypes.c_double)


@functools.lru_cache(maxsize=None)
def load(path: str) -> Any:
    """libtutti with the types of its functions (tutti.h)."""
    library = ctypes.CDLL(path)
    model, count = ctypes.c_void_p, ctypes.c_int64
    for name, result, arguments in (
            ("version", ctypes.c_char_p, []),
            ("error", ctypes.c_char_p, []),
            ("open", ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(model)]),
            ("close", None, [ctypes.POINTER(model)]),
            ("inputs", count, [model]),
            ("columns", count, [model]),
            ("members", count, [model]),
            ("input_name", ctypes.c_char_p, [model, count]),
            ("ensemble_name", ctypes.c_char_p, [model, count]),
            ("target_name", ctypes.c_char_p, [model, count]),
            ("target_units", ctypes.c_char_p, [model, count]),
            ("predict", ctypes.c_int, [model, count, _DOUBLES, ctypes.c_int] + 4 * [_DOUBLES])):
        function = getattr(library, f"tutti_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Model:
    """A trained ensemble, or several, read from model.h5.

    Parameters
    ----------
    file : path
        model.h5 of a run.
    program : path, optional
        The program whose library is used; see `tutti.find_library`.

    Attributes
    ----------
    input_names : list of str
    ensembles, targets, units : list of str
        Of each predicted column.
    members : int
        Members of all ensembles.
    """

    def __init__(self, file: PathLike, program: Optional[PathLike] = None) -> None:
        self._handle = ctypes.c_void_p()
        self._library = load(find_library(program))
        self._check(self._library.tutti_open(os.fsencode(file), ctypes.byref(self._handle)))
        self.file = os.path.abspath(file)
        self.columns = int(self._library.tutti_columns(self._handle))
        self.members = int(self._library.tutti_members(self._handle))
        inputs = int(self._library.tutti_inputs(self._handle))
        self.input_names = [self._text("input_name", i) for i in range(inputs)]
        self.ensembles = [self._text("ensemble_name", i) for i in range(self.columns)]
        self.targets = [self._text("target_name", i) for i in range(self.columns)]
        self.units = [self._text("target_units", i) for i in range(self.columns)]
        self._named = _has_names(self.file)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.tutti_close(ctypes.byref(self._handle))

    def __repr__(self) -> str:
        return f"<tutti.Model {self.file}: {self.members} members, {len(self.input_names)} inputs>"

    def _text(self, function: str, index: int) -> str:
        value = getattr(self._library, f"tutti_{function}")(self._handle, index)
        return value.decode(errors="replace") if value else ""

    def _check(self, code: int) -> None:
        if code:
            raise error_of(code, self._library.tutti_error().decode(errors="replace"))

    def labels(self) -> list[str]:
        """A name for each predicted column: the target, with its ensemble if there are several."""
        if len(set(self.ensembles)) == 1:
            return list(self.targets)
        return [f"{e}: {t}" for e, t in zip(self.ensembles, self.targets)]

    def predict(self, x: Any, threads: int = 0) -> Prediction:
        """Predict rows, with the bits of `tutti predict`.

        Parameters
        ----------
        x : array, DataFrame or DataArray, shape (rows, inputs)
            In the units of the training data. Columns are matched by name if both the model and
            `x` have names.
        threads : int
            0 = all cores of this process.

        Raises
        ------
        ValueError
            The shape or the names do not fit, or a value is not finite.
        """
        table = dataset.inputs(x)
        values = dataset.match(table, self.input_names, self._named)
        out = [np.empty((len(values), self.columns)) for _ in range(4)]
        self._check(self._library.tutti_predict(
            self._handle, len(values), values.ctypes.data_as(_DOUBLES), threads,
            *(array.ctypes.data_as(_DOUBLES) for array in out)))
        return Prediction(*out, columns=self.labels(), units=list(self.units), index=table.index)


def _has_names(file: str) -> bool:
    """False if the names of the inputs are default ones (x0, x1, ...)."""
    with h5py.File(file) as f:
        names = f.get("names/feature_name")
        return names is not None and bool(names.attrs.get("given", 1))
