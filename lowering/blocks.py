"""Lowering of blocked: a function of one block of points after the other, so that what it stores stays in the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax import lax

from lowering.context import Context
from lowering.scan_carry import levels_of
from lowering.tracing import op_by_op
from lowering.values import Dense, Value, aligned, cut, dense
from tensorir.analysis.annotations import Annotations
from tensorir.analysis.uses import on_block
from tensorir.ir.nodes import Call, Expr, Lambda
from tensorir.ir.rewrite import Bound
from tensorir.ir.types import Dims, Interval

__all__ = ["blocked"]

BLOCK = "_block"
"""The axis that counts blocks; no dim of a program starts with an underscore."""


def blocked(context: Context, node: Call, args: Sequence[Any]) -> Value:
    """A result of the function, its blocks joined; the last block is smaller where the size does not divide the points.

    All results are computed at once, and each is asked for by a node of its own.

    The dims become one axis, the outermost of the operands, and blocks are a `lax.map` over it, whose transposition is
    one again. Where points along the dims are not independent, the function is applied as it stands.
    """
    index, size, names = node.static
    key = size, *map(id, args)
    if key not in context.loops:
        dims = Dims(tuple((n, node.tensor.dims[n]) for n in names))
        context.loops[key] = args, _results(context, dims, size, args)
    return context.loops[key][1][index]


def _results(context: Context, dims: Dims, size: int, args: Sequence[Any]) -> list[Value]:
    f, *values = args
    names = dims.names
    found = None if op_by_op() or not isinstance(f.function, Lambda) else on_block(f.function, names, size)
    if found is None or dims.size <= size:
        return context.apply_each(f, *values)
    count, rest = divmod(dims.size, size)
    operands = [tuple(_in_one(dense(leaf), dims) for leaf in value) for value in values]
    parts = [_mapped(context, f, names, [_cut(v, names[0], 0, count * size) for v in operands], count, size)]
    if rest:
        last = [_cut(v, names[0], count * size, dims.size) for v in operands]
        parts.append(_mapped(context, f, names, last, 1, rest))
    return [tuple(_joined(leaves, dims) for leaves in zip(*pieces, strict=True)) for pieces in zip(*parts, strict=True)]


def _in_one(leaf: Dense, dims: Dims) -> Dense:
    """The leaf with some dims, if it has any of them, as its first axis, under the name of the first."""
    if not any(n in leaf.dims for n in dims):
        return leaf
    rest = leaf.dims.without(*dims.names).items
    data = aligned(Dense(leaf.data, leaf.dims), Dims((*dims.items, *rest)))
    merged = Dims(((dims.names[0], Interval(0, dims.size)), *rest))
    return Dense(lax.reshape(data, merged.shape), merged, None if leaf.present is None else _in_one(leaf.present, dims))


def _cut(value: Value, dim: str, start: int, stop: int) -> Value:
    return tuple(cut(leaf, Dims(((dim, Interval(start, stop)),))) for leaf in value)


def _mapped(
    context: Context, f: Bound[Value], names: Sequence[str], operands: Sequence[Value], count: int, size: int
) -> list[list[Dense]]:
    """The leaves of the function's results on blocks, each with the points of the dims as its first axis."""
    assert isinstance(f.function, Lambda)
    found = on_block(f.function, names, size)
    assert found is not None
    small, new = found
    inner = context.inner()
    inner.known = _known(context.known, new)
    around = {v: f.env[v] for v in small.free}
    dim = names[0]
    split = [tuple(_split(leaf, dim, count, size) for leaf in value) for value in operands]
    levels = levels_of(split, BLOCK, Interval(0, count))
    longest = max((leaf.dims for value in operands for leaf in value), key=len)

    def block(arrays: Sequence[jax.Array]) -> list[list[Dense]]:
        results = inner.apply_each(Bound(small, around), *levels.rebuild(arrays))
        return [
            [_in_order(dense(leaf), dim, made.tensor.dims, longest) for leaf in result]
            for result, made in zip(results, small.results, strict=True)
        ]

    arrays = levels.leading()
    if count == 1:
        return block([lax.index_in_dim(a, 0, keepdims=False) for a in arrays])
    mapped = lax.map(jax.checkpoint(block, prevent_cse=False), arrays)
    return [[_merged(leaf, dim, count * size) for leaf in result] for result in mapped]


def _split(leaf: Any, dim: str, count: int, size: int) -> Dense:
    """The leaf with an axis that counts blocks before that of the dim, which starts at 0."""
    if dim not in leaf.dims:
        return leaf
    rest = leaf.dims.without(dim).items
    dims = Dims(((BLOCK, Interval(0, count)), (dim, Interval(0, size)), *rest))
    present = None if leaf.present is None else _split(leaf.present, dim, count, size)
    return Dense(lax.reshape(leaf.data, dims.shape), dims, present)


def _in_order(leaf: Dense, dim: str, have: Dims, like: Dims) -> Dense:
    """The leaf on all its dims, one first and the others in the order of an operand's, as memory has them."""
    names = [dim, *(n for n in like.names if n in have and n != dim), *(n for n in have.names if n not in like)]
    dims = Dims(tuple((n, have[n]) for n in dict.fromkeys(names)))
    present = None if leaf.present is None else _in_order(leaf.present, dim, have, like)
    return Dense(aligned(Dense(leaf.data, leaf.dims), dims), dims, present)


def _merged(leaf: Dense, dim: str, extent: int) -> Dense:
    """The leaf of all blocks, whose data have an axis that counts them, with the dim in one piece."""
    dims = Dims(((dim, Interval(0, extent)), *leaf.dims.without(dim).items))
    present = None if leaf.present is None else _merged(leaf.present, dim, extent)
    return Dense(lax.reshape(leaf.data, dims.shape), dims, present)


def _joined(parts: Sequence[Dense], dims: Dims) -> Dense:
    """Parts one after the other along their first axis, which becomes the dims again."""
    data = parts[0].data if len(parts) == 1 else lax.concatenate([p.data for p in parts], 0)
    masks = [p.present for p in parts if p.present is not None]
    own = Dims((*dims.items, *parts[0].dims.without(dims.names[0]).items))
    return Dense(lax.reshape(data, own.shape), own, _joined(masks, dims) if masks else None)


def _known(known: Annotations, new: Mapping[int, Expr]) -> Annotations:
    """What is known of nodes, said of those that stand for them in a block."""

    def moved(found: frozenset[int]) -> frozenset[int]:
        return found | {id(n) for k, n in new.items() if k in found}

    return replace(
        known,
        finite=moved(known.finite),
        written=moved(known.written),
        unseen=moved(known.unseen),
        invariants={
            **known.invariants,
            **{id(new[k]): tuple(new[id(e)] for e in found) for k, found in known.invariants.items() if k in new},
        },
    )
