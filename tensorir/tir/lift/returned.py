"""Functions of the module that return a value to an expression: the value itself stands in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.terms import Number, Op, Term
from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.lift.expressions import Scope, element_of, refused, term, truth
from tensorir.tir.lift.intrinsics import cast

__all__ = ["entered", "returned"]

DEEPEST, MOST = 64, 1024
"""How deep calls may nest, and how many of them may be of functions that run already."""


def entered(scope: Scope, name: str, around: Sequence[str], span: Span) -> None:
    """Count a call from within other functions; refuse one that seems to end nowhere."""
    if len(around) >= DEEPEST:
        raise refused(f"calls of {name!r} nest more than {DEEPEST} deep.", span, "replace the recursion by a loop.")
    if name in around:
        scope.recursions.append(name)
    if len(scope.recursions) > MOST:
        raise refused(f"{name!r} calls itself more than {MOST} times.", span, "replace the recursion by a loop.")


def returned(scope: Scope, call: n.Call, name: str, lane: Term) -> Term:
    """What a function of scalars returns, by lets, choices and returns.

    Errors: TL01 for what is no PrimFunc of the module, takes a buffer, or computes by other statements, and for a
    recursion that nothing known before a run ends.
    """
    callee = scope.functions.get(name)
    if not isinstance(callee, n.PrimFunc):
        what = "is not in the module" if callee is None else "is no PrimFunc"
        raise refused(f"the function {name!r} {what}, so it cannot be called.", call.span)
    entered(scope, name, scope.called, call.span)
    if len(call.args) != len(callee.params):
        message = f"{name!r} takes {len(callee.params)} arguments, but is called with {len(call.args)}."
        raise refused(message, call.span)
    inner = replace(scope, values={}, views={}, pointers={}, exchanged={}, called=(*scope.called, name))
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
            cases = [yes, *rest], [*([] if no is None else [no]), *rest]
            holds = settled(truth(scope, condition, lane), scope.ranges)
            if isinstance(holds, Number):  # a recursion ends where its condition is decided
                return _value(scope, cases[0 if holds.value else 1], name, call, lane)
            a, b = (_value(scope, case, name, call, lane) for case in cases)
            return Op("if", (holds, a, b), a.element)
        case [n.Evaluate(n.Call(op="ret", args=(n.Expr() as value,))), *_]:
            return cast(term(scope, value, lane), element_of(call.dtype))
        case [other, *_]:
            message = f"{name!r} stands in an expression, and does more than to return a value."
            raise refused(message, other.span, "let it store the value into a buffer that it is given.")
        case _:
            raise refused(f"{name!r} stands in an expression, and does not return a value on all ways.", call.span)
