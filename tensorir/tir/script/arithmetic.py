"""Operators as TVM's makers build them, and constants and sequences under them.

Operators as TVM's makers build them: operands brought to one type, constants folded, neutral elements dropped.

Text that TVM prints never needs this (it writes `T.Add(x, 0)` where the plain operator would fold); text that people
write does.

>>> from tensorir.tir.dtypes import INT64
>>> from tensorir.tir.nodes import PrimType, Var
>>> n = Var("n", PrimType(INT64))
>>> binary("+", n, 1), binary("*", n, 1), binary("-", 7, 3)
(n + T.int64(1), n, 4)
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, INT32, INT64, DataType
from tensorir.tir.script.values import members


class IllTyped(Exception):
    """Operands that no rule brings together; the message is a sentence for a diagnostic."""


ARITHMETIC: dict[str, Callable[[n.Expr, n.Expr, Span], n.Expr]] = {
    "+": n.Add,
    "-": n.Sub,
    "*": n.Mul,
    "/": n.Div,
    "//": n.FloorDiv,
    "%": n.FloorMod,
    "truncdiv": n.Div,
    "truncmod": n.Mod,
    "min": n.Min,
    "max": n.Max,
}
COMPARISONS: dict[str, Callable[[n.Expr, n.Expr, Span], n.Expr]] = {
    "==": n.EQ,
    "!=": n.NE,
    "<": n.LT,
    "<=": n.LE,
    ">": n.GT,
    ">=": n.GE,
}
_BITS = {"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "shift_left", ">>": "shift_right"}


def as_expr(value: object, dtype: DataType | None = None, span: Span = NOWHERE) -> n.Expr | None:
    """A Python number or string as a constant (of `dtype`, where numbers of its kind exist); None for other things."""
    if isinstance(value, n.Expr):
        return value
    if isinstance(value, str):
        return n.StringImm(value, span)
    if not isinstance(value, bool | int | float):
        return None
    if dtype is None or (isinstance(value, float) and not dtype.is_float) or dtype.is_handle or dtype.is_void:
        return _number(value, None, span)
    return _number(value, dtype.element, span)


def _number(value: bool | int | float, dtype: DataType | None, span: Span) -> n.Expr:
    if dtype is not None and dtype.is_bool and not isinstance(value, bool) and value not in (0, 1):
        dtype = None
    if isinstance(value, int) and not isinstance(value, bool):
        if dtype is None:
            low, high = INT32.range
            dtype = INT32 if low <= value <= high else INT64  # as TVM types Python's integers
        _fits(value, dtype)
    try:
        return const(value, dtype, span)
    except OverflowError:
        raise IllTyped("this number is too large.") from None


def _fits(value: int, dtype: DataType) -> None:
    """Refuse a number that would wrap around."""
    if not dtype.is_integer or dtype.is_bool:
        return
    low, high = dtype.range
    if not low <= value <= high:
        shown = f"the constant {value}" if abs(value) < 10**40 else "this constant"
        raise IllTyped(f"{shown} does not fit {dtype}, which holds {low} to {high}.")


def convert(value: n.Expr, dtype: DataType, span: Span = NOWHERE) -> n.Expr:
    """`T.cast`: the value itself where it has the type already, a constant for a constant, or a `Cast`."""
    if value.dtype == dtype:
        return value
    if dtype.lanes != 1 and value.dtype.lanes == 1:
        return n.Broadcast(convert(value, dtype.element, span), dtype.lanes, span)
    match value:
        case n.IntImm(v) if dtype.is_integer and not dtype.is_bool:
            return n.IntImm(_wrapped(v, dtype), dtype, span)
        case n.IntImm(v) if dtype.is_float:
            return n.FloatImm(float(v), dtype, span)
        case n.IntImm(v) if dtype.is_bool:
            return n.IntImm(int(v != 0), dtype, span)
        case n.FloatImm(v) if dtype.is_float:
            return n.FloatImm(v, dtype, span)
        case _:
            return n.Cast(value, dtype, span)


def match(a: n.Expr, b: n.Expr, span: Span = NOWHERE) -> tuple[n.Expr, n.Expr]:
    """The two operands with one type: lanes are broadcast, integers become floats, the narrower becomes the wider."""
    if a.dtype == b.dtype:
        return a, b
    for one, other in ((a, b), (b, a)):
        unsigned = other.dtype.element
        if isinstance(one, n.IntImm) and one.value < 0 and unsigned.code == "uint" and unsigned.bits >= one.dtype.bits:
            raise IllTyped(f"the constant {one.value} does not fit {unsigned}, which holds no negative numbers.")
    if a.dtype.lanes != b.dtype.lanes:
        if a.dtype.lanes == 1:
            a = n.Broadcast(a, b.dtype.lanes, span)
        elif b.dtype.lanes == 1:
            b = n.Broadcast(b, a.dtype.lanes, span)
        else:
            raise IllTyped(f"vectors of {a.dtype.lanes} and {b.dtype.lanes} lanes do not meet.")
    x, y = a.dtype, b.dtype
    if x == y:
        return a, b
    if "handle" in (x.code, y.code):
        raise IllTyped(f"{x} and {y} have no operators in common.")
    if x.is_float and not y.is_float:
        return a, convert(b, x, span)
    if y.is_float and not x.is_float:
        return convert(a, y, span), b
    if x.is_float:
        return (a, convert(b, x, span)) if x.bits > y.bits else (convert(a, y, span), b)
    if x.bits != y.bits:
        return (a, convert(b, x, span)) if x.bits > y.bits else (convert(a, y, span), b)
    return (a, convert(b, x, span)) if x.code == "uint" else (convert(a, y, span), b)


def binary(symbol: str, left: object, right: object, span: Span = NOWHERE) -> object:
    """`left symbol right`: Python's arithmetic on two Python numbers, otherwise an expression."""
    if isinstance(left, bool | int | float) and isinstance(right, bool | int | float):
        return _python(symbol, left, right)
    if not isinstance(right, n.Expr) and (isinstance(left, str) or members(left) is not None):
        return _sequences(symbol, left, right)
    a, b = _typed(symbol, left, right, span)
    if a is None or b is None or isinstance(a, n.StringImm) or isinstance(b, n.StringImm):
        raise IllTyped(f"{symbol!r} takes numbers and expressions.")
    if symbol in _BITS:
        if symbol not in ("<<", ">>") or a.dtype.lanes != b.dtype.lanes or a.dtype.bits != b.dtype.bits:
            a, b = match(a, b, span)
        if a.dtype.is_float:
            raise IllTyped(f"{symbol!r} takes integers, and this is {a.dtype}.")
        return _folded_bits(symbol, a, b) or n.Call(a.dtype, _BITS[symbol], (a, b), span=span)
    a, b = match(a, b, span)
    if symbol == "/" and not a.dtype.is_float:
        raise IllTyped("'/' of integers is ambiguous: write '//' (floor), or T.truncdiv (towards zero).")
    return _folded(symbol, a, b) or ARITHMETIC[symbol](a, b, span)


def _typed(symbol: str, left: object, right: object, span: Span) -> tuple[n.Expr | None, n.Expr | None]:
    """Operands as expressions, with the types that TVM gives to Python's numbers.

    Beside an operator on bits, `==` or `!=` a number has the type of the other operand. Beside any other it has its
    own, int32 (int64 where it needs that) or float32, and `match` brings both together: an int8 and 100 is an int32.
    """
    if symbol not in _BITS and symbol not in ("==", "!="):
        return as_expr(left, None, span), as_expr(right, None, span)
    a = as_expr(left, right.dtype if isinstance(right, n.Expr) else None, span)
    return a, as_expr(right, left.dtype if isinstance(left, n.Expr) else None, span)


def _sequences(symbol: str, left: object, right: object) -> object:
    """Python's `+` and `*` of tuples, lists and strings, kept small."""
    a, b = members(left), members(right)
    is_tuple = isinstance(left, tuple)
    if symbol == "+" and a is not None and b is not None and is_tuple == isinstance(right, tuple):
        if len(a) + len(b) <= 10_000:
            return tuple(a + b) if is_tuple else a + b
    elif symbol == "+" and isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) <= 10_000:
            return left + right
    elif symbol == "*" and a is not None and isinstance(right, int):
        if len(a) * right > 10_000:
            raise IllTyped("this sequence would have more than 10,000 members.")
        return tuple(a * right) if is_tuple else a * right
    raise IllTyped(f"{symbol!r} takes numbers and expressions.")


def compare(symbol: str, left: object, right: object, span: Span = NOWHERE) -> object:
    """A comparison of operands of one type, as TVM makes them: `==` and `!=` leave types as they are."""
    if not isinstance(left, n.Expr) and not isinstance(right, n.Expr):
        return _python_comparison(symbol, left, right)
    a, b = _typed(symbol, left, right, span)
    if a is None or b is None:
        raise IllTyped(f"{symbol!r} takes numbers and expressions.")
    if symbol not in ("==", "!=") and not isinstance(a, n.StringImm) and not isinstance(b, n.StringImm):
        a, b = match(a, b, span)
    elif a.dtype.lanes != b.dtype.lanes:
        if a.dtype.lanes == 1:
            a = n.Broadcast(a, b.dtype.lanes, span)
        elif b.dtype.lanes == 1:
            b = n.Broadcast(b, a.dtype.lanes, span)
    return COMPARISONS[symbol](a, b, span)


def logical(word: str, left: object, right: object, span: Span = NOWHERE) -> object:
    """`and`, `or`: of vectors, both sides are evaluated.

    >>> logical("and", True, False), logical("or", True, False), logical("or", False, False)
    (False, True, False)
    """
    if isinstance(left, bool) and isinstance(right, bool):
        return left and right if word == "and" else left or right
    a, b = as_expr(left, BOOL, span), as_expr(right, BOOL, span)
    if a is None or b is None:
        raise IllTyped(f"{word!r} takes bools.")
    if a.dtype.lanes != 1 or b.dtype.lanes != 1:
        a, b = match(a, b, span)
        return n.Call(a.dtype, "bitwise_and" if word == "and" else "bitwise_or", (a, b), span=span)
    return (n.And if word == "and" else n.Or)(a, b, span)


def negate(value: object, span: Span = NOWHERE) -> object:
    """`-value`, which TVM writes as a product with -1."""
    if isinstance(value, bool | int | float):
        return -value
    if not isinstance(value, n.Expr):
        raise IllTyped("'-' takes numbers and expressions.")
    return binary("*", value, convert(const(-1, INT32), value.dtype, span), span)


def would_fold(symbol: str, a: n.Expr, b: n.Expr) -> bool:
    """True if `a symbol b` is read as something other than that operator on those operands."""
    if symbol in _BITS:
        return _folded_bits(symbol, a, b) is not None
    return _folded(symbol, a, b) is not None


def _wrapped(value: int, dtype: DataType) -> int:
    low, _ = dtype.range
    return (value - low) % (1 << dtype.bits) + low


def _python(symbol: str, a: bool | int | float, b: bool | int | float) -> object:
    """Python's own arithmetic, kept small."""
    if symbol in ("<<", "**") and (abs(b) > 128 or abs(a) > 1 << 64):
        raise IllTyped("constants of this size are no part of TVMScript.")
    try:
        value = _PYTHON[symbol](a, b)
    except ZeroDivisionError:
        raise IllTyped("this divides by zero.") from None
    except (TypeError, ValueError, OverflowError):
        raise IllTyped(f"{symbol!r} does not take these constants.") from None
    if isinstance(value, complex) or (isinstance(value, int) and value.bit_length() > 4096):
        raise IllTyped("constants of this size are no part of TVMScript.")
    return value


def _truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _truncated_remainder(a: int, b: int) -> int:
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
    "truncdiv": _truncated_quotient,
    "truncmod": _truncated_remainder,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _python_comparison(symbol: str, left: object, right: object) -> bool:
    try:
        return bool(_PYTHON[symbol](left, right))
    except TypeError:
        raise IllTyped(f"{symbol!r} does not take these constants.") from None


def _folded(symbol: str, a: n.Expr, b: n.Expr) -> n.Expr | None:
    """Constant folding as TVM does it: two constants, and neutral elements."""
    dtype = a.dtype
    match a, b:
        case (n.IntImm(x), n.IntImm(y)) if (value := _constant(symbol, x, y)) is not None:
            return n.IntImm(_wrapped(value, dtype) if not dtype.is_bool else value & 1, dtype, a.span.to(b.span))
        case (n.FloatImm(x), n.FloatImm(y)) if (value := _float_constant(symbol, x, y)) is not None:
            return n.FloatImm(value, dtype, a.span.to(b.span))
        case _:
            pass
    x = a.value if isinstance(a, n.IntImm | n.FloatImm) else None
    y = b.value if isinstance(b, n.IntImm | n.FloatImm) else None
    match symbol:
        case "+":
            return b if x == 0 else a if y == 0 else None
        case "-":
            return a if y == 0 else None
        case "*":
            return b if x == 1 else a if y == 1 else a if x == 0 else b if y == 0 else None
        case "/" | "//" | "truncdiv":
            return a if y == 1 or x == 0 else None
        case "%" | "truncmod":
            if x == 0:
                return a
            return n.IntImm(0, dtype) if y == 1 and not dtype.is_float else None
        case "min" | "max":
            return a if a is b else None
        case _:
            return None


def _constant(symbol: str, x: int, y: int) -> int | None:
    match symbol:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "//" if y:
            return x // y
        case "%" if y:
            return x % y
        case "truncdiv" if y:
            return _truncated_quotient(x, y)
        case "truncmod" if y:
            return _truncated_remainder(x, y)
        case "min":
            return min(x, y)
        case "max":
            return max(x, y)
        case _:
            return None


def _float_constant(symbol: str, x: float, y: float) -> float | None:
    match symbol:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/" if y:
            return x / y
        case "min":
            return min(x, y)
        case "max":
            return max(x, y)
        case _:
            return None


def _folded_bits(symbol: str, a: n.Expr, b: n.Expr) -> n.Expr | None:
    match a, b:
        case n.IntImm(x), n.IntImm(y) if symbol not in ("<<", ">>") or 0 <= y < a.dtype.bits:
            value = _PYTHON[symbol](x, y)
            assert isinstance(value, int)
            return n.IntImm(_wrapped(value, a.dtype), a.dtype, a.span.to(b.span))
        case _, n.IntImm(0) if symbol in ("<<", ">>"):
            return a
        case _:
            return None


# Constants, sequences and operators of expressions.

SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.And: "and",
    ast.Or: "or",
}
