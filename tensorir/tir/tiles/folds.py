"""What the folds of tiles start from, and how they combine."""

from __future__ import annotations

from collections.abc import Callable

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import DataType

__all__ = ["combined", "identity"]


def identity(kind: str, dtype: DataType) -> n.Expr:
    """What a fold starts from.

    >>> from tensorir.tir.dtypes import FLOAT32, INT32
    >>> identity("min", FLOAT32), identity("bitand", INT32), identity("absmax", INT32)
    (T.float32("inf"), -1, 0)
    """
    match kind:
        case "max" | "min":
            if dtype.is_float:
                return const(float("-inf") if kind == "max" else float("inf"), dtype)
            low, high = dtype.range
            return n.IntImm(low if kind == "max" else high, dtype)
        case "bitand":
            return n.IntImm(dtype.range[1] if dtype.is_uint or dtype.is_bool else -1, dtype)
        case _:
            return const(0, dtype)


def combined(kind: str, old: n.Expr, new: n.Expr) -> n.Expr:
    """The fold of one more element, which is cast to the type of what there is.

    >>> from tensorir.tir.dtypes import FLOAT32
    >>> x = const(1.0, FLOAT32)
    >>> combined("absmax", x, x)
    T.max(T.float32(1.0), T.fabs(T.float32(1.0)))
    """
    if new.dtype != old.dtype:
        new = n.Cast(new, old.dtype)
    if kind.startswith("abs"):
        new = _absolute(new)
    if old.dtype.is_bool and kind in _OF_BOOLS:
        return _OF_BOOLS[kind](old, new)
    return _COMBINED[kind](old, new)


def _absolute(x: n.Expr) -> n.Expr:
    if x.dtype.is_float:
        return n.Call(x.dtype, "fabs", (x,))
    return n.Select(n.GE(x, const(0, x.dtype)), x, n.Sub(const(0, x.dtype), x)) if x.dtype.is_int else x


def _bitwise(name: str) -> Callable[[n.Expr, n.Expr], n.Expr]:
    return lambda old, new: n.Call(old.dtype, name, (old, new))


_OF_BOOLS: dict[str, Callable[[n.Expr, n.Expr], n.Expr]] = {"bitand": n.And, "bitor": n.Or, "bitxor": n.NE}
_COMBINED: dict[str, Callable[[n.Expr, n.Expr], n.Expr]] = {
    "sum": n.Add,
    "abssum": n.Add,
    "max": n.Max,
    "absmax": n.Max,
    "min": n.Min,
    "bitand": _bitwise("bitwise_and"),
    "bitor": _bitwise("bitwise_or"),
    "bitxor": _bitwise("bitwise_xor"),
}
