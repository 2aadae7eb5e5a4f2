"""Folds as XLA's reductions: of an axis, of pairs, of windows, of prefixes, and the largest elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Context, conjunction, first_of, masks_of
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
    """The operation ⊕ of `MONOIDS` and the expression e of a fold λ(a, x...) → a ⊕ e(x...) or e(x...) ⊕ a; None for
    any other.

    `count`: the number of folded arrays. For one array folded by ⊕ itself the expression is None.
    """
    match function:
        case Lambda((a, *_), (Call(op, (x, e)),)) if op in MONOIDS and x == a and a not in e.free:
            return op, e
        case Lambda((a, *_), (Call(op, (e, x)),)) if op in MONOIDS and x == a and a not in e.free:
            return op, e
        case _:
            op = combiner(function) if count == 1 else None
            return (op, None) if op in MONOIDS else None


def _fold_axis(node: Call) -> tuple[Any, ...]:
    """The dim that a fold goes over, its interval, and per argument whether it has the dim."""
    dim = node.static.dim
    having = [dim in a.tensor.dims for a in node.args[2:]]
    interval = next(a.tensor.dims[dim] for a, has in zip(node.args[2:], having, strict=True) if has)
    return dim, interval, having


def along_axis(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: a fold of one array by one operation as an XLA reduction along the axis where it stands: moving it costs
    a copy.

    None where another lowering is used: the fold applies more than the operation, an operand may be absent, or the fold
    is short enough to be unrolled. The reduction starts from the literal of the fold if the operation is idempotent,
    else from the identity, and `init` is combined with its result. Where each NaN of an array was replaced by a number
    before, the array itself is reduced (`reduced_numbers`).
    """
    f, init, *values = lowered
    dim, interval, _ = _fold_axis(node)
    fold = monoid(f.function, len(values))
    if fold is None or fold[1] is not None or len(values) != 1 or len(init) != 1 or presence(init[0]) is not None:
        return None
    (leaf,) = values[0]
    if not isinstance(leaf, Dense) or leaf.present is not None or dim not in leaf.dims:
        return None
    if unrolls(context, node, len(interval)):
        return None
    result_dims: Dims = f.function.type.params[0].dims
    operand = dense(cut(leaf, Dims(((dim, interval), *((n, result_dims[n]) for n in leaf.dims.names if n != dim)))))
    literal_init = literal_of(node.args[1])
    # a NaN, which is not equal to itself, is not folded in
    init_is_folded_in = literal_init is not None and literal_init == literal_init and TABLE[fold[0]].idempotent
    start = np.array(
        literal_init if init_is_folded_in else identity_of(fold[0], operand.data.dtype), operand.data.dtype
    )
    computed = not isinstance(node.args[2], Var)
    axis = operand.dims.names.index(dim)
    nan_source = context.provenance.with_nan(leaf)
    stencil = id(node) in context.known.stencil_reductions and "sums_as_loops" not in context.without
    if stencil and nan_source is None and parts_pay(operand.data, axis, context.platform):
        total = reduced_in_parts(operand.data, start, fold[0], axis, context.platform, context.loose)
    elif nan_source is None:
        total = reduced(operand.data, start, fold[0], axis, context.platform, context.loose, computed)
    else:
        source = aligned(dense(cut(nan_source[0], operand.dims)), operand.dims)
        if id(node) in context.known.unseen:
            total = reduced(source, start, fold[0], axis, context.platform, True, computed)
        else:
            total = reduced_numbers(source, nan_source[1], start, fold[0], axis, context.platform)
    folded = Dense(total, operand.dims.without(dim))
    # XLA fuses what follows with the reduction itself: a softmax in 0.8 of the time
    result = folded if init_is_folded_in else elementwise(SCALAR[fold[0]], [init[0], folded], result_dims)
    return (cut(result, node.tensor.dims),)


def mapped(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: a fold λ(a, x...) → a ⊕ e(x...) as e at all levels at once (`vmap`), reduced by XLA in any order.

    None if the fold has another form or is short enough to be unrolled, and on the CPU for long rows that a loop reads
    in place.
    """
    f, init, *values = lowered
    dim, interval, having = _fold_axis(node)
    fold = monoid(f.function, len(values)) if len(init) == 1 else None
    if fold is None or unrolls(context, node, len(interval)):
        return None
    state: TensorType = f.function.type.params[0]
    levels = levels_of(values, dim, interval)
    if not any(levels.axes) and by_rows(DTYPES[state.leaves[0]], state.dims.size, False, context.platform):
        # step by step nothing but the rows themselves is read
        return None
    masks_without_dim = [m for v, has in zip(values, having, strict=True) if not has for m in masks_of(v)]
    result = _mapped_and_reduced(context, f, init, levels, having, fold, state, len(interval))
    for mask in masks_without_dim:
        result = tuple(with_present(leaf, within_state(mask, state.dims), node.tensor.dims) for leaf in result)
    return tuple(cut(leaf, node.tensor.dims) for leaf in result)


def _mapped_and_reduced(
    context: Context, f: Bound[Value], init: Value, levels: Levels, having: Sequence[bool],
    fold: tuple[str, Expr | None], state: TensorType, count: int,
) -> Value:  # fmt: skip
    """The result of `fold`, an operation and the mapped expression (None: the array itself), over all `count`
    levels.

    `having`: per argument, whether it has the dim; a level at which one of these is absent counts as the identity.
    An expression that is absent at a level that counts makes the result absent.
    Checks of the expression are added to the context with the first failing level.
    """
    op, mapped = fold
    inner = context.inner()

    def one(arrays: list[jax.Array]) -> tuple[Dense, list[jax.Array]]:
        """The mapped expression at one level, the identity where the level is absent, and the failures of its
        checks.
        """
        values = levels.rebuild(arrays)
        keep = counted(values, having)
        if mapped is None:
            (item,) = values[0]
        else:
            assert isinstance(f.function, Lambda)
            function = Lambda(f.function.params[1:], (mapped,))
            (item,) = inner.apply(Bound(function, f.env), *values)
        item = dense(item)
        mask = conjunction([m for m in (keep, item.present) if m is not None], state.dims)
        if mask is None:
            return item, inner.failures
        mask, present = dense(mask), item.present
        dims = Dims(tuple((n, state.dims[n]) for n in dict.fromkeys([*item.dims.names, *mask.dims.names])))
        data = aligned(Dense(item.data, item.dims), dims)
        data = lax.select(aligned(mask, dims), data, lax.full_like(data, identity_of(op, data.dtype)))
        if present is not None and keep is not None:
            # what is absent in a slot that is skipped does not count
            or_skipped = lambda present, keep: lax.bitwise_or(present, lax.bitwise_not(keep))
            present = dense(elementwise(or_skipped, [present, keep], state.dims))
        return Dense(data, dims, present), inner.failures

    items, failures = jax.vmap(one, in_axes=(levels.axes,), axis_size=count)(levels.arrays)
    for check, failed in zip(inner.checks, failures, strict=True):
        context.checks.append(check)
        context.failures.append(first_of(failed))
    start = identity_of(op, items.data.dtype)
    folded = reduced(items.data, start, op, 0, context.platform, context.loose)
    present = None
    if items.present is not None:
        present = Dense(lax.reduce(items.present.data, True, lax.bitwise_and, (0,)), items.present.dims)
    return (elementwise(SCALAR[op], [init[0], Dense(folded, items.dims, present)], state.dims),)


# The best element of each row and its index as one reduction of pairs, where NaN need not be kept.
#
# It compiles in less time than the reductions that keep NaN, and as fast as `lax.argmax`, of which it takes 0.22 of
# the time for 1,024 rows of 1,024 elements ("argmax" in `tests/benchmarks/lift.py`): there, which
# value stays depends on both the values and the indices, so that each step waits for the index of the last one as
# well.


def best_of(
    a: jax.Array, place: jax.Array, axis: int, start: tuple[Any, Any], *, largest: bool, least: bool, replaced: bool
) -> tuple[jax.Array, jax.Array]:
    """The index and the value of the best element of each row along `axis`, by one reduction of (value, index)
    pairs.

    `a`: floats or whole numbers. `place`: the index of each element. `start`: the index and the value that every row
    begins with. `largest`: the largest element is the best, else the smallest. `least`: of equal elements that of the
    least index, else of the greatest. `replaced`: a NaN is replaced by the element that follows it, else passed over;
    XLA may reorder a row, so this is a best effort. The value is differentiable.
    """
    at, nothing = np.asarray(start[0], place.dtype), np.asarray(start[1], a.dtype)
    better, wins_tie = (lax.gt if largest else lax.lt), (lax.lt if least else lax.gt)

    def step(old: Any, new: Any) -> tuple[jax.Array, jax.Array]:
        """The better of two (value, index) pairs; the value is selected without the index, so that it does not wait
        for it.
        """
        (v, i), (w, j) = old, new
        index_wins_tie = lax.bitwise_and(lax.eq(v, w), wins_tie(i, j) if replaced else wins_tie(j, i))
        # the value does not wait for the index
        if replaced:
            old_wins = better(v, w)
            return lax.select(old_wins, v, w), lax.select(lax.bitwise_or(old_wins, index_wins_tie), i, j)
        new_wins = better(w, v)
        return lax.select(new_wins, w, v), lax.select(lax.bitwise_or(new_wins, index_wins_tie), j, i)

    @jax.custom_jvp
    def reduced(x: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The index and the value of the best element of each row of x."""
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


def argument_reduction(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: `argreduce` of one array as two reductions, of values and of indices; None where it is folded level by
    level.

    None if an operand may be absent, if indices vary along other dims, or for rows of at most `MOST_UNROLLED` elements.
    With `numerics="loose"`, floats in rows along the last axis take one reduction of pairs (`best_of`). Otherwise the
    fold of the definition is applied once, to the start and the best of each row.
    """
    *init, (a,), (k,) = lowered
    dim = node.static.dim
    if any(presence(leaf) is not None for leaf in (*(leaf for (leaf,) in init), a, k)):
        return None
    if not isinstance(a, Dense) or not isinstance(k, Dense) or dim not in a.dims or any(d != dim for d in k.dims):
        return None
    interval = bcast([node.args[2].tensor, node.args[3].tensor])[dim]
    if len(interval) <= MOST_UNROLLED:
        return None
    state = node.tensor.dims
    row_dims = Dims(((dim, interval),))
    operand = cut(a, Dims((*row_dims.items, *((n, state[n]) for n in a.dims.names if n != dim))))
    assert isinstance(operand, Dense)
    result_dims = operand.dims.without(dim)
    ascending = isinstance(index := node.args[3], Call) and (index.op, index.static) == ("pos", (dim,))
    exact_in_float32 = ascending and max(abs(interval.start), abs(interval.stop)) < EXACT_IN_FLOAT32
    axis = operand.dims.names.index(dim)
    start = _literal_start(node, interval)
    if context.loose and start is not None and operand.data.dtype.kind in "fV" and axis == operand.data.ndim - 1:
        # along columns each step of it would wait for the one before
        # in one reduction the order of a row decides what comes of its NaNs
        kind: ArgReduce = node.static
        place, least = (
            lax.broadcast_in_dim(aligned(k, row_dims), operand.data.shape, (axis,)),
            kind.ties in ("old", "least"),
        )
        pair = best_of(operand.data, place, axis, start, largest=kind.largest, least=least, replaced=kind.replaced)
        return tuple(cut(Dense(leaf, result_dims), state) for leaf in pair[::-1])
    index, value, skips_start = _arg_reduced(
        operand.data, aligned(k, row_dims), axis, node.static, exact_in_float32, context.platform
    )
    extremes = Dense(value, result_dims), Dense(index, result_dims)
    assert node.definition is not None
    fold = node.definition.body.children[0]
    assert isinstance(fold, Lambda)
    initial = tuple(leaf for (leaf,) in init)
    result = context.apply(Bound(fold, {}), initial, *((leaf,) for leaf in extremes))
    if skips_start is not None:
        # behind a NaN, or among nothing but NaNs, what the fold starts from and what was found do not meet
        row_result = extremes if node.static.replaced else initial
        result = tuple(
            _selected(Dense(skips_start, result_dims), x, y, state) for x, y in zip(row_result, result, strict=True)
        )
    return tuple(cut(leaf, state) for leaf in result)


def _selected(condition: Dense, x: Leaf, y: Leaf, dims: Dims) -> Dense:
    """x where the condition holds, y elsewhere, on `dims`."""
    assert isinstance(x, Dense) and isinstance(y, Dense)
    return Dense(lax.select(aligned(condition, dims), aligned(x, dims), aligned(y, dims)), dims)


# Rows


EXACT_IN_FLOAT32 = 2**24
"""Whole numbers below are floats."""


def _arg_reduced(
    a: jax.Array, k: jax.Array, axis: int, kind: ArgReduce, small: bool, platform: str
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """The index and the value of the best of each row, and a mask of rows that are not combined with the fold's
    start.

    `a`: the values. `k`: the index along `axis`. `kind`: which element is the best, and what a NaN does. `small`: the
    indices are exact in float32. The mask is None where no NaN is possible; it holds where a NaN was the last to
    replace the state (`kind.replaced`), or where a row is NaN throughout.
    """
    place = lax.broadcast_in_dim(k, a.shape, (axis,))
    if a.dtype.kind not in "fV":
        return *_arg_reduced_among(a, place, None, axis, kind, small, platform), None
    is_nan = lax.ne(a, a)
    if not kind.replaced:
        valid = lax.bitwise_not(is_nan)
        return *_arg_reduced_among(a, place, valid, axis, kind, small, platform), lax.bitwise_not(
            lax.reduce(valid, False, lax.bitwise_or, (axis,))
        )
    # only what follows the last NaN counts; a row that ends with one gives that one
    position = lax.broadcasted_iota("int32", a.shape, axis)
    positions_are_exact = a.shape[axis] < EXACT_IN_FLOAT32
    last_nan = _hit_place(position, is_nan, "max", axis, positions_are_exact, platform)
    last_nan = lax.max(last_nan, lax.full_like(last_nan, -1))
    valid = lax.gt(position, lax.broadcast_in_dim(last_nan, a.shape, [d for d in range(a.ndim) if d != axis]))
    index, value = _arg_reduced_among(a, place, valid, axis, kind, small, platform)
    end = a.shape[axis] - 1
    at_end = lax.eq(last_nan, lax.full_like(last_nan, end))
    index = lax.select(at_end, lax.broadcast(lax.index_in_dim(k, end, keepdims=False), index.shape), index)
    value = lax.select(at_end, lax.index_in_dim(a, end, axis, keepdims=False), value)
    return index, value, lax.ge(last_nan, lax.full_like(last_nan, 0))


def _literal_start(node: Call, interval: Interval) -> tuple[Any, Any] | None:
    """The index and the value that a fold starts from, as numbers; None if they are no literals or an element could
    tie wrongly.

    An index below the interval, or a rule of ties by index, makes ties independent of the order of reduction.
    """
    value, index = (literal_of(part) for part in node.args[:2])
    ordered = node.static.ties in ("least", "greatest") or (index is not None and index < interval.start)
    return None if index is None or value is None or value != value or not ordered else (index, value)


def _arg_reduced_among(
    a: jax.Array, place: jax.Array, valid: jax.Array | None, axis: int, kind: ArgReduce, small: bool, platform: str
) -> tuple[jax.Array, jax.Array]:
    """The index and the value of the best element of each row among those that `valid` marks; None is all.

    `place`: the index of each element. `small`: the indices are exact in float32.
    """
    rows = [d for d in range(a.ndim) if d != axis]
    op = "max" if kind.largest else "min"
    nothing = _identity(a, op)
    if valid is not None:
        a = _materialised(lax.select(valid, a, lax.full_like(a, nothing)), platform)
    value = reduced(a, nothing, op, axis, platform, loose=True)
    hit = lax.eq(a, lax.broadcast_in_dim(value, a.shape, rows))
    if valid is not None:
        hit = lax.bitwise_and(hit, valid)
    return _hit_place(place, hit, "min" if kind.ties in ("old", "least") else "max", axis, small, platform), value


def _hit_place(place: jax.Array, hit: jax.Array, op: str, axis: int, small: bool, platform: str) -> jax.Array:
    """Per row along `axis`, the least (`op` "min") or greatest ("max") place where `hit` is true; the identity of
    `op` if none.

    `small` places go through floats on the CPU, whose reductions XLA compiles in a third of the time, and runs faster.
    """
    as_floats = small and platform == "cpu"
    x = lax.convert_element_type(place, "float32") if as_floats else place
    nothing = _identity(x, op)
    place_of_hit = lax.select(hit, x, lax.full_like(x, nothing))
    if not as_floats:
        return reduced(place_of_hit, nothing, op, axis, platform, loose=True)
    place_of_hit = reduced(_materialised(place_of_hit, platform), nothing, op, axis, platform, loose=True)
    no_hit = lax.full(place_of_hit.shape, _identity(place, op), place.dtype)
    return lax.select(lax.is_finite(place_of_hit), lax.convert_element_type(place_of_hit, place.dtype), no_hit)


def _materialised(x: jax.Array, platform: str) -> jax.Array:
    """The array in memory, on the CPU: its reduction is the library's then."""
    return lax.optimization_barrier(x) if platform == "cpu" else x


def _identity(x: jax.Array, op: str) -> np.ndarray[Any, Any]:
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
    """A cumulative extreme, differentiated as an associative scan by `op`: JAX's own derivative multiplies tangents
    by 0.
    """

    def cumulative(x: jax.Array, axis: int, reverse: bool) -> jax.Array:
        """The cumulative extreme of x along an axis."""
        value = jax.custom_jvp(partial(function, axis=axis, reverse=reverse))
        scanned = partial(lax.associative_scan, SCALAR[op], axis=axis, reverse=reverse)
        value.defjvp(lambda primals, tangents: jax.jvp(scanned, primals, tangents))
        return value(x)

    return cumulative


CUMULATIVE: Mapping[str, Callable[..., jax.Array]] = {
    "plus": lax.cumsum, "multiplies": lax.cumprod,
    "max": _extremes(lax.cummax, "max"), "min": _extremes(lax.cummin, "min"),
}  # fmt: skip


def prefix(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule, on GPUs: a scan of one array by one operation as an XLA cumulative operation along the axis where it
    stands.

    None on other platforms, for short scans or many columns (`FEWEST_LEVELS`, `MOST_COLUMNS`), for other functions than
    one of `CUMULATIVE`, and if an operand may be absent.
    """
    f, init, *values = lowered
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
    operand = dense(cut(leaf, Dims(((dim, interval), *((n, i) for n, i in state.items if n in leaf.dims)))))
    if operand.data.dtype.kind not in "fViu":
        return None
    prefixes = CUMULATIVE[op](operand.data, axis=operand.dims.names.index(dim), reverse=not forward)
    return (elementwise(SCALAR[op], [init[0], Dense(prefixes, operand.dims)], node.tensor.dims),)


# The inner folds of pools that are kept (`tensorir.passes.reductions`): `reduce_window` over one axis, not the last
# one.


def strip(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: the inner fold of a pool by max or min, which is stored, as one `lax.reduce_window` along one axis.

    None if the folded array is no known window of one dim, if the window's axis is the last, or starts inside the
    array.
    """
    (value,) = lowered
    fold = context.provenance.fold_of(value[0]) if len(value) == 1 else None
    if fold is None or fold[0] not in ("max", "min") or not isinstance(leaf := fold[2], Slots) or leaf.dim != fold[1]:
        return None
    source_and_windows = context.provenance.window(leaf)
    if source_and_windows is None or source_and_windows[0].present is not None or len(source_and_windows[1]) != 1:
        return None
    source, (window,) = source_and_windows
    places = _pool_geometry(source, window, leaf)
    axis = source.dims.names.index(window.source)
    if places is None or axis == len(source.dims) - 1:
        return None
    first, points, dims = places
    if first or dims.items != value[0].dims.items:
        return None
    return (Dense(_strip_folded(source.data, fold[0], axis, points, window), dims),)


def _pool_geometry(source: Dense, window: Window, leaf: Slots) -> tuple[int, int, Dims] | None:
    """The first window's start relative to the source, the points of each window, and the dims of the fold.

    `leaf`: the slots of the window, one per point. None if stride or dilation is negative, or if a slot has a mask or
    other dims.
    """
    slot = leaf.leaves[0]
    if window.stride < 1 or window.dilation < 1 or not isinstance(slot, Dense) or slot.present is not None:
        return None
    dims = Dims(
        tuple((window.outer, slot.dims[window.outer]) if n == window.source else (n, i) for n, i in source.dims.items)
    )
    if slot.dims.items != dims.items:
        return None
    start = window.stride * dims[window.outer].start + window.dilation * leaf.start + window.constant
    return start - source.dims[window.source].start, len(leaf.leaves), dims


def _strip_folded(x: jax.Array, op: str, axis: int, points: int, window: Window) -> jax.Array:
    """The fold by `op` of all windows of `points` elements along an axis; differentiated as the fold of strided
    slices.
    """
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


def top_k(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: `top_k` by one float32 key as `lax.top_k` of the key and gathers of all operands at its places.

    None for several keys, other key types, no points, or operands that may be absent: those are sorted.
    """
    key, common_dims = selecting_key(node), bcast([a.tensor for a in node.args])
    if key is None or any(masks_of(x) for x in lowered):
        return None
    dim, count, keys, descending = node.static
    order = Dims((*common_dims.without(dim).items, (dim, common_dims[dim])))
    arrays = [aligned(dense(x), order) for (x,) in lowered]
    # of other types XLA selects the first by sorting
    if arrays[key].dtype != np.float32 or not count:
        return None
    dims = order.with_interval(dim, node.tensor.dims[dim])
    selected = _leading(arrays, key, count, descending, nan_first=keys == 2 and descending)
    return tuple(Dense(a, dims) for a in selected)


def _leading(arrays: Sequence[jax.Array], place: int, count: int, descending: bool, nan_first: bool) -> list[jax.Array]:
    """The first `count` elements of each array along the last axis, in the order of the array number `place`.

    `nan_first`: NaN keys come first, as XLA's selection has them; otherwise arrays with a NaN key are sorted at run
    time.
    """

    def by_selection(key: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
        """The elements by `lax.top_k` of the key; zeros, and NaNs, of both signs are made equal, so that their order
        is stable.
        """
        # equal keys of both signs of zero, or of NaN, keep the order in which they stand
        zero, nan = lax.full_like(key, 0), lax.full_like(key, np.nan)
        key = lax.select(lax.eq(key, zero), zero, lax.select(lax.ne(key, key), nan, key))
        _, places = lax.top_k(key, count)
        return [_gathered_rows(a, places) for a in arrays]

    def by_sorting(key: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
        """The elements by a stable sort along the last axis, which puts NaN keys last."""
        axis = key.ndim - 1
        ordered = lax.sort([lax.neg(key), *arrays], dimension=axis, is_stable=True, num_keys=1)[1:]
        return [lax.slice_in_dim(a, 0, count, axis=axis) for a in ordered]

    key = arrays[place] if descending else lax.neg(arrays[place])
    if nan_first:
        return by_selection(key, *arrays)
    # a NaN stands last in the order, and is what XLA selects first
    any_nan = lax.reduce(lax.ne(key, key), False, lax.bitwise_or, tuple(range(key.ndim)))
    return lax.cond(any_nan, by_sorting, by_selection, key, *arrays)


def _gathered_rows(x: jax.Array, places: jax.Array) -> jax.Array:
    """The elements of x at `places` along its last axis, row by row."""
    rows = tuple(range(x.ndim - 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=(x.ndim - 1,), start_index_map=(x.ndim - 1,),
        operand_batching_dims=rows, start_indices_batching_dims=rows,
    )  # fmt: skip
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(x, lax.expand_dims(places, (x.ndim,)), numbers, (1,) * x.ndim, mode=mode)
