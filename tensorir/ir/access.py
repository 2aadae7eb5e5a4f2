"""Access maps: which points of an operand a point of the result reads.

A map gives each coordinate of the operand as a sum of coordinates of the result, with quotients, as an entry of another
operand, or as a whole interval. A dim that it does not name is read at the result's own coordinate. An operand that is
read at some points of the iteration domain alone has the box of these, or the box that is left out.

Of a call with functions it is the map by which operands are handed to these; their bodies have maps of their own.

>>> from tensorir.ir.types import tensor
>>> (shifted,) = by_offset(("I", 2), [tensor("float", I=(0, 9))], tensor("float", I=(-2, 7)))
>>> print(shifted.at["I"], shifted.offset("I"), shifted.offset("J"))
I + 2 2 0
>>> (merged,) = to_pairs(("A", "B", "I"), [tensor("float", A=(0, 3), B=(0, 4))], tensor("float", I=(0, 12)))
>>> merged.point({"I": 7}), merged.offset("I"), sorted(merged.mixed)
({'I': 7, 'A': 1, 'B': 3}, None, ['A', 'B', 'I'])
>>> table = tensor("int", Edge=(0, 5), _NB_Vertex=(0, 2))
>>> entries, x = at_neighbour((1,), [table, tensor("float", Vertex=(0, 4))], tensor("float", Edge=(0, 5)))
>>> x.at["Vertex"], sorted(x.far), entries.point({"Edge": 3})
(Entry(operand=0, clamps=False, absent=True), ['Vertex'], {'Edge': 3, '_NB_Vertex': 1})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import TensorType
from tensorir.ir.typing_of_elements import highest_neighbour, neighbour_source


@dataclass(frozen=True, slots=True)
class Entry:
    """A coordinate that data say: the element of an operand, at the point to which the operand's own map leads."""

    operand: int
    clamps: bool = False
    """An entry outside of the interval stands for the nearest coordinate; otherwise nothing is read there."""
    absent: bool = False
    """-1 is no coordinate: the entry of a neighbour table where there is no neighbour."""


Coordinate = Affine | Interval | Entry


@dataclass(frozen=True, slots=True)
class Access:
    """The access map of one operand of a call: the coordinates at which a point of the result reads it.

    Dims that `at` does not name are read at the coordinate of the result.
    """

    at: Mapping[str, Coordinate] = field(default_factory=dict[str, Coordinate])
    """By dim of the operand, the coordinate that is read, or all that are."""
    inside: Dims | None = None
    """The points of the result at which it is read; None where it is at all."""
    outside: Dims | None = None
    """The points of the result at which it is not read."""
    uncut: frozenset[str] = frozenset()
    """Dims, of the operand or of the result, whose intervals are part of the meaning: a part of them is no call."""

    def coordinate(self, dim: str) -> Coordinate:
        """The coordinate that is read along a dim of the operand."""
        return self.at[dim] if dim in self.at else variable(dim)

    @property
    def is_identity(self) -> bool:
        return not self.at and self.inside is None and self.outside is None

    def offset(self, dim: str) -> int | None:
        """The fixed distance along a dim at which the operand is read, 0 at the same point; None if it is not fixed."""
        if dim not in self.at:
            return None if dim in self.mixed else 0
        coordinate = self.at[dim]
        is_fixed = isinstance(coordinate, Affine) and coordinate.terms == ((dim, 1),) and not self._elsewhere(dim)
        return coordinate.constant if is_fixed and isinstance(coordinate, Affine) else None

    @property
    def offsets(self) -> Mapping[str, int]:
        """By dim of the operand, the fixed offsets at which it is read elsewhere."""
        return {d: offset for d in self.at if (offset := self.offset(d))}

    def _elsewhere(self, dim: str) -> bool:
        """True if the coordinate along another dim depends on this one."""
        return any(isinstance(a, Affine) and dim in a.names for d, a in self.at.items() if d != dim)

    @property
    def mixed(self) -> frozenset[str]:
        """The dims (of the operand or result) along which a point does not read the same coordinate."""
        named = frozenset(n for a in self.at.values() if isinstance(a, Affine) for n in a.names)
        return named.union(self.at)

    @property
    def far(self) -> frozenset[str]:
        """The dims along which no halo of fixed width contains the points that are read."""
        return frozenset(d for d in self.mixed if self.offset(d) is None)

    @property
    def absolute(self) -> frozenset[str]:
        """The dims along which the map is not translation-invariant: it changes if coordinates count from elsewhere."""
        named = {d: a for d, a in self.at.items() if not isinstance(a, Interval) and self.offset(d) is None}
        return frozenset(named).union(*(a.names for a in named.values() if isinstance(a, Affine)))

    @property
    def entries(self) -> Mapping[str, Entry]:
        """By dim of the operand, the coordinates that are elements of other operands."""
        return {d: a for d, a in self.at.items() if isinstance(a, Entry)}

    @property
    def renamed(self) -> dict[str, str]:
        """By dim of the operand, the dim of the result with the same coordinate under another name."""
        return {d: a.terms[0][0] for d, a in self.at.items()
                if isinstance(a, Affine) and not a.constant and len(a.terms) == 1
                and isinstance(a.terms[0][0], str) and a.terms[0][1] == 1}  # fmt: skip

    def point(self, point: Mapping[str, int]) -> Mapping[str, int]:
        """The point of the operand that a point of the result reads, along dims with affine coordinates."""
        if not self.at:
            return point
        return {**point, **{d: a.at(point) for d, a in self.at.items() if isinstance(a, Affine)}}


EVERYWHERE = Access()
"""The same point."""

Accesses = Sequence[Access | None]
"""By operand, functions among them; None of one of which no point is read."""
AccessRule = Callable[[Any, Sequence[Any], TensorType], Accesses]
"""The access maps of a call, from its static parameters, the types of operands and functions, and its own."""


def same_point(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    return (EVERYWHERE,) * len(args)


def no_point(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """Operands of which the type alone counts."""
    return (None,) * len(args)


@cache
def _further(dim: str, offset: int) -> Access:
    return Access({dim: variable(dim).plus(number(offset))})


def at_neighbours(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """`shift_init`: the table at all slots, along the result's new dim, and the second operand at the entries."""
    slots_dim, source = neighbour_source(args[0])
    result_dim = highest_neighbour(result.dims)
    assert result_dim is not None
    return Access({slots_dim: variable(result_dim)}), Access({source: Entry(0, absent=True)})


def at_neighbour(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """`unstructured_shift`: the table at one slot, and the second operand at the entries."""
    slots_dim, source = neighbour_source(args[0])
    return Access({slots_dim: number(static[0])}), Access({source: Entry(0, absent=True)})


def at_indices(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """`gather`: the first operand at the elements of the others; bounds count, so it cannot be cut along these dims."""
    dims, mode = static
    at: dict[str, Coordinate] = {d: Entry(operand, clamps=mode == "clamp") for operand, d in enumerate(dims, 1)}
    return (Access(at, uncut=frozenset(dims)), *(EVERYWHERE,) * len(dims))


def by_offset(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    return (_further(static[0], static[1]),)


def at_slot(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """`shift_apply`: the operand at one slot of its last neighbour dim."""
    dim = highest_neighbour(args[0].dims)
    assert dim is not None
    return (Access({dim: number(static.neighbour)}),)


def in_parts(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """Each operand on its own intervals."""
    return tuple([Access(inside=a.dims) for a in args])


def over_first(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """`update`: the second operand where it has points, the first elsewhere."""
    update_dims = args[1].dims
    return Access(outside=update_dims if update_dims.size else None), Access(inside=update_dims)


def by_name(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    return (Access({old: variable(new) for old, new in static.pairs}),)


def from_pairs(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """`split_dim`: the operand at outer × extent + inner."""
    at = variable(static.outer).times(static.extent).plus(variable(static.inner))
    return (Access({static.dim: at}, uncut=frozenset([static.inner])),)


def to_pairs(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """`merge_dims`: the operand at the quotient and the remainder of the merged coordinate."""
    outer, inner, dim = static
    extent, merged = max(1, args[0].dims[inner].stop), variable(dim)
    at = {outer: quotient(merged, extent, {}), inner: remainder(merged, extent, {})}
    return (Access(at, uncut=frozenset([inner])),)


def along_row(static: Any, args: Sequence[Any], result: TensorType) -> Accesses:
    """Folds, sorts and the like: operands whole along the dims that the static parameters name."""
    whole_dims = static.dims if hasattr(static, "dims") else (static.dim,)
    accesses: list[Access] = []
    for a in args:
        at: dict[str, Coordinate] = {d: a.dims[d] for d in whole_dims if isinstance(a, TensorType) and d in a.dims}
        accesses.append(Access(at, uncut=frozenset(at)) if at else EVERYWHERE)
    return accesses


def _all_of(x: TensorType) -> Access:
    return Access(dict(x.dims.items), uncut=frozenset(x.dims))


def first_and_all(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    """`assert_`: the first operand at the same point, the others whole."""
    return (EVERYWHERE, *map(_all_of, args[1:]))


def all_points(static: Any, args: Sequence[TensorType], result: TensorType) -> Accesses:
    return tuple(map(_all_of, args))


# Static parameters that say where a result has points: those of the same call for other points of its result.

Placement = Callable[[Any, Dims], tuple[Any, ...]]


def cut_to(static: Any, dims: Dims) -> tuple[Any, ...]:
    return (Dims(tuple((n, dims[n]) for n in static.intervals if n in dims)),)


def spread_over(static: Any, dims: Dims) -> tuple[Any, ...]:
    i = dims[static.dim]
    return static.dim, i.start, i.stop
