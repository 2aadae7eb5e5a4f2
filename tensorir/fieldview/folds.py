"""Folds of fields: over the neighbours along a local dimension, and along dims of their own.

The names are those of NumPy and xarray, as functions (`ti.sum(h, LEV)`) and as methods of fields (`h.sum(LEV)`): they
stand for Python's own in this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, cast

import numpy as np

from tensorir.fieldview.array_types import Value
from tensorir.fieldview.remedies import remedy_of_fold
from tensorir.fieldview.trace import current
from tensorir.fieldview.traced import Traced, assignable, make, wrap
from tensorir.integers.dims import Dims
from tensorir.ir import build
from tensorir.ir.dimensions import Dimension
from tensorir.ir.nodes import Expr
from tensorir.ir.types import BOOL, FLOAT32, NEIGHBOUR, Scalar, TensorType, TupleElement
from tensorir.runtime.errors import refuse
from tensorir.runtime.locations import here

_ALONG = {"plus": "sum", "max": "max", "min": "min"}
"""The fold along a dim of the field for each builtin that folds over neighbours, for the hint of V17."""


def _over(x: Any, axis: Any, op: str, init: Callable[[Scalar], Any]) -> Any:
    """The fold over the neighbours along a local dimension by the builtin `op`; absent neighbours are skipped.

    `init` gives the initial value for an element type. Raises V17 for tuples and for dims that are not local.
    """
    value = wrap(x)
    if isinstance(value.element, TupleElement):
        raise refuse("V17", "a tuple cannot be reduced as a whole.", "reduce its members.", at=here())
    if not isinstance(axis, Dimension):
        raise refuse("V17", "axis is the local dimension to reduce over.", "write axis=V2EDim.", at=here())
    name = f"{NEIGHBOUR}{axis}" if f"{NEIGHBOUR}{axis}" in value.dims else str(axis)
    if name not in value.dims:
        message = f"the field has no dim {axis} to reduce over, only {', '.join(value.dims) or 'none'}."
        raise refuse("V17", message, "shift it first: f(V2E).", at=here())
    if not (name.startswith(NEIGHBOUR) or axis.kind == "local" or str(axis) in current().locals):
        message = f"{axis} is a dim of the field, and no local dimension of an offset."
        raise refuse("V17", message, f"along {axis} itself fold by ti.{_ALONG.get(op, op)}(x, {axis}).", at=here())
    return assignable(_summed_wide(value, op, lambda x: _reduced(x, name, op, init(value.element))))


def _is_narrow(element: Any) -> bool:
    """True for floats of fewer than 32 bits: their sums leave their range, and small terms are lost in large ones."""
    return isinstance(element, Scalar) and element.is_float and element.bits < 32


def _summed_wide(x: Traced, op: str, fold: Callable[[Expr], Expr]) -> Expr:
    """`fold` of a field by the builtin `op`.

    Sums of narrow floats are done in float32 and rounded once, as NumPy's means.
    """
    if op != "plus" or not _is_narrow(x.element):
        return fold(x.expr)
    wide = make("cast", x, static=(FLOAT32,))
    return make("cast", Traced(fold(wide.expr)), static=(x.element,)).expr


def _reduced(x: Expr, name: str, op: str, init: Any) -> Expr:
    """The fold of an expression along one dim by a builtin."""
    element = x.tensor.element
    assert isinstance(element, Scalar)
    place = TensorType(element, x.tensor.dims.without(name))
    start, f = build.literal(init, element, here()), build.operator(op, place, place, span=here())
    return build.reduce(f, start, x, dim=name, span=here())


def neighbor_sum(x: Value, *, axis: Dimension) -> Value:
    """The sum over the neighbours along a local dimension; 0 where there are none.

    Of a field with this dim, as `f(V2E)` has, of numbers: on its other dims, of its element type. Units: those of `x`.
    Raises V17 where the field has no such dim.
    """
    return _over(x, axis, "plus", lambda e: 0)


def max_over(x: Value, *, axis: Dimension) -> Value:
    """The largest neighbour; the least value of the type where there are none. Of bools: whether any is true.

    Dims, element types, units and errors are as of `neighbor_sum`.
    """
    if wrap(x).element == BOOL:
        return _over(x, axis, "or", lambda e: False)
    return _over(x, axis, "max", _least)


def min_over(x: Value, *, axis: Dimension) -> Value:
    """The smallest neighbour; the greatest value of the type where there are none. Of bools: whether all are true.

    Dims, element types, units and errors are as of `neighbor_sum`.
    """
    if wrap(x).element == BOOL:
        return _over(x, axis, "and", lambda e: True)
    return _over(x, axis, "min", _greatest)


Along = Dimension | str | Sequence["Dimension | str"] | EllipsisType | None
"""The dims of a fold: one, several, or (None) all of the field's."""


def _refuse_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise V17 for any option of xarray's and NumPy's folds other than None or False."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise refuse("V17", f"ti.{name} takes no {option}={value!r}.", remedy_of_fold(name, option), at=here())


def _listed(dim: Any, name: str) -> list[Any] | None:
    """The dims of a fold as a list, None for all; raises V17 for what names no dims, as an axis does."""
    if dim is None or dim is ...:
        return None
    if isinstance(dim, Dimension | str):
        return [dim]
    try:
        return list(dim)
    except TypeError:
        message = f"{dim!r} is no dim to fold along."
        raise refuse("V17", message, f"name dims: ti.{name}(x, I).", at=here()) from None


def _folded(
    x: Any, dim: Along, name: str, op: str, init: Callable[[Scalar], Any], options: Mapping[str, Any]
) -> Traced:
    """The fold of a field along dims that are not local, by the builtin `op`; `name` is the function in messages.

    `dim` is None or ... for all dims; `init` gives the initial value for an element type. Raises V17 (see `sum`).
    """
    current()
    _refuse_options(name, options)
    value = wrap(x)
    element = value.element
    if isinstance(element, TupleElement):
        raise refuse("V17", "a tuple cannot be folded as a whole.", "fold its members.", at=here())
    if (element == BOOL) != (op in ("and", "or")):
        takes = "bools" if element != BOOL else "numbers"
        message = f"ti.{name} is for fields of {takes}, and this is one of {element}."
        help = "compare first: ti.any(x > 0)." if element != BOOL else "convert it: ti.astype(x, ti.int32)."
        raise refuse("V17", message, help, at=here())
    if op == "plus" and element.is_integer and element.bits < 32:
        message = f"a sum of {element} would wrap around in {element} (xarray's has 64 bits)."
        raise refuse("V17", message, f"convert it: ti.{name}(ti.astype(x, ti.int32)).", at=here())
    dims_folded = _listed(dim, name)
    names = list(dict.fromkeys(map(str, value.dims if dims_folded is None else dims_folded)))
    for dim_name in names:
        if dim_name not in value.dims:
            has = ", ".join(value.dims) or "none"
            message = f"the field has no dim {dim_name} to fold along, only {has}."
            raise refuse("V17", message, "name dims that it has.", at=here())
        if dim_name.startswith(NEIGHBOUR) or dim_name in current().locals:
            message = f"{dim_name.removeprefix(NEIGHBOUR)} holds neighbours, some of which may be absent."
            raise refuse("V17", message, "fold over them by ti.neighbor_sum, ti.max_over or ti.min_over.", at=here())
    current().named.update(names)

    def folded(total: Expr) -> Expr:
        for dim_name in names:
            total = _reduced(total, dim_name, op, init(element))
        return total

    return assignable(_summed_wide(value, op, folded))


def _least(e: Scalar) -> Any:
    return -np.inf if e.is_float else e.range.start


def _greatest(e: Scalar) -> Any:
    return np.inf if e.is_float else e.range.stop - 1


def sum(x: Value, dim: Along = None, **options: Any) -> Value:
    """The sum along dims: one (`LEV` or its name), several, or all of the field's.

    Of a field of numbers: on its other dims, of its element type. Units: those of `x`. NaN makes the sum NaN, as
    `skipna=False` does in xarray. Raises V17 for dims that the field lacks, for neighbours (`ti.neighbor_sum`), and for
    integers of 8 and 16 bits, whose sum soon leaves their range.

    >>> import numpy as np
    >>> import tensorir as ti
    >>> I, J = ti.dims("I J")
    >>> @ti.field_operator
    ... def shares(h):
    ...     return h / ti.sum(h, J)
    >>> np.asarray(shares(ti.as_field([I, J], np.array([[1.0, 3.0], [2.0, 2.0]]))).data)
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    return cast("Value", _folded(x, dim, "sum", "plus", lambda e: 0, options))


def mean(x: Value, dim: Along = None, weights: Any = None, **options: Any) -> Value:
    """The mean along dims: one (`LAT` or its name), several, or all of the field's; with `weights` the weighted one.

    Of a field of floats: on its other dims, of its element type. Weights are a field, such as cell areas or
    `ti.cos(ti.radians(ti.coord(t, "lat")))`; they need not have all of the dims, and may have
    others, which the mean then has. Units: those of `x`. NaN makes the mean NaN, and that of no points is NaN. Errors:
    as of `ti.sum`.
    """
    current()
    _refuse_options("mean", options)
    value, dim = wrap(x), _listed(dim, "mean")  # a list, since it is read twice
    if not (isinstance(value.element, Scalar) and value.element.is_float):
        message = f"a mean is one of floats, and this is {value.element}."
        raise refuse("V17", message, "convert it: ti.astype(x, ti.float64).", at=here())
    if _is_narrow(value.element):
        wide, weight = (None if v is None else make("cast", wrap(v), static=(FLOAT32,)) for v in (value, weights))
        return cast("Value", make("cast", wrap(mean(cast("Value", wide), dim, weight)), static=(value.element,)))
    if weights is None:
        total = _folded(value, dim, "mean", "plus", lambda e: 0, {})
        count = math.prod(len(i) for d, i in value.type.dims.items if d not in total.dims)
        return cast("Value", total / float(count) if count else total * math.nan)
    weight = wrap(weights)
    both = value * weight
    over = [d for d in both.dims if d not in _folded(both, dim, "mean", "plus", lambda e: 0, {}).dims]
    others = [d for d in over if d not in weight.dims]
    if others:
        value = wrap(mean(cast("Value", value), others))
    weighed, points = value * weight, both.type.dims
    weight = make("subset", weight, static=(Dims(tuple((d, points[d]) for d in weight.dims)),))
    over = [d for d in over if d not in others]
    return cast("Value", sum(weighed, over) / sum(cast("Value", weight), over))


def _extreme(name: str, op: str, init: Callable[[Scalar], Any]) -> Callable[..., Any]:
    """The function `max` or `min` on fields, with its docstring."""

    def function(x: Any, dim: Along = None, **options: Any) -> Any:
        return _folded(x, dim, name, op, init, options)

    function.__name__ = function.__qualname__ = name
    which, where_none = ("largest", "least") if name == "max" else ("smallest", "greatest")
    function.__doc__ = f"""The {which} value along dims: one (`LEV` or its name), several, or all of the field's.

    Of a field of numbers: on its other dims, of its element type; the {where_none} value of the type where there are no
    points. Units: those of `x`. NaN makes the result NaN. Errors: as of `ti.sum`.
    """
    return function


max = _extreme("max", "max", _least)
min = _extreme("min", "min", _greatest)


def any(x: Value, dim: Along = None, **options: Any) -> Value:
    """True if any value along dims is: one (`LEV` or its name), several, or all of the field's.

    Of a field of bools: on its other dims, of bools. Errors: as of `ti.sum`.
    """
    return cast("Value", _folded(x, dim, "any", "or", lambda e: False, options))


def all(x: Value, dim: Along = None, **options: Any) -> Value:
    """True if all values along dims are: one (`LEV` or its name), several, or all of the field's.

    Of a field of bools: on its other dims, of bools. Errors: as of `ti.sum`.
    """
    return cast("Value", _folded(x, dim, "all", "and", lambda e: True, options))


FOLDS: dict[str, Callable[..., Any]] = {"all": all, "any": any, "max": max, "mean": mean, "min": min, "sum": sum}
"""The folds along dims by the names under which `tensorir` and fields of operators have them."""

for _name, _fold in FOLDS.items():
    setattr(Traced, _name, _fold)
