"""Operators of Relax that move elements: reshape, transpose, join, split, take, gather, scatter."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorir.tir.dtypes import DataType

__all__ = ["SHAPES", "Shape"]

Array = Any


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
    from tensorir.tir.interpret.code import compiled
    from tensorir.tir.interpret.machine import Machine

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
    kind = x.dtype if dtype is None else (dtype if isinstance(dtype, DataType) else DataType.parse(str(dtype))).numpy
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
