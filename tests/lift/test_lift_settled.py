"""Normal forms of index arithmetic: random terms have their values, and their bounds, wherever the variables are."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tensorir.lift.nests.linear import settled
from tensorir.lift.nests.numbers import values
from tensorir.lift.nests.terms import Index, Number, Op, Term, show
from tensorir.lift.nests.unknowns import bounds
from tensorir.types import BOOL, INT32

RANGES = {"i": (0, 7), "j": (0, 4), "k": (2, 9)}
GRID = {
    n: np.arange(low, high + 1).reshape([-1 if other == n else 1 for other in RANGES])
    for n, (low, high) in RANGES.items()
}
OPS = ["plus", "plus", "minus", "times", "floordiv", "floordiv", "mod", "mod", "rem", "min", "max", "if"]


def a_term(r: random.Random, depth: int) -> Term:
    if not depth or r.random() < 0.15:
        return Index(r.choice([*RANGES]), INT32) if r.random() < 0.7 else Number(r.randint(-5, 9), INT32)
    match r.choice(OPS):
        case "times":
            return Op("multiplies", (a_term(r, depth - 1), Number(r.choice([-3, -1, 2, 3, 4, 5, 20]), INT32)), INT32)
        case "floordiv" | "mod" | "rem" as op:
            return Op(op, (a_term(r, depth - 1), Number(r.choice([2, 3, 4, 5, 8, 20]), INT32)), INT32)
        case "if":
            return Op("if", (a_condition(r, depth - 1), a_term(r, depth - 1), a_term(r, depth - 1)), INT32)
        case op:
            return Op(op, (a_term(r, depth - 1), a_term(r, depth - 1)), INT32)


def a_condition(r: random.Random, depth: int) -> Term:
    if depth and r.random() < 0.3:
        return Op(r.choice(["and", "or"]), (a_condition(r, depth - 1), a_condition(r, depth - 1)), BOOL)
    op = r.choice(["less", "less_equal", "greater", "greater_equal", "eq"])
    return Op(op, (a_term(r, max(depth - 1, 0)), a_term(r, 0)), BOOL)


@pytest.mark.parametrize("seed", range(8))
def test_normal_forms_have_the_values_of_their_terms(seed: int):
    r = random.Random(seed)
    for _ in range(150):
        term = a_term(r, r.randint(1, 6))
        made = settled(term, RANGES)
        one, other = values(term, GRID), values(made, GRID)
        assert one is not None and other is not None
        wanted, found = np.broadcast_arrays(one, other)
        assert np.array_equal(wanted, found), f"{show(term)} became {show(made)}"
        spread = bounds(made, RANGES)
        inside = spread is None or (spread[0] <= wanted.min() and wanted.max() <= spread[1])
        assert inside, f"{show(made)} is not inside of {spread}"
