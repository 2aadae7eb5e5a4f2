"""Sets of points against sets of Python: unions of boxes, and explicit points in several dims."""

import itertools

import numpy as np
import pytest

from tensorir.integers.sets import IntegerSet
from tensorir.ir.types import Dims

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
