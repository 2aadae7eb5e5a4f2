"""Images resized and sampled, and memory seen as another shape or type."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tensorir.ir.build import call
from tensorir.ir.types import FLOAT32, INT32, dtype_of
from tensorir.lifting.nests.bounded import bytes_of, composed
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.interpret.networks import nearest, source_places, weights_of
from tensorir.relax.lift.elementwise import converted, element, whole
from tensorir.relax.lift.indexing import picked
from tensorir.relax.lift.reductions import flat
from tensorir.relax.lift.reshaping import reshaped
from tensorir.relax.lift.values import Value, apply, constant, each, made, number
from tensorir.tir.lift.intrinsics import both, cast, choice, op, truth
from tensorir.tir.lift.intrinsics import number as numbered

# Resizing: along each axis a weighted sum of elements at places that follow from the sizes alone.
#
# Places and weights are computed while the program is built, in the arithmetic of the interpreter, and come with the
# program as tables.

# Attributes hold values of any type here.


Array = Any


def _line(values: Array, axis: int, like: Value) -> Value:
    """A table along one axis of a tensor."""
    found = constant(values, "weight")
    return reshaped(found, [len(values) if k == axis else 1 for k in range(like.rank)])


def _along(x: Value, axis: int, where: Array, method: str, rounding: str, alpha: float, exclude: bool) -> Value:
    """The elements at places between those of an axis."""
    old = x.shape[axis]
    if method == "nearest_neighbor":
        return picked(x, axis, np.clip(nearest(where, rounding).astype(int), 0, old - 1))
    low: Array = np.floor(where).astype(int)
    weights: dict[int, Array] = weights_of((where - low).astype(np.float32), method, alpha)
    if exclude and method == "cubic":
        inside = {k: np.where((low + k < 0) | (low + k >= old), np.float32(0), w) for k, w in weights.items()}
        total = sum(inside.values())
        weights = {k: w / total for k, w in inside.items()}
    found: Value | None = None
    for offset, weight in weights.items():
        part = picked(x, axis, np.clip(low + offset, 0, old - 1))
        part = apply("multiplies", part, _line(weight.astype(dtype_of(x.element)), axis, x))
        found = part if found is None else apply("plus", found, part)
    assert found is not None
    return found


def _resize(
    data: Value, size: Any, layout: str, roi: Any = None, method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "round", cubic_alpha: float = -0.75,
    cubic_exclude: Any = 0, extrapolation_value: float = 0.0, out_dtype: Any = None,
) -> Value:  # fmt: skip
    mode = coordinate_transformation_mode
    if method == "nearest_neighbor" and not rounding_method:
        rounding_method = "round" if mode == "align_corners" else "floor"
    axes = [layout.index(letter) for letter in "DHW" if letter in layout]
    sizes = [whole(s) for s in size] if isinstance(size, tuple | list) else [whole(size)] * len(axes)
    corners = [float(v) for v in roi] if roi is not None else [0.0] * len(axes) + [1.0] * len(axes)
    narrow = data.element.is_integer or data.element.bits < 32
    found = converted(data, FLOAT32) if narrow else data
    outside: Array = np.zeros((), bool)
    for k in reversed(range(len(axes))):
        axis, old = axes[k], data.shape[axes[k]]
        places = np.arange(sizes[k], dtype=np.float32)
        where: Array = source_places(places, old, sizes[k], mode, (corners[k], corners[len(axes) + k]))
        found = _along(found, axis, where, method, rounding_method, cubic_alpha, bool(cubic_exclude))
        shape = [1] * data.rank
        shape[axis] = sizes[k]
        outside = outside | ((where < 0) | (where > old - 1)).reshape(shape)
    if mode == "tf_crop_and_resize":
        found = apply("if", constant(outside, "outside"), number(extrapolation_value, found.element), found)
    return converted(found, element(out_dtype, data.element))


IMAGES: dict[str, Callable[..., Any]] = {"image.resize2d": _resize, "image.resize3d": _resize}
"""Images of other sizes."""

# Images read at places that a grid names, the grids of affine maps, and memory seen as another shape or type.

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.


def _affine_grid(theta: Value, size: Any, align_corners: bool = True) -> Value:
    sizes = [whole(s) for s in size]
    rank, dtype = len(sizes), dtype_of(theta.element)
    if align_corners and 1 in sizes:
        raise ValueError("an axis of one element has no two corners")
    lines: list[Value] = []
    for extent in sizes:
        places = np.arange(extent, dtype=dtype)
        if align_corners:
            line = dtype.type(-1) + places * dtype.type((2 - 1e-7) / (extent - 1))
        else:
            line = dtype.type(-1 + 1 / extent) + places * dtype.type(2 / extent)
        lines.append(constant(line, "line"))

    def term(ix: Any, read: Any, *along: Any) -> Term:
        batch, row, *place = ix
        found: Term = read(batch, row, Number(rank, INT32))
        for k in range(rank):
            axis = rank - 1 - k
            found = op("plus", found, op("multiplies", read(batch, row, Number(k, INT32)), along[axis](place[axis])))
        return found

    return made((theta.shape[0], rank, *sizes), term, theta, *lines)


def _grid_sample(
    data: Value, grid: Value, method: str = "bilinear", layout: str = "NCHW", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Value:  # fmt: skip
    for what, chosen, known in (
        ("layout", layout, ("NCHW", "NCDHW")),
        ("method", method, ("bilinear", "nearest", "bicubic")),
        ("padding", padding_mode, ("zeros", "border", "reflection")),
    ):
        if chosen not in known:
            raise NotImplementedError(f"the {what} {chosen!r} is none of {', '.join(known)}")
    sizes = data.shape[2:]
    kind = grid.element
    reach = REACH[method]

    def kept(x: Term, size: int) -> Term:
        """A coordinate brought inside, or to where it makes no difference."""
        match padding_mode:
            case "reflection":
                return _inside(_reflected(x, size, align_corners), 0, size - 1)
            case "border":
                return _inside(x, 0, size - 1)
            case _:
                return _inside(x, -reach - 1, size + reach)

    def place(k: int) -> Value:
        """The coordinate along an axis, by image and point."""

        def term(ix: Any, where: Any) -> Term:
            x = op("plus", where(ix[0], Number(len(sizes) - 1 - k, INT32), *ix[1:]), numbered(1.0, kind))
            scale = numbered(sizes[k] - 1 if align_corners else sizes[k], kind)
            x = op("multiplies", op("multiplies", x, scale), numbered(0.5, kind))
            return x if align_corners else op("plus", numbered(-0.5, kind), x)

        return made((grid.shape[0], *grid.shape[2:]), term, grid)

    # per axis the neighbours of a point that count, and how much: tensors of their own, which many products read
    cubic, neighbours = method == "bicubic", list[list[Value]]()
    weights: list[list[Value]] = []
    for k, size in enumerate(sizes):
        x = place(k) if cubic else each(partial(kept, size=size), place(k))
        if method == "nearest":
            neighbours.append([each(lambda t: cast(op("round", t), INT32), x)])
            weights.append([])
            continue
        low = apply("floor", x)
        part = converted(apply("minus", x, low), data.element)
        shares = each_of(_cubic if cubic else _linear, part)
        moved = {n: apply("plus", low, n) for n in shares}
        if cubic:  # neighbours that lie outside are brought inside one by one
            moved = {n: each(partial(kept, size=size), m) for n, m in moved.items()}
        neighbours.append([each(lambda t: cast(t, INT32), m) for m in moved.values()])
        weights.append(list(shares.values()))
    width, rank = len(neighbours[0]), len(sizes)

    def pixel(ix: Any, read: Any, at: list[Term]) -> Term:
        """The element at whole places, zero outside."""
        inside: Term | None = None
        safe: list[Term] = []
        for i, size in zip(at, sizes, strict=True):
            low, high = Number(0, INT32), Number(size - 1, INT32)
            here = both(truth("greater_equal", i, low), truth("less_equal", i, high))
            inside = here if inside is None else both(inside, here)
            safe.append(op("min", op("max", i, low), high))
        assert inside is not None
        return choice(inside, read(ix[0], ix[1], *safe), numbered(0, data.element))

    def blended(ix: Any, read: Any, *tables: Any) -> Term:
        spot, found = (ix[0], *ix[2:]), None
        for corner in product(range(width), repeat=rank):
            share = pixel(ix, read, [tables[k * width + n](*spot) for k, n in enumerate(corner)])
            for k, n in enumerate(corner if weights[0] else ()):
                share = op("multiplies", share, tables[(rank + k) * width + n](*spot))
            found = share if found is None else op("plus", found, share)
        assert found is not None
        return found

    tables = [v for row in (*neighbours, *weights) for v in row]
    return made((*data.shape[:2], *grid.shape[2:]), blended, data, *tables)


def each_of(make: Callable[[Term], dict[int, Term]], x: Value) -> dict[int, Value]:
    """A tensor for each of several terms of every element."""
    return {n: each(lambda t, n=n: make(t)[n], x) for n in make(Number(0.0, x.element))}


REACH = {"nearest": 1, "bilinear": 1, "bicubic": 2}
"""How many elements away from a place a method reads."""


def _inside(x: Term, low: int, high: int) -> Term:
    return op("min", op("max", x, numbered(low, x.element)), numbered(high, x.element))


def _reflected(x: Term, size: int, align_corners: bool) -> Term:
    """A coordinate folded back at the borders as often as it leaves them."""
    kind = x.element
    start, reach = (0.0, size - 1) if align_corners else (-0.5, size)
    if not reach:
        return numbered(0, kind)
    low, high = numbered(start, kind), numbered(start + reach, kind)
    far = op("abs", op("minus", low, x))
    times = op("floordiv", cast(far, INT32), Number(reach, INT32))
    extra = op("minus", far, op("multiplies", cast(times, kind), numbered(reach, kind)))
    even = truth("eq", op("mod", times, Number(2, INT32)), Number(0, INT32))
    back = op("plus", op("minus", numbered(reach, kind), extra), low)
    inside = both(truth("greater_equal", x, low), truth("less_equal", x, high))
    return choice(inside, x, choice(even, op("plus", extra, low), back))


def _linear(part: Term) -> dict[int, Term]:
    return {0: op("minus", numbered(1.0, part.element), part), 1: part}


def _cubic(part: Term) -> dict[int, Term]:
    """The weights of the four neighbours of a place, for a curve of slope -0.75."""
    a, kind = -0.75, part.element

    def polynomial(x: Term, *coefficients: float) -> Term:
        total: Term = numbered(coefficients[0], kind)
        for c in coefficients[1:]:
            total = op("plus", op("multiplies", total, x), numbered(c, kind))
        return total

    def near(x: Term) -> Term:
        return polynomial(x, a + 2, -(a + 3), 0.0, 1.0)

    def far(x: Term) -> Term:
        return polynomial(x, a, -5 * a, 8 * a, -4 * a)

    one, two = numbered(1.0, kind), numbered(2.0, kind)
    rest = op("minus", one, part)
    return {-1: far(op("plus", part, one)), 0: near(part), 1: near(rest), 2: far(op("minus", two, part))}


def _view(x: Value, shape: Any = None, dtype: Any = None, offset: Any = None) -> Value:
    kind = element(dtype, x.element)
    new = x.shape if shape is None else tuple(whole(s) for s in shape)
    width = bytes_of(kind)
    first, rest = divmod(0 if offset is None else whole(offset), width)
    count = prod(new)
    if rest or (first + count) * width > x.size * bytes_of(x.element):
        raise ValueError(f"{count} elements from byte {whole(offset or 0)} on are not in memory")
    row = flat(x)
    if width != bytes_of(x.element):
        row = made(
            (count,), lambda ix, read: composed(read, x.element, op("plus", ix[0], Number(first, INT32)), kind), row
        )
        return reshaped(row, new)
    if count != x.size:
        row = made((count,), lambda ix, read: read(op("plus", ix[0], Number(first, INT32))), row)
    if kind != x.element:
        row = Value(call("bitcast", row.expr, static=(kind,)), row.shape)
    return reshaped(row, new)


GRIDS: dict[str, Callable[..., Any]] = {
    "image.affine_grid": _affine_grid,
    "image.grid_sample": _grid_sample,
    "memory.view": _view,
}
"""Reads at the places of a grid, and views."""
