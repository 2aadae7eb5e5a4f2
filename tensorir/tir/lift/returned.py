"""Functions of the module that return a value to an expression: the value itself stands in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorir.lift.nests.terms import Op, Term
from tensorir.tir import nodes as n
from tensorir.tir.lift.expressions import Scope, element_of, refused, term, truth
from tensorir.tir.lift.intrinsics import cast

__all__ = ["returned"]


def returned(scope: Scope, call: n.Call, name: str, lane: Term) -> Term:
    """What a function of scalars returns, by lets, choices and returns.

    Errors: TL01 for what is no PrimFunc of the module, calls itself, takes a buffer, or computes by other statements.
    """
    callee = scope.functions.get(name)
    if not isinstance(callee, n.PrimFunc):
        what = "is not in the module" if callee is None else "is no PrimFunc"
        raise refused(f"the function {name!r} {what}, so it cannot be called.", call.span)
    if name in scope.called:
        raise refused(f"{name!r} calls itself in an expression.", call.span, "write the recursion as a loop.")
    if len(call.args) != len(callee.params):
        message = f"{name!r} takes {len(callee.params)} arguments, but is called with {len(call.args)}."
        raise refused(message, call.span)
    inner = Scope(exact=scope.exact, notes=scope.notes, functions=scope.functions, called=(*scope.called, name))
    for param, argument in zip(callee.params, call.args, strict=True):
        if not isinstance(argument, n.Expr) or param.dtype.code == "handle":
            message = f"{name!r} takes a buffer, and a call in an expression passes scalars only."
            raise refused(message, call.span, "load what it needs and pass that.")
        value = cast(term(scope, argument, lane), element_of(param.dtype))
        inner.values[param] = lambda lane, value=value: value
    return cast(_value(inner, [callee.body], name, call, lane), element_of(call.dtype))


def _value(scope: Scope, statements: Sequence[n.Stmt], name: str, call: n.Call, lane: Term) -> Term:
    match statements:
        case [n.SeqStmt(seq), *rest]:
            return _value(scope, [*seq, *rest], name, call, lane)
        case [n.LetStmt(var, value), *rest]:
            kept = term(scope, value, lane)
            inner = replace(scope, values=dict(scope.values))
            inner.values[var] = lambda lane: kept
            return _value(inner, rest, name, call, lane)
        case [n.IfThenElse(condition, yes, no), *rest]:
            a = _value(scope, [yes, *rest], name, call, lane)
            b = _value(scope, [*([] if no is None else [no]), *rest], name, call, lane)
            return Op("if", (truth(scope, condition, lane), a, b), a.element)
        case [n.Evaluate(n.Call(op="ret", args=(n.Expr() as value,))), *_]:
            return cast(term(scope, value, lane), element_of(call.dtype))
        case [other, *_]:
            message = f"{name!r} stands in an expression, and does more than to return a value."
            raise refused(message, other.span, "let it store the value into a buffer that it is given.")
        case _:
            raise refused(f"{name!r} stands in an expression, and does not return a value on all ways.", call.span)
