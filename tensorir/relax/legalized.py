"""Packed functions that stand for operators: what TVM's legalization makes of those that no PrimFunc computes.

`R.unique(x)` becomes `R.call_pure_packed("relax.run.unique", x, ...)`, with the operator's arguments in their order.
"""

from __future__ import annotations

from dataclasses import replace

from tensorir.relax import nodes as r

__all__ = ["as_operator"]

HOME = "relax.run."
OPERATORS = ("assert_op", "nonzero", "print", "shape_to_tensor", "unique")


def as_operator(call: r.Call) -> r.Call:
    """The call of the operator that a packed function runs; of any other function, the call itself."""
    match call:
        case r.Call("call_packed" | "call_pure_packed", (r.ExternFunc(name), *args)) if name.startswith(HOME):
            operator = name.removeprefix(HOME)
        case _:
            return call
    match operator, args:
        case ("print", [r.StringValue(form), *values]):
            return replace(call, op="print", args=tuple(values), attrs={"format": form})
        case ("assert_op", [condition, r.StringValue(form), *values]):
            return replace(call, op="assert_op", args=(condition, *values), attrs={"format": form})
        case _:
            return replace(call, op=operator, args=tuple(args)) if operator in OPERATORS else call
