"""Atomic operations: what combines is an Atomic of its builtin, an exchange a read and a write."""

from __future__ import annotations

from tensorir.build import call
from tensorir.ir import Expr, Var
from tensorir.lift.region.nodes import Atomic, Read, Write
from tensorir.source import Span
from tensorir.tile.lift.arithmetic import same_bits, signless
from tensorir.tile.lift.context import Context
from tensorir.tile.lift.memory import Place, place_of_pointers, place_of_view, settled
from tensorir.tile.lift.values import Number, Token, refused
from tensorir.tile.nodes import Operation
from tensorir.types import SCALARS, Dims, TensorType

__all__ = ["ATOMICS"]

COMBINING = {
    "add": "plus", "addf": "plus", "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "max": "max", "min": "min",
}  # fmt: skip


def atomic_rmw(t: Context, op: Operation) -> None:
    mask = op.operand("mask")
    value = t.number(op.operand("arg"))
    place = place_of_pointers(t, op, t.pointers(op.operand("pointers")), None if mask is None else t.number(mask))
    place, x = settled(t, place, value, op.span, last=False)
    old = _changed(t, op, place, x, value)
    t.define(op, t.made(old, value.axes, value.element, op.span), Token())


def atomic_red_view(t: Context, op: Operation) -> None:
    value = t.number(op.operand("value"))
    place, x = settled(t, place_of_view(t, op), value, op.span, last=False)
    _changed(t, op, place, x, value)
    t.define(op, Token())


def _changed(t: Context, op: Operation, place: Place, x: Expr, value: Number) -> Expr:
    """Memory changed by a value; what was there before."""
    mode = op.attribute("mode")
    old = Var(t.fresh("t"), x.tensor)
    buffer, span = place.memory.buffer, op.span
    if mode in COMBINING:
        t.nodes.append(Atomic(old, buffer, place.at, COMBINING[mode], x, place.where, span))
        return old
    _distinct(place, span)
    t.nodes.append(Read(old, buffer, place.at, place.where, None, span))
    if mode == "xchg":
        new = x
    else:
        kind = "max" if mode == "umax" else "min"
        parts = (same_bits(v, SCALARS[f"uint{value.element.bits}"]) for v in (old, x))
        new = signless(call(kind, *parts), value.element)
    t.nodes.append(Write(buffer, place.at, new, place.where, span))
    return old


def _distinct(place: Place, span: Span) -> None:
    if place.dims:
        message = "lanes that exchange with memory may meet, and only one of them at a time is lifted."
        raise refused(message, span, "use a tile of one element.")


def atomic_cas(t: Context, op: Operation) -> None:
    mask = op.operand("mask")
    expected, value = t.number(op.operand("cmp")), t.number(op.operand("val"))
    place = place_of_pointers(t, op, t.pointers(op.operand("pointers")), None if mask is None else t.number(mask))
    place, x = settled(t, place, value, op.span, last=False)
    _distinct(place, op.span)
    bits = SCALARS[f"uint{value.scalar.bits}"]
    old = Var(t.fresh("t"), TensorType(value.scalar, Dims()))
    t.nodes.append(Read(old, place.memory.buffer, place.at, place.where, expected.expr, op.span))
    same = call("eq", same_bits(old, bits), same_bits(expected.expr, bits))
    new = t.named(call("if", same, x, old), op.span)
    t.nodes.append(Write(place.memory.buffer, place.at, new, place.where, op.span))
    t.define(op, t.made(old, value.axes, value.element, op.span), Token())


ATOMICS = {"atomic_rmw_tko": atomic_rmw, "atomic_red_view_tko": atomic_red_view, "atomic_cas_tko": atomic_cas}
