"""Rounding, exact in every mode: a number, known to be exact or rounded to odd, to any float format.

A float64 rounded to odd (its last bit set where something was cut off) keeps enough to be rounded once more, in any
mode, to a format of at most 51 bits. So an operation on narrower floats is computed in float64, made odd, and rounded.

>>> from tensorir.tile.elements import ELEMENTS
>>> import numpy as np
>>> [round_to(np.array([1.0 + 2.0**-30]), ELEMENTS["f32"], mode)[0] > 1 for mode in ("nearest_even", "positive_inf")]
[np.False_, np.True_]
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tensorir.tile.elements import Element

__all__ = ["Array", "flush", "odd_of_integers", "round_to", "rounded_bits", "to_odd"]

Array = np.ndarray[Any, Any]
_ROUND: dict[str, Any] = {"nearest_even": np.rint, "zero": np.trunc, "negative_inf": np.floor, "positive_inf": np.ceil}


def to_odd(value: Array, error: Array) -> Array:
    """A float64 that was rounded to nearest, and the sign of what it lost, as the one rounded to odd."""
    inexact = (error != 0) & np.isfinite(value)
    if not inexact.any():
        return value
    bits = value.view(np.int64)
    # what was rounded away from zero goes back by one unit; then the last bit says that something is cut off
    away = inexact & (np.signbit(value) != np.signbit(error))
    return np.where(inexact, (bits - away) | 1, bits).view(np.float64)


def odd_of_integers(values: Array) -> Array:
    """64-bit integers as float64, rounded to odd."""
    with np.errstate(all="ignore"):
        if values.dtype.kind == "u":
            high = (values >> np.uint64(32)).astype(np.float64) * 2.0**32
            low = (values & np.uint64(0xFFFFFFFF)).astype(np.float64)
        else:
            high = (values >> 32).astype(np.float64) * 2.0**32
            low = (values & 0xFFFFFFFF).astype(np.float64)
    total = high + low
    return to_odd(total, low - (total - high))


def round_to(value: Array, element: Element, mode: str = "nearest_even") -> Array:
    """Float64 numbers in a narrower format, as an array of its NumPy type.

    f8E4M3FN and f8E5M2 saturate; NaN is kept, and is the largest number in f8E4M3FN. f8E8M0FNU holds powers of two.
    """
    if element.name == "f64":
        return value
    with np.errstate(all="ignore"):
        if element.name == "f8E8M0FNU":
            return _to_scale(value, mode)
        _, exponent = np.frexp(value)
        quantum = np.maximum(exponent - 1, element.emin) - (element.precision - 1)
        scaled = np.ldexp(value, -quantum)
        result = np.ldexp(_ROUND[mode](scaled), quantum)
        result = np.where(np.isfinite(value), np.copysign(result, value), value)
        largest = element.largest
        over = np.abs(result) > largest
        if over.any():
            result = np.where(over, _beyond(result, value, element, mode), result)
        if element.name == "f8E4M3FN":
            result = np.where(np.isnan(value), largest, result)
        return result.astype(element.numpy)


def _beyond(result: Array, value: Array, element: Element, mode: str) -> Array:
    """What is beyond the largest number: an infinity, or that number where the format or the mode says so."""
    largest = np.copysign(element.largest, value)
    if not element.infinite:
        return largest
    infinite = np.copysign(np.inf, value)
    stays = {
        "nearest_even": np.zeros(value.shape, bool),
        "zero": np.ones(value.shape, bool),
        "negative_inf": value > 0,
        "positive_inf": value < 0,
    }[mode]
    return np.where(stays & np.isfinite(value), largest, infinite)


def _to_scale(value: Array, mode: str) -> Array:
    """Powers of two from 2^-127 to 2^127; what is negative, and NaN, has none and is NaN."""
    import ml_dtypes

    fraction, exponent = np.frexp(value)
    power = exponent - 1 + ((fraction != 0.5) & (mode == "positive_inf"))
    power = np.where(value == 0, -127, np.clip(np.where(np.isinf(value), 127, power), -127, 127))
    bits = np.where(np.isnan(value) | (value < 0), 255, power + 127).astype(np.uint8)
    return bits.view(ml_dtypes.float8_e8m0fnu)


def flush(value: Array, element: Element) -> Array:
    """Subnormal numbers as zeros of the same sign."""
    tiny = np.abs(value) < 2.0**element.emin
    return np.where(tiny, np.copysign(np.zeros((), value.dtype), value), value) if tiny.any() else value


def rounded_bits(element: Element, text: str) -> int:
    """The bits of a decimal literal in a format: the nearest number, ties to even; beyond the largest an infinity."""
    value = float(text)
    if element.name == "f64":
        return int(np.float64(value).view(np.uint64))
    if np.isfinite(value):
        exact = Fraction(text)
        error = float((exact > Fraction(value)) - (exact < Fraction(value)))
        odd = to_odd(np.array([value]), np.array([error]))
    else:
        odd = np.array([value])
    rounded = round_to(odd, element)
    return int.from_bytes(rounded.tobytes(), "little")
