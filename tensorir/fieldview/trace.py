"""A trace under way: what has been named, where the user's Python is, numbers that take a field's type.

Names from the user's Python: what an operator assigns to a variable is printed, inspected and explained under it.

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

Numbers of Python that take the element type of a field: whether the type holds them is seen at every call.

While an operator is traced a number that is passed to it stands for itself alone, and what it meets says its type. Here
is what was computed of such numbers, with the type that it took; a call computes it of its own numbers, in Python's
arithmetic, and refuses what would wrap or become infinite.

>>> from tensorir.ir.build import call, var
>>> from tensorir.ir.types import INT32, SCALARS, TensorType
>>> k = var("k", TensorType(INT32))
>>> refuse_beyond([TakenType(call("plus", k, k), SCALARS["int8"])], {"k": 60})
>>> refuse_beyond([TakenType(call("plus", k, k), SCALARS["int8"])], {"k": 70})
Traceback (most recent call last):
tensorir.runtime.errors.DiagnosticError: error[A07]: 'k + k' is int8, which cannot hold 140.
help: a number takes the type of the field that it meets: convert the field, ti.astype(x, ti.int64), or the number.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.binding.coordinates import Coordinates
from tensorir.binding.quantities import taken_in_degrees
from tensorir.integers.dims import Interval
from tensorir.ir import build
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Literal, Var
from tensorir.ir.rewrite import postorder, rebuild, with_label
from tensorir.ir.staggering import partners
from tensorir.ir.types import FLOAT64, INT64, Scalar
from tensorir.reference.scalars import SCALAR
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span, refuse
from tensorir.runtime.locations import here, warn


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


@dataclass(frozen=True, slots=True)
class TakenType:
    """A value computed of numbers of Python alone, and the element type that holds it."""

    expr: Expr
    element: Scalar
    span: Span = NOWHERE


def may_exceed(have: Scalar, element: Scalar) -> bool:
    """True if some number of one type is none of another."""
    if element.is_integer and have.is_integer:
        return not (element.range.start <= have.range.start and have.range.stop <= element.range.stop)
    return element.is_integer or (element.is_float and element != FLOAT64)


def refuse_beyond(taken: Iterable[TakenType], numbers: Mapping[str, Any]) -> None:
    """Raise A07 for the first of `taken` that its type cannot hold where the parameters are these numbers, by name."""
    for one in taken:
        value = _value(one.expr, numbers, {})
        if value is not None and not one.element.holds(value):
            wide = "float64" if one.element.is_float else "int64"
            raise refuse("A07", f"'{one.expr}' is {one.element}, which cannot hold {value}.",
                "a number takes the type of the field that it meets: convert the field, "
                    f"ti.astype(x, ti.{wide}), or the number.",
                at=one.span)  # fmt: skip


def _value(e: Expr, numbers: Mapping[str, Any], known: dict[int, Any]) -> Any:
    """The number that an expression of numbers is; None where it is more than elementwise arithmetic."""
    if id(e) not in known:
        known[id(e)] = _computed(e, numbers, known)
    return known[id(e)]


def _computed(e: Expr, numbers: Mapping[str, Any], known: dict[int, Any]) -> Any:
    match e:
        case Literal():
            return e.value
        case Var():
            return numbers.get(e.name)
        case Call():
            args = [_value(a, numbers, known) for a in e.args]
            kind, made = e.args[0].tensor.element, e.tensor.element
            match e.op:
                case _ if any(a is None for a in args):
                    return None
                case "make_tuple":
                    return tuple(args)
                case "tuple_get":
                    return args[0][e.static.member]
                case "cast" if isinstance(made, Scalar) and made.is_number:
                    return float(args[0]) if made.is_float else int(args[0])
                case op if TABLE[op].relocates and len(args) == 1:
                    return args[0]
                case "if":
                    return args[1] if args[0] else args[2]
                case op if op in SCALAR and op not in ("popcount", "clz") and isinstance(kind, Scalar):
                    # whole numbers in more bits than they have there, where it shows what would wrap
                    with np.errstate(all="ignore"):
                        return SCALAR[op](INT64 if kind.is_integer else kind, *args).item()
                case _:
                    return None
        case _:
            return None


# A trace under way: what an operator that is being traced has named, assigned and asked for.


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
    found = CURRENT.get()
    if found is None:
        message = "fields are computed with inside of operators."
        raise refuse("V02", message, "call this in a function under @ti.field_operator.", at=here())
    return found


def refuse_degrees(closures: Sequence[Closure], params: set[str]) -> None:
    """Raise V36 for angles that DataArrays say are in degrees, at the lines where functions of angles take them."""
    found = taken_in_degrees(closures, params) if params else []
    hint = 'write ti.radians(x), or say what it is: x.assign_attrs(units="radians").'
    if found:
        message = "takes radians, and this is in degrees, as the units of an argument say."
        raise DiagnosticError([Diagnostic("V36", f"{call.op} {message}", call.span, help=hint) for call, _ in found])


def check_dims(name: str, params: Sequence[Var], trace: Tracing) -> None:
    """Raise V40 where an operator shifts along dims that no argument has, and the arguments have others alone.

    A field does not vary along a dim that it lacks, and a shift along it is the field: of arrays on latitude and
    longitude an operator on I and J would give differences of 0. Where the arguments have some of its dims this is a
    warning: a field may be constant along the others.
    """
    have = dict.fromkeys(d for p in params for d in p.type.dims.names)
    missing = [d for d in trace.missed if d not in have and not partners(d, have)]
    others = [d for d in have if d not in trace.named and not partners(d, trace.named)]
    if not missing or not others:
        return
    message = f"'{name}' shifts along {' and '.join(missing)}, which no argument has: they are on {' and '.join(have)}."
    if len(others) == len(have):
        pairs = ", ".join(f"{a}='{b}'" for a, b in _renamed(others, missing))
        raise refuse("V40", message, f"call them so: x.rename({pairs}).", at=trace.missed[missing[0]])
    warn(f"{message} Nothing varies along {' and '.join(missing)}, then.", trace.missed[missing[0]])


def _renamed(have: Sequence[str], wanted: Sequence[str]) -> list[tuple[str, str]]:
    """Dims of arrays that may be those of an operator: of like names, and otherwise the last ones, in order.

    >>> _renamed(["time", "latitude", "longitude"], ["lon", "lat"]), _renamed(["time", "y", "x"], ["I", "J"])
    ([('longitude', 'lon'), ('latitude', 'lat')], [('y', 'I'), ('x', 'J')])
    """
    alike = {
        b: next((a for a in have if a.lower().startswith(b.lower()) or b.lower().startswith(a.lower())), None)
        for b in wanted
    }
    left = [a for a in have if a not in alike.values()]
    rest = [b for b in wanted if alike[b] is None]
    others = dict(zip(rest, left[-len(rest) :] if rest else [], strict=False))
    return [(a, b) for b in wanted if (a := alike[b] or others.get(b)) is not None]
