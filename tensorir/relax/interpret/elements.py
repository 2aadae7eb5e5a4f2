"""Operators of Relax in NumPy: element by element, makers, moves, reductions, sorts.

Operators of Relax that work element by element, and those that make tensors.

>>> ELEMENTWISE["floor_divide"](np.int32(-7), np.int32(2)), ELEMENTWISE["sigmoid"](np.float32(0))
(np.int32(-4), np.float32(0.5))
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorir.tir.dtypes import FLOAT32, DataType
from tensorir.tir.interpret.values import cast, meaning, operator, sorting

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


def typed(dtype: Any, otherwise: Any) -> Any:
    """The type of NumPy of an attribute; of one that is left out, or void, another."""
    return otherwise if dtype in (None, "void", "") or str(dtype) == "void" else _data_type(dtype).numpy


def _arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    first, last = (0, start) if end is None else (start, end)
    real = any(np.asarray(number).dtype.kind == "f" for number in (first, last, step))
    return np.arange(first, last, step).astype(typed(dtype, np.float32 if real else np.int64))


def _hamming(size: Any, periodic: Any, alpha: Any, beta: Any, dtype: Any) -> Array:
    size = int(size)
    if size == 1:
        return np.ones(1, typed(dtype, np.float32))
    length = size + 1 if periodic else size
    window = alpha - beta * np.cos(2 * np.pi * np.arange(length) / (length - 1))
    return window[:size].astype(typed(dtype, np.float32))


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
    "full": lambda shape, value, dtype=None: np.full(shape, value, typed(dtype, np.asarray(value).dtype)),
    "full_like": lambda x, value, dtype=None: np.full(x.shape, value, typed(dtype, x.dtype)),
    "ones_like": lambda x, dtype=None: np.ones(x.shape, typed(dtype, x.dtype)),
    "zeros_like": lambda x, dtype=None: np.zeros(x.shape, typed(dtype, x.dtype)),
    "ones": lambda shape, dtype: np.ones(shape, _data_type(dtype).numpy),
    "zeros": lambda shape, dtype: np.zeros(shape, _data_type(dtype).numpy),
    "arange": _arange,
    "eye": lambda n, m=None, k=0, dtype="float32": np.eye(
        int(n), None if m is None else int(m), int(k), dtype=_data_type(dtype).numpy
    ),
    "eye_like": lambda x, k=0, dtype=None: np.eye(x.shape[0], x.shape[1], int(k), dtype=typed(dtype, x.dtype)),
    "hamming_window": _hamming,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "null_value": lambda: None,
}

# Operators of Relax that move elements: reshape, transpose, join, split, take, gather, scatter.


class Shape(tuple[int, ...]):
    """A shape as a value, told apart from a tuple of values."""


def _reshape(x: Array, shape: Sequence[int]) -> Array:
    sizes = [x.shape[place] if size == 0 and x.size else int(size) for place, size in enumerate(shape)]
    return x.reshape(sizes)


def _collapse(x: Array, shape: Sequence[int]) -> Array:
    """Sums away what broadcasting to the shape of x would have repeated."""
    lead = x.ndim - len(shape)
    total = x.sum(axis=tuple(range(lead)), dtype=x.dtype) if lead else x
    axes = tuple(k for k, size in enumerate(shape) if size == 1 and total.shape[k] != 1)
    return total.sum(axis=axes, keepdims=True, dtype=x.dtype) if axes else total


def _expand(x: Array, axis: Any) -> Array:
    return np.expand_dims(x, axis if isinstance(axis, int) else tuple(int(a) for a in axis))


def _squeeze(x: Array, axis: Any = None) -> Array:
    if axis is None:
        return np.squeeze(x)
    named = [int(a) % x.ndim for a in ((axis,) if isinstance(axis, int) else axis)]
    return np.squeeze(x, tuple(k for k in named if x.shape[k] == 1))


def _split(x: Array, indices_or_sections: Any, axis: int) -> Array | tuple[Array, ...]:
    """The parts; one part is no tuple."""
    if isinstance(indices_or_sections, tuple):
        marks = [int(i) for i in indices_or_sections]
    else:
        count = int(indices_or_sections)
        size = -(-x.shape[axis] // count)
        marks = [min(k * size, x.shape[axis]) for k in range(1, count)]
    return tuple(np.split(x, marks, axis)) if marks else x


def _take(x: Array, indices: Array, axis: Any = None, mode: str = "fast") -> Array:
    if axis is None:
        x, axis = x.ravel(), 0
    indices = np.asarray(indices)  # which may be a number
    if mode in ("clip", "wrap"):
        return np.asarray(np.take(x, indices, axis, mode=mode))
    if mode == "nan":
        size = x.shape[axis]
        valid = (indices >= 0) & (indices < size)
        found = np.take(x, np.where(valid, indices, 0), axis)
        shape = [1] * (axis % x.ndim) + list(np.shape(indices)) + [1] * (x.ndim - 1 - axis % x.ndim)
        return np.where(valid.reshape(shape), found, np.asarray(np.nan, x.dtype))
    return np.asarray(np.take(x, indices, axis))


def _gather_nd(x: Array, indices: Array, batch_dims: int = 0) -> Array:
    depth = indices.shape[-1]
    if batch_dims == 0:
        return x[tuple(indices[..., k] for k in range(depth))]
    lead = x.shape[:batch_dims]
    flat, places = x.reshape(-1, *x.shape[batch_dims:]), indices.reshape(-1, *indices.shape[batch_dims:])
    found = [row[tuple(at[..., k] for k in range(depth))] for row, at in zip(flat, places, strict=True)]
    return np.stack(found).reshape(*lead, *found[0].shape)


def _gather_elements(x: Array, indices: Array, axis: int = 0) -> Array:
    """At each place what x has there, but for the index along one axis; the indices may be fewer than x has rows."""
    place: list[Array] = list(np.indices(indices.shape, sparse=True))
    place[axis] = indices
    return x[tuple(place)]


_COMBINE: dict[str, Any] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": lambda old, new: np.maximum(old, new),
    "min": lambda old, new: np.minimum(old, new),
    "mean": lambda old, new: (old + new) / 2,  # of what there is and one update, for each in turn
}


def _scatter_elements(data: Array, indices: Array, updates: Array, axis: int = 0, reduction: str = "update") -> Array:
    """Updates in the order in which they stand: of several for one element the last stays, or all combine."""
    result = data.copy()
    combine = _COMBINE[reduction]
    for at in np.ndindex(*indices.shape):
        place = list(at)
        place[axis] = int(indices[at])
        where = tuple(place)
        result[where] = combine(result[where], updates[at])
    return result


def _scatter_nd(data: Array, indices: Array, updates: Array, reduction: str = "update") -> Array:
    result = data.copy()
    combine = _COMBINE[reduction]
    depth = indices.shape[-1]
    for at in np.ndindex(*indices.shape[:-1]):
        where = tuple(int(i) for i in indices[at][:depth])
        result[where] = combine(result[where], updates[at])
    return result


def _index_put(data: Array, indices: Any, values: Array, accumulate: Any = False) -> Array:
    result = data.copy()
    if accumulate:
        np.add.at(result, _of_axes(indices), values)
    else:
        result[_of_axes(indices)] = values
    return result


def _of_axes(indices: Any) -> tuple[Array, ...]:
    """Indices of the leading axes: a tensor alone is that of the first."""
    return tuple(indices) if isinstance(indices, tuple | list) else (indices,)


def _numbers(values: Any) -> list[int]:
    return [int(v) for v in values]


def _strided_slice(
    x: Array, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: Any = False
) -> Array:
    steps = [1] * len(axes) if strides is None else _numbers(strides)
    chosen = [slice(None)] * x.ndim
    for axis, start, stop, step in zip(_numbers(axes), _numbers(begin), _numbers(end), steps, strict=True):
        size = x.shape[axis]
        low = start if start >= 0 else start + size
        high = stop if stop >= 0 else stop + size
        last = None if step < 0 and high < 0 else max(high, 0)
        chosen[axis] = slice(max(low, 0), last, step)
    return x[tuple(chosen)]


def _slice_scatter(x: Array, src: Array, start: Any, end: Any, step: Any, axis: int = 0) -> Array:
    result = x.copy()
    np.moveaxis(result, axis, 0)[int(start) : int(end) : int(step)] = np.moveaxis(src, axis, 0)
    return result


def _one_hot(indices: Array, on: Any, off: Any, depth: int, axis: int = -1) -> Array:
    kind = np.asarray(on).dtype
    hot = np.arange(depth) == indices[..., None]
    return np.moveaxis(np.where(hot, on, off).astype(kind), -1, axis)


def _reverse(x: Array, lengths: Array, seq_axis: int = 1, batch_axis: int = 0) -> Array:
    result = x.copy()
    into, source = (np.moveaxis(a, (batch_axis, seq_axis), (0, 1)) for a in (result, x))
    for row, length in enumerate(_numbers(lengths)):
        into[row, :length] = source[row, :length][::-1]
    return result


def _layout(x: Array, index_map: Any, pad_value: Any = None, **_: Any) -> Array:
    """Every element moves to where the map sends its index."""
    from tensorir.tir.interpret.machine import Machine, compiled

    m = Machine()
    grid = np.indices(x.shape)
    for var, values in zip(index_map.initial_indices, grid, strict=True):
        m.env[var] = values.astype(var.dtype.numpy)
    places = [np.broadcast_to(compiled(e)(m), x.shape) for e in index_map.final_indices]
    shape = tuple(int(p.max()) + 1 for p in places)
    result = np.full(shape, 0 if pad_value is None else pad_value, x.dtype)
    result[tuple(places)] = x
    return result


def _view(x: Array, shape: Any = None, dtype: Any = None, offset: Any = None) -> Array:
    data = np.ascontiguousarray(x).reshape(-1)
    kind = typed(dtype, x.dtype)
    elements = data.view(np.uint8)[int(offset or 0) :].view(kind)
    shape = x.shape if shape is None else shape
    return elements[: int(np.prod(shape))].reshape(shape).copy()


def _meshgrid(tensors: Any, indexing: str = "ij") -> tuple[Array, ...]:
    return tuple(np.meshgrid(*tensors, indexing=indexing))  # type: ignore[arg-type]


def _unique(
    x: Array, ordered: Any = True, index: Any = False, inverse: Any = False, counts: Any = False, axis: Any = None
) -> Any:
    """The elements (or slices) without repetition, ascending or in the order of their first appearance."""
    along = None if axis is None else int(axis)
    values, first, back, many = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=along)
    back = back.reshape(-1)
    if not ordered:
        order = np.argsort(first)
        places = np.empty_like(order)
        places[order] = np.arange(order.size)
        values, first, back, many = np.take(values, order, along or 0), first[order], places[back], many[order]
    wanted = [part for part, asked in ((first, index), (back, inverse), (many, counts)) if asked]
    return (values, *wanted) if wanted else values


def _concat(tensors: Any, axis: Any = 0) -> Array:
    return np.concatenate(tensors, 0 if axis is None else axis)


SHAPES: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape).copy(),
    "collapse_sum_to": _collapse,
    "collapse_sum_like": lambda x, target: _collapse(x, target.shape),
    "permute_dims": lambda x, axes=None: np.transpose(x, None if axes is None else _numbers(axes)),
    "expand_dims": _expand,
    "squeeze": _squeeze,
    "flatten": lambda x: x.reshape(-1),
    "nn.batch_flatten": lambda x: x.reshape(x.shape[0], -1),
    "concat": _concat,
    "stack": lambda tensors, axis=0: np.stack(tensors, axis),
    "split": _split,
    "tile": lambda x, repeats: np.tile(x, repeats if isinstance(repeats, int) else _numbers(repeats)),
    "repeat": lambda x, repeats, axis=None: np.repeat(x, repeats, axis),
    "flip": lambda x, axis: np.flip(x, axis),
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "index_put": _index_put,
    "index_tensor": lambda x, indices: x[_of_axes(indices)],
    "strided_slice": _strided_slice,
    "dynamic_strided_slice": lambda x, begin, end, strides: _strided_slice(x, range(x.ndim), begin, end, strides),
    "slice_scatter": _slice_scatter,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "one_hot": _one_hot,
    "meshgrid": _meshgrid,
    "reverse_sequence": _reverse,
    "layout_transform": _layout,
    "unique": _unique,
    "nonzero": lambda x: np.stack(np.nonzero(x)).astype(np.int64),
    "shape_of": lambda x: Shape(x.shape),
    "shape_to_tensor": lambda shape: np.asarray(tuple(shape), np.int64),
    "tensor_to_shape": lambda x: Shape(_numbers(x)),
    "size": lambda x: np.asarray(x.size, np.int64),
    "memory.view": _view,
    "memory.ensure_zero_offset": lambda x: x,
}

# Operators of Relax that reduce, sort or scan along axes.


def _axes(axis: Any) -> Any:
    return axis if axis is None or isinstance(axis, int) else tuple(int(a) for a in axis)


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction in the type of its operand (narrow floats in float32)."""

    def compute(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        wide = x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind not in "iub" else x
        found = np.asarray(function(wide, axis=_axes(axis), keepdims=keepdims))
        return _astype(found, element_type(x)) if found.dtype.kind == "f" else found.astype(x.dtype)

    return compute


def _arg(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis=None, keepdims=False: np.asarray(function(x, axis=axis, keepdims=keepdims), np.int64)


def _scan(function: Callable[..., Any], first: int) -> Callable[..., Any]:
    def compute(x: Array, axis: Any = None, dtype: Any = None, exclusive: Any = False) -> Array:
        kind = typed(dtype, x.dtype)
        values, along = (x.ravel(), 0) if axis is None else (x, int(axis))
        found = function(values, axis=along, dtype=kind)
        if exclusive:
            found = np.roll(found, 1, along)
            np.moveaxis(found, along, 0)[0] = first
        return found

    return compute


def _topk(x: Array, k: int, axis: int, ret_type: str, largest: bool, dtype: Any) -> Any:
    order = sorting(x, axis, not largest)
    if k > 0:
        order = np.take(order, np.arange(min(k, x.shape[axis])), axis)
    values = np.take_along_axis(x, order, axis)
    kind = _data_type(dtype).numpy
    return {"both": (values, order.astype(kind)), "values": values, "indices": order.astype(kind)}[ret_type]


def _median(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
    """The lower median; along one axis also where it is."""
    if isinstance(axis, tuple) and len(axis) > 1:
        raise NotImplementedError("TVM states the median over all of several axes, and takes it over the first")
    if axis is None or not isinstance(axis, int | tuple) or (isinstance(axis, tuple) and not axis):
        flat = x.ravel()
        return np.asarray(flat[sorting(flat, 0, True)[(flat.size - 1) // 2]])
    along = int(axis if isinstance(axis, int) else axis[0])
    order = sorting(x, along, True)
    place = np.take(order, [(x.shape[along] - 1) // 2], along)
    values = np.take_along_axis(x, place, along)
    return (values, place) if keepdims else (values.squeeze(along), place.squeeze(along))


def _multinomial(prob: Array, samples: Array, rows: Array, dtype: Any = "int64") -> Array:
    """For every sample the first place at which the probabilities of its row, added up, exceed it."""
    totals = np.cumsum(prob, axis=1, dtype=prob.dtype)[rows.reshape(-1)]
    exceeds = totals > samples.reshape(-1, 1)
    return np.argmax(exceeds, axis=1).astype(_data_type(dtype).numpy).reshape(rows.shape)


def _bucketize(x: Array, bounds: Array, out_int32: bool = False, right: bool = False) -> Array:
    """The number of bounds below each element (or not above it); none below NaN."""
    below = (np.greater_equal if right else np.greater)(x[..., np.newaxis], bounds)
    return below.sum(axis=-1).astype(np.int32 if out_int32 else np.int64)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _over(np.sum),
    "prod": _over(np.prod),
    "max": _over(np.max),
    "min": _over(np.min),
    "mean": _over(np.mean),
    "std": _over(np.std),
    "variance": _over(np.var),
    "median": _median,
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
    "cumsum": _scan(np.cumsum, 0),
    "cumprod": _scan(np.cumprod, 1),
    "sort": lambda x, axis=-1, descending=False: np.take_along_axis(x, sorting(x, axis, not descending), axis),
    "argsort": lambda x, axis=-1, descending=False, dtype="int32": sorting(x, axis, not descending).astype(
        _data_type(dtype).numpy
    ),
    "topk": _topk,
    "multinomial_from_uniform": _multinomial,
    "bucketize": _bucketize,
}
