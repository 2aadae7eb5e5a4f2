"""Choices of a compiler: what was chosen where and why, what each costs without, and the plan that lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tensorir.analysis.cost import Predicted
from tensorir.ir.nodes import Call, Closure, Expr, Fencil
from tensorir.ir.rewrite import postorder, values
from tensorir.runtime.errors import NOWHERE, Displayed, Span

# What a compiler chose at one place of a program: what, where, why, and the threshold that it was compared with.
#
# Passes say what they chose in `Pass.decided`, and a backend says it of what it emits; `c.plan()` puts them in a
# table.


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit between two ways of computing the same, and where it was measured.

    >>> print(Threshold("MOST_SLOTS", 32, "neighbours", "docs/lowering.md, Neighbour tables"))
    MOST_SLOTS = 32 neighbours (docs/lowering.md, Neighbour tables)
    """

    name: str
    """The constant, or the option of a pass, that it stands in."""
    limit: float
    unit: str
    measured: str
    """The section of the documents, or the script, with the measurement."""

    def __str__(self) -> str:
        return f"{self.name} = {self.limit:,g} {self.unit} ({self.measured})"


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice at one place; `taken` is False where it was weighed and something else is done."""

    name: str
    """What `ti.compile(f, without=...)` calls it."""
    what: str
    """What becomes of the place."""
    where: str
    """The expression, by its name or by the output that it is for, and its line."""
    taken: bool = True
    reason: str = ""
    value: float | None = None
    """What was compared with the threshold, in its unit."""
    threshold: Threshold | None = None
    bytes: int = 0
    """Bytes of memory that it takes, besides inputs and outputs."""
    span: Span = NOWHERE


class Places:
    """Places of the expressions of a program.

    >>> from tensorir.text import parse
    >>> f = parse('''f(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
    ...   y ← let wave = cos(x); wave + x; }''')
    >>> [Places(f).of(n) for n in (f.closures[0].value.args[0], f.closures[0].value)]
    ['wave, line 2', 'of y, line 2']
    """

    def __init__(self, fencil: Fencil) -> None:
        self._outputs: dict[int, str] = {}
        for closure in reversed(fencil.closures):
            self._outputs.update((id(n), closure.output.name) for n in postorder(closure.value))

    def of(self, node: Expr) -> str:
        """The place of an expression in words: its label, or the output that it is computed for, and its line."""
        output = self._outputs.get(id(node))
        return _with_line(node.label or ("" if output is None else f"of {output}"), node.span)


def _with_line(name: str, span: Span) -> str:
    line = f"line {span.line}" if span.source.text else ""
    return ", ".join(filter(None, (name, line)))


def calls_made(before: Fencil, after: Fencil, op: str) -> Iterator[Call]:
    """The calls of a builtin that are in the program after a pass and not before, each once."""
    existing = {node for node in postorder(*values(before.closures)) if isinstance(node, Call) and node.op == op}
    seen: set[Call] = set()
    for node in postorder(*values(after.closures)):
        if isinstance(node, Call) and node.op == op and node not in existing and node not in seen:
            seen.add(node)
            yield node


def closures_changed(before: Fencil, after: Fencil) -> Iterator[tuple[Closure, str]]:
    """The closures of the program after a pass that are not in the one before, each with its place in words."""
    existing = set(before.closures)
    for closure in after.closures:
        if closure not in existing:
            yield closure, _with_line(f"of {closure.output.name}", closure.span)


LONGEST = 60
"""Characters of an expression that a row shows."""


def shortened(node: Expr) -> str:
    """An expression on one line, cut where it is long.

    >>> from tensorir.ir.build import call, var
    >>> from tensorir.ir.types import tensor
    >>> x = var("x", tensor("float"))
    >>> shortened(call("plus", x, x))
    'x + x'
    """
    text = " ".join(str(node).split()).replace("( ", "(").replace(" )", ")")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# What a compiler made of a program, and why: a row for each choice, with what it costs with it and without.
#
# `ti.compile(f).plan(...)` makes one. Costs are those of `tensorir.analysis.cost`, in additions, and, where
# they were measured, seconds of this machine.


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

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:plan_page"

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
        """True if a choice is made anywhere."""
        return any(d.taken for d in self[name])

    @staticmethod
    def switch(name: str) -> str:
        """The switch that turns a choice off."""
        return f'ti.compile(f, without="{name}")'

    def head(self) -> list[str]:
        """The lines above the table: name and platform, predicted and measured cost, memory, passes left out."""
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
        """The cells of a decision under `HEAD`; decisions not taken have their name in parentheses and no costs."""
        comparison = self.comparisons.get(d.name, Comparison()) if d.taken else Comparison()
        predicted = "" if comparison.predicted is None else f"{comparison.predicted / max(1.0, self.cost.total):.2f}"
        measured = "" if comparison.ratio is None else f"{comparison.ratio:.2f}{'*' * comparison.gradient}"
        limit = "" if d.threshold is None else f"{d.threshold.limit:,g} {d.threshold.unit}"
        value = "" if d.value is None or d.threshold is None else f"{d.value:,.4g}"
        return (d.name if d.taken else f"({d.name})", d.what, d.where, value, limit, predicted, measured)

    def notes(self) -> list[str]:
        """A line per kind of decision: the reason, the place where its threshold was measured, and the switch to turn
        it off.
        """
        lines: list[str] = []
        for d in {(d.name, d.taken): d for d in reversed(self.decisions)}.values():
            measured = "" if d.threshold is None else f"; {d.threshold.name}: {d.threshold.measured}"
            switch_text = f". Off: {self.switch(d.name)}" if d.taken else ""
            lines.append(f"{d.name if d.taken else f'({d.name})'}: {d.reason}{measured}{switch_text}")
        return lines[::-1]

    def __str__(self) -> str:
        """The plan as text: head, table of decisions, notes, and a legend of the marks that appear."""
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
    """Rows as aligned text, numbers to the right; columns that are empty in all rows but the head are dropped."""
    cells = [[c if len(c) <= _WIDEST else f"{c[: _WIDEST - 1]}…" for c in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    nonempty = [k for k in range(len(widths)) if any(row[k] for row in cells[1:])]
    numbers = (3, 5, 6)
    shown = ([c.rjust(widths[k]) if k in numbers else c.ljust(widths[k]) for k, c in enumerate(row)] for row in cells)
    return ["  ".join(row[k] for k in nonempty).rstrip() for row in shown]


def _bytes(count: int) -> str:
    """A number of bytes with a decimal unit.

    >>> _bytes(33554432), _bytes(80)
    ('33.6 MB', '80 bytes')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _seconds(time: float) -> str:
    return f"{1e3 * time:.2f} ms" if time >= 1e-4 else f"{1e6 * time:.1f} µs"
