"""Where the fields of a call lie: how a program sees their memory, and how results come into it."""

# What arrays are is known to the library that made them.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.backends import backend

__all__ = ["Accelerator", "Host"]


@dataclass(frozen=True)
class Host:
    """Memory that NumPy's arrays have."""

    def view(self, array: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, bool]:
        """An array with its axes turned and padded as they lie, and whether it is the array's own memory.

        Such a view does not keep the memory: whoever remembers it looks whether the array is still there.
        """
        made = _turned(np, array, order, shape)
        own = np.may_share_memory(made, array) and made.flags.writeable
        view = backend().view(_unowned(made) if own else made)
        return view, own and view.unsafe_buffer_pointer() == made.ctypes.data

    def store(self, target: Any, result: Any) -> None:
        np.copyto(target, np.asarray(result))


@dataclass(frozen=True)
class Accelerator:
    """Memory of a GPU, which CuPy's arrays have: programs see it through DLPack, and nothing goes through the host."""

    arrays: Any
    """The module `cupy`."""

    def view(self, array: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, bool]:
        made = _turned(self.arrays, array, order, shape)
        return backend().view(made), made.data.ptr == array.data.ptr

    def store(self, target: Any, result: Any) -> None:
        target[...] = self.arrays.from_dlpack(result)


def _unowned(array: Any) -> Any:
    """The memory of an array in one piece, as an array that does not keep it."""
    memory = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return np.frombuffer(memory, array.dtype).reshape(array.shape) if array.nbytes else array


def _turned(arrays: Any, array: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The array with its axes in the order of memory, in one piece: its own memory, or a copy."""
    turned = array.transpose(order)
    if turned.shape == shape or not shape:
        return arrays.ascontiguousarray(turned).reshape(turned.shape)
    strides = [array.itemsize]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return arrays.lib.stride_tricks.as_strided(turned, shape, tuple(reversed(strides)))
