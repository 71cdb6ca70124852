"""Run the program tutti."""
from __future__ import annotations

import errno
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from typing import Callable, Iterator, Optional, Sequence

from .places import PathLike
from .progress import WARNING


class Error(RuntimeError):
    """The program or the library ended with an error.

    Attributes
    ----------
    code : int
        Exit code, see docs/troubleshooting.md.
    message : str
        The message of the program.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple:
        return type(self), (self.code, self.message)


class InputError(Error, ValueError):
    """The options, the data or the command line are wrong (exit codes 64, 65, 66 and 78)."""


class Stopped(Error):
    """The run stopped with a checkpoint (exit code 75); start it again to continue."""


# What messages of the program name, and what a caller of the package writes instead.
_IN_PYTHON = (
    (r"--resume never", "resume=False"),
    (r"--resume must", "resume=True"),
    (r"--resume auto", "resume=None"),
    (r"run\.share_gpu: true", "share_gpu=True"),
    (r"run\.gpu_map", "gpu_map"),
    (r"--group", "group"),
    (r"tutti (?:train|init): --(members|epochs)", r"\1"),
    (r"\nTry `tutti .*", ""),
    (r"the trainer is NULL: .*", "this Trainer is closed"),
    (r"\btutti_trainer_(?!options)(\w+)", r"Trainer.\1"),
    (r"\bbatch->", ""),
    (r"\bmemory:/", ""),
    (r"unknown key ('\w+') at the top level", r"unknown parameter \1"),
    (r"(unknown .*; did you mean ')[\w.\[\]]+\.(\w+)'", r"\1\2'"),
)


def in_python(message: str) -> str:
    """A message of the program in terms of the parameters of this package."""
    for words, python in _IN_PYTHON:
        message = re.sub(words, python, message)
    return message


def error_of(code: int, message: str) -> Error:
    """Exception for an exit code."""
    kind = InputError if code in (64, 65, 66, 78) else Stopped if code == 75 else Error
    return kind(code, in_python(message) or f"tutti ended with exit code {code}")


def message_of(stderr: str) -> str:
    """The error message in what the program wrote to standard error."""
    found = stderr.rfind("tutti: error: ")
    if found < 0:
        return stderr.strip()
    lines = stderr[found + len("tutti: error: "):].splitlines()
    kept = [lines[0]] if lines else []
    for line in lines[1:]:
        if line.startswith(("tutti: ", "-----", "=====", "srun: ", "[")):
            break
        kept.append(line)
    return "\n".join(kept).strip()


class Process:
    """A running program: its lines on standard error, and a way to stop it with a checkpoint.

    Parameters
    ----------
    command : sequence of str
    stop_signal : int
        Signal on KeyboardInterrupt. A launcher forwards SIGUSR1 to the ranks.
    directory : path, optional
        Where the program starts.
    terminal : bool
        True: standard error is a terminal for the program, which then tells its progress five
        times a second, otherwise every 30 s.
    """

    def __init__(self, command: Sequence[str], stop_signal: int = signal.SIGINT,
                 directory: Optional[PathLike] = None, terminal: bool = False) -> None:
        self._stop_signal = stop_signal
        self._stdout = tempfile.TemporaryFile()
        self._stderr, end = pty.openpty() if terminal else os.pipe()
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"} if terminal else None
        try:
            # A session of its own: Ctrl-C reaches Python alone, which stops the program once.
            self._child = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=self._stdout, stderr=end,
                cwd=directory, env=environment, start_new_session=True)
        finally:
            os.close(end)
        self._rest = b""  # of a line
        self.lines: list[str] = []

    def _read(self) -> bytes:
        try:
            return os.read(self._stderr, 65536)
        except OSError as why:
            if why.errno != errno.EIO:  # the end of a terminal
                raise
            return b""

    def __iter__(self) -> Iterator[str]:
        piece = self._read()
        while piece or self._rest:
            *whole, self._rest = re.split(rb"[\r\n]+", self._rest + piece)
            if not piece:
                whole, self._rest = [self._rest], b""
            for raw in whole:
                line = raw.decode(errors="replace").replace("\033[K", "")
                if line:
                    self.lines.append(line)
                    yield line
            piece = self._read() if piece else b""

    def wait(self) -> str:
        """Wait for the end; standard output. Raises Error if the exit code is not 0."""
        for _ in self:
            pass
        code = self._child.wait()
        self._close()
        if code:
            code = 128 - code if code < 0 else code
            raise error_of(code, message_of("\n".join(self.lines)))
        warn_of(self.lines)
        return self.output

    def interrupt(self) -> None:
        """Ask the program to write a checkpoint and end."""
        if self._child.poll() is None:
            self._child.send_signal(self._stop_signal)

    def stop(self) -> None:
        """Stop the program; it writes a checkpoint first. A second KeyboardInterrupt kills it."""
        self.interrupt()
        try:
            for _ in self:
                pass
            self._child.wait()
        except KeyboardInterrupt:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            raise
        finally:
            self._close()

    def _close(self) -> None:
        self._stdout.seek(0)
        self.output = self._stdout.read().decode(errors="replace")
        self._stdout.close()
        os.close(self._stderr)


def level_of_caller() -> int:
    """stacklevel, in the function that calls this one, of the code that uses the package."""
    frame, level = sys._getframe(1), 1
    here = os.path.dirname(__file__) + os.sep
    while frame.f_back and frame.f_code.co_filename.startswith(here):
        frame, level = frame.f_back, level + 1
    return level


def warn_of(lines: Sequence[str]) -> None:
    """Turn the warnings of the program into warnings of Python."""
    for line in lines:
        found = WARNING.match(line)
        if found:
            warnings.warn(in_python(found[1]), UserWarning, stacklevel=level_of_caller())


def run(command: Sequence[str], on_line: Optional[Callable[[str], None]] = None,
        stop_signal: int = signal.SIGINT, directory: Optional[PathLike] = None,
        terminal: bool = False) -> str:
    """Run a command to its end; standard output.

    Parameters
    ----------
    on_line : callable, optional
        Gets each line of standard error.
    stop_signal, directory, terminal
        As in `Process`.

    Raises
    ------
    Error
        The exit code is not 0.
    KeyboardInterrupt
        Passed on after the program has written its checkpoint.
    """
    process = Process(command, stop_signal, directory, terminal)
    try:
        for line in process:
            if on_line:
                on_line(line)
        return process.wait()
    except BaseException as error:
        if not isinstance(error, Error):
            process.stop()
        raise
