"""Trained models in memory, through libtutti."""
from __future__ import annotations

import ctypes
import io
import os
import pathlib
import tempfile
from typing import Any, Optional, Sequence, Union

import h5py
import numpy as np

from .binding import DOUBLES, Wanted, load
from .data import dataset
from .data.hdf5 import has_names, read_arrays
from .data.texts import is_missing
from .prediction import MOMENTS, Prediction, of_arrays, table_of
from .places import PathLike, find_library, find_program
from .program import error_of, run
from .weights import read_weights


class Model:
    """A trained ensemble, or several, read from model.h5.

    Parameters
    ----------
    file : path or bytes
        model.h5 of a run, or what is in such a file.
    program : path, optional
        The program whose library is used; see `tutti.find_library`.
    group : str, optional
        For a model that was trained with `by`: predict with the ensemble of this value; "(pooled)"
        is the ensemble of all rows. Such a model in memory (bytes) cannot be opened.

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

    def __init__(self, file: Union[PathLike, bytes], program: Optional[PathLike] = None,
                 group: Optional[object] = None) -> None:
        self._handle = ctypes.c_void_p()
        self._library = load(find_library(program))
        self._program, self._group = program, group
        self._bytes = file if isinstance(file, bytes) else None
        if isinstance(file, bytes):
            self.file = "the model in memory"
            code = self._library.tutti_open_memory(file, len(file), ctypes.byref(self._handle))
        else:
            self.file = os.path.abspath(file)
            handle = ctypes.byref(self._handle)
            code = (self._library.tutti_open(os.fsencode(file), handle) if group is None else
                    self._library.tutti_open_group(os.fsencode(file), str(group).encode(), handle))
        self._check(code)
        self._describe()
        with self.open_file() as f:
            self._named = has_names(f)

    @staticmethod
    def _of_trainer(library: Any, handle: Any) -> Model:
        """A model in memory, which the object closes."""
        model = Model.__new__(Model)
        model._library, model._handle, model.file = library, handle, "the model of a trainer"
        model._bytes = model._program = model._group = None
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

    def open_file(self) -> h5py.File:
        """The model file (docs/files.md), for reading with h5py."""
        if self._bytes is None and not os.path.isfile(self.file):
            raise ValueError(f"{self.file}: weights are read from the file, and there is none; "
                             "Trainer.save writes it")
        return h5py.File(self.file if self._bytes is None else io.BytesIO(self._bytes), "r")

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

    def _repr_html_(self) -> str:
        """Members, inputs and predicted columns, for a notebook."""
        return table_of(["", ""], [
            ["model", self.file], ["members", self.members],
            ["inputs", ", ".join(self.input_names)],
            ["predicted", ", ".join(f"{label} ({unit})" if unit else label
                                    for label, unit in zip(self.labels, self.units))]])

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
        out: dict[str, np.ndarray] = {name: np.empty(cells) for name in MOMENTS}
        out["extrapolation"] = np.empty(rows)
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
        x : array, DataFrame or DataArray, shape (rows, inputs), or path
            In the units of the training data. Columns are matched by name if both the model and
            `x` have names. Levels are texts, or numbers as `level_value` gives. The program reads
            a table in a file, with the format, texts, dates and ids of the training data.
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
        if isinstance(x, (str, os.PathLike)):
            return self._predict_file(x, quantiles, members, gradient)
        table = self._table(x)
        values = dataset.match(table, self.input_names, self._named)
        levels = np.ascontiguousarray(quantiles, dtype=np.float64)
        out = self._arrays(len(values), len(levels), members, gradient)
        wanted = Wanted(size=ctypes.sizeof(Wanted), quantile_count=len(levels),
                         probability=levels.ctypes.data,
                         **{name: array.ctypes.data for name, array in out.items()})
        self._check(self._library.tutti_predict(
            self._handle, len(values), values.ctypes.data_as(DOUBLES), threads,
            ctypes.byref(wanted)))
        return Prediction(**out, columns=list(self.labels), units=list(self.units),
                          index=table.index)

    def _predict_file(self, table: PathLike, quantiles: Sequence[float], members: bool,
                      gradient: bool) -> Prediction:
        """Predict the rows of a file with the program."""
        self._check_open()
        words = ["--members"] * members + ["--jacobian"] * gradient
        if len(quantiles):
            words += ["--quantiles", ",".join(map(repr, map(float, quantiles)))]
        if self._group is not None:
            words += ["--group", str(self._group)]
        with tempfile.TemporaryDirectory() as folder, self.open_file():
            source, out = self.file, os.path.join(folder, "pred.h5")
            if self._bytes is not None:
                source = os.path.join(folder, "model.h5")
                pathlib.Path(source).write_bytes(self._bytes)
            run([find_program(self._program), "predict", source, os.fspath(table), "-o", out,
                 *words])
            return of_arrays(read_arrays(out), self.labels, self.units)
