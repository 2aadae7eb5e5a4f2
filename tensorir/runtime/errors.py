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
    """Something that `tensorir.inspect` draws as a page of HTML, or the module and function that its class names.

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
    """One finding: a stable code, one sentence, the smallest guilty span, notes, and a hint that says what to do.

    `severity` is "error" or "warning"; checkers return warnings and raise errors. A typing rule knows no spans: it
    gives the index of the guilty `operand`, and the maker of the node finds the span.
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
    """The exception of one diagnostic, to be raised; `at` is a span, or, in a typing rule, the index of the operand.

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
    """Raise if any is an error, with all of them; otherwise return the warnings."""
    several = tuple(diagnostics)
    if any(d.severity == "error" for d in several):
        raise DiagnosticError(several)
    return several


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that offers the nearest known name, or lists what there is.

    >>> did_you_mean("inpt", ["inp", "out"])
    "did you mean 'inp'?"
    >>> did_you_mean("q", ["inp", "out"])
    "known here: 'inp', 'out'."
    >>> did_you_mean("q", [])
    ''
    """
    known = list(dict.fromkeys(known))
    if near := difflib.get_close_matches(name[:80], known, n=1, cutoff=0.6):
        return f"did you mean {near[0]!r}?"
    if not known:
        return ""
    shown = ", ".join(map(repr, known[:8]))
    return f"known here: {shown}{f' and {len(known) - 8} more' if len(known) > 8 else ''}."


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
    """The source line under the span and a line of carets, cut to a readable width."""
    if span is NOWHERE:
        return []
    text = span.source.text
    begin = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    end = len(text) if end < 0 else end
    stop = min(max(span.stop, span.start + 1), max(end, span.start + 1))
    left = max(begin, min(span.start - _WIDTH // 3, end - _WIDTH)) if end - begin > _WIDTH else begin
    right = min(end, left + _WIDTH)
    shown = ("…" if left > begin else "") + _printable(text[left:right]) + ("…" if right < end else "")
    before = _columns(("…" if left > begin else "") + _printable(text[left : span.start]))
    under = max(1, _columns(_printable(text[span.start : min(stop, right)])))
    place = [f"  at {span!r}:"] if located else []
    return [*place, "  " + shown.rstrip(), "  " + " " * before + "^" * under]


def _printable(text: str) -> str:
    """The text with tabs as one blank and what cannot be printed as a replacement character."""
    return "".join(c if c.isprintable() else " " if c in "\t\r\n" else "\ufffd" for c in text)


def _columns(text: str) -> int:
    wide = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(c) else wide.get(unicodedata.east_asian_width(c), 1) for c in text)


# A time loop that the user stopped, with what was computed until then.


def leave(number: int, frame: FrameType | None) -> None:
    """The handler of a command for SIGTERM: an exception, so that what is half written is taken away.

    Finalisers and callbacks of the garbage collector and of weak references lose exceptions; `sys.unraisablehook` gets
    those, and the signal comes again.
    """
    ending, hook = SystemExit(128 + number), sys.unraisablehook

    def later() -> None:
        time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    def again(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_value is not ending:
            return hook(lost)
        sys.unraisablehook = hook
        threading.Thread(target=later, daemon=True).start()

    while frame is not None:  # the signal came again while a hook of before still ran
        if frame.f_code is again.__code__:
            threading.Thread(target=later, daemon=True).start()
            return
        frame = frame.f_back
    sys.unraisablehook = again
    raise ending


class Interrupted(KeyboardInterrupt):
    """A time loop that Ctrl-C or SIGTERM stopped: `state` is the last whole one, after `steps` steps.

    `kept` is what was kept until then, and `signal` the number of the signal.

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
