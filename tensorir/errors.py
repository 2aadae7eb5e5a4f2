"""Diagnostics: what is wrong, where, and what to do about it.

There is one type, `Diagnostic`, one renderer, its `str`, and one exception, `DiagnosticError`, which carries as many
diagnostics as were found. Codes are stable: letters for the kind and a number; `diagnostics.md` has all of them.

>>> from tensorir.source import Source, Span
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
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorir.display import Displayed
from tensorir.extension_points import draw_traceback
from tensorir.source import NOWHERE, Span

__all__ = ["Diagnostic", "DiagnosticError", "NoAttribute", "Note", "did_you_mean", "raise_all"]

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

    `severity` is "error" or "warning"; checkers return warnings and raise errors.
    """

    code: str
    message: str
    span: Span = NOWHERE
    notes: tuple[Note | str, ...] = ()
    help: str = ""
    severity: str = "error"

    def __str__(self) -> str:
        where = "" if self.span is NOWHERE else f"{self.span!r}: "
        lines = [f"{where}{self.severity}[{self.code}]: {self.message}", *_excerpt(self.span)]
        lines += [str(Note(note) if isinstance(note, str) else note) for note in self.notes]
        if self.help:
            lines.append(f"help: {self.help}")
        return "\n".join(lines)


class DiagnosticError(Displayed, ValueError):
    """Raised for bad input, with every diagnostic that was found; `str` renders them all."""

    def __init__(self, diagnostics: Sequence[Diagnostic] | Diagnostic) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        super().__init__("\n\n".join(map(str, self.diagnostics)))

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback through the inside of this package."""
        return draw_traceback(self, self.__traceback__)

    def __reduce__(self) -> tuple[type[DiagnosticError], tuple[tuple[Diagnostic, ...]]]:
        return DiagnosticError, (self.diagnostics,)


class NoAttribute(DiagnosticError, AttributeError):
    """A diagnostic about an attribute that an object lacks: for `hasattr` and `getattr` it is one."""


def raise_all(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Raise if any is an error, with all of them; otherwise return the warnings."""
    found = tuple(diagnostics)
    if any(d.severity == "error" for d in found):
        raise DiagnosticError(found)
    return found


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
