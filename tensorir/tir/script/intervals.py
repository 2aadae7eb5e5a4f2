"""Intervals of index expressions over loops, as expressions: what an index can be, from the ends of the loops.

>>> from tensorir.tir.dtypes import INT32
>>> v, k = (n.Var(name, n.PrimType(INT32)) for name in "vk")
>>> number = lambda value: n.IntImm(value, INT32)
>>> found = interval(n.Sub(n.Add(n.Mul(v, number(4)), number(3)), k), {k: Interval(number(0), number(3))})
>>> found.low, found.high, difference(found.high, found.low)
(v * 4, v * 4 + 3, 4)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.walk import walk

__all__ = ["Interval", "difference", "interval", "larger", "smaller", "total"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Everything from `low` to `high`, both included."""

    low: n.Expr
    high: n.Expr


Loops = Mapping[n.Var, Interval]


MOST = 400
"""Nodes of an expression that is looked into."""


def interval(expr: n.Expr, loops: Loops) -> Interval | None:
    """The values of an expression while the loops run; None where they are not known, or where it is too large."""
    if sum(1 for _ in islice(walk(expr), MOST)) == MOST:
        varies = any(
            isinstance(node, n.Call) or node in loops for node in walk(expr) if isinstance(node, n.Var | n.Call)
        )
        return None if varies or expr.dtype.lanes != 1 else Interval(expr, expr)
    return _interval(expr, loops)


def _interval(expr: n.Expr, loops: Loops) -> Interval | None:
    if not any(isinstance(node, n.Call) or node in loops for node in walk(expr) if isinstance(node, n.Var | n.Call)):
        match expr:
            case n.Ramp(base, n.IntImm(step), int(lanes)) if step > 0:
                return Interval(base, total(base, const(step * (lanes - 1), base.dtype)))
            case _:
                return Interval(expr, expr) if expr.dtype.lanes == 1 else None
    match expr:
        case n.Var():
            return loops.get(expr, Interval(expr, expr))
        case n.Add(a, b) | n.Sub(a, b) | n.Mul(a, b) | n.Min(a, b) | n.Max(a, b) | n.FloorDiv(a, b) | n.FloorMod(a, b):
            x, y = _interval(a, loops), _interval(b, loops)
            return None if x is None or y is None else _combined(expr, x, y)
        case n.Select(_, a, b):
            x, y = _interval(a, loops), _interval(b, loops)
            return None if x is None or y is None else Interval(smaller(x.low, y.low), larger(x.high, y.high))
        case n.Cast(value, dtype) if dtype.is_integer and value.dtype.is_integer:
            inner = _interval(value, loops)
            return None if inner is None else Interval(n.Cast(inner.low, dtype), n.Cast(inner.high, dtype))
        case n.Ramp(base, n.IntImm(step), int(lanes)) if step > 0:
            inner = _interval(base, loops)
            reach = const(step * (lanes - 1), base.dtype)
            return None if inner is None else Interval(inner.low, total(inner.high, reach))
        case _:
            return None


def _combined(expr: n.Expr, x: Interval, y: Interval) -> Interval | None:
    match expr:
        case n.Add():
            return Interval(total(x.low, y.low), total(x.high, y.high))
        case n.Sub():
            return Interval(_less(x.low, y.high), _less(x.high, y.low))
        case n.Min():
            return Interval(smaller(x.low, y.low), smaller(x.high, y.high))
        case n.Max():
            return Interval(larger(x.low, y.low), larger(x.high, y.high))
        case _:
            pass
    match expr, x, y:
        case n.Mul(), _, Interval(n.IntImm(value), n.IntImm(other)) if value == other:
            low, high = _times(x.low, value), _times(x.high, value)
            return Interval(low, high) if value >= 0 else Interval(high, low)
        case n.Mul(), Interval(n.IntImm(value), n.IntImm(other)), _ if value == other:
            return _combined(expr, y, x)
        case n.FloorDiv(), _, Interval(n.IntImm(value), n.IntImm(other)) if value == other > 0:
            return Interval(_quotient(x.low, value), _quotient(x.high, value))
        case n.FloorMod(), _, Interval(n.IntImm(value), n.IntImm(other)) if value == other > 0:
            first, last = _quotient(x.low, value), _quotient(x.high, value)
            if first == last:
                start = _times(first, value)
                return Interval(_less(x.low, start), _less(x.high, start))
            return Interval(const(0, expr.dtype), const(value - 1, expr.dtype))
        case _:
            return None


# --------------------------------------------------------------------------------------------------- sums of terms


def _terms(expr: n.Expr, factor: int = 1) -> dict[n.Expr | None, int]:
    """The expression as integer multiples of terms, in their order; the constant stands under None."""
    found: dict[n.Expr | None, int] = {}
    pending = [(expr, factor)]
    while pending:
        term, times = pending.pop()
        match term:
            case n.IntImm(value):
                found[None] = found.get(None, 0) + times * value
            case n.Add(a, b):
                pending += [(b, times), (a, times)]
            case n.Sub(a, b):
                pending += [(b, -times), (a, times)]
            case n.Mul(a, n.IntImm(value)) | n.Mul(n.IntImm(value), a):
                pending.append((a, times * value))
            case _:
                found[term] = found.get(term, 0) + times
    return found


def _sum(terms: Mapping[n.Expr | None, int], like: n.Expr) -> n.Expr:
    """The terms as an expression, the constant last."""
    result: n.Expr | None = None
    for term, factor in sorted(terms.items(), key=lambda item: item[1] < 0):
        if term is None or not factor:
            continue
        part = term if abs(factor) == 1 else _op("*", term, abs(factor))
        if result is None:
            result = part if factor > 0 else _op("*", term, factor)
        else:
            result = _op("+" if factor > 0 else "-", result, part)
    constant = terms.get(None, 0)
    if result is None:
        return const(constant, like.dtype)
    return result if not constant else _op("+" if constant > 0 else "-", result, abs(constant))


def _op(symbol: str, a: n.Expr, b: n.Expr | int) -> n.Expr:
    found = binary(symbol, a, b)
    assert isinstance(found, n.Expr)
    return found


def total(a: n.Expr, b: n.Expr) -> n.Expr:
    """a + b, with terms that cancel left out."""
    if isinstance(b, n.IntImm) and not b.value:
        return a
    return _merged(a, b, 1)


def _less(a: n.Expr, b: n.Expr) -> n.Expr:
    return _merged(a, b, -1)


def _merged(a: n.Expr, b: n.Expr, sign: int) -> n.Expr:
    terms = _terms(a)
    for term, factor in _terms(b, sign).items():
        terms[term] = terms.get(term, 0) + factor
    return _sum(terms, a)


def _times(a: n.Expr, value: int) -> n.Expr:
    return _sum(_terms(a, value), a)


def _quotient(a: n.Expr, value: int) -> n.Expr:
    """The floor of a quotient; multiples of the divisor leave it."""
    whole: dict[n.Expr | None, int] = {}
    rest: dict[n.Expr | None, int] = {}
    for term, factor in _terms(a).items():
        if term is None:
            whole[None], left = divmod(factor, value)
            rest[None] = left
        elif factor % value == 0:
            whole[term] = factor // value
        else:
            rest[term] = factor
    if set(rest) <= {None}:
        return _sum(whole, a)
    return _op("//", a, value)


def difference(high: n.Expr, low: n.Expr) -> n.Expr:
    """How many integers lie from `low` to `high`."""
    terms = _terms(high)
    terms[None] = terms.get(None, 0) + 1
    for term, factor in _terms(low, -1).items():
        terms[term] = terms.get(term, 0) + factor
    left = {term: factor for term, factor in terms.items() if factor and term is not None}
    if not left:
        return const(terms.get(None, 0), low.dtype)
    if any(isinstance(term, n.Min | n.Max) for term in left):
        return _op("-", _op("+", high, 1), low)
    return _sum(terms, low)


def smaller(a: n.Expr, b: n.Expr) -> n.Expr:
    """The smaller of two, where their distance is a number; else their minimum."""
    distance = _distance(a, b)
    return (a if distance >= 0 else b) if distance is not None else n.Min(a, b)


def larger(a: n.Expr, b: n.Expr) -> n.Expr:
    """The larger of two, where their distance is a number; else their maximum."""
    distance = _distance(a, b)
    return (b if distance >= 0 else a) if distance is not None else n.Max(a, b)


def _distance(a: n.Expr, b: n.Expr) -> int | None:
    """b - a, where that is a number."""
    terms = _terms(b)
    for term, factor in _terms(a, -1).items():
        terms[term] = terms.get(term, 0) + factor
    constant = terms.pop(None, 0)
    return None if any(terms.values()) else constant
