"""Memory: allocations in an address space that counts half bytes, atomics, accesses of views, assumptions."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.tile.interpret import elements as floats
from tensorir.tile.interpret.elements import Array, signed, unsigned
from tensorir.tile.interpret.hazards import SHIFT, Access, Allocation, Watch, coordinates, dims_of, index_space
from tensorir.tile.interpret.meanings import element_of
from tensorir.tile.nodes import Bounded, DivBy, Module, Operation, SameElements
from tensorir.tile.types import Element, Pointer, TensorView, TileView

# Memory: allocations in an address space that counts half bytes, each far from all others.
#
# A pointer is a number. Its upper bits tell its allocation, so arithmetic keeps it; its lower bits the place in it.
# Only lanes that are accessed must be inside.


ALIGNMENT = 256
"""Of an allocation in bytes; its storage ends at a multiple of it."""


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
        numbers = used >> SHIFT
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


class Launch:
    """The state that the blocks of a launch share."""

    grid: tuple[int, int, int]
    say: Callable[[str], object]
    watch: Watch | None

    def __init__(
        self, module: Module, grid: tuple[int, int, int], say: Callable[[str], object], watch: Watch | None
    ) -> None:
        self.grid, self.say, self.watch = grid, say, watch
        self.memory: Memory = Memory()
        self.globals: dict[str, Allocation] = {}
        for name, op in module.globals.items():
            value: Any = op.attribute("value")
            data = np.ascontiguousarray(value.values).view(np.uint8).reshape(-1)
            allocation = self.memory.allocate(f"@{name}", data.size, value.type.element)
            allocation.data[: data.size] = data
            allocation.constant = bool(op.attribute("constant"))
            self.globals[name] = allocation


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


# Memory, changed lane by lane in one step each; all at once where no two lanes meet.


def _add(old: Array, value: Array, element: Element) -> Array:
    with np.errstate(all="ignore"):
        return old + value


CHANGES: dict[str, Any] = {
    "and": lambda old, value, element: old & value,
    "or": lambda old, value, element: old | value,
    "xor": lambda old, value, element: old ^ value,
    "add": _add,
    "addf": lambda old, value, element: floats.add(old, value, element),
    "max": lambda old, value, element: np.maximum(old, value),
    "min": lambda old, value, element: np.minimum(old, value),
    "umax": lambda old, value, element: np.where(unsigned(old, element) >= unsigned(value, element), old, value),
    "umin": lambda old, value, element: np.where(unsigned(old, element) <= unsigned(value, element), old, value),
    "xchg": lambda old, value, element: value,
}
"""By mode: what memory holds after it held `old`."""


def changed(
    memory: Memory, addresses: Array, values: Array, element: Element, mask: Array | None, access: Access, change: Any
) -> Array:
    """Change memory where pointers point to; the old values, 0 in lanes that are masked."""
    return _each(
        memory, addresses, element, mask, access, lambda old, lanes: change(old, values.reshape(-1)[lanes], element)
    )


def exchanged(
    memory: Memory, addresses: Array, expected: Array, values: Array, element: Element, mask: Array | None,
    access: Access,
) -> Array:  # fmt: skip
    """Replace memory where it has the bits of what is expected; the old values, what is expected in masked lanes."""
    width: Any = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[element.bytes]
    flat, wanted = values.reshape(-1), np.ascontiguousarray(expected).reshape(-1)

    def change(old: Array, lanes: Any) -> Array:
        return np.where(old.view(width) == wanted[lanes].view(width), flat[lanes], old)

    old = _each(memory, addresses, element, mask, access, change)
    return old if mask is None else np.where(mask, old, expected)


def _each(memory: Memory, addresses: Array, element: Element, mask: Array | None, access: Access, change: Any) -> Array:
    flat = addresses.reshape(-1)
    lanes = np.arange(flat.size) if mask is None else np.flatnonzero(mask.reshape(-1))
    result = np.zeros(flat.size, element.numpy)
    # lanes that meet take turns: each turn has the first lane of every address that is left
    for turn in _turns(flat[lanes], lanes):
        old = memory.read(flat[turn], element, None, access)
        result[turn] = old
        memory.write(flat[turn], np.asarray(change(old, turn)), element, None, access)
    return result.reshape(addresses.shape)


def _turns(addresses: Array, lanes: Array) -> list[Array]:
    turns: list[Array] = []
    while lanes.size:
        _, first = np.unique(addresses, return_index=True)
        first.sort()
        turns.append(lanes[first])
        rest = np.ones(lanes.size, bool)
        rest[first] = False
        addresses, lanes = addresses[rest], lanes[rest]
    return turns


# Views as values, and their loads and stores as accesses lane by lane.


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor_view at a launch: where it begins, its extents and its strides in elements."""

    type: TensorView
    base: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Viewed:
    """A partition, strided or gather_scatter view of a tensor."""

    type: TileView
    tensor: Tensor

    @property
    def space(self) -> tuple[int, ...]:
        return index_space(self.type, self.tensor.extents)


def lanes_of(view: Viewed, index: Sequence[Any]) -> tuple[Array, Array | None]:
    """The address of each element of a tile, and which are inside of the tensor: None where all are."""
    shape = view.type.tile
    addresses: Any = np.array(view.tensor.base, np.int64)
    mask: Any = None
    scale = view.tensor.type.element.width // 4
    parts = coordinates(view.type, index, view.tensor.extents)
    for k, ((at, inside), d) in enumerate(zip(parts, dims_of(view.type), strict=True)):
        along = [1] * len(shape)
        along[k] = shape[k]
        with np.errstate(all="ignore"):
            addresses = addresses + (at * (view.tensor.strides[d] * scale)).reshape(along)
        if not inside.all():
            mask = inside.reshape(along) if mask is None else mask & inside.reshape(along)
    addresses = np.broadcast_to(addresses, shape)
    return addresses, None if mask is None else np.broadcast_to(mask, shape)


def padding_of(view: TileView) -> Any:
    """The value of a load outside of the tensor; None where nothing is said."""
    element = view.tensor.element
    if view.padding is None:
        return None
    value = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}[view.padding]
    return np.array(value).astype(element.numpy)


# Whether what assume says of a value is so, for the watch of checked mode.


def check_assumption(watch: Watch, op: Operation, value: Any) -> None:
    """Tell the watch of elements that a predicate does not hold of."""
    predicate = op.attribute("predicate")
    said = f"says {predicate} of a value, which is not so,"
    match predicate:
        case Bounded(lower, upper):
            numbers = signed(np.asarray(value)).astype(object)
            outside = np.zeros(np.shape(value), bool)
            if lower is not None:
                outside |= np.asarray(numbers < lower, bool)
            if upper is not None:
                outside |= np.asarray(numbers > upper, bool)
            watch.undefined(op, outside, said)
        case SameElements(extents):
            array = np.asarray(value)
            watch.undefined(op, array != _groups(array, extents), said)
        case DivBy(divisor, every, along):
            if isinstance(value, Tensor):
                watch.undefined(op, np.array((value.base >> 1) % divisor != 0), said)
                return
            watch.undefined(op, _indivisible(op, np.asarray(value), divisor, every, along), said)
        case _:
            raise AssertionError(predicate)


def _groups(array: Any, extents: tuple[int, ...]) -> Any:
    """The first element of each element's block."""
    for axis, extent in enumerate(extents):
        if extent > 1:
            array = np.take(array, np.arange(array.shape[axis]) // extent * extent, axis)
    return array


def _indivisible(op: Operation, array: Any, divisor: int, every: int | None, along: int | None) -> Any:
    element = element_of(op.results[0])
    is_pointer = isinstance(element, Pointer)
    numbers = (array >> 1 if is_pointer else signed(array)).astype(object)
    if not every or along is None:
        return np.asarray(numbers % divisor != 0, bool)
    step = element.pointee.bytes if is_pointer else 1
    places = np.arange(array.shape[along]) % every
    shape = [1] * array.ndim
    shape[along] = -1
    firsts = numbers - (places * step).reshape(shape)
    counted = _groups(numbers, tuple(every if k == along else 1 for k in range(array.ndim)))
    return np.asarray((firsts != counted) | (counted % divisor != 0), bool)
