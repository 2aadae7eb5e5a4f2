"""Elementwise builtins in XLA: rounded quotients, exact rounding, one operation for most.

Arithmetic that is rounded where the program says so: with `numerics="exact"`, and on the way to a whole number.

XLA contracts x × y + z to one rounding, multiplies by 1/c where the program divides by c, and joins the constants of
(x × c) × d; no option of a program stops it (JAX 0.10.2). `AS_WRITTEN` has the operations that it leaves as they are:
a product is selected by its own bits, which no contraction looks through, and what stands behind a barrier is not
rewritten together with what it is used in. The values are those of the plain operations.

What leads to a whole number is computed as it is written in every program (`tensorir.analysis.annotations`).

>>> x = jax.numpy.float32(1.1)
>>> square = lax.mul(x, x)
>>> float(jax.jit(lambda x, y: lax.sub(AS_WRITTEN["multiplies"](x, x), y))(x, square))  # 1.4e-08 where it is contracted
0.0

The floor of a quotient of floats, rounded once: floor(x / y) of the real quotient, not of the rounded one.

A rounded quotient does not tell its floor: 1.0 / 0.1 rounds up to 10.0, the real quotient is below it; and of quotients
from 2⁵³ on, where floats lie further apart than 1, the floor may be a tie that the quotient itself is not. So the
significands are divided as integers. The float quotient gives the leading bits Q, an integer product that wraps gives
the remainder R exactly, since it is small; Q, R and the exponent say what the floor is and how it rounds. No float is
added to a product on the way, so nothing can be contracted.

>>> with jax.enable_x64(True):
...     print(floored(jax.numpy.float64(1.0), jax.numpy.float64(0.1)))
9.0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.gradients.safe_slopes import over, smooth, times
from tensorir.ir.types import DTYPES, Scalar

Binary = Callable[[jax.Array, jax.Array], jax.Array]


def _multiplied_exactly(x: jax.Array, y: jax.Array) -> jax.Array:
    """x × y rounded by itself: a select by the product's own bits, which are never a signalling NaN, stops any
    contraction.
    """
    product = lax.mul(x, y)
    if x.dtype.itemsize == 1:
        return product
    # it is never a NaN that signals, and no compiler knows that
    info = jax.numpy.finfo(product.dtype)
    signals = (2**info.nexp - 1 << info.nmant) + 1
    bits = lax.bitcast_convert_type(product, np.dtype(f"u{product.dtype.itemsize}"))
    return lax.select(lax.ne(bits, lax.full_like(bits, signals)), product, lax.full_like(product, 0))


def _divided_exactly(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.optimization_barrier(lax.div(x, lax.optimization_barrier(y)))


def _isolated(operation: Binary) -> Binary:
    """The operation between barriers, which keep XLA from simplifying it together with its operands or uses."""
    # XLA takes x + 0 for x, which it is not where x is -0
    return lambda x, y: lax.optimization_barrier(operation(*lax.optimization_barrier((x, y))))


_sum = _isolated(lax.add)


def _added_exactly(x: jax.Array, y: jax.Array) -> jax.Array:
    """The sum; of one element XLA's CPU emitter takes x + 0 for x, too, unless the second operand is no constant."""
    return _sum(x, lax.select(lax.ne(x, x), x, y) if x.size == 1 else y)


_plus = smooth(_added_exactly, lambda t, x, y: t, lambda t, x, y: t)
_times_rounded = smooth(_multiplied_exactly, lambda t, x, y: times(t, y), lambda t, x, y: times(t, x))
_over_rounded = smooth(
    _divided_exactly,
    lambda t, x, y: over(t, y),
    lambda t, x, y: lax.neg(times(t, _over_rounded(_over_rounded(x, y), y))),
)

AS_WRITTEN: dict[str, Binary] = {
    "plus": lambda x, y: _plus(x, y) if x.size == 1 else _sum(x, y),
    "minus": _isolated(lax.sub),
    "multiplies": _times_rounded,
    "divides": _over_rounded,
}
"""The operations of floats that round, by builtin."""

FINITE_AS_WRITTEN: dict[str, Binary] = {**AS_WRITTEN, "multiplies": _multiplied_exactly, "divides": _divided_exactly}
"""The same where derivatives are finite in any case."""

Array = jax.Array


def floored(x: Array, y: Array) -> Array:
    """floor(x / y) of float32 or float64, correctly rounded; infinities, NaN and y = 0 as `lax.floor(x / y)`."""
    x, y = lax.stop_gradient(x), lax.stop_gradient(y)
    quotient = lax.div(x, y)
    signs = [lax.select(lax.lt(v, _full(v, 0)), _full(v, -1), _full(v, 1)) for v in (x, y)]
    negative = lax.lt(lax.mul(*signs), _full(x, 0))
    magnitude = _rounded_quotient(x, y, negative)
    signed = lax.select(negative, lax.neg(magnitude), magnitude)
    # of a finite number by an infinite one: above -1 where the signs differ
    floor_by_infinity = lax.select(lax.bitwise_and(negative, lax.ne(x, _full(x, 0))), _full(x, -1), lax.floor(quotient))
    special_case = lax.select(
        lax.is_finite(x), lax.select(lax.ne(y, _full(y, 0)), floor_by_infinity, quotient), lax.floor(quotient)
    )
    both_finite = lax.bitwise_and(lax.is_finite(x), lax.is_finite(y))
    is_regular = lax.bitwise_and(both_finite, lax.bitwise_and(lax.ne(x, _full(x, 0)), lax.ne(y, _full(y, 0))))
    return lax.select(is_regular, signed, lax.select(lax.ne(y, y), quotient, special_case))


def _rounded_quotient(x: Array, y: Array, up: Array) -> Array:
    """|x / y| rounded to an integer, towards zero or away from it (`up`), and to a float by nearest even; x and y
    finite, not 0.
    """
    info = np.finfo(x.dtype)
    digits, width = info.nmant + 1, 8 * x.dtype.itemsize
    (mx, ex), (my, ey) = _significand_and_exponent(x), _significand_and_exponent(y)
    below = lax.lt(mx, my)
    one, zero = _full(mx, 1), _full(mx, 0)

    # mx × 2^(digits or digits + 1) = Q × my + R, and Q has one bit more than a significand
    float_quotient = lax.div(lax.convert_element_type(mx, x.dtype), lax.convert_element_type(my, x.dtype))
    scale = lax.select(below, _full(x, 2.0 ** (digits + 1)), _full(x, 2.0**digits))
    q = lax.convert_element_type(lax.mul(float_quotient, scale), mx.dtype)
    shift = lax.select(below, _full(mx, digits + 1), _full(mx, digits))
    r = lax.sub(lax.shift_left(mx, shift), lax.mul(q, my))
    for _ in range(2):  # the float quotient is at most two off
        signed = lax.bitcast_convert_type(r, r.dtype.name.removeprefix("u"))
        low = lax.lt(signed, _full(signed, 0))
        high = lax.bitwise_and(lax.bitwise_not(low), lax.ge(r, my))
        q = lax.select(low, lax.sub(q, one), lax.select(high, lax.add(q, one), q))
        r = lax.select(low, lax.add(r, my), lax.select(high, lax.sub(r, my), r))

    # |x / y| = (Q + R / my) × 2^c
    c = lax.sub(lax.sub(ex, ey), lax.convert_element_type(shift, ex.dtype))
    has_remainder = lax.gt(r, zero)

    # c < 0: the whole part has at most as many bits as a significand
    right_shift = lax.convert_element_type(lax.clamp(_full(c, 0), lax.neg(c), _full(c, width - 1)), mx.dtype)
    integer = lax.shift_right_logical(q, right_shift)
    has_fraction = lax.bitwise_or(lax.ne(lax.shift_left(integer, right_shift), q), has_remainder)
    integer = lax.select(lax.bitwise_and(up, has_fraction), lax.add(integer, one), integer)
    small = lax.convert_element_type(integer, x.dtype)

    # c ≥ 0: the last bit of Q, and what the whole number has below it, say how it rounds
    left_shift = lax.convert_element_type(lax.clamp(_full(c, 0), c, _full(c, width - 1)), mx.dtype)
    limit = lax.shift_right_logical(lax.sub(my, one), left_shift)  # a × 2^c < my where a ≤ limit
    is_odd = lax.ne(lax.bitwise_and(q, one), zero)
    remainder_is_dropped = lax.select(up, lax.bitwise_not(has_remainder), lax.le(r, limit))
    remainder_rounds_to_one = lax.bitwise_and(up, lax.bitwise_and(has_remainder, lax.le(lax.sub(my, r), limit)))
    is_tie = lax.bitwise_or(
        lax.bitwise_and(is_odd, remainder_is_dropped), lax.bitwise_and(lax.bitwise_not(is_odd), remainder_rounds_to_one)
    )
    is_above_tie = lax.bitwise_and(is_odd, lax.bitwise_not(remainder_is_dropped))
    half = lax.shift_right_logical(q, one)
    even = lax.eq(lax.bitwise_and(half, one), zero)
    rounds_up = lax.bitwise_or(is_above_tie, lax.bitwise_and(is_tie, lax.bitwise_not(even)))
    significand = lax.convert_element_type(lax.select(rounds_up, lax.add(half, one), half), x.dtype)
    exponent = lax.add(c, _full(c, 1))
    first_exponent = lax.clamp(_full(c, 0), exponent, _full(c, info.maxexp - 1))
    second_exponent = lax.clamp(_full(c, 0), lax.sub(exponent, first_exponent), _full(c, info.maxexp - 1))
    large = lax.mul(
        lax.mul(significand, _power_of_two(first_exponent, x.dtype)), _power_of_two(second_exponent, x.dtype)
    )
    return lax.select(lax.lt(c, _full(c, 0)), small, large)


def _significand_and_exponent(x: Array) -> tuple[Array, Array]:
    """The significand of |x| as an integer with its leading bit set, and the exponent of its last bit.

    Uses bits alone: hardware that flushes subnormal numbers to 0 does not matter.
    """
    info = np.finfo(x.dtype)
    width = 8 * x.dtype.itemsize
    bits = lax.bitcast_convert_type(x, f"uint{width}")
    field = lax.bitwise_and(lax.shift_right_logical(bits, _full(bits, info.nmant)), _full(bits, 2**info.nexp - 1))
    fraction = lax.bitwise_and(bits, _full(bits, 2**info.nmant - 1))
    normal = lax.ne(field, _full(bits, 0))
    leading_shift = lax.sub(lax.clz(fraction), _full(bits, width - info.nmant - 1))
    m = lax.select(
        normal, lax.bitwise_or(fraction, _full(bits, 2**info.nmant)), lax.shift_left(fraction, leading_shift)
    )
    biased_exponent = lax.select(normal, field, lax.sub(_full(bits, 1), leading_shift))
    exponent = lax.bitcast_convert_type(biased_exponent, f"int{width}")
    return m, lax.sub(exponent, _full(exponent, info.maxexp - 1 + info.nmant))


def _power_of_two(exponent: Array, dtype: Any) -> Array:
    info = np.finfo(dtype)
    field = lax.add(exponent, _full(exponent, info.maxexp - 1))
    return lax.bitcast_convert_type(lax.shift_left(field, _full(field, info.nmant)), dtype)


def _full(x: Array, value: Any) -> Array:
    return lax.full_like(x, value)


# What XLA computes for each elementwise builtin: one `lax` operation, or the shortest composition of them.
#
# `SCALAR[name](*arrays)` takes arrays of one shape. Arithmetic is XLA's (`docs/language.md`, "Arithmetic"); where XLA
# has no such operation, the row says how it is made.


def _is_integer(x: Array) -> bool:
    return x.dtype.kind in "iu"


def _is_signed(x: Array) -> bool:
    return x.dtype.kind == "i"


def _where(condition: Array, a: Array, b: Array) -> Array:
    return lax.select(condition, a, b)


def _constant(x: Array, value: Any) -> Array:
    return lax.full_like(x, value)


def _signs_differ(r: Array, y: Array) -> Array:
    """True if a nonzero remainder r has not the sign of the divisor y, and floor division must correct it."""
    zero = _constant(r, 0)
    return lax.bitwise_and(lax.ne(r, zero), lax.ne(lax.lt(r, zero), lax.lt(y, zero)))


def _safe_divisor(x: Array, y: Array) -> tuple[Array, Array]:
    """A mask of integer divisions by 0, and the divisor with 1 for each 0, and for -1 where x is the least integer.

    XLA defines both results, but its constant folding divides, and the process dies.
    """
    zero = lax.eq(y, _constant(y, 0))
    is_unsafe = zero
    if _is_signed(x):
        least = _constant(x, -(1 << (8 * x.dtype.itemsize - 1)))
        is_unsafe = lax.bitwise_or(zero, lax.bitwise_and(lax.eq(x, least), lax.eq(y, _constant(y, -1))))
    return zero, _where(is_unsafe, _constant(y, 1), y)


def _product(x: Array, y: Array) -> Array:
    """x × y; the square of a signed integer is written so that XLA does not assume that it is positive, since it may
    wrap.
    """
    if _is_integer(x) or x.dtype == bool:
        return lax.neg(lax.mul(x, lax.neg(x))) if x is y and _is_signed(x) else lax.mul(x, y)
    return _times(x, y)


_times = smooth(lax.mul, lambda t, x, y: times(t, y), lambda t, x, y: times(t, x))


def _extreme_tangent(t: Array, x: Array, other: Array, better: Callable[..., Array]) -> Array:
    """The tangent t of x if it is the extreme by `better`, half of it if both are equal, else 0, also for infinite
    t.
    """
    half = lax.select(lax.eq(x, other), lax.mul(t, _constant(t, 0.5)), _constant(t, 0))
    return lax.select(better(x, other), t, half)


_smaller_float = smooth(
    lax.min, lambda t, x, y: _extreme_tangent(t, x, y, lax.lt), lambda t, x, y: _extreme_tangent(t, y, x, lax.lt)
)  # fmt: skip
_larger_float = smooth(
    lax.max, lambda t, x, y: _extreme_tangent(t, x, y, lax.gt), lambda t, x, y: _extreme_tangent(t, y, x, lax.gt)
)  # fmt: skip


def _smaller(x: Array, y: Array) -> Array:
    return lax.min(x, y) if _is_integer(x) or x.dtype == bool else _smaller_float(x, y)


def _larger(x: Array, y: Array) -> Array:
    return lax.max(x, y) if _is_integer(x) or x.dtype == bool else _larger_float(x, y)


def _leading_zeros(x: Array) -> Array:
    """The leading zero bits; counted on unsigned bits, since XLA counts a negative number for negative constants."""
    unsigned = f"u{x.dtype.name.removeprefix('u')}"
    return lax.convert_element_type(lax.clz(lax.bitcast_convert_type(x, unsigned)), x.dtype)


def _divides(x: Array, y: Array) -> Array:
    """x / y; for integers by 0, all bits set."""
    if not _is_integer(x):
        return _over(x, y)
    zero, divisor = _safe_divisor(x, y)
    return _where(zero, lax.bitwise_not(_constant(x, 0)), lax.div(x, divisor))


_over = smooth(lax.div, lambda t, x, y: over(t, y), lambda t, x, y: lax.neg(times(t, _over(_over(x, y), y))))


def _rem(x: Array, y: Array) -> Array:
    """The remainder with the sign of x; for integers by 0, x."""
    if not _is_integer(x):
        return smooth(lax.rem)(x, y)
    zero, divisor = _safe_divisor(x, y)
    return _where(zero, x, lax.rem(x, divisor))


def _mod(x: Array, y: Array) -> Array:
    """The remainder with the sign of y; for integers by 0, x."""
    r = _rem(x, y)
    moved = _where(_signs_differ(r, y), lax.add(r, y), r)
    return _where(lax.eq(y, _constant(y, 0)), x, moved) if _is_integer(x) else moved


def _floordiv(x: Array, y: Array) -> Array:
    """floor(x / y), rounded once; for integers by 0, the result of `_divides`."""
    if not _is_integer(x):
        return _in_float32(floored)(x, y)
    q = _divides(x, y)
    lower = _where(_signs_differ(_rem(x, y), y), lax.sub(q, _constant(q, 1)), q)
    return _where(lax.eq(y, _constant(y, 0)), q, lower)


def _in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function computed in float32 for floats of 16 bits and less, and rounded once."""

    def compute(*xs: Array) -> Array:
        """The function of floats of 16 bits or less, computed in float32 and rounded once; wider ones directly."""
        dtype = xs[0].dtype
        if dtype.itemsize > 2:
            return function(*xs)
        return lax.convert_element_type(function(*[lax.convert_element_type(x, "float32") for x in xs]), dtype)

    return compute


def _abs(x: Array) -> Array:
    """|x|; of integers a select, since XLA takes the magnitude of the least integer for positive."""
    if not _is_integer(x):
        return smooth(lax.abs)(x)
    # XLA takes a magnitude for positive, and that of the least whole number is not
    return _where(lax.lt(x, _constant(x, 0)), lax.neg(x), x) if _is_signed(x) else x


def _large_exponential(a: Array) -> Array:
    """exp(a) / 2 without overflow: lax takes exp(a - log 2), an error that grows with a."""
    root = lax.exp(lax.mul(a, _constant(a, 0.5)))
    return lax.mul(lax.mul(root, _constant(a, 0.5)), root)


def _cosh(x: Array) -> Array:
    a = lax.abs(x)
    return lax.add(_large_exponential(a), lax.mul(lax.exp(lax.neg(a)), _constant(x, 0.5)))


def _sinh(x: Array) -> Array:
    """sinh(x): by expm1 for |x| < 1, else from exponentials that do not overflow."""
    a, half = lax.abs(x), _constant(x, 0.5)
    e = lax.expm1(a)
    small = lax.mul(half, lax.add(e, lax.div(e, lax.add(e, _constant(x, 1)))))
    large = lax.sub(_large_exponential(a), lax.mul(lax.exp(lax.neg(a)), half))
    magnitude = _where(lax.lt(a, _constant(x, 1)), small, large)
    return _where(lax.lt(x, _constant(x, 0)), lax.neg(magnitude), _where(lax.eq(x, _constant(x, 0)), x, magnitude))


def _arctanh(x: Array) -> Array:
    """arctanh(x) as half of log1p(2x / (1 - x)): lax.atanh loses digits around 0.4 in float64."""
    # half of log1p(2x / (1 - x)): lax.atanh loses digits around 0.4 in float64
    half, one = _constant(x, 0.5), _constant(x, 1)
    a = lax.abs(x)
    magnitude = lax.mul(half, lax.log1p(lax.div(lax.add(a, a), lax.sub(one, a))))
    return _where(lax.lt(x, _constant(x, 0)), lax.neg(magnitude), _where(lax.eq(x, _constant(x, 0)), x, magnitude))


def _log1p(x: Array) -> Array:
    """log(1 + x); in float64 by a correction of the rounded sum, since XLA's is up to 60 ulp off around -0.4."""
    if x.dtype.itemsize < 8:
        return lax.log1p(x)
    # in float64 XLA's is up to 60 units off around -0.4; what 1 + x rounds away is put back by the quotient
    u = lax.add(x, _constant(x, 1))
    exact = lax.eq(u, _constant(x, 1))
    above = lax.sub(_where(exact, _constant(x, 2), u), _constant(x, 1))
    quotient = lax.mul(lax.log(u), lax.div(x, above))
    return _where(exact, x, _where(lax.is_finite(u), quotient, lax.log(u)))


def _log_to(log: Callable[[Array], Array], base: float) -> Callable[[Array], Array]:
    return lambda x: lax.div(log(x), _constant(x, math.log(base)))


_log = smooth(lax.log, over)
_hyperbolic_cosine: Callable[..., Array] = smooth(_cosh, lambda t, x: times(t, _hyperbolic_sine(x)))
_hyperbolic_sine: Callable[..., Array] = smooth(_sinh, lambda t, x: times(t, _hyperbolic_cosine(x)))


_CURVES: dict[str, Callable[..., Array]] = {
    "power": lax.pow,
    "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt,
    "cbrt": lax.cbrt,
    "exp": lax.exp,
    # lax.exp2 rounds x log 2 before the exponential: an error that grows with x
    "exp2": lambda x: lax.pow(_constant(x, 2), x),
    "expm1": lax.expm1,
    "sin": lax.sin,
    "cos": lax.cos,
    "tan": lax.tan,
    "arcsin": lax.asin,
    "arccos": lax.acos,
    "arctan": lax.atan,
    "arctan2": lax.atan2,
    "tanh": lax.tanh,
    "arcsinh": lax.asinh,
    "arccosh": lax.acosh,
    "arctanh": _arctanh,
    "erf": lax.erf,
    "erfc": _in_float32(lax.erfc),
    "lgamma": lax.lgamma,
}
"""Functions of floats alone."""

SCALAR: dict[str, Callable[..., Array]] = {
    "plus": lax.add,
    "minus": lax.sub,
    "multiplies": _product,
    "divides": _divides,
    "floordiv": _floordiv,
    "mod": _mod,
    "rem": _rem,
    "neg": lax.neg,
    "abs": _abs,
    "sign": lax.sign,
    "min": _smaller,
    "max": _larger,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "not": lax.bitwise_not,
    "eq": lax.eq,
    "not_eq": lax.ne,
    "less": lax.lt,
    "less_equal": lax.le,
    "greater": lax.gt,
    "greater_equal": lax.ge,
    "bit_and": lax.bitwise_and,
    "bit_or": lax.bitwise_or,
    "bit_xor": lax.bitwise_xor,
    "bit_not": lax.bitwise_not,
    "shift_left": lax.shift_left,
    "shift_right": lambda x, y: (lax.shift_right_arithmetic if _is_signed(x) else lax.shift_right_logical)(x, y),
    "popcount": lax.population_count,
    "clz": _leading_zeros,
    **{name: smooth(function) for name, function in _CURVES.items()},
    "log": _log,
    "log2": _log_to(_log, 2.0),
    "log10": _log_to(_log, 10.0),
    "log1p": smooth(_log1p, lambda t, x: over(t, lax.add(x, _constant(x, 1)))),
    "sinh": _hyperbolic_sine,
    "cosh": _hyperbolic_cosine,
    "floor": lax.floor,
    "ceil": lax.ceil,
    "trunc": lambda x: _where(lax.lt(x, _constant(x, 0)), lax.ceil(x), lax.floor(x)),
    "round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "isfinite": lax.is_finite,
    "isinf": lambda x: lax.eq(lax.abs(x), _constant(x, math.inf)),
    "isnan": lambda x: lax.ne(x, x),
}

FINITE: dict[str, Callable[..., Array]] = {
    **SCALAR,
    **_CURVES,
    "multiplies": lambda x, y: _product(x, y) if _is_integer(x) else lax.mul(x, y),
    "divides": lambda x, y: _divides(x, y) if _is_integer(x) else lax.div(x, y),
    "abs": lambda x: _abs(x) if _is_integer(x) else lax.abs(x),
    "log": lax.log,
    "log2": _log_to(lax.log, 2.0),
    "log10": _log_to(lax.log, 10.0),
}
"""The same where derivatives are finite, or all that is computed counts (`tensorir.analysis.annotations`)."""


def convert(element: Scalar) -> Callable[[Array], Array]:
    """The conversion of `cast`: `lax.convert_element_type`, which saturates floats to integers and gives 0 for NaN.

    Bools select 0 or 1, and integers or float64 become 16-bit floats with one rounding.
    """

    def converted(x: Array) -> Array:
        """The array in the other element type."""
        # XLA makes of a × convert(c) a selection of a or 0, which forgets NaN, infinities and signs of a × 0
        if x.dtype == bool and element.is_float:
            return lax.select(x, *(lax.full_like(x, v, DTYPES[element]) for v in (1, 0)))
        if element.is_float and element.bits <= 16 and x.dtype.kind in "iu" and x.dtype.itemsize > 1:
            x = _as_float64(x)
        if element.is_float and element.bits <= 16 and x.dtype == np.float64:
            return _rounded_from_float64(x, DTYPES[element])
        return lax.convert_element_type(x, DTYPES[element])

    return converted


def _as_float64(x: Array) -> Array:
    """Integers as float64; those of more than 53 bits are first rounded to odd, so that the next rounding is
    correct.
    """
    if x.dtype.itemsize == 8:
        low_bits = lax.bitwise_and(x, _constant(x, 0xFFF))
        odd = lax.bitwise_or(
            lax.sub(x, low_bits), _where(lax.eq(low_bits, _constant(x, 0)), low_bits, _constant(x, 0x1000))
        )
        limit = _constant(x, 1 << 53)
        is_large = lax.gt(x, limit)
        x = _where(lax.bitwise_or(is_large, lax.lt(x, lax.neg(limit))) if _is_signed(x) else is_large, odd, x)
    return lax.convert_element_type(x, "float64")


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _rounded_from_float64(x: Array, dtype: np.dtype[Any]) -> Array:
    """float64 as a 16-bit float, rounded once: float32, which XLA takes on the way, is rounded to odd."""
    nearest = lax.convert_element_type(x, "float32")
    nearest_as_float64 = lax.convert_element_type(nearest, "float64")
    bits = lax.bitcast_convert_type(nearest, "int32")
    one = _constant(bits, 1)
    is_larger = lax.gt(lax.abs(nearest_as_float64), lax.abs(x))
    odd = lax.bitwise_or(_where(is_larger, lax.sub(bits, one), bits), one)
    exact = lax.bitwise_or(lax.eq(nearest_as_float64, x), lax.ne(x, x))
    return lax.convert_element_type(lax.bitcast_convert_type(_where(exact, bits, odd), "float32"), dtype)


@_rounded_from_float64.defjvp
def _narrowed_jvp(dtype: np.dtype[Any], primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return _rounded_from_float64(*primals, dtype), lax.convert_element_type(*tangents, dtype)


def bitcast(element: Scalar) -> Callable[[Array], Array]:
    return lambda x: lax.bitcast_convert_type(x, DTYPES[element])
