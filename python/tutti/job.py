"""Job files from keyword arguments, under the names of docs/options.md."""
from __future__ import annotations

import contextlib
import functools
import json
import os
import re
from typing import Any, Iterator, Mapping

import numpy as np

from .program import Error
from .run import Run

# Where a short name is looked up: the first section that has an option of this name.
SECTIONS = ("model", "train", "run", "calibration", "checkpoint", "combine", "data",
            "train.on_diverged", "data.split")
# Options of an entry of `ensembles`.
OF_ENSEMBLE = ("name", "target", "targets", "members", "first_member", "rows", "sweep")
# Parameters with a name of scikit-learn, and the option that each one sets.
_OF_SCIKIT_LEARN = {"random_state": "seed", "n_jobs": "threads"}
_PATHS = {"random_state": "run.seed", "n_jobs": "run.threads", "n_trials": "search.budget"}
# Where a message finds an option in the text of a job: file, line and column, or the file alone.
_PLACE = re.compile(r"^(?:.*job\.yaml|options):(?:\d+:\d+: | (?=[a-z_]+\.[\w.\[\]]+: ))")


@functools.lru_cache(maxsize=8)
def _options(library: Any) -> tuple[dict[str, str], list[str]]:
    """Short name -> section, and the options that are paths, as libtutti lists them."""
    page = library.tutti_options().decode()
    sections: dict[str, str] = {}
    for path in re.findall(r"^\| `([\w.]+)` \|", page, re.M):
        section, _, name = path.rpartition(".")
        old = sections.get(name)
        if section in SECTIONS and (
                old is None or SECTIONS.index(section) < SECTIONS.index(old)):
            sections[name] = section
    return sections, re.findall(r"^\| `([\w.]+)` \| a path \|", page, re.M)


def put(job: dict, path: str, value: Any) -> None:
    """Set job["a"]["b"] for the path "a.b"; a mapping is merged into the one that is there."""
    head, _, rest = path.partition(".")
    if rest:
        inner = job.setdefault(head, {})
        if isinstance(inner, dict):
            put(inner, rest, value)
    elif isinstance(value, Mapping) and isinstance(job.get(head), dict):
        for name, item in value.items():
            put(job[head], str(name), item)
    else:
        job[head] = dict(value) if isinstance(value, Mapping) else value


def _absolute(job: dict, path: str) -> None:
    """Make the path job["a"]["b"] absolute: the job file is in another directory."""
    section, _, name = path.rpartition(".")
    inner = job.get(section)
    value = inner.get(name) if isinstance(inner, dict) else None
    if isinstance(value, Run):
        value = value.path("model.h5")
    if value and isinstance(value, (str, os.PathLike)):
        put(job, path, os.path.abspath(value))


def _of_scikit_learn(name: str, value: Any) -> Any:
    """The value of `seed` for a random_state, or of `threads` for n_jobs."""
    if name == "n_jobs":
        return "auto" if value == -1 else value
    if isinstance(value, str):
        raise ValueError(f"random_state: {value!r} is not a whole number")
    return int(value.integers(2**31) if isinstance(value, np.random.Generator) else
               value.randint(2**31) if isinstance(value, np.random.RandomState) else value)


def of_scikit_learn(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The same parameters, with `seed` for `random_state`, `threads` for `n_jobs`, and `quiet`
    for `verbose`."""
    given = dict(parameters)
    verbose = given.pop("verbose", None)
    if verbose is not None:
        given["quiet"] = not verbose
    for name, same in _OF_SCIKIT_LEARN.items():
        value = given.pop(name, None)
        if value is not None and given.get(same) is not None:
            raise ValueError(f"{name} and {same} mean the same: give one of them")
        if value is not None:
            given[same] = _of_scikit_learn(name, value)
    return given


def build(parameters: Mapping[str, Any], library: Any) -> dict:
    """Job from parameters; None = not given.

    A parameter is an option by its short name (`epochs=30`), a section (`train={"epochs": 30}`),
    or an option by section and name (`train__epochs=30`). Other names are left at the top level,
    where the program refuses them. A relative path starts at the current directory, and a Run
    stands for its model.h5 (`init_from=run`).
    """
    sections, paths = _options(library)
    job: dict = {}
    ensemble: dict = {}
    short = {}
    for name, value in parameters.items():
        if value is None:
            continue
        if name in OF_ENSEMBLE:
            ensemble[name] = value
        elif name in sections and name not in ("train", "data"):
            short[f"{sections[name]}.{name}"] = value
        else:
            put(job, name.replace("__", "."), value)
    for path, value in short.items():
        put(job, path, value)
    entries = job.get("ensembles") or [{"name": "ensemble", **ensemble}]
    if isinstance(entries, (list, tuple)) and all(isinstance(e, Mapping) for e in entries):
        job["ensembles"] = [{"name": f"ensemble{i}", **ensemble, **e}
                            for i, e in enumerate(entries)]
    for path in paths:
        _absolute(job, path)
    if isinstance(job.setdefault("run", {}), dict):
        job["run"].setdefault("baselines", False)  # they are for reports
    return job


def _path(name: str, library: Any) -> str:
    """Path in the job of the option that a parameter sets."""
    section = _options(library)[0].get(name)
    return _PATHS.get(name) or (f"ensembles[0].{name}" if name in OF_ENSEMBLE else
                                f"{section}.{name}" if section else name.replace("__", "."))


def _in_parameters(line: str, parameters: Mapping[str, Any], library: Any) -> str:
    """A line of a message that begins with an option: it names the parameter and its value."""
    for name, value in parameters.items():
        path = _path(name, library)
        if value is not None and re.match(re.escape(path) + r"[:\[]", line):
            line, shown = name + line[len(path):], repr(value)
            return line if shown in line or len(shown) > 60 else f"{line} ({name}={shown})"
    return line


@contextlib.contextmanager
def errors_of(parameters: Mapping[str, Any], library: Any) -> Iterator[None]:
    """Errors about a job that `build` made name the parameters: nobody else sees its text."""
    try:
        yield
    except Error as error:
        lines = [_in_parameters(_PLACE.sub("", line), parameters, library)
                 for line in error.message.split("\n")]
        error.message = "\n".join(lines)
        error.args = (error.message,)
        raise


# Texts without quotes: the program reads a quoted text as a string, and these may be durations.
_UNQUOTED = re.compile(r"[a-z][a-z_0-9]*|[0-9][0-9.]*[a-z]+")
_NOT_TEXTS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan")


def _yaml(value: Any) -> str:
    """A value in the flow style of YAML."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml(str(k))}: {_yaml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    words = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    plain = _UNQUOTED.fullmatch(words) and words not in _NOT_TEXTS
    return words if plain else json.dumps(words, ensure_ascii=False)


def text(job: Mapping[str, Any]) -> str:
    """A job as YAML, one section a line."""
    lines = []
    for name, value in job.items():
        if name == "ensembles" and isinstance(value, list):
            lines += ["ensembles:"] + ["- " + _yaml(entry) for entry in value]
        else:
            lines.append(f"{_yaml(str(name))}: {_yaml(value)}")
    return "\n".join(lines) + "\n"


def write(path: str, job: Mapping[str, Any]) -> None:
    """Write a job file."""
    with open(path, "w", encoding="utf-8") as f:
        f.write(text(job))
