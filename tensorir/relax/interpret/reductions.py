"""Operators of Relax that reduce, sort or scan along axes."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.tir.dtypes import DataType

__all__ = ["REDUCTIONS"]

Array = Any


def _axes(axis: Any) -> Any:
    return axis if axis is None or isinstance(axis, int) else tuple(int(a) for a in axis)


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction in the type of its operand (narrow floats in float32)."""

    def compute(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        wide = x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind not in "iub" else x
        return np.asarray(function(wide, axis=_axes(axis), keepdims=keepdims)).astype(x.dtype)

    return compute


def _arg(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis=None, keepdims=False: np.asarray(function(x, axis=axis, keepdims=keepdims), np.int64)


def _scan(function: Callable[..., Any], first: int) -> Callable[..., Any]:
    def compute(x: Array, axis: Any = None, dtype: Any = None, exclusive: Any = False) -> Array:
        known = dtype not in (None, "", "void") and str(dtype) != "void"
        kind = (dtype if isinstance(dtype, DataType) else DataType.parse(str(dtype))).numpy if known else x.dtype
        values, along = (x.ravel(), 0) if axis is None else (x, int(axis))
        found = function(values, axis=along, dtype=kind)
        if exclusive:
            found = np.roll(found, 1, along)
            np.moveaxis(found, along, 0)[0] = first
        return found

    return compute


def _order(x: Array, axis: int, descending: bool) -> Array:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    length = x.shape[axis]
    return np.flip(length - 1 - np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


def _topk(x: Array, k: int, axis: int, ret_type: str, largest: bool, dtype: Any) -> Any:
    order = _order(x, axis, bool(largest))
    if k > 0:
        order = np.take(order, np.arange(min(k, x.shape[axis])), axis)
    values = np.take_along_axis(x, order, axis)
    kind = (dtype if isinstance(dtype, DataType) else DataType.parse(str(dtype))).numpy
    return {"both": (values, order.astype(kind)), "values": values, "indices": order.astype(kind)}[ret_type]


def _kind(dtype: Any) -> Any:
    return (dtype if isinstance(dtype, DataType) else DataType.parse(str(dtype))).numpy


def _median(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
    """The lower median; along one axis also where it is."""
    if isinstance(axis, tuple) and len(axis) > 1:
        raise NotImplementedError("TVM states the median over all of several axes, and takes it over the first")
    if axis is None or not isinstance(axis, int | tuple) or (isinstance(axis, tuple) and not axis):
        flat = np.sort(x.ravel())
        return np.asarray(flat[(flat.size - 1) // 2])
    along = int(axis if isinstance(axis, int) else axis[0])
    order = np.argsort(x, axis=along, kind="stable")
    place = np.take(order, [(x.shape[along] - 1) // 2], along)
    values = np.take_along_axis(x, place, along)
    return (values, place) if keepdims else (values.squeeze(along), place.squeeze(along))


def _multinomial(prob: Array, samples: Array, rows: Array, dtype: Any = "int64") -> Array:
    """For every sample the first place at which the probabilities of its row, added up, exceed it."""
    totals = np.cumsum(prob, axis=1, dtype=prob.dtype)[rows.reshape(-1)]
    exceeds = totals > samples.reshape(-1, 1)
    return np.argmax(exceeds, axis=1).astype(_kind(dtype)).reshape(rows.shape)


def _bucketize(x: Array, bounds: Array, out_int32: bool = False, right: bool = False) -> Array:
    """How many bounds lie below each element (or not above it); none below what is not a number."""
    below = (np.greater_equal if right else np.greater)(x[..., np.newaxis], bounds)
    return below.sum(axis=-1).astype(np.int32 if out_int32 else np.int64)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _over(np.sum),
    "prod": _over(np.prod),
    "max": _over(np.max),
    "min": _over(np.min),
    "mean": _over(np.mean),
    "std": _over(np.std),
    "variance": _over(np.var),
    "median": _median,
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
    "cumsum": _scan(np.cumsum, 0),
    "cumprod": _scan(np.cumprod, 1),
    "sort": lambda x, axis=-1, descending=False: np.take_along_axis(x, _order(x, axis, descending), axis),
    "argsort": lambda x, axis=-1, descending=False, dtype="int32": _order(x, axis, descending).astype(_kind(dtype)),
    "topk": _topk,
    "multinomial_from_uniform": _multinomial,
    "bucketize": _bucketize,
}
