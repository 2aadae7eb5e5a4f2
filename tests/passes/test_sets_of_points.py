"""Sets of points against sets of Python, and intervals of operations against what NumPy computes of all in them."""

import itertools

import numpy as np
import pytest

from tensorir.integers.dims import Dims
from tensorir.integers.intervals import combined
from tensorir.integers.sets import IntegerSet

CLOUD = [(0, 0), (0, 3), (1, 2), (3, 1), (3, 3), (2, 0)]
BOXES = [
    ((a, b), (c, d)) for a, b in itertools.combinations(range(5), 2) for c, d in itertools.combinations(range(5), 2)
]


@pytest.mark.parametrize("box", BOXES)
def test_explicit_points_are_inside_of_a_box_along_all_of_its_dims(box):
    (a, b), (c, d) = box
    points = IntegerSet.rows(("I", "J"), np.array(CLOUD))
    inside = {(i, j) for i, j in CLOUD if a <= i < b and c <= j < d}
    dims = Dims.of(I=(a, b), J=(c, d))
    assert set(points.within(dims)) == inside
    assert set(points.without(dims)) == set(CLOUD) - inside


@pytest.mark.parametrize("seed", range(20))
def test_boxes_fill_a_box_if_every_point_of_it_is_in_one(seed):
    rng = np.random.default_rng(seed)
    whole = Dims.of(I=(0, 3), J=(0, 4))
    union, every = IntegerSet(("I", "J")), set()
    for _ in range(6):
        (a, b), (c, d) = BOXES[rng.integers(len(BOXES))]
        union |= IntegerSet.box(Dims.of(I=(a, b), J=(c, d)))
        every |= set(itertools.product(range(a, b), range(c, d)))
    assert union.fills(whole) == (set(itertools.product(range(3), range(4))) <= every)
    assert set(union) == every


OPERATIONS = {
    "plus": np.add, "minus": np.subtract, "multiplies": np.multiply, "min": np.minimum, "max": np.maximum,
    "floordiv": np.floor_divide, "mod": np.mod, "rem": np.fmod, "bit_and": np.bitwise_and,
    "divides": lambda x, y: np.trunc(x / y).astype(int), "shift_left": np.left_shift, "shift_right": np.right_shift,
}  # fmt: skip
ENDS = list(itertools.combinations_with_replacement(range(-4, 5), 2))


@pytest.mark.parametrize("op", OPERATIONS)
def test_an_interval_holds_what_an_operation_gives(op: str) -> None:
    for a, b in itertools.product(ENDS, ENDS):
        if (found := combined(op, a, b)) is None:
            assert op not in ("plus", "minus", "multiplies", "min", "max"), (a, b)
            continue
        results = OPERATIONS[op](np.arange(a[0], a[1] + 1)[:, None], np.arange(b[0], b[1] + 1))
        assert found[0] <= results.min() and results.max() <= found[1], (a, b)
        assert op in ("mod", "rem", "bit_and") or found == (results.min(), results.max()), (a, b)


def test_an_operation_bounds_what_may_be_any_number() -> None:
    cases = {"mod": ((3, 5), (0, 4)), "rem": ((3, 5), (-4, 4)), "bit_and": ((0, 7), (0, 7))}
    assert {op: combined(op, None, by) for op, (by, _) in cases.items()} == {op: e for op, (_, e) in cases.items()}
