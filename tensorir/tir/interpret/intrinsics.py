"""What the pure builtins compute: a NumPy function per row of the table of builtins.

>>> from tensorir.tir.dtypes import INT32, FLOAT32
>>> meaning("popcount")(INT32, np.int32(-1)), meaning("rsqrt")(FLOAT32, np.float32(4.0))
(np.int32(32), np.float32(0.5))
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tensorir.tir.builtins import BUILTINS
from tensorir.tir.dtypes import DataType
from tensorir.tir.interpret.arithmetic import Value, plain

__all__ = ["meaning", "reinterpreted"]

Meaning = Callable[..., Value]
"""Takes the data type of the call and the values of its arguments."""


@cache
def meaning(name: str) -> Meaning | None:
    """The function of a pure builtin; None where it has none here."""
    if (found := _OWN.get(name)) is not None:
        return found
    row = BUILTINS.get(name)
    if row is None or not row.meaning.startswith("numpy."):
        return None
    function = getattr(np, row.meaning.removeprefix("numpy."))
    return _through_float32(function)


def _through_float32(function: Callable[..., Any]) -> Meaning:
    """Narrow floats compute in float32 and round once."""

    def compute(dtype: DataType, *values: Value) -> Value:
        if dtype.is_float and dtype.bits < 32:
            wide = (value.astype(np.float32) for value in values)
            return function(*wide).astype(dtype.numpy)
        result = function(*values)
        return result if result.dtype == dtype.numpy else result.astype(dtype.numpy)

    return compute


def _float(function: Callable[..., Any]) -> Meaning:
    return _through_float32(function)


_erf: Any = np.frompyfunc(math.erf, 1, 1)


def _erf_of(x: Value) -> Value:
    return plain(np.asarray(_erf(np.asarray(x, np.float64)), np.float64).astype(x.dtype))


def _unsigned(value: Value) -> Value:
    bits = np.asarray(value)
    return bits.view(f"u{bits.dtype.itemsize}") if bits.dtype.kind == "i" else bits


def _popcount(dtype: DataType, x: Value) -> Value:
    return plain(np.bitwise_count(_unsigned(x)).astype(dtype.numpy))


def _clz(dtype: DataType, x: Value) -> Value:
    bits = _unsigned(x).astype(np.uint64)
    width = np.asarray(x).dtype.itemsize * 8
    for shift in (1, 2, 4, 8, 16, 32):
        bits = bits | (bits >> np.uint64(shift))
    return plain((width - np.bitwise_count(bits).astype(np.int64)).astype(dtype.numpy))


def _shift(function: Any) -> Meaning:
    """Shifts by a negative number, or by the width or more, give 0."""

    def compute(dtype: DataType, x: Value, by: Value) -> Value:
        fits = (by >= 0) & (by < dtype.bits)
        if np.all(fits):
            return function(x, by)
        shifted = function(x, np.where(fits, by, 0).astype(np.asarray(by).dtype))
        return plain(np.where(fits, shifted, np.zeros((), dtype.numpy)))

    return compute


def _q_multiply_shift(dtype: DataType, x: Value, y: Value, q: Value, s: Value) -> Value:
    """(x * y * 2^-q) * 2^s, rounded half up, in 64 bits."""
    shift = q.astype(np.int64) - s.astype(np.int64)
    product = np.asarray(x).astype(np.int64) * np.asarray(y).astype(np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    return plain(((product + half) >> np.maximum(shift, 0)).astype(dtype.numpy))


def reinterpreted(dtype: DataType, value: Value) -> Value:
    """The same bits, read as another type."""
    bits = np.ascontiguousarray(np.atleast_1d(value))
    lanes = dtype.lanes
    if lanes == 1 and bits.dtype.itemsize == dtype.numpy.itemsize:
        return bits.view(dtype.numpy).reshape(np.shape(value))[()]
    return bits.view(dtype.numpy)


def _vector_part(low: bool) -> Meaning:
    def compute(dtype: DataType, value: Value, *_: Value) -> Value:
        half = value.shape[-1] // 2
        part = value[..., :half] if low else value[..., half:]
        return part[..., 0] if dtype.lanes == 1 else part

    return compute


def _combine(dtype: DataType, *parts: Value) -> Value:
    arrays = [part[..., None] if np.ndim(part) == 0 else part for part in parts]
    return np.concatenate(arrays, axis=-1)


def _dp4a(dtype: DataType, a: Value, b: Value, c: Value) -> Value:
    products = a.astype(dtype.numpy) * b.astype(dtype.numpy)
    return plain(c + products.sum(axis=-1, dtype=dtype.numpy))


def _lane_mask(dtype: DataType, base: Value, limit: Value) -> Value:
    lanes = np.arange(max(dtype.lanes, 1))
    return np.asarray(base)[..., None] + lanes < np.asarray(limit)[..., None]


def _integral(function: Any) -> Meaning:
    """A rounding, which leaves integers as they are."""

    def compute(dtype: DataType, x: Value) -> Value:
        return _through_float32(function)(dtype, x) if dtype.is_float else x

    return compute


def _classify(function: Any, of_integers: bool) -> Meaning:
    def compute(dtype: DataType, x: Value) -> Value:
        kind = np.asarray(x).dtype.kind
        if kind in "iub":
            return plain(np.full(np.shape(x), of_integers))
        return function(x.astype(np.float32) if x.dtype.itemsize < 4 else x)

    return compute


def _power(dtype: DataType, x: Value, y: Value) -> Value:
    if dtype.is_float:
        return _through_float32(np.power)(dtype, x, y)
    return plain(np.where(y < 0, 0, np.power(x, np.maximum(y, 0))).astype(dtype.numpy))


def _same(dtype: DataType, x: Value, *_: Value) -> Value:
    return x


def _fma(x: Value, y: Value, z: Value) -> Value:
    if x.dtype == np.float32:
        return (x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)).astype(np.float32)
    return x * y + z


def _nextafter(dtype: DataType, x: Value, y: Value) -> Value:
    """In its own type, for the float beside a float16 is none of float32."""
    return plain(np.where(x == y, y, np.nextafter(x, y)).astype(dtype.numpy))


_OWN: dict[str, Meaning] = {
    "exp10": _float(lambda x: np.power(np.asarray(10, x.dtype)[()], x)),
    "erf": _float(_erf_of),
    "sigmoid": _float(lambda x: 1 / (1 + np.exp(-x))),
    "rsqrt": _float(lambda x: 1 / np.sqrt(x)),
    "fma": _float(_fma),
    "fabs": lambda dtype, x: np.abs(x),
    "nextafter": _nextafter,
    "pow": _power,
    "ldexp": lambda dtype, x, e: _through_float32(lambda v: np.ldexp(v, np.asarray(e).astype(np.int64)))(dtype, x),
    "round": _integral(np.rint),
    "nearbyint": _integral(np.rint),
    "floor": _integral(np.floor),
    "ceil": _integral(np.ceil),
    "trunc": _integral(np.trunc),
    "isnan": _classify(np.isnan, False),
    "isinf": _classify(np.isinf, False),
    "isfinite": _classify(np.isfinite, True),
    "popcount": _popcount,
    "clz": _clz,
    "shift_left": _shift(np.left_shift),
    "shift_right": _shift(np.right_shift),
    "q_multiply_shift": _q_multiply_shift,
    "q_multiply_shift_per_axis": lambda dtype, x, y, ls, rs, q, is_lshift, is_rshift: _q_multiply_shift(
        dtype,
        plain(np.where(is_lshift, np.asarray(x).astype(np.int64) << np.asarray(ls).astype(np.int64), x)),
        y,
        q,
        plain(np.where(is_rshift, -np.asarray(rs), 0)),
    ),
    "dp4a": _dp4a,
    "likely": _same,
    "tvm_thread_invariant": _same,
    "ignore_loop_partition": _same,
    "assume": lambda dtype, x: np.True_,
    "undef": lambda dtype: np.zeros((), dtype.numpy)[()],
    "reinterpret": reinterpreted,
    "vectorlow": _vector_part(True),
    "vectorhigh": _vector_part(False),
    "vectorcombine": _combine,
    "get_active_lane_mask": _lane_mask,
    "large_uint_imm": lambda dtype, low, high: dtype.numpy.type((int(high) << 32) | int(low)),
    "type_annotation": lambda dtype: np.zeros((), dtype.numpy)[()],
}
