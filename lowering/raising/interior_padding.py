"""Zeros between the elements of an array.

`if p % 2 = 0 then x[p / 2] else 0` is `lax.pad` with zeros between, and no gather; where a convolution reads it, its
input is dilated, which takes half of the time (`convolutions`): a transposed convolution is written like this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from lowering.context import Context
from lowering.raising.reductions import literal_of
from lowering.values import Dense, Value, cut, dense, select_slot
from tensorir.ir.nodes import Call, Expr, Literal
from tensorir.ir.types import Dims, Interval

__all__ = ["dilated"]

Step = tuple[str, int]
"""A dim, and what its coordinate is a multiple of, or divided by."""


def dilated(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    condition, then, otherwise = node.args
    read = context.provenance.read_of(args[1][0]) if len(args[1]) == 1 else None
    steps = _multiples(condition)
    if read is None or not steps or literal_of(otherwise) != 0 or not isinstance(then, Call) or then.op != "gather":
        return None
    need = node.tensor.dims
    x, seen = read, set[str]()
    for name, index in zip(then.static.dims, then.args[1:], strict=True):
        if name not in x.dims:
            continue  # it is the same all along this dim
        found = literal_of(index)
        if isinstance(found, int) and found in x.dims[name]:
            x = dense(select_slot(x, name, found))
            continue
        step = _quotient(index)
        if step is None or steps.get(step[0]) != step[1] or step[0] in seen or step[0] in x.dims:
            return None
        part = _part(x, name, step, need[step[0]])
        if part is None:
            return None
        x = part
        seen.add(step[0])
    if seen != set(steps) or any(n not in need for n in x.dims):
        return None
    return (_spread(context, x, steps, need),)


def _part(x: Dense, name: str, step: Step, interval: Interval) -> Dense | None:
    """The elements that stand somewhere on an interval, their axis under the name of its dim."""
    dim, by = step
    first, last = -(-interval.start // by), (interval.stop - 1) // by
    whole = Interval(interval.start // by, last + 1)
    if first > last or not x.dims[name].covers(whole):
        return None
    part = dense(cut(x, Dims(((name, Interval(first, last + 1)),))))
    return Dense(part.data, Dims(tuple((dim if n == name else n, i) for n, i in part.dims.items)))


def _spread(context: Context, x: Dense, steps: dict[str, int], need: Dims) -> Dense:
    """The elements at the multiples of the steps, and zeros between them."""
    x = dense(cut(x, Dims(tuple((n, need[n]) for n in x.dims if n not in steps))))
    by = tuple(steps.get(n, 1) for n in x.dims)
    low = tuple(i.start * s - need[n].start for (n, i), s in zip(x.dims.items, by, strict=True))
    ends = [need[n].stop - 1 - (i.stop - 1) * s for (n, i), s in zip(x.dims.items, by, strict=True)]
    sides = [(a, b, s - 1) for a, b, s in zip(low, ends, by, strict=True)]
    data = lax.pad(x.data, lax.full((), 0, x.data.dtype), sides)
    result = Dense(data, Dims(tuple((n, need[n]) for n in x.dims.names)))
    context.provenance.spread(result, x.data, low, by)
    return result


def _multiples(e: Expr) -> dict[str, int]:
    """The dims that a condition says are multiples, and of what; empty for any other condition."""
    match e:
        case Call("and", (a, b)):
            x, y = _multiples(a), _multiples(b)
            return {**x, **y} if x and y and not x.keys() & y.keys() else {}
        case Call("eq", (Call("mod", (Call("pos", _, (dim,)), Literal(by))), Literal(0))) if by > 1:
            return {dim: int(by)}
        case Call(
            "eq", (Call("plus" | "minus" as op, (Call("pos", _, (dim,)), Call("multiplies", (x, y)))), Literal(0))
        ):
            factor, quotient = (x, _quotient(y)) if isinstance(x, Literal) else (y, _quotient(x))
            sign = 1 if op == "minus" else -1
            fits = isinstance(factor, Literal) and quotient == (dim, sign * factor.value)
            return dict([quotient]) if fits and quotient is not None else {}
        case _:
            return {}


def _quotient(e: Expr) -> Step | None:
    """A coordinate divided by a number above one."""
    match e:
        case Call("floordiv", (Call("pos", _, (dim,)), Literal(by))) if by > 1:
            return dim, int(by)
        case _:
            return None
