"""A progress bar of text, for terminals and notebooks; quiet where nobody would see it.

>>> import io
>>> stream = io.StringIO()
>>> bar = Bar(10, stream, patience=0.0)
>>> bar.move(5)
>>> stream.getvalue().strip().split(" in ")[0]
'|###############               | 5 of 10'
"""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

__all__ = ["Bar", "is_shown"]

_WIDTH = 30


def is_shown(wanted: bool | None) -> bool:
    """Whether a bar is drawn: as it is wanted, or else on a terminal and in a notebook.

    >>> is_shown(True), is_shown(False)
    (True, False)
    """
    if wanted is not None:
        return wanted
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Bar:
    """One line that is written again and again; for the first moment nothing is, since most runs are short."""

    def __init__(self, n: int, stream: TextIO | None = None, patience: float = 0.5) -> None:
        self.n, self.stream = n, stream or sys.stderr
        self.begin: float | None = None
        self.patience = patience
        """Seconds before anything is drawn, and a fifth of them between two drawings."""
        self.most = 0
        self.drawn = 0.0

    def move(self, done: Any) -> None:
        """Draw that so many steps are done."""
        done, now = int(done), time.perf_counter()
        # compiling is over when the first steps are done
        self.begin = now if self.begin is None else self.begin
        seconds = now - self.begin
        soon = now - self.drawn < self.patience / 5 and done < self.n
        if done <= self.most or seconds < self.patience or soon:
            return
        self.most, self.drawn = done, now
        full = _WIDTH * done // max(1, self.n)
        line = f"|{'#' * full}{' ' * (_WIDTH - full)}| {done:,} of {self.n:,} in {seconds:.1f} s"
        self.stream.write(f"\r{line}")
        self.stream.flush()

    def close(self) -> None:
        """End the line, if anything was drawn."""
        if self.most:
            self.stream.write("\n")
            self.stream.flush()
