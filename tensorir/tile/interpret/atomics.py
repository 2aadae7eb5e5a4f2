"""Memory, changed lane by lane in one step each; all at once where no two lanes meet."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.tile.elements import Element
from tensorir.tile.interpret import floats
from tensorir.tile.interpret.hazards import Access
from tensorir.tile.interpret.integers import unsigned
from tensorir.tile.interpret.memory import Memory
from tensorir.tile.interpret.rounding import Array

__all__ = ["CHANGES", "changed", "exchanged"]


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
