"""Operators, builtins and external functions of TIR on NumPy values.

What the operators of TIR compute on NumPy values: wrapping integers, both divisions, casts as in C.

Every function takes values of one data type (NumPy scalars, or arrays of them) and gives values of the right one. What
the source leaves undefined (division by zero, a float outside of the integers' range) is zero.

>>> from tensorir.tir.dtypes import INT8, FLOAT32
>>> operator("Div", INT8)(np.int8(-7), np.int8(2)), operator("FloorDiv", INT8)(np.int8(-7), np.int8(2))
(np.int8(-3), np.int8(-4))
>>> cast(np.float32(300.5), FLOAT32, INT8), constant(-1, INT8)
(np.int8(0), np.int8(-1))

What the pure builtins compute: a NumPy function per row of the table of builtins.

>>> from tensorir.tir.dtypes import INT32, FLOAT32
>>> meaning("popcount")(INT32, np.int32(-1)), meaning("rsqrt")(FLOAT32, np.float32(4.0))
(np.int32(32), np.float32(0.5))
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, TypeGuard

import numpy as np

from tensorir.reference.numerics import leading_zeros, ones, quotient, remainder, shifted
from tensorir.tir.builtins import BUILTINS
from tensorir.tir.dtypes import DataType

Value = Any
"""A NumPy scalar or array; vectors have their lanes on the last axis."""

Binary = Callable[[Value, Value], Value]


def is_array(value: Value) -> TypeGuard[np.ndarray[Any, Any]]:
    """True if a value is one per lane, or per element of a vector."""
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
    "Div": quotient,
    "Mod": remainder,
    "FloorDiv": lambda a, b: quotient(a, b, "down"),
    "FloorMod": lambda a, b: remainder(a, b, "down"),
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
    "popcount": lambda dtype, x: ones(x),
    "clz": lambda dtype, x: leading_zeros(x, x.dtype.itemsize * 8),
    "shift_left": lambda dtype, x, by: shifted(x, by, dtype.bits, True, 0),
    "shift_right": lambda dtype, x, by: shifted(x, by, dtype.bits, False, 0),
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

# External functions that are known by name: what `T.call_packed` and `R.call_dps_packed` may call.
#
# They take NumPy arrays that share the program's memory, and write into the last ones. `KNOWN` is the registry: a
# function under a new name may be added to it.


Array = Any


def sorting(data: Array, axis: int, ascending: bool) -> Array:
    """Indices that sort, equal elements in the order in which they stand."""
    if data.dtype.kind not in "biuf":
        data = data.astype(np.float32)  # the order of narrow floats knows no NaN
    if ascending:
        return np.argsort(data, axis=axis, kind="stable")
    length = data.shape[axis]
    backwards = np.flip(data, axis)
    return np.flip(length - 1 - np.argsort(backwards, axis=axis, kind="stable"), axis)


def _sort(data: Array, out: Array, axis: Any = -1, ascending: Any = True) -> None:
    order = sorting(data, int(axis), bool(ascending))
    out[...] = np.take_along_axis(data, order, int(axis))


def _argsort(data: Array, out: Array, axis: Any = -1, ascending: Any = True, *_: Any) -> None:
    out[...] = sorting(data, int(axis), bool(ascending))


def _argsort_nms(data: Array, counts: Array, out: Array, axis: Any = 0, ascending: Any = True) -> None:
    moved = np.moveaxis(data, int(axis), -1)
    target = np.moveaxis(out, int(axis), -1)
    for place in np.ndindex(*moved.shape[:-1]):
        valid = int(counts.ravel()[np.ravel_multi_index(place, moved.shape[:-1])] if place else counts.ravel()[0])
        row: Array = np.arange(moved.shape[-1])
        row[:valid] = sorting(moved[place][:valid], 0, bool(ascending))
        target[place] = row


def _topk(data: Array, *rest: Any) -> None:
    """topk(data, outputs..., k, axis, which, ascending): values, indices, or both."""
    arrays = [item for item in rest if is_array(item) and item.ndim > 0]
    k, axis, which, ascending = rest[len(arrays) :][:4]
    axis = int(axis)
    order = sorting(data, axis, bool(ascending))
    k = int(k)
    if k > 0:
        order = np.take(order, np.arange(min(k, data.shape[axis])), axis)
    values = np.take_along_axis(data, order, axis)
    results = {"both": (values, order), "values": (values,), "indices": (order,)}[str(which)]
    for target, result in zip(arrays, results, strict=True):
        target[...] = result


KNOWN: dict[str, Callable[..., Any]] = {
    "tvm.contrib.sort.sort": _sort,
    "tvm.contrib.sort.argsort": _argsort,
    "tvm.contrib.sort.argsort_nms": _argsort_nms,
    "tvm.contrib.sort.topk": _topk,
}
"""The registry, by name."""
