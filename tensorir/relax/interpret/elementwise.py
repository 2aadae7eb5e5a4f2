"""Operators of Relax that work element by element, and those that make tensors.

>>> ELEMENTWISE["floor_divide"](np.int32(-7), np.int32(2)), ELEMENTWISE["sigmoid"](np.float32(0))
(np.int32(-4), np.float32(0.5))
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.tir.dtypes import FLOAT32, DataType
from tensorir.tir.interpret.arithmetic import cast, operator
from tensorir.tir.interpret.intrinsics import meaning

__all__ = ["ELEMENTWISE", "element_type"]

Array = Any
Meaning = Callable[..., Any]


def element_type(array: Array) -> DataType:
    """The data type of an array's elements.

    >>> str(element_type(np.zeros(2, bool)))
    'bool'
    """
    return DataType.parse(str(np.asarray(array).dtype))


def _wide(function: Meaning) -> Meaning:
    """Computes narrow floats in float32, and gives back the type of the first operand."""

    def compute(x: Array, *rest: Array, **attributes: Any) -> Array:
        dtype = np.asarray(x).dtype
        narrow = dtype.itemsize < 4 and dtype.kind not in "iub"
        values = [np.asarray(v).astype(np.float32) if narrow else np.asarray(v) for v in (x, *rest)]
        return np.asarray(function(*values, **attributes)).astype(dtype)[()]

    return compute


def _builtin(name: str) -> Meaning:
    function = meaning(name)
    assert function is not None, name
    return lambda x, *rest: function(element_type(x), x, *rest)


def _binary(name: str) -> Meaning:
    return lambda x, y: operator(name, element_type(x))(np.asarray(x), np.asarray(y))[()]


def _gelu(x: Array) -> Array:
    erf = meaning("erf")
    assert erf is not None
    return x * 0.5 * (1 + erf(element_type(x), x * np.asarray(np.sqrt(0.5), x.dtype)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _selu(x: Array) -> Array:
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


def _softplus(x: Array, beta: float, threshold: float) -> Array:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta)


def _prelu(x: Array, alpha: Array, axis: int) -> Array:
    shape = [1] * x.ndim
    shape[axis] = alpha.size
    return np.where(x > 0, x, x * alpha.reshape(shape))


def _clip(x: Array, low: Any, high: Any) -> Array:
    return np.maximum(np.minimum(x, np.asarray(high).astype(x.dtype)), np.asarray(low).astype(x.dtype))


def _triangle(function: Meaning) -> Meaning:
    return lambda x, k=0: function(x, int(k))


def _astype(x: Array, dtype: Any) -> Array:
    target = _data_type(dtype)
    return np.asarray(cast(np.asarray(x), element_type(x), target))


def _data_type(dtype: Any) -> DataType:
    return dtype if isinstance(dtype, DataType) else DataType.parse(str(dtype))


def _typed(dtype: Any, otherwise: Any) -> Any:
    return otherwise if dtype in (None, "void", "") or str(dtype) == "void" else _data_type(dtype).numpy


def _arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    first, last = (0, start) if end is None else (start, end)
    real = any(np.asarray(number).dtype.kind == "f" for number in (first, last, step))
    return np.arange(first, last, step).astype(_typed(dtype, np.float32 if real else np.int64))


def _hamming(size: Any, periodic: Any, alpha: Any, beta: Any, dtype: Any) -> Array:
    size = int(size)
    if size == 1:
        return np.ones(1, _typed(dtype, np.float32))
    length = size + 1 if periodic else size
    window = alpha - beta * np.cos(2 * np.pi * np.arange(length) / (length - 1))
    return window[:size].astype(_typed(dtype, np.float32))


def _quantize(x: Array, scale: Array, zero: Array, axis: int, out_dtype: Any) -> Array:
    target = _data_type(out_dtype)
    scaled = x / _along(scale, x, axis)
    whole = np.rint(scaled) if target.is_integer else scaled
    return _clipped(whole + _along(zero, x, axis).astype(scaled.dtype), target)


def _dequantize(x: Array, scale: Array, zero: Array, axis: int, out_dtype: Any) -> Array:
    wide = np.dtype(np.int32 if x.dtype.kind in "iu" else np.float32)
    moved = x.astype(wide) - _along(zero, x, axis).astype(wide)
    found = moved.astype(np.float32) * _along(scale, x, axis).astype(np.float32)
    target = _data_type(out_dtype)
    return found if target == FLOAT32 else _clipped(found, target)


def _along(values: Array, x: Array, axis: int) -> Array:
    """One number for all, or one for each place of an axis."""
    return np.reshape(values, [np.size(values) if k == axis % x.ndim else 1 for k in range(x.ndim)])


def _clipped(x: Array, target: DataType) -> Array:
    low, high = target.limits
    return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(target.numpy)


_PLAIN = "acos acosh asin asinh atan atanh cos cosh erf exp log rsqrt sigmoid sin sinh sqrt tan tanh"
_INTEGRAL = "ceil floor trunc round"

ELEMENTWISE: dict[str, Meaning] = {
    **{name: _builtin(name) for name in f"{_PLAIN} {_INTEGRAL} isfinite isinf isnan".split()},
    "abs": np.abs,
    "bitwise_not": np.invert,
    "logical_not": np.logical_not,
    "negative": lambda x: -x,
    "sign": np.sign,
    "square": lambda x: x * x,
    "clip": _clip,
    "nn.relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "nn.relu6": lambda x: np.minimum(np.maximum(x, np.zeros((), x.dtype)), np.asarray(6).astype(x.dtype)),
    "nn.silu": _wide(lambda x: x / (1 + np.exp(-x))),
    "nn.gelu": _wide(_gelu),
    "nn.gelu_tanh": _wide(_gelu_tanh),
    "nn.selu": _wide(_selu),
    "nn.leakyrelu": _wide(lambda x, alpha: np.where(x > 0, x, x * alpha)),
    "nn.softplus": _wide(_softplus),
    "nn.prelu": _wide(_prelu),
    "tril": _triangle(np.tril),
    "triu": _triangle(np.triu),
    "add": _binary("Add"),
    "subtract": _binary("Sub"),
    "multiply": _binary("Mul"),
    "divide": _binary("Div"),
    "floor_divide": _binary("FloorDiv"),
    "floor_mod": _binary("FloorMod"),
    "mod": _binary("Mod"),
    "maximum": _binary("Max"),
    "minimum": _binary("Min"),
    "power": _builtin("pow"),
    "atan2": _builtin("atan2"),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": _builtin("shift_left"),
    "right_shift": _builtin("shift_right"),
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "log_add_exp": _wide(np.logaddexp),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "ewise_fma": lambda x, y, z: x * y + z,
    "where": lambda c, x, y: np.where(c, x, y).astype(np.asarray(x).dtype),
    "astype": _astype,
    "wrap_param": _astype,
    "stop_lift_params": lambda x: x,
    "grad.no_grad": lambda x: x,
    "grad.start_checkpoint": lambda x: x,
    "grad.end_checkpoint": lambda x: x,
    "to_vdevice": lambda x, **_: x,
    "hint_on_device": lambda x, **_: x,
    "full": lambda shape, value, dtype=None: np.full(shape, value, _typed(dtype, np.asarray(value).dtype)),
    "full_like": lambda x, value, dtype=None: np.full(x.shape, value, _typed(dtype, x.dtype)),
    "ones_like": lambda x, dtype=None: np.ones(x.shape, _typed(dtype, x.dtype)),
    "zeros_like": lambda x, dtype=None: np.zeros(x.shape, _typed(dtype, x.dtype)),
    "ones": lambda shape, dtype: np.ones(shape, _data_type(dtype).numpy),
    "zeros": lambda shape, dtype: np.zeros(shape, _data_type(dtype).numpy),
    "arange": _arange,
    "eye": lambda n, m=None, k=0, dtype="float32": np.eye(
        int(n), None if m is None else int(m), int(k), dtype=_data_type(dtype).numpy
    ),
    "eye_like": lambda x, k=0, dtype=None: np.eye(x.shape[0], x.shape[1], int(k), dtype=_typed(dtype, x.dtype)),
    "hamming_window": _hamming,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "null_value": lambda: None,
}
