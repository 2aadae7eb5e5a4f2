"""Boxes of points with ends that may be infinite, and regions made of them: domains, and conditions of concat_where.

>>> r = Region.of({"K": (NEVER, 3)}) | Region.of({"K": (5, ALWAYS)})
>>> r.split({"K": (0, 9)})
Cut(dim='K', parts=(((0, 3), True), ((3, 5), False), ((5, 9), True)))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["ALWAYS", "NEVER", "Box", "Cut", "Region", "cut_boxes", "hull", "intersection", "is_empty", "moved"]

NEVER, ALWAYS = -(1 << 62), 1 << 62
"""The ends of an interval that has none."""

Ends = tuple[int, int]
Box = Mapping[str, Ends]


def moved(ends: Ends, by: int) -> Ends:
    """An interval by a distance further; infinite ends stay.

    >>> moved((0, ALWAYS), 2) == (2, ALWAYS)
    True
    """
    return tuple(e if e in (NEVER, ALWAYS) else e + by for e in ends)  # type: ignore[return-value]


def is_empty(box: Box) -> bool:
    return any(stop <= start for start, stop in box.values())


def intersection(a: Box, b: Box) -> dict[str, Ends]:
    """The points of both; a dim that one lacks is not bounded there."""
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
    return {d: (min(a[d][0], b[d][0]), max(a[d][1], b[d][1])) for d in a if d in b}


@dataclass(frozen=True, slots=True)
class Cut:
    """A box cut along a dim into parts, each inside (True) or outside of a region, or cut again."""

    dim: str
    parts: tuple[tuple[Ends, Cut | bool], ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A union of boxes."""

    boxes: tuple[tuple[tuple[str, Ends], ...], ...]

    @staticmethod
    def of(box: Box) -> Region:
        return Region(() if is_empty(box) else (tuple(sorted(box.items())),))

    def __or__(self, other: Region) -> Region:
        return Region(tuple(dict.fromkeys((*self.boxes, *other.boxes))))

    def __and__(self, other: Region) -> Region:
        found = [intersection(dict(a), dict(b)) for a in self.boxes for b in other.boxes]
        return Region(tuple(dict.fromkeys(tuple(sorted(b.items())) for b in found if not is_empty(b))))

    def __invert__(self) -> Region:
        result = Region(((),))
        for box in self.boxes:
            outside: list[tuple[tuple[str, Ends], ...]] = []
            for dim, (start, stop) in box:
                outside += [((dim, ends),) for ends in ((NEVER, start), (stop, ALWAYS)) if ends[0] < ends[1]]
            result = result & Region(tuple(outside))
        return result

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d for box in self.boxes for d, _ in box))

    def split(self, box: Box) -> Cut | bool:
        """A box as parts inside and outside of the region."""
        inside = [dict(b) for b in self.boxes if not is_empty(intersection(dict(b), box))]
        if any(_covers(b, box) for b in inside):
            return True
        if not inside:
            return False
        dim = next(d for d in self.dims if d in box and any(_cuts(b, d, box[d]) for b in inside))
        start, stop = box[dim]
        marks = sorted({start, stop, *(e for b in inside for e in b.get(dim, ()) if start < e < stop)})
        parts: list[tuple[Ends, Cut | bool]] = []
        for low, high in pairwise(marks):
            part = self.split({**box, dim: (low, high)})
            if parts and parts[-1][1] == part:
                parts[-1] = ((parts[-1][0][0], high), part)
            else:
                parts.append(((low, high), part))
        return parts[0][1] if len(parts) == 1 else Cut(dim, tuple(parts))


def _covers(b: Box, box: Box) -> bool:
    return all(b[d][0] <= box.get(d, (NEVER, ALWAYS))[0] and box.get(d, (NEVER, ALWAYS))[1] <= b[d][1] for d in b)


def _cuts(b: Box, dim: str, ends: Ends) -> bool:
    return dim in b and (ends[0] < b[dim][0] or b[dim][1] < ends[1])


def cut_boxes(cut: Cut | bool, box: Box) -> Iterator[tuple[bool, Box]]:
    """The parts of a cut box, each with the side that it is on."""
    stack: list[tuple[Cut | bool, Box]] = [(cut, box)]
    while stack:
        part, where = stack.pop()
        if isinstance(part, Cut):
            stack.extend((p, {**where, part.dim: ends}) for ends, p in part.parts)
        else:
            yield part, where


def hull_of(boxes: Iterable[Box]) -> Box | None:
    result: Box | None = None
    for box in boxes:
        result = hull(result, box)
    return result
