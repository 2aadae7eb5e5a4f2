"""What is proven of a step with three numbers holds with all: steps at random, tried with many numbers and NaN."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tensorir.ir.types import BOOL, FLOAT32, INT32
from tensorir.lifting.emission.choosers import Chooser, chooser_of
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term

INDEX, VALUE = Load(Buffer("I", INT32, ()), ()), Load(Buffer("V", FLOAT32, ()), ())
K, X = Index("k", INT32), Index("x", FLOAT32)
PAIRS: tuple[tuple[Term, Term], ...] = ((INDEX, K), (VALUE, X))

COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "eq": operator.eq, "not_eq": operator.ne,
}  # fmt: skip

State = tuple[int, float]


def truth(r: random.Random, depth: int = 2) -> Term:
    if depth and r.random() < 0.6:
        x, y = truth(r, depth - 1), truth(r, depth - 1)
        kind = r.choice(["and", "or", "xor", "not", "if"])
        return Op(kind, {"not": (x,), "if": (x, y, truth(r, depth - 1))}.get(kind, (x, y)), BOOL)
    if r.random() < 0.05:
        return Number(r.random() < 0.5, BOOL)
    old, new = r.choice(PAIRS)
    return Op(r.choice(list(COMPARED)), r.choice([(old, new), (new, old)]), BOOL)


def values_at_random(r: random.Random) -> tuple[Term, ...]:
    """An index and a value, each the old or the new one: half of them as extremes with their index are."""
    if r.random() < 0.5:
        kept: Term = truth(r)
        return tuple(Op("if", (kept if r.random() < 0.7 else truth(r), *pair), pair[0].element) for pair in PAIRS)
    better = Op(r.choice(["less", "greater"]), (VALUE, X), BOOL)
    ties = r.choice([truth(r, 0), truth(r, 1), Op("less", (INDEX, K), BOOL), Op("greater", (INDEX, K), BOOL)])
    equal = Op("and", (Op("eq", (VALUE, X), BOOL), ties), BOOL)
    best = Op("if", (better, VALUE, X), FLOAT32)
    return Op("if", (Op("or", (better, equal), BOOL), INDEX, K), INT32), best


def number(term: Term, old: State, new: State) -> Any:
    """The value of a term, by what Python's operators do."""
    match term:
        case Number(value):
            return value
        case Load() | Index():
            return {INDEX: old[0], VALUE: old[1], K: new[0], X: new[1]}[term]
        case Op("if", (c, x, y)):
            return number(x if number(c, old, new) else y, old, new)
        case Op("not", (x,)):
            return not number(x, old, new)
        case Op(op, (x, y)):
            a, b = number(x, old, new), number(y, old, new)
            return {"and": a and b, "or": a or b, "xor": a != b}[op] if op not in COMPARED else COMPARED[op](a, b)
        case _:
            raise AssertionError(term)


def same(a: State, b: State) -> bool:
    return a[0] == b[0] and (a[1] == b[1] or (a[1] != a[1] and b[1] != b[1]))


def found(values: tuple[Term, ...]) -> Chooser:
    step = chooser_of(values, {INDEX: 0, VALUE: 1})
    assert step is not None and step.items == (K, X)
    return step


@pytest.mark.parametrize("seed", range(150))
def test_a_step_that_is_proven_to_take_any_order_takes_any_order(seed: int):
    r = random.Random(seed)
    values = values_at_random(r)
    if chooser_of(values, {INDEX: 0, VALUE: 1}) is None:
        return
    laws = found(values).laws

    def step(old: State, new: State) -> State:
        index, value = (number(v, old, new) for v in values)
        return index, value

    nan = float("nan")
    for with_nan in (False, True):
        tried = [
            (r.randrange(-3, 4), nan if with_nan and r.random() < 0.3 else r.randrange(-3, 4) / 2) for _ in range(120)
        ]
        triples = [r.sample(tried, 3) for _ in range(600)]
        free = all(
            same(step(a, b), step(b, a)) and same(step(step(a, b), c), step(a, step(b, c))) for a, b, c in triples
        )
        again = all(same(step(a, a), a) for a in tried)
        if not with_nan:
            assert (free, again) == (laws.free, laws.again)
        elif laws.free:
            assert (free and (again or not laws.again)) == laws.with_nan


@pytest.mark.parametrize(
    "values",
    [
        (Op("plus", (INDEX, K), INT32), Op("max", (VALUE, X), FLOAT32)),
        (Op("if", (Op("less", (VALUE, Number(0.0, FLOAT32)), BOOL), INDEX, K), INT32), Op("max", (VALUE, X), FLOAT32)),
        (Op("if", (Op("less", (VALUE, X), BOOL), K, Op("plus", (K, K), INT32)), INT32), Op("max", (VALUE, X), FLOAT32)),
        (Op("if", (Op("less", (K, Number(3, INT32)), BOOL), K, INDEX), INT32), Op("max", (VALUE, X), FLOAT32)),
    ],
)
def test_a_step_that_does_more_than_compare_and_choose_is_not_looked_at(values: tuple[Term, ...]):
    assert chooser_of(values, {INDEX: 0, VALUE: 1}) is None


def test_a_step_for_which_nan_is_the_largest_takes_any_order_with_nan():
    """As NumPy's argmax does, where of several NaNs the first counts."""

    def both(x: Term, y: Term, kind: str = "and") -> Term:
        return Op(kind, (x, y), BOOL)

    old, new = (Op("not_eq", (x, x), BOOL) for x in (VALUE, X))
    equal = both(Op("eq", (VALUE, X), BOOL), both(old, new), "or")
    larger = both(Op("greater", (VALUE, X), BOOL), both(old, Op("not", (new,), BOOL)), "or")
    kept = both(larger, both(equal, Op("less", (INDEX, K), BOOL)), "or")
    laws = found((Op("if", (kept, INDEX, K), INT32), Op("if", (larger, VALUE, X), FLOAT32))).laws
    assert laws.free and laws.again and laws.with_nan
