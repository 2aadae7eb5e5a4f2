"""Memory, and buffers as views of it.

A `Memory` is one allocation: bytes, of which lanes (threads, or iterations that run side by side) may each have a copy
of their own. A `View` is a buffer at run time: a memory with an element type, a shape, strides and an offset. Several
views of one memory are aliases.

>>> memory = Memory.of(np.arange(6, dtype=np.int32), "A")
>>> view = View(memory, np.dtype(np.int32), 1, (2, 3), (3, 1), 0)
>>> memory.typed(view.dtype)[view.address([np.int32(1), np.int32(2)], False)]
np.int32(5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from tensorir.tir.interpret.arithmetic import Value, is_array

__all__ = ["Memory", "Pointer", "View", "row_major", "strided", "strides_of"]

_ALIGNMENT = 16


@dataclass(eq=False, slots=True)
class Memory:
    """One allocation of `size` bytes per copy; `copy` says which copy each lane uses, `own` that every lane has one.

    `born` counts allocations: what is older has a smaller number.
    """

    raw: np.ndarray[Any, Any]
    size: int
    unit: int
    name: str
    scope: str = "global"
    copy: Value = 0
    known: np.ndarray[Any, Any] | None = None
    allocated: bool = True
    own: bool = False
    born: int = 0
    element: int = 0
    """The bytes of an element as it was allocated, by which messages count."""
    logs: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, tuple[Any, ...]])
    views: dict[np.dtype[Any], np.ndarray[Any, Any]] = field(default_factory=dict[Any, Any])

    @staticmethod
    def new(count: int, dtype: np.dtype[Any], name: str, scope: str, copies: int = 1, copy: Value = 0) -> Memory:
        """Fresh memory for `count` elements, in as many copies."""
        size = -(-max(count, 1) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        raw = np.zeros(size * copies, np.uint8)
        return Memory(raw, size, dtype.itemsize, name, scope, copy, element=dtype.itemsize)

    @staticmethod
    def of(elements: np.ndarray[Any, Any], name: str) -> Memory:
        """Memory that holds the elements, all of which are known."""
        memory = Memory.new(elements.size, elements.dtype, name, "global")
        memory.typed(elements.dtype)[: elements.size] = elements.ravel()
        memory.allocated = False
        return memory

    def typed(self, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """The whole memory as elements of a type."""
        found = self.views.get(dtype)
        if found is None:
            found = self.views[dtype] = self.raw.view(dtype)
        return found

    def refine(self, itemsize: int) -> None:
        """Units of fewer bytes, since somebody sees the memory as narrower elements."""
        if itemsize >= self.unit:
            return
        by = self.unit // itemsize
        if self.known is not None:
            self.known = np.repeat(self.known, by)
        for depth, arrays in self.logs.items():
            self.logs[depth] = tuple(None if a is None else np.repeat(a, by) for a in arrays)
        self.unit = itemsize

    def knowledge(self) -> np.ndarray[Any, Any]:
        """One flag per unit: whether somebody has written it."""
        if self.known is None:
            self.known = np.full(self.raw.size // self.unit, not self.allocated)
        return self.known


@dataclass(frozen=True, slots=True)
class Pointer:
    """A handle: a place in a memory, counted in bytes, with the shape of the buffer that it was taken from."""

    memory: Memory
    offset: Value = 0
    view: View | None = None


@dataclass(eq=False, slots=True)
class View:
    """A buffer at run time; strides and offset count elements, which are `lanes` scalars of `dtype` each."""

    memory: Memory
    dtype: np.dtype[Any]
    lanes: int
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    offset: Value

    def address(self, indices: Sequence[Value], vector: bool) -> Value:
        """Where an element lies, counted in scalars; `vector` says that the last index is a vector."""
        total: Value = self.offset
        if vector and is_array(total):
            total = total[..., None]
        last = len(indices) - 1
        for place, (index, stride) in enumerate(zip(indices, self.strides, strict=True)):
            index = index.astype(np.int64) if is_array(index) else int(index)
            if vector and place != last and is_array(index):
                index = index[..., None]
            if vector and is_array(stride):
                stride = stride[..., None]
            total = total + index * stride
        if self.lanes != 1:
            within = np.arange(self.lanes)
            whole = np.asarray(total)[..., None] * self.lanes + within
            total = whole.reshape(*whole.shape[:-2], -1) if vector else whole
        return total


def strided(elements: np.ndarray[Any, Any], shape: Sequence[int], strides: Sequence[int]) -> np.ndarray[Any, Any]:
    """Contiguous elements seen with a shape and strides in bytes; unlike NumPy's own function, of any narrow type.

    >>> import ml_dtypes
    >>> strided(np.arange(6).astype(ml_dtypes.float8_e5m2), (2, 2), (3, 1)).astype(int).tolist()
    [[0, 1], [3, 4]]
    """
    return np.ndarray(shape, elements.dtype, elements.view(np.uint8), strides=strides)


def strides_of(array: Any) -> tuple[int, ...]:
    """The strides of an array in elements: those that it has; of one that runs backwards, those of a compact copy.

    >>> strides_of(np.zeros((2, 3), order="F")), strides_of(np.zeros(6)[::-1])
    ((1, 2), (1,))
    """
    if isinstance(array, np.ndarray) and array.size and not array.flags.c_contiguous and min(array.strides) >= 0:
        return tuple(step // array.itemsize for step in array.strides)
    return row_major(tuple(int(extent) for extent in np.shape(cast("Any", array))))


def row_major(shape: Sequence[Value]) -> tuple[Value, ...]:
    """The strides of a compact array.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[Value] = []
    step: Value = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))
