"""What Z3 is told of whole numbers is what the operations do, and what it says is run, or bounded."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.equality.reals import solver
from tensorir.equality.reals.decisions import Decisions
from tensorir.equality.reals.tensors import INTEGERS
from tensorir.equality.verdict import Level
from tensorir.ir.types import BOOL, DTYPES, INT64, SCALARS, Scalar

INT8, UINT8 = SCALARS["int8"], SCALARS["uint8"]
UNARY = ("neg", "abs", "sign", "bit_not", "popcount", "clz")


@pytest.mark.parametrize("op", sorted(INTEGERS))
@pytest.mark.parametrize("element", [INT8, UINT8], ids=str)
@pytest.mark.parametrize("known", [False, True], ids=["of data", "of a number"])
def test_operations_mean_to_z3_what_they_are(op: str, element: Scalar, known: bool):
    low, high = element.range.start, element.range.stop - 1
    d, asked = Decisions(), solver.Solver()
    x, z = (d.input(0, (k,), element) for k in range(2))
    for a, b in ((low, 3), (high, 2), (7 + low // 16, 3), (low + 1, high), (5, 0), (low, -1 % (high + 1 - low) + low)):
        b = 8 if op.startswith("shift") and b == high else b
        second = d.number(b, element) if known else z
        made = d.make(op, element, (x,) if op in UNARY else (x, second))
        with np.errstate(over="ignore"):
            values = [np.array(v, DTYPES[element]) for v in ((a,) if op in UNARY else (a, b))]
            found = int(INTEGERS[op](element, *values))
        path = [(d.make("eq", BOOL, (n, d.number(v, element))), True) for n, v in ((x, a), (z, b))]
        assert asked.excludes(path, made, d.number(found, element)), (a, b)
        assert not asked.excludes(path, made, d.number(found - 1 if found > low else found + 1, element)), (a, b)


@pytest.mark.parametrize(("source", "target"), [(INT8, INT64), (UINT8, INT64), (INT64, INT8), (INT64, UINT8)])
def test_conversions_mean_to_z3_what_they_are(source: Scalar, target: Scalar):
    d, asked = Decisions(), solver.Solver()
    x = d.input(0, (0,), source)
    for value in (-1, -129, 127, 200, 2**40 + 5):
        if not source.holds(value):
            continue
        found = int(np.array(value, DTYPES[source]).astype(DTYPES[target]))
        path = [(d.make("eq", BOOL, (x, d.number(value, source))), True)]
        assert asked.excludes(path, d.make("cast", target, (x,)), d.number(found, target))


TEXT = "f(y: tensor<int32, I[0:3]>, x: tensor<int32, I[0:3]>, z: tensor<int32, I[0:3]>) {{ y ← {}; }}"


def test_without_z3_the_verdict_says_that_it_would_decide(monkeypatch: pytest.MonkeyPatch):
    one, other = (ti.parse(TEXT.format(e)) for e in ("(x ^ z) + 2 × (x & z)", "x + z"))
    assert ti.equivalent(one, other).level == Level.BITS
    monkeypatch.setattr(solver, "find_spec", lambda name: None)
    found = ti.equivalent(one, other)
    assert found.level == Level.SAMPLED and not found
    assert str(found) == (
        "the same on 48 inputs, as far as rounding tells; integers were compared, and no formula was; "
        "z3-solver would decide on its whole numbers (pip install 'tensorir[equality]')"
    )


def test_a_question_that_takes_too_many_steps_is_not_answered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(solver, "STEPS", 1000)
    one, other = (ti.parse(TEXT.format(e)) for e in ("(x ^ z) + 2 × (x & z)", "x + z"))
    assert ti.equivalent(one, other).level == Level.SAMPLED


def test_what_is_assumed_of_inputs_is_known_to_z3():
    one, other = (ti.parse(TEXT.format(e)) for e in ("x / 4", "(x ^ (x & 3)) >> 2"))
    assert ti.equivalent(one, other).level == Level.DIFFERENT
    assert ti.equivalent(one, other, assume=["x ≥ 0"]).level == Level.BITS
    assert ti.equivalent(one, other, assume=["x ≥ -1"]).level == Level.DIFFERENT


def test_one_number_of_all_is_found():
    other = "if x × 12345 = 987654321 then x else x & z | x ^ z"
    found = ti.equivalent(ti.parse(TEXT.format("x | z")), ti.parse(TEXT.format(other)))
    assert found.level == Level.DIFFERENT and found.counterexample is not None
    x, z = (found.counterexample[n].astype(np.int64) for n in "xz")
    assert ((x * 12345 - 987654321) % 2**32 == 0).any() and ((x | z) != x).any()
