"""Training an ensemble call by call in this process: partial_fit of the estimators."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

import numpy as np

from .. import job
from ..data.dataset import Table, per_row
from ..binding import load
from ..library import Model
from ..prediction import Prediction
from ..places import find_library
from .trainer import Trainer

# Parameters of Ensemble about data sets, runs, and what follows a training.
_NOT_HERE = ("data", "calibration", "combine", "checkpoint", "patience", "epochs",
             "threads", "directory", "program", "quiet", "ranks", "launcher")


class Steps:
    """A trainer with what partial_fit needs between its calls; it predicts like a Run.

    Attributes
    ----------
    model : Model
        The members after the last call.
    """

    def __init__(self, options: Mapping[str, Any], x: Table, y: Table, labels: bool,
                 threads: int, program: Any) -> None:
        kept = {name: value for name, value in options.items() if name not in _NOT_HERE}
        scales: dict[str, Any] = {"x_scale": self._scale(x.values)}
        if not labels:
            scales["y_scale"] = self._scale(y.values)
        self.trainer = Trainer(inputs=x.values.shape[1], targets=y.values.shape[1],
                               input_names=x.names, target_names=y.names, threads=threads,
                               program=program, **scales, **kept)
        made = job.build(kept, load(find_library(program)))
        self.batch = int(made.get("train", {}).get("batch_size", 32))
        self._random = np.random.default_rng(int(made.get("run", {}).get("seed", 1)))
        self._model: Optional[Model] = None

    @staticmethod
    def _scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each column over the rows of the first call."""
        std = values.std(axis=0)
        return values.mean(axis=0), np.where(std > 0, std, 1.0)

    def train(self, x: Table, y: Table, weight: Any) -> None:
        """One pass over the rows, in another order for each member."""
        rows, members = len(x.values), self.trainer.members
        inputs, targets = (t.values.astype(np.float32) for t in (x, y))
        order = self._random.permuted(np.tile(np.arange(rows, dtype=np.int32), (members, 1)),
                                      axis=1)
        for first in range(0, rows, self.batch):
            self.trainer.step(inputs, targets, weight,
                              np.ascontiguousarray(order[:, first:first + self.batch]))
        self._model = None

    @property
    def model(self) -> Model:
        """The members as they are now."""
        if self._model is None:
            self._model = self.trainer.model()
        return self._model

    def predict(self, x: Any, **options: Any) -> Prediction:
        """See `tutti.Model.predict`."""
        return self.model.predict(x, **options)


class PartialFit:
    """partial_fit of Ensemble, which has the other functions."""

    run_: Any  # a Run after fit, Steps after partial_fit
    _steps_of: Any  # the parameters of these Steps
    program: Any
    _tables: Callable[..., Any]
    _options: Callable[..., Any]
    _name_features: Callable[..., Any]
    get_params: Callable[..., Any]

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on these rows: one pass in this process, without files; the optimizer goes on.

        The first call decides the columns and their scales: mean and standard deviation of its
        rows. There are no validation rows, so that no epoch is the best one, and no schedule. After
        `fit`, or with parameters that were changed, a new ensemble begins.

        Parameters
        ----------
        X : array or DataFrame of numbers, shape (rows, features)
        y : array, shape (rows,) or (rows, targets)
        sample_weight : array, shape (rows,), optional
        """
        x, y_table = self._tables(X, y)
        if x.texts:
            raise ValueError("partial_fit: columns of texts need the levels of all rows; use fit")
        given = self.get_params()
        if not isinstance(getattr(self, "run_", None), Steps) or self._steps_of != given:
            described = {**self._options(), **self._of_classes()}
            threads = described["threads"]
            self.run_ = Steps(described, x, y_table, bool(self._of_classes()),
                              0 if threads == "auto" else int(threads or 1), self.program)
            self._steps_of = given
            self.n_features_in_ = x.values.shape[1]
            self._name_features(x)
        if x.values.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {x.values.shape[1]} features, but {type(self).__name__} is "
                             f"expecting {self.n_features_in_} features as input")
        weight = None if sample_weight is None else per_row(
            sample_weight, x.rows(), "sample_weight", np.float32)
        self.run_.train(x, y_table, weight)
        return self

    def _of_classes(self) -> dict[str, Any]:
        """Options for labels that are classes."""
        return {}
