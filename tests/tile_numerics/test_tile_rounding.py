"""Operations and conversions in every rounding mode, against rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from rationals import FORMATS, MODES, SATURATING, largest, rounded, same, samples

from tensorir.tile.interpret import elements as f
from tensorir.tile.interpret.elements import odd_of_integers, round_to
from tensorir.tile.types import ELEMENTS

COUNT = 600
"""Cases of one format and mode; `tests/tile_numerics/many.py` takes more."""
OPERATIONS = {"add": f.add, "subtract": f.subtract, "multiply": f.multiply, "divide": f.divide}
BASE = ("f16", "bf16", "f32", "f64")
CONVERTED = [(a, b) for a in FORMATS for b in FORMATS if a != b]


def expected(name: str, a: float, b: float, element: str, mode: str) -> float:
    """What an operation gives, from its definition."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        with np.errstate(all="ignore"):
            x, y = np.float64(a), np.float64(b)
            return float({"add": x + y, "subtract": x - y, "multiply": x * y, "divide": x / y}[name])
    sign = math.copysign(1, a) * math.copysign(1, b)
    if name == "divide":
        if b == 0:
            return math.nan if a == 0 else math.copysign(math.inf, sign)
        return rounded(Fraction(a) / Fraction(b), element, mode, sign < 0)
    if name == "multiply":
        return rounded(Fraction(a) * Fraction(b), element, mode, sign < 0)
    b = -b if name == "subtract" else b
    both = a == 0 and b == 0 and math.copysign(1, a) == math.copysign(1, b)
    negative = math.copysign(1, a) < 0 if both else mode == "negative_inf"
    return rounded(Fraction(a) + Fraction(b), element, mode, negative)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("element", BASE)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_the_exact_result_rounded_once(name, element, mode, count=COUNT, seed=0):
    a, b = samples(element, count, seed + 1), samples(element, count, seed + 2)[:count]
    got = OPERATIONS[name](a, b, ELEMENTS[element], mode)
    for x, y, z in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        x, y, z = float(x), float(y), float(z)
        assert same(z, expected(name, x, y, element, mode)), (name, x, y, z)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("element", BASE)
def test_a_root_is_the_exact_one_rounded_once(element, mode, count=COUNT, seed=0):
    a = samples(element, count, seed + 3)
    got = f.root(a, ELEMENTS[element], mode)
    for x, z in zip(map(float, a.tolist()), map(float, got.tolist()), strict=True):
        if math.isnan(x) or x < 0:
            assert math.isnan(z)
        elif x == 0 or math.isinf(x):
            assert same(z, x)
        else:
            scale = 1 << 2300
            exact = Fraction(x) * scale * scale
            below = math.isqrt(exact.numerator // exact.denominator)
            cut = Fraction(below) ** 2 != exact
            assert same(z, rounded(Fraction(2 * below + cut, 2 * scale), element, mode)), (x, z)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("element", BASE)
def test_fma_rounds_once(element, mode, count=COUNT, seed=0):
    a, b, c = (samples(element, count, seed + k) for k in (4, 5, 6))
    got = f.fma(a, b, c, ELEMENTS[element], mode)
    for x, y, w, z in zip(*(map(float, v.tolist()) for v in (a, b, c, got)), strict=True):
        if not all(map(math.isfinite, (x, y, w))):
            with np.errstate(all="ignore"):
                finite = math.isfinite(x) and math.isfinite(y)
                wanted = float(w if finite else np.float64(x) * y + w)
            assert same(z, wanted), (x, y, w, z)
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(w)
        sign = math.copysign(1, x) * math.copysign(1, y)
        zeros = (x == 0 or y == 0) and w == 0 and sign == math.copysign(1, w)
        negative = sign < 0 if zeros else mode == "negative_inf"
        assert same(z, rounded(exact, element, mode, negative)), (x, y, w, z)


def converted(x: float, target: str, mode: str) -> float:
    """What a conversion gives: the table of the type document, section 5.1.3."""
    if math.isnan(x):
        return 448.0 if target == "f8E4M3FN" else math.nan
    if math.isinf(x):
        return math.copysign(float(largest(target)), x) if target in SATURATING else x
    return rounded(Fraction(x), target, mode, math.copysign(1, x) < 0)


@pytest.mark.parametrize(("source", "target"), CONVERTED)
def test_a_conversion_is_the_exact_number_rounded_once(source, target, count=70_000, seed=0):
    if source in ("f32", "f64", "tf32"):
        count = min(count, 1500) if count == 70_000 else count
    elif target not in ("f8E4M3FN", "f8E5M2", "f4E2M1FN"):
        count = max(count, 70_000)
    a = samples(source, count, seed)
    if source == "f4E2M1FN" or target != "f4E2M1FN":
        with np.errstate(all="ignore"):
            got = round_to(a.astype(np.float64), ELEMENTS[target])
        step = 1 if len(a) < 3000 else 7  # every one of the 8-bit numbers, and one in seven of the 16-bit ones
        for x, z in list(zip(map(float, a.tolist()), map(float, got.astype(np.float64).tolist()), strict=True))[::step]:
            assert same(z, converted(x, target, "nearest_even")), (x, z)


@pytest.mark.parametrize("target", [t for t in FORMATS if t != "f4E2M1FN"])
def test_integers_of_64_bits_round_once(target, count=COUNT):
    rng = np.random.default_rng(1)
    ends = [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 2**24 + 1, 448, 464, 480, 65519, 65520, -65521]
    numbers = np.concatenate(
        [np.array(ends, np.int64), rng.integers(-(2**63), 2**63 - 1, count), rng.integers(-600, 600, count)]
    )
    for view in (numbers, numbers.view(np.uint64)):
        got = view.astype(np.float64) if target == "f64" else round_to(odd_of_integers(view), ELEMENTS[target])
        for n, z in zip(view.tolist(), got.astype(np.float64).tolist(), strict=True):
            assert same(z, rounded(Fraction(n), target, "nearest_even")), (n, z)


def test_scales_round_to_powers_of_two():
    numbers = np.array([1.0, 1.5, 2.0, 3.9, 0.0, 2.0**-127, 2.0**-130, 2.0**127, 1e300, np.inf, np.nan, -1.0])
    e8m0 = ELEMENTS["f8E8M0FNU"]
    down = [float(x) for x in round_to(numbers, e8m0, "zero")]
    up = [float(x) for x in round_to(numbers, e8m0, "positive_inf")]
    assert down[:4] == [1, 1, 2, 2] and up[:4] == [1, 2, 2, 4]
    least, most = 2.0**-127, 2.0**127
    assert down[4:10] == up[4:10] == [least, least, least, most, most, most]
    assert all(math.isnan(x) for x in (*down[10:], *up[10:]))


def test_subnormal_numbers_are_flushed_to_zeros_of_their_sign():
    tiny = np.array([2.0**-127, -(2.0**-127), 2.0**-126], np.float32)
    one = np.ones(3, np.float32)
    got = f.multiply(tiny, one, ELEMENTS["f32"], "nearest_even", True)
    assert got.tolist() == [0.0, 0.0, 2.0**-126] and np.signbit(got).tolist() == [False, True, False]
    assert f.multiply(tiny, one, ELEMENTS["f32"])[0] == tiny[0]


def test_the_larger_of_zeros_is_positive_and_nan_propagates_if_asked():
    a, b = np.array([-0.0, 0.0, np.nan, 1.0], np.float32), np.array([0.0, -0.0, 1.0, np.nan], np.float32)
    f32 = ELEMENTS["f32"]
    assert np.signbit(f.larger(a, b, f32)[:2]).tolist() == [False, False]
    assert np.signbit(f.smaller(a, b, f32)[:2]).tolist() == [True, True]
    assert f.larger(a, b, f32)[2:].tolist() == [1.0, 1.0]
    assert np.isnan(f.larger(a, b, f32, True)[2:]).all()
