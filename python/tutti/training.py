"""Training in this process and in memory, through libtutti (tutti_train_in_memory of tutti.h)."""
from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import threading
from typing import Any, Callable, Mapping, Optional

import numpy as np

from .program import Error, error_of, warn_of
from .progress import Progress

_PROCESS = os.getpid()
_gpu = threading.Lock()  # the engine of GPUs trains one ensemble at a time in a process


class _File(ctypes.Structure):
    """struct tutti_file of tutti.h."""

    _fields_ = [("name", ctypes.c_char_p), ("bytes", ctypes.c_void_p), ("size", ctypes.c_int64)]


_POLL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_STORE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_File))


class _Training(ctypes.Structure):
    """struct tutti_training of tutti.h."""

    _fields_ = [("size", ctypes.c_size_t), ("job", ctypes.c_char_p), ("set", ctypes.c_void_p),
                ("nset", ctypes.c_int), ("files", ctypes.c_int), ("file", ctypes.POINTER(_File)),
                ("live", ctypes.c_int), ("context", ctypes.c_void_p), ("poll", _POLL),
                ("store", _STORE)]


def may_train_here(job: Mapping[str, Any]) -> bool:
    """False in a process that was forked: there OpenMP has one thread, and CUDA cannot start."""
    run = job.get("run")
    one = isinstance(run, Mapping) and (run.get("threads"), run.get("device")) == (1, "cpu")
    return one or os.getpid() == _PROCESS


def _may_use_gpu(library: Any, job: Mapping[str, Any]) -> bool:
    run, folder = job.get("run"), os.path.dirname(os.path.realpath(library._name))
    return (not isinstance(run, Mapping) or run.get("device") != "cpu") and os.path.exists(
        os.path.join(folder, "libtutti_cuda.so"))


class Training:
    """A training in a thread of its own, so that a signal interrupts the caller at once.

    Parameters
    ----------
    library : libtutti
    job : str
        Text of the job file.
    gpu : bool
        The job may train on a GPU.
    files : mapping
        Names that the job has to what is in these files: data.h5, a checkpoint.
    live : bool
        Progress is told five times a second.
    stored : dict of str to bytes
        Receives the files of the run: the model and the results, or a checkpoint.
    """

    def __init__(self, library: Any, job: str, gpu: bool, files: Mapping[str, Any], live: bool,
                 stored: dict[str, bytes]) -> None:
        self._stored, self._gpu = stored, gpu
        self._library, self._stop = library, False
        self._lines: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()
        self._error: Optional[Error] = None
        self._kept = [np.frombuffer(data, np.uint8) for data in files.values()]
        table = (_File * len(files))(*[
            _File(name.encode(), data.ctypes.data, len(data))
            for name, data in zip(files, self._kept)])
        self._wanted = _Training(
            size=ctypes.sizeof(_Training), job=job.encode(), files=len(files), file=table,
            live=live, poll=_POLL(self._poll), store=_STORE(self._store))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _poll(self, _: Any, text: bytes) -> int:
        for line in text.decode(errors="replace").splitlines():
            self._lines.put(line)
        return int(self._stop)

    def _store(self, _: Any, file: Any) -> None:
        self._stored[file[0].name.decode()] = ctypes.string_at(file[0].bytes, file[0].size)

    def _run(self) -> None:
        with _gpu if self._gpu else contextlib.nullcontext():
            code = self._library.tutti_train_in_memory(ctypes.byref(self._wanted))
        if code:  # the message is that of this thread
            self._error = error_of(code, self._library.tutti_error().decode(errors="replace"))
        self._lines.put(None)

    def _end(self) -> None:
        self._thread.join()
        del self._kept, self._wanted  # which refers to this object

    def run(self, on_line: Callable[[str], None]) -> None:
        """Train to the end.

        Raises
        ------
        Error
            Of the library; its warnings are warnings of Python.
        KeyboardInterrupt, or what on_line raises
            Passed on when a checkpoint is stored; a second one at once.
        """
        self._thread.start()
        lines: list[str] = []
        try:
            for line in iter(self._lines.get, None):
                lines.append(line)
                on_line(line)
        except BaseException:
            self._stop = True
            self._end()
            raise
        self._end()
        if self._error:
            raise self._error
        warn_of(lines)


def train(library: Any, job: Mapping[str, Any], text: str, files: Mapping[str, Any], quiet: bool,
          stored: dict[str, bytes]) -> None:
    """Train, and show the progress.

    Parameters
    ----------
    job, text : dict, str
        The job file.
    stored : dict
        Receives the files of the run by their names, also those of a run that is stopped.
    """
    with Progress(quiet) as progress:
        training = Training(library, text, _may_use_gpu(library, job), files, progress.live, stored)
        training.run(progress)
