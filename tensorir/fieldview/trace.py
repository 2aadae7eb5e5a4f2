"""A trace under way: what an operator that is being traced has named, assigned and asked for.

What it assigns to a variable is printed, inspected and explained under the name of that.

>>> from tensorir.ir.dimensions import dims
>>> from tensorir.ir.types import tensor
>>> from tensorir.fieldview import field_operator
>>> (I,) = dims("I")
>>> @field_operator
... def curvature(f):
...     rise = f(I + 1) - f
...     return rise - rise(I - 1)
>>> print(curvature.fencil(f=tensor("float", I=(0, 9))))
curvature(out: tensor<float, I[1:8]>, f: tensor<float, I[0:9]>) {
  out ← let rise = ⟪I, 1⟫(f) - f; rise - ⟪I, -1⟫(rise);
}
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tensorir.binding.coordinates import Coordinates
from tensorir.fieldview.taken_types import TakenType
from tensorir.integers.dims import Interval
from tensorir.ir import build
from tensorir.ir.nodes import Apply, Call, Expr, Var
from tensorir.ir.rewrite import postorder, rebuild, with_label
from tensorir.runtime.errors import Span, refuse
from tensorir.runtime.locations import here


@dataclass(frozen=True, slots=True)
class Assigned:
    """An assignment in an operator: the value, the name of the variable, and the source line."""

    value: Expr
    name: str
    place: Span


def places(assigned: Iterable[Assigned]) -> dict[tuple[str, Span], Span]:
    """By (name, span of the value) the span of the assignment, where they differ: the value is another operator's."""
    return {(a.name, a.value.span): a.place for a in assigned if a.place != a.value.span}


def named(roots: Sequence[Expr], assigned: Mapping[int, Assigned]) -> list[Expr]:
    """The expressions, with the name of its variable as label on each assigned call; `assigned` by `id(value)`."""
    if not assigned:
        return list(roots)
    done: dict[int, Expr] = {}
    for node in postorder(*roots):
        new = rebuild(node, tuple(done[id(c)] for c in node.children))
        if id(node) in assigned and not node.label and isinstance(node, (Call, Apply)):
            new = with_label(new, assigned[id(node)].name)
        done[id(node)] = new
    return [done[id(root)] for root in roots]


@dataclass(slots=True)
class Tracing:
    """The state of one trace: tables, names, assignments, and coordinates that its operators use."""

    offsets: dict[str, Any]
    tables: dict[str, Var] = field(default_factory=dict[str, Var])
    constants: dict[str, tuple[Var, Any]] = field(default_factory=dict[str, "tuple[Var, Any]"])
    """The parameters of bound programs that were called, by name, with their values."""
    names: set[str] = field(default_factory=set[str])
    assigned: dict[int, Assigned] = field(default_factory=dict[int, Assigned])
    """The assignments by `id(value)`."""
    locals: set[str] = field(default_factory=set[str])
    """The local dimensions of the tables that fields were shifted through."""
    scanned: list[str] = field(default_factory=list[str])
    """The axes of the scans whose functions are being traced."""
    named: set[str] = field(default_factory=set[str])
    """The dims that shifts, scans, boundary conditions and coordinates name."""
    missed: dict[str, Span] = field(default_factory=dict[str, Span])
    """Dims along which a field without them was shifted, each with the span of the first such shift."""
    taken: list[TakenType] = field(default_factory=list[TakenType])
    """The element types that Python numbers among the arguments took; every call checks that the numbers fit."""
    numbers: dict[Var, Expr] = field(default_factory=dict[Var, Expr])
    """For each variable of a scan's function that stands for a Python number: the expression of that number."""
    degrees: set[str] = field(default_factory=set[str])
    """The parameters that are angles in degrees, members of tuples as `x[0]`."""
    coordinates: Coordinates = field(default_factory=lambda: Coordinates({}))
    """The coordinates of the arguments."""
    arguments: dict[int, tuple[Expr, Any]] = field(default_factory=dict[int, "tuple[Expr, Any]"])
    """By `id(expression)`: the expression, kept alive with it, and the array of the arguments that it stands for."""
    looked: set[str] = field(default_factory=set[str])
    """The names of coordinates that were asked for."""
    fields: dict[tuple[str, int], Var] = field(default_factory=dict[tuple[str, int], Var])
    """The parameters that coordinates became, by (name, index among those of the name)."""
    periods: dict[str, float] = field(default_factory=dict[str, float])
    """The period of the coordinate of each periodic dim, from boundary conditions."""
    turns: dict[str, set[Interval]] = field(default_factory=dict[str, "set[Interval]"])
    """By periodic dim the intervals of the fields that were extended periodically: one period each."""
    latest: tuple[object, Expr] | None = None
    """The latest value, after the Python expression (frame position) that made it."""

    def fresh(self, name: str) -> str:
        """A variable name that this trace has not used."""
        if name not in self.names:
            self.names.add(name)
            return name
        return build.fresh(name, self.names)


CURRENT: ContextVar[Tracing | None] = ContextVar("tracing", default=None)


@contextmanager
def tracing(offsets: dict[str, Any], coordinates: Coordinates) -> Generator[Tracing]:
    """A new current trace for the `with` block; an enclosing trace is current again afterwards."""
    trace = Tracing(offsets, coordinates=coordinates)
    token = CURRENT.set(trace)
    try:
        yield trace
    finally:
        CURRENT.reset(token)


def current() -> Tracing:
    """The current trace; raises V02 outside of operators."""
    trace = CURRENT.get()
    if trace is None:
        message = "fields are computed with inside of operators."
        raise refuse("V02", message, "call this in a function under @ti.field_operator.", at=here())
    return trace
