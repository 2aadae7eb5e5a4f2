"""Coordinates of the labelled arrays that go into a loop or a transformation, as arrays of its program.

There DataArrays are Fields, which have none. A coordinate is an argument of what is compiled beside the state, so that
it is no constant of it: other values are no other program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import equinox as eqx

from lowering.field import Field
from tensorir.binding.arrays import is_array
from tensorir.binding.known_coordinates import KNOWN, Coordinate, coordinate_of, knowing
from tensorir.types import Dims

__all__ = ["KnownCoordinate", "known_coordinates", "known_to"]


class KnownCoordinate(eqx.Module):
    """A coordinate as a pytree whose leaf is its array."""

    field: Field
    name: str = eqx.field(static=True)
    units: str = eqx.field(static=True)
    even: bool = eqx.field(static=True)


def known_coordinates(arrays: Iterable[Any], places: Sequence[Dims]) -> tuple[KnownCoordinate, ...]:
    """The numbers among the coordinates of DataArrays that stand on `places`, after those that are known around.

    A coordinate whose numbers another library holds is none of them.
    """
    found: dict[Any, KnownCoordinate] = {}
    for known in KNOWN.get():
        found[len(found)] = KnownCoordinate(known.value, known.name, known.units, known.even)
    for array, place in zip(arrays, places, strict=True):
        for name, value in array.coords.items():
            at = str(name), id(value.variable._data), tuple(place[str(d)] for d in value.dims)
            one = coordinate_of(value, place)
            if at not in found and one.type is not None and is_array(numbers := value.variable.data):
                # in an order of bytes that XLA takes
                numbers = numbers.astype(numbers.dtype.newbyteorder("="), copy=False)
                found[at] = KnownCoordinate(Field(numbers, one.dims), one.name, one.units, one.even)
    return tuple(found.values())


def known_to(known: Iterable[KnownCoordinate]) -> AbstractContextManager[None]:
    """They are found by `ti.coord` where there are Fields."""
    return knowing(Coordinate(k.name, k.field, k.field.dims, k.units, k.even) for k in known)
