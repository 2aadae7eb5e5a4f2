"""Types of the operators on images."""

from __future__ import annotations

from tensorir.relax import nodes as r
from tensorir.relax.rules.networks import layout_sizes, ordered_sizes, unknown_sizes
from tensorir.relax.rules.operands import (
    Contradiction,
    Rule,
    TypeOf,
    dtype_or,
    shape_argument,
    tensor_of,
)
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64

__all__ = ["IMAGES"]


def _resize(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, size = tensor_of(call, 0, type_of), shape_argument(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), x.dtype)
    data = layout_sizes(call, x, "layout")
    if data is None or size is None:
        return unknown_sizes(call, dtype)
    sizes, letters = data
    space = [letter for letter in letters if letter not in "NC"]
    if len(size) == 1:
        size = size * len(space)
    if len(size) != len(space):
        raise Contradiction(f"R.{call.op} takes {len(space)} sizes, and this gives {len(size)}.")
    return r.TensorType(ordered_sizes(call, {**sizes, **dict(zip(space, size, strict=True))}), dtype)


def _grid_sample(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, grid = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    data = layout_sizes(call, x, "layout")
    if data is None or grid.shape is None or len(data[1]) != len(grid.shape):
        return unknown_sizes(call, x.dtype)
    sizes, letters = data
    space = [letter for letter in letters if letter not in "NC"]
    return r.TensorType(ordered_sizes(call, {**sizes, **dict(zip(space, grid.shape[2:], strict=True))}), x.dtype)


def _affine_grid(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, size = tensor_of(call, 0, type_of), shape_argument(call, 1, type_of)
    if x.shape is None or size is None:
        return r.TensorType(None, x.dtype)
    return r.TensorType((x.shape[0], const(len(size), INT64), *size), x.dtype)


IMAGES: dict[str, Rule] = {
    "resize": _resize,
    "grid_sample": _grid_sample,
    "affine_grid": _affine_grid,
}
"""The rules, by the word of the table of operators."""
