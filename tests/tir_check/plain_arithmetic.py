"""Operators and casts of TIR on Python's own numbers, one at a time; vectors are tuples."""

from __future__ import annotations

from typing import Any

from by_rules import need

from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType


def each(function: Any, *values: Any) -> Any:
    """The function of scalars, or lane by lane."""
    if not any(isinstance(v, tuple) for v in values):
        return function(*values)
    lanes = max(len(v) for v in values if isinstance(v, tuple))
    wide = [v if isinstance(v, tuple) else (v,) * lanes for v in values]
    return tuple(function(*row) for row in zip(*wide, strict=True))


def convert(x: Any, dtype: DataType) -> Any:
    if dtype.is_float:
        return float(x)
    if dtype.bits == 1:
        return bool(x)
    low, high = dtype.range
    if isinstance(x, float):
        x = int(x) if low <= x <= high else 0
    return (int(x) - low) % (high - low + 1) + low


def arithmetic(e: n.BinaryOp, x: Any, y: Any) -> Any:
    integers = e.a.dtype.is_integer
    if isinstance(e, n.Div | n.Mod | n.FloorDiv | n.FloorMod):
        need(not (integers and y == 0), "division")
        if y == 0:
            return float("nan")
    match e:
        case n.Add():
            return x + y
        case n.Sub():
            return x - y
        case n.Mul():
            return x * y
        case n.Div():
            return int(x / y) if integers else x / y
        case n.Mod():
            return x - int(x / y) * y
        case n.FloorDiv():
            return x // y
        case n.FloorMod():
            return x % y
        case n.Min():
            return min(x, y)
        case _:
            return max(x, y)


COMPARE: dict[type[n.Expr], Any] = {
    n.EQ: lambda x, y: x == y,
    n.NE: lambda x, y: x != y,
    n.LT: lambda x, y: x < y,
    n.LE: lambda x, y: x <= y,
    n.GT: lambda x, y: x > y,
    n.GE: lambda x, y: x >= y,
}
