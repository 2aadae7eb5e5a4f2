"""Products of tensors: `reduce(+, 0)(A × B)`, which the lowering makes one contraction of."""

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.ir.types import FLOAT32, INT32, Scalar
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.lift.elementwise import converted, element
from tensorir.relax.lift.values import Value, apply, fold, made
from tensorir.relax.operators import named
from tensorir.tir.lift.intrinsics import cast, op

__all__ = ["PRODUCTS", "computed_in", "matmul"]


def computed_in(kind: Scalar) -> Scalar:
    """The element in which products that give an element are summed: integers wrap around, as wide as they are."""
    return kind if kind.is_integer or (kind.is_float and kind.bits >= 32) else FLOAT32


def matmul(x: Value, y: Value, out_dtype: Any = None, transposed: bool = False) -> Value:
    """The product of the last two axes; axes before them broadcast, and one axis is a row or a column."""
    kind = element(out_dtype, x.element)
    inner = computed_in(kind)
    row, column = x.rank == 1, y.rank == 1
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    rows, columns = (() if row else x.shape[-2:-1]), (() if column else (y.shape[-2] if transposed else y.shape[-1],))
    size = x.shape[-1]
    if (y.shape[-1] if column or transposed else y.shape[-2]) != size:
        raise ValueError(f"{x.shape} and {y.shape} do not fit")

    def before(ix: Any, v: Value) -> list[Term]:
        shape = v.shape[:-2]
        batch = ix[: len(lead)][len(lead) - len(shape) :]
        return [Number(0, INT32) if s == 1 else i for i, s in zip(batch, shape, strict=True)]

    def term(ix: Any, further: Any, left: Any, right: Any) -> Term:
        (k,) = further
        a = left(k) if row else left(*before(ix, x), ix[len(lead)], k)
        place = (k,) if column else (*before(ix, y), *((ix[-1], k) if transposed else (k, ix[-1])))
        b = right(*place)
        return op("multiplies", cast(a, inner), cast(b, inner))

    return converted(fold("plus", 0, (*lead, *rows, *columns), {"k": size}, term, x, y), kind)


def _linear(x: Value, weight: Value, bias: Value | None = None, out_dtype: Any = None) -> Value:
    found = matmul(x, weight, out_dtype, transposed=weight.rank > 1)
    return found if bias is None else apply("plus", found, bias)


def _outer(x: Value, y: Value) -> Value:
    return made(
        (*x.shape, *y.shape),
        lambda ix, a, b: op("multiplies", a(*ix[: x.rank]), b(*ix[x.rank :])),
        x,
        y,
    )


def _einsum(operands: Any, subscripts: str) -> Value:
    """A sum of products over the letters that the result lacks."""
    values: tuple[Value, ...] = operands
    inputs, right = named(subscripts, [v.rank for v in values])
    sizes: dict[str, int] = {}
    for value, part in zip(values, inputs, strict=True):
        for letter, size in zip(part, value.shape, strict=True):
            if size != 1 and sizes.get(letter, 1) not in (1, size):
                raise ValueError(f"{letter!r} has the sizes {sizes[letter]} and {size}")
            sizes[letter] = size if size != 1 else sizes.get(letter, 1)
    over = {f"k{c}": size for c, size in sizes.items() if c not in right}
    kind = values[0].element

    def term(ix: Any, further: Any, *reads: Any) -> Term:
        place = {**dict(zip(right, ix, strict=True)), **{n[1:]: i for n, i in zip(over, further, strict=True)}}
        found: Term | None = None
        for read, value, part in zip(reads, values, inputs, strict=True):
            # a dimension of size 1 is the same along a letter of any size
            one = read(*(Number(0, INT32) if s == 1 else place[c] for c, s in zip(part, value.shape, strict=True)))
            found = one if found is None else op("multiplies", found, one)
        assert found is not None
        return found

    shape = [sizes[c] for c in right]
    if not over:
        return made(shape, lambda ix, *reads: term(ix, (), *reads), *values)
    return converted(fold("plus", 0, shape, over, term, *values), kind)


PRODUCTS: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "linear": _linear,
    "outer": _outer,
    "einsum": _einsum,
}
"""Sums of products."""
