"""Operators that reduce, sort or scan along axes.

A reduction folds over the dims that it takes away, one after the other; the dims that stay keep their places.
"""

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tensorir.ir.build import call, literal, operator, scan
from tensorir.ir.types import BOOL, FLOAT64, INT32, INT64, Interval, TensorType
from tensorir.lifting.emission.folds import neutral
from tensorir.lifting.emission.tensors import cut, position, shifted, spread
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.lift.axes import axes_of, placed, reduced, total
from tensorir.relax.lift.elementwise import common, converted, element, whole, widened
from tensorir.relax.lift.reshaping import reshaped
from tensorir.relax.lift.values import Value, apply, dims_of, filled, made, number
from tensorir.tir.lift.intrinsics import choice, truth
from tensorir.tir.lift.intrinsics import number as numbered

__all__ = ["REDUCTIONS", "flat", "mean", "scanned", "softmax", "variance"]


def mean(x: Value, axes: Sequence[int], keepdims: Any = True) -> Value:
    """The mean along axes."""
    return apply("divides", total(x, axes, keepdims), float(prod(x.shape[a] for a in axes)))


def variance(x: Value, axes: Sequence[int], keepdims: Any = True) -> Value:
    """The mean of the squares of what the elements differ from their mean."""
    away = apply("minus", x, mean(x, axes))
    return mean(apply("multiplies", away, away), axes, keepdims)


def _fold(name: str) -> Callable[..., Value]:
    def compute(x: Value, axis: Any = None, keepdims: Any = False) -> Value:
        if x.element == BOOL:
            x = converted(x, INT32)
            return converted(compute(x, axis, keepdims), BOOL)
        wide = widened(x)
        return converted(reduced(name, neutral(name, wide.element), wide, axes_of(axis, x.rank), keepdims), x.element)

    return compute


def _statistic(make: Callable[[Value, Sequence[int], Any], Value]) -> Callable[..., Value]:
    def compute(x: Value, axis: Any = None, keepdims: Any = False) -> Value:
        wide = widened(x) if x.element.is_float else converted(x, FLOAT64)
        return converted(make(wide, axes_of(axis, x.rank), keepdims), x.element)

    return compute


def flat(x: Value) -> Value:
    """The elements in one row."""
    return reshaped(x, (x.size,))


def _best(largest: bool) -> Callable[..., Value]:
    """The first place of the largest (or smallest) element; NaN counts as one."""
    name = "max" if largest else "min"

    def compute(x: Value, axis: Any = None, keepdims: Any = False) -> Value:
        if x.element == BOOL:
            x = converted(x, INT32)
        if axis is None:
            found = compute(flat(x), 0, False)
            return Value(found.expr, (1,) * x.rank if keepdims else ())
        along = x.axis(whole(axis))
        best = reduced(name, neutral(name, x.element), x, (along,), True)

        def place(ix: Any, read: Any, top: Any) -> Term:
            here = truth("eq", read(*ix), top(*ix))
            if x.element.is_float:
                here = truth("or", here, truth("isnan", read(*ix)))
            return choice(here, ix[along], Number(x.shape[along], INT32))

        where = made(x.shape, place, x, best)
        return converted(reduced("min", x.shape[along], where, (along,), keepdims), INT64)

    return compute


def _scan(name: str, first: int) -> Callable[..., Value]:
    def compute(x: Value, axis: Any = None, dtype: Any = None, exclusive: Any = False) -> Value:
        x = converted(x, element(dtype, x.element))
        if axis is None:
            x, axis = flat(x), 0
        along = x.axis(whole(axis))
        return scanned(name, first, x, along, bool(exclusive))

    return compute


def scanned(name: str, first: int, x: Value, along: int, exclusive: bool) -> Value:
    """The folds of the elements up to each place along an axis; without its own element where `exclusive`."""
    dim, size = dims_of(x.rank)[along], x.shape[along]
    expr = spread(x.expr, {dim: Interval(0, size)})
    rest = expr.tensor.on(expr.tensor.dims.without(dim))
    found = scan(operator(name, rest, rest), True, literal(first, x.element), expr, dim=dim)
    if exclusive:
        start = filled(number(first, x.element), x.shape).expr
        before = cut(shifted(found, dim, -1), {dim: Interval(min(1, size), size)})
        found = call("update", spread(start, _dims(found.tensor)), before)
    return Value(found, x.shape)


def _dims(kind: TensorType) -> dict[str, Interval]:
    return dict(kind.dims.items)


def ordered(x: Value, along: int, descending: bool) -> tuple[Value, Value]:
    """The elements in order along an axis, and where each was."""
    dim = dims_of(x.rank)[along]
    expr = spread(x.expr, {dim: Interval(0, x.shape[along])})
    wide = call("cast", expr, static=(INT32,)) if x.element == BOOL else expr
    keys = [wide]
    if descending and x.element.is_float:  # NaN is the largest, and comes first
        keys = [call("cast", call("isnan", wide), static=(INT32,)), wide]
    both = call("sort", *keys, position(dim, Interval(0, x.shape[along])), static=(dim, len(keys), descending))
    values, places = (call("tuple_get", both, static=(len(keys) + k,)) for k in (-1, 0))
    found = Value(values, x.shape)
    return (converted(found, BOOL) if x.element == BOOL else found), Value(places, x.shape)


def _sort(x: Value, axis: Any = -1, descending: Any = False) -> Value:
    return ordered(x, x.axis(whole(axis)), bool(descending))[0]


def _argsort(x: Value, axis: Any = -1, descending: Any = False, dtype: Any = "int32") -> Value:
    return converted(ordered(x, x.axis(whole(axis)), bool(descending))[1], element(dtype, INT32))


def _first(x: Value, along: int, count: int) -> Value:
    dim = dims_of(x.rank)[along]
    shape = tuple(count if k == along else s for k, s in enumerate(x.shape))
    return Value(cut(x.expr, {dim: Interval(0, count)}), shape)


def _topk(
    x: Value, k: Any = 1, axis: Any = -1, ret_type: str = "both", largest: Any = True, dtype: Any = "int32"
) -> Any:
    along = x.axis(whole(axis))
    count = min(whole(k), x.shape[along]) if whole(k) > 0 else x.shape[along]
    values, places = (_first(v, along, count) for v in ordered(x, along, bool(largest)))
    places = converted(places, element(dtype, INT32))
    return {"both": (values, places), "values": values, "indices": places}[ret_type]


def softmax(x: Value, along: int, logarithm: bool = False) -> Value:
    """The exponentials along an axis, divided by their sum; or the logarithm of that."""
    wide = widened(x)
    moved = apply("minus", wide, reduced("max", neutral("max", wide.element), wide, (along,), True))
    powers = apply("exp", moved)
    if logarithm:
        return converted(apply("minus", moved, apply("log", total(powers, (along,)))), x.element)
    return converted(apply("divides", powers, total(powers, (along,))), x.element)


def _median(x: Value, axis: Any = None, keepdims: Any = False) -> Any:
    """The lower median; along one axis also where it is."""
    axes = None if axis is None else axes_of(axis, x.rank)
    if axes is not None and len(axes) > 1:
        raise NotImplementedError("the median over several axes, of which TVM takes the first")
    if not axes:
        row = ordered(flat(x), 0, False)[0]
        return made((), lambda ix, read: read(Number((x.size - 1) // 2, INT32)), row)
    along = axes[0]
    middle = Number((x.shape[along] - 1) // 2, INT32)
    wide = tuple(1 if k == along else s for k, s in enumerate(x.shape))

    def one(v: Value) -> Value:
        found = made(wide, lambda ix, read: read(*ix[:along], middle, *ix[along + 1 :]), v)
        names, kept = dims_of(x.rank), [k for k in range(x.rank) if k != along]
        return found if keepdims else placed(found.expr, [names[k] for k in kept], [wide[k] for k in kept])

    values, places = ordered(x, along, False)
    return one(values), converted(one(places), INT64)


def _bucketize(x: Value, bounds: Value, out_int32: Any = False, right: Any = False) -> Value:
    """How many bounds lie below each element (or not above it)."""
    name, kind = "greater_equal" if right else "greater", common(x, bounds)
    x, bounds = converted(x, kind), converted(bounds, kind)

    def below(ix: Any, read: Any, bound: Any) -> Term:
        here = truth(name, read(*ix[:-1]), bound(ix[-1]))
        return choice(here, numbered(1, INT32), numbered(0, INT32))

    ones = made((*x.shape, bounds.size), below, x, bounds)
    return converted(total(ones, (x.rank,), False), INT32 if out_int32 else INT64)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _fold("plus"),
    "prod": _fold("multiplies"),
    "max": _fold("max"),
    "min": _fold("min"),
    "mean": _statistic(mean),
    "variance": _statistic(variance),
    "std": _statistic(lambda x, axes, keep: apply("sqrt", variance(x, axes, keep))),
    "median": _median,
    "argmax": _best(True),
    "argmin": _best(False),
    "cumsum": _scan("plus", 0),
    "cumprod": _scan("multiplies", 1),
    "sort": _sort,
    "argsort": _argsort,
    "topk": _topk,
    "bucketize": _bucketize,
    "nn.softmax": lambda x, axis=-1: softmax(x, x.axis(whole(axis))),
    "nn.log_softmax": lambda x, axis=-1: softmax(x, x.axis(whole(axis)), True),
}
"""Along axes: folds, statistics, places, scans, orders."""
