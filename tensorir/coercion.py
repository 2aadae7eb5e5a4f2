"""A value in a place of another type: cut along dims that are wider there, broadcast along those that it lacks.

>>> from tensorir.build import var
>>> from tensorir.types import tensor
>>> print(coerced(var("x", tensor("float", I=(0, 9))), tensor("float", I=(1, 5), J=(0, 2))))
add_dim(J, 0, 2, subset(x, I[1:5]))
"""

from __future__ import annotations

from tensorir.build import call
from tensorir.ir import Expr
from tensorir.types import Dims, TensorType

__all__ = ["coerced", "cut"]


def coerced(value: Expr, place: TensorType) -> Expr:
    """The value with exactly the dims of a place that it covers."""
    value = cut(value, place.dims)
    for name, interval in place.dims.items:
        if name not in value.tensor.dims:
            value = call("add_dim", value, static=(name, interval.start, interval.stop), span=value.span)
    return value


def cut(value: Expr, dims: Dims) -> Expr:
    """The value on the given intervals of those dims that it has."""
    have = value.tensor.dims
    cuts = tuple((n, i) for n, i in dims.items if n in have and have[n] != i)
    return call("subset", value, static=(Dims(cuts),), span=value.span) if cuts else value
