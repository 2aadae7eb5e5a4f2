"""Intervals of integer expressions: what an index can be at most, from the bounds of the loops around it.

>>> from tensorir.tir.dtypes import INT32
>>> i = n.Var("i", n.PrimType(INT32))
>>> interval(n.Add(i, n.IntImm(3, INT32)), {i: (0, 7)})
(3, 10)
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.tir import nodes as n

__all__ = ["Bounds", "interval"]

Bounds = tuple[int, int]

_DEEPEST = 40


def interval(expr: n.Expr, known: Mapping[n.Var, Bounds], depth: int = 0) -> Bounds | None:
    """Smallest and largest value; None where that is not known. Deep expressions are not looked into."""
    if depth > _DEEPEST:
        return None
    match expr:
        case n.IntImm(value):
            return value, value
        case n.Var():
            return known.get(expr)
        case n.Cast(value, dtype) if dtype.is_integer and value.dtype.is_integer and dtype.bits >= value.dtype.bits:
            return interval(value, known, depth + 1)
        case n.Add(a, b) | n.Sub(a, b) | n.Mul(a, b) | n.FloorDiv(a, b) | n.FloorMod(a, b) | n.Min(a, b) | n.Max(a, b):
            x, y = interval(a, known, depth + 1), interval(b, known, depth + 1)
            return _mod(x, y) if isinstance(expr, n.FloorMod) else None if x is None or y is None else _both(expr, x, y)
        case _:
            return None


def _mod(x: Bounds | None, y: Bounds | None) -> Bounds | None:
    if y is None or y[0] != y[1] or y[0] <= 0:
        return None
    if x is not None and x[0] // y[0] == x[1] // y[0]:
        return x[0] % y[0], x[1] % y[0]
    return 0, y[0] - 1


def _both(expr: n.Expr, x: Bounds, y: Bounds) -> Bounds | None:
    match expr:
        case n.Add():
            return x[0] + y[0], x[1] + y[1]
        case n.Sub():
            return x[0] - y[1], x[1] - y[0]
        case n.Mul():
            corners = [a * b for a in x for b in y]
            return min(corners), max(corners)
        case n.FloorDiv() if y[0] == y[1] > 0:
            return x[0] // y[0], x[1] // y[0]
        case n.Min():
            return min(x[0], y[0]), min(x[1], y[1])
        case n.Max():
            return max(x[0], y[0]), max(x[1], y[1])
        case _:
            return None
