"""Normal forms of index arithmetic: random terms have their values, and their bounds, wherever the variables are."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.accesses.space import counted, in_one_period, spread_where
from tensorir.lifting.nests.bounded import sums_bounded
from tensorir.lifting.nests.linear import affine_of, settled
from tensorir.lifting.nests.terms import Index, Linear, Number, Op, Term, show, values
from tensorir.lifting.nests.unknowns import bounds

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


def a_quotient_beside_its_bound(r: random.Random) -> tuple[Term, Term]:
    """A quotient of what a condition bounds, `(i + 3 * j + c) // 6` where `i // 3 + j < n`, and the condition."""
    x, w, other = (Index(name, INT32) for name in r.sample([*RANGES], 3))
    by, m, sign = r.choice([1, 2, 3, 4]), r.choice([2, 3, 4]), r.choice([1, -1])
    sum_ = Op("plus", (Op("floordiv", (x, Number(by, INT32)), INT32), _times(w, sign)), INT32)
    inner = Op(
        "plus", (Op("plus", (x, _times(w, sign * by)), INT32), Number(r.choice([0, 0, by, 1, -by, 5]), INT32)), INT32
    )
    if r.random() < 0.4:
        inner = Op("plus", (inner, _times(other, r.choice([1, by, by * m, -by]))), INT32)
    first = r.randint(-6, 8)
    within = Op("and", (
        Op("greater_equal", (sum_, Number(first, INT32)), BOOL),
        Op("less", (sum_, Number(first + r.randint(1, m), INT32)), BOOL),
    ), BOOL)  # fmt: skip
    return Op("floordiv", (inner, Number(by * m, INT32)), INT32), within


def _times(term: Term, by: int) -> Term:
    return Op("multiplies", (term, Number(by, INT32)), INT32)


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


@pytest.mark.parametrize("seed", range(8))
def test_what_counting_and_bounds_tell_holds_where_conditions_do(seed: int):
    r = random.Random(seed)
    told = Counter[object]()
    for _ in range(150):
        term, conditions = a_term(r, r.randint(1, 5)), [a_condition(r, 2) for _ in range(r.randint(0, 2))]
        if r.random() < 0.5:
            term, bound = a_quotient_beside_its_bound(r)
            conditions.append(bound)
        term = settled(term, RANGES)
        guards = [g for condition in conditions for g in conjuncts(settled(condition, RANGES))]
        held = np.ones((8, 5, 8), bool)
        for g in guards:
            held = held & values(g, GRID)
        if not held.any():
            continue
        wanted = np.broadcast_to(values(term, GRID), held.shape)[held]
        for simpler in (counted, in_one_period):
            made = simpler(term, guards, RANGES)
            found = np.broadcast_to(values(made, GRID), held.shape)[held]
            assert np.array_equal(wanted, found), f"{show(term)} became {show(made)} where {[*map(show, guards)]}"
            told[simpler] += made is not term
        spreads = dict(sums_bounded(guards, RANGES))
        if (a := affine_of(term)) is not None and (spread := spread_where(a, guards, RANGES)) is not None:
            spreads[a] = spread
        for a, (low, high) in spreads.items():
            inside = np.broadcast_to(values(Linear(a, INT32), GRID), held.shape)[held]
            assert low <= inside.min() <= inside.max() <= high, f"{a} where {[*map(show, guards)]}"
    assert len(told) == 2
