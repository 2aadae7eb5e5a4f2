"""How much is put around the spatial dimensions of an operator."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["sides_of", "with_last_windows"]


def sides_of(numbers: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Padding before and behind each of `count` dimensions: one number for each, or all in front and then all behind.

    >>> sides_of([1, 2], 2), sides_of([1, 2, 3, 4], 2)
    ([(1, 1), (2, 2)], [(1, 3), (2, 4)])
    """
    if len(numbers) == 2 * count:
        return list(zip(numbers[:count], numbers[count:], strict=True))
    return [(p, p) for p in numbers]


def with_last_windows(
    sides: Sequence[tuple[int, int]], extents: Sequence[int], size: Sequence[int], steps: Sequence[int],
    gaps: Sequence[int],
) -> list[tuple[int, int]]:  # fmt: skip
    """Padding with which the last windows of a pool fit whole, where they start inside: what `ceil_mode` asks for.

    >>> with_last_windows([(0, 0), (1, 1)], [6, 6], [3, 3], [2, 2], [1, 1])
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for (a, b), extent, window, step, gap in zip(sides, extents, size, steps, gaps, strict=True):
        room = extent + a + b - gap * (window - 1) - 1
        behind = -(-room // step) * step >= extent + a  # where the last window would start
        found.append((a, b + (-room) % step - (step if behind else 0)))
    return found
