"""Fields that share memory: one as a part of another.

>>> whole = np.arange(12.0).reshape(3, 4)
>>> part = window(whole, whole[1:, 2])
>>> part.index, part.shape
((slice(1, 3, 1), slice(2, 3, 1)), (2,))
>>> part.of(whole)
array([ 6., 10.])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Window", "key_of", "shared", "window"]


WORK = 100_000
"""How long two arrays are looked at before they count as sharing memory."""


def shared(a: Any, b: Any) -> bool:
    """Whether some element of one array is one of another: columns of a matrix that take turns in memory share none."""
    exact: Any = np.shares_memory  # its types know no bound
    try:
        return exact(a, b, max_work=WORK)
    except np.exceptions.TooHardError:
        return True


def key_of(array: Any) -> Any:
    """What tells the memory of an array from that of others, as long as it is not freed."""
    return array.ctypes.data, array.shape, array.strides, array.dtype


@dataclass(frozen=True, slots=True)
class Window:
    """A part of an array: where, the order in which its axes are taken, and its shape then."""

    index: tuple[slice, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def of(self, whole: Any) -> Any:
        """The part of an array."""
        return whole[self.index].transpose(self.order).reshape(self.shape)

    def put(self, whole: Any, part: Any) -> Any:
        """An array of the backend with another part."""
        extents = whole[self.index].shape
        turned = part.reshape(tuple(extents[k] for k in self.order))
        return whole.at[self.index].set(turned.transpose(tuple(int(k) for k in np.argsort(self.order))))


def window(whole: Any, part: Any) -> Window | None:
    """The part of an array that another one is, None where it is none that slices and an order of axes say."""
    if whole.dtype != part.dtype or min(whole.strides, default=1) < 1:
        return None
    left = part.ctypes.data - whole.ctypes.data
    if left < 0:
        return None
    slowest_first = sorted((k for k in range(whole.ndim) if whole.shape[k] > 1), key=lambda k: -whole.strides[k])
    starts = dict.fromkeys(range(whole.ndim), 0)
    for k in slowest_first:
        starts[k], left = divmod(left, whole.strides[k])
    if left or any(starts[k] >= whole.shape[k] for k in starts):
        return None
    taken: dict[int, tuple[int, int]] = {}
    order: list[int] = []
    for extent, stride in zip(part.shape, part.strides, strict=True):
        if extent == 1:
            continue
        fits = (
            k for k in slowest_first
            if k not in taken and stride % whole.strides[k] == 0 and stride > 0
            and starts[k] + (extent - 1) * (stride // whole.strides[k]) < whole.shape[k]
        )  # fmt: skip
        axis = next(fits, None)
        if axis is None:
            return None
        taken[axis] = extent, stride // whole.strides[axis]
        order.append(axis)
    index = tuple(
        slice(starts[k], starts[k] + (extent - 1) * step + 1, step)
        for k in range(whole.ndim)
        for extent, step in (taken.get(k, (1, 1)),)
    )
    rest = tuple(k for k in range(whole.ndim) if k not in taken)
    return Window(index, (*order, *rest), tuple(part.shape))
