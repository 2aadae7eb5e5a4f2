"""Gathers as slices and windows, updates as scatters, and zeros between elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Context
from lowering.rules.indirect import CLIP, DROP, Updates, combiner, one_by_one, put_at_one, scattered, touched
from lowering.values import Dense, Leaf, Slots, Value, Window, cut, dense, select_slot
from tensorir.analysis.access_functions import AffineIndex, affine_index
from tensorir.analysis.uses import literal_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Expr, Literal

# Gathers whose indices are constants or sums of coordinates: slices, mirrored ones, and windows kept apart by slot.
#
# `gather(I)(x, 2 × pos(Y) + pos(R))` reads no table: for each point of R it is a slice of x with stride 2. Windows of
# few points stay apart, one slice per point, so that a fold over them is a sum (or a maximum) of shifted slices,
# which XLA fuses; the same window times weights is a convolution (`contractions.py`).

MOST_POINTS = 32
"""Windows with more points along a dim are gathered."""


def constants(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: a gather at literal indices inside of the operand's intervals, as one point of each indexed axis; None
    otherwise.
    """
    names, operand_dims = node.static.dims, node.args[0].tensor.dims
    value: Value = lowered[0]
    for name, index in zip(names, node.args[1:], strict=True):
        if not isinstance(index, Literal) or int(index.value) not in operand_dims[name]:
            return None
        value = tuple(select_slot(leaf, name, int(index.value)) for leaf in value)
    return value


def windows(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: a gather at sums of coordinates as strided slices, one per point of a window; recorded as windows. None
    otherwise.
    """
    x = lowered[0]
    if len(x) != 1 or not isinstance(x[0], Dense):
        return None
    sliced = _read_affine(x[0], node)
    if sliced is None:
        return None
    leaf, source, seen = sliced
    if seen:
        context.provenance.windowed(leaf, source, seen)
    return (leaf,)


def _read_affine(x: Dense, node: Call) -> tuple[Leaf, Dense, tuple[Window, ...]] | None:
    """x read at affine indices, the array before windows were taken, and the windows; None for indices of another
    form.

    Each index is a constant, or a sum of at most two coordinates, each with a factor, that stays in the operand's
    interval. No coordinate is used twice, and the shorter of two has at most `MOST_POINTS` points.
    """
    names, operand_dims = node.static.dims, node.args[0].tensor.dims
    affine_indices = [affine_index(i) for i in node.args[1:]]
    reads: list[tuple[str, AffineIndex]] = []
    used_dims: set[str] = set(x.dims.without(*names))
    for name, c in zip(names, affine_indices, strict=True):
        if c is None or name not in x.dims or len(c.terms) > 2 or used_dims & set(c.terms):
            return None
        low, high = c.range
        if (
            low < operand_dims[name].start
            or high >= operand_dims[name].stop
            or any(not i for i in c.intervals.values())
        ):
            return None
        if len(c.terms) == 2 and min(len(c.intervals[n]) for n in c.terms) > MOST_POINTS:
            return None
        used_dims |= set(c.terms)
        reads.append((name, c))
    # the dims that are read go by names of their own, since coordinates may have theirs
    source = _primed(x, names)
    for name, c in reads:
        if len(c.terms) < 2:
            source = dense(_read_along_one(source, f"{name}'", c))
    leaf: Leaf = source
    windows: list[Window] = []
    for name, c in reads:
        if len(c.terms) == 2:
            leaf, window = _read_window(leaf, f"{name}'", c)
            windows.append(window)
    return cut(leaf, node.tensor.dims), source, tuple(windows)


def _primed(x: Dense, names: Sequence[str]) -> Dense:
    """x with a prime added to the names of some of its dims (`i` → `i'`), its mask alike."""
    dims = Dims(tuple((f"{n}'" if n in names else n, i) for n, i in x.dims.items))
    return Dense(x.data, dims, None if x.present is None else _primed(x.present, names))


def _read_along_one(leaf: Leaf, name: str, c: AffineIndex) -> Leaf:
    """One dim read at a constant, or along one coordinate with a step."""
    if not c.terms:
        return select_slot(leaf, name, c.sum.constant)
    ((dim, step),) = c.terms.items()
    return _strided(leaf, name, dim, step, c.sum.constant, c.intervals[dim])


def _read_window(leaf: Leaf, name: str, c: AffineIndex) -> tuple[Leaf, Window]:
    """One dim read by a sum of two coordinates: slots along the shorter one, strided slices along the other."""
    (a, step_a), (b, step_b) = c.terms.items()
    # the window's own dim is the one with fewer points
    inner, outer = (a, b) if len(c.intervals[a]) < len(c.intervals[b]) else (b, a)
    dilation, stride = (step_a, step_b) if inner == a else (step_b, step_a)
    interval = c.intervals[inner]
    slots = tuple(
        _strided(leaf, name, outer, stride, c.sum.constant + dilation * point, c.intervals[outer]) for point in interval
    )
    return Slots(inner, interval.start, slots), Window(name, outer, stride, inner, dilation, c.sum.constant)


def _strided(leaf: Leaf, name: str, dim: str, step: int, constant: int, points: Interval) -> Leaf:
    """The leaf read, along its dim `name`, at `step × dim + constant` for the `points` of `dim`, which replaces the
    dim.

    A leaf without the dim is returned unchanged; a negative step reverses the slice.
    """
    if isinstance(leaf, Slots):
        slots = tuple(_strided(x, name, dim, step, constant, points) for x in leaf.leaves)
        return Slots(leaf.dim, leaf.start, slots)
    if name not in leaf.dims:
        return leaf
    axis, interval = leaf.dims.names.index(name), leaf.dims[name]
    lowest, highest = sorted((step * points.start + constant, step * (points.stop - 1) + constant))
    begin, stop, steps = [0] * len(leaf.dims), [len(i) for _, i in leaf.dims.items], [1] * len(leaf.dims)
    begin[axis], stop[axis], steps[axis] = lowest - interval.start, highest - interval.start + 1, abs(step)

    def cut_out(x: Dense) -> Dense:
        """The strided slice of a leaf's data, without its mask."""
        is_whole = stop == list(x.data.shape) and not any(begin) and abs(step) == 1
        data = x.data if is_whole else lax.slice(x.data, begin, stop, steps)
        if step < 0:
            data = lax.rev(data, (axis,))
        return Dense(data, Dims(tuple((dim, points) if n == name else (n, i) for n, i in x.dims.items)))

    value = cut_out(leaf)
    if leaf.present is None or name not in leaf.present.dims:
        return Dense(value.data, value.dims, leaf.present)
    mask = _strided(leaf.present, name, dim, step, constant, points)
    assert isinstance(mask, Dense)
    return Dense(value.data, value.dims, mask)


# Updates at indices in one operation: a scatter with a combiner that XLA has, or a slice written in place.
#
# Without a rule, updates run one by one in order.

COMBINERS: dict[str, Callable[..., jax.Array]] = {
    "plus": lax.scatter_add,
    "multiplies": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}


def combined(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: a scatter whose function is in `COMBINERS`, or replaces, as one `lax.scatter`; None for any other
    function.

    Products get the derivative of updates one by one, since JAX has none for products at equal indices.
    """
    op = combiner(lowered[0].function)
    if len(lowered[1]) != 1 or (op != "last" and op not in COMBINERS):
        return None

    def put(updates: Updates) -> list[Dense]:
        """The touched part of the base with all updates put on it."""
        names, order, part, over = updates.names, updates.order, updates.part, updates.over
        masks = [updates.ok] if updates.ok is not None else []
        indexed_dims = {n for leaf in (*updates.indices, *masks) for n in leaf.dims.names}
        # dims along which no index changes go along as rows: one by one they take six times as long
        rows = [n for n in part.names if n not in (*names, *over) and n not in indexed_dims]
        points = order.without(*rows)
        update_dims = Dims((*points.items, *((n, part[n]) for n in rows)))
        (columns, _), ((operand,), (values,)) = updates.columns(points), updates.arrays(update_dims)
        start = lax.concatenate([lax.expand_dims(c, (len(points),)) for c in columns], len(points))
        if op == "last":
            start = _last_wins(start, _scatter_numbers(points, part.without(*rows), updates, []), points, updates, rows)
            return [
                Dense(
                    lax.scatter(operand, start, values, _scatter_numbers(points, part, updates, rows), mode=DROP), part
                )
            ]
        scatter = COMBINERS[str(op)]
        return [Dense(scatter(operand, start, values, _scatter_numbers(points, part, updates, rows), mode=DROP), part)]

    if op == "multiplies":
        return scattered(context, node, lowered, lambda updates: _differentiable(context, updates, put))
    return scattered(context, node, lowered, put)


def _differentiable(context: Context, updates: Updates, put: Callable[[Updates], Sequence[Dense]]) -> Sequence[Dense]:
    """The result of `put(updates)`, a scatter that multiplies, with the derivative of the same updates one by one."""
    ((operand,), (values,)), part, order = updates.arrays(updates.order), updates.part, updates.order

    def updates_of(operand: jax.Array, values: jax.Array, indices: Any, ok: Any) -> Updates:
        """The updates with other arrays for base, values, indices and mask."""
        base, value = (Dense(operand, part),), (Dense(values, order),)
        return replace(updates, base=base, values=value, indices=indices, ok=ok)

    @jax.custom_jvp
    def product(operand: jax.Array, values: jax.Array, indices: Any, ok: Any) -> jax.Array:
        (updated,) = put(updates_of(operand, values, indices, ok))
        return updated.data

    @product.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        """JVP of the product: tangents are those of the updates one by one."""
        operand, values, indices, ok = primals

        def in_order(operand: jax.Array, values: jax.Array) -> jax.Array:
            """The operand after the updates one by one, which JAX differentiates."""
            (updated,) = one_by_one(context.inner(), updates_of(operand, values, indices, ok))
            return updated.data

        return product(*primals), jax.jvp(in_order, (operand, values), tangents[:2])[1]

    return [Dense(product(operand, values, updates.indices, updates.ok), part)]


def _scatter_numbers(points: Dims, part: Dims, updates: Updates, rows: Sequence[str]) -> lax.ScatterDimensionNumbers:
    """The scatter dimension numbers for updates on `points`, whose last axes are the `rows` along which no index
    changes.

    Dims of `points` outside of `updates.over` are batch axes of the operand `part`.
    """
    count = len(updates.names)
    batch = [n for n in points.names if n not in updates.over]
    return lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(len(points), len(points) + len(rows))),
        inserted_window_dims=tuple(range(count)),
        scatter_dims_to_operand_dims=tuple(range(count)),
        operand_batching_dims=tuple(sorted(part.names.index(n) for n in batch)),
        scatter_indices_batching_dims=tuple(
            points.names.index(n) for n in sorted(batch, key=part.names.index)
        ),
    )  # fmt: skip


def in_place(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: one update at one index per dim as a `lax.dynamic_update_slice`; None for several updates or a combining
    function.
    """
    function, base, *indices, _ = lowered
    is_single = all(
        isinstance(i, Dense) and not i.dims and (i.present is None or not i.present.dims) for (i,) in indices
    )
    if len(base) != 1 or combiner(function.function) != "last" or node.static.over or not is_single:
        return None
    if not touched(node)[1].size:
        return None

    def put(updates: Updates) -> list[Dense]:
        base, values, order, part = dense(updates.base[0]), dense(updates.values[0]), updates.order, updates.part
        return [put_at_one(base, updates.indices, values, updates.ok, order, part, updates.names)]

    return scattered(context, node, lowered, put)


def _last_wins(start: jax.Array, numbers: Any, points: Dims, updates: Updates, rows: Sequence[str]) -> jax.Array:
    """Start indices of a scatter in which, of updates at the same element, all but the last are out of range.

    XLA leaves the order of equal indices open. `numbers`: the dimension numbers of a scatter without `rows`.
    """
    over = updates.over
    count = int(np.prod([len(points[n]) for n in over], dtype=np.int64))
    shape = tuple(len(points[n]) for n in over)
    rank = lax.broadcast_in_dim(lax.reshape(lax.iota("int32", count), shape), points.shape, tuple(range(len(over))))
    operand = updates.part.without(*rows).shape
    latest = lax.scatter_max(lax.full(operand, -1, "int32"), start, rank, numbers, mode=DROP)
    gather_numbers = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims, operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )  # fmt: skip
    winner = lax.eq(lax.gather(latest, start, gather_numbers, (1,) * len(operand), mode=CLIP), rank)
    out_of_range = lax.full_like(start, np.iinfo(start.dtype).max)
    mask = lax.broadcast_in_dim(winner, start.shape, tuple(range(len(points))))
    return lax.select(mask, start, out_of_range)


# Zeros between the elements of an array.
#
# `if p % 2 = 0 then x[p / 2] else 0` is `lax.pad` with zeros between, and no gather; where a convolution reads it,
# its input is dilated, which takes half of the time (`contractions.py`): a transposed convolution is written like this.

Step = tuple[str, int]
"""A dim, and what its coordinate is a multiple of, or divided by."""


def dilated(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: `if p % 2 = 0 then x[p / 2] else 0` as `lax.pad` of x with zeros between its elements; None for other
    forms.

    The condition may be a conjunction over several dims; other indices of the gather must be constants.
    """
    condition, then, otherwise = node.args
    read = context.provenance.read_of(lowered[1][0]) if len(lowered[1]) == 1 else None
    steps = _multiples(condition)
    if read is None or not steps or literal_of(otherwise) != 0 or not isinstance(then, Call) or then.op != "gather":
        return None
    result_dims = node.tensor.dims
    x, quotient_dims = read, set[str]()
    for name, index in zip(then.static.dims, then.args[1:], strict=True):
        if name not in x.dims:
            continue  # it is the same all along this dim
        point = literal_of(index)
        if isinstance(point, int) and point in x.dims[name]:
            x = dense(select_slot(x, name, point))
            continue
        step = _quotient(index)
        if step is None or steps.get(step[0]) != step[1] or step[0] in quotient_dims or step[0] in x.dims:
            return None
        elements = _covering_elements(x, name, step, result_dims[step[0]])
        if elements is None:
            return None
        x = elements
        quotient_dims.add(step[0])
    if quotient_dims != set(steps) or any(n not in result_dims for n in x.dims):
        return None
    return (_spread(context, x, steps, result_dims),)


def _covering_elements(x: Dense, name: str, step: Step, interval: Interval) -> Dense | None:
    """The elements of x at the multiples of the step's factor in `interval`, their axis renamed to the step's dim.

    With factor 2 and the interval [3, 8): the elements 2 and 3, for the positions 4 and 6. x has no mask. None if there
    are none, or if x lacks an element that a position of the interval reads, `position // factor`: 1 to 3.
    """
    dim, factor = step
    first, last = -(-interval.start // factor), (interval.stop - 1) // factor
    quotients = Interval(interval.start // factor, last + 1)
    if first > last or not x.dims[name].covers(quotients):
        return None
    elements = dense(cut(x, Dims(((name, Interval(first, last + 1)),))))
    return Dense(elements.data, Dims(tuple((dim if n == name else n, i) for n, i in elements.dims.items)))


def _spread(context: Context, x: Dense, steps: dict[str, int], need: Dims) -> Dense:
    """The elements of x at the multiples of `steps` (a factor per dim), and zeros between and around them, on
    `need`.

    The result is recorded as spread in `context.provenance`.
    """
    x = dense(cut(x, Dims(tuple((n, need[n]) for n in x.dims if n not in steps))))
    factors = tuple(steps.get(n, 1) for n in x.dims)
    low = tuple(i.start * s - need[n].start for (n, i), s in zip(x.dims.items, factors, strict=True))
    ends = [need[n].stop - 1 - (i.stop - 1) * s for (n, i), s in zip(x.dims.items, factors, strict=True)]
    padding = [(a, b, s - 1) for a, b, s in zip(low, ends, factors, strict=True)]
    data = lax.pad(x.data, lax.full((), 0, x.data.dtype), padding)
    result = Dense(data, Dims(tuple((n, need[n]) for n in x.dims.names)))
    context.provenance.spread(result, x.data, low, factors)
    return result


def _multiples(e: Expr) -> dict[str, int]:
    """Per dim, the factor of which a condition says its coordinate is a multiple; empty for conditions of another
    form.

    Forms: `p % n = 0`, `p - n × (p / n) = 0`, `p + -n × (p / n) = 0`, and conjunctions of these for different dims.
    """
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
    """The dim and the divisor of a coordinate divided by a number above one; None for any other expression."""
    match e:
        case Call("floordiv", (Call("pos", _, (dim,)), Literal(by))) if by > 1:
            return dim, int(by)
        case _:
            return None
