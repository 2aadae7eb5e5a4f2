"""Folds as XLA's reductions: of an axis, of pairs, of windows, of prefixes, and the largest elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Context, first_of, masks_of
from lowering.rules.carried import Levels, counted, levels_of, within_state
from lowering.rules.elementwise import SCALAR
from lowering.rules.folds import (
    MONOIDS,
    MOST_UNROLLED,
    by_rows,
    identity_of,
    parts_pay,
    reduced,
    reduced_in_parts,
    reduced_numbers,
    unrolls,
)
from lowering.rules.indirect import combiner
from lowering.values import Dense, Leaf, Slots, Value, Window, aligned, cut, dense, elementwise, presence, with_present
from tensorir.analysis.uses import literal_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Lambda, Var
from tensorir.ir.rewrite import Bound
from tensorir.ir.static_parameters import ArgReduce
from tensorir.ir.types import DTYPES, TensorType, bcast
from tensorir.passes.reductions import selecting_key

# Folds by an operation whose order is free, as reductions of an axis.
#
# `λ(a, x...) → a ⊕ e(x...)` with ⊕ one of `MONOIDS`: what is folded is computed for all levels at once, and XLA
# reduces it in the order that it likes. Short folds stay unrolled: XLA fuses them with what they are made of and used
# for.


def monoid(function: Any, count: int) -> tuple[str, Expr | None] | None:
    """The operation and the mapped expression of a fold λ(a, x...) → a ⊕ e(x...), None for any other."""
    match function:
        case Lambda((a, *_), (Call(op, (x, e)),)) if op in MONOIDS and x == a and a not in e.free:
            return op, e
        case Lambda((a, *_), (Call(op, (e, x)),)) if op in MONOIDS and x == a and a not in e.free:
            return op, e
        case _:
            op = combiner(function) if count == 1 else None
            return (op, None) if op in MONOIDS else None


def _folded(node: Call) -> tuple[Any, ...]:
    """The dim that a fold goes over, its interval, and which arguments have it."""
    dim = node.static.dim
    having = [dim in a.tensor.dims for a in node.args[2:]]
    interval = next(a.tensor.dims[dim] for a, has in zip(node.args[2:], having, strict=True) if has)
    return dim, interval, having


def along_axis(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """A fold of one array by one operation, as a reduction of the axis where it stands: moving it costs a copy."""
    f, init, *values = args
    dim, interval, _ = _folded(node)
    fold = monoid(f.function, len(values))
    if fold is None or fold[1] is not None or len(values) != 1 or len(init) != 1 or presence(init[0]) is not None:
        return None
    (leaf,) = values[0]
    if not isinstance(leaf, Dense) or leaf.present is not None or dim not in leaf.dims:
        return None
    if unrolls(context, node, len(interval)):
        return None
    state: Dims = f.function.type.params[0].dims
    part = dense(cut(leaf, Dims(((dim, interval), *((n, state[n]) for n in leaf.dims.names if n != dim)))))
    first = literal_of(node.args[1])
    within = first is not None and first == first and TABLE[fold[0]].idempotent
    start = np.array(first if within else identity_of(fold[0], part.data.dtype), part.data.dtype)
    computed = not isinstance(node.args[2], Var)
    axis = part.dims.names.index(dim)
    known = context.provenance.with_nan(leaf)
    stencil = id(node) in context.known.stencil_reductions and "sums_as_loops" not in context.without
    if stencil and known is None and parts_pay(part.data, axis, context.platform):
        total = reduced_in_parts(part.data, start, fold[0], axis, context.platform, context.loose)
    elif known is None:
        total = reduced(part.data, start, fold[0], axis, context.platform, context.loose, computed)
    else:
        source = aligned(dense(cut(known[0], part.dims)), part.dims)
        if id(node) in context.known.unseen:
            total = reduced(source, start, fold[0], axis, context.platform, True, computed)
        else:
            total = reduced_numbers(source, known[1], start, fold[0], axis, context.platform)
    folded = Dense(total, part.dims.without(dim))
    # XLA fuses what follows with the reduction itself: a softmax in 0.8 of the time
    whole = folded if within else elementwise(SCALAR[fold[0]], [init[0], folded], state)
    return (cut(whole, node.tensor.dims),)


def mapped(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """A fold whose order is free, as one XLA reduction of what is folded."""
    f, init, *values = args
    dim, interval, having = _folded(node)
    fold = monoid(f.function, len(values)) if len(init) == 1 else None
    if fold is None or unrolls(context, node, len(interval)):
        return None
    state: TensorType = f.function.type.params[0]
    levels = levels_of(values, dim, interval)
    if not any(levels.axes) and by_rows(DTYPES[state.leaves[0]], state.dims.size, False, context.platform):
        # step by step nothing but the rows themselves is read
        return None
    outside = [m for v, has in zip(values, having, strict=True) if not has for m in masks_of(v)]
    result = _at_once(context, f, init, levels, having, fold, state, len(interval))
    for mask in outside:
        result = tuple(with_present(leaf, within_state(mask, state.dims), node.tensor.dims) for leaf in result)
    return tuple(cut(leaf, node.tensor.dims) for leaf in result)


def _at_once(
    context: Context, f: Bound[Value], init: Value, levels: Levels, having: Sequence[bool],
    fold: tuple[str, Expr | None], state: TensorType, count: int,
) -> Value:  # fmt: skip
    """A fold whose order is free, as one XLA reduction of what is folded."""
    op, mapped = fold
    inner = context.inner()

    def one(arrays: list[jax.Array]) -> tuple[Dense, list[jax.Array]]:
        values = levels.rebuild(arrays)
        keep = counted(values, having)
        if mapped is None:
            (item,) = values[0]
        else:
            assert isinstance(f.function, Lambda)
            function = Lambda(f.function.params[1:], (mapped,))
            (item,) = inner.apply(Bound(function, f.env), *values)
        item = dense(item)
        data, dims = item.data, item.dims
        if keep is not None:
            dims = Dims(tuple((n, state.dims[n]) for n in dict.fromkeys([*item.dims.names, *dense(keep).dims.names])))
            data = aligned(Dense(item.data, item.dims), dims)
            data = lax.select(aligned(dense(keep), dims), data, lax.full_like(data, identity_of(op, data.dtype)))
        elif item.present is not None:
            raise AssertionError("an item is absent only where its slot is")
        return Dense(data, dims), inner.failures

    items, failures = jax.vmap(one, in_axes=(levels.axes,), axis_size=count)(levels.arrays)
    for check, failed in zip(inner.checks, failures, strict=True):
        context.checks.append(check)
        context.failures.append(first_of(failed))
    start = identity_of(op, items.data.dtype)
    folded = reduced(items.data, start, op, 0, context.platform, context.loose)
    return (elementwise(SCALAR[op], [init[0], Dense(folded, items.dims)], state.dims),)


# The best element of each row and its index as one reduction of pairs, where NaN need not be kept.
#
# It compiles in less time than the reductions that keep NaN, and as fast as `lax.argmax`, of which it takes 0.22 of
# the time for 1,024 rows of 1,024 elements ("argmax" in `tests/benchmarks/lift.py`): there, which
# value stays depends on both the values and the indices, so that each step waits for the index of the last one as
# well.


def best_of(
    a: jax.Array, place: jax.Array, axis: int, start: tuple[Any, Any], *, largest: bool, least: bool, replaced: bool
) -> tuple[jax.Array, jax.Array]:
    """The index and the value of each row of floats or whole numbers.

    `place` has the index of each element, and `start` the index and the value that every row begins with. The `largest`
    or the smallest counts, of equal ones that of the `least` or of the greatest index. A NaN is passed over, or is
    `replaced` by what follows, as far as XLA goes through a row in its order.
    """
    at, nothing = np.asarray(start[0], place.dtype), np.asarray(start[1], a.dtype)
    better, first = (lax.gt if largest else lax.lt), (lax.lt if least else lax.gt)

    def step(old: Any, new: Any) -> tuple[jax.Array, jax.Array]:
        (v, i), (w, j) = old, new
        even = lax.bitwise_and(lax.eq(v, w), first(i, j) if replaced else first(j, i))
        # the value does not wait for the index
        if replaced:
            kept = better(v, w)
            return lax.select(kept, v, w), lax.select(lax.bitwise_or(kept, even), i, j)
        taken = better(w, v)
        return lax.select(taken, w, v), lax.select(lax.bitwise_or(taken, even), j, i)

    @jax.custom_jvp
    def reduced(x: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, index = lax.reduce((x, place), (nothing, at), step, (axis,))
        return index, value

    def jvp(primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, Any]) -> Any:
        """The tangent of the value is that of its element; indices have none."""
        (x, place), (dx, _) = primals, tangents
        index, value = reduced(x, place)
        rows = [d for d in range(x.ndim) if d != axis]
        same = [lax.eq(m, lax.broadcast_in_dim(y, x.shape, rows)) for m, y in ((place, index), (x, value))]
        share = lax.select(lax.bitwise_and(*same), dx, lax.full_like(dx, 0))
        total = lax.reduce(share, np.zeros((), x.dtype), lax.add, (axis,))
        return (index, value), (np.zeros(index.shape, jax.dtypes.float0), total)

    reduced.defjvp(jvp)
    return reduced(a, place)


# `argreduce` as two reductions, or as one of pairs where NaN need not be kept.
#
# Both are less than `lax.argmax` in every case (`python -m tests.benchmarks.forms`).


def argument_reduction(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """The element and its index as two reductions; None where it is folded level by level."""
    *init, (a,), (k,) = args
    dim = node.static.dim
    if any(presence(leaf) is not None for leaf in (*(leaf for (leaf,) in init), a, k)):
        return None
    if not isinstance(a, Dense) or not isinstance(k, Dense) or dim not in a.dims or any(d != dim for d in k.dims):
        return None
    interval = bcast([node.args[2].tensor, node.args[3].tensor])[dim]
    if len(interval) <= MOST_UNROLLED:
        return None
    state = node.tensor.dims
    row = Dims(((dim, interval),))
    whole = cut(a, Dims((*row.items, *((n, state[n]) for n in a.dims.names if n != dim))))
    assert isinstance(whole, Dense)
    rest = whole.dims.without(dim)
    ascending = isinstance(index := node.args[3], Call) and (index.op, index.static) == ("pos", (dim,))
    small = ascending and max(abs(interval.start), abs(interval.stop)) < EXACT_IN_FLOAT32
    axis = whole.dims.names.index(dim)
    start = _start(node, interval)
    if context.loose and start is not None and whole.data.dtype.kind in "fV" and axis == whole.data.ndim - 1:
        # along columns each step of it would wait for the one before
        # in one reduction the order of a row decides what comes of its NaNs
        kind: ArgReduce = node.static
        place, least = lax.broadcast_in_dim(aligned(k, row), whole.data.shape, (axis,)), kind.ties in ("old", "least")
        pair = best_of(whole.data, place, axis, start, largest=kind.largest, least=least, replaced=kind.replaced)
        return tuple(cut(Dense(leaf, rest), state) for leaf in pair[::-1])
    index, value, alone = _arg_reduced(whole.data, aligned(k, row), axis, node.static, small, context.platform)
    extremes = Dense(value, rest), Dense(index, rest)
    assert node.definition is not None
    fold = node.definition.body.children[0]
    assert isinstance(fold, Lambda)
    first = tuple(leaf for (leaf,) in init)
    result = context.apply(Bound(fold, {}), first, *((leaf,) for leaf in extremes))
    if alone is not None:
        # behind a NaN, or among nothing but NaNs, what the fold starts from and what was found do not meet
        apart = extremes if node.static.replaced else first
        result = tuple(_chosen(Dense(alone, rest), x, y, state) for x, y in zip(apart, result, strict=True))
    return tuple(cut(leaf, state) for leaf in result)


def _chosen(condition: Dense, x: Leaf, y: Leaf, dims: Dims) -> Dense:
    assert isinstance(x, Dense) and isinstance(y, Dense)
    return Dense(lax.select(aligned(condition, dims), aligned(x, dims), aligned(y, dims)), dims)


# Rows


EXACT_IN_FLOAT32 = 2**24
"""Whole numbers below are floats."""


def _arg_reduced(
    a: jax.Array, k: jax.Array, axis: int, kind: ArgReduce, small: bool, platform: str
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """The index and the value of each row, and which rows stand alone, for reasons of NaN; `small` are the indices."""
    place = lax.broadcast_in_dim(k, a.shape, (axis,))
    if a.dtype.kind not in "fV":
        return *_arg_reduced_among(a, place, None, axis, kind, small, platform), None
    missing = lax.ne(a, a)
    if not kind.replaced:
        valid = lax.bitwise_not(missing)
        return *_arg_reduced_among(a, place, valid, axis, kind, small, platform), lax.bitwise_not(
            lax.reduce(valid, False, lax.bitwise_or, (axis,))
        )
    # only what follows the last NaN counts; a row that ends with one gives that one
    position = lax.broadcasted_iota("int32", a.shape, axis)
    few = a.shape[axis] < EXACT_IN_FLOAT32
    last = _place(position, missing, "max", axis, few, platform)
    last = lax.max(last, lax.full_like(last, -1))
    valid = lax.gt(position, lax.broadcast_in_dim(last, a.shape, [d for d in range(a.ndim) if d != axis]))
    index, value = _arg_reduced_among(a, place, valid, axis, kind, small, platform)
    end = a.shape[axis] - 1
    at_end = lax.eq(last, lax.full_like(last, end))
    index = lax.select(at_end, lax.broadcast(lax.index_in_dim(k, end, keepdims=False), index.shape), index)
    value = lax.select(at_end, lax.index_in_dim(a, end, axis, keepdims=False), value)
    return index, value, lax.ge(last, lax.full_like(last, 0))


def _start(node: Call, interval: Interval) -> tuple[Any, Any] | None:
    """The index and the value that a fold starts from, where both are numbers and no element ties with them wrongly."""
    value, index = (literal_of(part) for part in node.args[:2])
    ordered = node.static.ties in ("least", "greatest") or (index is not None and index < interval.start)
    return None if index is None or value is None or value != value or not ordered else (index, value)


def _arg_reduced_among(
    a: jax.Array, place: jax.Array, valid: jax.Array | None, axis: int, kind: ArgReduce, small: bool, platform: str
) -> tuple[jax.Array, jax.Array]:
    """The index and the value of each row among the elements that are valid."""
    rows = [d for d in range(a.ndim) if d != axis]
    op = "max" if kind.largest else "min"
    nothing = _nothing(a, op)
    if valid is not None:
        a = _apart(lax.select(valid, a, lax.full_like(a, nothing)), platform)
    value = reduced(a, nothing, op, axis, platform, loose=True)
    hit = lax.eq(a, lax.broadcast_in_dim(value, a.shape, rows))
    if valid is not None:
        hit = lax.bitwise_and(hit, valid)
    return _place(place, hit, "min" if kind.ties in ("old", "least") else "max", axis, small, platform), value


def _place(place: jax.Array, hit: jax.Array, op: str, axis: int, small: bool, platform: str) -> jax.Array:
    """The least or the greatest place that is hit.

    Small ones go through floats, whose reductions XLA's CPU backend compiles in a third of the time, and runs faster.
    """
    floats = small and platform == "cpu"
    x = lax.convert_element_type(place, "float32") if floats else place
    nothing = _nothing(x, op)
    place_of_hit = lax.select(hit, x, lax.full_like(x, nothing))
    if not floats:
        return reduced(place_of_hit, nothing, op, axis, platform, loose=True)
    place_of_hit = reduced(_apart(place_of_hit, platform), nothing, op, axis, platform, loose=True)
    none = lax.full(place_of_hit.shape, _nothing(place, op), place.dtype)
    return lax.select(lax.is_finite(place_of_hit), lax.convert_element_type(place_of_hit, place.dtype), none)


def _apart(x: jax.Array, platform: str) -> jax.Array:
    """The array in memory, on the CPU: its reduction is the library's then."""
    return lax.optimization_barrier(x) if platform == "cpu" else x


def _nothing(x: jax.Array, op: str) -> np.ndarray[Any, Any]:
    return identity_of(op, x.dtype)


# Scans by an operation whose order is free, as XLA's cumulative operation: in parallel, where columns are few.
#
# A kernel runs a scan level by level, and a GPU waits for its memory at each; with many columns it has others to go
# on with. CPUs run such a scan faster as it is written.

MOST_COLUMNS = 1 << 14
"""So many keep a GPU busy."""
FEWEST_LEVELS = 128
"""Shorter scans take as long as two launches."""


def _extremes(function: Callable[..., jax.Array], op: str) -> Callable[..., jax.Array]:
    """A cumulative extreme, differentiated as the scan that it is: JAX's own multiplies tangents by 0."""

    def cumulative(x: jax.Array, axis: int, reverse: bool) -> jax.Array:
        value = jax.custom_jvp(partial(function, axis=axis, reverse=reverse))
        scanned = partial(lax.associative_scan, SCALAR[op], axis=axis, reverse=reverse)
        value.defjvp(lambda primals, tangents: jax.jvp(scanned, primals, tangents))
        return value(x)

    return cumulative


CUMULATIVE: Mapping[str, Callable[..., jax.Array]] = {
    "plus": lax.cumsum, "multiplies": lax.cumprod,
    "max": _extremes(lax.cummax, "max"), "min": _extremes(lax.cummin, "min"),
}  # fmt: skip


def prefix(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """A scan of one array by one operation, along the axis where it stands: nothing is turned."""
    f, init, *values = args
    forward, dim = node.static
    interval, state = node.tensor.dims[dim], f.function.type.params[0].dims
    if context.platform != "gpu" or len(interval) < FEWEST_LEVELS or state.size > MOST_COLUMNS:
        return None
    fold = monoid(f.function, 1) if len(values) == 1 and len(init) == 1 else None
    if fold is None or fold[0] not in CUMULATIVE:
        return None
    if fold[1] is not None and not (isinstance(f.function, Lambda) and fold[1] == f.function.params[1]):
        return None  # what is combined with the state is not the argument itself
    if any(presence(x) is not None for v in (init, *values) for x in v):
        return None
    (leaf,), op = values[0], fold[0]
    part = dense(cut(leaf, Dims(((dim, interval), *((n, i) for n, i in state.items if n in leaf.dims)))))
    if part.data.dtype.kind not in "fViu":
        return None
    prefixes = CUMULATIVE[op](part.data, axis=part.dims.names.index(dim), reverse=not forward)
    return (elementwise(SCALAR[op], [init[0], Dense(prefixes, part.dims)], node.tensor.dims),)


# The inner folds of pools that are kept (`tensorir.passes.reductions`): `reduce_window` over one axis, not the last
# one.


def strip(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """An inner fold of a pool by max or min, of whose windows it is known what they are of."""
    (value,) = args
    fold = context.provenance.fold_of(value[0]) if len(value) == 1 else None
    if fold is None or fold[0] not in ("max", "min") or not isinstance(leaf := fold[2], Slots) or leaf.dim != fold[1]:
        return None
    known = context.provenance.window(leaf)
    if known is None or known[0].present is not None or len(known[1]) != 1:
        return None
    source, (window,) = known
    places = _places(source, window, leaf)
    axis = source.dims.names.index(window.source)
    if places is None or axis == len(source.dims) - 1:
        return None
    first, points, dims = places
    if first or dims.items != value[0].dims.items:
        return None
    return (Dense(_strip_folded(source.data, fold[0], axis, points, window), dims),)


def _places(source: Dense, window: Window, leaf: Slots) -> tuple[int, int, Dims] | None:
    """The start of the first window, the extent of each, and the dims of the fold; None if it goes backwards."""
    one = leaf.leaves[0]
    if window.stride < 1 or window.dilation < 1 or not isinstance(one, Dense) or one.present is not None:
        return None
    dims = Dims(
        tuple((window.outer, one.dims[window.outer]) if n == window.source else (n, i) for n, i in source.dims.items)
    )
    if one.dims.items != dims.items:
        return None
    first = window.stride * dims[window.outer].start + window.dilation * leaf.start + window.constant
    return first - source.dims[window.source].start, len(leaf.leaves), dims


def _strip_folded(x: jax.Array, op: str, axis: int, points: int, window: Window) -> jax.Array:
    """All windows along an axis; differentiated as the fold of slices that it is."""
    length = x.shape[axis] - window.dilation * (points - 1)
    sizes, strides, dilations = (
        [n if d == axis else 1 for d in range(x.ndim)] for n in (points, window.stride, window.dilation)
    )

    def slices(x: jax.Array) -> jax.Array:
        starts = (window.dilation * k for k in range(points))
        return reduce(SCALAR[op], [lax.slice_in_dim(x, a, a + length, window.stride, axis) for a in starts])

    @jax.custom_jvp
    def folded(x: jax.Array) -> jax.Array:
        start = identity_of(op, x.dtype)
        return lax.reduce_window(x, start, MONOIDS[op], sizes, strides, "VALID", window_dilation=dilations)

    folded.defjvp(lambda primals, tangents: jax.jvp(slices, primals, tangents))
    return folded(x)


# `top_k` by one float32 key: XLA's selection, 3 to 300 times as fast as the sort.
#
# Of other types XLA sorts all the same. Equal keys keep the order in which they stand, in both.


def first(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    key, whole = selecting_key(node), bcast([a.tensor for a in node.args])
    if key is None or any(masks_of(x) for x in args):
        return None
    dim, count, keys, descending = node.static
    order = Dims((*whole.without(dim).items, (dim, whole[dim])))
    arrays = [aligned(dense(x), order) for (x,) in args]
    # of other types XLA selects the first by sorting
    if arrays[key].dtype != np.float32 or not count:
        return None
    dims = order.with_interval(dim, node.tensor.dims[dim])
    selected = _first(arrays, key, count, descending, nan_first=keys == 2 and descending)
    return tuple(Dense(a, dims) for a in selected)


def _first(arrays: Sequence[jax.Array], place: int, count: int, descending: bool, nan_first: bool) -> list[jax.Array]:
    """The first of each array along the last axis, in the order of one of them."""

    def by_selection(key: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
        # equal keys of both signs of zero, or of NaN, keep the order in which they stand
        zero, nan = lax.full_like(key, 0), lax.full_like(key, np.nan)
        key = lax.select(lax.eq(key, zero), zero, lax.select(lax.ne(key, key), nan, key))
        _, places = lax.top_k(key, count)
        return [_taken(a, places) for a in arrays]

    def by_sorting(key: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
        axis = key.ndim - 1
        ordered = lax.sort([lax.neg(key), *arrays], dimension=axis, is_stable=True, num_keys=1)[1:]
        return [lax.slice_in_dim(a, 0, count, axis=axis) for a in ordered]

    key = arrays[place] if descending else lax.neg(arrays[place])
    if nan_first:
        return by_selection(key, *arrays)
    # a NaN stands last in the order, and is what XLA selects first
    missing = lax.reduce(lax.ne(key, key), False, lax.bitwise_or, tuple(range(key.ndim)))
    return lax.cond(missing, by_sorting, by_selection, key, *arrays)


def _taken(x: jax.Array, places: jax.Array) -> jax.Array:
    """The elements of each row at some places of it."""
    rows = tuple(range(x.ndim - 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=(x.ndim - 1,), start_index_map=(x.ndim - 1,),
        operand_batching_dims=rows, start_indices_batching_dims=rows,
    )  # fmt: skip
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(x, lax.expand_dims(places, (x.ndim,)), numbers, (1,) * x.ndim, mode=mode)
