"""Products of matrices: the accumulator and a sum of products over the axis in which the factors meet."""

from __future__ import annotations

from tensorir.ir.build import call
from tensorir.ir.nodes import Expr
from tensorir.ir.types import FLOAT32, INT32, Interval, Scalar
from tensorir.lifting.emission.tensors import converted, renamed, spread
from tensorir.tile.lift.arithmetic import unsigned
from tensorir.tile.lift.context import Context
from tensorir.tile.lift.values import Number, axis, element_of, refused
from tensorir.tile.nodes import Operation

__all__ = ["PRODUCTS"]

MEETING = "k"
"""The dim that is summed over."""


def _factors(lhs: Number, rhs: Number) -> tuple[Expr, Expr, bool]:
    """The factors under the names of the result's axes, and whether there is a dim to sum over."""
    rank = len(lhs.axes)
    a = renamed(lhs.expr, {axis(rank - 1): MEETING})
    b = renamed(rhs.expr, {axis(rank - 2): MEETING})
    extent = lhs.axes[-1]
    if extent > 1 and MEETING not in a.tensor.dims and MEETING not in b.tensor.dims:
        a = spread(a, {MEETING: Interval(0, extent)})
    return a, b, extent > 1


def _product(a: Expr, b: Expr, sums: bool, element: Scalar) -> Expr:
    if sums:
        return call("contract", a, b, static=(element, (MEETING,)))
    return call("multiplies", converted(a, element), converted(b, element))


def mmaf(t: Context, op: Operation) -> None:
    lhs, rhs, acc = t.numbers([op.operand(n) for n in ("lhs", "rhs", "acc")])
    a, b, sums = _factors(lhs, rhs)
    element = acc.scalar if acc.scalar.bits == 64 else FLOAT32
    total = call("plus", converted(acc.expr, element), _product(a, b, sums, element))
    t.define(op, t.made(converted(total, acc.scalar), acc.axes, acc.element, op.span))


def mmai(t: Context, op: Operation) -> None:
    lhs, rhs, acc = t.numbers([op.operand(n) for n in ("lhs", "rhs", "acc")])
    a, b, sums = _factors(lhs, rhs)
    signs = [op.attribute(name) for name in ("signedness_lhs", "signedness_rhs")]
    parts = [x if s == "signed" else unsigned(x, n.element) for x, s, n in zip((a, b), signs, (lhs, rhs), strict=True)]
    total = call("plus", acc.expr, _product(parts[0], parts[1], sums, INT32))
    t.define(op, t.made(total, acc.axes, element_of(op.results[0].type), op.span))


def mmaf_scaled(t: Context, op: Operation) -> None:
    raise refused("products with scaled blocks have elements that tensors do not hold.", op.span)


PRODUCTS = {"mmaf": mmaf, "mmai": mmai, "mmaf_scaled": mmaf_scaled}
