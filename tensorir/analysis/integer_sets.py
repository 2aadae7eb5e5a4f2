"""Sets of points with named coordinates: unions of boxes, and explicit points where a table was read.

A piece is a product of one factor per dim, an interval or a sorted array of coordinates; pieces may overlap. What is
no product (the points that a table reads along a dim that it also runs over) is an array of points.

>>> a = IntegerSet.box(Dims.of(I=(0, 4), J=(0, 2)))
>>> b = a.moved("I", 2) | a
>>> print(b, len(b), (5, 1) in b)
I[0:6], J[0:2] 12 True
>>> print(b.without(Dims.of(I=(1, 6), J=(0, 9))))
I[0:1], J[0:2]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensorir.binding.arrays import Array, is_array
from tensorir.ir.types import Dims, Interval

__all__ = ["Factor", "IntegerSet", "coordinates", "factor_of"]

Factor = tuple[int, int] | Array
"""An interval, or sorted coordinates without repetition that are none."""
Piece = tuple[Factor, ...]
MAX_PIECES = 16
"""Boxes that are put together to see whether they fill one."""


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSet:
    """A set of points; `names` are its dims, in the order of the factors."""

    names: tuple[str, ...]
    pieces: tuple[Piece, ...] = ()
    clouds: tuple[Array, ...] = ()
    """Explicit points, one per row."""

    @staticmethod
    def box(dims: Dims) -> IntegerSet:
        """All points of a box."""
        piece = tuple((i.start, i.stop) for _, i in dims.items)
        return IntegerSet(dims.names, (piece,) if dims.size else ())

    @staticmethod
    def rows(names: Sequence[str], rows: Array) -> IntegerSet:
        """Explicit points."""
        if not len(rows):
            return IntegerSet(tuple(names))
        if len(names) == 1:
            return IntegerSet(tuple(names), ((factor_of(rows[:, 0]),),))
        return IntegerSet(tuple(names), (), (np.unique(rows, axis=0),))

    def __bool__(self) -> bool:
        return bool(self.pieces or self.clouds)

    def __or__(self, other: IntegerSet) -> IntegerSet:
        if not self:
            return other.onto(self.names)
        if not other or self is other:
            return self
        other = other.onto(self.names)
        clouds = (*self.clouds, *other.clouds)
        if len(clouds) > 1:
            clouds = (np.unique(np.concatenate(clouds), axis=0),)
        return IntegerSet(self.names, _union(self.pieces, other.pieces), clouds)

    def onto(self, names: Sequence[str]) -> IntegerSet:
        """The points without the coordinates of other dims, in the order of the names, all of which are here."""
        names = tuple(names)
        if names == self.names:
            return self
        at = [self.names.index(n) for n in names]
        pieces = [tuple([piece[k] for k in at]) for piece in self.pieces]
        found = IntegerSet(names, _union((), pieces))
        for cloud in self.clouds:
            found |= IntegerSet.rows(names, cloud[:, at]) if names else IntegerSet((), ((),))
        return found

    def moved(self, dim: str, offset: int) -> IntegerSet:
        """Every point with one coordinate greater by the offset."""
        k = self.names.index(dim)
        pieces = tuple([(*p[:k], _moved(p[k], offset), *p[k + 1 :]) for p in self.pieces])
        step = np.array([offset if n == dim else 0 for n in self.names])
        return IntegerSet(self.names, pieces, tuple([c + step for c in self.clouds]))

    def renamed(self, names: Mapping[str, str]) -> IntegerSet:
        return IntegerSet(tuple([names.get(n, n) for n in self.names]), self.pieces, self.clouds)

    def along(self, dim: str, factor: Factor) -> IntegerSet:
        """Every point at all coordinates of a factor, along a dim that is new or replaced."""
        rest = self.onto([n for n in self.names if n != dim])
        if _size(factor) == 0:
            return IntegerSet((*rest.names, dim))
        pieces = tuple([(*p, factor) for p in rest.pieces])
        clouds = [
            np.concatenate([np.repeat(c, _size(factor), 0), np.tile(coordinates(factor), len(c))[:, None]], 1)
            for c in rest.clouds
        ]
        return IntegerSet((*rest.names, dim), pieces, tuple(clouds))

    def at(self, dim: str, coordinate: int) -> IntegerSet:
        """The points at a coordinate, without it."""
        return self.within(Dims(((dim, Interval(coordinate, coordinate + 1)),))).onto(
            [n for n in self.names if n != dim]
        )

    def within(self, dims: Dims) -> IntegerSet:
        """The points inside of intervals; dims that the points lack do not matter."""
        bounds = [dims.get(n) for n in self.names]
        pieces: list[Piece] = []
        for piece in self.pieces:
            cut = tuple([f if i is None else _within(f, i) for f, i in zip(piece, bounds, strict=True)])
            if all(_size(f) for f in cut):
                pieces.append(cut)
        clouds = tuple([c[m] for c in self.clouds if (m := self._inside(c, bounds)).any()])
        return IntegerSet(self.names, _union((), pieces) if len(pieces) < len(self.pieces) else tuple(pieces), clouds)

    def without(self, dims: Dims) -> IntegerSet:
        """The points outside of a box."""
        bounds = [dims.get(n) for n in self.names]
        pieces: list[Piece] = []
        for piece in self.pieces:
            pieces += _outside(piece, bounds)
        clouds = tuple([c[m] for c in self.clouds if (m := ~self._inside(c, bounds)).any()])
        return IntegerSet(self.names, tuple(pieces), clouds)

    def _inside(self, cloud: Array, bounds: Sequence[Interval | None]) -> Array:
        inside = np.ones(len(cloud), bool)
        for k, interval in enumerate(bounds):
            if interval is not None:
                inside &= (cloud[:, k] >= interval.start) & (cloud[:, k] < interval.stop)
        return inside

    @property
    def hull(self) -> Dims:
        """The smallest box that holds all points; of none it is empty along every dim."""
        if not self:
            return Dims(tuple((n, Interval(0, 0)) for n in self.names))
        items: list[tuple[str, Interval]] = []
        for k, name in enumerate(self.names):
            ends = [_ends(p[k]) for p in self.pieces] + [
                (int(c[:, k].min()), int(c[:, k].max()) + 1) for c in self.clouds
            ]
            items.append((name, Interval(min(a for a, _ in ends), max(b for _, b in ends))))
        return Dims(tuple(items))

    @property
    def array(self) -> Array:
        """All points, one per row, in ascending order."""
        found = list(self.clouds)
        for piece in self.pieces:
            axes = np.meshgrid(*[coordinates(f) for f in piece], indexing="ij")
            found.append(np.stack([a.ravel() for a in axes], 1) if axes else np.zeros((1, 0), int))
        if not found:
            return np.zeros((0, len(self.names)), int)
        every = np.concatenate(found)
        return every[:1] if not self.names else np.unique(every, axis=0)

    def mask(self, dims: Dims) -> Array:
        """Where in a box the points are; axes as in the box."""
        here = self.onto(dims.names).within(dims)
        found = np.zeros(dims.shape, bool)
        starts = [i.start for _, i in dims.items]
        for piece in here.pieces:
            found[np.ix_(*[coordinates(f) - s for f, s in zip(piece, starts, strict=True)])] = True
        for cloud in here.clouds:
            found[tuple((cloud - np.array(starts)).T)] = True
        return found

    def __len__(self) -> int:
        if not self.clouds and len(self.pieces) <= 1:
            return int(np.prod([_size(f) for f in self.pieces[0]], dtype=np.int64)) if self.pieces else 0
        return int(self.mask(self.hull).sum())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for row in self.array.tolist():
            yield tuple(row)

    def __contains__(self, point: Sequence[int]) -> bool:
        inside = Dims(tuple((n, Interval(c, c + 1)) for n, c in zip(self.names, point, strict=True)))
        return bool(self.within(inside))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntegerSet) or set(self.names) != set(other.names):
            return NotImplemented if not isinstance(other, IntegerSet) else False
        other = other.onto(self.names)
        plain = len(self.pieces) == len(other.pieces) and not self.clouds and not other.clouds
        if plain and all(map(_same, self.pieces, other.pieces)):
            return True
        return self.hull == other.hull and bool((self.mask(self.hull) == other.mask(self.hull)).all())

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def fills(self, dims: Dims) -> bool:
        """Whether the points are sure to be all of a box; of more than a few pieces nobody asks."""
        if self.clouds or len(self.pieces) > MAX_PIECES or any(is_array(f) for p in self.pieces for f in p):
            return False
        rest = IntegerSet.box(dims).onto(self.names)
        for piece in self.pieces:
            rest = rest.without(Dims(tuple((n, Interval(*_ends(f))) for n, f in zip(self.names, piece, strict=True))))
        return not rest

    @property
    def is_box(self) -> bool:
        """Whether the points are all of their hull."""
        return len(self) == self.hull.size

    def __str__(self) -> str:
        if not self:
            return "nothing"
        if not self.names:
            return "its value"
        if self.is_box:
            return str(self.hull)
        if len(self.pieces) <= 3 and not self.clouds and not any(is_array(f) for p in self.pieces for f in p):
            return " and ".join(map(self._spelled, self.pieces))
        return f"{len(self)} points of {self.hull}"

    def _spelled(self, piece: Piece) -> str:
        return ", ".join(f"{n}[{f[0]}:{f[1]}]" for n, f in zip(self.names, piece, strict=True))

    def __repr__(self) -> str:
        return f"<IntegerSet: {self}>"


def factor_of(coordinates: Array) -> Factor:
    """Coordinates as a factor: an interval where they are one."""
    found = np.unique(coordinates)
    first, last = int(found[0]), int(found[-1])
    return (first, last + 1) if last - first + 1 == len(found) else found


def _size(f: Factor) -> int:
    return len(f) if is_array(f) else max(0, f[1] - f[0])


def coordinates(f: Factor) -> Array:
    """The coordinates of a factor, ascending."""
    return f if is_array(f) else np.arange(f[0], f[1])


def _ends(f: Factor) -> tuple[int, int]:
    return (int(f[0]), int(f[-1]) + 1) if is_array(f) else (f[0], f[1])


def _moved(f: Factor, offset: int) -> Factor:
    return f + offset if is_array(f) else (f[0] + offset, f[1] + offset)


def _within(f: Factor, i: Interval) -> Factor:
    if not is_array(f):
        return max(f[0], i.start), min(f[1], i.stop)
    kept = f[(f >= i.start) & (f < i.stop)]
    return factor_of(kept) if len(kept) else (0, 0)


def _outside(piece: Piece, bounds: Sequence[Interval | None]) -> list[Piece]:
    """A product without a box, as disjoint products."""
    if any(i is not None and not _size(_within(f, i)) for f, i in zip(piece, bounds, strict=True)):
        return [piece]
    found: list[Piece] = []
    for k, interval in enumerate(bounds):
        if interval is None:
            continue
        first, last = _ends(piece[k])
        for side in (Interval(first, interval.start), Interval(interval.stop, last)):
            rest = _within(piece[k], side)
            if side and _size(rest):
                found.append((*piece[:k], rest, *piece[k + 1 :]))
        piece = (*piece[:k], _within(piece[k], interval), *piece[k + 1 :])
    return found


def _equal(a: Factor, b: Factor) -> bool:
    if is_array(a) or is_array(b):
        return is_array(a) and is_array(b) and np.array_equal(a, b)
    return a == b


def _same(a: Piece, b: Piece) -> bool:
    return all(map(_equal, a, b))


def _covers(a: Factor, b: Factor) -> bool:
    if not is_array(a):
        first, last = _ends(b)
        return a[0] <= first and last <= a[1]
    return bool(np.isin(coordinates(b), a).all())


def _union(pieces: Sequence[Piece], more: Sequence[Piece]) -> tuple[Piece, ...]:
    """Products, with those joined that are one product together."""
    found = list(pieces)
    for new in more:
        k = 0
        while k < len(found):
            joined = _joined(found[k], new)
            if joined is None:
                k += 1
            elif joined is found[k]:
                break
            else:
                del found[k]
                new, k = joined, 0
        else:
            found.append(new)
    return tuple(found)


def _joined(a: Piece, b: Piece) -> Piece | None:
    """Two products as one; the first where it holds the second; None where they are none."""
    differing = [k for k in range(len(a)) if not _equal(a[k], b[k])]
    if not differing:
        return a
    if len(differing) == 1:
        (k,) = differing
        x, y = a[k], b[k]
        if _covers(x, y):
            return a
        if is_array(x) or is_array(y):
            return (*a[:k], factor_of(np.union1d(coordinates(x), coordinates(y))), *a[k + 1 :])
        if x[0] <= y[1] and y[0] <= x[1]:
            return (*a[:k], (min(x[0], y[0]), max(x[1], y[1])), *a[k + 1 :])
        return None
    if all(_covers(a[k], b[k]) for k in differing):
        return a
    return b if all(_covers(b[k], a[k]) for k in differing) else None
