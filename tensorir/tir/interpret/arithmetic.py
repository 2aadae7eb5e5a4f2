"""What the operators of TIR compute on NumPy values: wrapping integers, both divisions, casts as in C.

Every function takes values of one data type (NumPy scalars, or arrays of them) and gives values of the right one. What
the source leaves undefined (division by zero, a float outside of the integers' range) is zero.

>>> from tensorir.tir.dtypes import INT8, FLOAT32
>>> operator("Div", INT8)(np.int8(-7), np.int8(2)), operator("FloorDiv", INT8)(np.int8(-7), np.int8(2))
(np.int8(-3), np.int8(-4))
>>> cast(np.float32(300.5), FLOAT32, INT8), constant(-1, INT8)
(np.int8(0), np.int8(-1))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeGuard

import numpy as np

from tensorir.tir.dtypes import DataType

__all__ = ["Binary", "Value", "cast", "constant", "is_array", "operator", "plain"]

Value = Any
"""A NumPy scalar or array; vectors have their lanes on the last axis."""

Binary = Callable[[Value, Value], Value]


def is_array(value: Value) -> TypeGuard[np.ndarray[Any, Any]]:
    """Whether a value is one per lane, or per element of a vector."""
    return isinstance(value, np.ndarray)


def plain(value: Value) -> Value:
    """A scalar instead of an array without axes."""
    return value[()] if is_array(value) and value.ndim == 0 else value


def constant(value: float, dtype: DataType) -> Value:
    """A number of a data type; integers wrap into it."""
    if dtype.is_float:
        return np.asarray(value, np.float64).astype(dtype.numpy)[()]
    if dtype.bits == 1:
        return np.bool_(value)
    bits = dtype.bits
    value = int(value) & ((1 << bits) - 1)
    if dtype.code == "int" and value >> (bits - 1):
        value -= 1 << bits
    return dtype.numpy.type(value)


def cast(value: Value, source: DataType, target: DataType) -> Value:
    """The value converted as C converts it; a float that no integer of the type is near to becomes 0."""
    if target.bits == 1 and not target.is_float:
        return value != 0
    if source.is_float and not target.is_float:
        low, high = target.range
        wide = np.trunc(np.asarray(value).astype(np.float64))
        fits = (wide >= float(low)) & (wide < float(high) + 1.0)
        return plain(np.where(fits, wide, 0.0).astype(target.numpy))
    if source.is_integer and 1 < source.bits < 8:
        value = value.astype(np.int8)  # from here NumPy knows the way to every type
    return value.astype(target.numpy)


def _nonzero(function: Binary) -> Binary:
    """An integer division that gives 0 where the divisor is 0."""

    def divide(a: Value, b: Value) -> Value:
        zero = b == 0
        if not np.any(zero):
            return function(a, b)
        one = np.ones((), np.asarray(b).dtype)[()]
        whole = function(a, np.where(zero, one, b))
        return plain(np.where(zero, np.zeros_like(whole), whole))

    return divide


def _quotient(a: Value, b: Value) -> Value:
    return (a - np.fmod(a, b)) // b


def _smaller(a: Value, b: Value) -> Value:
    return plain(np.where(a < b, a, b))


def _larger(a: Value, b: Value) -> Value:
    return plain(np.where(a > b, a, b))


_ANY: dict[str, Binary] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Min": _smaller,
    "Max": _larger,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
_FLOAT: dict[str, Binary] = {
    "Div": lambda a, b: a / b,
    "Mod": np.fmod,
    "FloorDiv": lambda a, b: np.floor(a / b),
    "FloorMod": lambda a, b: a - np.floor(a / b) * b,
}
_INTEGER: dict[str, Binary] = {
    "Div": _nonzero(_quotient),
    "Mod": _nonzero(np.fmod),
    "FloorDiv": _nonzero(lambda a, b: a // b),
    "FloorMod": _nonzero(lambda a, b: a % b),
    "Min": np.minimum,
    "Max": np.maximum,
}
_BOOL: dict[str, Binary] = {
    "Add": np.not_equal,
    "Sub": np.not_equal,
    "Mul": np.logical_and,
    "Min": np.logical_and,
    "Max": np.logical_or,
    "Div": lambda a, b: np.logical_and(a, b),
    "FloorDiv": lambda a, b: np.logical_and(a, b),
    "Mod": lambda a, b: np.logical_and(a, np.False_),
    "FloorMod": lambda a, b: np.logical_and(a, np.False_),
}


@cache
def operator(name: str, dtype: DataType) -> Binary:
    """The function of a binary operator or a comparison on operands of a data type."""
    own = _FLOAT if dtype.is_float else _BOOL if dtype.bits == 1 else _INTEGER
    return own.get(name) or _ANY[name]
