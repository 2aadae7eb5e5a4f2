"""Elementwise builtins of iterator IR whose meaning is a composition of the tensor IR's.

>>> from tensorir.ir.types import INT32
>>> g = Graph()
>>> elementwise(g, "power", [g.input("n", INT32, ()), g.constant(2, INT32)]).op
'multiplies'
"""

from __future__ import annotations

from typing import Any

from tensorir.ir.types import BOOL, FLOAT64
from tensorir.iterator.lift.graph import Graph, Node
from tensorir.iterator.nodes import ARITHMETIC

__all__ = ["elementwise"]

_BITS = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor", "not": "bit_not"}
_LONGEST_PRODUCT = 8


def elementwise(g: Graph, name: str, args: list[Any]) -> Node:
    """An elementwise builtin of iterator IR on nodes."""
    core = ARITHMETIC[name].core
    match core:
        case "power":
            return _power(g, *args)
        case "gamma":
            return _gamma(g, *args)
        case "and" | "or" | "xor" | "not" if any(a.element != BOOL for a in args):
            return g.op(_BITS[core], *args)
        case "abs" | "neg" if args[0].element == BOOL:
            return args[0]
        case "isfinite" | "isinf" | "isnan" | "sqrt" | "exp" | "log" if not args[0].element.is_float:
            return g.op(core, g.cast(args[0], FLOAT64))
        case "floor" | "ceil" | "trunc" if not args[0].element.is_float:
            return args[0]
        case _:
            return g.op(core, *args)


def _power(g: Graph, x: Node, n: Node) -> Node:
    """Whole exponents that are written are products; those of whole numbers are powers of floats, rounded."""
    if n.op == "constant" and float(n.static[1]).is_integer() and abs(n.static[1]) <= _LONGEST_PRODUCT:
        count = int(n.static[1])
        if count >= 0 or x.element.is_float:
            if not x.element.is_float and n.element.is_float:
                x = g.cast(x, n.element)
            product = _product(g, x, abs(count))
            return product if count >= 0 else g.op("divides", g.constant(1.0, x.element), product)
    if x.element.is_float:
        return g.op("power", x, g.cast(n, x.element))
    if n.element.is_float:
        return g.op("power", g.cast(x, n.element), n)
    power = g.op("power", g.cast(x, FLOAT64), g.cast(n, FLOAT64))
    return g.cast(g.op("round", power), x.element)


def _product(g: Graph, x: Node, count: int) -> Node:
    if count == 0:
        one = g.constant(1.0 if x.element.is_float else 1, x.element)
        return g.broadcast(one, x.dims)
    half = x if count == 1 else _product(g, x, count // 2)
    if count == 1:
        return half
    square = g.op("multiplies", half, half)
    return g.op("multiplies", square, x) if count % 2 else square


def _gamma(g: Graph, x: Node) -> Node:
    """The exponential of its logarithm, with the sign that it has between the poles."""
    if not x.element.is_float:
        x = g.cast(x, FLOAT64)
    zero, one, two = (g.constant(v, x.element) for v in (0.0, 1.0, 2.0))
    odd = g.op("not_eq", g.op("mod", g.op("floor", x), two), zero)
    negative = g.op("and", g.op("less", x, zero), odd)
    size = g.op("exp", g.op("lgamma", x))
    return g.op("multiplies", g.op("if", negative, g.op("neg", one), one), size)
