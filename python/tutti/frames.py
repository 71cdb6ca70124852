"""Predictions as DataFrames of pandas."""
from __future__ import annotations

from typing import Any, Optional, TypeVar

import numpy as np

from .prediction import Prediction

Self = TypeVar("Self", bound="FramesOut")


class FramesOut:
    """set_output of scikit-learn, for what an estimator predicts."""

    def set_output(self: Self, *, transform: Optional[str] = None) -> Self:
        """"pandas": what `predict` returns is a DataFrame with the index of X, as
        `Prediction.to_dataframe` has it for an Ensemble; "default": arrays again; None: no change.
        """
        if transform not in (None, "default", "pandas"):
            raise ValueError(f"transform={transform!r} is neither 'default' nor 'pandas'")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # clone of scikit-learn keeps it
        return self

    def _frames(self) -> bool:
        return getattr(self, "_sklearn_output_config", {}).get("transform") == "pandas"

    def _output(self, p: Prediction) -> Any:
        return p.to_dataframe() if self._frames() else p

    def _framed(self, values: np.ndarray, columns: Any, index: Any) -> Any:
        """The array, or a DataFrame of it."""
        if not self._frames():
            return values
        import pandas

        return pandas.DataFrame(values.reshape(len(values), -1), index, list(columns))
