"""What a lift decided, loop by loop, and why; and what the compiled program has operations for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tensorir.lifting.loops.numerics import Difference
from tensorir.lifting.nests.nest import Loop
from tensorir.runtime.errors import NOWHERE, Span

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


@dataclass(slots=True, repr=False)
class Report:
    """The decisions in the order in which they were made, notes on what was assumed, and what was raised.

    >>> print(Report())
    no loops
    """

    decisions: list[Decision] = field(default_factory=list[Decision])
    notes: list[str] = field(default_factory=list[str])
    ask: Callable[[], Sequence[tuple[str, str]]] = field(default=tuple, repr=False, compare=False)
    """Asks the compiled program, which takes a trace of it."""

    numerics: tuple[Difference, ...] = ()
    """Where numerics="fast" and "exact" differ."""

    @property
    def raised(self) -> tuple[tuple[str, str], ...]:
        """The rules that found an operation of the backend, and the expressions for which they did."""
        return tuple(self.ask())

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
        from tensorir.inspect.pages import page, pre, table

        rows = dict.fromkeys((d.where, d.loop.title or d.loop.name, d.strategy, d.reason) for d in self.decisions)
        notes = [pre("\n".join(f"note: {n}" for n in self.notes))] if self.notes else []
        found = self.raised
        raised = [table(("raised", "expression"), found)] if found else []
        differing = [(n.where, n.what, n.fast, n.exact) for n in self.numerics]
        numerics = [table(("line", "numerics", "fast", "exact"), differing)] if differing else []
        return page(table(("line", "loop", "runs as", "because"), rows), *raised, *numerics, *notes)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = list(dict.fromkeys(str(d) for d in self.decisions)) or ["no loops"]
        raised = [f"raised: {rule}: {expression}" for rule, expression in self.raised]
        numerics = [f"numerics: {n}" for n in self.numerics]
        return "\n".join([*lines, *raised, *numerics, *(f"note: {n}" for n in self.notes)])
