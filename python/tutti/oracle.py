"""Python functions as oracles of campaigns (docs/oracle.md).

A function gets a dict of the inputs, {name: array (rows,)}, and returns the targets: an array of
shape (rows,) or (rows, targets), a dict {name: array}, a DataFrame or a DataArray. NaN marks a
point that cannot be labeled.
"""
from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from typing import Any, Callable, Optional, Union

import h5py
import numpy as np

from .data import dataset
from .data.hdf5 import read_text
from .places import PACKAGE

Function = Callable[[dict], Any]
Oracle = Union[Function, str]
SOCKET = "oracle.sock"  # in the directory of the campaign file, where the calls start
_CALL = ("import sys; sys.path[:0] = sys.argv[1:3]; from tutti.oracle import main; "
         "main(*sys.argv[3:])")


def command(oracle: Oracle) -> list[str]:
    """Value of label.command for a function of this process, or for the name of a function."""
    if isinstance(oracle, str):
        here = [str(PACKAGE.parent), os.getcwd()]
        return [sys.executable, "-c", _CALL, *here, oracle, "{input}", "{output}"]
    return [sys.executable, "-I", "-S", str(PACKAGE / "ask.py"), SOCKET, "{input}", "{output}"]


def label(function: Function, source: str, target: str) -> None:
    """Read a file of queries, call the function, write the labels.

    Raises
    ------
    ValueError
        The function returned another number of rows, or numbers that are infinite.
    """
    with h5py.File(source) as f:
        ids, x = f["id"][()], f["x"][()]
        names = list(read_text(f["feature_name"])) if "feature_name" in f else []
    names = names or [f"x{i}" for i in range(x.shape[1])]
    made = dataset.targets(function({name: x[:, i] for i, name in enumerate(names)}), len(ids))
    with h5py.File(target + ".part", "w") as f:
        f["id"], f["y"] = ids, made.values
        if made.names:
            f["target_name"] = made.names
    os.rename(target + ".part", target)


def find(name: str) -> Function:
    """The function of "module:function".

    Raises
    ------
    ValueError
        The name has another form.
    """
    module, colon, function = name.partition(":")
    if not colon:
        raise ValueError(f"oracle '{name}': write it as 'module:function'")
    return getattr(importlib.import_module(module), function)


def main(name: str, source: str, target: str) -> None:
    """One call of a function that is named."""
    try:
        function = find(name)
    except (ImportError, AttributeError, ValueError) as why:
        print(f"oracle {name}: {why}", file=sys.stderr)
        sys.exit(69)
    label(function, source, target)


class Server:
    """Answers the calls of ask.py with a function of this process. Use it in a with block.

    Attributes
    ----------
    error : Exception or None
        What the function raised; it ends the campaign.
    """

    def __init__(self, directory: str, function: Function) -> None:
        self._path = os.path.join(directory, SOCKET)
        self._function = function
        self.error: Optional[BaseException] = None

    def __enter__(self) -> "Server":
        if os.path.lexists(self._path):
            os.unlink(self._path)
        self._socket = socket.socket(socket.AF_UNIX)
        # The path of a socket has at most 107 bytes; that of an open directory is always short.
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY)
        try:
            self._socket.bind(f"/proc/self/fd/{folder}/{SOCKET}")
        finally:
            os.close(folder)
        self._socket.listen(64)
        return self

    def __exit__(self, *_: Any) -> None:
        self._socket.close()
        os.unlink(self._path)

    def answer(self, seconds: float) -> None:
        """Wait for a call for some time, and answer it."""
        self._socket.settimeout(seconds)
        try:
            line, _ = self._socket.accept()
        except socket.timeout:  # a TimeoutError only from Python 3.10 on
            return
        with line:
            line.settimeout(None)
            request = line.makefile().readline()
            if not request:
                return
            code, message = 0, ""
            try:
                label(self._function, *json.loads(request))
            except Exception as why:
                self.error = self.error or why
                code, message = 69, f"the oracle raised {type(why).__name__}: {why}"
            _send(line, [code, message])


def _send(line: socket.socket, answer: list) -> None:
    try:
        line.sendall(json.dumps(answer).encode() + b"\n")
    except OSError:  # the call was killed by its time limit
        pass
