"""Arithmetic of integers on NumPy arrays and scalars of one type, for every interpreter.

Quotients and remainders by their rounding, shifts by any number of places, bits that are counted. What IRs define in
different ways, a division by zero or a shift beyond the width, is an argument.

>>> x = np.array([-7, 7, 5], np.int8)
>>> quotient(x, np.array([2, -2, 0], np.int8), by_zero=-1).tolist(), remainder(x, np.int8(2), "down").tolist()
([-3, -3, -1], [1, 1, 1])
>>> shifted(x, np.int8(9), 8, left=False, beyond=0).tolist(), leading_zeros(x, 8).tolist()
([0, 0, 0], [0, 5, 5])
"""

# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np

Integers = Any
"""A NumPy array of integers, or a scalar."""


def quotient(x: Integers, y: Integers, rounding: str = "zero", by_zero: int = 0) -> Integers:
    """Integer division with a rounding mode ("zero", "down", "up"), and `by_zero` for a zero divisor; the minimum by -1
    wraps.
    """
    is_zero = y == 0
    if np.any(is_zero):
        return np.where(is_zero, np.asarray(by_zero).astype(x.dtype), quotient(x, _divisor(y, is_zero), rounding))[()]
    down = x // y
    if rounding == "down":
        return down
    remaining = x - down * y
    rounds_up = (remaining != 0) & ((rounding == "up") | ((x < 0) != (y < 0)))
    return down + rounds_up.astype(down.dtype)


def remainder(x: Integers, y: Integers, rounding: str = "zero", keeps: bool = False) -> Integers:
    """The remainder of `quotient` with a rounding mode; for a zero divisor 0, or x if it `keeps`."""
    zero = y == 0
    if np.any(zero):
        return np.where(zero, x if keeps else np.zeros_like(x), remainder(x, _divisor(y, zero), rounding))[()]
    return np.fmod(x, y) if rounding == "zero" else x % y


def _divisor(y: Integers, zero: Any) -> Integers:
    return np.where(zero, np.ones((), y.dtype), y)[()]


def shifted(x: Integers, by: Integers, bits: int, left: bool, beyond: Any) -> Integers:
    """A bit shift of x by `by` places; `beyond` if these are negative or at least the width."""
    function = np.left_shift if left else np.right_shift
    in_range = (by >= 0) & (by < bits)
    if np.all(in_range):
        return function(x, by)
    result = function(x, np.where(in_range, by, 0).astype(by.dtype)[()])
    return np.where(in_range, result, np.asarray(beyond).astype(result.dtype))[()]


def unsigned(x: Integers) -> Integers:
    """The same bits as unsigned integers."""
    bits = np.asarray(x)
    return bits.view(f"u{bits.dtype.itemsize}")[()] if bits.dtype.kind == "i" else x


def ones(x: Integers) -> Integers:
    """The number of bits that are set."""
    return np.bitwise_count(unsigned(x)).astype(x.dtype)


def leading_zeros(x: Integers, bits: int) -> Integers:
    """The number of zeros in front of the first bit that is set."""
    smeared = unsigned(x).astype(np.uint64)
    for places in (1, 2, 4, 8, 16, 32):
        smeared = smeared | (smeared >> np.uint64(places))
    return (bits - np.bitwise_count(smeared).astype(np.int64)).astype(x.dtype)
