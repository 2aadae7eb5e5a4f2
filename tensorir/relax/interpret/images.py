"""Operators of Relax on images: resizing and sampling, by nearest neighbours, linearly or cubically."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tensorir.tir.dtypes import DataType

__all__ = ["IMAGES"]

Array = Any


def source_places(places: Array, old: int, new: int, mode: str, box: tuple[float, float]) -> Array:
    """Where along the old axis each new element lies; `box` is the part of it that is cropped."""
    scale = np.float32(old / new)
    half = np.float32(0.5)
    match mode:
        case "half_pixel":
            return (places + half) * scale - half
        case "pytorch_half_pixel":
            return (places + half) * scale - half if new > 1 else np.zeros_like(places)
        case "tf_half_pixel_for_nn":
            return (places + half) * scale
        case "align_corners":
            return places * np.float32((old - 1) / (new - 1) if new > 1 else 0.0)
        case "asymmetric":
            return places * scale
        case "tf_crop_and_resize":
            low, high = map(np.float32, box)
            if new > 1:
                return low * np.float32(old - 1) + places * (high - low) * np.float32(old - 1) / np.float32(new - 1)
            return np.full_like(places, half * (low + high) * np.float32(old - 1))
        case _:
            raise NotImplementedError(f"the coordinates {mode!r} are not run")


def nearest(where: Array, rounding: str) -> Array:
    match rounding:
        case "floor":
            return np.floor(where + np.float32(1e-5))
        case "ceil":
            return np.ceil(where - np.float32(1e-5))
        case "round_prefer_floor":
            return np.ceil(where - np.float32(0.5))
        case "round_prefer_ceil":
            return np.floor(where + np.float32(0.5))
        case _:
            return np.rint(where) if rounding == "round" else np.floor(where + np.float32(1e-5))


def weights_of(part: Array, method: str, alpha: float) -> dict[int, Array]:
    """What the elements around a place count, by their distance from the one before it."""
    if method == "linear":
        return {0: 1 - part, 1: part}
    a = np.float32(alpha)
    return {
        -1: ((part - 2) * part + 1) * part * a,
        0: ((a + 2) * part - (a + 3)) * part * part + 1,
        1: ((-(a + 2) * part + (2 * a + 3)) * part - a) * part,
        2: (1 - part) * part * part * a,
    }


def _along(x: Array, axis: int, where: Array, method: str, rounding: str, alpha: float, exclude: bool) -> Array:
    """The elements at places between those of an axis."""
    old = x.shape[axis]
    if method == "nearest_neighbor":
        return np.take(x, np.clip(nearest(where, rounding).astype(int), 0, old - 1), axis)
    low = np.floor(where).astype(int)
    weights = weights_of((where - low).astype(np.float32), method, alpha)
    if exclude and method == "cubic":
        inside = {k: np.where((low + k < 0) | (low + k >= old), np.float32(0), w) for k, w in weights.items()}
        total = sum(inside.values())
        weights = {k: w / total for k, w in inside.items()}
    shape = [1] * x.ndim
    shape[axis] = len(where)
    found = np.zeros((), x.dtype)
    for offset, weight in weights.items():
        found = found + np.take(x, np.clip(low + offset, 0, old - 1), axis) * weight.reshape(shape)
    return found


def _resize(
    data: Array,
    size: Any,
    layout: str,
    roi: Any = None,
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: Any = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
) -> Array:
    mode = coordinate_transformation_mode
    if method == "nearest_neighbor" and not rounding_method:
        rounding_method = "round" if mode == "align_corners" else "floor"
    axes = [layout.index(letter) for letter in "DHW" if letter in layout]
    sizes = [int(size)] * len(axes) if np.ndim(size) == 0 else [int(s) for s in size]
    corners = [float(v) for v in roi] if roi is not None else [0.0] * len(axes) + [1.0] * len(axes)
    found = data.astype(np.float32) if data.dtype.itemsize < 4 or data.dtype.kind in "iu" else data
    outside = np.zeros((), bool)
    for k in reversed(range(len(axes))):
        axis, old = axes[k], data.shape[axes[k]]
        where = source_places(
            np.arange(sizes[k], dtype=np.float32), old, sizes[k], mode, (corners[k], corners[len(axes) + k])
        )
        found = _along(found, axis, where, method, rounding_method, cubic_alpha, bool(cubic_exclude))
        shape = [1] * data.ndim
        shape[axis] = sizes[k]
        outside = outside | ((where < 0) | (where > old - 1)).reshape(shape)
    if mode == "tf_crop_and_resize":
        found = np.where(outside, np.float32(extrapolation_value), found)
    kind = data.dtype if out_dtype in (None, "", "void") else DataType.parse(str(out_dtype)).numpy
    return found.astype(kind)


# ---------------------------------------------------------------------------------------------------------------- grids


def _affine_grid(theta: Array, size: Any, align_corners: bool = True) -> Array:
    """Where an affine map sends the places of an image; coordinates run from -1 to 1, the last axis first."""
    sizes = [int(s) for s in size]
    if align_corners and 1 in sizes:
        raise ValueError("an axis of one element has no two corners")
    lines: list[Array] = []
    for extent in sizes:
        places = np.arange(extent, dtype=theta.dtype)
        if align_corners:
            lines.append(theta.dtype.type(-1) + places * theta.dtype.type((2 - 1e-7) / (extent - 1)))
        else:
            lines.append(theta.dtype.type(-1 + 1 / extent) + places * theta.dtype.type(2 / extent))
    mesh = np.meshgrid(*lines, indexing="ij")[::-1]
    batch = (theta.shape[0], len(sizes)) + (1,) * len(sizes)
    found = theta[:, :, -1].reshape(batch)
    for column, coordinates in enumerate(mesh):
        found = found + theta[:, :, column].reshape(batch) * coordinates
    return np.broadcast_to(found, (theta.shape[0], len(sizes), *sizes)).astype(theta.dtype)


def _reflected(x: Array, size: int, align_corners: bool) -> Array:
    """Coordinates folded back at the borders as often as they leave them."""
    reach, start = (size - 1, 0.0) if align_corners else (size, -0.5)
    far = np.abs(start - x)
    times = (far.astype(np.int32) // reach).astype(np.int32)
    extra = far - times * reach
    folded: Array = np.where(times % 2 == 0, extra + start, reach - extra + start)
    found: Array = np.where((x >= start) & (x <= reach + start), x, folded)
    return found.astype(x.dtype)


def _grid_sample(
    data: Array,
    grid: Array,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """The data at the places that the grid names: coordinates from -1 to 1, the last axis first."""
    if layout not in ("NCHW", "NCDHW"):
        raise NotImplementedError(f"the layout {layout!r} is not run")
    sizes = data.shape[2:]
    half = grid.dtype.type(0.5)
    places: list[Array] = []
    for k, size in enumerate(sizes):
        x = grid[:, len(sizes) - 1 - k]
        if align_corners:
            x = (x + 1) * grid.dtype.type(size - 1) * half
        else:
            x = -half + (x + 1) * grid.dtype.type(size) * half
        places.append(x)
    cubic = method == "bicubic"
    if not cubic:
        places = [_kept(x, size, padding_mode, align_corners) for x, size in zip(places, sizes, strict=True)]
    if method == "nearest":
        return _pixels(data, [np.rint(x).astype(int) for x in places])
    lows = [np.floor(x).astype(int) for x in places]
    parts = [(x - low).astype(grid.dtype) for x, low in zip(places, lows, strict=True)]
    weights = [weights_of(part, "cubic" if cubic else "linear", -0.75) for part in parts]
    found = np.zeros((), data.dtype)
    for corner in product(*(range(-1, 3) if cubic else range(2) for _ in sizes)):
        at = [low + k for low, k in zip(lows, corner, strict=True)]
        if cubic:
            at = [
                _kept(x.astype(grid.dtype), size, padding_mode, align_corners).astype(int)
                for x, size in zip(at, sizes, strict=True)
            ]
        share: Array = np.ones((), data.dtype)
        for weight, k in zip(weights, corner, strict=True):
            share = share * weight[k]
        found = found + _pixels(data, at) * share[:, None]
    return found.astype(data.dtype)


def _kept(x: Array, size: int, padding_mode: str, align_corners: bool) -> Array:
    """Coordinates brought inside, where the padding asks for it."""
    if padding_mode == "reflection":
        x = _reflected(x, size, align_corners)
    return x if padding_mode == "zeros" else np.clip(x, 0, size - 1).astype(x.dtype)


def _pixels(data: Array, at: list[Array]) -> Array:
    """The elements at whole places, zero outside; channels in the second dimension."""
    inside: Array = np.ones((), bool)
    for x, size in zip(at, data.shape[2:], strict=True):
        inside = inside & (x >= 0) & (x < size)
    safe = [np.where(inside, x, 0) for x in at]
    batch: Array = np.arange(data.shape[0]).reshape(-1, *([1] * len(at)))
    found = data[(batch, slice(None), *safe)]
    kept: Array = np.where(inside[:, None], np.moveaxis(found, -1, 1), data.dtype.type(0))
    return kept


IMAGES: dict[str, Callable[..., Any]] = {
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "image.grid_sample": _grid_sample,
    "image.affine_grid": _affine_grid,
}
