"""Coordinates of the labelled arrays that go into a loop or a transformation, as arrays of its program.

There DataArrays are Fields, which have none. A coordinate is an argument of what is compiled beside the state, so that
it is no constant of it: other values are no other program.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import equinox as eqx

from lowering.field import Field
from tensorir.binding.arrays import is_array, native
from tensorir.binding.coordinates import KNOWN, Coordinate, Round, coordinate_of, distinct, knowing
from tensorir.fieldview.datasets import AUXILIARY, auxiliary_of
from tensorir.ir.staggering import Half, halves
from tensorir.ir.types import Dims

__all__ = ["KnownCoordinates", "known_coordinates", "known_to"]


class KnownCoordinate(eqx.Module):
    """A coordinate as a pytree whose leaf is its array."""

    field: Field
    name: str = eqx.field(static=True)
    units: str = eqx.field(static=True)
    even: bool = eqx.field(static=True)
    round: Round | None = eqx.field(static=True, default=None)
    half: Half | None = eqx.field(static=True, default=None)
    """Which dim it is staggered to, as attributes tell."""


class KnownCoordinates(eqx.Module):
    """Coordinates, and the variables of Datasets that are not computed."""

    coordinates: tuple[KnownCoordinate, ...]
    auxiliary: frozenset[str] = eqx.field(static=True)


def known_coordinates(arrays: Iterable[Any], places: Sequence[Dims], datasets: Iterable[Any] = ()) -> KnownCoordinates:
    """The numbers among the coordinates of DataArrays that stand on `places`, after those that are known around.

    A coordinate whose numbers another library holds is none of them.
    """
    arrays, auxiliary = tuple(arrays), AUXILIARY.get(frozenset()).union(*map(auxiliary_of, datasets))
    own = [
        one
        for array, place in zip(arrays, places, strict=True)
        for value in array.coords.values()
        if (one := coordinate_of(value, place)).type is not None and is_array(value.variable.data)
    ]
    with halves(arrays) as told:
        entered = tuple(_entered(one, told.get(one.name)) for one in distinct([*KNOWN.get(), *own]))
    return KnownCoordinates(entered, auxiliary)


def _entered(one: Coordinate, half: Half | None) -> KnownCoordinate:
    if isinstance(one.value, Field):
        return KnownCoordinate(one.value, one.name, one.units, one.even, one.round, half)
    return KnownCoordinate(
        Field(native(one.value.variable.data), one.dims), one.name, one.units, one.even, one.round, half
    )


@contextmanager
def known_to(known: KnownCoordinates) -> Generator[None]:
    """They are found by `ti.coord` where there are Fields, and staggered dims are those that they tell."""
    token = AUXILIARY.set(known.auxiliary)
    try:
        with (
            knowing(Coordinate(k.name, k.field, k.field.dims, k.units, k.even, k.round) for k in known.coordinates),
            halves((), {k.name: k.half for k in known.coordinates if k.half is not None}),
        ):
            yield
    finally:
        AUXILIARY.reset(token)
