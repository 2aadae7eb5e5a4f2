"""Types of the operators that reduce, sort or scan along axes."""

from __future__ import annotations

from tensorir.relax import nodes as r
from tensorir.relax.rules.operands import (
    Rule,
    TypeOf,
    axes_of,
    axis_of,
    dtype_or,
    product_of,
    tensor_of,
)
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64, DataType

__all__ = ["REDUCTIONS"]


def _reduce(call: r.Call, type_of: TypeOf, dtype: DataType | None = None) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    element = dtype or x.dtype
    keep = call.attrs.get("keepdims") is True
    axes = call.attrs.get("axis")
    if x.ndim < 0:
        return r.TensorType(() if axes is None and not keep else None, element)
    dropped = set(axes_of(axes, x.ndim, call.op))
    if x.shape is None:
        return r.TensorType(None, element, x.ndim if keep else x.ndim - len(dropped))
    one = const(1, INT64)
    sizes = [one if k in dropped else s for k, s in enumerate(x.shape) if keep or k not in dropped]
    return r.TensorType(tuple(sizes), element)


def _median(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    values = _reduce(call, type_of)
    axis = call.attrs.get("axis")
    if axis is None or (isinstance(axis, tuple) and len(axis) != 1):
        return values
    return r.TupleType((values, _reduce(call, type_of, INT64)))


def _scan(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    dtype = dtype_or(call.attrs.get("dtype"), x.dtype)
    if call.attrs.get("axis") is None:
        return r.TensorType(None if x.shape is None else (product_of(x.shape),), dtype, 1)
    return r.TensorType(x.shape, dtype, x.ndim)


def _topk(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    k, kind = call.attrs.get("k"), call.attrs.get("ret_type")
    index = dtype_or(call.attrs.get("dtype"), None)
    shape = x.shape
    if shape is not None and isinstance(k, int) and k > 0:
        axis = axis_of(call.attrs.get("axis"), len(shape), call.op)
        shape = (*shape[:axis], const(k, INT64), *shape[axis + 1 :])
    values, indices = r.TensorType(shape, x.dtype, x.ndim), r.TensorType(shape, index, x.ndim)
    return values if kind == "values" else indices if kind == "indices" else r.TupleType((values, indices))


def _bucketize(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TensorType(x.shape, DataType("int", 32) if call.attrs.get("out_int32") is True else INT64, x.ndim)


def _unique(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    along = len(call.args) > 5
    values = r.TensorType(None, x.dtype, x.ndim if along else 1)
    flags = [arg.value for arg in call.args[2:5] if isinstance(arg, r.PrimValue)]
    if len(flags) != len(call.args[2:5]) or not all(isinstance(flag, n.IntImm) for flag in flags):
        return r.ObjectType()
    wanted = sum(bool(flag.value) for flag in flags if isinstance(flag, n.IntImm))
    return r.TupleType((values, *[r.TensorType(None, INT64, 1)] * wanted)) if wanted else values


def _multinomial(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    samples = tensor_of(call, 2, type_of)
    return r.TensorType(samples.shape, dtype_or(call.attrs.get("dtype"), INT64), samples.ndim)


REDUCTIONS: dict[str, Rule] = {
    "reduce": _reduce,
    "median": _median,
    "argreduce": lambda call, type_of: _reduce(call, type_of, INT64),
    "scan": _scan,
    "topk": _topk,
    "bucketize": _bucketize,
    "unique": _unique,
    "nonzero": lambda call, type_of: r.TensorType(None, INT64, 2),
    "multinomial": _multinomial,
}
"""The rules, by the word of the table of operators."""
