"""Sets of points against sets of Python, and intervals of operations against what NumPy computes of all in them."""

import itertools

import numpy as np
import pytest
from generate import programs
from generate.data import Entries, arguments
from generate.examples import examples
from generate.profiles import EVERY
from hypothesis import given, settings

import tensorir as ti
from tensorir import reference
from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.domains import domains
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


# What the analysis says is read is what the oracle reads, point by point, on generated programs.


COUNTS = {"exact": 0, "whole": 0}


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(150))
@given(programs(EVERY))
def test_the_oracle_reads_exactly_the_inferred_points(case):
    present = {n: Entries(e.inside) for n, e in case.entries.items()}
    given = arguments(case.fencil, present, case.values, case.seed)
    # of a table that the program computes entries may be -1 all the same: what is skipped there reads less
    facts = analyse_absence(case.fencil, dict.fromkeys(present, False))
    exact = compare(case, given, allow_more=any(access.absent for access in facts.accesses.values()))
    COUNTS["exact" if exact else "whole"] += 1


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(150))
@given(programs(EVERY))
def test_where_neighbours_are_absent_nothing_is_read_that_was_not_inferred(case):
    compare(case, case.arguments, allow_more=True)


def compare(case, given, allow_more):
    """Whether the program could be compared exactly: nothing in it depends on what is known at run time only."""
    bound = case.fencil.bind(**{n: v for n, v in given.items() if n in case.entries})
    found = domains(bound)
    read = reference.trace(bound, both=True, **{n: v for n, v in given.items() if n not in case.entries})
    for name, points in found.params.items():
        inferred = set(points)
        missed = read[name] - inferred
        assert not missed, f"{name}: not inferred: {sorted(missed)}\n{case!r}"
        if not found.unknown and not allow_more:
            assert inferred == read[name], f"{name}: not read: {sorted(inferred - read[name])}\n{case!r}"
    return not found.unknown


def test_a_third_of_the_generated_programs_were_compared_exactly():
    assert 2 * COUNTS["exact"] > COUNTS["whole"], COUNTS


def test_every_value_that_is_printed_is_read_as_a_whole():
    f = ti.parse(
        """f(x: tensor<float, I[0:5]>, z: tensor<float, J[0:7]>, y: tensor<float, I[1:3]>) {
          y ← let t = exp(z); print("{} of {}")(x, t) + 1.0;
        }"""
    )
    assert str(ti.passes.explain(f)) == (
        "f stores y at I[1:3].\nt: J[0:7] are needed.\nx: I[0:5] are read.\nz: J[0:7] are read."
    )
