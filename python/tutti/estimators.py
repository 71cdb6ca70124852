"""EnsembleRegressor and EnsembleClassifier: the conventions of scikit-learn, without importing it.

scikit-learn is needed only by what calls these classes, e.g. cross_val_score.
"""
from __future__ import annotations

import warnings
from typing import Any, Optional, Union

import numpy as np

from .data import dataset
from .ensemble import Ensemble
from .trainer.partial import Steps
from .prediction import Prediction


def _ravel(y: Any) -> Any:
    """y of shape (rows, 1) as (rows,), with the warning of scikit-learn."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1 and isinstance(y, np.ndarray):
        try:
            from sklearn.exceptions import DataConversionWarning as kind
        except ImportError:
            kind = UserWarning
        warnings.warn("A column-vector y was passed when a 1d array was expected: it is "
                      "read as (rows,)", kind, stacklevel=4)
        return y[:, 0]
    return y


def _check_rows(rows: int) -> None:
    """A split needs at least a training row and a validation row."""
    if rows < 2:
        raise ValueError(f"n_samples = {rows} (1 sample): training needs at least 2 samples")


def tags(kind: Optional[str]) -> Any:
    """Tags of a regressor, a classifier, or (None) neither."""
    from sklearn import utils

    made = utils.Tags(estimator_type=kind, target_tags=utils.TargetTags(required=True),
                      input_tags=utils.InputTags(), non_deterministic=False)
    if kind == "classifier":
        made.classifier_tags = utils.ClassifierTags()
    else:
        made.regressor_tags = utils.RegressorTags()
        made.target_tags.multi_output = True
    return made


class EnsembleRegressor(Ensemble):
    """Regression as in scikit-learn: `predict` returns the mean, or mean and std.

    Parameters are those of `Ensemble`, with `random_state` and `n_jobs` (-1: all cores) for `seed`
    and `threads`, and `verbose` for the opposite of `quiet`; `distribution` returns everything.
    """

    _estimator_type = "regressor"

    def __init__(self, *, random_state: Any = None, n_jobs: Optional[int] = None,
                 quiet: bool = True, verbose: Optional[int] = None, **parameters: Any) -> None:
        super().__init__(quiet=quiet, random_state=random_state, n_jobs=n_jobs, verbose=verbose,
                         **parameters)

    def _tables(self, X: Any, y: Any) -> tuple[dataset.Table, dataset.Table]:
        x, y_table = super()._tables(X, _ravel(y))
        _check_rows(x.rows())
        if np.isnan(y_table.values).all():
            raise ValueError("y contains only NaN")
        return x, y_table

    def predict(  # type: ignore[override]
            self, X: Any, return_std: bool = False) -> Union[np.ndarray, tuple]:
        """Predicted means, shape (rows,) or (rows, columns); with `return_std` also the total
        standard deviations."""
        p = self.distribution(X)
        mean, std = (self._framed(values, p.columns, p.index) for values in (p.mean, p.std))
        return (mean, std) if return_std else mean


class EnsembleClassifier(Ensemble):
    """Classification as in scikit-learn; labels of any type.

    Parameters are those of `Ensemble`, with `random_state` and `n_jobs` (-1: all cores) for `seed`
    and `threads`, and `verbose` for the opposite of `quiet`. The loss is cross_entropy unless
    given.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in the order of the columns of `predict_proba`.
    """

    _estimator_type = "classifier"

    def __init__(self, *, loss: Optional[str] = "cross_entropy", random_state: Any = None,
                 n_jobs: Optional[int] = None, quiet: bool = True, verbose: Optional[int] = None,
                 **parameters: Any) -> None:
        super().__init__(loss=loss, quiet=quiet, random_state=random_state, n_jobs=n_jobs,
                         verbose=verbose, **parameters)

    def job(self) -> dict[str, Any]:
        """The job file of these parameters, with the number of classes of the last fit."""
        made = super().job()
        if hasattr(self, "classes_"):
            made.setdefault("model", {}).setdefault("classes", max(2, len(self.classes_)))
        return made

    def _tables(self, X: Any, y: Any) -> tuple[dataset.Table, dataset.Table]:
        x = dataset.inputs(X, texts=True)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        _check_rows(x.rows())
        names = dataset.names_of(y)
        labels = np.asarray(_ravel(y))
        if labels.ndim != 1 or len(labels) != x.rows():
            raise ValueError(f"inconsistent numbers of samples: X has {x.rows()}, y has the shape "
                             f"{labels.shape}; one label for each row is expected")
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("y contains NaN or infinity")
        if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
            raise ValueError("Unknown label type: continuous numbers are not classes; use "
                             "EnsembleRegressor")
        fixed = getattr(self, "_fixed", None)
        if fixed is None:
            self.classes_, codes = np.unique(labels, return_inverse=True)
        else:
            self.classes_, codes = fixed, np.searchsorted(fixed, labels)
            known = self.classes_[np.minimum(codes, len(self.classes_) - 1)] == labels
            if not known.all():
                raise ValueError(f"y has the label {labels[~known].tolist()[0]!r}, which is none "
                                 "of the classes of the first partial_fit: "
                                 f"{self.classes_.tolist()}")
        return x, dataset.Table(codes.astype(float)[:, None], names, one=True)

    def _of_classes(self) -> dict[str, Any]:
        """As `job`, with the number of classes."""
        return {"classes": max(2, len(self.classes_))}

    def partial_fit(  # type: ignore[override]
            self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> Any:
        """Train on these rows; see `Ensemble.partial_fit`.

        Parameters
        ----------
        classes : array, optional
            All labels, in the first call; without it those of its rows.
        """
        begins = not isinstance(getattr(self, "run_", None), Steps)
        self._fixed: Optional[np.ndarray] = self.classes_ if not begins else np.unique(
            np.asarray(y if classes is None else classes))
        try:
            return super().partial_fit(X, y, sample_weight)
        finally:
            self._fixed = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Any:
        """Train; see `Ensemble.fit`. Each label of `y` is a class."""
        return super().fit(X, y, sample_weight, **options)

    def _probabilities(self, X: Any) -> tuple[np.ndarray, Any]:
        """Of each class, shape (rows, classes), and the index of X."""
        p: Prediction = self.distribution(X)
        return p.mean[:, :len(self.classes_)], p.index

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, shape (rows, classes)."""
        values, index = self._probabilities(X)
        return self._framed(values, self.classes_, index)

    def predict(self, X: Any) -> Any:  # type: ignore[override]
        """The most probable class of each row."""
        values, index = self._probabilities(X)
        return self._framed(self.classes_[np.argmax(values, axis=1)], ["class"], index)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Fraction of the rows whose class is predicted."""
        right = self.classes_[np.argmax(self._probabilities(X)[0], axis=1)] == np.asarray(y)
        return float(np.average(right, weights=sample_weight))
