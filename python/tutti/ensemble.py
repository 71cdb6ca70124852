"""Ensembles of neural networks with fit and predict."""
from __future__ import annotations

import hashlib
import inspect
import io
import os
import pathlib
from typing import Any, Mapping, Optional, Sequence, TypeVar, Union

import numpy as np

from . import job, training
from .data import dataset, fitting
from .frames import FramesOut
from .launch import Launch, submit_job
from .binding import load
from .trainer.partial import PartialFit
from .prediction import Prediction
from .progress import Progress
from .places import PathLike, find_library, find_program
from .program import error_of
from .run import Run, Scratch

Self = TypeVar("Self", bound="Ensemble")
# Parameters that are about the start of the program, not about the job.
_HERE = ("directory", "program", "quiet", "ranks", "launcher")


class Ensemble(PartialFit, FramesOut):
    """An ensemble of neural networks that predicts with uncertainties.

    A parameter is an option of docs/options.md by its last name (`epochs=300`, `dropout=0.1`), or
    a section (`train={"epochs": 300}`). None, and what is left out, takes the default of the
    program. The program checks the values and refuses unknown names.

    Parameters
    ----------
    hidden : list of int, optional
        Width of each hidden layer.
    members : int, optional
        Number of networks.
    activation, output, loss, optimizer, schedule, resample : str, optional
    learning_rate : float, optional
    batch_size, epochs, patience, seed : int, optional
    device : {"auto", "cpu", "gpu"}, optional
    threads : int, optional
    data, model, train, combine, calibration, checkpoint, run : dict, optional
        Sections of the job.
    ensembles : list of dict, optional
        Several ensembles, each with its own targets, network or training.
    sweep : dict, optional
        Options with another value in each member (docs/many-targets.md).
    directory : path, optional
        Run directory. Without it the run is temporary, and lives as long as this object.
    ranks : int, optional
        Number of MPI ranks.
    launcher : {"mpirun", "srun"} or list of str, optional
        Starts the ranks; default: srun inside a Slurm job, mpirun elsewhere.
    program : path, optional
        See `tutti.find_program`.
    quiet : bool
        True shows no progress.
    **options
        Every other option.

    Attributes
    ----------
    run_ : Run
        Run directory of the last fit.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    program: Optional[PathLike]
    directory: Optional[PathLike]
    ranks: Optional[int]
    launcher: Optional[Union[str, Sequence[str]]]
    quiet: bool

    def __init__(self, *, hidden: Optional[Sequence[int]] = None, members: Optional[int] = None,
                 activation: Optional[str] = None, output: Optional[str] = None,
                 loss: Optional[str] = None, optimizer: Optional[str] = None,
                 learning_rate: Optional[float] = None, schedule: Optional[str] = None,
                 batch_size: Optional[int] = None, epochs: Optional[int] = None,
                 patience: Optional[int] = None, resample: Optional[str] = None,
                 seed: Optional[int] = None, device: Optional[str] = None,
                 threads: Optional[Union[int, str]] = None,
                 data: Optional[Mapping[str, Any]] = None,
                 model: Optional[Mapping[str, Any]] = None,
                 train: Optional[Mapping[str, Any]] = None,
                 combine: Optional[Mapping[str, Any]] = None,
                 calibration: Optional[Mapping[str, Any]] = None,
                 checkpoint: Optional[Mapping[str, Any]] = None,
                 run: Optional[Mapping[str, Any]] = None,
                 ensembles: Optional[Sequence[Mapping[str, Any]]] = None,
                 sweep: Optional[Mapping[str, Any]] = None,
                 directory: Optional[PathLike] = None, ranks: Optional[int] = None,
                 launcher: Optional[Union[str, Sequence[str]]] = None,
                 program: Optional[PathLike] = None, quiet: bool = False,
                 **options: Any) -> None:
        given = dict(locals())
        for name in ("self", "options", "__class__"):
            given.pop(name, None)
        for name, value in {**given, **options}.items():
            setattr(self, name, value)

    def __sklearn_tags__(self) -> Any:
        from .estimators import tags

        return tags(getattr(self, "_estimator_type", None))

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        kind = getattr(self, "_estimator_type", None)
        return {"requires_y": True, "multioutput": kind != "classifier"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor, and every other option that is set."""
        return {name: value for name, value in vars(self).items()
                if not name.startswith("_") and not name.endswith("_")}

    def set_params(self: Self, **parameters: Any) -> Self:
        """Set parameters; `train__epochs=30` sets one option of a section."""
        for name, value in parameters.items():
            section, _, option = name.partition("__")
            if option and isinstance(getattr(self, section, None), Mapping):
                setattr(self, section, {**getattr(self, section), option: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        default = {**inspect.signature(Ensemble.__init__).parameters,
                   **inspect.signature(type(self).__init__).parameters}
        shown = [f"{name}={value!r}" for name, value in self.get_params().items()
                 if name not in default or value is not default[name].default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _options(self) -> dict[str, Any]:
        """Parameters under the names of this package."""
        return job.of_scikit_learn(self.get_params())

    def job(self) -> dict[str, Any]:
        """The job file of these parameters, except for the names of files."""
        given = {name: value for name, value in self._options().items() if name not in _HERE}
        return job.build(given, load(find_library(self.program)))

    def _open_directory(self, resume: Optional[bool]) -> None:
        if self.directory is not None:
            os.makedirs(self.directory, exist_ok=True)
            self.run_ = Run(self.directory, self.program)
        elif not resume or not isinstance(getattr(self, "run_", None), Run):
            scratch = Scratch()
            self.run_ = Run(scratch.name, self.program, scratch)

    def _in_memory(self, described: Mapping[str, Any]) -> bool:
        """Nothing needs a directory, nor the program."""
        alone = self.ranks is None or self.ranks == 1 and not isinstance(self.ranks, bool)
        return (self.directory is None and self.launcher is None and alone
                and training.may_train_here(described))

    def _fit_in_memory(self, given: fitting.Given, resume: Optional[bool]) -> None:
        run = getattr(self, "run_", None)
        earlier = run if resume and isinstance(run, Run) else None
        written = io.BytesIO()
        text, data = given.write(written), written.getvalue()
        key = hashlib.blake2b(data, key=hashlib.sha256(text.encode()).digest()).digest()
        if earlier and earlier.key == key and earlier.complete():
            return
        old = earlier.checkpoint() if earlier else {}
        if resume and not old:
            raise error_of(66, "no checkpoint to resume: the last fit of this object was not "
                               "stopped; use resume=None")
        files = {"job.yaml": text.encode()}
        try:
            training.train(load(find_library(self.program)), given.job, text,
                           {"data.h5": data, **old}, self._options()["quiet"], files)
        finally:
            made = Run(None, self.program, files=files, key=key)
            if made.complete() or made.checkpoint():
                self.run_ = made

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None, *, split: Any = None,
            resume: Optional[bool] = None,
            submit: Union[bool, Mapping[str, Any]] = False) -> Self:
        """Train the ensemble.

        Parameters
        ----------
        X : array, DataFrame, DataArray or dict of columns, shape (rows, features)
            A column of texts is a category (`data.categories`). An index of pandas or xarray that
            is not 0, 1, 2, ... has the ids of the rows (`data.id`), if its labels are different.
        y : the same, shape (rows,) or (rows, targets)
            NaN marks a missing label. Names and units of X and y are kept.
        sample_weight : array, shape (rows,), optional
        split : array, shape (rows,), optional
            0 = training, 1 = validation, 2 = test. Without it the program draws the split by
            data.split.
        resume : bool, optional
            None continues a run in `directory` that was stopped; True requires a checkpoint there
            (without `directory`: continues the last fit of this object); False starts again.
        submit : bool or dict
            Write a batch script, queue it with sbatch and return at once; needs `directory`. Come
            back with `tutti.open_run(directory)`. A dict has options of `tutti slurm` (site,
            nodes, gpus_per_node, time) and of sbatch ({"account": "abc"}).

        Raises
        ------
        tutti.Error
            The program ended with an error.
        KeyboardInterrupt
            Passed on after the program has written a checkpoint; fit again with resume=True.
        """
        if submit and self.directory is None:
            raise ValueError("submit: a batch job needs a directory that stays: directory=...")
        if self.program is not None:
            find_program(self.program)
        library = load(find_library(self.program))  # predict needs it: no training without it
        x, y_table = self._tables(X, y)
        given = fitting.Given(self.job(), x, y_table,
                              {"sample_weight": sample_weight, "split": split})
        with job.errors_of(self.get_params(), library):
            if self._in_memory(given.job):
                self._fit_in_memory(given, resume)
            else:
                self._fit_in_directory(given, resume, submit)
        if not submit:
            self._open(x)
        return self

    def _fit_in_directory(self, given: fitting.Given, resume: Optional[bool],
                          submit: Union[bool, Mapping[str, Any]]) -> None:
        launch = Launch(find_program(self.program), self.ranks, self.launcher)
        self._open_directory(resume)
        path = self.run_.path("job.yaml")
        pathlib.Path(path).write_text(given.write(self.run_.path("data.h5")), encoding="utf-8")
        if submit:
            submit_job(launch.program, "train", path, submit)
            return
        how = {None: "auto", True: "must", False: "never"}[resume]
        with Progress(self._options()["quiet"]) as progress:
            launch.run(["train", path, "--resume", how], progress, self.run_.path("metrics.jsonl"))

    def _may_miss(self) -> bool:
        """data.missing is set: the program checks which inputs may be NaN."""
        section = self.job().get("data")
        return isinstance(section, Mapping) and bool(section.get("missing"))

    def _tables(self, X: Any, y: Any) -> tuple[dataset.Table, dataset.Table]:
        x = dataset.inputs(X, not self._may_miss(), texts=True)
        return x, dataset.targets(y, x.rows())

    def _open(self, x: dataset.Table) -> None:
        """Read the trained model."""
        self.run_.reload()
        self.n_features_in_ = len(self.run_.model.input_names)
        self._name_features(x)

    def _name_features(self, x: dataset.Table) -> None:
        if x.names:
            self.feature_names_in_ = np.array(x.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def distribution(self, X: Any, **options: Any) -> Prediction:
        """Mean and uncertainties of rows; see `tutti.Model.predict`."""
        if not hasattr(self, "n_features_in_"):
            raise not_fitted(self)
        if not any(self.run_.model.input_levels.values()) and not self._may_miss():
            dataset.inputs(X)  # the model has no value for missing inputs
        return self.run_.predict(X, **options)

    def predict(self, X: Any, **options: Any) -> Any:
        """Mean and uncertainties of rows; see `tutti.Model.predict`."""
        return self._output(self.distribution(X, **options))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R2 of the means, averaged over the targets.

        Parameters
        ----------
        sample_weight : array, shape (rows,), optional
        """
        mean = self.distribution(X).mean
        true = dataset.targets(y, len(mean)).values
        error = true - mean.reshape(true.shape)
        weight = np.ones(len(true)) if sample_weight is None else np.asarray(sample_weight, float)
        center = np.average(true, axis=0, weights=weight)
        residual, total = weight @ error ** 2, weight @ (true - center) ** 2
        return float(np.mean(1.0 - residual / total))


def not_fitted(estimator: Any) -> Exception:
    """NotFittedError of scikit-learn if it is installed, otherwise a ValueError."""
    text = f"this {type(estimator).__name__} is not fitted yet: call fit first"
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ValueError(text)
    return NotFittedError(text)
