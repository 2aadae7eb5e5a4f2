"""The static parameters of a call, one record per builtin that has some: what a node knows besides its operands.

A record has the fields in the order in which the notation writes them, and is a tuple, so that patterns of `match` and
equality see its values. The row of the table names the record (`tensorir.ir.builtins`).

>>> Shift("I", 2).offset
2
>>> Shift("I", 2) == ("I", 2)
True
"""

from __future__ import annotations

from typing import NamedTuple

from tensorir.integers.dims import Dims
from tensorir.ir.types import Scalar


class Convert(NamedTuple):
    """`cast`, `bitcast`: the element type of the result."""

    element: Scalar


class Member(NamedTuple):
    """`tuple_get`: which member, counted from 0."""

    member: int


class Shift(NamedTuple):
    """`cartesian_shift`: along which dim, and how far."""

    dim: str
    offset: int


class Slot(NamedTuple):
    """`shift_apply`, `unstructured_shift`: which neighbour, counted from 0."""

    neighbour: int


class Fold(NamedTuple):
    """`reduce`: along which dim."""

    dim: str


class Scan(NamedTuple):
    """`scan`: whether the dim is walked upwards, and which it is."""

    forward: bool
    dim: str


class Subset(NamedTuple):
    """`subset`: the intervals that are kept, of the dims that are cut."""

    intervals: Dims


class Axis(NamedTuple):
    """`pos`: whose coordinate."""

    dim: str


class Expand(NamedTuple):
    """`add_dim`: the new dim, and the interval start:stop that it has."""

    dim: str
    start: int
    stop: int


class Rename(NamedTuple):
    """`rename`: pairs of an old name and a new one."""

    pairs: tuple[tuple[str, str], ...]


class Split(NamedTuple):
    """`split_dim`: the dim, the two that it becomes, and the extent of the inner one."""

    dim: str
    outer: str
    inner: str
    extent: int


class Merge(NamedTuple):
    """`merge_dims`: the two dims, and the one that they become."""

    outer: str
    inner: str
    dim: str


class Gather(NamedTuple):
    """`gather`: the dims of the source that are indexed, in the order of the indices; what an index outside does."""

    dims: tuple[str, ...]
    mode: str


class Scatter(NamedTuple):
    """`scatter`: the dims that are indexed, those that the updates run over, and what an index outside does."""

    dims: tuple[str, ...]
    over: tuple[str, ...]
    mode: str


class Loop(NamedTuple):
    """`loop`: which of the carried tensors it gives, and the largest number of iterations, None for any number."""

    carried: int
    limit: int | None


class Cond(NamedTuple):
    """`cond`: which result of the functions it gives, and whether both functions may be computed."""

    result: int
    speculative: bool


class Sort(NamedTuple):
    """`sort`: along which dim, by how many of the operands, and whether the largest comes first."""

    dim: str
    keys: int
    descending: bool


class ArgReduce(NamedTuple):
    """`argreduce`: along which dim the largest or the smallest element is found, which of equal ones, and whether a
    NaN replaces what was found and is replaced by what follows."""

    dim: str
    largest: bool
    ties: str
    replaced: bool


class TopK(NamedTuple):
    """`top_k`: how many points along which dim, by how many of the operands, and whether the largest comes first."""

    dim: str
    points: int
    keys: int
    descending: bool


class Blocked(NamedTuple):
    """`blocked`: which result of the function it gives, how many points are a block, and of which dims, the last of
    them the fastest."""

    result: int
    size: int
    dims: tuple[str, ...]


class Message(NamedTuple):
    """`assert_`, `print`: the text."""

    text: str


class Contract(NamedTuple):
    """`contract`: the element type of the products and of their sum, and the dims that are summed over."""

    element: Scalar
    dims: tuple[str, ...]
