"""What XLA computes for each elementwise builtin: one `lax` operation, or the shortest composition of them.

`SCALAR[name](*arrays)` takes arrays of one shape. Arithmetic is XLA's (`docs/language.md`, "Arithmetic"); where XLA has
no such operation, the row says how it is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.gradients.safe_derivatives import over, smooth, times
from lowering.quotients import floored
from tensorir.ir.types import DTYPES, Scalar

__all__ = ["FINITE", "SCALAR", "bitcast", "convert"]

Array = jax.Array


def _is_integer(x: Array) -> bool:
    return x.dtype.kind in "iu"


def _is_signed(x: Array) -> bool:
    return x.dtype.kind == "i"


def _where(condition: Array, a: Array, b: Array) -> Array:
    return lax.select(condition, a, b)


def _constant(x: Array, value: Any) -> Array:
    return lax.full_like(x, value)


def _signs_differ(r: Array, y: Array) -> Array:
    """Whether a remainder must be moved to the side of the divisor."""
    zero = _constant(r, 0)
    return lax.bitwise_and(lax.ne(r, zero), lax.ne(lax.lt(r, zero), lax.lt(y, zero)))


def _divisor(x: Array, y: Array) -> tuple[Array, Array]:
    """Where integers are divided by 0, and a divisor with which nothing can go wrong.

    XLA says what x / 0 and the least integer / -1 are, but folding constants it divides, and the process dies.
    """
    zero = lax.eq(y, _constant(y, 0))
    wrong = zero
    if _is_signed(x):
        least = _constant(x, -(1 << (8 * x.dtype.itemsize - 1)))
        wrong = lax.bitwise_or(zero, lax.bitwise_and(lax.eq(x, least), lax.eq(y, _constant(y, -1))))
    return zero, _where(wrong, _constant(y, 1), y)


def _product(x: Array, y: Array) -> Array:
    """XLA takes a square for positive, and divides it as such, though whole numbers wrap around."""
    if _is_integer(x) or x.dtype == bool:
        return lax.neg(lax.mul(x, lax.neg(x))) if x is y and _is_signed(x) else lax.mul(x, y)
    return _times(x, y)


_times = smooth(lax.mul, lambda t, x, y: times(t, y), lambda t, x, y: times(t, x))


def _chosen(t: Array, x: Array, other: Array, better: Callable[..., Array]) -> Array:
    """The tangent of the operand that is the extreme, and half of it where both are; others may not be finite."""
    half = lax.select(lax.eq(x, other), lax.mul(t, _constant(t, 0.5)), _constant(t, 0))
    return lax.select(better(x, other), t, half)


_smaller_float = smooth(
    lax.min, lambda t, x, y: _chosen(t, x, y, lax.lt), lambda t, x, y: _chosen(t, y, x, lax.lt)
)  # fmt: skip
_larger_float = smooth(
    lax.max, lambda t, x, y: _chosen(t, x, y, lax.gt), lambda t, x, y: _chosen(t, y, x, lax.gt)
)  # fmt: skip


def _smaller(x: Array, y: Array) -> Array:
    return lax.min(x, y) if _is_integer(x) or x.dtype == bool else _smaller_float(x, y)


def _larger(x: Array, y: Array) -> Array:
    return lax.max(x, y) if _is_integer(x) or x.dtype == bool else _larger_float(x, y)


def _leading_zeros(x: Array) -> Array:
    """Of the bits without a sign: of negative constants XLA counts less than nothing."""
    unsigned = f"u{x.dtype.name.removeprefix('u')}"
    return lax.convert_element_type(lax.clz(lax.bitcast_convert_type(x, unsigned)), x.dtype)


def _divides(x: Array, y: Array) -> Array:
    if not _is_integer(x):
        return _over(x, y)
    zero, divisor = _divisor(x, y)
    return _where(zero, lax.bitwise_not(_constant(x, 0)), lax.div(x, divisor))


_over = smooth(lax.div, lambda t, x, y: over(t, y), lambda t, x, y: lax.neg(times(t, _over(_over(x, y), y))))


def _rem(x: Array, y: Array) -> Array:
    if not _is_integer(x):
        return smooth(lax.rem)(x, y)
    zero, divisor = _divisor(x, y)
    return _where(zero, x, lax.rem(x, divisor))


def _mod(x: Array, y: Array) -> Array:
    r = _rem(x, y)
    moved = _where(_signs_differ(r, y), lax.add(r, y), r)
    return _where(lax.eq(y, _constant(y, 0)), x, moved) if _is_integer(x) else moved


def _floordiv(x: Array, y: Array) -> Array:
    if not _is_integer(x):
        return _in_float32(floored)(x, y)
    q = _divides(x, y)
    lower = _where(_signs_differ(_rem(x, y), y), lax.sub(q, _constant(q, 1)), q)
    return _where(lax.eq(y, _constant(y, 0)), q, lower)


def _in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function computed in float32 for floats of 16 bits and less, and rounded once."""

    def compute(*xs: Array) -> Array:
        dtype = xs[0].dtype
        if dtype.itemsize > 2:
            return function(*xs)
        return lax.convert_element_type(function(*[lax.convert_element_type(x, "float32") for x in xs]), dtype)

    return compute


def _trunc(x: Array) -> Array:
    return _where(lax.lt(x, _constant(x, 0)), lax.ceil(x), lax.floor(x))


def _shift_right(x: Array, y: Array) -> Array:
    return lax.shift_right_arithmetic(x, y) if _is_signed(x) else lax.shift_right_logical(x, y)


def _abs(x: Array) -> Array:
    if not _is_integer(x):
        return smooth(lax.abs)(x)
    # XLA takes a magnitude for positive, and that of the least whole number is not
    return _where(lax.lt(x, _constant(x, 0)), lax.neg(x), x) if _is_signed(x) else x


def _sign(x: Array) -> Array:
    return lax.sign(x)


def _exp2(x: Array) -> Array:
    # lax.exp2 rounds x log 2 before the exponential: an error that grows with x
    return lax.pow(_constant(x, 2), x)


def _large_exponential(a: Array) -> Array:
    """exp(a) / 2 without overflow: lax takes exp(a - log 2), an error that grows with a."""
    root = lax.exp(lax.mul(a, _constant(a, 0.5)))
    return lax.mul(lax.mul(root, _constant(a, 0.5)), root)


def _cosh(x: Array) -> Array:
    a = lax.abs(x)
    return lax.add(_large_exponential(a), lax.mul(lax.exp(lax.neg(a)), _constant(x, 0.5)))


def _sinh(x: Array) -> Array:
    a, half = lax.abs(x), _constant(x, 0.5)
    e = lax.expm1(a)
    small = lax.mul(half, lax.add(e, lax.div(e, lax.add(e, _constant(x, 1)))))
    large = lax.sub(_large_exponential(a), lax.mul(lax.exp(lax.neg(a)), half))
    magnitude = _where(lax.lt(a, _constant(x, 1)), small, large)
    return _where(lax.lt(x, _constant(x, 0)), lax.neg(magnitude), _where(lax.eq(x, _constant(x, 0)), x, magnitude))


def _arctanh(x: Array) -> Array:
    # half of log1p(2x / (1 - x)): lax.atanh loses digits around 0.4 in float64
    half, one = _constant(x, 0.5), _constant(x, 1)
    a = lax.abs(x)
    magnitude = lax.mul(half, lax.log1p(lax.div(lax.add(a, a), lax.sub(one, a))))
    return _where(lax.lt(x, _constant(x, 0)), lax.neg(magnitude), _where(lax.eq(x, _constant(x, 0)), x, magnitude))


def _log1p(x: Array) -> Array:
    if x.dtype.itemsize < 8:
        return lax.log1p(x)
    # in float64 XLA's is up to 60 units off around -0.4; what 1 + x rounds away is put back by the quotient
    u = lax.add(x, _constant(x, 1))
    exact = lax.eq(u, _constant(x, 1))
    above = lax.sub(_where(exact, _constant(x, 2), u), _constant(x, 1))
    found = lax.mul(lax.log(u), lax.div(x, above))
    return _where(exact, x, _where(lax.is_finite(u), found, lax.log(u)))


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
    "exp2": _exp2,
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
    "sign": _sign,
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
    "shift_right": _shift_right,
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
    "trunc": _trunc,
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
    """cast: `lax.convert_element_type`, which saturates floats to integers and gives 0 for NaN."""

    def converted(x: Array) -> Array:
        # XLA makes of a × convert(c) a selection of a or 0, which forgets NaN, infinities and signs of a × 0
        if x.dtype == bool and element.is_float:
            return lax.select(x, *(lax.full_like(x, v, DTYPES[element]) for v in (1, 0)))
        if element.is_float and element.bits <= 16 and x.dtype.kind in "iu" and x.dtype.itemsize > 1:
            x = _as_float64(x)
        if element.is_float and element.bits <= 16 and x.dtype == np.float64:
            return _narrowed(x, DTYPES[element])
        return lax.convert_element_type(x, DTYPES[element])

    return converted


def _as_float64(x: Array) -> Array:
    """Integers as float64; what has too many bits is rounded to the odd one of two multiples of 2¹²."""
    if x.dtype.itemsize == 8:
        rest = lax.bitwise_and(x, _constant(x, 0xFFF))
        odd = lax.bitwise_or(lax.sub(x, rest), _where(lax.eq(rest, _constant(x, 0)), rest, _constant(x, 0x1000)))
        limit = _constant(x, 1 << 53)
        many = lax.gt(x, limit)
        x = _where(lax.bitwise_or(many, lax.lt(x, lax.neg(limit))) if _is_signed(x) else many, odd, x)
    return lax.convert_element_type(x, "float64")


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _narrowed(x: Array, dtype: np.dtype[Any]) -> Array:
    """float64 rounded once: XLA rounds to float32 on the way, which here is to the odd neighbour."""
    near = lax.convert_element_type(x, "float32")
    back = lax.convert_element_type(near, "float64")
    bits = lax.bitcast_convert_type(near, "int32")
    one = _constant(bits, 1)
    beyond = lax.gt(lax.abs(back), lax.abs(x))
    odd = lax.bitwise_or(_where(beyond, lax.sub(bits, one), bits), one)
    exact = lax.bitwise_or(lax.eq(back, x), lax.ne(x, x))
    return lax.convert_element_type(lax.bitcast_convert_type(_where(exact, bits, odd), "float32"), dtype)


@_narrowed.defjvp
def _narrowed_jvp(dtype: np.dtype[Any], primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return _narrowed(*primals, dtype), lax.convert_element_type(*tangents, dtype)


def bitcast(element: Scalar) -> Callable[[Array], Array]:
    return lambda x: lax.bitcast_convert_type(x, DTYPES[element])
