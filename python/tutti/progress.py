"""Progress of a run: a bar of tqdm if there is tqdm, text otherwise."""
from __future__ import annotations

import re
import sys
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
        elif found:
            self._show(int(found[1]), int(found[2]), found[3])

    def _show(self, epoch: int, epochs: int, rest: str) -> None:
        if self._bar is None and not self._width:
            self._bar = _bar(epochs)
        if self._bar is not None:
            self._bar.set_postfix_str(rest, refresh=False)
            self._bar.update(epoch - self._bar.n)
            return
        text = f"tutti: epoch {epoch}/{epochs}, {rest}"
        print("\r" + text.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(text))
