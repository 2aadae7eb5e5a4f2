"""TileLang's arithmetic that says how it rounds, beside fractions, which do not round."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest

import tensorir as ti

EXACT: dict[str, Any] = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "fmul": lambda a, b, c: a * b,
    "fdiv": lambda a, b, c: a / b,
    "frcp": lambda a, b, c: 1 / a,
    "fmaf": lambda a, b, c: a * b + c,
    "fsqrt": lambda a, b, c: root(abs(a)),
}
OPERANDS = {"frcp": "A[i]", "fsqrt": "T.fabs(A[i])", "fmaf": "A[i], B[i], C[i]"}


def root(x: Fraction) -> Fraction:
    """A square root to 2^-200 of it, with something behind the last digit where there is more."""
    scaled = x * 2**400
    whole = isqrt(scaled.numerator // scaled.denominator)
    return Fraction(whole, 2**200) + (0 if whole * whole == scaled else Fraction(1, 2**201))


def towards(x: Fraction, mode: str) -> np.float32:
    """The float32 that a fraction is rounded to."""
    near = np.float32(float(x))
    infinite = np.float32(np.inf)
    above = near if Fraction(float(near)) >= x else np.nextafter(near, infinite)
    below = near if Fraction(float(near)) <= x else np.nextafter(near, -infinite)
    match mode:
        case "ru":
            return above
        case "rd":
            return below
        case "rz":
            return below if x > 0 else above
        case _:
            middle = (Fraction(float(above)) + Fraction(float(below))) / 2
            even = above if above.view(np.int32) % 2 == 0 else below
            return even if x == middle else above if x > middle else below


def numbers(seed: int) -> np.ndarray:
    """Numbers of both signs, of one magnitude and of many."""
    rng = np.random.default_rng(seed)
    powers = np.where(np.arange(48) < 24, 0, rng.integers(-20, 20, 48))
    return (rng.uniform(1, 2, 48) * rng.choice([-1, 1], 48) * 2.0**powers).astype(np.float32)


@pytest.mark.parametrize("mode", ["", "rn", "rz", "ru", "rd"])
@pytest.mark.parametrize("name", EXACT)
def test_a_result_is_the_neighbour_of_the_exact_one_that_its_way_of_rounding_says(name: str, mode: str):
    given = OPERANDS.get(name, "A[i], B[i]") + (f', "{mode}"' if mode else "")
    buffers = ", ".join(f'{b}: T.Buffer((48,), "float32")' for b in "ABCD")
    text = f"@T.prim_func\ndef main({buffers}):\n    for i in range(48):\n        D[i] = T.ieee_{name}({given})\n"
    function, arrays = ti.tir.parse(text)["main"], [numbers(k) for k in range(3)]
    rows = zip(*arrays, strict=True)
    wanted = [towards(EXACT[name](*(Fraction(float(x)) for x in row)), mode) for row in rows]
    np.testing.assert_array_equal(ti.tir.interpret(function, *arrays, np.zeros(48, np.float32))[3], wanted)
    np.testing.assert_array_equal(ti.lift(function, numerics="exact")(*arrays, None)[0], wanted)


def test_a_product_beyond_all_numbers_is_the_last_of_them_towards_zero():
    text = """@T.prim_func
def main(A: T.Buffer((2,), "float32"), D: T.Buffer((2,), "float32")):
    for i in range(2):
        D[i] = T.ieee_mul(A[i], A[i], "rz")
"""
    found = ti.tir.interpret(ti.tir.parse(text)["main"], np.array([3e38, 2], np.float32), np.zeros(2, np.float32))[1]
    np.testing.assert_array_equal(found, [np.finfo(np.float32).max, 4])


def test_a_way_of_rounding_that_float64_would_have_to_be_wider_for_is_refused():
    text = """@T.prim_func
def main(A: T.Buffer((2,), "float64")):
    A[0] = T.ieee_add(A[0], A[1], "rz")
"""
    with pytest.raises(ti.DiagnosticError, match=r"TL01.*: T\.ieee_add has no meaning in a pure program"):
        ti.lift(ti.tir.parse(text)["main"])


@pytest.mark.parametrize("rest", [2.0**-80, 0.0, -(2.0**-80)])
def test_a_fused_sum_rounds_once_where_half_of_the_last_digit_is_left(rest: float):
    text = """@T.prim_func
def main(A: T.Buffer((1,), "float32"), C: T.Buffer((1,), "float32"), D: T.Buffer((1,), "float32")):
    D[0] = T.ieee_fmaf(A[0], A[0], C[0])
"""
    a, c = np.array([1 + 2.0**-12], np.float32), np.array([rest], np.float32)
    found = ti.tir.interpret(ti.tir.parse(text)["main"], a, c, np.zeros(1, np.float32))[2]
    assert found[0] == towards(Fraction(float(a[0])) ** 2 + Fraction(rest), "rn")
