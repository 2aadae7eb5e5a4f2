"""`contract` as one `dot_general`, 1.6 to 120 times as fast as the sum over all products.

Figures in `docs/lowering.md`, "Contractions and other recognised forms". The factors are those of the operands where
these are products (`lowering.array_provenance`); what is not used of the plain form is dropped before anything is
compiled. Sums of products become `contract` in `tensorir.passes.reductions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from jax import lax

from lowering.array_provenance import ArrayProvenance, Sum
from lowering.context import Context
from lowering.elementwise import convert
from lowering.values import Dense, Leaf, Slots, Value, aligned, cut, elementwise, presence
from tensorir.ir.nodes import Call
from tensorir.ir.types import Dims, bcast

__all__ = ["contraction", "dot", "needed", "product_of_two"]

SHORTEST = 16
"""Sums of fewer products are worth a contraction only if both factors have dims of their own."""

PRECISION = lax.Precision.HIGHEST


def contraction(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    return product_of_two(context, node, args, lambda a, b, total: dot(a, b, total, context.provenance))


def product_of_two(
    context: Context, node: Call, args: Sequence[Any], make: Callable[[Leaf, Leaf, Sum], Dense | None]
) -> Value | None:
    """The value of a sum as `make(a, b, total)` of the two factors that have the dims summed over, times the rest."""
    total = contracted(context, node, args)
    if any(presence(f) is not None for f in total.factors):
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
    return (cut(result, node.tensor.dims),)


def contracted(context: Context, node: Call, args: Sequence[Any]) -> Sum:
    """The sum of products that a `contract` is, with the factors of its operands where they are products."""
    element = node.static.element
    factors: list[Leaf] = []
    for (leaf,), arg in zip(args, node.args, strict=True):
        if arg.tensor.element != element:
            wide = elementwise(convert(element), [leaf], arg.tensor.dims)
            context.provenance.convert(wide, leaf)
            leaf = wide
        factors.append(leaf)
    dims = bcast([a.tensor for a in node.args])
    return Sum(tuple(f for leaf in factors for f in context.provenance.factors(leaf)), dims, node.static.dims)


NARROW = {("int8", "int32"), ("bfloat16", "float32")}
"""Types whose products XLA adds up in a wider type 1.8 to 11 times as fast as those of converted factors."""


def dot(x: Leaf, y: Leaf, total: Sum, known: ArrayProvenance) -> Dense | None:
    """Two factors contracted over the dims that are summed over, None where that is not better than the plain form."""
    over = [d for d in total.over if d in x.dims and d in y.dims]
    if set(over) != set(total.over):
        return None
    batch = [d for d in x.dims if d in y.dims and d not in over]
    free = [[d for d in z.dims if d not in over and d not in batch] for z in (x, y)]
    many = all(prod(len(total.dims[d]) for d in f) > 1 for f in free)
    if not many and prod(len(total.dims[d]) for d in over) < SHORTEST:
        return None
    if isinstance(x, Slots):
        # a window is stacked along its first axes, and taken as the right factor
        x, y = y, x
    if isinstance(x, Slots) or (isinstance(y, Slots) and (batch or not many or not _slots_of(y) <= set(over))):
        return None
    kind = _data_type(x)
    if kind != _data_type(y) or kind.kind not in "fiuV":
        return None
    narrow_x, narrow_y = known.before(x), known.before(y)
    if narrow_x is not None and narrow_y is not None:
        before = _data_type(narrow_x)
        if before == _data_type(narrow_y) and (before.name, kind.name) in NARROW:
            x, y = narrow_x, narrow_y
    a, b = _stacked(x, total, over, batch), _stacked(y, total, over, batch)
    numbers = (
        ([a.dims.names.index(d) for d in over], [b.dims.names.index(d) for d in over]),
        ([a.dims.names.index(d) for d in batch], [b.dims.names.index(d) for d in batch]),
    )
    data = lax.dot_general(a.data, b.data, numbers, precision=PRECISION, preferred_element_type=kind)
    left = [d for z in (a, b) for d in z.dims if d not in over and d not in batch]
    return Dense(data, Dims(tuple((d, total.dims[d]) for d in (*batch, *left))))


def _slots_of(x: Leaf) -> set[str]:
    """The dims whose points are kept apart."""
    return {x.dim} | _slots_of(x.leaves[0]) if isinstance(x, Slots) else set()


def _data_type(x: Leaf) -> Any:
    return _data_type(x.leaves[0]) if isinstance(x, Slots) else x.data.dtype


def _stacked(x: Leaf, total: Sum, over: Sequence[str], batch: Sequence[str]) -> Dense:
    """A factor on the points that the sum has; slots along axes in front of the others."""
    if isinstance(x, Dense):
        return needed(x, total, x.dims.names)
    inside = cut(x, Dims(((x.dim, total.dims[x.dim]),)))
    assert isinstance(inside, Slots)
    parts = [_stacked(leaf, total, over, batch) for leaf in inside.leaves]
    first = parts[0].dims.names
    rest = [n for n in first if n not in over and n not in batch]
    order = Dims(tuple((n, total.dims[n]) for n in (*(n for n in first if n not in rest), *rest)))
    data = lax.concatenate([lax.expand_dims(aligned(p, order), (0,)) for p in parts], 0)
    return Dense(data, Dims(((x.dim, total.dims[x.dim]), *order.items)))


def needed(x: Dense, total: Sum, names: Sequence[str]) -> Dense:
    """A factor on the points of some dims that the sum has."""
    found = cut(x, Dims(tuple((n, total.dims[n]) for n in names)))
    assert isinstance(found, Dense)
    return found
