"""Normal forms of terms that depend on data: random terms keep their values, numbers that wrap around included."""

from __future__ import annotations

import random
from collections.abc import Mapping
from operator import eq, ge, gt, le, lt, ne

import pytest

from tensorir.integers.affine import Affine
from tensorir.ir.types import BOOL, INT32, INT64
from tensorir.lifting.accesses.space import in_one_period
from tensorir.lifting.nests.linear import in_normal_form, settled
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Number, Op, Term, show

RANGES = {"i": (0, 7), "j": (0, 4)}
DATA = [Load(Buffer(name, INT32, ()), ()) for name in "AB"]
COMPARED = {"less": lt, "less_equal": le, "greater": gt, "greater_equal": ge, "eq": eq, "not_eq": ne}
EDGES = [-(2**31), 2**31 - 1, -(2**29), 2**29, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 23, 24]

Env = Mapping[str, int]


def a_term(r: random.Random, depth: int) -> Term:
    if not depth or r.random() < 0.1:
        return r.choice([*DATA, *DATA, Index("i", INT32), Index("j", INT32), Number(r.randint(-5, 9), INT32)])
    match r.choice(["plus", "plus", "minus", "times", "times", "floordiv", "mod", "min", "max", "if", "if", "bool"]):
        case "times":
            return Op("multiplies", (a_term(r, depth - 1), Number(r.choice([-3, -1, 2, 3, 4, 6]), INT32)), INT32)
        case "floordiv" | "mod" as op:
            return Op(op, (a_term(r, depth - 1), Number(r.choice([2, 3, 4, 6, 8, 12, 24]), INT32)), INT32)
        case "if":
            return Op("if", (a_condition(r, depth - 1), a_term(r, depth - 1), a_term(r, depth - 1)), INT32)
        case "bool":
            return Op("cast", (a_condition(r, 0),), INT32)
        case op:
            return Op(op, (a_term(r, depth - 1), a_term(r, depth - 1)), INT32)


def a_condition(r: random.Random, depth: int) -> Term:
    match r.random() if depth else 1.0:
        case p if p < 0.2:
            return Op(r.choice(["and", "or"]), (a_condition(r, depth - 1), a_condition(r, depth - 1)), BOOL)
        case p if p < 0.4:
            return Op("if", (a_condition(r, depth - 1), a_condition(r, depth - 1), Number(False, BOOL)), BOOL)
        case p if p < 0.5:
            return Op("not", (a_condition(r, depth - 1),), BOOL)
        case _:
            compared: tuple[Term, ...] = (a_term(r, r.randint(0, 1)), Number(r.randint(-2, 9), INT32))
            return Op(r.choice([*COMPARED]), compared if r.random() < 0.8 else compared[::-1], BOOL)


def in_range(r: random.Random) -> Term:
    """Places in rows of data that conditions let through, as flat storage has them."""
    a, b = r.sample(DATA, 2)
    bounds = [(a, "greater_equal", 0), (a, "less", 4), (b, "greater", -1), (b, "less_equal", r.choice([4, 5]))]
    flat: Term = Op("plus", (Op("multiplies", (a, Number(6, INT32)), INT32), b), INT32)
    if r.random() < 0.5:
        bounds = [(Op("plus", (x, Number(1, INT32)), INT32), op, n) for x, op, n in bounds]
        flat = Op("plus", (flat, Number(7, INT32)), INT32)
    value: Term = Op(r.choice(["floordiv", "mod"]), (flat, Number(6, INT32)), INT32)
    r.shuffle(bounds)
    for x, op, n in bounds[r.randint(0, 1) :]:
        value = Op("if", (Op(op, (x, Number(n, INT32)), BOOL), value, Number(0, INT32)), INT32)
    return value


def wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def value_of(t: Term, env: Env) -> int:
    match t:
        case Number(value):
            return int(value)
        case Index(name):
            return env[name]
        case Linear(a):
            return affine(a, env)
        case Load(buffer):
            return env[buffer.name]
        case Op("if", (c, x, y)):
            return value_of(x if value_of(c, env) else y, env)
        case Op(op, args, element):
            parts = [value_of(a, env) for a in args]
            made = operation(op, parts)
            return wrapped(made, element.bits) if element.is_integer else made


def operation(op: str, parts: list[int]) -> int:
    match op, parts:
        case "plus", [x, y]:
            return x + y
        case "minus", [x, y]:
            return x - y
        case "multiplies", [x, y]:
            return x * y
        case "floordiv", [x, y]:
            return x // y
        case "mod", [x, y]:
            return x % y
        case "min" | "max", _:
            return min(parts) if op == "min" else max(parts)
        case "and" | "or", [x, y]:
            return int(x and y) if op == "and" else int(x or y)
        case "not", [x]:
            return int(not x)
        case "neg", [x]:
            return -x
        case "cast", [x]:
            return x
        case _, [x, y]:
            return int(COMPARED[op](x, y))
        case _:
            raise AssertionError(op)


def affine(a: Affine, env: Env) -> int:
    atoms = ((env[t] if isinstance(t, str) else affine(t.inner, env) // t.by, c) for t, c in a.terms)
    return a.constant + sum(value * c for value, c in atoms)


def an_iteration(r: random.Random) -> Env:
    places = {n: r.randint(low, high) for n, (low, high) in RANGES.items()}
    return places | {t.buffer.name: r.choice(EDGES) for t in DATA}


def is_kept(term: Term, made: Term, r: random.Random) -> None:
    for _ in range(40):
        env = an_iteration(r)
        one, other = value_of(term, env), value_of(made, env)
        assert one == other, f"{show(term)} became {show(made)}, which is not {one} but {other} at {env}"


@pytest.mark.parametrize("seed", range(4))
def test_normal_forms_of_data_have_the_values_of_their_terms(seed: int):
    r = random.Random(seed)
    for _ in range(80):
        term = a_term(r, r.randint(1, 5)) if r.random() < 0.7 else in_range(r)
        is_kept(term, settled(term, RANGES), r)


@pytest.mark.parametrize("seed", range(4))
def test_sums_in_normal_form_have_their_values(seed: int):
    r = random.Random(seed)
    for _ in range(100):
        term = settled(a_term(r, r.randint(1, 4)), RANGES)
        wide = Op("multiplies", (Op("cast", (term,), INT64), Number(5, INT64)), INT64)
        is_kept(term, in_normal_form(term, RANGES), r)
        is_kept(wide, in_normal_form(wide, RANGES), r)


def test_what_conditions_let_through_tells_its_row():
    a, b = DATA
    flat = Op("plus", (Op("multiplies", (a, Number(6, INT32)), INT32), b), INT32)
    row: Term = Op("floordiv", (flat, Number(6, INT32)), INT32)
    for op, bound in (("greater_equal", 0), ("less", 6)):
        row = Op("if", (Op(op, (b, Number(bound, INT32)), BOOL), row, Number(0, INT32)), INT32)
    without = settled(row, RANGES)
    for op, bound in (("greater_equal", 0), ("less", 4)):
        row = Op("if", (Op(op, (a, Number(bound, INT32)), BOOL), row, Number(0, INT32)), INT32)
    assert "floordiv" in show(without)  # what wraps around may be in any row
    assert "floordiv" not in show(settled(row, RANGES))


def test_what_a_choice_asks_that_is_no_sum_tells_the_row_of_what_it_chooses():
    q, w, x = (Index(n, INT32) for n in "qwx")
    first = Op("if", (Op("less", (x, Number(2, INT32)), BOOL), Number(0, INT32), Op("minus", (x, q), INT32)), INT32)
    place = Op("minus", (q, w), INT32)
    flat = Op("plus", (Op("multiplies", (Index("i", INT32), Number(4, INT32)), INT32), place), INT32)
    row = Op("floordiv", (flat, Number(4, INT32)), INT32)
    ranges = {"i": (0, 5), "q": (0, 3), "w": (0, 1), "x": (0, 3)}
    asked = Op("less_equal", (Number(0, INT32), place), BOOL)
    other = Op("and", (asked, Op("less_equal", (first, place), BOOL)), BOOL)
    choice = settled(Op("if", (other, row, Number(0, INT32)), INT32), ranges)
    made = in_one_period(choice, (), ranges)
    assert "//" in show(choice)
    r = random.Random(0)
    for _ in range(100):
        env = {n: r.randint(low, high) for n, (low, high) in ranges.items()}
        assert value_of(choice, env) == value_of(made, env)
    assert "//" not in show(made), show(made)
