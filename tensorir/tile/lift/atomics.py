"""Atomic operations: what combines is an Atomic of its builtin, an exchange is a look at memory and a write.

Lanes of a tile take turns where they may meet and it matters who was first: a loop over the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.ir.build import call, literal, var
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, SCALARS, Interval, Scalar, TensorType
from tensorir.lifting.emission.tensors import position, spread, sum_of
from tensorir.lifting.region.nodes import Atomic, Bound, Carried, Condition, For, Index, Rule, Write
from tensorir.runtime.errors import Span
from tensorir.tile.lift.arithmetic import same_bits, signless
from tensorir.tile.lift.context import Context, Translate
from tensorir.tile.lift.memory import Place, place_of_pointers, place_of_view, settled
from tensorir.tile.lift.values import Number, Token
from tensorir.tile.nodes import Operation

__all__ = ["ATOMICS"]

COMBINING = {
    "add": "plus", "addf": "plus", "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "max": "max", "min": "min",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to the elements of a place: from their old values, or by a builtin that combines."""

    values: tuple[Expr, ...]
    new: Callable[[Expr, tuple[Expr, ...]], Expr]
    op: str | None = None


def atomic_rmw(t: Context, op: Operation) -> None:
    mask = op.operand("mask")
    value = t.number(op.operand("arg"))
    place = place_of_pointers(t, op, t.pointers(op.operand("pointers")), None if mask is None else t.number(mask))
    old = _changed(t, op, place, value, op.results[0] in t.used)
    t.define(op, value if old is None else t.made(old, value.axes, value.element, op.span), Token())


def atomic_red_view(t: Context, op: Operation) -> None:
    _changed(t, op, place_of_view(t, op), t.number(op.operand("value")), False)
    t.define(op, Token())


def _changed(t: Context, op: Operation, place: Place, value: Number, used: bool) -> Expr | None:
    """Memory changed by a value; what was there before, where it is asked for."""
    mode, span = op.attribute("mode"), op.span
    place, x = settled(t, place, value, span, last=False)
    if mode in COMBINING:
        combining = Step((x,), lambda old, given: call(COMBINING[mode], old, given[0]), COMBINING[mode])
        if not used:
            t.nodes.append(Atomic(None, place.memory.buffer, place.at, COMBINING[mode], x, place.where, span))
            return None
        return _in_turns(t, place, combining, span)
    if mode == "xchg":
        if not used:
            t.nodes.append(Write(place.memory.buffer, place.at, x, place.where, span))
            return None
        return _in_turns(t, place, Step((x,), lambda old, given: given[0]), span)
    kind, bits = "max" if mode == "umax" else "min", SCALARS[f"uint{value.element.bits}"]

    def extreme(old: Expr, given: tuple[Expr, ...]) -> Expr:
        return signless(call(kind, same_bits(old, bits), same_bits(given[0], bits)), value.element)

    return _in_turns(t, place, Step((x,), extreme), span)


def atomic_cas(t: Context, op: Operation) -> None:
    mask, span = op.operand("mask"), op.span
    expected, value = t.number(op.operand("cmp")), t.number(op.operand("val"))
    place = place_of_pointers(t, op, t.pointers(op.operand("pointers")), None if mask is None else t.number(mask))
    place, x = settled(t, place, value, span, last=False)
    wanted = spread(expected.expr, place.dims)
    bits = SCALARS[f"uint{value.scalar.bits}"]

    def exchanged(old: Expr, given: tuple[Expr, ...]) -> Expr:
        return call("if", call("eq", same_bits(old, bits), same_bits(given[1], bits)), given[0], old)

    old = _in_turns(t, place, Step((x, wanted), exchanged), span)
    if mask is not None:
        # a lane that is held back sees what it expects
        old = call("if", t.number(mask).expr, old, expected.expr)
    t.define(op, t.made(old, value.axes, value.element, span), Token())


def _in_turns(t: Context, place: Place, step: Step, span: Span) -> Expr:
    """Lane by lane where lanes may meet, else all at once; the old values."""
    if not place.dims or _apart(t, place):
        return _at(t, place, step, span)
    lane = t.fresh("lane")
    count = 1
    for i in place.dims.values():
        count *= len(i)
    t.ranges[lane] = (0, count - 1)
    coordinates: dict[str, Affine] = {}
    inner = 1
    for name, i in reversed(list(place.dims.items())):
        coordinates[name] = remainder(quotient(variable(lane), inner, t.ranges), len(i), t.ranges)
        inner *= len(i)
    inside = Var(t.fresh("c"), TensorType(place.memory.scalar, step.values[0].tensor.dims))
    result = Var(t.fresh("r"), inside.type)
    with t.body() as nodes:
        places = {n: sum_of(a, {lane: var(lane, TensorType(INT32))}) for n, a in coordinates.items()}

        def picked(e: Expr) -> Expr:
            """The value of one lane."""
            names = tuple(n for n in e.tensor.dims.names if n in places)
            return call("gather", e, *(places[n] for n in names), static=(names, "clamp")) if names else e

        def index(i: Index) -> Index:
            return i.replaced(coordinates, t.ranges) if isinstance(i, Affine) else t.variable(picked(i), span)

        def condition(c: Condition) -> Condition:
            return Bound(c.affine.replaced(coordinates, t.ranges), c.equal) if isinstance(c, Bound) else index_of(c)

        def index_of(c: Var) -> Var:
            return t.variable(picked(c), span)

        one = Place(place.memory, tuple(map(index, place.at)), tuple(map(condition, place.where)), {})
        old = _at(t, one, Step(tuple(map(picked, step.values)), step.new, step.op), span)
        here: Expr | None = None
        for n, i in place.dims.items():
            same = call("eq", position(n, i), places[n])
            here = same if here is None else call("and", here, same)
        assert here is not None
        following = t.variable(call("if", here, old, inside), span)
    zeros = spread(_nothing(place.memory.scalar), dict(inside.type.dims.items))
    carried = (Carried(inside, zeros, following, result),)
    t.nodes.append(For(lane, number(0), number(count), tuple(nodes), Rule.IN_ORDER, carried, "lanes", span))
    return result


def _nothing(scalar: Scalar) -> Expr:
    return literal(False if scalar == BOOL else 0, scalar)


def _at(t: Context, place: Place, step: Step, span: Span) -> Expr:
    """All elements of a place in one step; their old values."""
    buffer, scalar = place.memory.buffer, place.memory.scalar
    old = Var(t.fresh("t"), step.values[0].tensor)
    if step.op is not None:
        t.nodes.append(Atomic(old, buffer, place.at, step.op, step.values[0], place.where, span))
        return old
    # a look at memory in one step: combined with what changes nothing
    nothing = literal(float("inf"), scalar) if scalar.is_float else _nothing(scalar)
    op = "min" if scalar.is_float else "or" if scalar == BOOL else "bit_or"
    t.nodes.append(Atomic(old, buffer, place.at, op, spread(nothing, place.dims), place.where, span))
    new = t.named(step.new(old, step.values), span)
    t.nodes.append(Write(buffer, place.at, spread(new, place.dims), place.where, span))
    return old


def _apart(t: Context, place: Place) -> bool:
    """Whether lanes are known to have elements of their own: the place is a number with the lanes for digits."""
    found: dict[str, Interval] = {}
    for i in place.at:
        if not isinstance(i, Affine) or not i.is_linear:
            return False
        inner = 1
        terms = [(n, c) for n, c in i.terms if isinstance(n, str) and n in place.dims]
        for n, c in sorted(terms, key=lambda p: abs(p[1])):
            if abs(c) < inner or n in found:
                return False
            found[n] = place.dims[n]
            inner = abs(c) * len(place.dims[n])
    return found.keys() == place.dims.keys()


ATOMICS: dict[str, Translate] = {
    "atomic_rmw_tko": atomic_rmw, "atomic_red_view_tko": atomic_red_view, "atomic_cas_tko": atomic_cas,
}  # fmt: skip
