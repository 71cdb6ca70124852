"""TuttiSearch: the search of `tutti tune` with the conventions of scikit-learn's searches."""
from __future__ import annotations

import inspect
import json
import re
from typing import Any, Mapping, Optional, TypeVar, Union

import numpy as np

from . import job
from .binding import load
from .data import dataset
from .ensemble import Ensemble, not_fitted
from .estimators import EnsembleRegressor, tags
from .places import find_library
from .prediction import Prediction
from .run import Run

Self = TypeVar("Self", bound="TuttiSearch")
# One option in the text of a trial: "model.hidden [64, 64], train.learning_rate 0.001".
_OPTION = re.compile(r"([a-z_]+(?:\.\w+)+) (.*?)(?:, (?=[a-z_]+(?:\.\w+)+ )|$)")


def _value(text: str) -> Any:
    """A value of a job: number, list or true; otherwise a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _networks(config: str) -> list[dict[str, Any]]:
    """Of each trial, its own options in the job as the run has written it: a list of networks."""
    found: list[dict[str, Any]] = []
    path: list[str] = []
    for line in config[config.index("    networks:\n"):].splitlines()[1:]:
        indent = len(line) - len(line.lstrip())
        name, _, value = line.strip().partition(":")
        path[(indent - 8) // 2:] = [name]
        if indent == 6:
            found.append({})
        elif indent > 8 and value:
            found[-1]["__".join(path)] = _value(value.strip())
    return found


def _parameters(results: Mapping[str, np.ndarray], config: str) -> list[dict[str, Any]]:
    """The options of each trial as parameters of an estimator: `train__learning_rate`. Those in
    which trials differ are in each of them."""
    varied = ({name.replace(".", "__"): _value(value) for name, value in _OPTION.findall(str(text))}
              for text in results["trial_options"])
    return [{**own, **more} for own, more in zip(_networks(config), varied)]


def _of_trials(results: Mapping[str, np.ndarray], config: str) -> dict[str, Any]:
    """cv_results_ of a run. Best are the trials that came farthest, of these those with the
    lowest loss; of equal ones the earlier."""
    loss = results["trial_score"]
    rung = np.isfinite(loss).sum(axis=1) - 1  # the last with a score
    last = loss[np.arange(len(loss)), np.maximum(rung, 0)]
    rank = np.empty(len(loss), dtype=np.int32)
    rank[np.lexsort((last, -rung))] = np.arange(1, len(loss) + 1)
    made: dict[str, Any] = {"params": _parameters(results, config)}
    for name in dict.fromkeys(name for one in made["params"] for name in one):
        values = np.ma.masked_all(len(loss), dtype=object)
        for i, one in enumerate(made["params"]):
            if name in one:
                values[i] = one[name]
        made[f"param_{name}"] = values
    made.update(label=results["trial_label"], mean_test_score=-last, rank_test_score=rank,
                rung=results["trial_rung"], weight=results["trial_weight"])
    return made


class TuttiSearch:
    """Search for good networks, as `tutti tune` does, and predict with the best of them.

    Trials train side by side, each on folds of the rows; after each rung the worse ones stop
    (docs/training.md). For equal tables, options and names it has the bits of `tutti tune`.

    Parameters
    ----------
    estimator : EnsembleRegressor, EnsembleClassifier or Ensemble, optional
        What is searched; default: EnsembleRegressor(). Options that it sets are not searched.
    preset : {"fast", "good", "best"}, optional
        Default: good.
    n_trials : int, optional
        Largest number of networks that are tried; `budget` means the same.
    time : str or float, optional
        Wall time of the search: seconds, or a text such as "2min".
    folds : int, optional
        Members of a network, each without one fold of the rows; 1: one member, scored on the
        validation rows.
    space : dict, optional
        Replaces entries of the space: {"train": {"l2": {"choice": [0, 1e-5]}}}.
    random_state : int or generator, optional
        Seed of the search and, unless the estimator has one, of its networks.
    n_jobs : int, optional
        Threads, for `threads` of the estimator; -1: all cores.

    Attributes
    ----------
    best_estimator_ : the estimator, fitted: a weighted selection of the trials
    best_params_, best_score_, best_index_
        Of the best trial; estimator.set_params(**best_params_) trains a network as it was.
    cv_results_ : dict
        An array for each: `params` (a list of dicts), `param_NAME`, `label`, `mean_test_score`
        (minus the validation loss, mean over the folds, at the last rung it reached; NaN: none),
        `rank_test_score`, `rung` (0, 1, 2; -1: not begun) and `weight` in the prediction. A
        trial has no time of its own.
    run_ : Run
    n_features_in_, feature_names_in_, classes_
        As in the estimator.
    """

    def __init__(self, estimator: Optional[Ensemble] = None, *, preset: Optional[str] = None,
                 n_trials: Optional[int] = None, budget: Optional[int] = None,
                 time: Optional[Union[str, float]] = None, folds: Optional[int] = None,
                 space: Optional[Mapping[str, Any]] = None, random_state: Any = None,
                 n_jobs: Optional[int] = None) -> None:
        self.estimator, self.random_state, self.n_jobs = estimator, random_state, n_jobs
        self.preset, self.n_trials, self.budget = preset, n_trials, budget
        self.time, self.folds, self.space = time, folds, space

    @property
    def _estimator_type(self) -> Optional[str]:
        return getattr(self._searched(), "_estimator_type", None)

    def __sklearn_tags__(self) -> Any:
        return tags(self._estimator_type)

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        return self._searched()._more_tags()

    def _searched(self) -> Ensemble:
        return EnsembleRegressor() if self.estimator is None else self.estimator

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor; deep: also those of the estimator, `estimator__NAME`."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        found = {name: getattr(self, name) for name in names}
        if deep and self.estimator is not None:
            found.update({f"estimator__{name}": value
                          for name, value in self.estimator.get_params().items()})
        return found

    def set_params(self: Self, **parameters: Any) -> Self:
        """Set parameters; `estimator__epochs=30` sets one of the estimator."""
        known = self.get_params(deep=False)
        for name, value in parameters.items():
            head, _, rest = name.partition("__")
            if head == "estimator" and rest and self.estimator is not None:
                self.estimator.set_params(**{rest: value})
            elif name in known:
                setattr(self, name, value)
            else:
                raise ValueError(f"TuttiSearch has no parameter {name!r}; it has {', '.join(known)}"
                                 ", and those of its estimator as estimator__NAME")
        return self

    def __repr__(self) -> str:
        given = {name: value for name, value in self.get_params(deep=False).items()
                 if value is not None}
        return f"TuttiSearch({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def set_output(self: Self, *, transform: Optional[str] = None) -> Self:
        """As `set_output` of the estimator."""
        if self.estimator is None:
            self.estimator = EnsembleRegressor()
        for one in (self.estimator, getattr(self, "best_estimator_", None)):
            if one is not None:
                one.set_output(transform=transform)
        return self

    def _section(self) -> dict[str, Any]:
        """`search` of the job."""
        if self.n_trials is not None and self.budget is not None:
            raise ValueError("n_trials and budget mean the same: give one of them")
        time = f"{self.time}s" if isinstance(self.time, (int, float)) else self.time
        given = {"preset": self.preset, "budget": self.n_trials if self.budget is None
                 else self.budget, "time": time, "folds": self.folds, "space": self.space}
        return {name: value for name, value in given.items() if value is not None}

    def _prepared(self, y: Any, drawn: bool) -> Ensemble:
        """A copy of the estimator, whose job has the search.

        Parameters
        ----------
        drawn : bool
            The program draws the split.
        """
        old = self._searched()
        made = type(old)(**old.get_params()).set_output(
            transform=getattr(old, "_sklearn_output_config", {}).get("transform"))
        if self.n_jobs is not None:
            made.set_params(n_jobs=self.n_jobs)
        described = made.job()
        if len(described.get("ensembles", ())) > 1:
            raise ValueError(f"TuttiSearch: the estimator has {len(described['ensembles'])} "
                             "ensembles; search for each with an estimator of its own")
        search = {"preset": "good", **described.get("search", {}), **self._section()}
        if self.random_state is not None:
            seed = job.of_scikit_learn({"random_state": self.random_state})["seed"]
            search["seed"] = seed
            if "seed" not in described["run"]:
                made.set_params(seed=seed)
        made.set_params(search=search)
        if drawn and search.get("folds") != 1:  # every row but those of the test is in a fold
            made.set_params(data__split={"train": 0.9, "validation": 0, "test": 0.1,
                                         **described.get("data", {}).get("split", {})})
        names = dataset.names_of(y)
        if names and len(names) == 1 and re.fullmatch(r"[\w.-]{1,55}", names[0], re.ASCII):
            made.set_params(name=getattr(made, "name", None) or names[0])  # as in `tutti tune`
        return made

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None, *, split: Any = None,
            resume: Optional[bool] = None) -> Self:
        """Search, and keep the best networks; parameters and errors as in `Ensemble.fit`."""
        made = self._prepared(y, split is None)
        old = getattr(self, "best_estimator_", None)
        if resume and old is not None and hasattr(old, "run_"):
            made.run_ = old.run_
        self.best_estimator_ = made  # also after a KeyboardInterrupt: it has the checkpoint
        with job.errors_of({"n_trials": self.n_trials}, load(find_library(made.program))):
            made.fit(X, y, sample_weight, split=split, resume=resume)
        self.cv_results_ = _of_trials(self.run_.results(), self.run_.config())
        self.best_index_ = int(np.argmin(self.cv_results_["rank_test_score"]))
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            if hasattr(made, name):
                setattr(self, name, getattr(made, name))
            else:
                vars(self).pop(name, None)
        return self

    def _best(self) -> Any:
        if not hasattr(self, "best_estimator_"):
            raise not_fitted(self)
        return self.best_estimator_

    @property
    def run_(self) -> Run:
        """The run of the last fit."""
        return self._best().run_

    def predict(self, X: Any, **options: Any) -> Any:
        """As `predict` of the estimator: with `return_std=True` also standard deviations."""
        return self._best().predict(X, **options)

    @property
    def predict_proba(self) -> Any:
        """`predict_proba` of an EnsembleClassifier."""
        if self._estimator_type != "classifier":
            raise AttributeError("TuttiSearch: only an EnsembleClassifier has predict_proba")
        return self._best().predict_proba

    def distribution(self, X: Any, **options: Any) -> Prediction:
        """Mean and uncertainties of rows; see `tutti.Model.predict`."""
        return self._best().distribution(X, **options)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """As `score` of the estimator: R2, or the fraction of right classes."""
        return self._best().score(X, y, sample_weight)
