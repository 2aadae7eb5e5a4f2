"""Where a piece of a program stands in its text: sources and spans.

A `Source` is one text with a name; a `Span` is a half-open range of its characters. Every token, node and
diagnostic of every notation (the tensor IR's own, TVMScript, Tile IR) carries a span, and none compares by it.

>>> source = Source("p.fencil", "a\\nb + c\\n")
>>> Span(source, 6, 7).line, Span(source, 6, 7).column, Span(source, 6, 7).text
(2, 5, 'c')
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOWHERE", "Source", "Span"]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One text and the name by which messages call it."""

    name: str
    text: str

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class Span:
    """The characters from `start` up to, and without, `stop`; line and column count from 1."""

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

    def __repr__(self) -> str:
        return "NOWHERE" if self is NOWHERE else f"{self.source.name}:{self.line}:{self.column}"


NOWHERE = Span(Source("", ""), 0, 0)
"""The span of what no text wrote: nodes built by a program."""
