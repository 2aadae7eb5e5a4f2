"""Float64 operations in rational arithmetic, one at a time: for exponents at which errors cannot be floats."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["exactly", "round_fraction"]

_SMALLEST = -1074
_LARGEST = (2.0 - 2.0**-52) * 2.0**1023


def exactly(name: str, mode: str, *operands: float) -> float:
    """The result of an operation on finite numbers, rounded once.

    >>> exactly("multiply", "positive_inf", 5e-324, 0.5), exactly("add", "negative_inf", 1.0, -1.0)
    (5e-324, -0.0)
    """
    parts = [Fraction(x) for x in operands]
    match name:
        case "add":
            exact, zero = parts[0] + parts[1], _zero_of_sum(mode, *operands)
        case "multiply":
            exact, zero = parts[0] * parts[1], math.copysign(0.0, _sign(operands[0]) * _sign(operands[1]))
        case "divide":
            sign = _sign(operands[0]) * _sign(operands[1])
            if operands[1] == 0:
                return math.nan if operands[0] == 0 else math.copysign(math.inf, sign)
            exact, zero = parts[0] / parts[1], math.copysign(0.0, sign)
        case "fma":
            exact = parts[0] * parts[1] + parts[2]
            zero = _zero_of_sum(mode, math.copysign(0.0, _sign(operands[0]) * _sign(operands[1])), operands[2])
        case _:
            return _root(operands[0], mode)
    return zero if exact == 0 else round_fraction(exact, mode)


def _sign(x: float) -> float:
    return math.copysign(1.0, x)


def _zero_of_sum(mode: str, a: float, b: float) -> float:
    """The zero that a sum gives: that of two equal zeros, else the positive one, except towards minus infinity."""
    if a == 0 and b == 0 and _sign(a) == _sign(b):
        return a
    return -0.0 if mode == "negative_inf" else 0.0


def _root(x: float, mode: str) -> float:
    if x < 0:
        return math.nan
    if x == 0:
        return x
    exact = Fraction(x)
    shift = 2400
    scaled = (exact.numerator << shift) // exact.denominator
    found = math.isqrt(scaled)
    rest = Fraction(found * found, 1) != exact * (1 << shift)
    # a bit below all others says that something is cut off
    return round_fraction(Fraction(2 * found + rest, 2 << (shift // 2)), mode)


def round_fraction(exact: Fraction, mode: str) -> float:
    """A rational number other than zero as float64."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = max(exponent - 52, _SMALLEST)
    scaled = size / Fraction(2) ** quantum
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    half = Fraction(rest, scaled.denominator) - Fraction(1, 2)
    match mode:
        case "nearest_even":
            whole += half > 0 or (half == 0 and whole % 2 == 1)
        case "positive_inf":
            whole += bool(rest) and exact > 0
        case "negative_inf":
            whole += bool(rest) and exact < 0
        case _:
            pass
    value = Fraction(whole) * Fraction(2) ** quantum
    if value > Fraction(_LARGEST):
        stays = mode == "zero" or (mode == "positive_inf" and exact < 0) or (mode == "negative_inf" and exact > 0)
        result = _LARGEST if stays else math.inf
    else:
        result = float(value)
    return result if exact > 0 else -result
