"""Reductions of one axis in a form in which XLA is right, and fast.

On the CPU, XLA gives reductions of 4,096 floats or more to a library (JAX 0.10.2). Its `max` and `min` drop NaN, and
where there are tens of thousands of columns it goes through them one by one: a product with ones, or a loop over the
rows, takes 0.02 to 0.09 of the time (`tests/benchmarks/forms.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.elementwise import SCALAR
from lowering.manual_axes import axes_of, varying
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import scalar_of

__all__ = [
    "MONOIDS",
    "by_rows",
    "identity_of",
    "parts_pay",
    "reduced",
    "reduced_in_parts",
    "reduced_numbers",
]

MONOIDS: dict[str, Callable[..., jax.Array]] = {
    "plus": lax.add, "multiplies": lax.mul, "min": lax.min, "max": lax.max, "and": lax.bitwise_and,
    "or": lax.bitwise_or, "xor": lax.bitwise_xor, "bit_and": lax.bitwise_and, "bit_or": lax.bitwise_or,
    "bit_xor": lax.bitwise_xor,
}  # fmt: skip
"""The lowering of the builtins that may be folded in any order."""


def identity_of(op: str, dtype: Any) -> np.ndarray[Any, Any]:
    """What leaves the other operand of such a builtin as it is, as an array without axes.

    >>> identity_of("min", np.dtype("int8")), identity_of("max", np.dtype("float32"))
    (array(127, dtype=int8), array(-inf, dtype=float32))
    """
    identity, element = TABLE[op].identity, scalar_of(dtype)
    assert identity is not None and element is not None
    return np.asarray(identity(element)).astype(dtype)


LIBRARY = 4_096
"""Elements from which on XLA uses the library."""
COLUMNS = 1_024
"""Columns of an array in memory from which on a loop over the rows is faster than the library."""
MADE = 8_192
"""The same for an array that is made: the library makes it while it reduces it."""


PARTS = (8, 6, 5, 7, 4)
"""Into how many parts an axis is divided that are combined point by point; the first one also where a rest is left."""


def reduced(
    x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int, platform: str, loose: bool = False,
    made: bool = True,
) -> jax.Array:  # fmt: skip
    """An array reduced along an axis by an operation of `MONOIDS`; a number, not NaN, goes along with every row.

    `platform` is the one of JAX that is compiled for. With `loose`, `max` and `min` may drop a NaN; `made` says that
    the array does not stand in memory.
    """
    if by_rows(x.dtype, prod(x.shape[axis + 1 :]), made, platform):
        return _by_rows(x, start, op, axis)
    found = _reduced(x, start, op, axis)
    return found if loose or not _minds_nan(x, op, platform) else _with_nan(x, found, axis)


def parts_pay(x: jax.Array, axis: int, platform: str) -> bool:
    """Whether an array that is made of others at offsets is better combined in parts than given to the library."""
    return x.dtype.kind in "fV" and x.size >= LIBRARY and x.shape[axis] >= 2 * PARTS[0] and platform == "cpu"


def reduced_in_parts(
    x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int, platform: str, loose: bool = False
) -> jax.Array:
    """The same as `reduced`: parts of the axis are combined point by point and stored, and then what is stored.

    XLA makes what the library reduces without vector instructions, on one thread: this takes 0.4 of the time for a sum
    of squares of a Laplacian (`python -m tests.benchmarks sum`). Differentiated as the sum that it is.

    >>> reduced_in_parts(jax.numpy.ones((3, 21)), identity_of("plus", np.dtype("float32")), "plus", 1, "cpu").tolist()
    [21.0, 21.0, 21.0]
    """
    extent, combine, zero = x.shape[axis], SCALAR[op], np.zeros((), x.dtype)
    count = next((p for p in PARTS if extent % p == 0), PARTS[0])
    size = extent // count

    def folded(x: jax.Array) -> jax.Array:
        parts = [lax.slice_in_dim(x, k * size, (k + 1) * size, axis=axis) for k in range(count)]
        stored = lax.optimization_barrier(reduce(combine, parts))
        found = reduced(stored, start, op, axis, platform, loose, made=False)
        rest = [lax.index_in_dim(x, k, axis, keepdims=False) for k in range(size * count, extent)]
        return reduce(combine, rest, found)

    if op != "plus":
        return folded(x)
    whole = jax.custom_jvp(folded)
    whole.defjvp(lambda xs, ts: (whole(*xs), lax.reduce(ts[0], zero, lax.add, (axis,))))
    return whole(x)


def reduced_numbers(
    x: jax.Array, number: Any, start: np.ndarray[Any, Any], op: str, axis: int, platform: str
) -> jax.Array:
    """The same of an array with a number in the place of each NaN."""

    def instead() -> jax.Array:
        return lax.select(lax.ne(x, x), lax.full_like(x, number), x)

    if not _minds_nan(x, op, platform) or by_rows(x.dtype, prod(x.shape[axis + 1 :]), True, platform):
        return reduced(instead(), start, op, axis, platform, loose=True)
    # the library takes no selections: one would be stored first, which takes a third of a softmax
    found = _reduced(x, start, op, axis)
    return lax.cond(_may_hold_nan(x), lambda: _reduced(instead(), start, op, axis), lambda: found)


def _reduced(x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int) -> jax.Array:
    """An array reduced by the library; the derivative of an extreme is the mean over the elements that equal it.

    JAX differentiates a reduction from a number other than the identity by halving the axis again and again, which
    XLA compiles for seconds, and its own extremes divide by how many elements equal them: by zero where one is NaN.
    """

    def library(x: jax.Array) -> jax.Array:
        return lax.reduce(x, start, MONOIDS[op], (axis,))

    if op not in ("min", "max") or x.dtype.kind not in "fV":
        return library(x)
    extreme = jax.custom_jvp(library)

    @extreme.defjvp
    def _(xs: tuple[jax.Array], ts: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        found, zero = extreme(*xs), np.zeros((), x.dtype)
        equal = lax.eq(xs[0], lax.broadcast_in_dim(found, x.shape, [k for k in range(x.ndim) if k != axis]))
        total = lax.reduce(lax.select(equal, ts[0], lax.full_like(ts[0], 0)), zero, lax.add, (axis,))
        count = lax.reduce(equal.astype(x.dtype), zero, lax.add, (axis,)) + lax.eq(found, start).astype(x.dtype)
        return found, lax.div(total, lax.max(count, lax.full_like(count, 1)))

    return extreme(x)


def _minds_nan(x: jax.Array, op: str, platform: str) -> bool:
    """Whether the library reduces an array, in a way of its own where it holds NaN."""
    return op in ("min", "max") and x.dtype.kind in "fV" and x.size >= LIBRARY and platform == "cpu"


def by_rows(element: Any, columns: int, made: bool, platform: str) -> bool:
    """Whether rows of so many columns are better combined one after the other than given to the library."""
    return np.dtype(element).kind in "fV" and columns >= (MADE if made else COLUMNS) and platform == "cpu"


def _by_rows(x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int) -> jax.Array:
    combine = SCALAR[op]
    first = varying(lax.full([n for k, n in enumerate(x.shape) if k != axis], start, x.dtype), axes_of(x))
    if op == "plus" and x.dtype.itemsize > 2:
        total = lax.dot_general(lax.full(x.shape[axis : axis + 1], 1, x.dtype), x, (((0,), (axis,)), ((), ())))
        return total if start == 0 else lax.add(first, total)
    return lax.fori_loop(
        0, x.shape[axis], lambda k, a: combine(a, lax.dynamic_index_in_dim(x, k, axis, keepdims=False)), first
    )


def _with_nan(x: jax.Array, found: jax.Array, axis: int) -> jax.Array:
    """The extremes of rows, NaN where a row holds one."""

    def looked() -> jax.Array:
        missing = lax.reduce(lax.ne(x, x), False, lax.bitwise_or, (axis,))
        return lax.select(missing, lax.full_like(found, np.nan), found)

    return lax.cond(_may_hold_nan(x), looked, lambda: found)


def _may_hold_nan(x: jax.Array) -> jax.Array:
    """Whether the sum is NaN: it is where an element is, and it is found as fast as an extreme."""
    total = lax.reduce(x, np.zeros((), x.dtype), lax.add, tuple(range(x.ndim)))
    return lax.ne(total, total)
