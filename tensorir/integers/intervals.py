"""Closed intervals of integers, and what operations make of them.

>>> combined("minus", (0, 3), (1, 2)), combined("mod", (9, 10), (4, 4)), combined("mod", None, (4, 4))
((-2, 2), (1, 2), (0, 3))
"""

from __future__ import annotations

from collections.abc import Callable

Ends = tuple[int, int]
"""The least and the greatest value."""

MOST_BITS = 64
"""By how many bits numbers are shifted at most."""


def combined(op: str, *operands: Ends | None) -> Ends | None:
    """Interval arithmetic: bounds of a builtin's results from the bounds of its operands (None: unbounded), both ends
    included.

    None if the result is unbounded or the builtin has no rule. The bounds are exact for plus, minus, neg, abs, min,
    max, cast.
    """
    match op, operands:
        case "mod", (a, (low, high)) if low > 0:
            if a is not None and a[0] // low == a[1] // low and (low == high or 0 <= a[0] <= a[1] < low):
                return a[0] % low, a[1] % low
            return 0, high - 1
        case "rem", (a, (low, high)) if low > 0:
            # what is left has the sign of what is divided
            return (1 - high, high - 1) if a is None else (max(min(a[0], 0), 1 - high), min(max(a[1], 0), high - 1))
        case "bit_and", (a, b):
            masks = [x[1] for x in (a, b) if x is not None and x[0] >= 0]
            return (0, min(masks)) if masks else None
        case "cast", (a,):
            return a
        case "neg", ((low, high),):
            return -high, -low
        case "abs", ((low, high) as a,):
            return 0 if low <= 0 <= high else min(map(abs, a)), max(map(abs, a))
        case "min", ((a, b), (c, d)):
            return min(a, c), min(b, d)
        case "max", ((a, b), (c, d)):
            return max(a, c), max(b, d)
        case "plus", ((a, b), (c, d)):
            return a + c, b + d
        case "minus", ((a, b), (c, d)):
            return a - d, b - c
        case "multiplies", ((_, _) as a, (_, _) as b):
            return _corners(lambda x, y: x * y, a, b)
        case "floordiv", ((_, _) as a, (low, _) as b) if low > 0:
            return _corners(lambda x, y: x // y, a, b)
        case "divides", ((_, _) as a, (low, _) as b) if low > 0:
            return _corners(lambda x, y: abs(x) // y * (1 if x >= 0 else -1), a, b)
        case "shift_left", ((_, _) as a, (low, high) as b) if 0 <= low <= high < MOST_BITS:
            return _corners(lambda x, y: x << y, a, b)
        case "shift_right", ((_, _) as a, (low, high) as b) if 0 <= low <= high < MOST_BITS:
            return _corners(lambda x, y: x >> y, a, b)
        case _:
            return None


def _corners(combine: Callable[[int, int], int], a: Ends, b: Ends) -> Ends:
    """Bounds of an operation that is monotonic in each operand: the extremes over the corners of two intervals."""
    corners = [combine(x, y) for x in a for y in b]
    return min(corners), max(corners)


def hull(a: Ends, b: Ends) -> Ends:
    """The least interval that holds both; of half-open ones, too."""
    return min(a[0], b[0]), max(a[1], b[1])
