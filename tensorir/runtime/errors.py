"""Diagnostics: what is wrong, where in a source, and what to do about it.

A `Source` is one text with a name; a `Span` is a half-open range of its characters. Every token, node and
diagnostic of every notation (the tensor IR's own, TVMScript, Tile IR) carries a span, and none compares by it.

>>> source = Source("p.fencil", "a\\nb + c\\n")
>>> Span(source, 6, 7).line, Span(source, 6, 7).column, Span(source, 6, 7).text
(2, 5, 'c')

There is one type, `Diagnostic`, one renderer, its `str`, and one exception, `DiagnosticError`, which carries as many
diagnostics as were found. Codes are stable: letters for the kind and a number; `diagnostics.md` has all of them.

>>> source = Source("p.fencil", "out ← ⟪I, 1⟫(inp);")
>>> print(Diagnostic("T07", "'out' needs I[0:5], but this provides I[-1:4].", Span(source, 6, 17),
...                  help="declare out: tensor<float, I[0:4]>."))
p.fencil:1:7: error[T07]: 'out' needs I[0:5], but this provides I[-1:4].
  out ← ⟪I, 1⟫(inp);
        ^^^^^^^^^^^
help: declare out: tensor<float, I[0:4]>.
"""

from __future__ import annotations

import difflib
import importlib
import signal
import sys
import threading
import time
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from signal import SIGINT
from types import FrameType
from typing import Any, ClassVar

from tensorir.runtime.assembly import ExtensionPoint

draw_traceback = ExtensionPoint(
    "what a notebook shows in place of a traceback", "tensorir.inspect.pages", "traceback_of"
)


class Displayed:
    """A base class for objects that notebooks show as HTML, drawn by the function that `_drawn_by` names.

    >>> from tensorir.integers.dims import Interval
    >>> "[0:3]" in Interval(0, 3)._repr_html_()
    True
    """

    __slots__ = ()
    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:page_of"

    def _repr_html_(self) -> str:
        module, _, function = self._drawn_by.partition(":")
        page: str = getattr(importlib.import_module(module), function)(self)
        return page


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One text and the name by which messages call it."""

    name: str
    text: str

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class Span:
    """The characters from `start` up to, and without, `stop`; line and column count from 1.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(NOWHERE)) is NOWHERE
    True
    """

    source: Source
    start: int
    stop: int

    @property
    def line(self) -> int:
        return self.source.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - self.source.text.rfind("\n", 0, self.start)

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.stop]

    def to(self, last: Span) -> Span:
        """The span from the start of this one to the end of `last`."""
        return last if self is NOWHERE else self if last is NOWHERE else Span(self.source, self.start, last.stop)

    def __reduce__(self) -> Any:
        return "NOWHERE" if self is NOWHERE else (Span, (self.source, self.start, self.stop))

    def __repr__(self) -> str:
        return "NOWHERE" if self is NOWHERE else f"{self.source.name}:{self.line}:{self.column}"


NOWHERE = Span(Source("", ""), 0, 0)
"""The span of what no text wrote: nodes built by a program."""

_WIDTH = 110  # columns of a source line that are shown; longer lines are cut around the span


@dataclass(frozen=True, slots=True)
class Note:
    """A further fact, with the place that it is about (such as the other line of a race)."""

    message: str
    span: Span = NOWHERE

    def __str__(self) -> str:
        return "\n".join([f"note: {self.message}", *_excerpt(self.span, located=True)])


@dataclass(frozen=True, slots=True)
class Diagnostic(Displayed):
    """One finding: a stable code, a sentence, the smallest span at fault, notes, and help.

    `severity` is "error" or "warning". A typing rule knows no spans: it sets the index of the `operand` at fault, and
    the builder of the node fills in the span.
    """

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:diagnostic_page"

    code: str
    message: str
    span: Span = NOWHERE
    notes: tuple[Note | str, ...] = ()
    help: str = ""
    severity: str = "error"
    operand: int | None = None

    def __str__(self) -> str:
        """The diagnostic as text: code and sentence, the source line with carets, notes, and help."""
        where = "" if self.span is NOWHERE else f"{self.span!r}: "
        lines = [f"{where}{self.severity}[{self.code}]: {self.message}", *_excerpt(self.span)]
        lines += [str(Note(note) if isinstance(note, str) else note) for note in self.notes]
        if self.help:
            lines.append(f"help: {self.help}")
        return "\n".join(lines)


class DiagnosticError(Displayed, ValueError):
    """Raised for bad input, with every diagnostic that was found; `str` renders them all."""

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:error_page"

    def __init__(self, diagnostics: Sequence[Diagnostic] | Diagnostic) -> None:
        """Keeps the diagnostics, one or several; their texts are the message."""
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        super().__init__("\n\n".join(map(str, self.diagnostics)))

    def _render_traceback_(self) -> list[str]:
        """The traceback of a notebook, without the frames of this package."""
        return draw_traceback(self, self.__traceback__)

    def __reduce__(self) -> tuple[type[DiagnosticError], tuple[tuple[Diagnostic, ...]]]:
        return DiagnosticError, (self.diagnostics,)


def refuse(
    code: str, text: str, help: str = "", *, at: Span | int = NOWHERE, notes: Iterable[Note | str] = ()
) -> DiagnosticError:
    """The exception for one diagnostic, to be raised by the caller; `at` is a span, or in a typing rule the operand's
    index.

    >>> raise refuse("A03", "an array without names meets a field.", "name its axes.")
    Traceback (most recent call last):
    tensorir.runtime.errors.DiagnosticError: error[A03]: an array without names meets a field.
    help: name its axes.
    """
    span, operand = (at, None) if isinstance(at, Span) else (NOWHERE, at)
    return DiagnosticError(Diagnostic(code, text, span, tuple(notes), help, operand=operand))


class NoAttribute(DiagnosticError, AttributeError):
    """A diagnostic about an attribute that an object lacks: for `hasattr` and `getattr` it is one."""


def raise_all(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Raises all diagnostics if one is an error; otherwise returns the warnings."""
    findings = tuple(diagnostics)
    if any(d.severity == "error" for d in findings):
        raise DiagnosticError(findings)
    return findings


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known one, or a list of them; empty if none is known.

    >>> did_you_mean("inpt", ["inp", "out"])
    "did you mean 'inp'?"
    >>> did_you_mean("q", ["inp", "out"])
    "known here: 'inp', 'out'."
    >>> did_you_mean("q", [])
    ''
    """
    known = list(dict.fromkeys(known))
    # what users give for a name may be anything
    if isinstance(name, str) and (closest := difflib.get_close_matches(name[:80], known, n=1, cutoff=0.6)):
        return f"did you mean {closest[0]!r}?"
    if not known:
        return ""
    listed = ", ".join(map(repr, known[:8]))
    return f"known here: {listed}{f' and {len(known) - 8} more' if len(known) > 8 else ''}."


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number of things.

    >>> counted(1, "point"), counted(0, "point"), counted(2, "index", "indices")
    ('1 point', '0 points', '2 indices')
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def article(noun: str) -> str:
    """A noun with its article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _excerpt(span: Span, located: bool = False) -> list[str]:
    """The source line under a span, cut to a readable width, and a line of carets; `located` puts file and line before
    it.
    """
    if span is NOWHERE:
        return []
    text = span.source.text
    begin = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    end = len(text) if end < 0 else end
    stop = min(max(span.stop, span.start + 1), max(end, span.start + 1))
    left = max(begin, min(span.start - _WIDTH // 3, end - _WIDTH)) if end - begin > _WIDTH else begin
    right = min(end, left + _WIDTH)
    excerpt = ("…" if left > begin else "") + _printable(text[left:right]) + ("…" if right < end else "")
    caret_column = _columns(("…" if left > begin else "") + _printable(text[left : span.start]))
    caret_count = max(1, _columns(_printable(text[span.start : min(stop, right)])))
    place = [f"  at {span!r}:"] if located else []
    return [*place, "  " + excerpt.rstrip(), "  " + " " * caret_column + "^" * caret_count]


def _printable(text: str) -> str:
    """The text with tabs as one blank and what cannot be printed as a replacement character."""
    return "".join(c if c.isprintable() else " " if c in "\t\r\n" else "\ufffd" for c in text)


def _columns(text: str) -> int:
    wide = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(c) else wide.get(unicodedata.east_asian_width(c), 1) for c in text)


# A time loop that the user stopped, with what was computed until then.


def leave(number: int, frame: FrameType | None) -> None:
    """A SIGTERM handler that raises SystemExit, so that half-written files are removed.

    The exception is lost if it is raised in a finaliser or a callback of the garbage collector; then
    `sys.unraisablehook` sees it, and the signal is sent again a little later.
    """
    exit_exception, hook = SystemExit(128 + number), sys.unraisablehook

    def signal_again() -> None:
        time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    def on_lost(lost: sys.UnraisableHookArgs) -> None:
        """A hook for exceptions that Python could not raise: if ours was lost, it sends the signal again."""
        if lost.exc_value is not exit_exception:
            return hook(lost)
        sys.unraisablehook = hook
        threading.Thread(target=signal_again, daemon=True).start()

    while frame is not None:  # the signal came again while a hook of before still ran
        if frame.f_code is on_lost.__code__:
            threading.Thread(target=signal_again, daemon=True).start()
            return
        frame = frame.f_back
    sys.unraisablehook = on_lost
    raise exit_exception


class Interrupted(KeyboardInterrupt):
    """Raised when Ctrl-C or SIGTERM stops a time loop: `state` is the last complete state, after `steps` steps.

    `kept` is the output recorded until then, `signal` the number of the signal.

    >>> Interrupted(3, 10, [1.0], None)
    Interrupted('stopped after 3 of 10 steps; .state is the state after them')
    """

    steps: int
    state: Any
    kept: Any

    signal: int

    def __init__(self, steps: int, n: int, state: Any, kept: Any, signal: int = SIGINT) -> None:
        super().__init__(f"stopped after {steps:,} of {n:,} steps; .state is the state after them")
        self.steps, self.state, self.kept, self.signal = steps, state, kept, signal
