"""Images read at places that a grid names, the grids of affine maps, and memory seen as another shape or type."""

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tensorir.build import call
from tensorir.lift.terms import Number, Term
from tensorir.tir.lift.intrinsics import both, cast, choice, op, truth
from tensorir.tir.lift.intrinsics import number as numbered
from tensorir.tir.lift.relax.elementwise import element, whole
from tensorir.tir.lift.relax.reductions import flat
from tensorir.tir.lift.relax.reshaping import reshaped
from tensorir.tir.lift.relax.values import Value, constant, made
from tensorir.types import INT32, dtype_of

__all__ = ["GRIDS"]


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
        ("method", method, ("bilinear", "nearest")),
        ("padding", padding_mode, ("zeros", "border")),
    ):
        if chosen not in known:
            raise NotImplementedError(f"the {what} {chosen!r} is none of {', '.join(known)}")
    sizes = data.shape[2:]
    kind = grid.element

    def places(ix: Any, where: Any) -> list[Term]:
        """The coordinates along each axis, brought to where it makes no difference, or inside for a border."""
        batch, _, *point = ix
        found: list[Term] = []
        for k, size in enumerate(sizes):
            x = op("plus", where(batch, Number(len(sizes) - 1 - k, INT32), *point), numbered(1.0, kind))
            scale = numbered(size - 1 if align_corners else size, kind)
            x = op("multiplies", op("multiplies", x, scale), numbered(0.5, kind))
            x = x if align_corners else op("plus", numbered(-0.5, kind), x)
            low, high = (-2, size + 1) if padding_mode == "zeros" else (0, size - 1)
            found.append(op("min", op("max", x, numbered(low, kind)), numbered(high, kind)))
        return found

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

    def nearest(ix: Any, read: Any, where: Any) -> Term:
        return pixel(ix, read, [cast(op("round", x), INT32) for x in places(ix, where)])

    def linear(ix: Any, read: Any, where: Any) -> Term:
        found: Term | None = None
        at = places(ix, where)
        lows = [op("floor", x) for x in at]
        parts = [cast(op("minus", x, low), data.element) for x, low in zip(at, lows, strict=True)]
        for corner in product(range(2), repeat=len(sizes)):
            whole_places = [op("plus", cast(low, INT32), Number(k, INT32)) for low, k in zip(lows, corner, strict=True)]
            share = pixel(ix, read, whole_places)
            for part, k in zip(parts, corner, strict=True):
                share = op("multiplies", share, part if k else op("minus", numbered(1.0, data.element), part))
            found = share if found is None else op("plus", found, share)
        assert found is not None
        return found

    return made((*data.shape[:2], *grid.shape[2:]), nearest if method == "nearest" else linear, data, grid)


def _view(x: Value, shape: Any = None, dtype: Any = None, offset: Any = None) -> Value:
    kind = element(dtype, x.element)
    new = x.shape if shape is None else tuple(whole(s) for s in shape)
    if kind.bits != x.element.bits:
        raise NotImplementedError(f"elements of {x.element} are no whole elements of {kind}")
    first, rest = divmod(0 if offset is None else whole(offset), dtype_of(kind).itemsize)
    count = prod(new)
    if rest or first + count > x.size:
        raise ValueError(f"{count} elements from byte {whole(offset)} on are not in memory")
    row = flat(x)
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
