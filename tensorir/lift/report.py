"""What a lift decided, loop by loop, and why."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorir.lift.nest import Loop
from tensorir.source import NOWHERE, Span

__all__ = ["Decision", "Report"]


@dataclass(frozen=True, slots=True)
class Decision:
    """How one loop runs for some statements."""

    loop: Loop
    strategy: str
    reason: str
    spans: tuple[Span, ...] = ()

    @property
    def where(self) -> str:
        """The line of the loop, where it has one."""
        return str(self.loop.span.line) if self.loop.span is not NOWHERE else ""

    def __str__(self) -> str:
        line = f"line {self.where}: " if self.where else ""
        title = self.loop.title or self.loop.name
        return f"{line}{title}: {self.strategy}{f' ({self.reason})' if self.reason else ''}"


@dataclass(slots=True)
class Report:
    """The decisions in the order in which they were made, and notes on what was assumed.

    >>> print(Report())
    no loops
    """

    decisions: list[Decision] = field(default_factory=list[Decision])
    notes: list[str] = field(default_factory=list[str])

    def add(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def sequential(self) -> tuple[Decision, ...]:
        """The loops that run step by step."""
        return tuple(d for d in self.decisions if d.strategy == "sequential")

    def _repr_html_(self) -> str:
        from tensorir.inspect.page import page, pre, table

        rows = dict.fromkeys((d.where, d.loop.title or d.loop.name, d.strategy, d.reason) for d in self.decisions)
        notes = [pre("\n".join(f"note: {n}" for n in self.notes))] if self.notes else []
        return page(table(("line", "loop", "runs as", "because"), rows), *notes)

    def __str__(self) -> str:
        lines = list(dict.fromkeys(str(d) for d in self.decisions)) or ["no loops"]
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])
