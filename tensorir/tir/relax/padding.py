"""How much is put around the spatial dimensions of an operator."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["sides_of"]


def sides_of(numbers: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Padding before and behind each of `count` dimensions: one number for each, or all in front and then all behind.

    >>> sides_of([1, 2], 2), sides_of([1, 2, 3, 4], 2)
    ([(1, 1), (2, 2)], [(1, 3), (2, 4)])
    """
    if len(numbers) == 2 * count:
        return list(zip(numbers[:count], numbers[count:], strict=True))
    return [(p, p) for p in numbers]
