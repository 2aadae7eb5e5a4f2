"""Which operations have slopes that may be multiplied as they are.

Where all that an operation computes has a part in a result, slopes are what they are by hand. Elsewhere 0 comes back to
what nobody reads, and 0 times the slope that 1 / x has at 0, or that a product with infinity has, is not a number
(`safe_derivatives`). What is needed is what `tensorir.analysis.needed` says; factors and divisors that are finite
constants need no look at it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeGuard

from tensorir.analysis.needed import needed
from tensorir.ir.nodes import Call, Expr, Fencil, Literal
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import Dims

__all__ = ["finite_derivatives"]


def finite_derivatives(fencil: Fencil, read: Mapping[str, Dims] | None = None) -> frozenset[int]:
    """The operations on floats that are needed as a whole, or whose slopes are finite constants, by identity.

    `read` has the points of the results that somebody reads, as for `needed`.

    >>> from tensorir.text import parse
    >>> f = parse("f(x: tensor<float>, y: tensor<float>) { y ← x × (if x > 0.0 then x × x else x / 3.0); }")
    >>> found = finite_derivatives(f)
    >>> [str(e) for e in postorder(*values(f.closures)) if id(e) in found]
    ['x / 3.0', 'if x > 0.0 then x × x else x / 3.0', 'x × (if x > 0.0 then x × x else x / 3.0)']
    """
    found = frozenset(
        id(e) for e in postorder(*values(fencil.closures)) if isinstance(e, Call) and _has_finite_slopes(e)
    )
    return found | needed(fencil, read).whole


def _has_finite_slopes(e: Call) -> bool:
    match e:
        case Call("multiplies", args):
            return any(map(_is_finite, args))
        case Call("divides", (_, by)):
            return _is_finite(by) and by.value != 0
        case _:
            return False


def _is_finite(e: Expr) -> TypeGuard[Literal]:
    return isinstance(e, Literal) and math.isfinite(e.value)
