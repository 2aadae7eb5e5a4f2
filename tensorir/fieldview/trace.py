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
    """A value that went to a variable: the name of that, and the expression of Python whose value it is."""

    value: Expr
    name: str
    place: Span


def places(assigned: Iterable[Assigned]) -> dict[tuple[str, Span], Span]:
    """By name and by where the value was computed, where it was assigned: elsewhere, if another operator made it."""
    return {(a.name, a.value.span): a.place for a in assigned if a.place != a.value.span}


def named(roots: Sequence[Expr], assigned: Mapping[int, Assigned]) -> list[Expr]:
    """The expressions with names as labels; `assigned` has by identity what went to a variable."""
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
    """One trace: the tables that operators ask for by name."""

    offsets: dict[str, Any]
    tables: dict[str, Var] = field(default_factory=dict[str, Var])
    constants: dict[str, tuple[Var, Any]] = field(default_factory=dict[str, "tuple[Var, Any]"])
    """The parameters of bound programs that were called, by name, with their values."""
    names: set[str] = field(default_factory=set[str])
    assigned: dict[int, Assigned] = field(default_factory=dict[int, Assigned])
    """Values that went to variables, by identity."""
    locals: set[str] = field(default_factory=set[str])
    """The local dimensions of the tables that fields were shifted through."""
    scanned: list[str] = field(default_factory=list[str])
    """The axes of the scans whose functions are being traced."""
    named: set[str] = field(default_factory=set[str])
    """The dims that shifts, scans, boundary conditions and coordinates name."""
    missed: dict[str, Span] = field(default_factory=dict[str, Span])
    """Dims along which a field was shifted that lacks them, each with where the first such shift is."""
    taken: list[TakenType] = field(default_factory=list[TakenType])
    """Which types numbers of Python took."""
    numbers: dict[Var, Expr] = field(default_factory=dict[Var, Expr])
    """What variables of the functions of scans stand for, where that is a number of Python."""
    degrees: set[str] = field(default_factory=set[str])
    """The parameters that are angles in degrees, members of tuples as `x[0]`."""
    coordinates: Coordinates = field(default_factory=lambda: Coordinates({}))
    """Those of the arguments."""
    arguments: dict[int, tuple[Expr, Any]] = field(default_factory=dict[int, "tuple[Expr, Any]"])
    """The arrays that expressions stand for, by the identity of these."""
    looked: set[str] = field(default_factory=set[str])
    """The names of coordinates that were asked for."""
    fields: dict[tuple[str, int], Var] = field(default_factory=dict[tuple[str, int], Var])
    """The parameters that coordinates became, by their name and which of this name they are."""
    periods: dict[str, float] = field(default_factory=dict[str, float])
    """By how much the coordinates of periodic dims go on, as boundary conditions say."""
    turns: dict[str, set[Interval]] = field(default_factory=dict[str, "set[Interval]"])
    """The intervals of periodic dims that go round once, where fields are extended by a period."""
    latest: tuple[object, Expr] | None = None
    """The expression of Python that made the latest value, and the value."""

    def fresh(self, name: str) -> str:
        """A variable name that this trace has not used."""
        if name not in self.names:
            self.names.add(name)
            return name
        return build.fresh(name, self.names)


CURRENT: ContextVar[Tracing | None] = ContextVar("tracing", default=None)


@contextmanager
def tracing(offsets: dict[str, Any], coordinates: Coordinates) -> Generator[Tracing]:
    """A trace under way, within the one around it if there is one."""
    trace = Tracing(offsets, coordinates=coordinates)
    token = CURRENT.set(trace)
    try:
        yield trace
    finally:
        CURRENT.reset(token)


def current() -> Tracing:
    trace = CURRENT.get()
    if trace is None:
        message = "fields are computed with inside of operators."
        raise refuse("V02", message, "call this in a function under @ti.field_operator.", at=here())
    return trace
