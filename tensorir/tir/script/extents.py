"""The extent between two index expressions: `b:b + 16` holds 16 elements, whatever b is.

>>> from tensorir.tir.dtypes import INT32
>>> from tensorir.tir.nodes import Add, IntImm, Mul, PrimType, Var
>>> v, c = Var("v", PrimType(INT32)), lambda k: IntImm(k, INT32)
>>> extent(Mul(v, c(16)), Add(Mul(v, c(16)), c(16))), extent(Add(v, c(1)), Add(c(5), v)), extent(c(0), v)
(16, 4, v)
"""

from __future__ import annotations

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.script.arithmetic import binary

__all__ = ["extent", "linear"]


def extent(start: n.Expr, stop: n.Expr, span: Span = NOWHERE) -> n.Expr:
    """stop - start, as simple as terms that cancel make it."""
    match start, stop:
        case n.IntImm(a), n.IntImm(b):
            return n.IntImm(b - a, _wider(start.dtype, stop.dtype), span)
        case n.IntImm(0), _:
            return stop
        case _, n.Add(a, rest) if a == start:
            return rest
        case _:
            pass
    difference = linear(stop)
    for atom, factor in linear(start).items():
        difference[atom] = difference.get(atom, 0) - factor
    left = {atom: factor for atom, factor in difference.items() if factor}
    dtype = _wider(start.dtype, stop.dtype)
    if not left or set(left) == {None}:
        return n.IntImm(left.get(None, 0), dtype, span)
    if len(left) == 1 and (term := next(iter(left.items())))[1] == 1 and term[0] is not None:
        return term[0]
    result = binary("-", stop, start, span)
    assert isinstance(result, n.Expr)
    return result


def linear(expr: n.Expr) -> dict[n.Expr | None, int]:
    """The expression as a sum of integer multiples; the constant stands under None. Equal terms are one."""
    total: dict[n.Expr | None, int] = {}
    pending = [(expr, 1)]
    while pending:
        term, factor = pending.pop()
        match term:
            case n.IntImm(value):
                total[None] = total.get(None, 0) + factor * value
            case n.Add(a, b):
                pending += [(a, factor), (b, factor)]
            case n.Sub(a, b):
                pending += [(a, factor), (b, -factor)]
            case n.Mul(a, n.IntImm(value)) | n.Mul(n.IntImm(value), a):
                pending.append((a, factor * value))
            case _:
                total[term] = total.get(term, 0) + factor
    return total


def _wider(a: DataType, b: DataType) -> DataType:
    return a if a.bits >= b.bits else b
