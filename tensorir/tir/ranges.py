"""Integer expressions: their intervals, from the bounds of loops; as sums of multiples; their values on a grid.

>>> from tensorir.tir.dtypes import INT32
>>> i = n.Var("i", n.PrimType(INT32))
>>> interval(n.Add(i, n.IntImm(3, INT32)), {i: (0, 7)})
(3, 10)
>>> linear((n.Add(i, n.IntImm(3, INT32)), 2), (i, -1))
{i: 1, None: 6}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorir.integers.intervals import combined
from tensorir.tir import nodes as n
from tensorir.tir.trees import walk

Bounds = tuple[int, int]

_DEEPEST = 40
_OPERATIONS: Mapping[type[n.Expr], str] = {
    n.Add: "plus", n.Sub: "minus", n.Mul: "multiplies", n.FloorDiv: "floordiv", n.FloorMod: "mod", n.Min: "min",
    n.Max: "max",
}  # fmt: skip


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
        case n.BinaryOp(a=a, b=b) if type(expr) in _OPERATIONS:
            return combined(_OPERATIONS[type(expr)], interval(a, known, depth + 1), interval(b, known, depth + 1))
        case _:
            return None


def bounds_in(body: n.Stmt) -> dict[n.Var, Bounds]:
    """The smallest and the largest value of the loop variables and lets of a statement, where that is known."""
    known: dict[n.Var, Bounds] = {}
    for node in walk(body):
        match node:
            case n.For(var, low, extent):
                first, count = interval(low, known), interval(extent, known)
                if first is not None and count is not None and count[1] > 0:
                    known[var] = first[0], first[1] + count[1] - 1
            case n.LetStmt(var, value) if (reach := interval(value, known)) is not None:
                known[var] = reach
            case _:
                pass
    return known


def linear(*parts: tuple[n.Expr, int]) -> dict[n.Expr | None, int]:
    """The sum of multiples of expressions as multiples of terms, in their order; the constant stands under None."""
    total: dict[n.Expr | None, int] = {}
    pending = list(reversed(parts))
    while pending:
        term, factor = pending.pop()
        match term:
            case n.IntImm(value):
                total[None] = total.get(None, 0) + factor * value
            case n.Add(a, b):
                pending += [(b, factor), (a, factor)]
            case n.Sub(a, b):
                pending += [(b, -factor), (a, factor)]
            case n.Mul(a, n.IntImm(value)) | n.Mul(n.IntImm(value), a):
                pending.append((a, factor * value))
            case _:
                total[term] = total.get(term, 0) + factor
    return {term: factor for term, factor in total.items() if factor}


_NUMBERS: Mapping[type[n.Expr], Any] = {
    n.Add: np.add, n.Sub: np.subtract, n.Mul: np.multiply, n.FloorDiv: np.floor_divide, n.FloorMod: np.remainder,
    n.Min: np.minimum, n.Max: np.maximum, n.LT: np.less, n.LE: np.less_equal, n.GT: np.greater,
    n.GE: np.greater_equal, n.EQ: np.equal, n.NE: np.not_equal, n.And: np.logical_and, n.Or: np.logical_or,
}  # fmt: skip


def values(expr: n.Expr, env: Mapping[n.Var, Any]) -> Any:
    """An integer expression, or a condition on such, where variables have the values of arrays; None for any other."""
    match expr:
        case n.IntImm(value):
            return np.asarray(value, np.int64)
        case n.Var():
            return env.get(expr)
        case n.Cast(value, dtype) if dtype.is_integer and value.dtype.is_integer:
            made = values(value, env)
            return None if made is None else np.asarray(made).astype(dtype.numpy).astype(np.int64)
        case n.Not(value):
            return None if (made := values(value, env)) is None else np.logical_not(made)
        case n.FloorDiv(_, b) | n.FloorMod(_, b) if not (values(b, env) is not None and np.all(values(b, env) > 0)):
            return None
        case n.BinaryOp() | n.CmpOp() | n.And() | n.Or() if type(expr) in _NUMBERS:
            x, y = values(expr.a, env), values(expr.b, env)
            return None if x is None or y is None else _NUMBERS[type(expr)](x, y)
        case _:
            return None
