"""External functions that are known by name: what `T.call_packed` and `R.call_dps_packed` may call.

They take NumPy arrays that share the program's memory, and write into the last ones. `KNOWN` is the registry: a
function under a new name may be added to it.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.tir.interpret.arithmetic import is_array

__all__ = ["KNOWN"]

Array = Any


def _order(data: Array, axis: int, ascending: bool) -> Array:
    """Indices that sort, equal elements in the order in which they stand."""
    if ascending:
        return np.argsort(data, axis=axis, kind="stable")
    length = data.shape[axis]
    backwards = np.flip(data, axis)
    return np.flip(length - 1 - np.argsort(backwards, axis=axis, kind="stable"), axis)


def _sort(data: Array, out: Array, axis: Any = -1, ascending: Any = True) -> None:
    order = _order(data, int(axis), bool(ascending))
    out[...] = np.take_along_axis(data, order, int(axis))


def _argsort(data: Array, out: Array, axis: Any = -1, ascending: Any = True, *_: Any) -> None:
    out[...] = _order(data, int(axis), bool(ascending))


def _argsort_nms(data: Array, counts: Array, out: Array, axis: Any = 0, ascending: Any = True) -> None:
    moved = np.moveaxis(data, int(axis), -1)
    target = np.moveaxis(out, int(axis), -1)
    for place in np.ndindex(*moved.shape[:-1]):
        valid = int(counts.ravel()[np.ravel_multi_index(place, moved.shape[:-1])] if place else counts.ravel()[0])
        row: Array = np.arange(moved.shape[-1])
        row[:valid] = _order(moved[place][:valid], 0, bool(ascending))
        target[place] = row


def _topk(data: Array, *rest: Any) -> None:
    """topk(data, outputs..., k, axis, which, ascending): values, indices, or both."""
    arrays = [item for item in rest if is_array(item) and item.ndim > 0]
    k, axis, which, ascending = rest[len(arrays) :][:4]
    axis = int(axis)
    order = _order(data, axis, bool(ascending))
    k = int(k)
    if k > 0:
        order = np.take(order, np.arange(min(k, data.shape[axis])), axis)
    values = np.take_along_axis(data, order, axis)
    results = {"both": (values, order), "values": (values,), "indices": (order,)}[str(which)]
    for target, result in zip(arrays, results, strict=True):
        target[...] = result


KNOWN: dict[str, Callable[..., Any]] = {
    "tvm.contrib.sort.sort": _sort,
    "tvm.contrib.sort.argsort": _argsort,
    "tvm.contrib.sort.argsort_nms": _argsort_nms,
    "tvm.contrib.sort.topk": _topk,
}
"""The registry, by name."""
