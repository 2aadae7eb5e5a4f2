"""Dimensions in Python: `I + 1` is an offset, `K < 3` a condition on a coordinate.

>>> I, J = dims("I J")
>>> I - 2
Offset(dimension=Dimension('I'), distance=-2)
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from tensorir.runtime.errors import refuse
from tensorir.runtime.locations import here


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """A named dimension; `I + 1` is the offset by which a field is shifted: `f(I + 1)[p] = f[p + 1]`.

    A dimension named `...Half` is staggered: its point i lies half a point before point i of the dimension without
    Half, so that `f(IHalf + 0.5)[i] = f[i]` for a field on I, and `g(I + 0.5)[i] = g[i + 1]` for one on IHalf.

    Comparison with an integer gives a condition on the coordinate, for `concat_where`. Dimensions with equal names are
    equal.

    >>> Dimension("I") - 2
    Offset(dimension=Dimension('I'), distance=-2)
    >>> Dimension("K") < 3
    Condition(dimension=Dimension('K'), start=None, stop=3)
    """

    value: str
    kind: str = "horizontal"

    def __post_init__(self) -> None:
        """Raise A03 for what is no name."""
        # users who check no types give others
        if not isinstance(self.value, str) or not self.value:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise refuse("A03", f"{self.value!r} is no name of a dim.", 'write ti.Dimension("I").')

    def __add__(self, distance: float) -> Offset:
        return Offset(self, distance)

    def __sub__(self, distance: float) -> Offset:
        return Offset(self, -distance)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, numbers.Integral):
            return Condition(self, int(other), int(other) + 1)
        return isinstance(other, Dimension) and self.value == other.value

    def __ne__(self, other: object) -> Any:
        if isinstance(other, numbers.Integral):
            return (self < int(other)) | (self > int(other))
        return not self == other

    def __lt__(self, bound: int) -> Condition:
        return Condition(self, None, bound)

    def __le__(self, bound: int) -> Condition:
        return Condition(self, None, bound + 1)

    def __gt__(self, bound: int) -> Condition:
        return Condition(self, bound + 1, None)

    def __ge__(self, bound: int) -> Condition:
        return Condition(self, bound, None)

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"Dimension({self.value!r})"


class _Joined:
    """Conditions on dims, one or several, joined."""

    __slots__ = ()

    def __and__(self, other: AnyCondition) -> Combined:
        return Combined("and", cast("AnyCondition", self), other)

    def __or__(self, other: AnyCondition) -> Combined:
        return Combined("or", cast("AnyCondition", self), other)

    def __bool__(self) -> NoReturn:
        """Refuses the truth value of a condition, which `2 <= K < 5` and `not K < 5` ask for: Python would drop a part
        of it.
        """
        message = "a condition on a coordinate is not true or false."
        raise refuse("V16", message, "write (K >= 2) & (K < 5), and | for either.", at=here())


@dataclass(frozen=True, slots=True)
class Condition(_Joined):
    """A condition on a coordinate: from `start` up to, and without, `stop`; None is no bound.

    Conditions are put together by `&` and `|`, each between parentheses.
    """

    dimension: Dimension
    start: int | None
    stop: int | None


@dataclass(frozen=True, slots=True)
class Combined(_Joined):
    """The intersection ("and") or the union ("or") of two conditions."""

    how: str
    first: AnyCondition
    second: AnyCondition


AnyCondition = Condition | Combined


@dataclass(frozen=True, slots=True)
class Offset:
    """A distance along a dimension: whole, or ending in a half where it leads to and from points between."""

    dimension: Dimension
    distance: float


def dims(names: str) -> tuple[Dimension, ...]:
    """Several dimensions at once, by names between spaces or commas.

    >>> I, J = dims("I J")
    """
    if not isinstance(cast("object", names), str):
        raise refuse("A03", f"{names!r} is no text with the names of dims.", 'write them in one: ti.dims("I J").')
    return tuple(Dimension(name) for name in names.replace(",", " ").split())
