"""Axes that an attribute names, and folds along them."""

# Attributes hold values of any type here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir.ir.build import literal
from tensorir.ir.nodes import Expr
from tensorir.ir.types import Interval
from tensorir.lifting.emission.folds import folded
from tensorir.lifting.emission.tensors import spread
from tensorir.relax.lift.elementwise import whole
from tensorir.relax.lift.values import Value, dims_of, under

__all__ = ["axes_of", "placed", "reduced", "total"]


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes that an attribute names, from the front; all of them where it names none."""
    if axis is None:
        return tuple(range(rank))
    named: Sequence[Any] = axis if isinstance(axis, tuple | list) else (axis,)
    numbers = [whole(a) for a in named]
    if outside := [a for a in numbers if rank and not -rank <= a < rank]:
        raise ValueError(f"axis {outside[0]} of {rank}")
    return tuple(dict.fromkeys(sorted(a % rank for a in numbers))) if rank else ()


def placed(expr: Expr, names: Sequence[str], shape: Sequence[int]) -> Value:
    """A value from an expression whose dims have these names, axis by axis."""
    return Value(under(expr, dict(zip(names, dims_of(len(shape)), strict=True))), tuple(shape))


def reduced(name: str, start: Any, x: Value, axes: Sequence[int], keepdims: Any = False) -> Value:
    """All elements along some axes folded into one."""
    dims = dims_of(x.rank)
    over = [dims[a] for a in axes]
    expr = spread(x.expr, {d: Interval(0, x.shape[a]) for d, a in zip(over, axes, strict=True)})
    if over:
        expr = folded(name, literal(start, x.element), expr, over, x.element)
    if keepdims:
        return Value(expr, tuple(1 if k in axes else s for k, s in enumerate(x.shape)))
    kept = [k for k in range(x.rank) if k not in axes]
    return placed(expr, [dims[k] for k in kept], [x.shape[k] for k in kept])


def total(x: Value, axes: Sequence[int], keepdims: Any = True) -> Value:
    """The sum along axes."""
    return reduced("plus", 0, x, axes, keepdims)
