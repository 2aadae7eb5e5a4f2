"""fma in a lifted kernel with exact numerics: rounded once, and with the slope of a product and a sum."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rationals import FORMATS, rounded, same, samples

import tensorir as ti
from tensorir import tile

COUNT = 1024


def kernel(element: str, mode: str, value: str = "fma %xp, %xq, %xr") -> tile.Module:
    view = f"tensor_view<{COUNT}x{element}, strides=[1]>"
    whole = f"partition_view<tile=({COUNT}), {view}>"
    names = ("p", "q", "r", "s")
    views = "\n".join(
        f"%v{n} = make_tensor_view %{n}, shape = [{COUNT}], strides = [1] : {view}\n"
        f"%w{n} = make_partition_view %v{n} : {whole}" for n in names
    )  # fmt: skip
    loads = "\n".join(
        f"%x{n}, %t{n} = load_view_tko weak %w{n}[%i] : {whole}, tile<i32> -> tile<{COUNT}x{element}>, token"
        for n in names[:3]
    )
    return tile.parse(f"""
    entry @fused({", ".join(f"%{n}: tile<ptr<{element}>>" for n in names)}) {{
      {views}
      %i, %j, %k = get_tile_block_id : tile<i32>
      {loads}
      %y = {value} rounding<{mode}> : tile<{COUNT}x{element}>
      %u = store_view_tko weak %y, %ws[%i] : tile<{COUNT}x{element}>, {whole}, tile<i32> -> token
    }}""")


def triples(element: str) -> list[np.ndarray]:
    """Operands at random, near one, and of which the third is nearly the product of the others."""
    dtype = FORMATS[element][3]
    a, b, c = (samples(element, COUNT, seed).astype(np.float64) for seed in range(3))
    with np.errstate(all="ignore"):
        c[::2] = -(a * b)[::2]
        c[1::8] = (a * b)[1::8] * 2.0**-25
        found = [x.astype(dtype) for x in (a, b, c)]
    return [np.resize(x, COUNT) for x in found]


def within(x: float, element: str) -> bool:
    """Whether XLA keeps a number: it takes those that are subnormal for zeros."""
    least = Fraction(2) ** FORMATS[element][1]
    return np.isfinite(x) and (x == 0 or abs(Fraction(x)) >= least)


MODES = ("nearest_even", "negative_inf", "zero")
ROUNDINGS = [(e, m) for e in ("f16", "bf16", "f32") for m in MODES] + [("f64", "nearest_even")]
"""Float64 is rounded to nearest alone, which a lift says."""


@pytest.mark.parametrize(("element", "mode"), ROUNDINGS)
def test_a_fused_sum_is_rounded_once(element, mode):
    given = triples(element)
    p = ti.lift(kernel(element, mode), args=(*given, given[0]), numerics="exact")
    (found,) = p(*given, None)
    wrong, tried, twice = [], 0, 0
    for a, b, c, y in zip(*(x.astype(np.float64).tolist() for x in (*given, np.asarray(found))), strict=True):
        if not all(within(x, element) for x in (a, b, c)):
            continue
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        wanted = rounded(exact, element, mode, mode == "negative_inf")
        if exact == 0 or not within(wanted, element):
            continue
        # where a product of float64 over- or underflows on the way it is rounded twice
        if element == "f64" and not all(x == 0 or 2.0**-400 < abs(x) < 2.0**400 for x in (a, b, c)):
            continue
        tried += 1
        twice += (
            rounded(Fraction(rounded(Fraction(a) * Fraction(b), element, mode)) + Fraction(c), element, mode) != wanted
        )
        if not same(y, wanted):
            wrong.append((a, b, c, y, wanted))
    assert not wrong, (len(wrong), wrong[:3])
    assert tried > 100 and twice > 10


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize("mode", ["negative_inf", "positive_inf", "zero"])
@pytest.mark.parametrize("value", ["addf %xp, %xr", "subf %xp, %xr", "fma %xp, %xq, %xr"])
def test_sums_that_are_zero_have_the_sign_of_their_rounding(value, mode, numerics):
    few = np.meshgrid(*3 * [np.array([-1.0, -0.0, 0.0, 1.0, 2.0], np.float32)])
    given = [np.resize(x.ravel(), COUNT) for x in few]
    module = kernel("f32", mode, value)
    (found,) = ti.lift(module, args=(*given, given[0]), numerics=numerics)(*given, None)
    wanted = tile.interpret(module, "fused", [*given, np.zeros(COUNT, np.float32)])[-1]
    np.testing.assert_array_equal(np.asarray(found), wanted)
    np.testing.assert_array_equal(np.signbit(np.asarray(found)), np.signbit(wanted))


@pytest.mark.parametrize(
    ("element", "mode"), (("f32", "nearest_even"), ("f32", "positive_inf"), ("f64", "nearest_even"))
)
def test_the_slope_is_that_of_a_product_and_a_sum(element, mode):
    dtype = FORMATS[element][3]
    given = [np.random.default_rng(k).standard_normal(COUNT).astype(dtype) for k in range(3)]
    p = ti.lift(kernel(element, mode), args=(*given, given[0]), numerics="exact")
    with jax.enable_x64(True):
        a, b, c = map(jnp.asarray, given)
        slopes = jax.grad(lambda a, b, c: p(a, b, c, None)[0].sum(), (0, 1, 2))(a, b, c)
    for found, wanted in zip(slopes, (given[1], given[0], np.ones(COUNT, dtype)), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-6)


def test_fast_numerics_say_that_they_may_round_twice():
    given = triples("f32")
    module = kernel("f32", "nearest_even")
    said = "fma may be rounded twice"
    assert said in str(ti.lift(module, args=(*given, given[0])).report)
    assert said not in str(ti.lift(module, args=(*given, given[0]), numerics="exact").report)
