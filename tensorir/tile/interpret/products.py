"""Products of matrices: for k ascending, each product added to the accumulator in turn.

Products of 8- and 16-bit floats and of tf32 are exact in float32, in which they are added up; float32 and float64 add
in their own precision. An accumulator of float16 is rounded once, at the end. Integers are exact, and wrap at the end.
"""

from __future__ import annotations

import numpy as np

from tensorir.tile.elements import Element
from tensorir.tile.interpret.rounding import Array, round_to

__all__ = ["product", "scaled_product", "whole_product"]


def product(lhs: Array, rhs: Array, acc: Array, element: Element) -> Array:
    """acc + sum over k of lhs[.., i, k] * rhs[.., k, j]."""
    inner = np.float64 if element.name == "f64" else np.float32
    a, b = lhs.astype(inner), rhs.astype(inner)
    total = acc.astype(inner)
    with np.errstate(all="ignore"):
        for k in range(a.shape[-1]):
            total += a[..., :, k, None] * b[..., k, None, :]
    return round_to(total.astype(np.float64), element) if element.name == "f16" else total


def whole_product(lhs: Array, rhs: Array, acc: Array, lhs_signed: bool, rhs_signed: bool) -> Array:
    """acc + sum over k of products of 8-bit integers, in 32 bits; sums are exact in float64."""
    a = (lhs if lhs_signed else lhs.view(np.uint8)).astype(np.float64)
    b = (rhs if rhs_signed else rhs.view(np.uint8)).astype(np.float64)
    return (np.matmul(a, b).astype(np.int64) + acc).astype(np.int32)


def scaled_product(lhs: Array, rhs: Array, acc: Array, lhs_scale: Array, rhs_scale: Array) -> Array:
    """acc + sum over k of (lhs * its scale) * (rhs * its scale), with a scale for each block of k."""
    a, b = lhs.astype(np.float32), rhs.astype(np.float32)
    block = a.shape[-1] // lhs_scale.shape[-1]
    with np.errstate(all="ignore"):
        a = a * np.repeat(lhs_scale.astype(np.float32), block, axis=-1)
        b = b * np.repeat(rhs_scale.astype(np.float32), block, axis=-2)
        total = acc.astype(np.float32)
        for k in range(a.shape[-1]):
            total += a[..., :, k, None] * b[..., k, None, :]
    return total
