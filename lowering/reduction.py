"""Reductions of one axis in a form in which XLA is right, and fast.

On the CPU, XLA gives reductions of 4,096 floats or more to a library (JAX 0.10.2). Its `max` and `min` drop NaN, and
where there are tens of thousands of columns it goes through them one by one: a product with ones, or a loop over the
rows, takes 0.02 to 0.09 of the time (`tests/benchmarks/forms.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax

from tensorir.builtins import TABLE
from tensorir.types import scalar_of

__all__ = ["MONOIDS", "by_rows", "identity_of", "reduced"]

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


def reduced(
    x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int, loose: bool = False, made: bool = True
) -> jax.Array:
    """An array reduced along an axis by an operation of `MONOIDS`; a number, not NaN, goes along with every row.

    With `loose`, `max` and `min` may drop a NaN; `made` says that the array does not stand in memory.
    """
    combine = MONOIDS[op]
    if by_rows(x.dtype, prod(x.shape[axis + 1 :]), made):
        return _by_rows(x, start, op, axis)
    found = lax.reduce(x, start, combine, (axis,))
    drops = op in ("min", "max") and x.dtype.kind in "fV" and x.size >= LIBRARY and jax.default_backend() == "cpu"
    return _with_nan(x, found, axis) if drops and not loose else found


def by_rows(element: Any, columns: int, made: bool) -> bool:
    """Whether rows of so many columns are better combined one after the other than given to the library."""
    return np.dtype(element).kind in "fV" and columns >= (MADE if made else COLUMNS) and jax.default_backend() == "cpu"


def _by_rows(x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int) -> jax.Array:
    combine = MONOIDS[op]
    first = lax.full([n for k, n in enumerate(x.shape) if k != axis], start, x.dtype)
    if op == "plus" and x.dtype.itemsize > 2:
        total = lax.dot_general(lax.full(x.shape[axis : axis + 1], 1, x.dtype), x, (((0,), (axis,)), ((), ())))
        return total if start == 0 else lax.add(first, total)
    return lax.fori_loop(
        0, x.shape[axis], lambda k, a: combine(a, lax.dynamic_index_in_dim(x, k, axis, keepdims=False)), first
    )


def _with_nan(x: jax.Array, found: jax.Array, axis: int) -> jax.Array:
    """The extremes of rows, NaN where a row holds one: its sum is, too, and a sum is found as fast as an extreme."""

    def looked() -> jax.Array:
        missing = lax.reduce(lax.ne(x, x), False, lax.bitwise_or, (axis,))
        return lax.select(missing, lax.full_like(found, np.nan), found)

    sums = lax.reduce(x, np.zeros((), x.dtype), lax.add, (axis,))
    suspect = lax.reduce(lax.ne(sums, sums), False, lax.bitwise_or, tuple(range(sums.ndim)))
    return lax.cond(suspect, looked, lambda: found)
