"""`fold_constants` beside arithmetic of Python's own: integers without bounds, and fractions that are rounded once."""

import math
import operator
import random
from fractions import Fraction

import pytest

from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Literal
from tensorir.ir.types import BOOL, FLOAT64, SCALARS
from tensorir.passes import FoldConstants

INTEGERS = [s for s in SCALARS.values() if s.is_integer]
FLOATS = [0.1, 1.0, -2.5, 3.0, 1e16, 1e-3, 7.25, -1e300, 1 / 3]
RNG = random.Random(0)


def folded(op, *operands, static=()):
    found = FoldConstants().rule(call(op, *operands, static=static))
    assert isinstance(found, Literal)
    return found


def wrapped(value, kind):
    """The integer of so many bits with the same last bits."""
    bits = value & (2**kind.bits - 1)
    return bits - 2**kind.bits if kind.name.startswith("int") and bits >> (kind.bits - 1) else bits


def quotient(x, y):
    """Towards zero."""
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


OF_INTEGERS = {
    "plus": operator.add,
    "minus": operator.sub,
    "multiplies": operator.mul,
    "divides": quotient,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "rem": lambda x, y: x - y * quotient(x, y),
    "min": min,
    "max": max,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
}


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
@pytest.mark.parametrize("op", OF_INTEGERS)
def test_integers_are_those_of_python_and_wrap(op, kind):
    ends = [kind.range.start, kind.range.stop - 1, 1, 2, 3, 100]
    for _ in range(50):
        x, y = (RNG.choice([*ends, RNG.randrange(kind.range.start, kind.range.stop)]) for _ in range(2))
        if y != 0 or op not in ("divides", "floordiv", "mod", "rem"):
            found = folded(op, literal(x, kind), literal(y, kind))
            assert (found.value, found.element) == (wrapped(OF_INTEGERS[op](x, y), kind), kind), (x, y)


def rounded(exact):
    """The nearest float64 of a fraction, infinite where it is too large."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


OF_FRACTIONS = {
    "plus": operator.add,
    "minus": operator.sub,
    "multiplies": operator.mul,
    "divides": operator.truediv,
    "floordiv": lambda x, y: Fraction(math.floor(x / y)),
    "min": min,
    "max": max,
}
COMPARISONS = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "eq": operator.eq,
    "not_eq": operator.ne,
}


@pytest.mark.parametrize("op", OF_FRACTIONS)
def test_floats_are_fractions_rounded_once(op):
    for x in FLOATS:
        for y in FLOATS:
            exact = OF_FRACTIONS[op](Fraction(x), Fraction(y))
            assert folded(op, literal(x), literal(y)).value == rounded(exact), (x, y)


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_are_those_of_fractions(op):
    for x in FLOATS:
        for y in FLOATS:
            found = folded(op, literal(x), literal(y))
            assert (found.value, found.element) == (COMPARISONS[op](Fraction(x), Fraction(y)), BOOL), (x, y)


@pytest.mark.parametrize(
    ("op", "function"), [("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("round", round)]
)
def test_whole_numbers_are_those_of_fractions(op, function):
    for x in [*FLOATS, 0.5, 1.5, 2.5, -0.75]:
        assert folded(op, literal(x)).value == function(Fraction(x)), x


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_casts_of_floats_go_towards_zero_and_saturate(kind):
    for x in FLOATS:
        want = min(max(math.trunc(Fraction(x)), kind.range.start), kind.range.stop - 1)
        assert folded("cast", literal(x, FLOAT64), static=(kind,)).value == want, x


def test_a_choice_between_literals_is_the_one_that_its_condition_says():
    assert folded("if", literal(True), literal(1.5), literal(2.5)).value == 1.5
    assert folded("if", literal(False), literal(1.5), literal(2.5)).value == 2.5
