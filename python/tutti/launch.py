"""Starts the program, alone or on several ranks."""
from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any, Mapping, Optional, Sequence, Union

from . import program as _program
from .progress import Progress


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
        self.stop_signal = signal.SIGINT
        if launcher is None and (ranks or 1) > 1:
            launcher = "srun" if "SLURM_JOB_ID" in os.environ else "mpirun"
        if launcher is not None:
            words = [launcher] if isinstance(launcher, str) else list(launcher)
            self.prefix = words + (["-K1"] if words == ["srun"] else [])
            self.prefix += ["-n", str(ranks)] if ranks else []
            self.stop_signal = signal.SIGUSR1  # a launcher forwards it, and does not end itself

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The whole command line."""
        return self.prefix + [self.program, *arguments]

    def run(self, arguments: Sequence[str], progress: Progress,
            metrics: Optional[str] = None) -> str:
        """Run the program to its end; standard output. Raises tutti.Error.

        Parameters
        ----------
        metrics : str, optional
            Path of metrics.jsonl of the run: the progress behind a launcher.
        """
        behind = bool(self.prefix and metrics and progress.live)
        with progress.follow(str(metrics)) if behind else contextlib.nullcontext():
            return _program.run(self.command(arguments), progress, self.stop_signal,
                                terminal=progress.live and not self.prefix)


def submit_job(program: str, verb: str, path: str, options: Union[bool, Mapping[str, Any]]) -> str:
    """Write a batch script with `tutti slurm` beside the job file and queue it; the job number.

    The number is also written to slurm_job in the same directory.

    Parameters
    ----------
    verb : {"train", "campaign"}
    path : str
        The job file.
    options : bool or mapping
        Options of `tutti slurm` (site, nodes, gpus_per_node, time); all others are options of
        sbatch, e.g. {"account": "abc", "exclusive": True}.
    """
    given = dict(options) if isinstance(options, Mapping) else {}
    names = [name for name in ("site", "nodes", "gpus_per_node", "time") if name in given]
    ours = {name: given.pop(name) for name in names}
    folder, file = os.path.split(path)
    script = _program.run([program, "slurm", verb, *_flags(ours), file], directory=folder)
    name = os.path.splitext(file)[0] + ".sbatch"
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(script)
    # The script calls tutti by its name.
    path_list = os.path.dirname(program) + os.pathsep + os.environ.get("PATH", "")
    done = subprocess.run(["sbatch", "--parsable", *_flags(given), name], cwd=folder,
                          env={**os.environ, "PATH": path_list}, capture_output=True, text=True)
    if done.returncode:
        raise _program.Error(done.returncode, "sbatch: " + done.stderr.strip())
    number = done.stdout.strip().split(";")[0]
    with open(os.path.join(folder, "slurm_job"), "w", encoding="utf-8") as f:
        f.write(number + "\n")
    return number


def _flags(options: Mapping[str, Any]) -> list[str]:
    """{"gpus_per_node": 4, "exclusive": True} as --gpus-per-node=4 --exclusive."""
    return ["--" + name.replace("_", "-") + ("" if value is True else f"={value}")
            for name, value in options.items() if value not in (None, False)]
