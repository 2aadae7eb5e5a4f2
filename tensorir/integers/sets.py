"""Sets of points with named coordinates: boxes, regions, and unions of products with explicit points beside them.

Ends are half-open. A box may lack an end along a dim, and a `Region` is a union of boxes: domains, and conditions.

>>> r = Region.of({"K": (NEVER, 3)}) | Region.of({"K": (5, ALWAYS)})
>>> r.split({"K": (0, 9)})
Cut(dim='K', parts=(((0, 3), True), ((3, 5), False), ((5, 9), True)))

A piece of an `IntegerSet` is a product of one factor per dim, an interval or a sorted array of coordinates; pieces may
overlap. What is no product (the points that a table reads along a dim that it also runs over) is an array of points.
Sets that parameters bound are those of isl: `isl_set` and `isl_map` make them, `affine_from_isl` takes them apart.

>>> a = IntegerSet.box(Dims.of(I=(0, 4), J=(0, 2)))
>>> b = a.moved("I", 2) | a
>>> print(b, len(b), (5, 1) in b)
I[0:6], J[0:2] 12 True
>>> print(b.without(Dims.of(I=(1, 6), J=(0, 9))))
I[0:1], J[0:2]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorir.integers import intervals
from tensorir.integers.affine import Affine, Quotient, number, quotient, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.integers.intervals import Ends

Array = NDArray[Any]
NEVER, ALWAYS = -(1 << 62), 1 << 62
"""The ends of an interval that has none."""

Box = Mapping[str, Ends]


def moved(ends: Ends, by: int) -> Ends:
    """An interval shifted by a distance; infinite ends stay.

    >>> moved((0, ALWAYS), 2) == (2, ALWAYS)
    True
    """
    return tuple(e if e in (NEVER, ALWAYS) else e + by for e in ends)  # type: ignore[return-value]


def is_empty(box: Box) -> bool:
    return any(stop <= start for start, stop in box.values())


def intersection(a: Box, b: Box) -> dict[str, Ends]:
    """The intersection of two boxes; a dim that a box does not have is unbounded in it."""
    result = dict(a)
    for dim, (start, stop) in b.items():
        low, high = result.get(dim, (NEVER, ALWAYS))
        result[dim] = (max(low, start), min(high, stop))
    return result


def hull(a: Box | None, b: Box) -> Box:
    """The smallest box that holds both.

    >>> hull({"I": (0, 3)}, {"I": (5, 6)})
    {'I': (0, 6)}
    """
    if a is None or a == b:
        return b
    return {d: intervals.hull(a[d], b[d]) for d in a if d in b}


@dataclass(frozen=True, slots=True)
class Cut:
    """A box cut along a dim into parts, each inside (True) or outside of a region, or cut again."""

    dim: str
    parts: tuple[tuple[Ends, Cut | bool], ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A union of boxes, each as sorted (dim, ends) pairs."""

    boxes: tuple[tuple[tuple[str, Ends], ...], ...]

    @staticmethod
    def of(box: Box) -> Region:
        return Region(() if is_empty(box) else (tuple(sorted(box.items())),))

    def __or__(self, other: Region) -> Region:
        return Region(tuple(dict.fromkeys((*self.boxes, *other.boxes))))

    def __and__(self, other: Region) -> Region:
        boxes = [intersection(dict(a), dict(b)) for a in self.boxes for b in other.boxes]
        return Region(tuple(dict.fromkeys(tuple(sorted(b.items())) for b in boxes if not is_empty(b))))

    def __invert__(self) -> Region:
        """The complement: the intersection of the complements of all boxes, each a union of half-spaces."""
        result = Region(((),))
        for box in self.boxes:
            complement: list[tuple[tuple[str, Ends], ...]] = []
            for dim, (start, stop) in box:
                complement += [((dim, ends),) for ends in ((NEVER, start), (stop, ALWAYS)) if ends[0] < ends[1]]
            result = result & Region(tuple(complement))
        return result

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d for box in self.boxes for d, _ in box))

    def split(self, box: Box) -> Cut | bool:
        """A decision tree for a box: True if it is inside of the region, False if outside, or a `Cut` along a dim into
        such parts.
        """
        meeting = [dict(b) for b in self.boxes if not is_empty(intersection(dict(b), box))]
        if any(_covers(b, box) for b in meeting):
            return True
        if not meeting:
            return False
        dim = next(d for d in self.dims if d in box and any(_cuts(b, d, box[d]) for b in meeting))
        start, stop = box[dim]
        marks = sorted({start, stop, *(e for b in meeting for e in b.get(dim, ()) if start < e < stop)})
        parts: list[tuple[Ends, Cut | bool]] = []
        for low, high in pairwise(marks):
            side = self.split({**box, dim: (low, high)})
            if parts and parts[-1][1] == side:
                parts[-1] = ((parts[-1][0][0], high), side)
            else:
                parts.append(((low, high), side))
        return parts[0][1] if len(parts) == 1 else Cut(dim, tuple(parts))


def _covers(b: Box, box: Box) -> bool:
    return all(b[d][0] <= box.get(d, (NEVER, ALWAYS))[0] and box.get(d, (NEVER, ALWAYS))[1] <= b[d][1] for d in b)


def _cuts(b: Box, dim: str, ends: Ends) -> bool:
    return dim in b and (ends[0] < b[dim][0] or b[dim][1] < ends[1])


def cut_boxes(cut: Cut | bool, box: Box) -> Iterator[tuple[bool, Box]]:
    """The leaves of a decision tree: for each part of the box, True if it is inside, and the box of the part."""
    stack: list[tuple[Cut | bool, Box]] = [(cut, box)]
    while stack:
        node, sub_box = stack.pop()
        if isinstance(node, Cut):
            stack.extend((p, {**sub_box, node.dim: ends}) for ends, p in node.parts)
        else:
            yield node, sub_box


Factor = tuple[int, int] | Array
"""An interval, or sorted coordinates without repetition that are none."""
Piece = tuple[Factor, ...]
MAX_PIECES = 16
"""Boxes that are put together to see whether they fill one."""


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSet:
    """A finite set of integer points over the dims `names`: a union of products of factors, and of explicit points."""

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
        """The set of explicit points, one per row, with columns in the order of `names`."""
        if not len(rows):
            return IntegerSet(tuple(names))
        if len(names) == 1:
            return IntegerSet(tuple(names), ((factor_of(rows[:, 0]),),))
        return IntegerSet(tuple(names), (), (np.unique(rows, axis=0),))

    def __bool__(self) -> bool:
        return bool(self.pieces or self.clouds)

    def __or__(self, other: IntegerSet) -> IntegerSet:
        """The union, with the dims in this set's order."""
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
        """The projection onto some of the dims, in their order."""
        names = tuple(names)
        if names == self.names:
            return self
        axes = [self.names.index(n) for n in names]
        pieces = [tuple([piece[axis] for axis in axes]) for piece in self.pieces]
        projected = IntegerSet(names, _union((), pieces))
        for cloud in self.clouds:
            projected |= IntegerSet.rows(names, cloud[:, axes]) if names else IntegerSet((), ((),))
        return projected

    def moved(self, dim: str, offset: int) -> IntegerSet:
        """The points translated by an offset along one dim."""
        axis = self.names.index(dim)
        pieces = tuple([(*p[:axis], _moved(p[axis], offset), *p[axis + 1 :]) for p in self.pieces])
        step = np.array([offset if n == dim else 0 for n in self.names])
        return IntegerSet(self.names, pieces, tuple([c + step for c in self.clouds]))

    def image(self, at: Mapping[str, Affine | Interval]) -> IntegerSet:
        """The image under a map: `at` gives each new coordinate as a function of the old ones, or as an interval (all
        of it).

        >>> print(IntegerSet.box(Dims.of(A=(1, 3), B=(0, 4))).image({"I": variable("A").times(4).plus(variable("B"))}))
        I[4:12]
        """
        if (translated := self._translated(at)) is not None:
            return translated
        groups = _connected(at)
        pieces: list[Piece] = []
        for piece in self.pieces:
            factors = dict(zip(self.names, piece, strict=True))
            parts = [_image(factors, names, at) for names in groups]
            for products in product(*parts):
                by_name = {n: f for names, part in zip(groups, products, strict=True)
                           for n, f in zip(names, part, strict=True)}  # fmt: skip
                pieces.append(tuple([by_name[n] for n in at]))
        points = IntegerSet(tuple(at), _union((), pieces))
        for cloud in self.clouds:
            columns = dict(zip(self.names, cloud.T, strict=True))
            sums = [n for n, a in at.items() if isinstance(a, Affine)]
            rows = [np.broadcast_to(a.at(columns), len(cloud)) for a in at.values() if isinstance(a, Affine)]
            products = IntegerSet.rows(sums, np.stack(rows, 1)) if sums else IntegerSet((), ((),))
            for n, a in at.items():
                if isinstance(a, Interval):
                    products = products.along(n, (a.start, a.stop))
            points |= products.onto(tuple(at))
        return points

    def _translated(self, at: Mapping[str, Affine | Interval]) -> IntegerSet | None:
        """The image if the map only renames and translates dims; None for other maps."""
        steps: list[tuple[int, int]] = []
        for a in at.values():
            match a:
                case Affine(((str() as name, 1),), constant):
                    steps.append((self.names.index(name), constant))
                case _:
                    return None
        if len({k for k, _ in steps}) < len(steps) or len(steps) < len(self.names):
            return None
        pieces = tuple([tuple([_moved(p[k], c) if c else p[k] for k, c in steps]) for p in self.pieces])
        offset = np.array([c for _, c in steps])
        clouds = tuple([cloud[:, [k for k, _ in steps]] + offset for cloud in self.clouds])
        return IntegerSet(tuple(at), pieces, clouds)

    def renamed(self, names: Mapping[str, str]) -> IntegerSet:
        return IntegerSet(tuple([names.get(n, n) for n in self.names]), self.pieces, self.clouds)

    def along(self, dim: str, factor: Factor) -> IntegerSet:
        """The product of the points with a factor along a dim, which is new or replaced."""
        others = self.onto([n for n in self.names if n != dim])
        if _size(factor) == 0:
            return IntegerSet((*others.names, dim))
        pieces = tuple([(*p, factor) for p in others.pieces])
        clouds = [
            np.concatenate([np.repeat(c, _size(factor), 0), np.tile(coordinates(factor), len(c))[:, None]], 1)
            for c in others.clouds
        ]
        return IntegerSet((*others.names, dim), pieces, tuple(clouds))

    def at(self, dim: str, coordinate: int) -> IntegerSet:
        """The slice at one coordinate of a dim, which is dropped."""
        return self.within(Dims(((dim, Interval(coordinate, coordinate + 1)),))).onto(
            [n for n in self.names if n != dim]
        )

    def within(self, dims: Dims) -> IntegerSet:
        """The points inside of a box; dims that the set does not have are ignored."""
        bounds = [dims.get(n) for n in self.names]
        pieces: list[Piece] = []
        for piece in self.pieces:
            clipped = tuple([f if i is None else _within(f, i) for f, i in zip(piece, bounds, strict=True)])
            if all(_size(f) for f in clipped):
                pieces.append(clipped)
        clouds = tuple([c[m] for c in self.clouds if (m := self._in_bounds(c, bounds)).any()])
        return IntegerSet(self.names, _union((), pieces) if len(pieces) < len(self.pieces) else tuple(pieces), clouds)

    def without(self, dims: Dims) -> IntegerSet:
        """The points outside of a box."""
        bounds = [dims.get(n) for n in self.names]
        pieces: list[Piece] = []
        for piece in self.pieces:
            pieces += _outside(piece, bounds)
        clouds = tuple([c[m] for c in self.clouds if (m := ~self._in_bounds(c, bounds)).any()])
        return IntegerSet(self.names, tuple(pieces), clouds)

    def _in_bounds(self, cloud: Array, bounds: Sequence[Interval | None]) -> Array:
        """A mask of the rows of a cloud that lie within the bounds (None: unbounded)."""
        inside = np.ones(len(cloud), bool)
        for axis, interval in enumerate(bounds):
            if interval is not None:
                inside &= (cloud[:, axis] >= interval.start) & (cloud[:, axis] < interval.stop)
        return inside

    @property
    def hull(self) -> Dims:
        """The smallest box that contains all points; for no points it is empty along every dim."""
        if not self:
            return Dims(tuple((n, Interval(0, 0)) for n in self.names))
        items: list[tuple[str, Interval]] = []
        for axis, name in enumerate(self.names):
            ends = [_ends(p[axis]) for p in self.pieces] + [
                (int(c[:, axis].min()), int(c[:, axis].max()) + 1) for c in self.clouds
            ]
            items.append((name, Interval(min(a for a, _ in ends), max(b for _, b in ends))))
        return Dims(tuple(items))

    @property
    def array(self) -> Array:
        """All points as rows in ascending order."""
        clouds = list(self.clouds)
        for piece in self.pieces:
            axes = np.meshgrid(*[coordinates(f) for f in piece], indexing="ij")
            clouds.append(np.stack([a.ravel() for a in axes], 1) if axes else np.zeros((1, 0), int))
        if not clouds:
            return np.zeros((0, len(self.names)), int)
        rows = np.concatenate(clouds)
        return rows[:1] if not self.names else np.unique(rows, axis=0)

    def mask(self, dims: Dims) -> Array:
        """A boolean array over a box: True at the points of the set."""
        inside = self.onto(dims.names).within(dims)
        mask = np.zeros(dims.shape, bool)
        starts = [i.start for _, i in dims.items]
        for piece in inside.pieces:
            mask[np.ix_(*[coordinates(f) - s for f, s in zip(piece, starts, strict=True)])] = True
        for cloud in inside.clouds:
            mask[tuple((cloud - np.array(starts)).T)] = True
        return mask

    def __len__(self) -> int:
        if not self.clouds and len(self.pieces) <= 1:
            return int(np.prod([_size(f) for f in self.pieces[0]], dtype=np.int64)) if self.pieces else 0
        return int(self.mask(self.hull).sum())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for row in self.array.tolist():
            yield tuple(row)

    def __contains__(self, point: Sequence[int]) -> bool:
        return bool(self.within(Dims(tuple((n, Interval(c, c + 1)) for n, c in zip(self.names, point, strict=True)))))

    def __eq__(self, other: object) -> bool:
        """True if both sets have the same dims, in any order, and the same points."""
        if not isinstance(other, IntegerSet) or set(self.names) != set(other.names):
            return NotImplemented if not isinstance(other, IntegerSet) else False
        other = other.onto(self.names)
        has_pieces_alone = len(self.pieces) == len(other.pieces) and not self.clouds and not other.clouds
        if has_pieces_alone and all(all(map(_equal, a, b)) for a, b in zip(self.pieces, other.pieces, strict=True)):
            return True
        return self.hull == other.hull and bool((self.mask(self.hull) == other.mask(self.hull)).all())

    __hash__: ClassVar[None]  # type: ignore[assignment]

    @property
    def _has_boxes_alone(self) -> bool:
        return not self.clouds and all(isinstance(f, tuple) for p in self.pieces for f in p)

    def fills(self, dims: Dims) -> bool:
        """True if the points contain a whole box; False also if that is too costly to find out (clouds, many
        pieces).
        """
        if len(self.pieces) > MAX_PIECES or not self._has_boxes_alone:
            return False
        rest = IntegerSet.box(dims).onto(self.names)
        for piece in self.pieces:
            rest = rest.without(Dims(tuple((n, Interval(*_ends(f))) for n, f in zip(self.names, piece, strict=True))))
        return not rest

    @property
    def is_box(self) -> bool:
        """True if the points are all of their hull."""
        return len(self) == self.hull.size

    def __str__(self) -> str:
        """The set in words: a box, up to three boxes, or the number of points and their hull."""
        if not self:
            return "nothing"
        if not self.names:
            return "its value"
        if self.is_box:
            return str(self.hull)
        if len(self.pieces) <= 3 and self._has_boxes_alone:
            return " and ".join(map(self._spelled, self.pieces))
        return f"{len(self)} points of {self.hull}"

    def _spelled(self, piece: Piece) -> str:
        return ", ".join(f"{n}[{f[0]}:{f[1]}]" for n, f in zip(self.names, piece, strict=True))

    def __repr__(self) -> str:
        return f"<IntegerSet: {self}>"


def factor_of(coordinates: Array) -> Factor:
    """Coordinates as a factor: an interval where they are one."""
    ascending = np.unique(coordinates)
    first, last = int(ascending[0]), int(ascending[-1])
    return (first, last + 1) if last - first + 1 == len(ascending) else ascending


def _size(f: Factor) -> int:
    return max(0, f[1] - f[0]) if isinstance(f, tuple) else len(f)


def coordinates(f: Factor) -> Array:
    """The coordinates of a factor, ascending."""
    return np.arange(f[0], f[1]) if isinstance(f, tuple) else f


def _ends(f: Factor) -> tuple[int, int]:
    return f if isinstance(f, tuple) else (int(f[0]), int(f[-1]) + 1)


def _connected(at: Mapping[str, Affine | Interval]) -> list[tuple[str, ...]]:
    """Groups the coordinates of a map whose functions share variables; each group is enumerated together."""
    groups: list[tuple[frozenset[str], tuple[str, ...]]] = []
    for name, a in at.items():
        used = a.names if isinstance(a, Affine) else frozenset[str]()
        connected = [g for g in groups if not g[0].isdisjoint(used)]
        groups = [g for g in groups if g not in connected]
        groups.append((used.union(*(u for u, _ in connected)), (*(n for _, ns in connected for n in ns), name)))
    return [names for _, names in groups]


def _image(factors: Mapping[str, Factor], names: Sequence[str], at: Mapping[str, Affine | Interval]) -> Sequence[Piece]:
    """The products that a group of coordinates takes for one piece of the set, whose `factors` are by dim.

    Intervals and single translated dims need no enumeration.
    """
    if len(names) == 1:
        match at[names[0]]:
            case Interval(start, stop):
                return [((start, stop),)] if start < stop else []
            case Affine(((str() as name, 1),), constant):
                return [(_moved(factors[name], constant),)]
            case _:
                pass
    sums = [a for n in names if isinstance(a := at[n], Affine)]
    variables = sorted(frozenset[str]().union(*(a.names for a in sums)))
    grid = np.meshgrid(*[coordinates(factors[v]) for v in variables], indexing="ij")
    values = dict(zip(variables, (g.ravel() for g in grid), strict=True))
    count = len(next(iter(values.values()))) if values else 1
    rows = np.stack([np.broadcast_to(a.at(values), count) for a in sums], 1)
    return _products(rows)


def _products(rows: Array) -> list[Piece]:
    """Explicit points as a union of products: rows with the same coordinates after the first are joined."""
    if not len(rows):
        return []
    if rows.shape[1] == 1:
        return [(factor_of(rows[:, 0]),)]
    by_suffix: dict[bytes, tuple[list[int], list[Piece]]] = {}
    rows = np.unique(rows, axis=0)
    firsts, starts = np.unique(rows[:, 0], return_index=True)
    for first, suffixes in zip(firsts.tolist(), np.split(rows[:, 1:], starts[1:]), strict=True):
        key = suffixes.tobytes()
        if key not in by_suffix:
            by_suffix[key] = [], _products(suffixes)
        by_suffix[key][0].append(first)
    return [
        (factor_of(np.array(firsts_alike)), *piece) for firsts_alike, pieces in by_suffix.values() for piece in pieces
    ]


def _moved(f: Factor, offset: int) -> Factor:
    return moved(f, offset) if isinstance(f, tuple) else f + offset


def _within(f: Factor, i: Interval) -> Factor:
    """A factor cut to an interval; (0, 0) if nothing remains."""
    if isinstance(f, tuple):
        return max(f[0], i.start), min(f[1], i.stop)
    inside = f[(f >= i.start) & (f < i.stop)]
    return factor_of(inside) if len(inside) else (0, 0)


def _outside(piece: Piece, bounds: Sequence[Interval | None]) -> list[Piece]:
    """The points of a product outside of a box, as disjoint products."""
    if any(i is not None and not _size(_within(f, i)) for f, i in zip(piece, bounds, strict=True)):
        return [piece]
    remaining: list[Piece] = []
    for axis, interval in enumerate(bounds):
        if interval is None:
            continue
        first, last = _ends(piece[axis])
        for side in (Interval(first, interval.start), Interval(interval.stop, last)):
            outside_factor = _within(piece[axis], side)
            if side and _size(outside_factor):
                remaining.append((*piece[:axis], outside_factor, *piece[axis + 1 :]))
        piece = (*piece[:axis], _within(piece[axis], interval), *piece[axis + 1 :])
    return remaining


def _equal(a: Factor, b: Factor) -> bool:
    if isinstance(a, tuple) or isinstance(b, tuple):
        return isinstance(a, tuple) and isinstance(b, tuple) and a == b
    return np.array_equal(a, b)


def _holds(a: Factor, b: Factor) -> bool:
    """True if factor a contains factor b."""
    if isinstance(a, tuple):
        first, last = _ends(b)
        return a[0] <= first and last <= a[1]
    return bool(np.isin(coordinates(b), a).all())


def _union(pieces: Sequence[Piece], new_pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The union of products, joining pairs that are one product together."""
    united = list(pieces)
    for piece in new_pieces:
        position = 0
        while position < len(united):
            joined = _joined(united[position], piece)
            if joined is None:
                position += 1
            elif joined is united[position]:
                break
            else:
                del united[position]
                piece, position = joined, 0
        else:
            united.append(piece)
    return tuple(united)


def _joined(a: Piece, b: Piece) -> Piece | None:
    """One product for two, if they differ along one axis and touch there, or one contains the other; else None."""
    differing = [axis for axis in range(len(a)) if not _equal(a[axis], b[axis])]
    if not differing:
        return a
    if len(differing) == 1:
        (axis,) = differing
        x, y = a[axis], b[axis]
        if _holds(x, y):
            return a
        if not isinstance(x, tuple) or not isinstance(y, tuple):
            return (*a[:axis], factor_of(np.union1d(coordinates(x), coordinates(y))), *a[axis + 1 :])
        if x[0] <= y[1] and y[0] <= x[1]:
            return (*a[:axis], intervals.hull(x, y), *a[axis + 1 :])
        return None
    if all(_holds(a[axis], b[axis]) for axis in differing):
        return a
    return b if all(_holds(b[axis], a[axis]) for axis in differing) else None


# Sets and maps of isl. Sums are given by the names of dims, and of parameters, which no dim has.


def isl_set(params: Sequence[str], dims: Sequence[str], conditions: Iterable[tuple[Affine, bool]] = ()) -> Any:
    """The isl set of points over `dims` that satisfy all conditions: (sum, False) for sum ≥ 0, (sum, True) for sum = 0.

    >>> print(isl_set(["n"], ["k"], [(variable("n").minus(quotient(variable("k"), 2, {})), False)]))
    [n] -> { [k] : k <= 1 + 2n }
    """
    islpy = isl()
    space = islpy.Space.create_from_names(islpy.DEFAULT_CONTEXT, set=list(dims), params=list(params))
    domain, points = islpy.LocalSpace.from_space(space), islpy.Set.universe(space)
    for a, is_equality in conditions:
        value = _isl_sum(a, domain)
        half_space = value.zero_basic_set() if is_equality else value.ge_basic_set(islpy.Aff.zero_on_domain(domain))
        points = points.intersect(half_space)
    return points


def isl_map(domain: Any, sums: Iterable[Affine]) -> Any:
    """The isl map from a set's points to the values of the sums.

    >>> print(isl_map(isl_set([], ["k"]), [variable("k").times(2), variable("k")]))
    { [k] -> [2k, k] }
    """
    islpy = isl()
    images, space = islpy.Map.from_domain(domain), islpy.LocalSpace.from_space(domain.get_space())
    for a in sums:
        images = images.flat_range_product(islpy.Map.from_aff(_isl_sum(a, space)))
    return images


def _isl_sum(a: Affine, domain: Any) -> Any:
    """The isl quasi-affine function for a sum over the names of dims and parameters of `domain`."""
    i = isl()
    total = i.Aff.zero_on_domain(domain).set_constant_val(i.Val(a.constant))
    for atom, c in a.terms:
        if isinstance(atom, Quotient):
            atom_value = _isl_sum(atom.inner, domain).scale_down_val(i.Val(atom.by)).floor()
        else:
            places = ((kind, domain.find_dim_by_name(kind, atom)) for kind in (i.dim_type.set, i.dim_type.param))
            atom_value = i.Aff.var_on_domain(domain, *next((kind, k) for kind, k in places if k >= 0))
        total = total.add(atom_value.scale_val(i.Val(c)))
    return total


def affine_from_isl(value: Any, dims: Sequence[str]) -> Affine:
    """A quasi-affine function of isl as an `Affine`; `dims` names its inputs, parameters keep their names.

    >>> found = isl_map(isl_set([], ["k"]), [quotient(variable("k"), 4, {}).times(3)]).as_pw_multi_aff()
    >>> print(affine_from_isl(found.get_at(0).as_aff(), ["i"]))
    (i // 4)*3
    """
    kind, denominator = isl().dim_type, value.get_denominator_val()
    total = number(value.get_constant_val().mul(denominator).to_python())
    for k in range(value.dim(kind.param)):
        c = value.get_coefficient_val(kind.param, k).mul(denominator).to_python()
        total = total.plus(variable(value.get_dim_name(kind.param, k)).times(c))
    for k, name in enumerate(dims):
        total = total.plus(variable(name).times(value.get_coefficient_val(kind.in_, k).mul(denominator).to_python()))
    for k in range(value.dim(kind.div)):
        if c := value.get_coefficient_val(kind.div, k).mul(denominator).to_python():
            total = total.plus(affine_from_isl(value.get_div(k), dims).times(c))
    return quotient(total, denominator.to_python(), {})


def conditions_of(basic: Any, dims: Sequence[str]) -> Iterator[tuple[Affine, bool]]:
    """The sums that are not negative in a basic set of isl, or, where that is true, 0."""
    for c in basic.get_constraints():
        yield affine_from_isl(c.get_aff(), dims), bool(c.is_equality())


@cache
def isl() -> Any:
    """The module islpy, which takes a while to import."""
    import islpy

    return islpy
