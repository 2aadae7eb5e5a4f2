"""Pairs of programs and the level of equality that they deserve."""

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir import reference
from tensorir.equality.reals import residues as rs
from tensorir.equality.reals import solver
from tensorir.equality.reals.decisions import Decisions, Node
from tensorir.equality.reals.evaluation import evaluated, given
from tensorir.equality.reals.formulas import Formula, exp, power
from tensorir.equality.reals.residues import HUGE, Real
from tensorir.equality.reals.solver import Ends
from tensorir.equality.reals.tensors import INTEGERS, Unsupported
from tensorir.equality.verdict import Level
from tensorir.ir.types import BOOL, DTYPES, FLOAT32, INT64, SCALARS, Scalar
from tensorir.runtime.errors import DiagnosticError
from tests.equality.pairs import PAIRS, Pair
from tests.generate.bounds import flat
from tests.generate.data import copied
from tests.generate.profiles import OP_BY_OP, SMOOTH, WHOLE, Profile
from tests.generate.programs import Case, made

# Pairs of programs by kind get the level that they deserve, and none that differs is called equal


KINDS = sorted({p.kind for p in PAIRS})


def test_there_are_enough_pairs_of_both_sorts() -> None:
    different = [p for p in PAIRS if p.level == Level.DIFFERENT]
    assert len(PAIRS) >= 120 and len(different) >= 45


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_get_the_level_that_they_deserve(kind: str) -> None:
    wrong: list[str] = []
    for pair in (p for p in PAIRS if p.kind == kind):
        found = ti.equivalent(pair.one(), pair.other())
        if not deserved(pair, found.level):
            wrong.append(f"{pair.name}: {pair.level.name} is deserved, and it is {found.level.name}: {found}")
        assert bool(found) == (pair.level >= Level.REALS), pair.name
    assert not wrong, "\n".join(wrong)


def deserved(pair: Pair, level: Level) -> bool:
    exact = pair.level in (Level.DIFFERENT, Level.WITHIN)
    return level == pair.level if exact else level >= pair.level


# What Z3 is told of whole numbers is what the operations do, and what it says is run, or bounded

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


# Functions of Relax are compared at sizes that they leave open, with each other and with programs of TIR


def relax(params: str, *body: str) -> Any:
    text = "\n".join(f"    {line}" for line in body)
    return ti.tir.parse(f"@R.function\ndef main({params}):\n{text}\n")["main"]


MATRIX = 'x: R.Tensor(("n", "m"), "float32")'


def test_the_same_function_has_one_form_at_every_size_that_is_tried():
    f = relax(MATRIX, "y = R.exp(x)", "return R.sum(y, axis=[1])")
    g = relax('a: R.Tensor(("p", "q"), "float32")', "return R.sum(R.exp(a), axis=[-1])")
    found = ti.equivalent(f, g)
    assert found.level == Level.BITS and not found
    assert str(found) == (
        "equal in every bit at (n, m) = (0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (3, 1), "
        "(1, 4), (2, 3), (3, 2), (4, 1), (1, 5), (2, 4), (8, 8), (17, 17)"
    )


def test_a_difference_is_found_at_the_smallest_size_that_shows_it():
    f = relax('x: R.Tensor(("n",), "float32")', "return R.sum(x)")
    g = relax('x: R.Tensor(("n",), "float32")', "return R.max(x)")
    assert ti.equivalent(f, g).sizes == ({"n": 0},)  # a sum of nothing is 0


def test_sums_in_another_order_agree_on_inputs():
    f = relax(MATRIX, "return R.sum(x)")
    g = relax(MATRIX, "return R.sum(R.sum(x, axis=[0]))")
    found = ti.equivalent(f, g)
    assert found.level == Level.REALS and len(found.sizes) >= 10


def test_a_function_is_compared_with_a_program_of_tir_of_symbolic_sizes():
    f = relax(MATRIX, "return R.multiply(x, x)")
    tir = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (n, m))
    for i, j in T.grid(n, m):
        B[i, j] = A[i, j] * A[i, j]{more}
"""
    assert ti.equivalent(f, ti.tir.parse(tir.format(more=""))["main"]).level >= Level.REALS
    other = ti.tir.parse(tir.format(more=" + T.Cast('float32', i // 3)"))["main"]
    assert ti.equivalent(f, other).level == Level.DIFFERENT


def test_a_function_of_sizes_is_compared_with_one_of_fixed_sizes():
    f = relax(MATRIX, "return R.add(x, x)")
    g = relax('x: R.Tensor((3, 4), "float32")', "return R.add(x, x)")
    assert str(ti.equivalent(f, g)) == "equal in every bit at (n, m) = (3, 4)"


def test_shapes_and_numbers_that_are_parameters_are_sizes():
    f = relax('x: R.Tensor(("n",), "float32"), s: R.Shape(["n", "m"])', "return R.broadcast_to(x, R.shape([m, n]))")
    g = relax('x: R.Tensor(("n",), "float32"), s: R.Shape(["n", "m"])', "return R.broadcast_to(x, R.shape([m, n]))")
    assert ti.equivalent(f, g).level == Level.BITS


def test_a_rank_alone_leaves_every_extent_open():
    f = relax('x: R.Tensor("float32", ndim=2)', "return R.exp(x)")
    g = relax(MATRIX, "return R.exp(x)")
    assert ti.equivalent(f, g).level == Level.BITS


def test_tables_that_programs_bring_along_are_no_inputs():
    of = 'x: R.Tensor((1, 2, 4, 5), "float32")'
    f = relax(of, "return R.image.resize2d(x, R.shape([7, 9]))")
    g = relax(of, "y = R.image.resize2d(x, R.shape([7, 9]))", "return y")
    h = relax(of, 'return R.image.resize2d(x, R.shape([7, 9]), coordinate_transformation_mode="asymmetric")')
    assert ti.equivalent(f, g).level == Level.BITS
    assert ti.equivalent(f, h).level == Level.DIFFERENT


def test_what_a_function_prints_is_no_result():
    f = relax(MATRIX, "_ = R.print(x)", "return R.exp(x)")
    g = relax(MATRIX, "return R.exp(x)")
    assert ti.equivalent(f, g).level == Level.BITS


def test_a_float_that_specialises_a_function_is_no_size():
    f = relax('x: R.Tensor(("n",), "float32"), a: R.Prim("float32")', "return R.exp(x)")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.equivalent(f, f)
    assert str(caught.value) == (
        "error[TL02]: 'main' has sizes that only a call tells.\n"
        "help: compare it at one set of sizes: declare them as numbers."
    )


# Programs evaluated over the reals


def case_of(seed: int, profile: Profile) -> Case:
    source = random.Random(seed)
    return made(lambda low, high: source.randint(low, high), profile)


@pytest.mark.parametrize("profile", [WHOLE, OP_BY_OP, SMOOTH], ids=lambda p: p.name)
def test_witnesses_are_within_rounding_of_the_oracle(profile: Profile) -> None:
    compared = 0
    for seed in range(60):
        case = case_of(seed, profile)
        rng = np.random.default_rng(0)
        arrays = case.arguments
        inputs = {p.name: [given(a, rng) for a in flat(arrays[p.name])] for p in case.fencil.inputs}
        try:
            want = reference.run(case.fencil, **copied(case.arguments))
            got = evaluated(case.fencil, inputs)
        except (DiagnosticError, Unsupported):
            continue
        compared += 1
        for p, found in zip(case.fencil.results, got, strict=True):
            for element, x, leaf in zip(p.type.leaves, flat(want[p.name]), found.leaves, strict=True):
                if not element.is_float:
                    assert (np.asarray(x) == leaf.parts[0]).all(), case
                    continue
                number, wide = Real.of(leaf), np.asarray(x).astype(np.float64)
                with np.errstate(invalid="ignore"):
                    near = np.abs(wide - number.value) <= 1.01 * number.rounding + 1e-12
                both = (wide == number.value) | (np.isnan(wide) & np.isnan(number.value))
                # what is too large for the element type, or stands for infinity
                beyond = ~(np.abs(wide) < HUGE) | ~(np.abs(number.value) < HUGE)
                assert (near | both | beyond).all(), case
    assert compared > 40


def test_sums_of_slots_that_are_absent_leave_them_out() -> None:
    f = ti.parse(
        "f(y: tensor<float, V[0:2]>, t: tensor<int, V[0:2], _NB_E[0:2]>, x: tensor<float, E[0:3]>) "
        "{ y ← reduce(+, 0.0, _NB_0)(⟪t⟫(x)); }"
    )
    rng = np.random.default_rng(0)
    x, t = np.array([1.0, 2.0, 4.0]), np.array([[0, 2], [1, -1]])
    (y,) = evaluated(f, {"t": given(t, rng), "x": given(x, rng)})
    assert Real.of(y.only).value.tolist() == [5.0, 2.0]


def test_residues_keep_the_laws_of_exponentials_logarithms_and_roots() -> None:
    rng = np.random.default_rng(0)
    x, y = rs.random(rng, (50,)), rs.random(rng, (50,))
    assert rs.same(rs.exp(rs.plus(x, y)), rs.times(rs.exp(x), rs.exp(y))).all()
    assert rs.same(rs.sqrt(rs.times(x, y)), rs.times(rs.sqrt(x), rs.sqrt(y))).all()
    assert rs.same(rs.log(rs.times(rs.exp(x), rs.exp(y))), rs.plus(x, y)).all()
    assert rs.same(rs.times(x, rs.inverse(x)), rs.embedded(np.ones(50))).all()
    third = rs.cbrt(x)
    assert rs.same(rs.times(third, rs.times(third, third)), x).all()
    assert not rs.same(rs.exp(x), rs.exp(y)).any()


@pytest.mark.parametrize("value", [0.1, -3.0, 2.0**-60, 1e300, 5e-324, 0.0, 123456789.0])
def test_floats_are_embedded_as_the_fractions_that_they_hold(value: float) -> None:
    exact = Fraction(value)
    found = rs.embedded(np.array(value))
    for modulus, residue in ((rs.P, found.p), (rs.Q, found.q)):
        assert int(residue) == exact.numerator * pow(exact.denominator, -1, modulus) % modulus


def test_formulas_of_quotients_and_roots() -> None:
    x, y = Formula.atom("x"), Formula.atom("y")
    two, minus = Formula.number(2), Fraction(-1)
    assert power(two * x + two * y, minus) == power(x + y, minus) * Formula.number(Fraction(1, 2))
    assert x * power(x * x + x * y, minus) == power(x + y, minus)
    assert exp(x) * power(exp(x) * exp(x) + exp(x), minus) == power(exp(x) + Formula.number(1), minus)
    assert power(x * x, Fraction(1, 2)) != x, "a root of a square is not what was squared"
    with pytest.raises(Unsupported):
        power(x - x, minus)


def nodes(count: int, domain: Decisions) -> list[Node]:
    return [domain.input(0, (k,), FLOAT32) for k in range(count)]


def test_choices_have_one_form_whatever_the_order_in_which_they_ask() -> None:
    d = Decisions()
    x, y, z = nodes(3, d)
    a, b = d.make("less", BOOL, (x, y)), d.make("less", BOOL, (y, z))
    both = d.make("and", BOOL, (b, a))
    assert d.choose(both, x, y) is d.choose(a, d.choose(b, x, y), y)
    neither = d.make("and", BOOL, (d.make("not", BOOL, (a,)), d.make("not", BOOL, (b,))))
    assert d.make("not", BOOL, (d.make("or", BOOL, (a, b)),)) is neither
    summed = d.make("plus", FLOAT32, (d.choose(a, x, y), z))
    assert summed is d.choose(a, d.make("plus", FLOAT32, (x, z)), d.make("plus", FLOAT32, (z, y)))
    assert d.choose(a, x, y) is not d.choose(b, x, y)


def test_of_numbers_that_may_be_nan_a_comparison_is_not_the_negation_of_its_opposite() -> None:
    for ordered in (False, True):
        d = Decisions(ordered)
        x, y = nodes(2, d)
        one, other = d.make("less_equal", BOOL, (x, y)), d.make("not", BOOL, (d.make("less", BOOL, (y, x)),))
        assert (one is other) == ordered


def test_ends_that_no_number_leads_to_are_left_out() -> None:
    d = Decisions(True)
    x, y = nodes(2, d)
    low, high = d.number(-1.0, FLOAT32), d.number(1.0, FLOAT32)
    one = d.make("min", FLOAT32, (d.make("max", FLOAT32, (x, low)), high))
    other = d.make("max", FLOAT32, (d.make("min", FLOAT32, (x, high)), low))
    assert one is not other and Ends(d).equal(one, other)
    assert not Ends(d).equal(one, d.make("max", FLOAT32, (d.make("min", FLOAT32, (x, high)), d.number(-2.0, FLOAT32))))
    same = d.choose(d.make("eq", BOOL, (x, y)), d.make("plus", FLOAT32, (x, x)), low)
    assert Ends(d).equal(same, d.choose(d.make("eq", BOOL, (y, x)), d.make("plus", FLOAT32, (x, y)), low))
    assert not Ends(d).equal(same, d.choose(d.make("eq", BOOL, (y, x)), d.make("plus", FLOAT32, (x, high)), low))


def test_an_element_is_defined_where_its_own_conditions_lead() -> None:
    d = Decisions(True)
    x, y = nodes(2, d)
    one = d.number(1.0, FLOAT32)
    positive = d.make("less", BOOL, (one, x))
    quotient = d.make("divides", FLOAT32, (d.make("multiplies", FLOAT32, (y, x)), x))
    assert Ends(d).equal(d.choose(positive, quotient, y), d.choose(positive, quotient, y))
    assert not Ends(d).equal(d.choose(positive, quotient, y), y), "over the reals y × x / x is not defined everywhere"


def test_inverses_of_many_numbers_are_those_of_each() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, rs.P, (7, 19), dtype=np.uint64)
    x[2, 3] = 0
    found = rs.inverse(rs.Residues(x, x % np.uint64(rs.Q)))
    for residues, modulus in ((found.p, rs.P), (found.q, rs.Q)):
        wanted = [pow(int(v) % modulus, modulus - 2, modulus) for v in x.reshape(-1)]
        assert residues.reshape(-1).tolist() == wanted
