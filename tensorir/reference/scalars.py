"""Elementwise builtins on scalars: Python integers with explicit wrapping, NumPy floats, `math`.

`SCALAR[name](kind, *values)` takes the element type of the operands and one NumPy scalar for each of them. Integers
are computed without bounds and wrapped once. Floats of 16 bits and less are computed in float32 and rounded once;
functions of the `math` module are computed in float64 and rounded once.

>>> from tensorir.ir.types import SCALARS
>>> int8 = SCALARS["int8"]
>>> SCALAR["plus"](int8, np.int8(127), np.int8(1)), SCALAR["divides"](int8, np.int8(-7), np.int8(0))
(np.int8(-128), np.int8(-1))
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tensorir.ir.types import DTYPES, Scalar
from tensorir.reference import numerics

Function = Callable[..., Any]
One = Callable[[Scalar, Any], Any]
Two = Callable[[Scalar, Any, Any], Any]
Whole = Callable[[Scalar, int], int]
Wholes = Callable[[Scalar, int, int], int]
Integers = Callable[[int, int], int]


def scalar(kind: Scalar, value: Any) -> Any:
    """The NumPy scalar of an element type: integers wrap, floats of 16 bits or fewer are rounded once."""
    if kind.is_integer:
        low = kind.range.start
        value = (int(value) - low) % (1 << kind.bits) + low
    elif kind.is_float and kind.bits <= 16:
        value = _odd(value)
    return DTYPES[kind].type(value)


def _odd(value: Any) -> Any:
    """A number as float32 rounded to odd (the last bit is set if it is inexact), so that rounding it further is
    correct.
    """
    value = int(value) if isinstance(value, numbers.Integral) else float(value)
    rounded = np.float32(min(max(value, -_MOST), _MOST) if np.isfinite(value) else value)
    if not np.isfinite(rounded) or Fraction(float(rounded)) == (exact := Fraction(value)):
        return rounded
    if abs(Fraction(float(rounded))) > abs(exact):
        rounded = np.nextafter(rounded, np.float32(0))
    return rounded if rounded.view(np.uint32) & 1 else np.nextafter(rounded, np.float32(math.copysign(math.inf, exact)))


_MOST = float(np.finfo(np.float32).max)


def _wide(kind: Scalar, value: Any) -> Any:
    return np.float32(value) if kind.bits <= 16 else value


def _number(on_integers: Function, on_floats: Function) -> Function:
    """A function of (type, values) from one on unbounded integers, then wrapped, and one on floats, then rounded."""

    def compute(kind: Scalar, *values: Any) -> Any:
        if kind.is_integer:
            return scalar(kind, on_integers(*[int(v) for v in values]))
        return scalar(kind, on_floats(*[_wide(kind, v) for v in values]))

    return compute


def _float(function: Function) -> Function:
    """An operation on floats, rounded once."""
    return _number(function, function)


def _sized(on_integers: One | Two, on_floats: Function | None = None) -> Function:
    """A function of (type, values) from one on integers of the type, and optionally one on floats."""
    integers: Function = on_integers

    def compute(kind: Scalar, *values: Any) -> Any:
        """The operation for one type: on its integers, or on floats and then rounded."""
        if kind.is_integer or on_floats is None:
            with np.errstate(over="ignore"):
                return integers(kind, *values)
        return scalar(kind, on_floats(*[_wide(kind, v) for v in values]))

    return compute


def _integer(function: Whole | Wholes) -> Function:
    """A function of (type, values) from one on unbounded integers that also takes the type; the result wraps."""
    of_integers: Function = function

    def compute(kind: Scalar, *values: Any) -> Any:
        return scalar(kind, of_integers(kind, *[int(v) for v in values]))

    return compute


def _test(function: Function) -> Function:
    """A function of (type, values) whose result is a bool."""

    def compute(kind: Scalar, *values: Any) -> Any:
        return np.bool_(function(*values))

    return compute


def _sign_integer(x: int) -> int:
    return (x > 0) - (x < 0)


def _mod(x: Any, y: Any) -> Any:
    r = np.fmod(x, y)
    return r + y if r != 0 and (r < 0) != (y < 0) else r


def _floordiv(x: Any, y: Any) -> Any:
    """The exact floor of x / y for floats, by fractions; infinite and zero operands as IEEE division and floor give."""
    if y == 0 or not (np.isfinite(x) and np.isfinite(y)):
        quotient = np.floor(x / y)
        # a small negative quotient, of a finite number by an infinite one, lies above -1
        return quotient - 1 if np.isfinite(x) and np.isinf(y) and x != 0 and (x < 0) != (y < 0) else quotient
    quotient = Fraction(float(x)) / Fraction(float(y))
    try:
        return type(x)(_nearest(x, math.floor(quotient))) if quotient else x / y
    except OverflowError:
        return type(x)(math.inf if quotient > 0 else -math.inf)


def _nearest(x: Any, whole: int) -> float:
    """A float64 that rounds to the type of x as the integer does: leading bits, and a sticky bit for the others."""
    dropped_bits = max(abs(whole).bit_length() - 50, 0) if x.dtype.itemsize < 8 else 0
    leading_bits = abs(whole) >> dropped_bits
    return math.copysign((leading_bits | (leading_bits << dropped_bits != abs(whole))) << dropped_bits, whole)


def _sign(x: Any) -> Any:
    return x if x == 0 or np.isnan(x) else np.copysign(type(x)(1), x)


def _least(x: Any, y: Any) -> Any:
    if np.isnan(x) or np.isnan(y):
        return x + y
    return (x if np.signbit(x) else y) if x == y else min(x, y)


def _greatest(x: Any, y: Any) -> Any:
    if np.isnan(x) or np.isnan(y):
        return x + y
    return (y if np.signbit(x) else x) if x == y else max(x, y)


def _bitwise(function: Integers) -> Wholes:
    return lambda kind, x, y: function(x, y)


def _flipped(kind: Scalar, x: int) -> int:
    return ~x


def _real(function: Function, otherwise: Function) -> Function:
    """A function of (type, values) computed in float64; `otherwise` gives its value at poles and outside of the
    domain.
    """

    def compute(kind: Scalar, *values: Any) -> Any:
        """The function in float64, rounded to the type."""
        try:
            result = function(*[float(v) for v in values])
        except (ValueError, OverflowError):
            result = otherwise(*[np.float64(v) for v in values])
        return scalar(kind, result)

    return compute


def _rsqrt(x: float) -> Any:
    return np.float64(1) / np.sqrt(np.float64(x))


def _infinite(x: float) -> float:
    return math.inf


_REAL: dict[str, tuple[Function, Function]] = {
    "power": (math.pow, np.power),
    "rsqrt": (_rsqrt, np.sqrt),
    "cbrt": (math.cbrt, np.cbrt),
    "exp": (math.exp, np.exp),
    "exp2": (math.exp2, np.exp2),
    "expm1": (math.expm1, np.expm1),
    "log": (math.log, np.log),
    "log2": (math.log2, np.log2),
    "log10": (math.log10, np.log10),
    "log1p": (math.log1p, np.log1p),
    "sin": (math.sin, np.sin),
    "cos": (math.cos, np.cos),
    "tan": (math.tan, np.tan),
    "arcsin": (math.asin, np.arcsin),
    "arccos": (math.acos, np.arccos),
    "arctan": (math.atan, np.arctan),
    "arctan2": (math.atan2, np.arctan2),
    "sinh": (math.sinh, np.sinh),
    "cosh": (math.cosh, np.cosh),
    "tanh": (math.tanh, np.tanh),
    "arcsinh": (math.asinh, np.arcsinh),
    "arccosh": (math.acosh, np.arccosh),
    "arctanh": (math.atanh, np.arctanh),
    "erf": (math.erf, math.erf),
    "erfc": (math.erfc, math.erfc),
    # at its poles, and where it is too large
    "lgamma": (math.lgamma, _infinite),
}

SCALAR: dict[str, Function] = {
    "plus": _number(operator.add, operator.add),
    "minus": _number(operator.sub, operator.sub),
    "multiplies": _number(operator.mul, operator.mul),
    "divides": _sized(lambda _, x, y: numerics.quotient(x, y, "zero", -1), np.divide),
    "floordiv": _sized(lambda _, x, y: numerics.quotient(x, y, "down", -1), _floordiv),
    "mod": _sized(lambda _, x, y: numerics.remainder(x, y, "down", True), _mod),
    "rem": _sized(lambda _, x, y: numerics.remainder(x, y, "zero", True), np.fmod),
    "neg": _number(operator.neg, operator.neg),
    "abs": _number(abs, abs),
    "sign": _number(_sign_integer, _sign),
    "min": _number(min, _least),
    "max": _number(max, _greatest),
    "and": _test(np.logical_and),
    "or": _test(np.logical_or),
    "xor": _test(np.logical_xor),
    "not": _test(operator.not_),
    "eq": _test(operator.eq),
    "not_eq": _test(operator.ne),
    "less": _test(operator.lt),
    "less_equal": _test(operator.le),
    "greater": _test(operator.gt),
    "greater_equal": _test(operator.ge),
    "bit_and": _integer(_bitwise(int.__and__)),
    "bit_or": _integer(_bitwise(int.__or__)),
    "bit_xor": _integer(_bitwise(int.__xor__)),
    "bit_not": _integer(_flipped),
    "shift_left": _sized(lambda kind, x, y: numerics.shifted(x, y, kind.bits, True, 0)),
    "shift_right": _sized(lambda kind, x, y: numerics.shifted(x, y, kind.bits, False, -int(x < 0))),
    "popcount": _sized(lambda _, x: numerics.ones(x)),
    "clz": _sized(lambda kind, x: numerics.leading_zeros(x, kind.bits)),
    "sqrt": _float(np.sqrt),
    **{name: _real(*functions) for name, functions in _REAL.items()},
    "floor": _float(np.floor),
    "ceil": _float(np.ceil),
    "trunc": _float(np.trunc),
    "round": _float(np.rint),
    "isfinite": _test(np.isfinite),
    "isinf": _test(np.isinf),
    "isnan": _test(np.isnan),
}
"""Every elementwise builtin but `if`, which computes one branch only, and the two conversions below."""


def cast(source: Scalar, target: Scalar, value: Any) -> Any:
    """A value converted to another type: floats to integers saturate, NaN becomes 0, integers wrap.

    >>> from tensorir.ir.types import SCALARS
    >>> cast(SCALARS["float64"], SCALARS["int8"], np.float64(-1e9))
    np.int8(-128)
    """
    if target.kind == "bool":
        return np.bool_(value != 0)
    if target.is_integer and source.is_float:
        x = float(value)
        if math.isnan(x):
            return scalar(target, 0)
        low, high = target.range.start, target.range.stop - 1
        return scalar(target, low if x <= low else high if x >= high else math.trunc(x))
    if target.is_float and not source.is_float:
        # of a Python integer NumPy makes a float64 first
        return scalar(target, int(value) if target.bits <= 16 else value)
    return scalar(target, value)


def bitcast(target: Scalar, value: Any) -> Any:
    """The same bits as another type of the same width."""
    return value.view(DTYPES[target])
