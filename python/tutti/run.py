"""A run directory: its state, its results as arrays, its predictions."""
from __future__ import annotations

import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import weakref
from typing import Any, Optional

import h5py
import numpy as np

from .data.hdf5 import read_arrays, read_values
from .library import Model
from .prediction import Prediction
from .places import PathLike, find_program
from .program import error_of, message_of


# Files of a run that a pickled one has.
_KEPT = ("job.yaml", "model.h5", "results.h5", "status.json")


class Scratch:
    """A temporary directory that is removed with the last object that holds it."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="tutti-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


class Run:
    """A run directory (run.directory), during and after the run, or a run in memory.

    Made by `tutti.open_run`; an `Ensemble` has the one of its last fit as `run_`.

    Parameters
    ----------
    files : dict of str to bytes, optional
        Of a run in memory, instead of a directory.
    key : bytes, optional
        The same for runs with the same job and data.
    """

    def __init__(self, directory: Optional[PathLike] = None, program: Optional[PathLike] = None,
                 scratch: Optional[Scratch] = None,
                 files: Optional[dict[str, bytes]] = None, key: Optional[bytes] = None) -> None:
        if directory is not None and not os.path.isdir(directory):
            raise FileNotFoundError(f"{os.fspath(directory)} is not a directory")
        self._directory = None if directory is None else os.path.abspath(directory)
        self._program = program
        self._scratch = scratch
        self._files = files
        self.key = key
        self._model: Optional[Model] = None

    def __repr__(self) -> str:
        return f"<tutti.{type(self).__name__} {self._directory or 'in memory'}>"

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: the path, or the files of a run in memory or in a temporary directory."""
        files = self._files
        if files is None and self._scratch:
            files = {name: pathlib.Path(self.path(name)).read_bytes() for name in _KEPT
                     if os.path.exists(self.path(name))}
        return {"_directory": self._directory if files is None else None, "_files": files,
                "_program": self._program}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _scratch=None, key=None, _model=None)

    @property
    def directory(self) -> str:
        """The run directory. A run in memory gets a temporary one, with its files."""
        if self._directory is None:
            self._scratch = Scratch()
            for name, contents in (self._files or {}).items():
                pathlib.Path(self._scratch.name, name).write_bytes(contents)
            self._directory = self._scratch.name
        return self._directory

    def path(self, name: str) -> str:
        """Path of a file of the run, which is written now if the run is in memory."""
        return os.path.join(self.directory, name)

    def checkpoint(self) -> dict[str, bytes]:
        """The checkpoint of a run in memory that was stopped, under its name."""
        return {name: data for name, data in (self._files or {}).items()
                if name.startswith("ckpt-")}

    def complete(self) -> bool:
        """True for a run in memory that has a model."""
        return "model.h5" in (self._files or {})

    def _open(self, name: str) -> Any:
        """A file of the run for h5py."""
        return self.path(name) if self._files is None else io.BytesIO(self._files[name])

    def status(self) -> dict[str, Any]:
        """State of the run as `tutti status --json` tells it: state, epoch, epochs, eta, ...;
        "submitted" before a batch job starts."""
        if self._files is not None:
            return json.loads(self._files["status.json"])
        if os.path.exists(self.path("slurm_job")) and not os.path.exists(self.path("status.json")):
            number = pathlib.Path(self.path("slurm_job")).read_text().strip()
            return {"state": "submitted", "job": number}
        done = subprocess.run([find_program(self._program), "status", "--json", self.directory],
                              capture_output=True, text=True)
        if done.returncode:
            raise error_of(done.returncode, message_of(done.stderr))
        return json.loads(done.stdout)

    def done(self) -> bool:
        """True if the run has ended and its model is written."""
        return self.status()["state"] == "done"

    def wait(self, timeout: Optional[float] = None, poll: float = 10.0) -> "Run":
        """Wait until the run is done, e.g. of a batch job.

        Parameters
        ----------
        timeout : float, optional
            Seconds; without it, wait for ever.
        poll : float
            Seconds between two looks.

        Raises
        ------
        TimeoutError
            The run is not done in time.
        tutti.Error
            The run has failed, or its batch job has ended before it was complete.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            gone = ended_job(self.path("slurm_job"))
            status = self.status()
            if status["state"] == "done":
                return self
            if status["state"] == "failed":
                raise error_of(status["exit_code"], status["reason"])
            if gone and status.get("job") == gone:
                raise error_of(75 if status.get("generation") else 69, (
                    f"{self.directory}: the batch job has ended, but the run is not complete "
                    f"({status['state']}); its log is beside job.yaml; fit again continues"))
            if end is not None and time.monotonic() + poll > end:
                raise TimeoutError(f"{self.directory}: {status['state']} after {timeout} s")
            time.sleep(poll)

    def results(self) -> dict[str, np.ndarray]:
        """Every variable of results.h5 as an array: losses, scores, test predictions."""
        return read_arrays(self._open("results.h5"))

    def learning_curves(self) -> dict[str, np.ndarray]:
        """Losses of the members, shape (members, epochs), NaN after the end of a member.

        Returns
        -------
        dict
            "train" and "validation".
        """
        with h5py.File(self._open("results.h5"), "r") as f:
            return {name: f[f"loss_{name}"][()] for name in ("train", "validation")}

    def members(self) -> dict[str, np.ndarray]:
        """What results.h5 has for each member, as arrays of shape (members, ...): status,
        best_epoch, test_rmse, and every hyper-parameter under its name."""
        with h5py.File(self._open("results.h5"), "r") as f:
            count = f["status"].shape[0]
            return {name: read_values(item) for name, item in f.items()
                    if isinstance(item, h5py.Dataset) and item.shape[:1] == (count,)
                    and item.dims[0] and item.dims[0][0].name == "/member"}

    def config(self) -> str:
        """The job with the values of all options, as YAML."""
        with h5py.File(self._open("results.h5"), "r") as f:
            return str(read_values(f["provenance/resolved_config"]))

    @property
    def model(self) -> Model:
        """The trained model, read at the first use."""
        if self._model is None:
            self.reload()
            assert self._model is not None
        return self._model

    def reload(self) -> None:
        """Read the model again, after another training."""
        source = self.path("model.h5") if self._files is None else self._files["model.h5"]
        self._model = Model(source, self._program)

    def predict(self, x: Any, **options: Any) -> Prediction:
        """Predict rows with the model of the run; see `tutti.Model.predict`."""
        return self.model.predict(x, **options)


def ended_job(path: str) -> Optional[str]:
    """The number in the file slurm_job if Slurm has no such job any more."""
    if not os.path.exists(path):
        return None
    number = pathlib.Path(path).read_text(encoding="utf-8").strip()
    try:
        done = subprocess.run(["squeue", "-h", "-o", "%T", "-j", number], text=True, timeout=60,
                              capture_output=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
    ended = "Invalid job id" in done.stderr if done.returncode else set(
        done.stdout.split()) <= over
    return number if ended else None
