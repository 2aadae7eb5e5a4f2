"""Operators of Relax on images: resizing by nearest neighbours, linearly or cubically."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["IMAGES"]

Array = Any


def _source(places: Array, old: int, new: int, mode: str) -> Array:
    """Where along the old axis each new element lies."""
    scale = np.float32(old / new)
    match mode:
        case "half_pixel":
            return (places + np.float32(0.5)) * scale - np.float32(0.5)
        case "pytorch_half_pixel":
            return (places + np.float32(0.5)) * scale - np.float32(0.5) if new > 1 else np.zeros_like(places)
        case "align_corners":
            return places * np.float32((old - 1) / (new - 1) if new > 1 else 0.0)
        case "asymmetric":
            return places * scale
        case _:
            raise NotImplementedError(f"the coordinates {mode!r} are not run")


def _nearest(where: Array, rounding: str) -> Array:
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
            return np.floor(where + np.float32(0.5)) if rounding == "round" else np.floor(where + np.float32(1e-5))


def _along(x: Array, axis: int, new: int, method: str, mode: str, rounding: str, alpha: float) -> Array:
    old = x.shape[axis]
    where = _source(np.arange(new, dtype=np.float32), old, new, mode)
    if method == "nearest_neighbor":
        places = np.clip(_nearest(where, rounding).astype(int), 0, old - 1)
        return np.take(x, places, axis)
    low = np.floor(where).astype(int)
    part = (where - low).astype(np.float32)
    if method == "linear":
        weights = {0: 1 - part, 1: part}
    else:
        a = np.float32(alpha)
        weights = {
            -1: ((part - 2) * part + 1) * part * a,
            0: ((a + 2) * part - (a + 3)) * part * part + 1,
            1: ((-(a + 2) * part + (2 * a + 3)) * part - a) * part,
            2: (1 - part) * part * part * a,
        }
    shape = [1] * x.ndim
    shape[axis] = new
    total = np.zeros((), x.dtype)
    for offset, weight in weights.items():
        total = total + np.take(x, np.clip(low + offset, 0, old - 1), axis) * weight.reshape(shape)
    return total


def _resize(
    data: Array,
    size: Any,
    layout: str,
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    **_: Any,
) -> Array:
    axes = [layout.index(letter) for letter in "DHW" if letter in layout]
    sizes = [int(size)] * len(axes) if np.ndim(size) == 0 else [int(s) for s in size]
    found = data.astype(np.float32) if data.dtype.itemsize < 4 or data.dtype.kind in "iu" else data
    for axis, new in zip(axes, sizes, strict=True):
        found = _along(found, axis, new, method, coordinate_transformation_mode, rounding_method, cubic_alpha)
    return found.astype(data.dtype)


IMAGES: dict[str, Callable[..., Any]] = {"image.resize2d": _resize, "image.resize3d": _resize}
