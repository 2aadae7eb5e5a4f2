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
from tensorir.binding.arrays import is_array, native
from tensorir.binding.known_coordinates import KNOWN, Coordinate, coordinate_of, distinct, knowing
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
    own = [
        one
        for array, place in zip(arrays, places, strict=True)
        for value in array.coords.values()
        if (one := coordinate_of(value, place)).type is not None and is_array(value.variable.data)
    ]
    return tuple(_entered(one) for one in distinct([*KNOWN.get(), *own]))


def _entered(one: Coordinate) -> KnownCoordinate:
    if isinstance(one.value, Field):
        return KnownCoordinate(one.value, one.name, one.units, one.even)
    return KnownCoordinate(Field(native(one.value.variable.data), one.dims), one.name, one.units, one.even)


def known_to(known: Iterable[KnownCoordinate]) -> AbstractContextManager[None]:
    """They are found by `ti.coord` where there are Fields."""
    return knowing(Coordinate(k.name, k.field, k.field.dims, k.units, k.even) for k in known)
