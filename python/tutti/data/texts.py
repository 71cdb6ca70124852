"""Columns of texts in tables, which are categories (data.categories)."""
from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any, BinaryIO, Mapping, Optional, Sequence, Union

import h5py
import numpy as np

if TYPE_CHECKING:
    from .dataset import Table


def is_missing(value: Any) -> bool:
    """None, NaN, and what pandas writes for a missing value."""
    return (value is None or isinstance(value, float) and value != value
            or type(value).__name__ in ("NAType", "NaTType"))


def take_texts(values: Any) -> tuple[Any, dict[int, list[str]]]:
    """Numbers, with NaN in the columns of an array of objects that hold a text, and these columns.
    A missing text is empty."""
    texts: dict[int, list[str]] = {}
    if getattr(values, "dtype", None) != object or values.ndim != 2:
        return values, texts
    values = values.copy()
    for k in range(values.shape[1]):
        column = values[:, k].tolist()
        if any(isinstance(v, str) for v in column):
            texts[k] = ["" if is_missing(v) else str(v) for v in column]
            values[:, k] = np.nan
    return values, texts


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def categories(table: Table, names: Sequence[str], given: Any) -> Any:
    """data.categories with an entry for each column of texts: that of its name or of the first
    pattern that matches it, otherwise error.

    Parameters
    ----------
    given : mapping, word or None
        data.categories as the user gives it; a word is for all columns.
    """
    if given is not None and not isinstance(given, Mapping):
        return given
    made = dict(given or {})
    for k in table.texts:
        rules = [rule for key, rule in (given or {}).items() if fnmatch.fnmatchcase(names[k], key)]
        made.setdefault(names[k], (rules or ["error"])[0])
    return made


def write_columns(path: Union[str, BinaryIO], x: Table, y: Table,
                  others: Mapping[str, np.ndarray]) -> dict:
    """Write a data file with one dataset for each column, because some are texts.

    Returns
    -------
    dict with inputs, targets : list of str; others : names of the other datasets

    Raises
    ------
    ValueError
        Two columns have one name, or a name cannot be that of a dataset.
    """
    inputs_, targets_ = ([str(n) for n in table.names or
                          [f"{letter}{k}" for k in range(table.values.shape[1])]]
                         for table, letter in ((x, "x"), (y, "y")))
    columns = inputs_ + targets_
    bad = [n for k, n in enumerate(columns) if not n or n == "." or "/" in n or n in columns[:k]]
    if bad:
        raise ValueError(f"a table with texts cannot have a column {bad[0]!r}: names of inputs and "
                         "targets differ, and have no /")
    renamed = {name: _free(name, columns) for name in others}
    with h5py.File(path, "w") as f:
        for table, names in ((x, inputs_), (y, targets_)):
            for k, name in enumerate(names):
                if k in table.texts:
                    f.create_dataset(name, data=table.texts[k], dtype=h5py.string_dtype())
                else:
                    f[name] = table.values[:, k]
                if table.units and table.units[k]:
                    f[name].attrs["units"] = table.units[k]
        for name, values in others.items():
            f[renamed[name]] = values
    return {"inputs": inputs_, "targets": targets_, "others": renamed}


def no_number(error: Exception, array: np.ndarray, what: str,
              names: Optional[Sequence[str]]) -> str:
    """The message of a failed conversion, with the place of the first value that is no number."""
    for at, value in np.ndenumerate(array):
        try:
            float(value)
        except (TypeError, ValueError):
            column = at[1] if len(at) > 1 else 0
            name = repr(names[column]) if names else column
            return (f"{error}: {what}, row {at[0]}, column {name} is of the type "
                    f"{type(value).__name__}; give numbers, or leave the column out")
    return str(error)
