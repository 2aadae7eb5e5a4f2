"""Scalar expressions of TIR as C++, under the names that a printed kernel gives to variables and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import copysign, inf, isfinite, isnan
from typing import NoReturn

import numpy as np

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tenstorrent.kernels.header import OPERATIONS
from tensorir.tenstorrent.words import in_words
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType

__all__ = ["Names", "cpp", "cpp_type"]

_SIGNS: dict[type[n.Expr], str] = {
    n.Add: "+", n.Sub: "-", n.Mul: "*", n.Div: "/", n.LT: "<", n.LE: "<=", n.GT: ">", n.GE: ">=", n.EQ: "==",
    n.NE: "!=", n.And: "&&", n.Or: "||",
}  # fmt: skip
_TYPES = {"float32": "float", "float64": "double", "float16": "float16", "bfloat16": "bfloat16", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class Names:
    """What variables and buffers are called, and the least values of variables where they are known."""

    variables: Mapping[n.Var, str] = field(default_factory=dict[n.Var, str])
    buffers: Mapping[n.Buffer, str] = field(default_factory=dict[n.Buffer, str])
    least: Mapping[n.Var, int] = field(default_factory=dict[n.Var, int])

    def of(self, thing: n.Var | n.Buffer) -> str:
        found = self.buffers.get(thing) if isinstance(thing, n.Buffer) else self.variables.get(thing)
        return found or thing.name

    def with_variable(self, var: n.Var, name: str, least: int | None) -> Names:
        known = {**self.least, var: least} if least is not None else self.least
        return replace(self, variables={**self.variables, var: name}, least=known)

    def at_least(self, expr: n.Expr) -> int | None:
        """A bound from below; None where none is known."""
        match expr:
            case n.IntImm(value):
                return value
            case n.Var():
                return self.least.get(expr)
            case n.Cast(value):
                return self.at_least(value)
            case n.Sub(a, n.IntImm(c)):
                low = self.at_least(a)
                return None if low is None else low - c
            case n.Add(a, b) | n.Mul(a, b) | n.FloorDiv(a, b) | n.FloorMod(a, b) | n.Min(a, b) | n.Max(a, b):
                x, y = self.at_least(a), self.at_least(b)
                if isinstance(expr, n.Max) and (x is None or y is None):
                    return x if y is None else y
                if x is None or y is None:
                    return None
                if isinstance(expr, n.Add):
                    return x + y
                if isinstance(expr, n.Min | n.Max):
                    return min(x, y) if isinstance(expr, n.Min) else max(x, y)
                if x < 0 or y < 0:
                    return None
                return x * y if isinstance(expr, n.Mul) else 0
            case _:
                return None


def cpp_type(dtype: DataType) -> str:
    """The C++ type of an element; raises TN07 for one that the header has none for."""
    word = str(dtype)
    if dtype.lanes == 1 and dtype.is_integer and not dtype.is_bool and dtype.bits in (8, 16, 32, 64):
        return f"{word}_t"
    if word in _TYPES:
        return _TYPES[word]
    message = f"tiles of {word} have no type in C++ here."
    raise DiagnosticError(Diagnostic("TN07", message, n.NOWHERE, help="compute in float32, float16 or bfloat16."))


def cpp(node: n.Expr, names: Names) -> str:
    """An expression as C++. Raises TN07 for what has no words there.

    >>> i = n.Var("i", n.PrimType(DataType.parse("int32")))
    >>> four = n.IntImm(4, i.dtype)
    >>> cpp(n.FloorDiv(n.Add(i, four), four), Names(least={i: 0})), cpp(n.FloorDiv(n.Sub(i, four), four), Names())
    ('(i + 4) / 4', 'floor_div<int32_t>(i - 4, 4)')
    """

    def of(e: n.Expr, inside: bool = True) -> str:
        """The text; inside of another one in parentheses, but for products to the left of what binds no stronger."""
        if (sign := _SIGNS.get(type(e))) is not None:
            assert isinstance(e, n.BinaryOp | n.CmpOp | n.And | n.Or)
            return binary(e, sign, e.a, e.b, inside)
        match e:
            case n.FloorDiv(a, b) | n.FloorMod(a, b):
                division = isinstance(e, n.FloorDiv)
                if (low := names.at_least(a)) is not None and low >= 0:
                    return binary(e, "/" if division else "%", a, b, inside)
                word = "floor_div" if division else "floor_mod"
                return f"{word}<{cpp_type(e.dtype)}>({of(a, False)}, {of(b, False)})"
            case n.Mod(a, b) if e.dtype.is_float:
                return _function("std::fmod", e.dtype, [a.dtype, b.dtype], [of(a, False), of(b, False)])
            case n.Mod(a, b):
                return binary(e, "%", a, b, inside)
            case n.Var():
                return names.of(e)
            case n.IntImm(value):
                return _integer(value, e.dtype)
            case n.FloatImm(value):
                return _number(value, e.dtype)
            case n.Not(value):
                return f"!({of(value, False)})"
            case n.Cast(value, dtype) if value.dtype.is_float and dtype.is_integer and not dtype.is_bool:
                return f"to_integer<{cpp_type(dtype)}>({of(value, False)})"
            case n.Cast(value, dtype):
                return f"static_cast<{cpp_type(dtype)}>({of(value, False)})"
            case n.Min(a, b) | n.Max(a, b):
                word = "min" if isinstance(e, n.Min) else "max"
                word = f"{word}imum" if e.dtype.is_float else f"std::{word}"
                return f"{word}<{cpp_type(e.dtype)}>({of(a, False)}, {of(b, False)})"
            case n.Select(condition, a, b) | n.Call(op="if_then_else", args=(condition, a, b)):
                assert isinstance(condition, n.Expr) and isinstance(a, n.Expr) and isinstance(b, n.Expr)
                return f"({of(condition)} ? {of(a)} : {of(b)})"
            case n.BufferLoad(buffer, indices):
                return f"{names.of(buffer)}({', '.join(of(i, False) for i in indices)})"
            case n.Call(op=str(op), args=args) if op in OPERATIONS:
                # texts among the arguments say how to round, which is to the nearest here
                parts = [a for a in args if isinstance(a, n.Expr) and not isinstance(a, n.StringImm)]
                given = [of(a, False) for a in parts]
                known = OPERATIONS[op]
                if not known:
                    return given[0]
                if not known.startswith("std::"):
                    return f"{known}<{cpp_type(e.dtype)}>({', '.join(given)})"
                return _function(known, e.dtype, [a.dtype for a in parts], given)
            case _:
                _no_words(in_words(e), e)

    def binary(e: n.Expr, sign: str, a: n.Expr, b: n.Expr, inside: bool) -> str:
        """An operator between two texts; what C++ computes in a wider type is one of the element's again."""
        left = of(a, not (sign in "*/%" and _is_product(a) and not _is_narrow(a.dtype)))
        right = of(b, sign not in "+-" or not _is_product(b))
        text = f"{left} {sign} {right}"
        if sign in "+-*/%" and _is_narrow(e.dtype):
            return f"static_cast<{cpp_type(e.dtype)}>({text})"
        return f"({text})" if inside else text

    return of(node, False)


def _no_words(what: str, node: n.Expr) -> NoReturn:
    message = f"{what} has no words in the C++ of a core."
    raise DiagnosticError(Diagnostic("TN07", message, node.span, help="write it with arithmetic and functions."))


def _is_product(e: n.Expr) -> bool:
    return isinstance(e, n.Mul)


def _is_narrow(dtype: DataType) -> bool:
    """Whether C++ computes with elements of this type in a wider one: in int, or in float."""
    return (dtype.is_float and dtype.bits < 32) or (dtype.is_integer and not dtype.is_bool and dtype.bits < 32)


def _function(word: str, dtype: DataType, kinds: list[DataType], given: list[str]) -> str:
    """A function of the standard, which knows no halves: they are passed as floats, and what it gives is converted."""
    passed = [f"float({g})" if k.is_float and k.bits < 32 else g for k, g in zip(kinds, given, strict=True)]
    text = f"{word}({', '.join(passed)})"
    return text if dtype.is_bool else f"{cpp_type(dtype)}({text})"


def _integer(value: int, dtype: DataType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    unsigned = str(dtype).startswith("u")
    if dtype.bits == 64:
        if value == -(2**63):
            return f"(INT64_C({value + 1}) - 1)"
        return f"{'UINT64_C' if unsigned else 'INT64_C'}({value})"
    if value == -(2**31):
        return f"({value + 1} - 1)"
    return f"{value}u" if unsigned and dtype.bits == 32 else str(value)


def _number(value: float, dtype: DataType) -> str:
    kind = cpp_type(dtype)
    held = "double" if kind == "double" else "float"
    if held == "float" and isfinite(value):
        with np.errstate(over="ignore"):
            value = value if isfinite(float(np.float32(value))) else copysign(inf, value)
    if isfinite(value):
        text = repr(value) if held == "double" else f"{value!r}f"
    else:
        word = "quiet_NaN()" if isnan(value) else "infinity()"
        text = f"{'-' if value < 0 else ''}std::numeric_limits<{held}>::{word}"
    return text if kind == held else f"{kind}({text})"
