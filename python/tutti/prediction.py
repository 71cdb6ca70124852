"""Predictions with uncertainties."""
from __future__ import annotations

import dataclasses
from typing import Any, Iterator

import numpy as np


@dataclasses.dataclass
class Prediction:
    """What an ensemble predicts for some rows.

    Arrays have the shape (rows, columns), or (rows,) if there is one column. They are attributes
    and items: `p.mean` and `p["mean"]`.

    Attributes
    ----------
    mean : ndarray
    std : ndarray
        Total standard deviation: std**2 = aleatoric**2 + epistemic**2.
    aleatoric : ndarray
        Noise of the data, as the members predict it.
    epistemic : ndarray
        Disagreement of the members.
    columns, units : list of str
        Name and units of each column.
    index : labels of the rows of X (pandas, xarray), or None
    """

    mean: np.ndarray
    std: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    columns: list[str] = dataclasses.field(default_factory=list)
    units: list[str] = dataclasses.field(default_factory=list)
    index: Any = None

    def __post_init__(self) -> None:
        if len(self.columns) == 1:
            for name in self:
                setattr(self, name, self[name][..., 0])

    def __iter__(self) -> Iterator[str]:
        """Names of the arrays that are there."""
        return (f.name for f in dataclasses.fields(self)
                if isinstance(getattr(self, f.name), np.ndarray))

    def keys(self) -> list[str]:
        return list(self)

    def __getitem__(self, name: str) -> np.ndarray:
        value = getattr(self, name, None)
        if not isinstance(value, np.ndarray):
            raise KeyError(name)
        return value

    def __repr__(self) -> str:
        return f"<tutti.Prediction of {', '.join(self.columns)}: {len(self.mean)} rows>"

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a column for each array, and the index of X."""
        import pandas

        table = {}
        for name in ("mean", "std", "aleatoric", "epistemic"):
            values = self[name].reshape(len(self.mean), -1)
            for k, column in enumerate(self.columns):
                table[name if len(self.columns) == 1 else (name, column)] = values[:, k]
        frame = pandas.DataFrame(table, index=self.index)
        frame.attrs["units"] = dict(zip(self.columns, self.units))
        return frame
