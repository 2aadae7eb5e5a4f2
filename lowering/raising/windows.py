"""Gathers whose indices are constants or sums of coordinates: slices, mirrored ones, and windows kept apart by slot.

`gather(I)(x, 2 × pos(Y) + pos(R))` reads no table: for each point of R it is a slice of x with stride 2. Windows of few
points stay apart, one slice per point, so that a fold over them is a sum (or a maximum) of shifted slices, which XLA
fuses; the same window times weights is a convolution (`convolutions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from lowering.array_provenance import Window
from lowering.context import Context
from lowering.values import Dense, Leaf, Slots, Value, cut, dense, select_slot
from tensorir.analysis.access_functions import AffineIndex, affine_index
from tensorir.ir.nodes import Call, Expr, Literal
from tensorir.ir.types import Dims, Interval

__all__ = ["constants", "windows"]

MOST_POINTS = 32
"""Windows with more points along a dim are gathered."""


def constants(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """A read at constants inside of the interval: one point of each axis."""
    names, inside = node.static.dims, node.args[0].tensor.dims
    found: Value = args[0]
    for name, index in zip(names, node.args[1:], strict=True):
        if not isinstance(index, Literal) or int(index.value) not in inside[name]:
            return None
        found = tuple(select_slot(leaf, name, int(index.value)) for leaf in found)
    return found


def windows(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    x = args[0]
    if len(x) != 1 or not isinstance(x[0], Dense):
        return None
    found = _sliced(x[0], node.static.dims, node.args[1:], node.tensor.dims)
    if found is None:
        return None
    leaf, source, seen = found
    if seen:
        context.provenance.windowed(leaf, source, seen)
    return (leaf,)


def _sliced(
    x: Dense, names: Sequence[str], indices: Sequence[Expr], need: Dims
) -> tuple[Leaf, Dense, tuple[Window, ...]] | None:
    """x at constants and sums of coordinates, and which windows of what that is; None for other indices."""
    known = [affine_index(i) for i in indices]
    found: list[tuple[str, AffineIndex]] = []
    used: set[str] = set(x.dims.without(*names))
    for name, c in zip(names, known, strict=True):
        if c is None or name not in x.dims or len(c.terms) > 2 or used & set(c.terms):
            return None
        low, high = c.range
        if low < x.dims[name].start or high >= x.dims[name].stop or any(not i for i in c.intervals.values()):
            return None
        if len(c.terms) == 2 and min(len(c.intervals[n]) for n in c.terms) > MOST_POINTS:
            return None
        used |= set(c.terms)
        found.append((name, c))
    # the dims that are read go by names of their own, since coordinates may have theirs
    source = _named_apart(x, names)
    for name, c in found:
        if len(c.terms) < 2:
            source = dense(_at_one(source, f"{name}'", c))
    leaf: Leaf = source
    seen: list[Window] = []
    for name, c in found:
        if len(c.terms) == 2:
            leaf, window = _at_two(leaf, f"{name}'", c)
            seen.append(window)
    return cut(leaf, need), source, tuple(seen)


def _named_apart(x: Dense, names: Sequence[str]) -> Dense:
    dims = Dims(tuple((f"{n}'" if n in names else n, i) for n, i in x.dims.items))
    return Dense(x.data, dims, None if x.present is None else _named_apart(x.present, names))


def _at_one(leaf: Leaf, name: str, c: AffineIndex) -> Leaf:
    """One dim read at a constant, or along a coordinate."""
    if not c.terms:
        return select_slot(leaf, name, c.constant)
    ((dim, step),) = c.terms.items()
    return _strided(leaf, name, dim, step, c.constant, c.intervals[dim])


def _at_two(leaf: Leaf, name: str, c: AffineIndex) -> tuple[Leaf, Window]:
    """One dim read by a sum of two coordinates."""
    (a, step_a), (b, step_b) = c.terms.items()
    # the window's own dim is the one with fewer points
    inner, outer = (a, b) if len(c.intervals[a]) < len(c.intervals[b]) else (b, a)
    dilation, stride = (step_a, step_b) if inner == a else (step_b, step_a)
    interval = c.intervals[inner]
    slots = tuple(
        _strided(leaf, name, outer, stride, c.constant + dilation * point, c.intervals[outer]) for point in interval
    )
    return Slots(inner, interval.start, slots), Window(name, outer, stride, inner, dilation, c.constant)


def _strided(leaf: Leaf, name: str, dim: str, step: int, constant: int, points: Interval) -> Leaf:
    """The leaf at `step × dim + constant` for the points of a dim."""
    if isinstance(leaf, Slots):
        parts = tuple(_strided(x, name, dim, step, constant, points) for x in leaf.leaves)
        return Slots(leaf.dim, leaf.start, parts)
    if name not in leaf.dims:
        return leaf
    axis, interval = leaf.dims.names.index(name), leaf.dims[name]
    first, last = sorted((step * points.start + constant, step * (points.stop - 1) + constant))
    begin, stop, steps = [0] * len(leaf.dims), [len(i) for _, i in leaf.dims.items], [1] * len(leaf.dims)
    begin[axis], stop[axis], steps[axis] = first - interval.start, last - interval.start + 1, abs(step)

    def cut_out(x: Dense) -> Dense:
        whole = stop == list(x.data.shape) and not any(begin) and abs(step) == 1
        data = x.data if whole else lax.slice(x.data, begin, stop, steps)
        if step < 0:
            data = lax.rev(data, (axis,))
        return Dense(data, Dims(tuple((dim, points) if n == name else (n, i) for n, i in x.dims.items)))

    value = cut_out(leaf)
    if leaf.present is None or name not in leaf.present.dims:
        return Dense(value.data, value.dims, leaf.present)
    mask = _strided(leaf.present, name, dim, step, constant, points)
    assert isinstance(mask, Dense)
    return Dense(value.data, value.dims, mask)
