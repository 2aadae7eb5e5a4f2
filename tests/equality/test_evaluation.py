"""Programs evaluated over the reals: witnesses within rounding of the oracle, and the laws of residues and formulas."""

import random
from fractions import Fraction

import numpy as np
import pytest

import tensorir as ti
from tensorir import reference
from tensorir.equality.reals import residues as rs
from tensorir.equality.reals.decisions import Decisions, Node
from tensorir.equality.reals.evaluation import evaluated, given
from tensorir.equality.reals.formulas import Formula, exp, power
from tensorir.equality.reals.residues import HUGE, Real
from tensorir.equality.reals.solver import Ends
from tensorir.equality.reals.tensors import Unsupported
from tensorir.ir.types import BOOL, FLOAT32
from tensorir.runtime.errors import DiagnosticError
from tests.generate.bounds import flat
from tests.generate.data import copied
from tests.generate.profiles import OP_BY_OP, SMOOTH, WHOLE, Profile
from tests.generate.programs import Case, made


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
