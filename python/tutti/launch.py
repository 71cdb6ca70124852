"""Starts the program, alone or on several ranks."""
from __future__ import annotations

import os
import signal
from typing import Callable, Optional, Sequence, Union

from . import program as _program


class Launch:
    """How to start the program.

    Parameters
    ----------
    program : str
        Path of the program.
    ranks : int, optional
        None or 1 without a launcher: one process.
    launcher : str or list of str, optional
        "mpirun", "srun", or a command that is followed by -n RANKS.
    """

    def __init__(self, program: str, ranks: Optional[int] = None,
                 launcher: Optional[Union[str, Sequence[str]]] = None) -> None:
        if ranks is not None and (isinstance(ranks, bool) or int(ranks) != ranks or ranks < 1):
            raise ValueError(f"ranks={ranks!r} is not a whole number from 1 on")
        self.program = program
        self.prefix: list[str] = []
        if launcher is None and (ranks or 1) > 1:
            launcher = "srun" if "SLURM_JOB_ID" in os.environ else "mpirun"
        if launcher is not None:
            words = [launcher] if isinstance(launcher, str) else list(launcher)
            self.prefix = words + (["-K1"] if words == ["srun"] else [])
            self.prefix += ["-n", str(ranks)] if ranks else []

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The whole command line."""
        return self.prefix + [self.program, *arguments]

    def run(self, arguments: Sequence[str], on_line: Optional[Callable[[str], None]] = None) -> str:
        """Run the program to its end; standard output. Raises tutti.Error."""
        stop = signal.SIGUSR1 if self.prefix else signal.SIGINT
        return _program.run(self.command(arguments), on_line, stop)
