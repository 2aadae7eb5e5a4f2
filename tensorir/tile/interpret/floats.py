"""Floats, element by element: sums, products, quotients and roots rounded once in the mode that is asked for.

Narrow formats are computed in float64 with the sign of the error, made odd and rounded (`rounding`); float64 itself is
corrected by the sign of its error, and where exponents leave no room for that, computed in rationals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.tile.elements import Element
from tensorir.tile.interpret.exact import exactly
from tensorir.tile.interpret.rounding import Array, flush, round_to, to_odd

__all__ = ["add", "apply", "divide", "fma", "larger", "multiply", "remainder", "root", "smaller", "subtract", "through"]

_SAFE = 300
"""Exponents within which float64 operations and their errors neither overflow nor underflow."""


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    return _two_sum(a, b)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    return _two_product(a, b)


def _quotient(a: Array, b: Array) -> tuple[Array, Array]:
    quotient = a / b
    product, error = _two_product(quotient, b)
    return quotient, ((a - product) - error) * np.sign(b)


def _root(a: Array) -> tuple[Array, Array]:
    root = np.sqrt(a)
    product, error = _two_product(root, root)
    return root, (a - product) - error


def _fused(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Product and sum, as the nearest float64 and the sign of its error: the three parts, the small ones made odd."""
    high, low = _two_product(a, b)
    small, rest = _two_sum(c, low)
    total, error = _two_sum(high, small)
    tail, lost = _two_sum(rest, error)
    odd = to_odd(tail, lost)
    value = total + odd
    return value, _two_sum(total, odd)[1]


def _rounded(
    name: str, parts: Callable[..., tuple[Array, Array]], native: Callable[..., Array] | None, element: Element,
    mode: str, ftz: bool, operands: tuple[Array, ...],
) -> Array:  # fmt: skip
    with np.errstate(all="ignore"):
        if ftz:
            operands = tuple(flush(x, element) for x in operands)
        if mode == "nearest_even" and native is not None:
            result = native(*operands)
        elif element.name == "f64":
            result = _double(name, parts, mode, operands)
        else:
            wide = tuple(x.astype(np.float64) for x in operands)
            value, error = parts(*wide)
            if mode == "negative_inf" and name in ("add", "fma"):
                value = _zeros_below(value, wide)
            result = round_to(to_odd(value, np.where(np.isnan(error), 0.0, error)), element, mode)
        return flush(result, element) if ftz else result


def _zeros_below(value: Array, operands: tuple[Array, ...]) -> Array:
    """Sums that are zero, rounded towards minus infinity: negative unless both terms are positive zeros."""
    terms = operands if len(operands) == 2 else (operands[0] * operands[1], operands[2])
    return np.where((value == 0) & (np.signbit(terms[0]) | np.signbit(terms[1])), -0.0, value)


def _double(name: str, parts: Callable[..., tuple[Array, Array]], mode: str, operands: tuple[Array, ...]) -> Array:
    """Float64, in any mode."""
    operands = tuple(np.broadcast_arrays(*operands))
    value, error = (np.asarray(x) for x in parts(*operands))
    error = np.where(np.isnan(error), 0.0, error)
    up, down = np.nextafter(value, np.inf), np.nextafter(value, -np.inf)
    match mode:
        case "positive_inf":
            result = np.where(error > 0, up, value)
        case "negative_inf":
            result = np.where(error < 0, down, value)
        case "zero":
            result = np.where((value > 0) & (error < 0), down, np.where((value < 0) & (error > 0), up, value))
        case _:
            result = value
    risky = np.zeros(value.shape, bool)
    for x in (*operands, value):
        _, exponent = np.frexp(x)
        risky |= np.isfinite(x) & (x != 0) & (np.abs(exponent) > _SAFE)
    finite = np.logical_and.reduce([np.isfinite(x) for x in operands])
    # an exact zero from operands that are none, and what overflowed, is decided by the rationals too
    risky = finite & (risky | ~np.isfinite(value) | (value == 0))
    if risky.any():
        result = np.array(result)
        for index in zip(*np.nonzero(risky), strict=True) if risky.ndim else [()]:
            result[index] = exactly(name, mode, *(float(x[index]) for x in operands))
    return result


def add(a: Array, b: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    """Sum, rounded in a mode; `ftz` flushes subnormal operands and results.

    >>> import numpy as np
    >>> from tensorir.tile.elements import ELEMENTS
    >>> one, tiny = np.float32([1.0]), np.float32([1e-20])
    >>> float(add(one, tiny, ELEMENTS["f32"], "positive_inf")[0])
    1.0000001192092896
    """
    return _rounded("add", _sum, np.add, element, mode, ftz, (a, b))


def subtract(a: Array, b: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    return _rounded("add", _sum, np.add, element, mode, ftz, (a, -b))


def multiply(a: Array, b: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    return _rounded("multiply", _product, np.multiply, element, mode, ftz, (a, b))


def divide(a: Array, b: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    mode = "nearest_even" if mode in ("approx", "full") else mode
    return _rounded("divide", _quotient, np.divide, element, mode, ftz, (a, b))


def root(a: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    mode = "nearest_even" if mode == "approx" else mode
    return _rounded("root", _root, np.sqrt, element, mode, ftz, (a,))


def fma(a: Array, b: Array, c: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    if element.name == "f64":
        return _rounded("fma", _fused, None, element, mode, ftz, (a, b, c))

    def exact(x: Array, y: Array, z: Array) -> tuple[Array, Array]:
        return _two_sum(x * y, z)  # the product of narrow floats is exact in float64

    return _rounded("fma", exact, None, element, mode, ftz, (a, b, c))


def _extreme(a: Array, b: Array, element: Element, propagate: bool, ftz: bool, larger: bool) -> Array:
    with np.errstate(all="ignore"):
        if ftz:
            a, b = flush(a, element), flush(b, element)
        first = (a > b) if larger else (a < b)
        # of two zeros the positive one is larger
        first |= (a == b) & (np.signbit(b) if larger else np.signbit(a))
        chosen = np.where(first, a, b)
        no_a, no_b = np.isnan(a), np.isnan(b)
        if propagate:
            return np.where(no_a | no_b, np.array(np.nan, a.dtype), chosen)
        return np.where(no_a, np.where(no_b, np.array(np.nan, a.dtype), b), np.where(no_b, a, chosen))


def larger(a: Array, b: Array, element: Element, propagate: bool = False, ftz: bool = False) -> Array:
    """The larger; of a number and NaN the number, or NaN where it propagates; +0 is larger than -0."""
    return _extreme(a, b, element, propagate, ftz, True)


def smaller(a: Array, b: Array, element: Element, propagate: bool = False, ftz: bool = False) -> Array:
    return _extreme(a, b, element, propagate, ftz, False)


def remainder(a: Array, b: Array) -> Array:
    """What the truncated quotient leaves, exactly, with the sign of the dividend."""
    with np.errstate(all="ignore"):
        if a.dtype.itemsize < 4:
            return np.fmod(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
        return np.fmod(a, b)


def through(element: Element, function: Any, *operands: Array) -> Array:
    """A function of mathematics: of float64 as it is, of narrower floats in float64, through float32 to 16 bits."""
    with np.errstate(all="ignore"):
        value = np.asarray(function(*(x.astype(np.float64) for x in operands)))
        if element.name == "f64":
            return value
        return value.astype(np.float32).astype(element.numpy)


def apply(element: Element, function: Any, a: Array, ftz: bool = False) -> Array:
    """A function of one operand, with subnormal numbers flushed where that is asked for."""
    if ftz:
        return flush(through(element, function, flush(a, element)), element)
    return through(element, function, a)
