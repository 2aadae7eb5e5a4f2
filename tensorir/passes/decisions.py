"""What a compiler chose at one place of a program: what, where, why, and the threshold that it was compared with.

Passes say what they chose in `Pass.decided`, and a backend says it of what it emits; `c.plan()` puts them in a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorir.ir import Call, Closure, Expr, Fencil
from tensorir.source import NOWHERE, Span
from tensorir.walk import postorder, values

__all__ = ["Decision", "Places", "Threshold", "calls_made", "closures_changed", "shortened"]


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
    """Where expressions of a program stand.

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
        """The name of an expression, or the output that is computed of it, and the line of its text."""
        output = self._outputs.get(id(node))
        return _with_line(node.label or ("" if output is None else f"of {output}"), node.span)


def _with_line(name: str, span: Span) -> str:
    line = f"line {span.line}" if span.source.text else ""
    return ", ".join(filter(None, (name, line)))


def calls_made(before: Fencil, after: Fencil, op: str) -> Iterator[Call]:
    """The calls of a builtin that one program has and the other has not."""
    had = {n for n in postorder(*values(before.closures)) if isinstance(n, Call) and n.op == op}
    seen: set[Call] = set()
    for n in postorder(*values(after.closures)):
        if isinstance(n, Call) and n.op == op and n not in had and n not in seen:
            seen.add(n)
            yield n


def closures_changed(before: Fencil, after: Fencil) -> Iterator[tuple[Closure, str]]:
    """The closures of a program that another one has not, each with where it stands."""
    had = set(before.closures)
    for closure in after.closures:
        if closure not in had:
            yield closure, _with_line(f"of {closure.output.name}", closure.span)


LONGEST = 60
"""Characters of an expression that a row shows."""


def shortened(node: Expr) -> str:
    """An expression on one line, cut where it is long.

    >>> from tensorir.build import call, var
    >>> from tensorir.types import tensor
    >>> x = var("x", tensor("float"))
    >>> shortened(call("plus", x, x))
    'x + x'
    """
    text = " ".join(str(node).split()).replace("( ", "(").replace(" )", ")")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
