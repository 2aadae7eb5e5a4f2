"""Sums of products as contractions.

`reduce(+, 0, k)(a × b)` over all points first is 1.6 to 120 times slower than `dot_general` (lowering notes, "Dense
loops"). A product is remembered with its factors (`lowering.products`); a sum of it over one dim, or over several in
turn, becomes one contraction. What is not used of the plain form is dropped before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from jax import lax

from lowering.context import Context
from lowering.indirect import combiner
from lowering.products import Sum
from lowering.raising.reductions import literal_of
from lowering.values import Dense, Leaf, Slots, Value, aligned, cut, elementwise, presence
from tensorir.ir import Call
from tensorir.types import Dims

__all__ = ["contraction", "product_of_two", "remember", "total_of"]

SHORTEST = 16
"""Sums of fewer products are worth a contraction only if both factors have dims of their own."""

PRECISION = lax.Precision.HIGHEST


def contraction(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    return product_of_two(context, node, args, lambda a, b, total: _dot(a, b, total))


def total_of(context: Context, node: Call, args: Sequence[Any]) -> Sum | None:
    """The sum of products that a fold is, where it is one."""
    f, init, *values = args
    if len(values) != 1 or combiner(f.function) != "plus" or len(init) != 1 or len(values[0]) != 1:
        return None
    if presence(init[0]) is not None:
        return None
    return context.products.summed(values[0][0], node.static[0])


def remember(context: Context, node: Call, args: Sequence[Any], value: Value) -> None:
    """A product, or a sum of products that starts from zero, for the sums that are made of it."""
    if node.op == "multiplies":
        context.products.multiplied(value[0], args[0][0], args[1][0], node.tensor.dims)
    elif node.op == "reduce" and literal_of(node.args[1]) == 0:
        total = total_of(context, node, args)
        if total is not None:
            context.products.remember(value[0], total, id(node))


def product_of_two(
    context: Context, node: Call, args: Sequence[Any], make: Callable[[Leaf, Leaf, Sum], Dense | None]
) -> Value | None:
    """The value of a fold as `make(a, b, total)` of the two factors that have the dims summed over, times the rest."""
    total = total_of(context, node, args)
    if total is None or any(_masked(f) for f in total.factors):
        return None
    apart = [f for f in total.factors if any(d in f.dims for d in total.over)]
    rest = [f for f in total.factors if not any(d in f.dims for d in total.over)]
    if len(apart) != 2 or any(isinstance(f, Slots) for f in rest):
        return None
    if any(all(d not in f.dims for f in apart) for d in total.over):
        return None
    result = make(apart[0], apart[1], total)
    if result is None:
        return None
    for f in rest:
        assert isinstance(f, Dense)
        names = Dims(tuple((n, total.dims[n]) for n in dict.fromkeys((*result.dims.names, *f.dims.names))))
        result = Dense(lax.mul(aligned(result, names), aligned(f, names)), names)
    context.absorbed(total.inside)
    if literal_of(node.args[1]) != 0:
        return (elementwise(lax.add, [args[1][0], result], node.tensor.dims),)
    return (cut(result, node.tensor.dims),)


def _masked(leaf: Leaf) -> bool:
    return presence(leaf) is not None


def _dot(x: Leaf, y: Leaf, total: Sum) -> Dense | None:
    if isinstance(x, Slots) or isinstance(y, Slots):
        return None
    a, b = needed(x, total, x.dims.names), needed(y, total, y.dims.names)
    over = [d for d in total.over if d in a.dims and d in b.dims]
    if set(over) != set(total.over) or a.data.dtype != b.data.dtype or a.data.dtype.kind not in "fiuV":
        return None
    batch = [d for d in a.dims if d in b.dims and d not in over]
    free = [[d for d in z.dims if d not in over and d not in batch] for z in (a, b)]
    size = prod(len(total.dims[d]) for d in over)
    if size < SHORTEST and not all(prod(len(total.dims[d]) for d in f) > 1 for f in free):
        return None
    numbers = (
        ([a.dims.names.index(d) for d in over], [b.dims.names.index(d) for d in over]),
        ([a.dims.names.index(d) for d in batch], [b.dims.names.index(d) for d in batch]),
    )
    data = lax.dot_general(a.data, b.data, numbers, precision=PRECISION, preferred_element_type=a.data.dtype)
    return Dense(data, Dims(tuple((d, total.dims[d]) for d in (*batch, *free[0], *free[1]))))


def needed(x: Dense, total: Sum, names: Sequence[str]) -> Dense:
    """A factor on the points of some dims that the sum has."""
    found = cut(x, Dims(tuple((n, total.dims[n]) for n in names)))
    assert isinstance(found, Dense)
    return found
