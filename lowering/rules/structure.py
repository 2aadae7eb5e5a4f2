"""Lowering of what moves elements without computing: tuples, shifts, subsets, joins, branches, blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from lowering.context import Check, Context, conjunction, masks_of, no_failures
from lowering.rules.carried import levels_of
from lowering.tracing import axes_of, concrete, op_by_op, varying
from lowering.values import (
    Dense,
    Leaf,
    Slots,
    Value,
    aligned,
    cut,
    dense,
    elementwise,
    everywhere,
    joined_dims,
    mapped,
    presence,
    select_slot,
    with_present,
)
from tensorir.analysis.annotations import Annotations
from tensorir.analysis.uses import on_block
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Expr, Lambda
from tensorir.ir.rewrite import Bound
from tensorir.ir.types import TupleElement, bcast, leaves
from tensorir.ir.typing_of_elements import highest_neighbour

# Lowering of what moves elements without computing: tuples, shifts, subsets, renames, joins, selection by presence.


def make_tuple(context: Context, node: Call, values: Sequence[Value]) -> Value:
    return tuple(leaf for value in values for leaf in value)


def tuple_get(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """The leaves of one member of a tuple."""
    (value,), (index,) = values, node.static
    element = node.args[0].tensor.element
    assert isinstance(element, TupleElement)
    members = element.members
    first_leaf = sum(len(leaves(m)) for m in members[:index])
    return value[first_leaf : first_leaf + len(leaves(members[index]))]


def cartesian_shift(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """Each leaf with the interval of one dim moved; data stay where they are."""
    dim, offset = node.static

    def move(x: Dense) -> Dense:
        """The leaf's dims moved, if it has the dim."""
        return replace(x, dims=x.dims.with_interval(dim, x.dims[dim].shifted(offset))) if dim in x.dims else x

    def moved(leaf: Leaf) -> Leaf:
        """A leaf moved; slots of the dim get another start."""
        if isinstance(leaf, Slots) and leaf.dim == dim:
            return replace(leaf, start=leaf.dims[dim].shifted(offset).start)
        return mapped(move, leaf)

    return tuple(map(moved, values[0]))


def shift_apply(context: Context, node: Call, values: Sequence[Value]) -> Value:
    dim = highest_neighbour(node.args[0].tensor.dims)
    assert dim is not None
    return tuple(select_slot(leaf, dim, node.static.neighbour) for leaf in values[0])


def can_deref(context: Context, node: Call, values: Sequence[Value]) -> Value:
    return (conjunction(masks_of(values[0]), node.type.dims) or everywhere(),)


def subset(context: Context, node: Call, values: Sequence[Value]) -> Value:
    return tuple(cut(leaf, node.static.intervals) for leaf in values[0])


def pos(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """The coordinates along a dim, as int32."""
    dims = node.type.dims
    ((_, interval),) = dims.items
    counted = lax.iota("int32", len(interval))
    return (Dense(lax.add(counted, lax.full_like(counted, interval.start)), dims),)


def add_dim(context: Context, node: Call, values: Sequence[Value]) -> Value:
    # leaves may lack dims of their type: broadcasting happens where an operation needs it
    return values[-1]


def rename(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """Each leaf with dims renamed; data stay where they are."""
    new = dict(node.static.pairs)

    def renamed(leaf: Leaf) -> Leaf:
        """A leaf, its mask and its slots with dims renamed."""
        if isinstance(leaf, Slots):
            # neighbours stay apart under another name
            return replace(leaf, dim=new.get(leaf.dim, leaf.dim), leaves=tuple(map(renamed, leaf.leaves)))
        dims = Dims(tuple((new.get(n, n), i) for n, i in leaf.dims.items))
        return Dense(leaf.data, dims, None if leaf.present is None else dense(renamed(leaf.present)))

    return tuple(map(renamed, values[0]))


def split_dim(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """Each leaf with a dim split into an outer and an inner one of n points: a reshape."""
    dim, outer, inner, n = node.static
    operand_dims = node.args[0].tensor.dims

    def split(x: Dense) -> Dense:
        """One array with the dim split; unchanged if it lacks the dim."""
        if dim not in x.dims:
            return x
        x = dense(cut(x, Dims(((dim, operand_dims[dim]),))))
        new_dims = ((outer, node.type.dims[outer]), (inner, Interval(0, n)))
        dims = Dims(tuple(new for d, i in x.dims.items for new in (new_dims if d == dim else ((d, i),))))
        return Dense(lax.reshape(x.data, dims.shape), dims)

    return tuple(mapped(split, dense(leaf)) for leaf in values[0])


def merge_dims(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """Each leaf with an outer and an inner dim merged into one: a reshape."""
    outer, inner, dim = node.static
    operand_dims = node.args[0].tensor.dims

    def merge(x: Dense) -> Dense:
        """One array with both dims, outermost, merged; unchanged if it has neither."""
        if outer not in x.dims and inner not in x.dims:
            return x
        other_dims = [d for d in x.dims.names if d not in (outer, inner)]
        pair = Dims(((outer, operand_dims[outer]), (inner, operand_dims[inner]), *((d, x.dims[d]) for d in other_dims)))
        dims = Dims(((dim, node.type.dims[dim]), *((d, x.dims[d]) for d in other_dims)))
        return Dense(lax.reshape(aligned(x, pair), dims.shape), dims)

    return tuple(mapped(merge, dense(leaf)) for leaf in values[0])


def concat(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """Operands joined along the one dim on which their intervals differ, in the order of these."""
    types = [a.tensor.dims for a in node.args]
    (dim,) = (d for d in types[0] if any(t[d] != types[0][d] for t in types))
    ascending = sorted(range(len(types)), key=lambda k: (types[k][dim].start, types[k][dim].stop))
    return tuple(
        _joined([dense(values[k][leaf]) for k in ascending], [types[k][dim] for k in ascending], dim, node.type.dims)
        for leaf in range(len(values[0]))
    )


def _joined(parts: Sequence[Dense], intervals: Sequence[Interval], dim: str, need: Dims) -> Dense:
    """Arrays on consecutive intervals of `dim`, and their masks, joined to the intervals of `need`."""
    common = joined_dims([*(p.dims for p in parts), Dims(((dim, need[dim]),))], need)
    axis = common.names.index(dim)
    arrays = [aligned(p, common.with_interval(dim, i)) for p, i in zip(parts, intervals, strict=True)]
    present = None
    if any(p.present is not None for p in parts):
        present = _joined([p.present or everywhere() for p in parts], intervals, dim, need)
    return Dense(lax.concatenate(arrays, axis), common, present)


def update(context: Context, node: Call, values: Sequence[Value]) -> Value:
    need, part = node.tensor.dims, node.args[1].tensor.dims
    in_place = is_in_place(context, node, need, part)
    return tuple(updated(dense(x), dense(y), need, part, in_place) for x, y in zip(*values, strict=True))


def is_in_place(context: Context, node: Expr, whole: Dims, part: Dims, unshared: bool = False) -> bool:
    """True if `part` of an array on `whole` is written by an update of the array rather than a loop over all of it.

    `unshared`: the array is not read afterwards. Otherwise an update pays if the array is `MUCH_LARGER` than the part;
    never if the part is empty or is the whole.
    """
    placed = whole.replaced(part)
    if placed.items == whole.items or not part.size:
        return False
    times = whole.size / placed.size
    return context.chooses("in_place_updates", node, unshared or context.in_place or times > MUCH_LARGER, times)


def updated(x: Dense, y: Dense, need: Dims, part: Dims, in_place: bool) -> Dense:
    """x on `need` with y put onto the intervals `part`, by an update of x (`in_place`) or by a loop over all points.

    y itself if the part is all of `need`, x itself if it is empty; masks are put together alike.
    """
    placed = need.replaced(part)
    if placed.items == need.items:
        return y
    if not part.size:
        return x
    union_dims = joined_dims([x.dims, y.dims, part], need)
    region = Dims(tuple((n, placed[n]) for n in union_dims.names))
    if not x.dims:
        # one number around the part
        sides = [(region[n].start - i.start, i.stop - region[n].stop, 0) for n, i in union_dims.items]
        data = lax.pad(aligned(y, region), x.data, sides)
    else:
        base, new = aligned(x, union_dims), aligned(y, region)
        starts = [region[n].start - union_dims[n].start for n in union_dims.names]
        data = lax.dynamic_update_slice(base, new, starts) if in_place else _recomputed(base, new, union_dims, region)
    present = None
    if x.present is not None or y.present is not None:
        present = updated(x.present or everywhere(), y.present or everywhere(), need, part, in_place)
    return Dense(data, union_dims, present)


MUCH_LARGER = 8
"""A whole that is so many times larger than the part is updated in place; otherwise it is computed anew."""


def _recomputed(x: jax.Array, y: jax.Array, whole: Dims, region: Dims) -> jax.Array:
    """The array x on `whole` with y on `region`, in one fused loop: XLA's CPU backend updates a copy in place with
    one thread, which takes longer.

    Measured on 2048 × 2048 points: where one axis is cut, a selection takes 0.6 to 0.95 of joined parts, and where two
    are, parts that are joined axis by axis 0.8 of a selection.
    """
    axes = [k for k, n in enumerate(whole.names) if region[n] != whole[n]]
    if len(axes) == 1:
        sides = [(region[n].start - i.start, i.stop - region[n].stop, 0) for n, i in whole.items]
        return lax.select(_region_mask(whole, region, axes[0]), lax.pad(y, lax.full((), 0, y.dtype), sides), x)
    for axis in reversed(axes):
        name, outer = whole.items[axis]
        # between the parts beside it, the part on this axis and within those outside of it
        joined_dims_so_far = Dims(tuple((n, region[n] if k < axis else i) for k, (n, i) in enumerate(whole.items)))
        x_beside_region = dense(cut(Dense(x, whole), joined_dims_so_far)).data
        begin, end = region[name].start - outer.start, region[name].stop - outer.start
        before = lax.slice_in_dim(x_beside_region, 0, begin, axis=axis)
        after = lax.slice_in_dim(x_beside_region, end, len(outer), axis=axis)
        y = lax.concatenate([p for p in (before, y, after) if p.shape[axis]], axis)
    return y


def _region_mask(whole: Dims, region: Dims, axis: int) -> jax.Array:
    """A mask of the points of `whole` that are inside of the region along one axis."""
    outer, inner = whole.items[axis][1], region.items[axis][1]
    position = lax.broadcasted_iota("int32", whole.shape, axis)
    return lax.bitwise_and(
        lax.ge(position, np.int32(inner.start - outer.start)), lax.lt(position, np.int32(inner.stop - outer.start))
    )


def select(context: Context, node: Call, values: Sequence[Value]) -> Value:
    (condition,), on_true, on_false = values
    need = node.type.dims
    return selected((condition,), on_true, on_false, need)


def selected(condition: Value, on_true: Value, on_false: Value, need: Dims) -> Value:
    """The leaves of the first value where the condition holds, of the second elsewhere; absent where the condition
    is.
    """
    (condition_leaf,) = condition
    return tuple(_selected(condition_leaf, a, b, need) for a, b in zip(on_true, on_false, strict=True))


def _selected(condition: Leaf, a: Leaf, b: Leaf, need: Dims) -> Leaf:
    """a where the condition holds, b elsewhere, with the mask of the one selected; absent where the condition is."""

    def choose(x: Leaf, y: Leaf) -> Leaf:
        return elementwise(lax.select, [_unmasked(condition), _unmasked(x), _unmasked(y)], need)

    chosen = choose(a, b)
    masks = presence(a), presence(b)
    if masks != (None, None):
        chosen = with_present(chosen, choose(masks[0] or everywhere(), masks[1] or everywhere()), need)
    return with_present(chosen, presence(condition), need)


def _unmasked(leaf: Leaf) -> Leaf:
    """The leaf without its mask."""
    if isinstance(leaf, Dense):
        return replace(leaf, present=None)
    return replace(leaf, leaves=tuple(_unmasked(x) for x in leaf.leaves))


STRUCTURE: dict[str, Callable[[Context, Call, Sequence[Value]], Value]] = {
    "if": select,
    "make_tuple": make_tuple,
    "tuple_get": tuple_get,
    "cartesian_shift": cartesian_shift,
    "shift_apply": shift_apply,
    "can_deref": can_deref,
    "subset": subset,
    "concat": concat,
    "pos": pos,
    "add_dim": add_dim,
    "update": update,
    "rename": rename,
    "split_dim": split_dim,
    "merge_dims": merge_dims,
}

# Lowering of cond: the function that is taken is computed, checked and differentiated, and the other one is not.


def cond(context: Context, node: Call, lowered: Sequence[Any]) -> Value:
    """Result k of a conditional; all its results are computed at the first request and cached in `context.loops`.

    The key is the identity of the functions and operands, which the cache keeps alive. `node.static`: k, and whether
    both functions are computed and selected from (speculative).
    """
    index, speculative = node.static
    key = (speculative, *map(id, lowered))
    if key not in context.loops:
        context.loops[key] = lowered, _branch_results(context, node, lowered, speculative)
    return context.loops[key][1][index]


def _branch_results(context: Context, node: Call, lowered: Sequence[Any], speculative: bool) -> list[Value]:
    """The results of a conditional: of the branch taken if the condition is concrete, selected from both, or by
    `lax.cond`.

    Checks of a branch that is not taken do not fail.
    """
    true_function, false_function, condition, *operands = lowered
    (leaf,) = condition
    truth = dense(leaf).data
    functions: Any = node.args[:2]
    needs = [bcast([a, b]) for a, b in zip(*(f.type.results for f in functions), strict=True)]
    if op_by_op() and concrete(truth):
        results = context.apply_each(true_function if truth else false_function, *operands)
    elif op_by_op() or speculative:
        inner = [context.inner() for _ in (true_function, false_function)]
        pairs = zip(
            *(c.apply_each(f, *operands) for c, f in zip(inner, (true_function, false_function), strict=True)),
            strict=True,
        )
        results = [selected(condition, a, b, need) for (a, b), need in zip(pairs, needs, strict=True)]
        for branch, holds in zip(inner, (truth, lax.bitwise_not(truth)), strict=True):
            context.checks += branch.checks
            is_taken = lax.broadcast_in_dim(holds, (2,), ())
            none = no_failures(branch.checks)
            context.failures += [lax.select(is_taken, f, n) for f, n in zip(branch.failures, none, strict=True)]
    else:
        results = _conditional(
            context,
            truth,
            [_traced_branch(context, f, operands, needs) for f in (true_function, false_function)],
            needs,
        )
    # absent where the condition is
    mask = presence(leaf)
    return [tuple(with_present(x, mask, need) for x in value) for value, need in zip(results, needs, strict=True)]


@dataclass(frozen=True, slots=True)
class _Branch:
    """A function of a conditional, traced once: the leaves of its results in a row, and the checks they make."""

    closed: ClosedJaxpr
    counts: tuple[int, ...]
    """How many leaves each result has."""
    dims: tuple[Dims, ...]
    masked: tuple[bool, ...]
    checks: list[Check]


def _traced_branch(
    context: Context, function: Bound[Value], operands: Sequence[Value], needs: Sequence[Dims]
) -> _Branch:
    """A function of a conditional traced to a jaxpr without arguments: data of all leaves, then their masks, then
    failures.

    `needs`: per result, the intervals that are used of it.
    """
    inner = context.inner()
    dims: list[Dims] = []
    masked: list[bool] = []
    counts: list[int] = []

    def run() -> list[jax.Array]:
        """The flat results; fills the lists that describe them."""
        results = inner.apply_each(function, *operands)
        leaves = [dense(cut(leaf, need)) for value, need in zip(results, needs, strict=True) for leaf in value]
        counts.extend(map(len, results))
        dims.extend(leaf.dims for leaf in leaves)
        masked.extend(leaf.present is not None for leaf in leaves)
        masks = [aligned(leaf.present, leaf.dims) for leaf in leaves if leaf.present is not None]
        return [*(leaf.data for leaf in leaves), *masks, *inner.failures]

    closed = jax.make_jaxpr(run)()
    return _Branch(closed, tuple(counts), tuple(dims), tuple(masked), inner.checks)


def _conditional(context: Context, truth: jax.Array, branches: Sequence[_Branch], needs: Sequence[Dims]) -> list[Value]:
    """The results of `lax.cond` of two traced branches, their leaves broadcast to common dims, masked if either is."""
    counts = branches[0].counts
    need_of_leaf = [need for need, count in zip(needs, counts, strict=True) for _ in range(count)]
    dims = [joined_dims([a, b], need) for a, b, need in zip(*(b.dims for b in branches), need_of_leaf, strict=True)]
    masked = [any(pair) for pair in zip(*(b.masked for b in branches), strict=True)]

    def run(k: int) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
        """The data, masks and failures of branch k in the form that both branches have."""
        branch = branches[k]
        count = len(branch.dims)
        flat = jaxpr_as_fun(branch.closed)()
        data, masks_and_failures = flat[:count], iter(flat[count:])
        masks = [
            Dense(next(masks_and_failures), d) if m else everywhere()
            for d, m in zip(branch.dims, branch.masked, strict=True)
        ]
        failures = list(masks_and_failures)
        return (
            [aligned(Dense(a, part), d) for a, part, d in zip(data, branch.dims, dims, strict=True)],
            [aligned(m, d) for m, d, is_masked in zip(masks, dims, masked, strict=True) if is_masked],
            [f for j, b in enumerate(branches) for f in (failures if j == k else no_failures(b.checks))],
        )

    # within a mesh both branches vary over what either does
    axes = axes_of([b.closed.out_avals for b in branches])
    data, masks, failures = lax.cond(truth, lambda: varying(run(0), axes), lambda: varying(run(1), axes))
    for branch in branches:
        context.checks += branch.checks
    context.failures += failures
    present = iter(masks)
    leaves = iter(
        [Dense(a, d, Dense(next(present), d) if m else None) for a, d, m in zip(data, dims, masked, strict=True)]
    )
    return [tuple(next(leaves) for _ in range(count)) for count in counts]


# Lowering of blocked: a function of one block of points after the other, so that what it stores stays in the cache.

BLOCK = "_block"
"""The axis that counts blocks; no dim of a program starts with an underscore."""


def blocked(context: Context, node: Call, lowered: Sequence[Any]) -> Value:
    """Result number k of a function of blocks of points, its blocks joined; the last block may be smaller.

    `node.static`: k, the points of a block, and the names of the dims that are cut into blocks. All results are
    computed at the first request and cached in `context.loops`, by the identity of the function and its operands, which
    the cache keeps alive.
    The dims become one axis, the outermost of the operands, and blocks are a `lax.map` over it, whose transposition is
    a `lax.map` again. Where points along the dims are not independent, the function is applied to all points at once.
    """
    index, size, names = node.static
    key = size, *map(id, lowered)
    if key not in context.loops:
        dims = Dims(tuple((n, node.tensor.dims[n]) for n in names))
        context.loops[key] = lowered, _block_results(context, dims, size, lowered)
    return context.loops[key][1][index]


def _block_results(context: Context, dims: Dims, size: int, args: Sequence[Any]) -> list[Value]:
    """All results of the function on blocks of `size` points; at once if it cannot be cut into blocks, or one block
    holds all.
    """
    f, *values = args
    names = dims.names
    block_function = None if op_by_op() or not isinstance(f.function, Lambda) else on_block(f.function, names, size)
    if block_function is None or dims.size <= size or "blocks" in context.without:
        return context.apply_each(f, *values)
    count, remainder = divmod(dims.size, size)
    operands = [tuple(_with_merged_dims(dense(leaf), dims) for leaf in value) for value in values]
    blocks = [_mapped(context, f, names, [_between(v, names[0], 0, count * size) for v in operands], count, size)]
    if remainder:
        last_block = [_between(v, names[0], count * size, dims.size) for v in operands]
        blocks.append(_mapped(context, f, names, last_block, 1, remainder))
    return [
        tuple(_blocks_joined(leaves, dims) for leaves in zip(*pieces, strict=True))
        for pieces in zip(*blocks, strict=True)
    ]


def _with_merged_dims(leaf: Dense, dims: Dims) -> Dense:
    """The leaf with `dims` merged into its first axis, under the name of the first of them; unchanged if it has
    none.
    """
    if not any(n in leaf.dims for n in dims):
        return leaf
    other_dims = leaf.dims.without(*dims.names).items
    data = aligned(Dense(leaf.data, leaf.dims), Dims((*dims.items, *other_dims)))
    merged = Dims(((dims.names[0], Interval(0, dims.size)), *other_dims))
    return Dense(
        lax.reshape(data, merged.shape), merged, None if leaf.present is None else _with_merged_dims(leaf.present, dims)
    )


def _between(value: Value, dim: str, start: int, stop: int) -> Value:
    return tuple(cut(leaf, Dims(((dim, Interval(start, stop)),))) for leaf in value)


def _mapped(
    context: Context, f: Bound[Value], names: Sequence[str], operands: Sequence[Value], count: int, size: int
) -> list[list[Dense]]:
    """The leaves of the function's results on `count` blocks of `size` points, the merged dim first.

    `names`: the dims merged, the first of which names the merged dim of the operands. A gradient recomputes the
    function block by block.
    """
    assert isinstance(f.function, Lambda)
    block_and_nodes = on_block(f.function, names, size)
    assert block_and_nodes is not None
    block_function, node_in_block = block_and_nodes
    inner = context.inner()
    inner.known = _transferred_annotations(context.known, node_in_block)
    captured = {v: f.env[v] for v in block_function.free}
    dim = names[0]
    split = [tuple(_split(leaf, dim, count, size) for leaf in value) for value in operands]
    levels = levels_of(split, BLOCK, Interval(0, count))
    largest_dims = max((leaf.dims for value in operands for leaf in value), key=len)

    def block(arrays: Sequence[jax.Array]) -> list[list[Dense]]:
        """The leaves of the results on one block."""
        results = inner.apply_each(Bound(block_function, captured), *levels.rebuild(arrays))
        return [
            [_in_order(dense(leaf), dim, expression.tensor.dims, largest_dims) for leaf in value]
            for value, expression in zip(results, block_function.results, strict=True)
        ]

    arrays = levels.leading()
    if count == 1:
        return block([lax.index_in_dim(a, 0, keepdims=False) for a in arrays])
    mapped = lax.map(jax.checkpoint(block, prevent_cse=False), arrays)
    return [[_merged(leaf, dim, count * size) for leaf in result] for result in mapped]


def _split(leaf: Any, dim: str, count: int, size: int) -> Dense:
    """The leaf with an axis that counts blocks before `dim`, which starts at 0 in each; unchanged if it lacks the
    dim.
    """
    if dim not in leaf.dims:
        return leaf
    rest = leaf.dims.without(dim).items
    dims = Dims(((BLOCK, Interval(0, count)), (dim, Interval(0, size)), *rest))
    present = None if leaf.present is None else _split(leaf.present, dim, count, size)
    return Dense(lax.reshape(leaf.data, dims.shape), dims, present)


def _in_order(leaf: Dense, dim: str, all_dims: Dims, like: Dims) -> Dense:
    """The leaf on all dims of `all_dims`: `dim` first, the others in the order of `like`, as memory has them."""
    names = [dim, *(n for n in like.names if n in all_dims and n != dim), *(n for n in all_dims.names if n not in like)]
    dims = Dims(tuple((n, all_dims[n]) for n in dict.fromkeys(names)))
    present = None if leaf.present is None else _in_order(leaf.present, dim, all_dims, like)
    return Dense(aligned(Dense(leaf.data, leaf.dims), dims), dims, present)


def _merged(leaf: Dense, dim: str, extent: int) -> Dense:
    """The leaf of all blocks with their axis merged into `dim`, of `extent` points."""
    dims = Dims(((dim, Interval(0, extent)), *leaf.dims.without(dim).items))
    present = None if leaf.present is None else _merged(leaf.present, dim, extent)
    return Dense(lax.reshape(leaf.data, dims.shape), dims, present)


def _blocks_joined(parts: Sequence[Dense], dims: Dims) -> Dense:
    """Blocks joined along their first axis, which is reshaped to `dims`."""
    data = parts[0].data if len(parts) == 1 else lax.concatenate([p.data for p in parts], 0)
    masks = [p.present for p in parts if p.present is not None]
    joined = Dims((*dims.items, *parts[0].dims.without(dims.names[0]).items))
    return Dense(lax.reshape(data, joined.shape), joined, _blocks_joined(masks, dims) if masks else None)


def _transferred_annotations(known: Annotations, new: Mapping[int, Expr]) -> Annotations:
    """The annotations, also for the nodes of a block: `new` has, by the identity of a node, the one that stands for
    it.
    """

    def moved(nodes: frozenset[int]) -> frozenset[int]:
        """The identities, and those of the nodes in the block that stand for them."""
        return nodes | {id(n) for k, n in new.items() if k in nodes}

    return replace(
        known,
        finite=moved(known.finite),
        written=moved(known.written),
        unseen=moved(known.unseen),
        invariants={
            **known.invariants,
            **{id(new[k]): tuple(new[id(e)] for e in nodes) for k, nodes in known.invariants.items() if k in new},
        },
    )
