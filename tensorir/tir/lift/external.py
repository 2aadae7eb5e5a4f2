"""Functions of TVM's runtime that are known: sorts, as tensor programs on whole buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr
from tensorir.ir.types import INT32, Dims, Interval
from tensorir.lifting.nests.terms import Buffer

__all__ = ["EXTERNAL", "READ_ONLY"]

Made = tuple[tuple[Buffer, ...], tuple[Buffer, ...], Callable[..., Any]]


def _axis(shape: Sequence[int], axis: object) -> int:
    k = int(axis)  # type: ignore[call-overload]
    return k + len(shape) if k < 0 else k


def _positions(x: Expr, dim: str) -> Expr:
    return call("pos", x, static=(dim,))


def _ordered(x: Expr, dim: str, ascending: bool) -> tuple[Expr, Expr]:
    """The values and their places, sorted along a dim; equal values keep the order in which they stand."""
    both = call("sort", x, _positions(x, dim), static=(dim, 1, not ascending))
    return call("tuple_get", both, static=(0,)), call("tuple_get", both, static=(1,))


def _cast(x: Expr, buffer: Buffer) -> Expr:
    return x if x.tensor.element == buffer.element else call("cast", x, static=(buffer.element,))


def _first(x: Expr, dim: str, k: int) -> Expr:
    interval = x.tensor.dims[dim]
    stop = min(interval.stop, interval.start + k) if k > 0 else interval.stop
    return call("subset", x, static=(Dims(((dim, Interval(interval.start, stop)),)),))


def _sort(arrays: list[Buffer], numbers: list[object]) -> Made:
    data, out = arrays
    axis = _axis(data.shape, numbers[0] if numbers else -1)
    ascending = bool(numbers[1]) if len(numbers) > 1 else True

    def make(x: Expr, *_: Expr) -> tuple[Expr, ...]:
        values, _places = _ordered(x, x.tensor.dims.names[axis], ascending)
        return (values,)

    return (data,), (out,), make


def _argsort(arrays: list[Buffer], numbers: list[object]) -> Made:
    data, out = arrays
    axis = _axis(data.shape, numbers[0] if numbers else -1)
    ascending = bool(numbers[1]) if len(numbers) > 1 else True

    def make(x: Expr, *_: Expr) -> tuple[Expr, ...]:
        _values, places = _ordered(x, x.tensor.dims.names[axis], ascending)
        return (_cast(places, out),)

    return (data,), (out,), make


def _argsort_nms(arrays: list[Buffer], numbers: list[object]) -> Made:
    data, counts, out = arrays
    axis = _axis(data.shape, numbers[0] if numbers else 0)
    ascending = bool(numbers[1]) if len(numbers) > 1 else True

    def make(x: Expr, valid: Expr) -> tuple[Expr, ...]:
        dim = x.tensor.dims.names[axis]
        rest = [name for name in x.tensor.dims.names if name != dim]
        valid = call("rename", valid, static=(tuple(zip(valid.tensor.dims.names, rest, strict=False)),))
        for name in valid.tensor.dims.names:
            if name not in rest:
                valid = call("gather", valid, literal(0), static=((name,), "checked"))
        position = _positions(x, dim)
        outside = call("greater_equal", position, call("cast", valid, static=(INT32,)))
        key = call("cast", outside, static=(INT32,))
        value = call("if", outside, literal(0, data.element), x)
        if not ascending:
            value = call("neg", value)
        ordered = call("sort", key, value, position, static=(dim, 2, False))
        return (_cast(call("tuple_get", ordered, static=(2,)), out),)

    return (data, counts), (out,), make


def _topk(arrays: list[Buffer], numbers: list[object]) -> Made:
    """topk(data, outputs..., k, axis, which, ascending): values, places, or both."""
    data, *outs = arrays
    k, axis, which, ascending = numbers[:4]
    place = _axis(data.shape, axis)

    def make(x: Expr, *_: Expr) -> tuple[Expr, ...]:
        dim = x.tensor.dims.names[place]
        values, places = (_first(e, dim, int(k)) for e in _ordered(x, dim, bool(ascending)))  # type: ignore[call-overload]
        chosen = {"both": (values, places), "values": (values,), "indices": (places,)}[str(which)]
        return tuple(_cast(e, out) for e, out in zip(chosen, outs, strict=True))

    return (data,), tuple(outs), make


EXTERNAL: dict[str, Callable[[list[Buffer], list[object]], Made]] = {
    "tvm.contrib.sort.sort": _sort,
    "tvm.contrib.sort.argsort": _argsort,
    "tvm.contrib.sort.argsort_nms": _argsort_nms,
    "tvm.contrib.sort.topk": _topk,
}
"""By name: from buffers and constants to what is read, what is written, and how the one follows from the other."""

READ_ONLY = {name: 2 if name.endswith("argsort_nms") else 1 for name in EXTERNAL}
"""How many of the leading arrays a function only reads."""
