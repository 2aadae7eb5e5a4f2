"""Staggered dims, whose points lie half way between those of another: IHalf has i half a point before i of I."""

from __future__ import annotations

from tensorir.types import Interval

__all__ = ["HALF", "around", "half_way", "is_half"]

HALF = "Half"
"""What the name of a dim ends in whose points lie half way between."""


def is_half(dim: str) -> bool:
    """Whether a dim is the one whose points lie between."""
    return dim.endswith(HALF)


def half_way(dim: str) -> str:
    """The dim of the points half way between those of a dim.

    >>> half_way("I"), half_way("IHalf")
    ('IHalf', 'I')
    """
    return dim.removesuffix(HALF) if is_half(dim) else dim + HALF


def around(dim: str, interval: Interval) -> Interval:
    """The points of the dim half way between which those of an interval of a dim lie.

    >>> around("IHalf", Interval(1, 6)), around("I", Interval(1, 5))
    (Interval(0, 6), Interval(1, 6))
    """
    if is_half(dim):
        return Interval(interval.start - 1, interval.stop)
    return Interval(interval.start, interval.stop + 1)
