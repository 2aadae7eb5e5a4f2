"""Resizing: along each axis a weighted sum of elements at places that follow from the sizes alone.

Places and weights are computed while the program is built, in the arithmetic of the interpreter, and come with the
program as tables.
"""

# Attributes hold values of any type here.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.ir.types import FLOAT32, dtype_of
from tensorir.relax.interpret.networks import nearest, source_places, weights_of
from tensorir.relax.lift.elementwise import converted, element, whole
from tensorir.relax.lift.indexing import picked
from tensorir.relax.lift.reshaping import reshaped
from tensorir.relax.lift.values import Value, apply, constant, number

__all__ = ["IMAGES"]

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
