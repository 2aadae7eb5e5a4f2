"""Tensors as functions of points, and the machine that asks them: deep programs need no deep Python stack.

A tensor is asked at a point, a mapping from names to coordinates that may hold more names than the tensor has. To
answer, it may ask other tensors: `answer` is a generator that yields questions (tensor, point) and is sent values.
`ask` keeps the unfinished generators on a stack of its own, and remembers every answer where it belongs: in the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

from tensorir.ir.types import Dims, Element, Scalar

__all__ = [
    "ABSENT",
    "Answer",
    "Constant",
    "Outside",
    "Point",
    "Question",
    "Slice",
    "Tensor",
    "Value",
    "Within",
    "absent",
    "any_absent",
    "ask",
    "check_inside",
    "filled",
    "leaves_of",
    "points",
]


class _Absent:
    """What a scalar leaf is where a table held -1 on the way to it."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""The value of an element that a neighbour table has no entry for."""

Value = Any
"""A NumPy scalar or ABSENT, or for tuple elements a tuple of values."""

Point = Mapping[str, int]


def leaves_of(value: Value) -> list[Value]:
    """The scalars of a value, from left to right.

    >>> leaves_of((1, (2, 3)))
    [1, 2, 3]
    """
    if not isinstance(value, tuple):
        return [value]
    members = cast("tuple[Value, ...]", value)
    return [leaf for member in members for leaf in leaves_of(member)]


class Outside(Exception):
    """A tensor was asked at a point where it has no value."""


class Tensor:
    """A function of points, which remembers its values."""

    __slots__ = ("known", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.known: dict[tuple[int, ...], Value] = {}

    def answer(self, point: Point) -> Answer:
        """The value at a point."""
        raise NotImplementedError


Question = tuple[Tensor, Point]
Answer = Generator[Question, Value, Value]


def ask(tensor: Tensor, point: Point) -> Value:
    """The value of a tensor at a point.

    >>> ask(Constant(3), {"I": 5})
    3
    """
    unfinished: list[tuple[Tensor, tuple[int, ...], Answer]] = []
    question: Question | None = (tensor, point)
    value: Value = None
    while True:
        if question is not None:
            asked, where = question
            key = tuple([where[name] for name in asked.names])
            if key not in asked.known:
                unfinished.append((asked, key, asked.answer(where)))
                value = None
            else:
                value = asked.known[key]
        if not unfinished:
            return value
        asked, key, steps = unfinished[-1]
        try:
            question = steps.send(value)
        except StopIteration as done:
            value = asked.known[key] = done.value
            unfinished.pop()
            question = None


class Constant(Tensor):
    """One value everywhere."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        super().__init__(())
        self.value: Value = value

    def answer(self, point: Point) -> Answer:
        return self.value
        yield


class Slice(Tensor):
    """A tensor at one coordinate of a dim, which goes away."""

    __slots__ = ("coordinate", "dim", "whole")

    coordinate: int
    dim: str
    whole: Tensor

    def __init__(self, whole: Tensor, dim: str, coordinate: int) -> None:
        super().__init__([name for name in whole.names if name != dim])
        self.whole, self.dim, self.coordinate = whole, dim, coordinate

    def answer(self, point: Point) -> Answer:
        return (yield self.whole, {**point, self.dim: self.coordinate})


class Within(Tensor):
    """A tensor on declared dims: broadcast along those that it lacks, and nothing outside of their intervals."""

    __slots__ = ("dims", "inner")

    dims: Dims
    inner: Tensor

    def __init__(self, inner: Tensor, dims: Dims) -> None:
        super().__init__(dims.names)
        self.inner, self.dims = inner, dims

    def answer(self, point: Point) -> Answer:
        check_inside(self.dims, point)
        return (yield self.inner, point)


def check_inside(dims: Dims, point: Point) -> None:
    """Raise Outside where a coordinate leaves its interval."""
    for name, interval in dims.items:
        if point[name] not in interval:
            raise Outside(f"{name} = {point[name]} is not in {name}{interval}")


def points(dims: Dims) -> Iterator[dict[str, int]]:
    """Every point of a box, the last dim fastest.

    >>> list(points(Dims.of(I=(0, 2), J=(5, 6))))
    [{'I': 0, 'J': 5}, {'I': 1, 'J': 5}]
    """
    for coordinates in product(*[range(i.start, i.stop) for _, i in dims.items]):
        yield dict(zip(dims.names, coordinates, strict=True))


def any_absent(value: Value) -> bool:
    """Whether a leaf of a value is absent."""
    if not isinstance(value, tuple):
        return value is ABSENT
    members = cast("tuple[Value, ...]", value)
    return any(map(any_absent, members))


def filled(element: Element, leaf: Callable[[Scalar], Value]) -> Value:
    """A value of an element, leaf by leaf.

    >>> from tensorir.ir.types import BOOL, INT32, TupleElement
    >>> filled(TupleElement((BOOL, TupleElement((INT32,)))), lambda kind: kind)
    (bool, (int32,))
    """
    return leaf(element) if isinstance(element, Scalar) else tuple(filled(m, leaf) for m in element.members)


def absent(element: Element) -> Value:
    """A value whose every leaf is absent."""
    return filled(element, lambda _: ABSENT)
