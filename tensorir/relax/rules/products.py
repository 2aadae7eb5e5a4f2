"""Types of products: matrices, outer products, sums over indices."""

from __future__ import annotations

from tensorir.relax import nodes as r
from tensorir.relax.rules.elementwise import broadcast
from tensorir.relax.rules.operands import (
    Contradiction,
    Rule,
    TypeOf,
    differ,
    dtype_or,
    int_of,
    members_of,
    product_of,
    say,
    tensor_of,
)
from tensorir.relax.subscripts import named
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64

__all__ = ["PRODUCTS"]


def _matmul(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    a, b = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), a.dtype)
    if dtype is a.dtype and a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.matmul takes operands of one type, and these are {a.dtype} and {b.dtype}.")
    if a.shape is None or b.shape is None:
        return r.TensorType(None, dtype)
    if not a.shape or not b.shape:
        raise Contradiction("R.matmul takes tensors of at least one dimension.")
    x = a.shape if len(a.shape) > 1 else (const(1, INT64), *a.shape)
    y = b.shape if len(b.shape) > 1 else (*b.shape, const(1, INT64))
    if differ(x[-1], y[-2]):
        raise Contradiction(f"R.matmul sums over sizes {say(x[-1])} and {say(y[-2])}, which differ.")
    batch, _ = broadcast(r.TensorType(x[:-2], None), r.TensorType(y[:-2], None), call.op)
    if batch is None:
        return r.TensorType(None, dtype, max(len(x), len(y)))
    rows = (x[-2],) if len(a.shape) > 1 else ()
    columns = (y[-1],) if len(b.shape) > 1 else ()
    return r.TensorType((*batch, *rows, *columns), dtype)


def _linear(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, w = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), x.dtype)
    if x.shape is None or w.shape is None or len(w.shape) != 2:
        return r.TensorType(None, dtype, x.ndim)
    if differ(x.shape[-1], w.shape[1]):
        raise Contradiction(f"R.linear sums over sizes {say(x.shape[-1])} and {say(w.shape[1])}, which differ.")
    return r.TensorType((*x.shape[:-1], w.shape[0]), dtype)


def _outer(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    a, b = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    if a.shape is None or b.shape is None:
        return r.TensorType(None, a.dtype, 2)
    return r.TensorType((product_of(a.shape), product_of(b.shape)), a.dtype)


def _einsum(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    fields = members_of(call, type_of)
    shapes = [f.shape for f in fields or () if f.shape is not None]
    if fields is None or len(shapes) < len(fields):
        return r.TensorType(None, fields[0].dtype if fields else None)
    try:
        inputs, output = named(str(call.attrs.get("subscripts", "")), [len(shape) for shape in shapes])
    except ValueError as wrong:
        raise Contradiction(f"R.einsum cannot be applied: {wrong}.") from None
    sizes: dict[str, n.Expr] = {}
    for letters, shape in zip(inputs, shapes, strict=True):
        for letter, size in zip(letters, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if int_of(known) == 1:
                sizes[letter] = size
            elif int_of(size) != 1 and differ(known, size):
                raise Contradiction(f"R.einsum gives {letter!r} the sizes {say(known)} and {say(size)}.")
    return r.TensorType(tuple(sizes[letter] for letter in output), fields[0].dtype)


PRODUCTS: dict[str, Rule] = {
    "matmul": _matmul,
    "linear": _linear,
    "outer": _outer,
    "einsum": _einsum,
}
"""The rules, by the word of the table of operators."""
