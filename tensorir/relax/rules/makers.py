"""Types of the operators that make tensors."""

from __future__ import annotations

import math

from tensorir.relax import nodes as r
from tensorir.relax.rules.operands import (
    Rule,
    TypeOf,
    axis_of,
    combine,
    dtype_or,
    members_of,
    product_of,
    shape_argument,
    tensor_of,
)
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import FLOAT32, INT64

__all__ = ["MAKERS"]


def _full(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    value = tensor_of(call, 1, type_of)
    return r.TensorType(shape_argument(call, 0, type_of), dtype_or(call.attrs.get("dtype"), value.dtype))


def _filled(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    return r.TensorType(shape_argument(call, 0, type_of), dtype_or(call.attrs.get("dtype"), None))


def _arange(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    values = [arg.value for arg in call.args if isinstance(arg, r.PrimValue)]
    dtype = dtype_or(call.attrs.get("dtype"), FLOAT32 if any(v.dtype.is_float for v in values) else INT64)
    numbers = [v.value for v in values if isinstance(v, n.IntImm | n.FloatImm)]
    if len(numbers) != len(call.args) or not numbers:
        return r.TensorType(None, dtype, 1)
    start, stop = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) > 2 else 1
    return r.TensorType((const(max(0, math.ceil((stop - start) / (step or 1))), INT64),), dtype)


def _eye(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    sizes = [arg.value for arg in call.args if isinstance(arg, r.PrimValue)]
    dtype = dtype_or(call.attrs.get("dtype"), FLOAT32)
    if not sizes:
        return r.TensorType(None, dtype, 2)
    columns = sizes[1] if len(sizes) > 1 else sizes[0]
    return r.TensorType((combine("+", sizes[0], 0), combine("+", columns, 0)), dtype)


def _one_hot(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, depth = tensor_of(call, 0, type_of), call.attrs.get("depth")
    value = type_of(call.args[1]) if len(call.args) > 1 else None
    dtype = value.dtype if isinstance(value, r.PrimValueType) else None
    if x.shape is None or not isinstance(depth, int):
        return r.TensorType(None, dtype)
    position = axis_of(call.attrs.get("axis"), len(x.shape) + 1, call.op)
    return r.TensorType((*x.shape[:position], const(depth, INT64), *x.shape[position:]), dtype)


def _meshgrid(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    fields = members_of(call, type_of)
    if fields is None or any(f.shape is None for f in fields):
        return r.ObjectType()
    shape = tuple(product_of(f.shape or ()) for f in fields)
    # For "xy" TVM states the sizes of "ij", and computes the others.
    if call.attrs.get("indexing") == "xy" and len(shape) > 1:
        return r.TupleType(tuple(r.TensorType(None, f.dtype, len(shape)) for f in fields))
    return r.TupleType(tuple(r.TensorType(shape, f.dtype) for f in fields))


def _hamming(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    dtype = dtype_or(call.attrs.get("dtype"), FLOAT32)
    size = call.args[0].value if call.args and isinstance(call.args[0], r.PrimValue) else None
    return r.TensorType(None, dtype, 1) if size is None else r.TensorType((combine("+", size, 0),), dtype)


MAKERS: dict[str, Rule] = {
    "full": _full,
    "filled": _filled,
    "arange": _arange,
    "eye": _eye,
    "hamming": _hamming,
    "one_hot": _one_hot,
    "meshgrid": _meshgrid,
}
"""The rules, by the word of the table of operators."""
