"""Access maps of a kernel: positions as multiples of the axes of its points, and the boxes of points at which it does.

A kernel computes all points of a grid at once, each at the position (axis 0, axis 1, ...). What moves elements moves
positions: of `x[2:]`, the element at position p is that of x at p + 2. So slices, transposes, paddings and joins cost
nothing, and a mask is a box of points.

>>> slice_at = Index(0, 1, 2)
>>> cut(((0, 10),), slice_at, 4, 8)
((2, 6),)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A number that is read of an array of indices: the position of a neighbour."""

    of: Any
    at: tuple[Any, ...]


class Index(NamedTuple):
    """A position along one axis of an array: factor × symbol + offset, the offset alone where there is no symbol."""

    symbol: int | Entry | None
    """An axis of the grid, or a number that is read."""
    factor: int
    offset: int

    def moved(self, offset: int, factor: int = 1) -> Index:
        """factor × this + offset."""
        return Index(self.symbol, factor * self.factor, factor * self.offset + offset)


Position = tuple[Index, ...]
Box = tuple[tuple[int, int], ...]
"""Points of the grid, along each axis from and to."""


def identity(axes: int, first: int = 0) -> Position:
    """The position that is the point itself."""
    return tuple(Index(first + k, 1, 0) for k in range(axes))


def hull(a: Box, b: Box | None) -> Box:
    """The least box around two."""
    return a if b is None else tuple((min(p, r), max(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))


def is_empty(box: Box) -> bool:
    return any(a >= b for a, b in box)


def cut(box: Box, index: Index, start: int, stop: int) -> Box | None:
    """The points of a box at which start <= index < stop; None if the index is read of a table, so that no box has
    them.
    """
    match index:
        case Index(None, _, offset):
            return box if start <= offset < stop else tuple((a, a) for a, _ in box)
        case Index(int(axis), factor, offset):
            low, high = start - offset, stop - offset
            if factor > 0:
                first, last = -(-low // factor), -(-high // factor)
            else:
                first, last = high // factor + 1, low // factor + 1
            a, b = box[axis]
            return (*box[:axis], (max(a, first), min(b, last)), *box[axis + 1 :])
        case _:
            return None


def symbols_of(position: Position) -> frozenset[int]:
    """The axes of the grid that a position depends on, also by way of what it reads.

    >>> sorted(symbols_of((Index(Entry("table", (Index(2, 1, 0),)), 1, 0), Index(0, 1, 3))))
    [0, 2]
    """
    return frozenset(_axes(position))


def _axes(position: Position) -> Iterator[int]:
    """The axes on which the indices of a position depend, with repetitions."""
    for index in position:
        if isinstance(index.symbol, Entry):
            yield from _axes(index.symbol.at)
        elif index.symbol is not None:
            yield index.symbol
