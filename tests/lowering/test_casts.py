"""Casts to narrow floats are rounded once, to the nearest, ties to even: by rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tensorir as ti
from tests.pairwise import pairwise

BITS = {"float16": (11, -14, 65504), "bfloat16": (8, -126, None), "float32": (24, -126, None)}
"""Bits of the significand, the least exponent of normal numbers, and the greatest number."""
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


def nearest(x: Fraction, target: str) -> float:
    """The number of a type that is nearest to a rational one, of two the even one; an infinity behind the greatest."""
    bits, least, _ = BITS[target]
    if x == 0:
        return 0.0
    exponent = least
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - bits + 1)
    found = round(x / unit) * unit  # of Python's Fraction: ties to even
    greatest = Fraction(float(ml_dtypes.finfo(DTYPES[target]).max))
    return float(found) if abs(found) <= greatest else float("inf") if x > 0 else float("-inf")


def floats(target: str) -> np.ndarray:
    """float64 beside numbers of a type, and beside the middle of two."""
    rng = np.random.default_rng(0)
    exponents = rng.integers(-12, 15, 400)
    some = (rng.normal(size=400) * 2.0**exponents).astype(DTYPES[target])
    bits = some.view("u2" if some.dtype.itemsize == 2 else "u4")
    a, b = some.astype(float), (bits + 1).view(some.dtype).astype(float)
    middle = (a + b) / 2
    beside = [middle, middle * (1 + 2.0**-40), middle * (1 - 2.0**-40), a, np.nextafter(middle, 0)]
    far = [65519.999, 65520.0, 65519.99999999, -65519.999, 3.3961775292304957e38, 3.3961775292304960e38, 1e300, 0.0]
    return np.concatenate([*beside, far, [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40]])


def integers(kind: str) -> np.ndarray:
    info = np.iinfo(kind)
    rng = np.random.default_rng(1)
    low = max(info.min, -(2**62))
    some = rng.integers(low, min(info.max, 2**62), 400) // 2 ** rng.integers(0, info.bits - 4, 400)
    steps = [(k, s, d) for k in range(12, info.bits - 1) for s in (8, 11, 24) if s < k for d in (-1, 0, 1)]
    middles = [2**k + 2 ** (k - s) + d for k, s, d in steps]
    ends = [info.min, info.max, 0, 1]
    return np.array([*map(int, some), *middles, *ends], kind)


def run(source: str, target: str, x: np.ndarray, numerics: str) -> list[np.ndarray]:
    text = f"f(y: tensor<{target}, I[0:{len(x)}]>, x: tensor<{source}, I[0:{len(x)}]>) {{ y ← cast(x, {target}); }}"
    program = ti.parse(text)
    found = [ti.compile(program, numerics=numerics)(x=x)["y"], ti.reference.run(program, x=x)["y"]]
    with jax.disable_jit():
        found.append(program(x=x)["y"])
    return found


@pytest.mark.parametrize(
    ("source", "target", "numerics"),
    pairwise(["float", "int16", "int", "int64", "uint32", "uint64"], list(BITS), ["fast", "exact"]),
)
def test_a_cast_is_rounded_once(source: str, target: str, numerics: str):
    x = floats(target) if source == "float" else integers({"int": "int32"}.get(source, source))
    with np.errstate(over="ignore"):
        found = run(source, target, x, numerics)
    want = np.array([nearest(Fraction(v.item()), target) for v in x])
    for got in found:
        np.testing.assert_array_equal(got.astype(float), want)


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_what_is_no_number_and_signs_of_zeros_are_kept(target: str):
    for got in run("float", target, np.array([np.nan, np.inf, -np.inf, -0.0, 0.0]), "exact"):
        got = got.astype(float)
        assert np.isnan(got[0]) and got[1] == np.inf and got[2] == -np.inf
        assert np.signbit(got[3:]).tolist() == [True, False]


@pytest.mark.parametrize("value", ["65519.999", "1.0039062500009095"])
def test_a_constant_is_rounded_as_data_is(value: str):
    program = ti.parse(
        f"f(y: tensor<bfloat16>, z: tensor<float16>) {{ y ← cast({value}, bfloat16); z ← cast({value}, float16); }}"
    )
    for found in (ti.compile(program)(), ti.reference.run(program)):
        assert float(found["y"]) == nearest(Fraction(float(value)), "bfloat16")
        assert float(found["z"]) == nearest(Fraction(float(value)), "float16")


def test_a_narrowing_cast_has_the_slope_of_the_identity():
    compiled = ti.compile(ti.parse("f(y: tensor<float16>, x: tensor<float>) { y ← cast(x, float16); }"))
    with jax.enable_x64(True):
        assert jax.grad(lambda x: compiled(x=x)["y"].astype("float64"))(jnp.float64(0.1)) == 1.0


ZEROS = {
    "y + 0.0": False,
    "0.0 + y": False,
    "y - -0.0": False,
    "y + cast(0, float)": False,
    "y - 0.0": True,
    "y + -0.0": True,
}


@pytest.mark.parametrize("expression", ZEROS)
def test_the_sign_of_a_sum_with_zero_is_that_of_the_standard(expression: str):
    program = ti.parse(f"f(z: tensor<float, I[0:3]>, y: tensor<float, I[0:3]>) {{ z ← {expression}; }}")
    y = np.array([-0.0, 0.0, 1.0])
    for found in (ti.compile(program, numerics="exact")(y=y)["z"], ti.reference.run(program, y=y)["z"]):
        assert np.signbit(found).tolist() == [ZEROS[expression], False, False]
