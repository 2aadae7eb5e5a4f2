"""Half-open intervals of integers, and sets of them by name: the points that a tensor, a domain or a box has.

>>> Dims.of(I=(0, 5), J=(1, 3))["J"].shifted(1)
Interval(0, 2)
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

from tensorir.runtime.errors import Displayed, article, refuse


@dataclass(frozen=True, slots=True)
class Interval(Displayed):
    """The integers from start up to, and without, stop.

    >>> Interval(0, 10).shifted(3)          # x[p + 3] exists where p + 3 does
    Interval(-3, 7)
    >>> Interval(0, 10) & Interval(5, 20), Interval(0, 3) | Interval(7, 9)
    (Interval(5, 10), Interval(0, 9))
    >>> len(Interval(-1, 4)), 3 in Interval(0, 3), str(Interval(-1, 4))
    (5, False, '[-1:4]')
    """

    start: int
    stop: int

    def shifted(self, offset: int) -> Interval:
        return Interval(self.start - offset, self.stop - offset)

    def covers(self, other: Interval) -> bool:
        """True if every point of `other` is one of mine."""
        return not other or (self.start <= other.start and other.stop <= self.stop)

    def __and__(self, other: Interval) -> Interval:
        start = max(self.start, other.start)
        return Interval(start, max(start, min(self.stop, other.stop)))

    def __or__(self, other: Interval) -> Interval:
        """The hull: the smallest interval that holds both."""
        if not self or not other:
            return self or other
        return Interval(min(self.start, other.start), max(self.stop, other.stop))

    def __len__(self) -> int:
        return max(0, self.stop - self.start)

    def __bool__(self) -> bool:
        return self.stop > self.start

    def __contains__(self, point: int) -> bool:
        return self.start <= point < self.stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __str__(self) -> str:
        return f"[{self.start}:{self.stop}]"

    def __repr__(self) -> str:
        return f"Interval({self.start}, {self.stop})"


def interval_from(ends: Any) -> Interval | None:
    """The interval of an Interval, a range or a pair of whole numbers; None for anything else.

    >>> interval_from((1, 4)), interval_from(range(4)), interval_from((0.5, 4))
    (Interval(1, 4), Interval(0, 4), None)
    """
    if isinstance(ends, range) and ends.step != 1:
        return None
    try:
        start, stop = map(_whole, (ends.start, ends.stop) if isinstance(ends, Interval | range) else ends)
    except (TypeError, ValueError):  # no pair, or not of whole numbers
        return None
    return Interval(start, stop)


def _whole(number: Any) -> int:
    """A whole number as an int; raises TypeError for others."""
    if isinstance(number, Real) and float(number).is_integer():
        return int(cast("Any", number))
    return operator.index(cast("Any", number))


def hull(parts: Sequence[Interval]) -> Interval:
    """The smallest interval that holds all parts."""
    result = parts[0]
    for part in parts[1:]:
        result = result | part
    return result


def size_of(value: Any, name: str) -> int:
    """A size as a Python int, from Python, NumPy or an array without axes; raises B11 for other values.

    >>> import numpy as np
    >>> size_of(np.array(3), "n"), size_of(np.int8(4), "n")
    (3, 4)
    """
    shown_value = repr(value) if isinstance(value, (int, float, str)) else article(type(value).__name__)
    error = refuse("B11", f"the size '{name}' is {shown_value[:40]}, and sizes are whole numbers.", f"write {name}=10.")
    if isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool":
        raise error
    try:
        return operator.index(cast("Any", value))
    except TypeError:  # also of a traced number, which nobody can look at
        raise error from None


@dataclass(frozen=True, slots=True, eq=False)
class Dims(Displayed):
    """A set of named intervals, in the order in which they were written; equality ignores the order.

    >>> a = Dims.of(I=(0, 5), J=(1, 3))
    >>> a == Dims.of(J=(1, 3), I=(0, 5)), a["J"], "K" in a, a.names, a.without("I")
    (True, Interval(1, 3), False, ('I', 'J'), Dims(J[1:3]))
    """

    items: tuple[tuple[str, Interval], ...] = ()

    @staticmethod
    def of(pairs: Mapping[Any, Any] | None = None, /, **more: Any) -> Dims:
        """From names (or Dimensions) and intervals (or pairs of integers); raises T31 for what is no interval."""
        intervals: list[tuple[str, Interval]] = []
        for name, ends in {**(pairs or {}), **more}.items():
            if (interval := interval_from(ends)) is None:
                raise refuse("T31", f"{name}: {ends!r} is no interval.", f"write {{{name}: (0, 10)}}.")
            intervals.append((str(name), interval))
        return Dims(tuple(intervals))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.items)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(i) for _, i in self.items)

    @property
    def size(self) -> int:
        """The number of points."""
        count = 1
        for _, i in self.items:
            count *= len(i)
        return count

    def get(self, name: str) -> Interval | None:
        return next((i for n, i in self.items if n == name), None)

    def without(self, *names: str) -> Dims:
        return Dims(tuple(item for item in self.items if item[0] not in names))

    def with_interval(self, name: str, interval: Interval) -> Dims:
        """The dims with one interval replaced, or appended."""
        if name not in self:
            return Dims((*self.items, (name, interval)))
        return Dims(tuple((n, interval if n == name else i) for n, i in self.items))

    def replaced(self, other: Dims) -> Dims:
        """The same dims, with the intervals of `other` where it has them.

        >>> Dims.of(I=(0, 5), J=(0, 3)).replaced(Dims.of(J=(1, 1), K=(0, 9)))
        Dims(I[0:5], J[1:1])
        """
        intervals = dict(other.items)
        return Dims(tuple((n, intervals.get(n, i)) for n, i in self.items))

    def __getitem__(self, name: str) -> Interval:
        """The interval of a dim; raises KeyError if there is none."""
        interval = self.get(name)
        if interval is None:
            raise KeyError(name)
        return interval

    def __contains__(self, name: str) -> bool:
        return any(n == name for n, _ in self.items)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dims):
            return NotImplemented
        return self.items == other.items or dict(self.items) == dict(other.items)

    def __hash__(self) -> int:
        return hash(frozenset(self.items))

    def __str__(self) -> str:
        return ", ".join(f"{name}{i}" for name, i in self.items) or "no dims"

    def __repr__(self) -> str:
        return f"Dims({', '.join(f'{name}{i}' for name, i in self.items)})"
