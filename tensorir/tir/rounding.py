"""TileLang's arithmetic that says how it rounds: to the nearest, towards zero, up or down.

To the nearest is how all arithmetic rounds. A number that is rounded otherwise is the nearest one or a neighbour of
it, as the sign of what is left tells: in float64, whose products of two narrower numbers are exact, and so are the
errors of its sums (Knuth, 1969).

>>> from tensorir.tir.dtypes import FLOAT32
>>> from tensorir.tir.nodes import Call, FloatImm, PrimType, StringImm
>>> one = FloatImm(1.0, PrimType(FLOAT32).dtype)
>>> rounded(Call(one.dtype, "ieee_add", (one, one, StringImm("rn"))))
T.Add(T.float32(1.0), T.float32(1.0))
"""

from __future__ import annotations

from dataclasses import replace

from tensorir.tir.dtypes import FLOAT64
from tensorir.tir.nodes import EQ, GT, LT, Add, And, Call, Cast, Div, Expr, FloatImm, Mul, Or, Select, StringImm, Sub


def rounded(call: Call) -> Expr | None:
    """The expression that an operation with a way of rounding is; None for others, and for those of float64."""
    given, mode = [x for x in call.args if isinstance(x, Expr) and not isinstance(x, StringImm)], "rn"
    if call.args and isinstance(call.args[-1], StringImm):
        mode = call.args[-1].value
    nearest = _nearest(call, given)
    if nearest is None or mode == "rn":
        return nearest
    if mode not in ("rz", "ru", "rd") or call.dtype.bits > 32 or not call.dtype.is_float:
        return None
    left = _left(call, _wide(nearest), [_wide(x) for x in given])
    return None if left is None else _towards(mode, nearest, left, call)


def _nearest(call: Call, given: list[Expr]) -> Expr | None:
    """An operation that rounds to the nearest."""
    match str(call.op).removeprefix("ieee_"), given:
        case "add", [a, b]:
            return Add(a, b, call.span)
        case "sub", [a, b]:
            return Sub(a, b, call.span)
        case "mul" | "fmul", [a, b]:
            return Mul(a, b, call.span)
        case "fdiv", [a, b]:
            return Div(a, b, call.span)
        case "frcp", [a]:
            return Div(_one(a), a, call.span)
        case "fmaf", [a, b, c]:
            return _fused(call, a, b, c)
        case "fsqrt" | "frsqrt" as name, [a]:
            return replace(call, op=name[1:], args=(a,), attrs={})
        case _:
            return None


def _left(call: Call, s: Expr, given: list[Expr]) -> Expr | None:
    """A number with the sign of what is left when the nearest result is taken away, all in float64."""
    match str(call.op).removeprefix("ieee_"), given:
        case "add", [a, b]:
            return _of_sum(s, a, b)
        case "sub", [a, b]:
            return _of_sum(s, a, Mul(FloatImm(-1.0, b.dtype), b))
        case "mul" | "fmul", [a, b]:
            return Sub(Mul(a, b), s)
        case "fmaf", [a, b, c]:
            return _of_sum(s, Mul(a, b), c)
        case "fdiv", [a, b]:
            return _with_sign(Sub(a, Mul(s, b)), b)
        case "frcp", [a]:
            return _with_sign(Sub(_one(a), Mul(s, a)), a)
        case "fsqrt", [a]:
            return Sub(a, Mul(s, s))
        case _:
            return None


def _fused(call: Call, a: Expr, b: Expr, c: Expr) -> Expr:
    """A product and a sum that round once: in float64 they round twice where a half of the last digit is left."""
    if call.dtype.bits > 32:
        return replace(call, op="fma", args=(a, b, c), attrs={})
    product, last = Mul(_wide(a), _wide(b)), _wide(c)
    total = Add(product, last)
    nearest = Cast(total, call.dtype, call.span)
    left = Sub(total, _wide(nearest))
    above, below = (FloatImm(x, call.dtype) for x in (float("inf"), float("-inf")))
    side = Select(GT(left, FloatImm(0.0, left.dtype)), above, below)
    other = replace(call, op="nextafter", args=(nearest, side), attrs={})
    half = EQ(Sub(_wide(other), total), left)
    beyond = GT(Mul(left, _error(total, product, last)), FloatImm(0.0, left.dtype))
    return Select(And(half, beyond), other, nearest, call.span)


def _towards(mode: str, nearest: Expr, left: Expr, call: Call) -> Expr:
    """The nearest number, or the next one in a direction where something is left on that side."""
    zero, none = FloatImm(0.0, left.dtype), FloatImm(0.0, nearest.dtype)

    def neighbour(to: float) -> Expr:
        return replace(call, op="nextafter", args=(nearest, FloatImm(to, nearest.dtype)), attrs={})

    infinite = float("inf")
    if mode == "ru":
        return Select(GT(left, zero), neighbour(infinite), nearest, call.span)
    if mode == "rd":
        return Select(LT(left, zero), neighbour(-infinite), nearest, call.span)
    away = Or(And(GT(left, zero), LT(nearest, none)), And(LT(left, zero), GT(nearest, none)))
    return Select(away, neighbour(0.0), nearest, call.span)


def _of_sum(s: Expr, a: Expr, b: Expr) -> Expr:
    """The rest of a sum beside its nearest number, without an error that could change the sign."""
    total = Add(a, b)
    return Add(Sub(total, s), _error(total, a, b))


def _error(total: Expr, a: Expr, b: Expr) -> Expr:
    """The error of a sum, which is a number of its type."""
    back = Sub(total, a)
    return Add(Sub(a, Sub(total, back)), Sub(b, back))


def _with_sign(x: Expr, other: Expr) -> Expr:
    return Select(LT(other, FloatImm(0.0, other.dtype)), Mul(FloatImm(-1.0, x.dtype), x), x)


def _one(like: Expr) -> Expr:
    return FloatImm(1.0, like.dtype)


def _wide(x: Expr) -> Expr:
    return Cast(x, FLOAT64, x.span)
