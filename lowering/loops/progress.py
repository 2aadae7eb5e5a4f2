"""A progress bar for terminals and notebooks, drawn by rich where it is installed; quiet where nobody would see it.

In a notebook it is one output that is replaced as it goes on and empty in the end, so that none is saved.

>>> import io
>>> stream = io.StringIO()
>>> bar = Bar(10, stream, patience=0.0)
>>> bar.move(5)
>>> stream.getvalue().strip().split(" in ")[0]
'|###############               | 5 of 10'
"""

from __future__ import annotations

import html
import importlib.util
import io
import sys
import time
from typing import Any, Protocol, TextIO

_WIDTH = 30


def is_shown(wanted: bool | None) -> bool:
    """True if a bar is drawn: if `wanted` says so, or, if it is None, on a terminal and in a notebook.

    >>> is_shown(True), is_shown(False)
    (True, False)
    """
    if wanted is not None:
        return wanted
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Drawing(Protocol):
    """The stream on which a bar is drawn."""

    def draw(self, done: int, seconds: float) -> None:
        """Draw that so many steps are done."""

    def end(self) -> None:
        """Leave what is around the bar as it was."""


class Bar:
    """A bar that is drawn again and again; for the first moment nothing is, since most runs are short."""

    def __init__(self, n: int, stream: TextIO | None = None, patience: float = 0.5, label: str = "steps") -> None:
        """A bar of n steps; nothing is drawn for the first `patience` seconds. `stream`: for text instead of a
        terminal.
        """
        self.n, self.label = n, label
        self.begin: float | None = None
        self.patience = patience
        """Seconds before anything is drawn, and a fifth of them between two drawings."""
        self.most = 0
        self.drawn = 0.0
        self.drawing: Drawing | None = None
        self.stream = stream

    def move(self, done: Any) -> None:
        """Draw the bar with `done` steps done, unless it is too early, too soon after the last drawing, or not
        progressed.
        """
        done, now = int(done), time.perf_counter()
        # compiling is over when the first steps are done
        self.begin = now if self.begin is None else self.begin
        seconds = now - self.begin
        is_too_soon = now - self.drawn < self.patience / 5 and done < self.n
        if done <= self.most or seconds < self.patience or is_too_soon:
            return
        self.most, self.drawn = done, now
        self.drawing = self.drawing or _drawing(self)
        self.drawing.draw(done, seconds)

    def close(self) -> None:
        """End the bar, if anything was drawn."""
        if self.drawing:
            self.drawing.end()


def _drawing(bar: Bar) -> Drawing:
    """The form of the bar: text on a given stream, a notebook's output, rich on a terminal, else text on stderr."""
    if bar.stream is not None:
        return _Line(bar.n, bar.stream)
    if _in_notebook():
        return _Output(bar.n, bar.label)
    # rich draws nothing until the end where no terminal is
    return _Rich(bar.n, bar.label) if sys.stderr.isatty() and _has_rich() else _Line(bar.n, sys.stderr)


def _has_rich() -> bool:
    return importlib.util.find_spec("rich") is not None


def _bar_text(n: int, done: int, seconds: float) -> str:
    full = _WIDTH * done // max(1, n)
    return f"|{'#' * full}{' ' * (_WIDTH - full)}| {done:,} of {n:,} in {seconds:.1f} s"


class _Line:
    """A line of text that is written over."""

    def __init__(self, n: int, stream: TextIO) -> None:
        self.n, self.stream = n, stream

    def draw(self, done: int, seconds: float) -> None:
        self.stream.write(f"\r{_bar_text(self.n, done, seconds)}")
        self.stream.flush()

    def end(self) -> None:
        self.stream.write("\n")
        self.stream.flush()


def _rich_progress(n: int, label: str, console: Any) -> tuple[Any, Any]:
    """A progress bar of rich on a console, and its one task."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    progress = Progress(
        label, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, auto_refresh=False
    )
    return progress, progress.add_task(label, total=n)


class _Rich:
    """A bar on the terminal's line for errors."""

    def __init__(self, n: int, label: str) -> None:
        """Begin rich's bar on the terminal."""
        from rich.console import Console

        self.progress, self.task = _rich_progress(n, label, Console(stderr=True))
        self.progress.start()

    def draw(self, done: int, seconds: float) -> None:
        self.progress.update(self.task, completed=done, refresh=True)

    def end(self) -> None:
        self.progress.stop()


class _Output:
    """One output of a notebook's cell."""

    def __init__(self, n: int, label: str) -> None:
        """Begin an empty output of the cell."""
        from IPython.display import display

        self.n, self.label = n, label
        self.handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def draw(self, done: int, seconds: float) -> None:
        """Replace the notebook's output by the bar, in HTML as rich draws it if it is installed."""
        words = _bar_text(self.n, done, seconds)
        page = f"<pre>{html.escape(words)}</pre>"
        if _has_rich():
            from rich.console import Console

            console = Console(file=io.StringIO(), record=True, width=80, force_jupyter=False)
            progress, task = _rich_progress(self.n, self.label, console)
            progress.update(task, completed=done)
            console.print(progress.get_renderable())
            page = console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
        self.handle.update({"text/plain": words, "text/html": page}, raw=True)

    def end(self) -> None:
        self.handle.update({"text/plain": ""}, raw=True)
