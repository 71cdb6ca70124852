"""Progress of a run: a bar of tqdm if there is tqdm, text otherwise."""
from __future__ import annotations

import json
import os
import re
import sys
import threading
from typing import Any, Optional

EPOCH = re.compile(r"(?:tutti: )?epoch (\d+)/(\d+), (.*)")

WARNING = re.compile(r"tutti: (?:warning|note): (.*)")


def in_notebook() -> bool:
    """True in a Jupyter notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _bar(total: int) -> Optional[Any]:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit="epoch", desc="tutti")


class Progress:
    """Shows the lines that the program writes: a bar on a terminal and in a notebook, the plain
    lines elsewhere, nothing if quiet. Use it as `on_line` of `program.run`, in a with block.

    Parameters
    ----------
    quiet : bool
    bar : bool
        False shows lines on a terminal too.
    """

    def __init__(self, quiet: bool = False, bar: bool = True) -> None:
        self._quiet = quiet
        self.live = bar and not quiet and (in_notebook() or sys.stderr.isatty())
        self._bar: Optional[Any] = None
        self._width = 0
        self._failed = False
        self._followed = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._width:
            print(file=sys.stderr)

    def __call__(self, line: str) -> None:
        self._failed |= line.startswith("tutti: error: ")
        # The message of an error is in the exception; warnings are warnings of Python.
        if self._quiet or self._failed or WARNING.match(line):
            return
        found = EPOCH.match(line)
        if not self.live:
            print(line, file=sys.stderr)
        elif found and not self._followed:
            self.show(int(found[1]), int(found[2]), found[3])

    def follow(self, path: str) -> "Follower":
        """Show what the program writes to metrics.jsonl, in a with block, instead of its lines."""
        self._followed = True
        return Follower(path, self)

    def show(self, epoch: int, epochs: int, rest: str) -> None:
        """Move the bar."""
        if self._bar is None and not self._width:
            self._bar = _bar(epochs)
        if self._bar is not None:
            self._bar.set_postfix_str(rest, refresh=False)
            self._bar.update(epoch - self._bar.n)
            return
        text = f"tutti: epoch {epoch}/{epochs}, {rest}"
        print("\r" + text.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(text))


class Follower:
    """Shows the lines that are appended to metrics.jsonl, from a thread, in a with block.

    A program behind mpirun or srun has no terminal and tells its progress every 30 s; it appends
    to this file every second.

    Parameters
    ----------
    path : str
        The file; it need not exist yet.
    progress : Progress
    """

    COUNTS = {"training": "training", "early_stopped": "stopped early", "diverged": "diverged",
              "finished": "finished"}

    def __init__(self, path: str, progress: Any) -> None:
        self._path, self._progress = path, progress
        self._at = self._size()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Follower":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        self._thread.join()
        self._read()

    def _size(self) -> int:
        return os.path.getsize(self._path) if os.path.exists(self._path) else 0

    def _run(self) -> None:
        while not self._end.wait(0.5):
            self._read()

    def _read(self) -> None:
        size = self._size()
        if size < self._at:  # training began again
            self._at = 0
        if size <= self._at:
            return
        with open(self._path, "rb") as f:
            f.seek(self._at)
            whole, newline, _ = f.read(size - self._at).rpartition(b"\n")
        self._at += len(whole + newline)
        for line in whole.splitlines():
            try:
                self._line(json.loads(line))
            except ValueError:  # a line that a kill has cut
                pass

    def _line(self, row: dict) -> None:
        loss = ("nan" if row[name] is None else f"{row[name]:.3g}"
                for name in ("loss_q25", "loss_q50", "loss_q75"))
        parts = ["loss " + " ".join(loss)]
        parts += [f"{row[name]} {word}" for name, word in self.COUNTS.items() if row[name]]
        self._progress.show(row["epoch"], row["epochs"], ", ".join(parts))
