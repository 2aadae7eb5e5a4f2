"""Memory: allocations in an address space that counts half bytes, each far from all others.

A pointer is a number. Its upper bits tell its allocation, so arithmetic keeps it; its lower bits the place in it. Only
lanes that are accessed must be inside.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.tile.elements import Element
from tensorir.tile.interpret.hazards import Access
from tensorir.tile.interpret.rounding import Array

__all__ = ["Allocation", "Memory"]

_SHIFT = 40
"""Half bytes between two allocations, as a power of two: 512 GB."""
_MIDDLE = 1 << (_SHIFT - 1)
ALIGNMENT = 256
"""Of an allocation in bytes; its storage ends at a multiple of it."""


@dataclass(slots=True, eq=False)
class Allocation:
    """Bytes that a name stands for; `size` of them are used."""

    name: str
    number: int
    size: int
    data: Array
    element: Element
    given: bool = False
    """Whether it is an argument: what it holds at the end is a result."""
    constant: bool = False
    shadow: Any = field(default=None, repr=False)
    """What the watch keeps of its bytes, in checked mode."""

    @property
    def base(self) -> int:
        return (self.number << _SHIFT) + _MIDDLE

    def element_at(self, byte: int) -> int:
        """Which element holds a byte."""
        return 2 * byte // (self.element.width // 4)


class Memory:
    """The allocations of a launch."""

    def __init__(self) -> None:
        self.allocations: dict[int, Allocation] = {}
        self.next: int = 1

    def allocate(self, name: str, size: int, element: Element) -> Allocation:
        """New bytes, zero."""
        room = max(-(-size // ALIGNMENT) * ALIGNMENT, ALIGNMENT)
        found = Allocation(name, self.next, size, np.zeros(room, np.uint8), element)
        self.allocations[self.next] = found
        self.next += 1
        return found

    def free(self, allocation: Allocation) -> None:
        del self.allocations[allocation.number]

    def places(
        self, addresses: Array, element: Element, mask: Array | None, access: Access
    ) -> Iterator[tuple[Allocation, Array, Any]]:
        """The lanes of each allocation: their offsets in half bytes, and which lanes they are (all: an ellipsis)."""
        flat = addresses.reshape(-1)
        lanes: Any = ...
        if mask is not None:
            chosen = np.flatnonzero(mask.reshape(-1))
            if chosen.size == 0:
                return
            if chosen.size != flat.size:
                lanes = chosen
        used = flat[lanes]
        numbers = used >> _SHIFT
        first = int(numbers.flat[0])
        if (numbers == first).all():
            yield self._checked(first, used, element, lanes, access)
            return
        for number in np.unique(numbers):
            inside = np.flatnonzero(numbers == number)
            which = inside if lanes is ... else lanes[inside]
            yield self._checked(int(number), used[inside], element, which, access)

    def _checked(
        self, number: int, used: Array, element: Element, lanes: Any, access: Access
    ) -> tuple[Allocation, Array, Any]:
        allocation = self.allocations.get(number)
        if allocation is None:
            access.refuse_pointer(lanes)
        offsets = used - allocation.base
        outside = (offsets < 0) | (offsets + element.width // 4 > 2 * allocation.size)
        if outside.any():
            access.refuse_outside(allocation, int(offsets[outside.argmax()]), element, lanes, int(outside.argmax()))
        if (
            element.width > 4
            and (offsets & (2 * element.bytes - 1) if element.bytes & (element.bytes - 1) == 0 else offsets & 1).any()
        ):
            access.refuse_misaligned(allocation, offsets, element)
        if element.width == 4:
            access.whole_bytes(allocation, offsets, element)
        return allocation, offsets, lanes

    def read(self, addresses: Array, element: Element, mask: Array | None, access: Access) -> Array:
        """The elements that pointers point to, zero in lanes that are masked."""
        result = np.zeros(addresses.size, element.numpy)
        for allocation, offsets, lanes in self.places(addresses, element, mask, access):
            access.touched(allocation, offsets, element, lanes)
            result[lanes] = _fetch(allocation, offsets, element)
        return result.reshape(addresses.shape)

    def write(self, addresses: Array, values: Array, element: Element, mask: Array | None, access: Access) -> None:
        """Store elements where pointers point to; of lanes that meet, the last one stays."""
        flat = values.reshape(-1)
        for allocation, offsets, lanes in self.places(addresses, element, mask, access):
            access.touched(allocation, offsets, element, lanes)
            if allocation.constant:
                access.refuse_constant(allocation)
            _store(allocation, offsets, element, flat[lanes])


def _fetch(allocation: Allocation, offsets: Array, element: Element) -> Array:
    if element.width == 4:
        return (allocation.data[offsets >> 1] >> (4 * (offsets & 1)).astype(np.uint8) & 15).view(element.numpy)
    if element.bits == 1:
        return allocation.data[offsets >> 1] != 0
    return allocation.data.view(element.numpy)[offsets // (2 * element.bytes)]


def _store(allocation: Allocation, offsets: Array, element: Element, values: Array) -> None:
    if element.width == 4:
        nibbles = values.view(np.uint8) & 15
        for high in (0, 1):  # the halves of a byte are written one after the other
            lanes = (offsets & 1) == high
            at, kept = offsets[lanes] >> 1, np.uint8(15 if high else 240)
            allocation.data[at] = (allocation.data[at] & kept) | (nibbles[lanes] << (4 * high))
    elif element.bits == 1:
        allocation.data[offsets >> 1] = values
    else:
        allocation.data.view(element.numpy)[offsets // (2 * element.bytes)] = values
