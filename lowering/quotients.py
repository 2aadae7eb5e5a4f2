"""The floor of a quotient of floats, rounded once: floor(x / y) of the real quotient, not of the rounded one.

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

from typing import Any

import jax
import numpy as np
from jax import lax

__all__ = ["floored"]

Array = jax.Array


def floored(x: Array, y: Array) -> Array:
    """floor(x / y) of float32 or float64, correctly rounded; infinities, NaN and y = 0 as `lax.floor(x / y)`."""
    x, y = lax.stop_gradient(x), lax.stop_gradient(y)
    quotient = lax.div(x, y)
    negative = lax.lt(lax.mul(_sign(x), _sign(y)), _full(x, 0))
    magnitude = _rounded(x, y, negative)
    signed = lax.select(negative, lax.neg(magnitude), magnitude)
    # of a finite number by an infinite one: above -1 where the signs differ
    small = lax.select(lax.bitwise_and(negative, lax.ne(x, _full(x, 0))), _full(x, -1), lax.floor(quotient))
    beside = lax.select(lax.is_finite(x), lax.select(lax.ne(y, _full(y, 0)), small, quotient), lax.floor(quotient))
    both = lax.bitwise_and(lax.is_finite(x), lax.is_finite(y))
    usual = lax.bitwise_and(both, lax.bitwise_and(lax.ne(x, _full(x, 0)), lax.ne(y, _full(y, 0))))
    return lax.select(usual, signed, lax.select(lax.ne(y, y), quotient, beside))


def _rounded(x: Array, y: Array, up: Array) -> Array:
    """|x / y| to a whole number, downwards or `up`, rounded to nearest even; x and y finite and not 0."""
    info = np.finfo(x.dtype)
    digits, width = info.nmant + 1, 8 * x.dtype.itemsize
    (mx, ex), (my, ey) = _parts(x), _parts(y)
    below = lax.lt(mx, my)
    one, zero = _full(mx, 1), _full(mx, 0)

    # mx × 2^(digits or digits + 1) = Q × my + R, and Q has one bit more than a significand
    near = lax.div(lax.convert_element_type(mx, x.dtype), lax.convert_element_type(my, x.dtype))
    scale = lax.select(below, _full(x, 2.0 ** (digits + 1)), _full(x, 2.0**digits))
    q = lax.convert_element_type(lax.mul(near, scale), mx.dtype)
    shift = lax.select(below, _full(mx, digits + 1), _full(mx, digits))
    r = lax.sub(lax.shift_left(mx, shift), lax.mul(q, my))
    for _ in range(2):  # the float quotient is at most two off
        low, high = _is_negative(r), _full(r, 0)
        high = lax.bitwise_and(lax.bitwise_not(low), lax.ge(r, my))
        q = lax.select(low, lax.sub(q, one), lax.select(high, lax.add(q, one), q))
        r = lax.select(low, lax.add(r, my), lax.select(high, lax.sub(r, my), r))

    # |x / y| = (Q + R / my) × 2^c
    c = lax.sub(lax.sub(ex, ey), lax.convert_element_type(shift, ex.dtype))
    some = lax.gt(r, zero)

    # c < 0: the whole part has at most as many bits as a significand
    cut = lax.convert_element_type(lax.clamp(_full(c, 0), lax.neg(c), _full(c, width - 1)), mx.dtype)
    whole = lax.shift_right_logical(q, cut)
    rest = lax.bitwise_or(lax.ne(lax.shift_left(whole, cut), q), some)
    whole = lax.select(lax.bitwise_and(up, rest), lax.add(whole, one), whole)
    small = lax.convert_element_type(whole, x.dtype)

    # c ≥ 0: the last bit of Q, and what the whole number has below it, say how it rounds
    by = lax.convert_element_type(lax.clamp(_full(c, 0), c, _full(c, width - 1)), mx.dtype)
    limit = lax.shift_right_logical(lax.sub(my, one), by)  # a × 2^c < my where a ≤ limit
    odd = lax.ne(lax.bitwise_and(q, one), zero)
    no_more = lax.select(up, lax.bitwise_not(some), lax.le(r, limit))
    nearly = lax.bitwise_and(up, lax.bitwise_and(some, lax.le(lax.sub(my, r), limit)))
    tie = lax.bitwise_or(lax.bitwise_and(odd, no_more), lax.bitwise_and(lax.bitwise_not(odd), nearly))
    above = lax.bitwise_and(odd, lax.bitwise_not(no_more))
    half = lax.shift_right_logical(q, one)
    even = lax.eq(lax.bitwise_and(half, one), zero)
    more = lax.bitwise_or(above, lax.bitwise_and(tie, lax.bitwise_not(even)))
    significand = lax.convert_element_type(lax.select(more, lax.add(half, one), half), x.dtype)
    exponent = lax.add(c, _full(c, 1))
    first = lax.clamp(_full(c, 0), exponent, _full(c, info.maxexp - 1))
    second = lax.clamp(_full(c, 0), lax.sub(exponent, first), _full(c, info.maxexp - 1))
    large = lax.mul(lax.mul(significand, _power_of_two(first, x.dtype)), _power_of_two(second, x.dtype))
    return lax.select(lax.lt(c, _full(c, 0)), small, large)


def _parts(x: Array) -> tuple[Array, Array]:
    """The significand of |x| as an integer with its leading bit set, and the exponent of its last bit.

    Bits alone: hardware that takes subnormal numbers for 0 does not matter.
    """
    info = np.finfo(x.dtype)
    width = 8 * x.dtype.itemsize
    bits = lax.bitcast_convert_type(x, f"uint{width}")
    field = lax.bitwise_and(lax.shift_right_logical(bits, _full(bits, info.nmant)), _full(bits, 2**info.nexp - 1))
    fraction = lax.bitwise_and(bits, _full(bits, 2**info.nmant - 1))
    normal = lax.ne(field, _full(bits, 0))
    missing = lax.sub(lax.clz(fraction), _full(bits, width - info.nmant - 1))
    m = lax.select(normal, lax.bitwise_or(fraction, _full(bits, 2**info.nmant)), lax.shift_left(fraction, missing))
    raised = lax.select(normal, field, lax.sub(_full(bits, 1), missing))
    exponent = lax.bitcast_convert_type(raised, f"int{width}")
    return m, lax.sub(exponent, _full(exponent, info.maxexp - 1 + info.nmant))


def _power_of_two(exponent: Array, dtype: Any) -> Array:
    info = np.finfo(dtype)
    field = lax.add(exponent, _full(exponent, info.maxexp - 1))
    return lax.bitcast_convert_type(lax.shift_left(field, _full(field, info.nmant)), dtype)


def _is_negative(r: Array) -> Array:
    signed = lax.bitcast_convert_type(r, r.dtype.name.removeprefix("u"))
    return lax.lt(signed, _full(signed, 0))


def _sign(x: Array) -> Array:
    return lax.select(lax.lt(x, _full(x, 0)), _full(x, -1), _full(x, 1))


def _full(x: Array, value: Any) -> Array:
    return lax.full_like(x, value)
