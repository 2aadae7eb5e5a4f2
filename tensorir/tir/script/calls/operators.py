"""`T.Add`, `T.min`, `T.Select`, `T.Ramp`, `T.Let`: operators under the names of functions."""

from __future__ import annotations

from collections.abc import Callable

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.script.arithmetic import binary, match
from tensorir.tir.script.calls.form import Call, makes
from tensorir.tir.script.values import (
    Value,
    entries,
)

_RAW: dict[str, tuple[str, Callable[[n.Expr, n.Expr, Span], n.Expr]]] = {
    "Add": ("+", n.Add),
    "Sub": ("-", n.Sub),
    "Mul": ("*", n.Mul),
    "Div": ("/", n.Div),
    "Mod": ("truncmod", n.Mod),
    "FloorDiv": ("//", n.FloorDiv),
    "FloorMod": ("%", n.FloorMod),
    "Min": ("min", n.Min),
    "Max": ("max", n.Max),
    "EQ": ("==", n.EQ),
    "NE": ("!=", n.NE),
    "LT": ("<", n.LT),
    "LE": ("<=", n.LE),
    "GT": (">", n.GT),
    "GE": (">=", n.GE),
    "And": ("and", n.And),
    "Or": ("or", n.Or),
}
_FOLDING = {
    "truncdiv": "truncdiv",
    "truncmod": "truncmod",
    "floordiv": "//",
    "floormod": "%",
    "indexdiv": "//",
    "indexmod": "%",
    "div": "/",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}


def two(it: Call, names: tuple[str, str] = ("a", "b")) -> tuple[n.Expr, n.Expr]:
    """Two operands; a number takes the type of the other."""
    a, b = it.take(*names, required=2)
    first = it.expr(a, b.dtype if isinstance(b, n.Expr) else None)
    return first, it.expr(b, first.dtype)


@makes(*_RAW)
def _raw(it: Call) -> Value:
    a, b = two(it)
    return _RAW[it.name][1](a, b, it.span)


@makes("Not")
def _not(it: Call) -> Value:
    return n.Not(it.reader.condition(it.take("a", required=1)[0], it.place(0, "a")), it.span)


_RAW_BITS = {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "LShift": "shift_left",
    "RShift": "shift_right",
}


@makes(*_RAW_BITS)
def _raw_bits(it: Call) -> Value:
    a, b = two(it)
    return n.Call(a.dtype, _RAW_BITS[it.name], (a, b), span=it.span)


@makes(*_FOLDING)
def _folding(it: Call) -> Value:
    if it.name.startswith(("bitwise_", "shift_")):
        a, b = two(it.untyped(), ("x", "y"))
    else:
        a, b = (it.expr(value) for value in it.untyped().take("a", "b", required=2))
    return binary(_FOLDING[it.name], a, b, it.span)


@makes("min", "max")
def extreme(it: Call) -> Value:
    """`T.min(a, b)`; the reductions of TE (`T.min(x, axis=...)`) are no part of printed text."""
    args = [arg for arg in it.args if not isinstance(arg, str)]
    if len(args) == 2 and all(isinstance(arg, int | float) for arg in args):
        return binary(it.name, args[0], args[1])
    a, b = it.take("a", "b", required=2)
    return binary(it.name, it.expr(a), it.expr(b), it.span)


@makes("ceildiv")
def _ceildiv(it: Call) -> Value:
    a, b = it.untyped().take("lhs", "rhs", required=2)
    if isinstance(a, int) and isinstance(b, int):
        return binary("//", a + b - 1, b)
    total = binary("-", binary("+", a, b, it.span), 1, it.span)
    return binary("//", total, b, it.span)


@makes("Select")
def _select(it: Call) -> Value:
    condition, a, b = it.take("condition", "true_value", "false_value", required=3)
    first = it.expr(a, b.dtype if isinstance(b, n.Expr) else None)
    return n.Select(it.reader.condition(condition, it.place(0, "condition")), first, it.expr(b, first.dtype), it.span)


@makes("if_then_else")
def _if_then_else(it: Call) -> Value:
    condition, a, b, _, _ = it.take("cond", "t", "f", "dtype", "span", required=3)
    first, second = it.expr(a), it.expr(b)
    if first.dtype != second.dtype and "handle" not in (first.dtype.code, second.dtype.code):
        first, second = match(first, second)
    asked = it.reader.condition(condition, it.place(0, "cond"))
    return n.Call(first.dtype, "if_then_else", (asked, first, second), span=it.span)


@makes("Ramp", "ramp")
def _ramp(it: Call) -> Value:
    base, stride, lanes = it.take("base", "stride", "lanes", required=3)
    start = it.expr(base, stride.dtype if isinstance(stride, n.Expr) else None)
    return n.Ramp(start, it.expr(stride, start.dtype), _lanes(it, lanes), it.span)


@makes("Broadcast", "broadcast")
def _broadcast(it: Call) -> Value:
    value, lanes = it.take("value", "lanes", required=2)
    return n.Broadcast(it.expr(value), _lanes(it, lanes), it.span)


def _lanes(it: Call, value: Value) -> int | n.Expr:
    match value:
        case n.IntImm(lanes):
            return lanes
        case int() if 0 < value <= 65_536:
            return value
        case n.Expr():
            return value
        case _:
            it.fail("TS21", "the number of lanes is a positive constant.")


@makes("Shuffle")
def _shuffle(it: Call) -> Value:
    vectors, indices = it.take("vectors", "indices", required=2)
    return n.Shuffle(it.reader.exprs(vectors, it.node), it.reader.exprs(indices, it.node), it.span)


@makes("Let")
def _let(it: Call) -> Value:
    """`T.Let(body, where={x: value})`, or the older `T.Let(x, value, body)`."""
    if "where" in it.kwargs:
        where = it.kwargs["where"]
        body = it.expr(it.args[0]) if it.args else it.expr(it.kwargs.get("expr"))
        for var, value in reversed((entries(where) or {}).items()):
            if not isinstance(var, n.Var):
                it.fail("TS21", "'where' gives values to variables.")
            body = n.Let(var, it.expr(value, var.dtype), body, it.span)
        return body
    var, value, body = it.take("var", "value", "body", required=3)
    if not isinstance(var, n.Var):
        it.fail("TS21", "T.Let binds a variable.")
    return n.Let(var, it.expr(value, var.dtype), it.expr(body), it.span)


@makes("infinity", "max_value", "min_value")
def _limit(it: Call) -> Value:
    dtype = it.dtype(it.take("dtype", "span", required=1)[0])
    if dtype.is_integer and it.name != "infinity":
        return n.IntImm(dtype.range[it.name == "max_value"], dtype, it.span)
    if it.name == "infinity":
        return n.FloatImm(float("inf"), dtype, it.span)
    return n.FloatImm(dtype.limits[it.name == "max_value"], dtype, it.span)
