"""Trained models in memory, through libtutti."""
from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Optional, Sequence

import numpy as np

from . import dataset
from .hdf5 import has_names
from .prediction import MOMENTS, Prediction
from .program import PathLike, error_of, find_library
from .texts import is_missing
from .version import __version__
from .weights import read_weights

_DOUBLES = ctypes.POINTER(ctypes.c_double)


class _Wanted(ctypes.Structure):
    """struct tutti_prediction of tutti.h."""

    _fields_ = [("size", ctypes.c_size_t), ("workspace", ctypes.c_void_p)] + [
        (name, ctypes.c_void_p) for name in MOMENTS] + [
        (f"{name}_gradient", ctypes.c_void_p) for name in MOMENTS] + [
        ("quantile_count", ctypes.c_int64)] + [
        (name, ctypes.c_void_p) for name in (
            "probability", "quantiles", "lower", "upper", "entropy", "mutual_information",
            "member_mean", "member_variance")]


def _refuse(library: Any, path: str, missing: str) -> None:
    """The library lacks a function: it is of another version, or not libtutti."""
    if not hasattr(library, "tutti_version"):
        raise ImportError(f"{path} is not libtutti (environment variable TUTTI_LIBRARY)")
    version = library.tutti_version
    version.restype, version.argtypes = ctypes.c_char_p, []
    raise ImportError(
        f"{path} has version {version().decode(errors='replace')} and no function "
        f"tutti_{missing}; the Python package tutti has version {__version__}: install both from "
        "one release, or set the environment variable TUTTI_LIBRARY to the library of this one")


@functools.lru_cache(maxsize=None)
def load(path: str) -> Any:
    """libtutti with the types of its functions (tutti.h).

    Raises
    ------
    ImportError
        The library is older than this package, or not libtutti.
    """
    library = ctypes.CDLL(path)
    model, count = ctypes.c_void_p, ctypes.c_int64
    trainer, array = ctypes.c_void_p, ctypes.c_void_p
    for name, result, arguments in (
            ("version", ctypes.c_char_p, []),
            ("error", ctypes.c_char_p, []),
            ("open", ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(model)]),
            ("close", None, [ctypes.POINTER(model)]),
            ("inputs", count, [model]),
            ("columns", count, [model]),
            ("members", count, [model]),
            ("input_name", ctypes.c_char_p, [model, count]),
            ("input_levels", count, [model, count]),
            ("input_level", ctypes.c_char_p, [model, count, count]),
            ("level_value", ctypes.c_double, [model, count, ctypes.c_char_p]),
            ("ensemble_name", ctypes.c_char_p, [model, count]),
            ("column_label", ctypes.c_char_p, [model, count]),
            ("member_columns", count, [model]),
            ("levels", count, [model]),
            ("level", ctypes.c_double, [model, count]),
            ("has_classes", ctypes.c_int, [model]),
            ("target_name", ctypes.c_char_p, [model, count]),
            ("target_units", ctypes.c_char_p, [model, count]),
            ("predict", ctypes.c_int, [model, count, _DOUBLES, ctypes.c_int,
                                       ctypes.POINTER(_Wanted)]),
            ("trainer_create", ctypes.c_int, [array, ctypes.POINTER(trainer)]),
            ("trainer_destroy", None, [ctypes.POINTER(trainer)]),
            ("trainer_members", count, [trainer]),
            ("trainer_outputs", count, [trainer]),
            ("trainer_parameters", count, [trainer]),
            ("trainer_step", ctypes.c_int, [trainer, array, array]),
            ("trainer_forward", ctypes.c_int, [trainer, array, array]),
            ("trainer_backward", ctypes.c_int, [trainer, array, array]),
            ("trainer_update", ctypes.c_int, [trainer]),
            ("trainer_predict", ctypes.c_int, [trainer, count, array, array]),
            ("trainer_model", ctypes.c_int, [trainer, ctypes.POINTER(model)]),
            ("trainer_save", ctypes.c_int, [trainer, ctypes.c_char_p]),
            ("trainer_get_weights", ctypes.c_int, [trainer, count, array]),
            ("trainer_set_weights", ctypes.c_int, [trainer, count, array]),
            ("trainer_learning_rate", ctypes.c_double, [trainer, count]),
            ("trainer_set_learning_rate", ctypes.c_int, [trainer, count, ctypes.c_double]),
            ("trainer_reset", ctypes.c_int, [trainer, count]),
            ("trainer_state_bytes", count, [trainer]),
            ("trainer_get_state", ctypes.c_int, [trainer, array]),
            ("trainer_set_state", ctypes.c_int, [trainer, ctypes.c_char_p, count])):
        function = getattr(library, f"tutti_{name}", None)
        if function is None:
            _refuse(library, path, name)
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
    input_levels : dict of str to list of str
        Levels of each input; empty for amounts (`data.categories`).
    ensembles, targets, units : list of str
        Of each predicted column.
    members : int
        Members of all ensembles.
    levels : list of float
        Nominal coverage of each conformal interval.
    """

    def __init__(self, file: PathLike, program: Optional[PathLike] = None) -> None:
        self._handle = ctypes.c_void_p()
        self._library = load(find_library(program))
        self._check(self._library.tutti_open(os.fsencode(file), ctypes.byref(self._handle)))
        self.file = os.path.abspath(file)
        self._describe()
        self._named = has_names(self.file)

    @staticmethod
    def _of_trainer(library: Any, handle: Any) -> Model:
        """A model in memory, which the object closes."""
        model = Model.__new__(Model)
        model._library, model._handle, model.file = library, handle, "the model of a trainer"
        model._describe()
        model._named = model.input_names != [f"x{i}" for i in range(len(model.input_names))]
        return model

    def _describe(self) -> None:
        """Set the attributes."""
        self.columns = int(self._library.tutti_columns(self._handle))
        self.members = int(self._library.tutti_members(self._handle))
        inputs = int(self._library.tutti_inputs(self._handle))
        self.input_names = [self._text("input_name", i) for i in range(inputs)]
        self.input_levels = {name: self._levels(i) for i, name in enumerate(self.input_names)}
        self.ensembles = [self._text("ensemble_name", i) for i in range(self.columns)]
        self.targets = [self._text("target_name", i) for i in range(self.columns)]
        self.units = [self._text("target_units", i) for i in range(self.columns)]
        self.labels = self._labels()
        levels = int(self._library.tutti_levels(self._handle))
        self.levels = [float(self._library.tutti_level(self._handle, i)) for i in range(levels)]

    def close(self) -> None:
        """Free the memory of the model; it also happens when the object is deleted."""
        if getattr(self, "_handle", None):
            self._library.tutti_close(ctypes.byref(self._handle))

    def _check_open(self) -> None:
        if not self._handle:
            raise ValueError(f"{self.file}: this Model is closed")

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tutti.Model {self.file}: {self.members} members, {len(self.input_names)} inputs>"

    def _text(self, function: str, index: int) -> str:
        value = getattr(self._library, f"tutti_{function}")(self._handle, index)
        return value.decode(errors="replace") if value else ""

    def _levels(self, column: int) -> list[str]:
        count = int(self._library.tutti_input_levels(self._handle, column))
        levels = [self._library.tutti_input_level(self._handle, column, i) for i in range(count)]
        return [level.decode(errors="replace") for level in levels]

    def level_value(self, name: str, level: str) -> float:
        """The number that stands for a level of an input in an array; NaN if there is none."""
        self._check_open()
        column = self.input_names.index(name)
        return float(self._library.tutti_level_value(self._handle, column, level.encode()))

    def _encode(self, column: int, value: Any) -> Any:
        """The number of a text in a column of levels: -1 for one that the model does not know."""
        if is_missing(value) or isinstance(value, str) and value == "":
            return np.nan
        if not isinstance(value, str) or not self.input_levels[self.input_names[column]]:
            return value
        number = float(self._library.tutti_level_value(self._handle, column, value.encode()))
        return -1.0 if np.isnan(number) else number

    def _table(self, x: Any) -> dataset.Table:
        """The rows as numbers; the library checks the values."""
        self._check_open()
        levels = any(self.input_levels.values())
        return dataset.inputs(x, False, self.input_names if levels else (), self._encode)

    def _check(self, code: int) -> None:
        if code:
            raise error_of(code, self._library.tutti_error().decode(errors="replace"))

    def _labels(self) -> list[str]:
        labels = [self._text("column_label", i) for i in range(self.columns)]
        if len(set(self.ensembles)) > 1:
            labels = [f"{e}: {label}" for e, label in zip(self.ensembles, labels)]
        return labels

    def _arrays(self, rows: int, quantiles: int, members: bool,
                gradient: bool) -> dict[str, np.ndarray]:
        """Empty arrays for what tutti_predict fills."""
        cells = (rows, self.columns)
        out = {name: np.empty(cells) for name in MOMENTS}
        if gradient:
            shape = (*cells, len(self.input_names))
            out.update({f"{name}_gradient": np.empty(shape) for name in MOMENTS})
        levels = int(self._library.tutti_levels(self._handle))
        if quantiles:
            out["quantiles"] = np.empty((quantiles, *cells))
        if levels:
            out.update({name: np.empty((levels, *cells)) for name in ("lower", "upper")})
        if self._library.tutti_has_classes(self._handle):
            out.update({name: np.empty(cells) for name in ("entropy", "mutual_information")})
        if members:
            width = int(self._library.tutti_member_columns(self._handle))
            shape = (self.members, rows, width)
            out.update({name: np.empty(shape) for name in ("member_mean", "member_variance")})
        return out

    def arrays(self, ensemble: Optional[str] = None) -> dict[str, Any]:
        """Weights of the members that predictions use, layer by layer, and their scales.

        A model with several ensembles needs the name of one. docs/python.md lists the arrays.

        Raises
        ------
        ValueError
            The networks are not dense layers with one set of scales; the message says why.
        """
        self._check_open()
        return read_weights(self, ensemble)

    def predict(self, x: Any, *, quantiles: Sequence[float] = (), members: bool = False,
                gradient: bool = False, threads: int = 0) -> Prediction:
        """Predict rows in this process, with the bits of `tutti predict`.

        Parameters
        ----------
        x : array, DataFrame or DataArray, shape (rows, inputs)
            In the units of the training data. Columns are matched by name if both the model and
            `x` have names. Levels are texts, or numbers as `level_value` gives.
        quantiles : sequence of float
            Also predict these quantiles, each between 0 and 1.
        members : bool
            Also return the prediction of each member.
        gradient : bool
            Also return the derivatives of mean and standard deviations by the inputs:
            `mean_gradient` and others.
        threads : int
            0 = all cores of this process.

        Raises
        ------
        ValueError
            The shape or the names do not fit, or a value is not finite; NaN is accepted where
            the model has a value for a missing input (`data.missing`).
        tutti.Error
            Quantiles of a model that predicts no distribution.
        """
        table = self._table(x)
        values = dataset.match(table, self.input_names, self._named)
        levels = np.ascontiguousarray(quantiles, dtype=np.float64)
        out = self._arrays(len(values), len(levels), members, gradient)
        wanted = _Wanted(size=ctypes.sizeof(_Wanted), quantile_count=len(levels),
                         probability=levels.ctypes.data,
                         **{name: array.ctypes.data for name, array in out.items()})
        self._check(self._library.tutti_predict(
            self._handle, len(values), values.ctypes.data_as(_DOUBLES), threads,
            ctypes.byref(wanted)))
        return Prediction(**out, columns=list(self.labels), units=list(self.units),
                          index=table.index)
