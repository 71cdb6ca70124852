"""Tables with names and units from arrays, DataFrames and DataArrays; data files from tables."""
from __future__ import annotations

import dataclasses
import sys
from typing import Any, BinaryIO, Callable, Mapping, Optional, Sequence, Union

import h5py
import numpy as np

from .texts import no_number, take_texts


@dataclasses.dataclass
class Table:
    """Columns of numbers.

    Attributes
    ----------
    values : ndarray, shape (rows, columns), float64
    names, units : list of str, or None if there are none
    index : labels of the rows (of pandas or xarray), or None
    one : True if the source had one dimension
    texts : columns of texts, by their numbers; their `values` are NaN
    """

    values: np.ndarray
    names: Optional[list[str]] = None
    units: Optional[list[str]] = None
    index: Any = None
    one: bool = False
    texts: Mapping[int, list[str]] = dataclasses.field(default_factory=dict)

    def rows(self) -> int:
        return self.values.shape[0]


def _is(value: Any, module: str, kind: str) -> bool:
    """isinstance without an import: a value of a module exists only if the module is loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, kind, ()))


def _names(labels: Sequence[Any]) -> Optional[list[str]]:
    """Labels as names, if all of them are texts; numbers are positions and not names."""
    names = [str(label) for label in labels]
    return names if names and all(isinstance(label, str) for label in labels) else None


def _units(names: Sequence[Any], given: Any) -> Optional[list[str]]:
    if isinstance(given, Mapping):
        given = [given.get(name, "") for name in names]
    elif isinstance(given, str):
        given = [given] * len(names)
    return [str(unit) for unit in given] if given is not None and any(given) else None


def _of_pandas(frame: Any) -> tuple:
    units = frame.attrs.get("units")
    values = frame.to_numpy()
    if values.dtype == object:  # None, NaT and NA of nullable columns
        values = np.where(frame.isna().to_numpy(), np.nan, values)
    labels = [frame.name] if frame.ndim == 1 else frame.columns
    return values, _names(labels), _units(labels, units), frame.index


def _of_dataarray(array: Any) -> tuple:
    index = array.indexes.get(array.dims[0]) if array.ndim else None
    units = array.attrs.get("units")
    if array.ndim < 2:
        return array.values, _names([array.name]), _units([array.name], units), index
    axis = array.dims[1]
    labels = array.coords[axis].values.tolist() if axis in array.coords else []
    for coordinate in ("units", f"{axis}_units"):
        if coordinate in array.coords and array.coords[coordinate].dims == (axis,):
            units = array.coords[coordinate].values.tolist()
    return array.values, _names(labels), _units(labels or range(array.shape[1]), units), index


def _of_dataset(dataset: Any) -> tuple:
    names = [str(name) for name in dataset.data_vars]
    arrays = [dataset[name] for name in names]
    dims = {array.dims for array in arrays}
    if len(dims) != 1 or len(next(iter(dims))) != 1:
        raise ValueError("the variables of a Dataset must all have one and the same dimension")
    units = [array.attrs.get("units", "") for array in arrays]
    values = np.stack([array.values for array in arrays], axis=1)
    return values, names, _units(names, units), arrays[0].indexes.get(arrays[0].dims[0])


def _of_mapping(mapping: Mapping[str, Any]) -> tuple:
    columns = [np.asarray(column) for column in mapping.values()]
    if any(column.dtype.kind in "OSU" for column in columns):
        columns = [column.astype(object) for column in columns]
    return np.stack(columns, axis=1), _names(list(mapping)), None, None


def _split(value: Any) -> tuple:
    """Values, names, units and index of any kind of table."""
    if _is(value, "pandas", "DataFrame") or _is(value, "pandas", "Series"):
        return _of_pandas(value)
    if _is(value, "xarray", "DataArray"):
        return _of_dataarray(value)
    if _is(value, "xarray", "Dataset"):
        return _of_dataset(value)
    if isinstance(value, Mapping) and not hasattr(value, "toarray"):
        return _of_mapping(value)
    return value, None, None, None


def names_of(value: Any) -> Optional[list[str]]:
    """Names of the columns of any kind of table, or None."""
    return _split(value)[1]


def _numbers(values: Any, what: str, names: Optional[Sequence[str]] = None) -> np.ndarray:
    if hasattr(values, "toarray"):
        raise TypeError(f"{what} is a sparse matrix; dense numbers are needed: {what}.toarray()")
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise ValueError(f"{what}: Complex data not supported")
    if array.dtype.kind in "mM":
        raise TypeError(f"{what} has dates or times, {array.dtype}; give numbers, for example "
                        "(t - t0) / np.timedelta64(1, 'D'), and sine and cosine of what repeats")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(no_number(error, array, what, names)) from None


def _encode(values: Any, names: Optional[list[str]], columns: Sequence[str],
            number: Callable[[int, Any], Any]) -> Any:
    """Numbers instead of texts: those that `number` returns for a column of a model and a value."""
    values = np.asarray(values)
    if values.dtype.kind not in "OSU" or values.ndim != 2:
        return values
    out = np.empty(values.shape, dtype=np.float64)
    for k in range(values.shape[1]):
        of = columns.index(names[k]) if names and names[k] in columns else min(k, len(columns) - 1)
        out[:, k] = [number(of, v) for v in values[:, k].tolist()]
    return out


def inputs(x: Any, finite: bool = True, columns: Sequence[str] = (),
           number: Optional[Callable[[int, Any], Any]] = None, texts: bool = False) -> Table:
    """Table of inputs: two-dimensional, finite unless the caller checks that.

    Parameters
    ----------
    columns : sequence of str
        Names of the inputs of a model whose categories may be texts.
    number : callable, optional
        Number of a text, of a column of this model.
    texts : bool
        Columns of an array of objects may be texts.

    Raises
    ------
    ValueError
        The shape is not (rows, columns), or a value is NaN or infinite.
    """
    values, names, units, index = _split(x)
    found: dict[int, list[str]] = {}
    if number and columns:
        values = _encode(values, names, columns, number)
    elif texts:
        values, found = take_texts(values)
    values = _numbers(values, "X", names)
    if values.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got an array of {values.ndim} dimensions for X. Reshape your "
            "data with X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row")
    if values.shape[0] < 1:
        raise ValueError("X: Found array with 0 sample(s); at least 1 is needed")
    if values.shape[1] < 1:
        raise ValueError(f"0 feature(s) (shape={values.shape}) while a minimum of 1 is required.")
    fits = np.isfinite(values)
    fits[:, list(found)] = True
    bad = np.argwhere(~fits)
    if finite and len(bad):
        row, column = bad[0]
        name = names[column] if names else f"{column}"
        raise ValueError(
            f"X contains NaN or infinity: row {row}, column {name} is {values[row, column]}"
            f"{'' if np.isinf(values[row, column]) else '; data.missing says what to do'}")
    return Table(values, names, units, index, texts=found)


def targets(y: Any, rows: int) -> Table:
    """Table of targets, with as many rows as the inputs; NaN marks a missing label.

    Raises
    ------
    ValueError
        The shape is wrong, or a value is infinite.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    values, names, units, index = _split(y)
    values = _numbers(values, "y", names)
    if values.ndim not in (1, 2):
        raise ValueError(f"y has {values.ndim} dimensions; (rows,) or (rows, targets) is expected")
    if values.shape[0] != rows:
        raise ValueError(f"inconsistent numbers of samples: X has {rows}, y has {values.shape[0]}")
    if np.isinf(values).any():
        row = np.argwhere(np.isinf(values))[0][0]
        raise ValueError(f"y contains infinity: row {row}")
    one = values.ndim == 1
    return Table(values.reshape(rows, -1), names, units, index, one)


def per_row(values: Any, rows: int, what: str, dtype: Any = np.float64) -> np.ndarray:
    """One number for each row.

    Raises
    ------
    ValueError
        There is another number of them.
    """
    array = np.asarray(values, dtype=dtype)
    if array.shape != (rows,):
        raise ValueError(f"{what} has the shape {array.shape}; ({rows},) is expected")
    return array


def ids(index: Any) -> Optional[np.ndarray]:
    """Labels of rows that can be data.id: different texts, whole numbers or times; None for
    others, and for the numbers 0, 1, 2, ... that a table has by default."""
    if index is None or getattr(index, "nlevels", 1) > 1 or not index.is_unique:
        return None
    values = np.asarray(index)
    if values.dtype.kind == "M":
        values = values.astype(str).astype(object)
    if values.dtype.kind in "iu":
        return None if np.array_equal(values, np.arange(len(values))) else values
    if values.dtype.kind in "OU" and all(isinstance(v, str) for v in values.tolist()):
        return values.astype(h5py.string_dtype())
    return None


def write(path: Union[str, BinaryIO], tables: Mapping[str, Table],
          others: Optional[Mapping[str, np.ndarray]] = None) -> None:
    """Write a data file (docs/files.md).

    Parameters
    ----------
    tables : mapping
        "x" and "y" to their tables.
    others : mapping, optional
        Names of other datasets to their values.
    """
    with h5py.File(path, "w") as f:
        for dataset, table in tables.items():
            f[dataset] = table.values
            prefix = {"x": "feature", "y": "target"}[dataset]
            if table.names:
                f[f"{prefix}_name"] = table.names
            if table.units:
                f[f"{prefix}_units"] = table.units
        for name, values in (others or {}).items():
            f[name] = values


def match(table: Table, names: Sequence[str], given: bool) -> np.ndarray:
    """Values of a table with its columns in the order of `names`.

    Columns are matched by name if both sides have names, otherwise by position.

    Raises
    ------
    ValueError
        Another number of columns, or other names.
    """
    if table.values.shape[1] != len(names):
        parts = [f"X has {table.values.shape[1]} features, but Model is expecting "
                 f"{len(names)} features as input"]
        for text, of, other in (("missing", names, table.names),
                                ("not known to the model", table.names, names)):
            some = [name for name in of or () if name not in (other or ())] if table.names else []
            if some and given:
                parts.append(f"{text}: {', '.join(some)}")
        raise ValueError("; ".join(parts))
    if not table.names or not given or table.names == list(names):
        return table.values
    if sorted(table.names) != sorted(names):
        other = sorted(set(table.names) - set(names))
        raise ValueError(f"X has columns that the model does not know: {', '.join(other)}; it was "
                         f"trained on {', '.join(names)}")
    return np.ascontiguousarray(table.values[:, [table.names.index(name) for name in names]])
