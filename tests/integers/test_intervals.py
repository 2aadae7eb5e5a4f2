"""Intervals of operations hold every result, and are the least ones where they say so."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from tensorir.integers.intervals import combined

OPERATIONS = {
    "plus": np.add, "minus": np.subtract, "multiplies": np.multiply, "min": np.minimum, "max": np.maximum,
    "floordiv": np.floor_divide, "mod": np.mod, "rem": np.fmod, "bit_and": np.bitwise_and,
    "divides": lambda x, y: np.trunc(x / y).astype(int), "shift_left": np.left_shift, "shift_right": np.right_shift,
}  # fmt: skip
ENDS = list(combinations_with_replacement(range(-4, 5), 2))


@pytest.mark.parametrize("op", OPERATIONS)
def test_an_interval_holds_what_an_operation_gives(op: str) -> None:
    for a in ENDS:
        for b in ENDS:
            found = combined(op, a, b)
            if found is None:
                assert op not in ("plus", "minus", "multiplies", "min", "max"), (a, b)
                continue
            results = OPERATIONS[op](np.arange(a[0], a[1] + 1)[:, None], np.arange(b[0], b[1] + 1))
            exact = results.min(), results.max()
            assert found[0] <= exact[0] and exact[1] <= found[1], (a, b)
            assert op in ("mod", "rem", "bit_and") or found == exact, (a, b)


@pytest.mark.parametrize(
    ("op", "by", "expected"), [("mod", (3, 5), (0, 4)), ("rem", (3, 5), (-4, 4)), ("bit_and", (0, 7), (0, 7))]
)
def test_an_operation_bounds_what_may_be_any_number(op: str, by: tuple[int, int], expected: tuple[int, int]) -> None:
    assert combined(op, None, by) == expected
