"""What a compiler made of a program, and why: a row for each choice, with what it costs with it and without.

`ti.compile(f).plan(...)` makes one. Costs are those of `tensorir.analysis.predicted_cost`, in additions, and, where
they were measured, seconds of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tensorir.analysis.predicted_cost import Predicted
from tensorir.display import Displayed
from tensorir.passes.decisions import Decision, Threshold

__all__ = ["Comparison", "Memory", "Plan"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A program with a choice and without it."""

    predicted: float | None = None
    """The predicted cost without the choice, in additions; None where the model does not tell the two apart."""
    seconds: float | None = None
    """The median time without the choice; None where it was not measured."""
    ratio: float | None = None
    """The median over rounds of the time without the choice over that with it, of calls that took turns."""
    gradient: bool = False
    """Whether the times are those of the gradient of the sum of all results, which alone the choice changes."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a call: what is passed, what is returned, and the most that is needed besides."""

    inputs: int
    outputs: int
    temporaries: int
    """Predicted: what is kept, the states and copied operands of scans, what is read at indices."""

    @property
    def total(self) -> int:
        return self.inputs + self.outputs + self.temporaries

    def __str__(self) -> str:
        return (
            f"{_bytes(self.inputs)} of inputs, {_bytes(self.outputs)} of outputs, "
            f"{_bytes(self.temporaries)} of temporaries predicted"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Displayed):
    """The choices for one set of sizes and types, and what they are worth.

    `for d in plan` gives the decisions, `plan["block_scans"]` those of one name, `plan.thresholds` every limit.
    """

    name: str
    """The program's."""
    platform: str
    decisions: tuple[Decision, ...]
    cost: Predicted
    memory: Memory
    comparisons: Mapping[str, Comparison] = field(default_factory=dict[str, Comparison])
    """What the program costs without all the choices of a name."""
    seconds: float | None = None
    """The median time of a call, where it was measured."""
    left_out: tuple[str, ...] = ()
    """Passes that do not run: they do not pay on this platform, or would round otherwise."""
    thresholds: tuple[Threshold, ...] = ()

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def __len__(self) -> int:
        return len(self.decisions)

    def __getitem__(self, name: str) -> tuple[Decision, ...]:
        """The decisions of a name."""
        return tuple(d for d in self.decisions if d.name == name)

    def taken(self, name: str) -> bool:
        """Whether a choice is made anywhere."""
        return any(d.taken for d in self[name])

    @staticmethod
    def switch(name: str) -> str:
        """What switches a choice off."""
        return f'ti.compile(f, without="{name}")'

    def head(self) -> list[str]:
        """The lines above the table."""
        took = "" if self.seconds is None else f", measured {_seconds(self.seconds)}"
        lines = [
            f"{self.name}, compiled for {self.platform}",
            f"cost {self.cost.total:,.0f} additions predicted{took}; {self.memory}",
        ]
        if self.left_out:
            lines.append(f"left out: {', '.join(self.left_out)}")
        return lines

    def rows(self) -> list[tuple[str, ...]]:
        """The table as text, a row for each decision."""
        return [self._row(d) for d in self.decisions]

    def _row(self, d: Decision) -> tuple[str, ...]:
        one = self.comparisons.get(d.name, Comparison()) if d.taken else Comparison()
        predicted = "" if one.predicted is None else f"{one.predicted / max(1.0, self.cost.total):.2f}"
        measured = "" if one.ratio is None else f"{one.ratio:.2f}{'*' * one.gradient}"
        limit = "" if d.threshold is None else f"{d.threshold.limit:,g} {d.threshold.unit}"
        value = "" if d.value is None or d.threshold is None else f"{d.value:,.4g}"
        return (d.name if d.taken else f"({d.name})", d.what, d.where, value, limit, predicted, measured)

    def notes(self) -> list[str]:
        """Of each name: why, where its threshold was measured, and what switches it off."""
        lines: list[str] = []
        for d in {(d.name, d.taken): d for d in reversed(self.decisions)}.values():
            measured = "" if d.threshold is None else f"; {d.threshold.name}: {d.threshold.measured}"
            off = f". Off: {self.switch(d.name)}" if d.taken else ""
            lines.append(f"{d.name if d.taken else f'({d.name})'}: {d.reason}{measured}{off}")
        return lines[::-1]

    def __str__(self) -> str:
        lines = self.head()
        if self.decisions:
            lines += ["", *_columns([HEAD, *self.rows()]), "", *self.notes()]
            if any(c.gradient and c.ratio is not None for c in self.comparisons.values()):
                lines.append("*: measured in the gradient of the sum of all results.")
            if any(not d.taken for d in self.decisions):
                lines.append("In parentheses: what was weighed and is not done.")
        return "\n".join(lines)

    __repr__ = __str__


HEAD = ("choice", "what", "where", "value", "limit", "without", "measured")
"""The last two: the cost without the choice over that with it."""
_WIDEST = 48


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns one under the other, cells of numbers to the right."""
    cells = [[c if len(c) <= _WIDEST else f"{c[: _WIDEST - 1]}…" for c in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    kept = [k for k in range(len(widths)) if any(row[k] for row in cells[1:])]
    numbers = (3, 5, 6)
    shown = ([c.rjust(widths[k]) if k in numbers else c.ljust(widths[k]) for k, c in enumerate(row)] for row in cells)
    return ["  ".join(row[k] for k in kept).rstrip() for row in shown]


def _bytes(count: int) -> str:
    """
    >>> _bytes(33554432), _bytes(80)
    ('33.6 MB', '80 bytes')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _seconds(time: float) -> str:
    return f"{1e3 * time:.2f} ms" if time >= 1e-4 else f"{1e6 * time:.1f} µs"
