"""Campaigns of active learning with an oracle in Python."""
from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import subprocess
import tempfile
import threading
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from . import job, oracle as _oracle
from .data import dataset
from .ensemble import Ensemble
from .data.hdf5 import read_arrays
from .launch import Launch, submit_job
from .binding import load
from .places import PathLike, find_library, find_program
from .program import Error, InputError, Process, error_of, message_of
from .progress import Progress
from .run import Run


@dataclasses.dataclass(frozen=True)
class Asked:
    """Points that a campaign wants labeled: their ids, and their inputs by name."""
    id: np.ndarray
    x: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.id)


class Campaign(Run):
    """The directory of a campaign, during and after it, also one that runs elsewhere."""

    def ask(self, k: int = 1, lease: str = "2h", who: Optional[str] = None) -> Optional[Asked]:
        """Get up to k points to label, which nobody else gets until the lease ends.

        Returns
        -------
        Asked or None
            None: the campaign has ended.

        Raises
        ------
        Stopped
            There is no point now: ask later.
        """
        named = ["--who", who] if who else []
        done = self._command("ask", self.directory, "-k", str(k), "--lease", lease, *named)
        if done.returncode == 1:
            return None
        if done.returncode:
            raise error_of(done.returncode, message_of(done.stderr) or done.stderr.strip())
        names, *rows = csv.reader(io.StringIO(done.stdout))
        columns = [np.array(c) for c in zip(*rows)]
        return Asked(columns[0].astype(np.int64),
                     {n: _numbers(c) for n, c in zip(names[1:], columns[1:])})

    def tell(self, ids: Any, y: Any, status: Any = None, replace: bool = False,
             sd: Any = None) -> None:
        """Give labels: all of them are taken, or none; those that are known change nothing.

        Parameters
        ----------
        ids : array of int
            Of `ask`.
        y : array [points] or [points, targets]
            Labels in the order of the targets; NaN = none.
        status : str or sequence of str, optional
            "ok", "impossible", "crashed" or "later", of all or of each.
        replace : bool
            Replace labels that have other values.
        sd : array like y, optional
            Error bars of a campaign with data.sigma; NaN = label.sigma.

        Raises
        ------
        InputError
            A label is not accepted; the message names its row.
        """
        ids = np.atleast_1d(np.asarray(ids))
        if np.any(ids != np.floor(ids)):
            raise InputError(65, "ids: not whole numbers")
        y = _rows(y, len(ids), "labels")
        targets, bars = self._targets()
        if targets and y.shape[1] != targets:
            raise InputError(65, f"labels of {y.shape[1]} targets; the campaign has {targets}")
        if targets and sd is not None and not bars:
            raise InputError(65, "sd: the campaign has no error bars (data.sigma)")
        values = y if sd is None else np.hstack([y, _rows(sd, len(ids), "sd")])
        if sd is not None and values.shape[1] != 2 * y.shape[1]:
            raise InputError(65, f"sd has the shape {np.shape(sd)}, but the labels {np.shape(y)}")
        words = [status or "ok"] * len(ids) if isinstance(status, (str, type(None))) else status
        if len(words) != len(ids):
            raise InputError(65, f"status: {len(words)} words for {len(ids)} points")
        with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
            path = os.path.join(folder, "labels.csv")
            with open(path, "w", newline="", encoding="utf-8") as f:
                table = csv.writer(f)
                names = [f"y{i}" for i in range(y.shape[1])]
                errors = [f"sd_{name}" for name in names] if sd is not None else []
                table.writerow(["id", *names, *errors, "status"])
                for i, row, word in zip(ids, values, words):
                    table.writerow([int(i), *(repr(float(v)) for v in row), word])
            done = self._command("tell", self.directory, path, *["--replace"] * replace)
        if done.returncode:
            raise error_of(done.returncode, message_of(done.stderr))

    def _targets(self) -> tuple[int, int]:
        """Targets, those with error bars; 0 = there is no record yet."""
        try:
            with open(self.path("events.jsonl"), encoding="utf-8") as f:
                header = json.loads(f.readline())
        except FileNotFoundError:
            return 0, 0
        bars = header.get("error_bars", 0)
        return len(header["targets"]) - bars, bars

    def _command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([find_program(self._program), *words], text=True,
                              capture_output=True)

    def history(self) -> dict[str, np.ndarray]:
        """Every variable of campaign.h5: labels, rmse, queries, ... of each round."""
        return read_arrays(self.path("campaign.h5"))


def _rows(values: Any, rows: int, what: str) -> np.ndarray:
    """Values as an array (rows, columns); one axis may be missing."""
    values = np.asarray(values, np.float64)
    if values.ndim < 2 and rows and values.size % rows == 0:
        return values.reshape(rows, -1)
    if values.ndim != 2 or len(values) != rows:
        raise InputError(65, f"{what} of the shape {values.shape} for {rows} points")
    return values


def _numbers(column: np.ndarray) -> np.ndarray:
    """Numbers, or texts as they are."""
    try:
        return column.astype(np.float64)
    except ValueError:
        return column


def open_run(directory: PathLike, program: Optional[PathLike] = None) -> Run:
    """Open the directory of a run or a campaign, of Python or of the command line, during or
    after it.

    Parameters
    ----------
    directory : path
        run.directory of the job, or campaign.directory.
    program : path, optional
        See `tutti.find_program`.

    Raises
    ------
    FileNotFoundError
        There is no such directory.
    """
    here = os.fspath(directory)
    known = any(os.path.exists(os.path.join(here, f)) for f in ("events.jsonl", "campaign.h5",
                                                                "campaign.yaml"))
    return (Campaign if known else Run)(here, program)


def _describe(config: Union[Ensemble, Mapping[str, Any]], library: Any) -> dict[str, Any]:
    if isinstance(config, Ensemble):
        return config.job()
    return job.build(dict(config), library)


def _write_file(described: dict, key: str, value: Any, directory: str) -> None:
    """Write arrays as the file of section `data` or `pool`."""
    name = f"{key}.h5"
    if key == "data":
        x = dataset.inputs(value[0])
        tables = {"x": x, "y": dataset.targets(value[1], x.rows())}
    else:
        tables = {"x": dataset.inputs(value)}
    dataset.write(os.path.join(directory, name), tables)
    job.put(described, f"{key}.file", name)


def _write(described: dict, oracle: _oracle.Oracle, directory: str, data: Any, pool: Any) -> str:
    """Write campaign.yaml and its files; the path of campaign.yaml."""
    if data is not None:
        _write_file(described, "data", data, directory)
    if pool is not None:
        _write_file(described, "pool", pool, directory)
    labels = described.setdefault("label", {})
    batch = described.get("select", {}).get("batch", 10)
    if labels.setdefault("mode", "command") != "ask":
        labels.setdefault("rows_per_call", batch)
        labels.update(command=_oracle.command(oracle), format="hdf5")
    job.put(described, "campaign.directory", ".")
    path = os.path.join(directory, "campaign.yaml")
    job.write(path, described)
    return path


def _serve(command: Sequence[str], server: _oracle.Server, progress: Progress,
           stop_signal: int) -> None:
    """Run the program and answer its calls in this thread, until the program ends."""
    process = Process(command, stop_signal)

    def show() -> None:
        for line in process:
            progress(line)

    reader = threading.Thread(target=show)
    reader.start()
    try:
        while reader.is_alive():
            server.answer(0.1)
    except BaseException:
        process.interrupt()
        reader.join()
        process.stop()
        raise
    try:
        process.wait()
    except Error as error:
        raise (server.error or error) from (error if server.error else None)


def campaign(config: Union[Ensemble, Mapping[str, Any]], oracle: _oracle.Oracle, *,
             directory: PathLike, data: Any = None, pool: Any = None,
             ranks: Optional[int] = None, launcher: Optional[Union[str, Sequence[str]]] = None,
             submit: Union[bool, Mapping[str, Any]] = False,
             program: Optional[PathLike] = None, quiet: bool = False) -> Campaign:
    """Run a campaign: train, choose points, label them with a function, repeat.

    After a stop, call it again with the same arguments: it continues, and does not label a point
    twice.

    Parameters
    ----------
    config : Ensemble or dict
        Options of the campaign, by section (`{"select": {"batch": 5}, ...}`) or, for those of the
        network and the training, by name (docs/options.md).
    oracle : callable or str
        Gets {input name: array (rows,)}, returns the targets of these rows; NaN marks a point that
        cannot be labeled. An exception ends the campaign and is raised here. The function runs in
        this process, in this thread. "module:function" is imported by a process of each call.
    directory : path
        Directory of the campaign and its files.
    data : tuple (X, y), optional
        Labeled rows; otherwise data.file of the configuration.
    pool : array, DataFrame or DataArray, optional
        Candidates; otherwise pool.file or pool.command.
    ranks, launcher, program, quiet
        As in `Ensemble`.
    submit : bool or dict
        Queue a batch job and return at once; see `Ensemble.fit`. Needs the name of a function.

    Raises
    ------
    tutti.Error
        The program ended with an error; `tutti.Stopped` can be continued.
    """
    if submit and not isinstance(oracle, str):
        raise ValueError("submit: a batch job cannot call a function of this process; give the "
                         "oracle as 'module:function'")
    start = Launch(find_program(program), ranks, launcher)
    library = load(find_library(program))
    os.makedirs(directory, exist_ok=True)
    directory = os.path.abspath(directory)
    path = _write(_describe(config, library), oracle, directory, data, pool)
    made = Campaign(directory, program)
    if submit:
        submit_job(start.program, "campaign", path, submit)
        return made
    with Progress(quiet, bar=False) as progress:
        if isinstance(oracle, str):
            start.run(["campaign", "run", path], progress)
        else:
            with _oracle.Server(directory, oracle) as server:
                _serve(start.command(["campaign", "run", path]), server, progress,
                       start.stop_signal)
    return made
