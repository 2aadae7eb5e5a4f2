"""Integers and truth values of whole arrays, with the meanings of the builtins: integers wrap, and x / 0 is -1."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.equality.reals.tensors import Array
from tensorir.ir.types import Scalar

__all__ = ["INTEGERS", "LOGIC", "TESTS"]


def _divided(x: Array, y: Array, towards_zero: bool) -> Array:
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    q = x // safe
    if towards_zero:
        q = np.where((x % safe != 0) & ((x < 0) != (safe < 0)), q + 1, q)
    return np.where(y == 0, -1, q).astype(x.dtype)


def _left(x: Array, y: Array, towards_zero: bool) -> Array:
    q = _divided(x, y, towards_zero)
    return np.where(y == 0, x, x - q * y).astype(x.dtype)


def _shift(x: Array, y: Array, bits: int, left: bool) -> Array:
    inside = (y >= 0) & (y < bits)
    by = np.where(inside, y, 0).astype(x.dtype)
    beyond = np.zeros_like(x) if left or x.dtype.kind == "u" else np.where(x < 0, -1, 0).astype(x.dtype)
    return np.where(inside, x << by if left else x >> by, beyond).astype(x.dtype)


def _unsigned(x: Array) -> Array:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _leading_zeros(x: Array, bits: int) -> Array:
    found, rest = np.full(x.shape, bits), _unsigned(np.array(x, order="C"))
    while rest.any():
        found = np.where(rest != 0, found - 1, found)
        rest = rest >> np.array(1, rest.dtype)
    return found.astype(x.dtype)


INTEGERS: dict[str, Callable[..., Array]] = {
    "plus": lambda e, x, y: x + y,
    "minus": lambda e, x, y: x - y,
    "multiplies": lambda e, x, y: x * y,
    "divides": lambda e, x, y: _divided(x, y, True),
    "floordiv": lambda e, x, y: _divided(x, y, False),
    "mod": lambda e, x, y: _left(x, y, False),
    "rem": lambda e, x, y: _left(x, y, True),
    "neg": lambda e, x: -x,
    "abs": lambda e, x: np.abs(x),
    "sign": lambda e, x: np.sign(x),
    "min": lambda e, x, y: np.minimum(x, y),
    "max": lambda e, x, y: np.maximum(x, y),
    "bit_and": lambda e, x, y: x & y,
    "bit_or": lambda e, x, y: x | y,
    "bit_xor": lambda e, x, y: x ^ y,
    "bit_not": lambda e, x: ~x,
    "shift_left": lambda e, x, y: _shift(x, y, e.bits, True),
    "shift_right": lambda e, x, y: _shift(x, y, e.bits, False),
    "popcount": lambda e, x: np.bitwise_count(_unsigned(np.array(x, order="C"))).astype(x.dtype),
    "clz": lambda e, x: _leading_zeros(x, e.bits),
}
"""Every elementwise builtin that gives an integer of integers, after the element type of these."""

LOGIC: dict[str, Callable[..., Array]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not,
}  # fmt: skip
TESTS: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "not_eq": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan,
}  # fmt: skip
"""Comparisons and tests, of witnesses where numbers are real."""


def converted(x: Array, target: Scalar, dtype: Any) -> Array:
    """Integers and truth values as an integer or truth value of another type; integers wrap."""
    return x != 0 if target.kind == "bool" else x.astype(dtype)
