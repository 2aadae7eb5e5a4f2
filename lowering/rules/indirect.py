"""Lowering of indirect access: neighbour tables, gather and scatter, slices at one index per dim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Check, Context, conjunction, first_failures, first_of, in_range, masks_of, no_failures
from lowering.rules.neighbours import Prepared, read
from lowering.rules.structure import is_in_place, updated
from lowering.tracing import repeated
from lowering.values import (
    Dense,
    Leaf,
    Slots,
    Value,
    aligned,
    cut,
    dense,
    elementwise,
    guarded,
    joined_dims,
    presence,
    select_slot,
    with_present,
)
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Lambda, Operator
from tensorir.ir.rewrite import Bound
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.runtime.errors import Diagnostic

# Indirect access at one index per dim: slices that start where the index says, read and written in place.

CLIP_INDICES = lax.GatherScatterMode.CLIP


def zero_based(index: jax.Array, interval: Interval, mode: Any = CLIP_INDICES) -> jax.Array:
    """An index counted from the start of its interval; in the mode CLIP clamped to it first, so that it cannot wrap
    around.
    """
    if not interval.start:
        return index
    if mode == CLIP_INDICES:
        lowest, highest = (
            lax.full_like(index, interval.start),
            lax.full_like(index, max(interval.start, interval.stop - 1)),
        )
        index = lax.clamp(lowest, index, highest)
    return lax.sub(index, lax.full_like(index, interval.start))


def at_one(x: Dense, indices: dict[str, Dense], intervals: Dims) -> Dense:
    """x at one index per indexed dim, clamped to its interval: a `lax.dynamic_slice`.

    `indices`: per indexed dim of x, an index without dims. `intervals`: the intervals of these dims.
    """
    zero = lax.full((), 0, "int32")
    starts = [zero_based(indices[n].data, intervals[n]) if n in indices else zero for n in x.dims.names]
    widest = max((s.dtype for s in starts), key=lambda t: t.itemsize)
    starts = [lax.convert_element_type(s, widest) for s in starts]
    sizes = [1 if n in indices else len(i) for n, i in x.dims.items]
    data = lax.dynamic_slice(x.data, starts, sizes, allow_negative_indices=False)
    dims = x.dims.without(*indices)
    return Dense(lax.reshape(data, dims.shape), dims)


def put_at_one(
    base: Dense, indices: Sequence[Leaf], update: Dense, ok: Leaf | None, order: Dims, part: Dims, names: Sequence[str]
) -> Dense:
    """`base`, on `part`, with one update at one index per indexed dim: a `lax.dynamic_update_slice`.

    `names`: the indexed dims, one for each of `indices`. `ok`: if false, nothing is written; None is always true.
    """
    operand = aligned(base, part)
    index_along = dict(zip(names, indices, strict=True))
    zero = lax.full((), 0, "int32")
    starts = [zero_based(dense(index_along[n]).data, part[n]) if n in index_along else zero for n in part.names]
    widest = max((s.dtype for s in starts), key=lambda t: t.itemsize)
    starts = [lax.convert_element_type(s, widest) for s in starts]
    sizes = [1 if n in index_along else len(i) for n, i in part.items]
    slice_dims = Dims(tuple((n, i) for n, i in part.items if n not in index_along))
    value = lax.reshape(aligned(Dense(update.data, update.dims), slice_dims), sizes)
    if ok is not None:
        current = lax.dynamic_slice(operand, starts, sizes, allow_negative_indices=False)
        value = lax.select(lax.broadcast_in_dim(aligned(dense(ok), Dims()), sizes, ()), value, current)
    return Dense(lax.dynamic_update_slice(operand, value, starts, allow_negative_indices=False), part)


# Lowering of indirect access: neighbour tables, gather and scatter.

PROMISE, CLIP = lax.GatherScatterMode.PROMISE_IN_BOUNDS, lax.GatherScatterMode.CLIP
DROP = lax.GatherScatterMode.FILL_OR_DROP

MOST_SLOTS = 32
"""Tables with more neighbours than this are read by one gather: unrolling would cost compile time."""


def shift_init(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """x at all neighbours of a table: slots of one gather each, or one gather for all if there are many
    (`MOST_SLOTS`).
    """
    table, x = values
    interval = node.args[0].tensor.dims[neighbour_source(node.args[0].tensor)[0]]
    new = next(d for d in reversed(node.type.dims.names) if d.startswith("_NB_"))
    result: list[Leaf] = []
    for leaf in x:
        if not context.chooses("reads_by_slot", node, len(interval) <= MOST_SLOTS, len(interval)):
            result.append(_through_whole_table(context, node, table[0], leaf, new))
        else:
            slots = _neighbours(context, node, table[0], leaf, list(interval))
            empty = Dense(lax.full(node.type.dims.shape, 0, dense(leaf).data.dtype), node.type.dims)
            result.append(Slots(new, interval.start, tuple(slots)) if slots else empty)
    return tuple(result)


def unstructured_shift(context: Context, node: Call, values: Sequence[Value]) -> Value:
    table, x = values
    return tuple(_neighbours(context, node, table[0], leaf, [node.static.neighbour])[0] for leaf in x)


def _neighbours(context: Context, node: Call, table: Leaf, x: Leaf, slots: Sequence[int]) -> list[Leaf]:
    """x at the neighbours `slots` of every destination, one leaf each.

    Goes through the prepared table if there is one for `table` and x has the source dim but no dim of the destinations.
    """
    if isinstance(x, Slots):
        # a second partial shift: the neighbours of each slot of the first
        by_slot_of_x = [_neighbours(context, node, table, inner, slots) for inner in x.leaves]
        return [Slots(x.dim, x.start, tuple(p[k] for p in by_slot_of_x)) for k in range(len(slots))]
    tag, source = neighbour_source(node.args[0].tensor)
    prepared = context.prepared.get(id(table))
    destinations = node.args[0].tensor.dims.without(tag)
    if prepared is not None and not any(d in destinations for d in x.dims.without(source)) and source in x.dims:
        return _through_prepared(context, node, table, prepared, x, slots)
    columns = (select_slot(table, tag, slot) for slot in slots)
    return [_through_column(context, node, column, x, source) for column in columns]


def _through_prepared(
    context: Context, node: Call, table: Leaf, prepared: Prepared, x: Dense, slots: Sequence[int]
) -> list[Leaf]:
    """x at the neighbours `slots` through a prepared table; one read of all slots is cached in `context.gathered`.

    The cache key is the table, the data of x and its dims, whose array is kept alive with the result.
    """
    tag, source = neighbour_source(node.args[0].tensor)
    interval = node.args[0].tensor.dims[tag]
    key = id(table), id(x.data), x.dims.items
    if key not in context.gathered:
        rows = Dims(((source, prepared.inside), *x.dims.without(source).items))
        context.gathered[key] = x.data, rows, read(aligned(x, rows), prepared)
    _, rows, read_rows = context.gathered[key]
    destinations = Dims(tuple((n, i) for n, i in node.args[0].tensor.dims.items if n != tag))
    result: list[Leaf] = []
    for slot in slots:
        k = slot - interval.start
        dims = Dims((*destinations.items, *rows.without(source).items))
        data = lax.reshape(read_rows[k], dims.shape)
        present = None
        mask = prepared.masks[k]
        if mask is not None:
            present = Dense(lax.reshape(mask, destinations.shape), destinations)
            data = guarded(aligned(present, dims), data)
        leaf: Leaf = Dense(data, dims, present)
        if x.present is not None:
            mask_at_neighbours = dense(_neighbours(context, node, table, x.present, [slot])[0])
            leaf = with_present(leaf, Dense(mask_at_neighbours.data, mask_at_neighbours.dims), node.type.dims)
        result.append(cut(leaf, node.type.dims))
    return result


def _through_column(context: Context, node: Call, column: Leaf, x: Dense, source: str) -> Leaf:
    """x at the coordinates in a column, which has one entry per destination; absent where an entry is -1 or masked.

    Entries that analysis has not proven in bounds get a run-time check.
    """
    access = context.access(node)
    interval = node.args[1].tensor.dims[source]
    dims = node.type.dims
    unmasked_column = Dense(dense(column).data, dense(column).dims)
    present: Leaf | None = None
    index: Leaf = elementwise(partial(_as_signed, interval=interval), [unmasked_column], unmasked_column.dims)
    if access.absent:
        present = elementwise(lambda i: lax.ne(i, lax.full_like(i, -1)), [index], unmasked_column.dims)
        index = _where_present(index, present, interval.start)
    table_mask = presence(column)
    if table_mask is not None:
        index = _where_present(index, table_mask, interval.start)
        present = table_mask if present is None else elementwise(lax.bitwise_and, [present, table_mask], dims)
    if not access.proven:
        _check_index(context, node, index, interval, f"an entry of the table leaves {source}{interval}")
    value = _indexed(x, [source], [index], Dims(((source, interval),)), dims, PROMISE if access.proven else CLIP)
    if present is not None:
        masked = dense(value)
        common_dims = joined_dims([masked.dims, dense(present).dims], dims)
        mask = aligned(dense(present), common_dims)
        value = Dense(guarded(mask, aligned(Dense(masked.data, masked.dims), common_dims)), common_dims, masked.present)
    return with_present(value, present, dims)


def _through_whole_table(context: Context, node: Call, table: Leaf, x: Leaf, new: str) -> Leaf:
    """x at all neighbours by one gather; `new` is the name of the neighbour dim of the result."""
    tag, source = neighbour_source(node.args[0].tensor)
    full_table = dense(table)
    axis = Dims(tuple((new if n == tag else n, i) for n, i in full_table.dims.items))
    mask = full_table.present
    column = Dense(
        full_table.data,
        axis,
        mask and Dense(mask.data, Dims(tuple((new if n == tag else n, i) for n, i in mask.dims.items))),
    )
    return _through_column(context, node, column, dense(x), source)


def _as_signed(index: jax.Array, interval: Interval) -> jax.Array:
    """An index as int32, or as int64 if it or its distance from a bound may not fit; larger uint64 values are
    capped.
    """
    if index.dtype.kind == "u" and index.dtype.itemsize == 8:
        index = lax.min(index, lax.full_like(index, np.iinfo(np.int64).max))
    needs_64_bits = (
        index.dtype.itemsize == 8 or index.dtype == np.uint32 or max(abs(interval.start), abs(interval.stop)) >= 2**30
    )
    return lax.convert_element_type(index, np.int64 if needs_64_bits else np.int32)


def _where_present(index: Leaf, mask: Leaf, start: int) -> Leaf:
    """The index where its mask is true, and `start`, which is in bounds, elsewhere."""
    dims = joined_dims(
        [index.dims, mask.dims], Dims(tuple({**dict(mask.dims.items), **dict(index.dims.items)}.items()))
    )
    return elementwise(lambda p, i: lax.select(p, i, lax.full_like(i, start)), [mask, index], dims)


def _check_index(context: Context, node: Call, index: Leaf, interval: Interval, what: str) -> None:
    """Record a run-time check (R01, with the words `what`) that an index is in its interval."""
    bad = elementwise(lax.bitwise_not, [in_range(index, interval, index.dims)], index.dims)
    context.check(
        node, bad, index, Diagnostic("R01", f"{what}.", node.span, help="correct the indices, or clamp them.")
    )


def _indexed(x: Dense, names: Sequence[str], indices: Sequence[Leaf], intervals: Dims, need: Dims, mode: Any) -> Leaf:
    """x at [names: indices], on the joined dims of the indices and the other dims of x.

    `intervals`: the intervals of indexed dims. `need`: those of the result's dims. `mode`: of the gather. Indexed dims
    that x lacks are ignored; dims shared by x and indices are batch dims of the gather. One index per dim without dims
    is a slice.
    """
    indexed_dims = [n for n in names if n in x.dims]
    if not indexed_dims:
        # the mask may have the dims where the data are the same at all of their points
        mask = None if x.present is None else dense(_indexed(x.present, names, indices, intervals, need, mode))
        return replace(dense(cut(Dense(x.data, x.dims), need)), present=mask)
    dense_indices = [dense(i) for i, n in zip(indices, names, strict=True) if n in x.dims]
    batch = joined_dims([f.dims for f in dense_indices], need)
    shared = [n for n in batch.names if n in x.dims and n not in indexed_dims]
    x = dense(
        cut(
            x,
            Dims(
                (*((n, intervals[n]) for n in indexed_dims), *((n, need[n]) for n in x.dims if n not in indexed_dims))
            ),
        )
    )
    names_of = x.dims.names
    if not batch and x.present is None and all(intervals[n] for n in indexed_dims):
        return at_one(x, dict(zip(indexed_dims, dense_indices, strict=True)), intervals)
    columns = _in_widest_type(
        [zero_based(aligned(f, batch), intervals[n], mode) for f, n in zip(dense_indices, indexed_dims, strict=True)]
    )
    columns = [lax.expand_dims(c, (len(batch),)) for c in columns]
    slice_dims = [n for n in names_of if n not in indexed_dims and n not in shared]
    if any(not intervals[n] for n in indexed_dims):
        # nothing is there to read: every index is out of range
        empty = Dims((*batch.items, *((n, x.dims[n]) for n in slice_dims)))
        return Dense(lax.full(empty.shape, 0, x.data.dtype), empty)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(len(batch), len(batch) + len(slice_dims))),
        collapsed_slice_dims=tuple(sorted(names_of.index(n) for n in indexed_dims)),
        start_index_map=tuple(names_of.index(n) for n in indexed_dims),
        operand_batching_dims=tuple(names_of.index(n) for n in sorted(shared, key=names_of.index)),
        start_indices_batching_dims=tuple(batch.names.index(n) for n in sorted(shared, key=names_of.index)),
    )
    sizes = [len(x.dims[n]) if n in slice_dims else 1 for n in names_of]
    data = lax.gather(x.data, lax.concatenate(columns, len(batch)), numbers, sizes, mode=mode)
    dims = Dims((*batch.items, *((n, x.dims[n]) for n in slice_dims)))
    present = None
    if x.present is not None:
        present = dense(_indexed(x.present, names, indices, intervals, need, mode))
    return Dense(data, dims, present)


def _in_widest_type(columns: Sequence[jax.Array]) -> list[jax.Array]:
    """The columns in the widest of their integer types."""
    widest = max((c.dtype for c in columns), key=lambda t: t.itemsize)
    return [lax.convert_element_type(c, widest) for c in columns]


def gather(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """x at one index per indexed dim, clamped, checked at run time, or zero outside, as the node's mode says.

    A result is absent where x or an index is.
    """
    names, mode = node.static
    x, *index_values = values
    operand = node.args[0].tensor.dims
    intervals = Dims(tuple((n, operand[n]) for n in names))
    proven = context.access(node).proven
    masks = [m for (i,) in index_values if (m := presence(i)) is not None]
    indices: list[Leaf] = []
    in_bounds: Leaf | None = None
    for name, (leaf,) in zip(names, index_values, strict=True):
        bare = Dense(dense(leaf).data, dense(leaf).dims)
        index: Leaf = elementwise(partial(_as_signed, interval=operand[name]), [bare], bare.dims)
        mask = presence(leaf)
        if mask is not None:
            index = _where_present(index, mask, operand[name].start)
        if not proven and mode == "checked":
            _check_index(context, node, index, operand[name], f"an index leaves {name}{operand[name]}")
        if not proven and mode == "zero":
            index_in_bounds = in_range(index, operand[name], index.dims)
            in_bounds = (
                index_in_bounds
                if in_bounds is None
                else elementwise(lax.bitwise_and, [in_bounds, index_in_bounds], node.type.dims)
            )
        indices.append(index)
    leaves: list[Leaf] = []
    for leaf in x:
        value = _indexed(dense(leaf), names, indices, intervals, node.type.dims, PROMISE if proven else CLIP)
        if in_bounds is not None:
            value = _zero_outside(in_bounds, value, node.type.dims)
        for mask in masks:
            value = with_present(value, mask, node.type.dims)
        leaves.append(value)
    return tuple(leaves)


def _zero_outside(in_bounds: Leaf, value: Leaf, need: Dims) -> Leaf:
    """The value, and a present 0 where `in_bounds` is false, as nothing was read there."""
    zeroed = elementwise(
        lambda ok, v: lax.select(ok, v, lax.full_like(v, 0)),
        [in_bounds, Dense(dense(value).data, dense(value).dims)],
        need,
    )
    mask = presence(value)
    if mask is None:
        return zeroed
    return with_present(
        zeroed, elementwise(lambda ok, m: lax.bitwise_or(lax.bitwise_not(ok), m), [in_bounds, mask], need), need
    )


def combiner(function: Any) -> str | None:
    """The builtin that a function of two elements applies, "last" for λ(old, new) → new, None for any other
    function.
    """
    match function:
        case Operator(op):
            return op
        case Lambda((a, b), (Call(op, (x, y)),)) if (x, y) == (a, b):
            return op
        case Lambda((_, b), (body,)) if body == b:
            return "last"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Updates:
    """A scatter: the base, the points in order, and for each an index per dim and a value."""

    function: Bound[Value]
    base: Value
    names: tuple[str, ...]
    over: tuple[str, ...]
    indices: tuple[Leaf, ...]
    values: Value
    ok: Leaf | None
    """Where an index is in range, None where all are."""
    order: Dims
    part: Dims

    def columns(self, order: Dims) -> tuple[list[jax.Array], list[int]]:
        """One array of zero-based indices per indexed dim, on the points `order`, and the extents of these dims.

        Where an index is out of range (`ok` is false), the first column has its extent, which scatters drop.
        """
        part = self.part
        zero_based_indices = [
            zero_based(aligned(dense(i), order), part[n]) for i, n in zip(self.indices, self.names, strict=True)
        ]
        extents = [len(part[n]) for n in self.names]
        indices = zip(_in_widest_type(zero_based_indices), extents, strict=True)
        columns = [lax.clamp(lax.full_like(c, 0), c, lax.full_like(c, e - 1)) for c, e in indices]
        if self.ok is not None:
            dropped = lax.full_like(columns[0], extents[0])
            columns[0] = lax.select(aligned(dense(self.ok), order), columns[0], dropped)
        return columns, extents

    def arrays(self, order: Dims) -> tuple[list[jax.Array], list[jax.Array]]:
        """The touched part of the base, and the values on the points `order`, one array per leaf."""
        return [aligned(dense(x), self.part) for x in self.base], [aligned(dense(x), order) for x in self.values]


def touched(node: Call) -> tuple[Dims, Dims]:
    """The points of the updates of a scatter, iterated dims first, and the part of the base that they can touch.

    `scatter(f, names..., over: (K))(base, indices..., updates)`: all of the base along the dims `names` that indices
    address, and along others the intervals of indices and updates, which typing (T21) keeps inside of the base.
    """
    names, over, _ = node.static
    base_dims = node.type.dims
    points: dict[str, Interval] = {}
    for a in node.args[2:]:
        for n, i in a.tensor.dims.items:
            points[n] = points.get(n, i) & i
    points = {**{n: i for n, i in base_dims.items if n not in names}, **points}
    order = Dims((*((n, points[n]) for n in over), *((n, points[n]) for n in points if n not in over)))
    other_dims = base_dims.without(*names)
    return order, Dims((*((n, base_dims[n]) for n in names), *other_dims.replaced(Dims(tuple(points.items()))).items))


def scatter(context: Context, node: Call, lowered: Sequence[Any]) -> Value:
    return scattered(context, node, lowered, lambda updates: one_by_one(context, updates))


def scattered(context: Context, node: Call, lowered: Sequence[Any], put: Callable[[Updates], Sequence[Dense]]) -> Value:
    """The base of a scatter with `put(updates)` in the place of its part that may be touched.

    Indices are checked at run time, or their updates left out, as the node's mode says. An absent index or update makes
    the whole result absent.
    """
    names, over, mode = node.static
    function: Bound[Value] = lowered[0]
    base, *index_and_value_operands = lowered[1:]
    *index_values, values = index_and_value_operands
    base_dims = node.type.dims
    order, part = touched(node)
    proven = context.access(node).proven
    ok: Leaf | None = None
    indices: list[Leaf] = []
    for name, (leaf,) in zip(names, index_values, strict=True):
        bare = Dense(dense(leaf).data, dense(leaf).dims)
        index: Leaf = elementwise(partial(_as_signed, interval=base_dims[name]), [bare], bare.dims)
        if (mask := presence(leaf)) is not None:
            index = _where_present(index, mask, base_dims[name].start)
        if not proven and mode == "checked":
            _check_index(context, node, index, base_dims[name], f"an index leaves {name}{base_dims[name]}")
        if not proven and mode == "zero":
            index_in_bounds = in_range(index, base_dims[name], index.dims)
            ok = index_in_bounds if ok is None else elementwise(lax.bitwise_and, [ok, index_in_bounds], order)
        indices.append(index)
    absent = conjunction([m for v in index_and_value_operands for m in masks_of(v)], order)
    put_on = put(Updates(function, base, names, over, tuple(indices), values, ok, order, part))
    result: list[Leaf] = []
    in_place = is_in_place(context, node, base_dims, part)
    for old, new in zip(base, put_on, strict=True):
        value = updated(Dense(dense(old).data, dense(old).dims), new, base_dims, part, in_place)
        for mask in masks_of(base):
            value = dense(with_present(value, mask, base_dims))
        if absent is not None:
            # an absent index or update leaves the whole result absent: which element it was for is not known
            all_present = lax.reduce(dense(absent).data, True, lax.bitwise_and, tuple(range(dense(absent).data.ndim)))
            value = dense(with_present(value, Dense(all_present, Dims()), base_dims))
        result.append(value)
    return tuple(result)


def one_by_one(context: Context, updates: Updates) -> list[Dense]:
    """The touched part of the base after the updates, one at a time over the iterated dims, all other points side by
    side.

    Failures of checks in the combining function are added to the context.
    """
    function, over, order, part = updates.function, updates.over, updates.order, updates.part
    (columns, extents), (operands, values) = updates.columns(order), updates.arrays(order)
    count = int(np.prod([len(order[n]) for n in over], dtype=np.int64))
    aligned_shape = tuple(len(i) for n, i in order.items if n not in over)
    size = int(np.prod(aligned_shape, dtype=np.int64))
    flat_columns = [lax.reshape(c, (count, size)) for c in columns]
    flat_values = [lax.reshape(v, (count, size)) for v in values]
    boxes = [lax.reshape(o, (int(np.prod(extents, dtype=np.int64)), size)) for o in operands]
    lane = lax.iota("int32", size)

    checks: list[Check] = []

    def combined(old: list[jax.Array], new: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        """The results of the combining function on scalars, and the failures of its checks; sets `checks`."""
        # the function is one of scalars: it is mapped over the lanes
        inner = context.inner()
        leaves = inner.apply(function, tuple(Dense(o, Dims()) for o in old), tuple(Dense(n, Dims()) for n in new))
        checks[:] = inner.checks
        return [dense(leaf).data for leaf in leaves], inner.failures

    def step(i: Any, carry: tuple[list[jax.Array], list[jax.Array]]) -> tuple[list[jax.Array], list[jax.Array]]:
        """The state after update number i of each lane, and the first failures so far."""
        state, failed = carry
        at = [lax.dynamic_index_in_dim(c, i, keepdims=False) for c in flat_columns]
        row = at[0]
        for c, e in zip(at[1:], extents[1:], strict=True):
            row = lax.add(lax.mul(row, lax.full_like(row, e)), c)
        keep = lax.lt(at[0], lax.full_like(at[0], extents[0]))
        position = lax.min(row, lax.full_like(row, max(0, boxes[0].shape[0] - 1)))
        where = lax.concatenate(
            [lax.expand_dims(lax.convert_element_type(a, "int32"), (1,)) for a in (position, lane)], 1
        )
        pick = lax.GatherDimensionNumbers((), (0, 1), (0, 1))
        put = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
        old = [lax.gather(s, where, pick, (1, 1), mode=PROMISE) for s in state]
        new = [lax.dynamic_index_in_dim(v, i, keepdims=False) for v in flat_values]
        results, failures = jax.vmap(combined)(old, new)
        # where nothing is put, nothing is checked
        due = lax.broadcast_in_dim(keep, (*keep.shape, 2), tuple(range(keep.ndim)))
        failures = [lax.select(due, f, lax.full_like(f, -1)) for f in failures]
        rows = [lax.select(keep, r, o) for r, o in zip(results, old, strict=True)]
        state = [lax.scatter(s, where, r, put, mode=PROMISE) for s, r in zip(state, rows, strict=True)]
        return state, first_failures(failed, [first_of(f) for f in failures])

    final = boxes
    if count and size and boxes[0].size:
        scalars = [[jax.ShapeDtypeStruct((), x.dtype) for x in xs] for xs in (operands, values)]
        jax.eval_shape(combined, *scalars)
        checks_of_step = list(checks)
        final, failed = repeated(count, step, (boxes, no_failures(checks_of_step)))
        context.checks += checks_of_step
        context.failures += failed
    return [Dense(lax.reshape(f, part.shape), part) for f in final]


INDIRECT: dict[str, Callable[[Context, Call, Sequence[Any]], Value]] = {
    "shift_init": shift_init,
    "unstructured_shift": unstructured_shift,
    "gather": gather,
    "scatter": scatter,
}
