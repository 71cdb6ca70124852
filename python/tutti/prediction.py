"""Predictions with uncertainties."""
from __future__ import annotations

import dataclasses
import html
from typing import Any, Iterator, Mapping, Optional, Sequence

import numpy as np


# The moments, and their variables in a file of predictions (docs/files.md).
MOMENTS = {"mean": "y_pred_mean", "std": "y_pred_std", "aleatoric": "y_pred_std_aleatoric",
           "epistemic": "y_pred_std_epistemic"}
_VARIABLES = {
    **MOMENTS, **{f"{name}_gradient": f"{variable}_jacobian" for name, variable in MOMENTS.items()},
    "quantiles": "y_pred_quantile", "lower": "y_pred_lower", "upper": "y_pred_upper",
    "entropy": "y_entropy", "mutual_information": "y_mutual_information",
    "member_mean": "y_member_mean", "member_variance": "y_member_variance",
    "extrapolation": "extrapolation",
}
SHOWN = 10  # rows in a notebook


def table_of(head: list[str], rows: list[list]) -> str:
    """A table of HTML."""
    def line(cells: list, tag: str) -> str:
        return "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table><tr>{line(head, 'th')}</tr>{body}</table>"


@dataclasses.dataclass
class Prediction:
    """What an ensemble predicts for some rows.

    Arrays have the shape (rows, columns), or (rows,) if there is one column; some have an axis
    before that. They are attributes and items: `p.mean` and `p["mean"]`. For classes, a column is
    the probability of a class.

    Attributes
    ----------
    mean : ndarray
    std : ndarray
        Total standard deviation: std**2 = aleatoric**2 + epistemic**2.
    aleatoric : ndarray
        Noise of the data, as the members predict it or as it was fitted after training.
    epistemic : ndarray
        Disagreement of the members.
    mean_gradient, std_gradient, aleatoric_gradient, epistemic_gradient : ndarray or None
        Derivatives by the inputs, shape (rows, columns, inputs), or (rows, inputs) if there is one
        column, in units of the column per unit of the input.
    quantiles : ndarray, shape (quantiles, rows, columns), or None
    lower, upper : ndarray, shape (levels, rows, columns), or None
        Conformal intervals of a model with calibration.conformal.
    entropy, mutual_information : ndarray or None
        Of classes, in nats.
    member_mean, member_variance : ndarray, shape (members, rows, columns of an ensemble), or None
    extrapolation : ndarray, shape (rows,), or None
        Largest distance of an input beyond its range in the training rows, in units of the range; 0
        inside. The uncertainty of rows outside cannot be trusted.
    columns, units : list of str
        Name and units of each column.
    index : labels of the rows of X (pandas, xarray), or None
    """

    mean: np.ndarray
    std: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    mean_gradient: Optional[np.ndarray] = None
    std_gradient: Optional[np.ndarray] = None
    aleatoric_gradient: Optional[np.ndarray] = None
    epistemic_gradient: Optional[np.ndarray] = None
    quantiles: Optional[np.ndarray] = None
    lower: Optional[np.ndarray] = None
    upper: Optional[np.ndarray] = None
    entropy: Optional[np.ndarray] = None
    mutual_information: Optional[np.ndarray] = None
    member_mean: Optional[np.ndarray] = None
    member_variance: Optional[np.ndarray] = None
    extrapolation: Optional[np.ndarray] = None
    columns: list[str] = dataclasses.field(default_factory=list)
    units: list[str] = dataclasses.field(default_factory=list)
    index: Any = None

    def __post_init__(self) -> None:
        if len(self.columns) == 1:
            for name in (name for name in list(self) if self[name].ndim > 1):
                column = (slice(None), 0) if name.endswith("_gradient") else (..., 0)
                setattr(self, name, self[name][column])

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

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        named = [(f"{column}: {name}" if len(self.columns) > 1 else name, values)
                 for name in MOMENTS for column, values in
                 zip(self.columns, self[name].reshape(len(self.mean), len(self.columns)).T)]
        index = range(len(self.mean)) if self.index is None else self.index
        rows = [[label, *(f"{values[i]:.5g}" for _, values in named)]
                for i, label in enumerate(index) if i < SHOWN]
        more = f"<p>and {len(self.mean) - SHOWN} more rows</p>" if len(self.mean) > SHOWN else ""
        return table_of(["", *(name for name, _ in named)], rows) + more

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a column for each array, and the index of X."""
        import pandas

        table = {}
        for name in MOMENTS:
            values = self[name].reshape(len(self.mean), -1)
            for k, column in enumerate(self.columns):
                table[name if len(self.columns) == 1 else (name, column)] = values[:, k]
        if self.extrapolation is not None:
            name = "extrapolation"
            table[name if len(self.columns) == 1 else (name, "")] = self.extrapolation
        frame = pandas.DataFrame(table, index=self.index)
        frame.attrs["units"] = dict(zip(self.columns, self.units))
        return frame

    def to_xarray(self) -> Any:
        """An xarray Dataset with the arrays, the names of the columns and the index of X."""
        import xarray

        arrays = {}
        for name in self:
            values = self[name]
            axis = {"quantiles": ["quantile"], "lower": ["level"], "upper": ["level"],
                    "member_mean": ["member"], "member_variance": ["member"]}.get(name, [])
            dims = [*axis, "sample", "column"]
            if name.endswith("_gradient"):
                dims = ["sample", "column", "input"] if values.ndim == 3 else ["sample", "input"]
            elif values.ndim == 3 and values.shape[2] != len(self.columns):
                dims[2] = "member_column"
            arrays[name] = (dims[:values.ndim], values)
        made = xarray.Dataset(arrays)
        if self.index is not None:
            made = made.assign_coords(sample=np.asarray(self.index))
        if len(self.columns) > 1:
            return made.assign_coords(column=self.columns, units=("column", self.units))
        for name in MOMENTS:
            made[name].attrs.update(long_name=f"{self.columns[0]}: {name}", units=self.units[0])
        return made


def of_arrays(found: Mapping[str, np.ndarray], columns: Sequence[str],
              units: Sequence[str]) -> Prediction:
    """The variables of a file of predictions; its index has the ids of the rows."""
    arrays = {name: found[variable] for name, variable in _VARIABLES.items() if variable in found}
    return Prediction(**arrays, columns=list(columns), units=list(units),
                      index=found.get("sample_id"))
