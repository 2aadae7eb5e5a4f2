"""Numbers of Python that take the element type of a field: whether the type holds them is seen at every call.

While an operator is traced a number that is passed to it stands for itself alone, and what it meets says its type. Here
is what was computed of such numbers, with the type that it took; a call computes it of its own numbers, in Python's
arithmetic, and refuses what would wrap or become infinite.

>>> from tensorir.ir.build import call, var
>>> from tensorir.ir.types import INT32, SCALARS, TensorType
>>> k = var("k", TensorType(INT32))
>>> refuse_beyond([TakenType(call("plus", k, k), SCALARS["int8"])], {"k": 60})
>>> refuse_beyond([TakenType(call("plus", k, k), SCALARS["int8"])], {"k": 70})
Traceback (most recent call last):
tensorir.runtime.errors.DiagnosticError: error[A07]: 'k + k' is int8, which cannot hold 140.
help: a number takes the type of the field that it meets: convert the field, ti.astype(x, ti.int64), or the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Var
from tensorir.ir.types import FLOAT64, INT64, Scalar
from tensorir.reference.scalars import SCALAR
from tensorir.runtime.errors import NOWHERE, Span, refuse


@dataclass(frozen=True, slots=True)
class TakenType:
    """A value computed of numbers of Python alone, and the element type that holds it."""

    expr: Expr
    element: Scalar
    span: Span = NOWHERE


def may_exceed(have: Scalar, element: Scalar) -> bool:
    """True if a number of the type `have` may lie outside the range of `element`."""
    if element.is_integer and have.is_integer:
        return not (element.range.start <= have.range.start and have.range.stop <= element.range.stop)
    return element.is_integer or (element.is_float and element != FLOAT64)


def refuse_beyond(taken: Iterable[TakenType], numbers: Mapping[str, Any]) -> None:
    """Raise A07 for the first of `taken` whose value, computed from `numbers` by parameter, its type cannot hold."""
    for one in taken:
        value = _value(one.expr, numbers, {})
        if value is not None and not one.element.holds(value):
            wide = "float64" if one.element.is_float else "int64"
            raise refuse("A07", f"'{one.expr}' is {one.element}, which cannot hold {value}.",
                "a number takes the type of the field that it meets: convert the field, "
                    f"ti.astype(x, ti.{wide}), or the number.",
                at=one.span)  # fmt: skip


def _value(e: Expr, numbers: Mapping[str, Any], known: dict[int, Any]) -> Any:
    """The value of an expression of Python numbers; None if it is not elementwise.

    `known` caches by `id(expression)`.
    """
    if id(e) not in known:
        known[id(e)] = _computed(e, numbers, known)
    return known[id(e)]


def _computed(e: Expr, numbers: Mapping[str, Any], known: dict[int, Any]) -> Any:
    """`_value` computed, from the values of the operands; integers in 64 bits, so that overflow of fewer bits shows."""
    match e:
        case Literal():
            return e.value
        case Var():
            return numbers.get(e.name)
        case Call():
            args = [_value(a, numbers, known) for a in e.args]
            element, result_element = e.args[0].tensor.element, e.tensor.element
            match e.op:
                case _ if any(a is None for a in args):
                    return None
                case "make_tuple":
                    return tuple(args)
                case "tuple_get":
                    return args[0][e.static.member]
                case "cast" if isinstance(result_element, Scalar) and result_element.is_number:
                    return float(args[0]) if result_element.is_float else int(args[0])
                case op if TABLE[op].relocates and len(args) == 1:
                    return args[0]
                case "if":
                    return args[1] if args[0] else args[2]
                case op if op in SCALAR and op not in ("popcount", "clz") and isinstance(element, Scalar):
                    # whole numbers in more bits than they have there, where it shows what would wrap
                    with np.errstate(all="ignore"):
                        return SCALAR[op](INT64 if element.is_integer else element, *args).item()
                case _:
                    return None
        case _:
            return None
