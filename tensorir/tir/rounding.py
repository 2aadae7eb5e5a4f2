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

from collections.abc import Callable
from dataclasses import replace

from tensorir.tir.dtypes import FLOAT64, DataType
from tensorir.tir.nodes import EQ, GT, LT, Add, And, Call, Cast, Div, Expr, FloatImm, Mul, Or, Select, StringImm, Sub

Operation = Callable[..., Expr]

_NEAREST: dict[str, tuple[int, Operation]] = {
    "add": (2, lambda call, a, b: Add(a, b, call.span)),
    "sub": (2, lambda call, a, b: Sub(a, b, call.span)),
    "mul": (2, lambda call, a, b: Mul(a, b, call.span)),
    "fmul": (2, lambda call, a, b: Mul(a, b, call.span)),
    "fdiv": (2, lambda call, a, b: Div(a, b, call.span)),
    "frcp": (1, lambda call, a: Div(_one(a), a, call.span)),
    "fmaf": (3, lambda call, a, b, c: _fused(call, a, b, c)),
    "fsqrt": (1, lambda call, a: replace(call, op="sqrt", args=(a,), attrs={})),
    "frsqrt": (1, lambda call, a: replace(call, op="rsqrt", args=(a,), attrs={})),
}
"""By operation how many operands it has, and what it is where it rounds to the nearest."""
_LEFT: dict[str, Operation] = {
    "add": lambda s, a, b: _of_sum(s, a, b),
    "sub": lambda s, a, b: _of_sum(s, a, Mul(FloatImm(-1.0, b.dtype), b)),
    "mul": lambda s, a, b: Sub(Mul(a, b), s),
    "fmul": lambda s, a, b: Sub(Mul(a, b), s),
    "fmaf": lambda s, a, b, c: _of_sum(s, Mul(a, b), c),
    "fdiv": lambda s, a, b: _with_sign(Sub(a, Mul(s, b)), b),
    "frcp": lambda s, a: _with_sign(Sub(_one(a), Mul(s, a)), a),
    "fsqrt": lambda s, a: Sub(a, Mul(s, s)),
}
"""By operation a number with the sign of what is left when the nearest result is taken away, all in float64."""


def rounded(call: Call) -> Expr | None:
    """The expression that an operation with a way of rounding is; None for others, and for those of float64."""
    mode, given = "rn", [x for x in call.args if isinstance(x, Expr) and not isinstance(x, StringImm)]
    match call.args:
        case (*_, StringImm(mode)):
            pass
        case _:
            pass
    name = str(call.op).removeprefix("ieee_")
    if name not in _NEAREST or len(given) != _NEAREST[name][0]:
        return None
    nearest = _NEAREST[name][1](call, *given)
    if mode == "rn":
        return nearest
    if mode not in ("rz", "ru", "rd") or name not in _LEFT or call.dtype.bits > 32 or not call.dtype.is_float:
        return None
    left = _LEFT[name](_wide(nearest), *map(_wide, given))
    return _towards(mode, nearest, left, call)


def _fused(call: Call, a: Expr, b: Expr, c: Expr) -> Expr:
    """A product and a sum that round once: in float64 they round twice where a half of the last digit is left."""
    if call.dtype.bits > 32:
        return replace(call, op="fma", args=(a, b, c), attrs={})
    product, last = Mul(_wide(a), _wide(b)), _wide(c)
    total = Add(product, last)
    nearest = Cast(total, call.dtype, call.span)
    left = Sub(total, _wide(nearest))
    infinite = [FloatImm(x, call.dtype) for x in (float("inf"), float("-inf"))]
    side = Select(GT(left, FloatImm(0.0, left.dtype)), *infinite)
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
    """What is left of a sum beside its nearest number, without an error that could change the sign."""
    total = Add(a, b)
    return Add(Sub(total, s), _error(total, a, b))


def _error(total: Expr, a: Expr, b: Expr) -> Expr:
    """The error of a sum, which is a number of its type."""
    back = Sub(total, a)
    return Add(Sub(a, Sub(total, back)), Sub(b, back))


def _with_sign(x: Expr, of: Expr) -> Expr:
    return Select(LT(of, FloatImm(0.0, of.dtype)), Mul(FloatImm(-1.0, x.dtype), x), x)


def _one(like: Expr) -> Expr:
    return FloatImm(1.0, like.dtype)


def _wide(x: Expr) -> Expr:
    return Cast(x, _WIDE, x.span)


_WIDE: DataType = FLOAT64
