"""Types of the operators that work element by element."""

from __future__ import annotations

from tensorir.relax import nodes as r
from tensorir.relax.rules.operands import (
    Contradiction,
    Rule,
    Sizes,
    TypeOf,
    differ,
    dtype_or,
    int_of,
    say,
    tensor_of,
)
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import BOOL
from tensorir.tir.script.extents import linear

__all__ = ["ELEMENTWISE", "broadcast", "same"]


def same(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    return tensor_of(call, 0, type_of)


def _with_dtype(call: r.Call, type_of: TypeOf, key: str) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TensorType(x.shape, dtype_or(call.attrs.get(key), x.dtype), x.ndim)


def broadcast(a: r.TensorType, b: r.TensorType, op: object) -> tuple[Sizes | None, int]:
    """The shape of two operands together, and how many dimensions it has."""
    ndim = max(a.ndim, b.ndim) if a.ndim >= 0 and b.ndim >= 0 else -1
    if a.shape is None or b.shape is None:
        return None, ndim
    sizes: list[n.Expr] = []
    for k in range(1, max(len(a.shape), len(b.shape)) + 1):
        x = a.shape[-k] if k <= len(a.shape) else None
        y = b.shape[-k] if k <= len(b.shape) else None
        if x is None or y is None:
            sizes.append(x if y is None else y)  # type: ignore[arg-type]
        elif int_of(x) == 1:
            sizes.append(y)
        elif int_of(y) == 1 or x == y:
            sizes.append(x)
        elif differ(x, y):
            raise Contradiction(f"R.{op} cannot broadcast sizes {say(x)} and {say(y)}.")
        elif int_of(x) is not None or int_of(y) is not None:
            sizes.append(x if int_of(x) is not None else y)
        elif linear(x) == linear(y):
            sizes.append(x)
        else:
            return None, ndim
    return tuple(reversed(sizes)), ndim


def _binary(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    a, b = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.{call.op} takes operands of one type, and these are {a.dtype} and {b.dtype}.")
    shape, ndim = broadcast(a, b, call.op)
    return r.TensorType(shape, a.dtype or b.dtype, ndim)


def _compare(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    result = _binary(call, type_of)
    assert isinstance(result, r.TensorType)
    return r.TensorType(result.shape, BOOL, result.ndim)


def _predicate(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TensorType(x.shape, BOOL, x.ndim)


def _ternary(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    a, b, c = (tensor_of(call, k, type_of) for k in range(3))
    shape, ndim = broadcast(a, b, call.op)
    shape, ndim = broadcast(r.TensorType(shape, a.dtype, ndim), c, call.op)
    return r.TensorType(shape, a.dtype, ndim)


def _where(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    c, a, b = (tensor_of(call, k, type_of) for k in range(3))
    if c.dtype is not None and not c.dtype.is_bool:
        raise Contradiction(f"the condition of R.where is bool, and this is {c.dtype}.")
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.where takes values of one type, and these are {a.dtype} and {b.dtype}.")
    shape, ndim = broadcast(a, b, call.op)
    shape, ndim = broadcast(c, r.TensorType(shape, a.dtype, ndim), call.op)
    return r.TensorType(shape, a.dtype, ndim)


ELEMENTWISE: dict[str, Rule] = {
    "unary": same,
    "first": same,
    "predicate": _predicate,
    "binary": _binary,
    "compare": _compare,
    "ternary": _ternary,
    "where": _where,
    "astype": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "wrap": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "like": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "eye_like": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "argsort": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "quantize": lambda call, type_of: _with_dtype(call, type_of, "out_dtype"),
}
"""The rules, by the word of the table of operators."""
