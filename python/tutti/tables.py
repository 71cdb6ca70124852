"""Models of tables in files, without a job: `tutti train table.csv` and `tutti tune table.csv`."""
from __future__ import annotations

import os
from typing import Any, Optional, Sequence, Union

from .launch import Launch
from .places import PathLike, find_program
from .progress import Progress
from .run import Run

Names = Union[str, Sequence[str]]


def _list(names: Names) -> str:
    """Names as one text; a name that is alone may be such a text already."""
    if isinstance(names, str):
        return names
    return ",".join('"' + name.replace('"', '""') + '"' for name in names)


def _start(verb: str, table: PathLike, options: dict[str, Any], directory: PathLike,
           overrides: Optional[Sequence[str]], resume: Optional[bool], ranks: Optional[int],
           quiet: bool, program: Optional[PathLike]) -> Run:
    words = [verb, os.fspath(table), "-o", os.fspath(directory)]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", _list(value) if name in _LISTS else str(value)]
    for text in overrides or ():
        words += ["--set", text]
    if resume is not None:
        words += ["--resume", "must" if resume else "never"]
    found = find_program(program)
    with Progress(quiet) as progress:
        Launch(found, ranks).run(words, progress, os.path.join(directory, "metrics.jsonl"))
    return Run(directory, found)


_LISTS = ("targets", "inputs", "classes")


def train(table: PathLike, targets: Names, *, inputs: Optional[Names] = None,
          classes: Optional[Names] = None, group: Optional[str] = None,
          members: Optional[int] = None, epochs: Optional[int] = None, directory: PathLike = "out",
          overrides: Optional[Sequence[str]] = None, resume: Optional[bool] = None,
          ranks: Optional[int] = None, quiet: bool = False,
          program: Optional[PathLike] = None) -> Run:
    """Train an ensemble on a table in a file, with the defaults.

        >>> run = tutti.train("energy.csv", ["heating_load", "cooling_load"])
        >>> run.predict(rows).mean

    Parameters
    ----------
    table : path
        CSV, TSV, NumPy, HDF5 or netCDF. Texts, missing cells and the format are found.
    targets, inputs : str or list of str
        Names of columns, or patterns such as "load*"; without inputs all columns that can be one.
    classes : str or list of str, optional
        Targets of numbers 0, 1, ... that are classes; targets of texts are classes by themselves.
    group : str, optional
        Rows with the same value of this column stay in one part of the split.
    members, epochs : int, optional
        Of each ensemble.
    directory : path
        Directory of the run. job.yaml in it has all options and may be edited.
    overrides : list of str, optional
        Options of the job, as "train.learning_rate=0.01".
    resume : bool, optional
        True: continue a run that was stopped; False: begin again; None: whichever is possible.
    ranks : int, optional
        Several processes.

    Returns
    -------
    Run

    Raises
    ------
    tutti.InputError
        The message lists the cells of the table that cannot be used, and options that accept them.
    """
    options = dict(targets=targets, inputs=inputs, classes=classes, group=group, members=members,
                   epochs=epochs)
    return _start("train", table, options, directory, overrides, resume, ranks, quiet, program)


def tune(table: PathLike, targets: Names, *, preset: Optional[str] = None,
         budget: Optional[int] = None, time: Optional[Union[str, float]] = None,
         folds: Optional[int] = None, inputs: Optional[Names] = None,
         classes: Optional[Names] = None, group: Optional[str] = None,
         directory: PathLike = "out", overrides: Optional[Sequence[str]] = None,
         resume: Optional[bool] = None, ranks: Optional[int] = None, quiet: bool = False,
         program: Optional[PathLike] = None) -> Run:
    """Search for good networks for a table, and keep the best of them as one ensemble.

    Parameters
    ----------
    preset : str, optional
        "fast", "good" or "best".
    budget : int, optional
        Largest number of networks that are tried.
    time : str or float, optional
        Wall time of the whole search: seconds, or a text such as "2min".
    folds : int, optional
        Members of a network, each without one fold of the rows.
    table, targets, ...
        As in `train`.

    Returns
    -------
    Run
        `run.results()` has the table of all networks that were tried: trial_options, trial_score.
    """
    seconds = f"{time}s" if isinstance(time, (int, float)) else time
    options = dict(targets=targets, preset=preset, budget=budget, time=seconds, folds=folds,
                   inputs=inputs, classes=classes, group=group)
    return _start("tune", table, options, directory, overrides, resume, ranks, quiet, program)
