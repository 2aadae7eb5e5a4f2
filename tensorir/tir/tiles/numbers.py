"""Expressions of integers as numbers, where the values of their variables are known.

>>> from tensorir.tir.dtypes import INT32
>>> k = n.Var("k", n.PrimType(INT32))
>>> number(n.FloorMod(n.Add(k, n.IntImm(1, INT32)), n.IntImm(2, INT32)), {k: 3})
0
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from tensorir.tir import nodes as n

__all__ = ["Undecided", "Values", "number"]

Values = Mapping[n.Var, int]

_BITS: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b, "shift_right": lambda a, b: a >> b,
}  # fmt: skip
_OPERATORS: dict[type[n.Expr], Callable[[int, int], int]] = {
    n.Add: operator.add, n.Sub: operator.sub, n.Mul: operator.mul, n.Min: min, n.Max: max, n.EQ: operator.eq,
    n.NE: operator.ne, n.LT: operator.lt, n.LE: operator.le, n.GT: operator.gt, n.GE: operator.ge,
    n.FloorDiv: lambda a, b: a // b, n.FloorMod: operator.mod,
}  # fmt: skip
_DIVISIONS = (n.FloorDiv, n.FloorMod)


class Undecided(Exception):
    """Constants do not decide a number; the variable that would, where there is one."""

    def __init__(self, var: n.Var | None = None) -> None:
        super().__init__()
        self.var = var


def number(expr: n.Expr, values: Values) -> int:
    """The number that an expression is; raises Undecided for what is read from memory, or for an unknown variable."""
    match expr:
        case n.IntImm(value):
            return value
        case n.Var():
            if expr not in values:
                raise Undecided(expr)
            return values[expr]
        case n.Cast(value, dtype) if dtype.is_integer and value.dtype.is_integer and dtype.bits >= value.dtype.bits:
            return number(value, values)
        case n.Not(value):
            return int(not number(value, values))
        case n.And(a, b):
            return int(bool(number(a, values)) and bool(number(b, values)))
        case n.Or(a, b):
            return int(bool(number(a, values)) or bool(number(b, values)))
        case n.Call(op="if_then_else", args=(n.Expr() as condition, n.Expr() as a, n.Expr() as b)):
            return number(a if number(condition, values) else b, values)
        case n.Call(op=str(op), args=(n.Expr() as a, n.Expr() as b)) if op in _BITS:
            return _BITS[op](number(a, values), number(b, values))
        case n.Add(a, b) | n.Sub(a, b) | n.Mul(a, b) | n.Min(a, b) | n.Max(a, b) | n.FloorDiv(a, b) | n.FloorMod(a, b):
            pass
        case n.EQ(a, b) | n.NE(a, b) | n.LT(a, b) | n.LE(a, b) | n.GT(a, b) | n.GE(a, b):
            pass
        case _:
            raise Undecided
    x, y = number(a, values), number(b, values)
    if a.dtype.is_float or (y == 0 and isinstance(expr, _DIVISIONS)):
        raise Undecided
    return int(_OPERATORS[type(expr)](x, y))
