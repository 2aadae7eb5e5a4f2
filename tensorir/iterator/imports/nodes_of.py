"""GT4Py's nodes of iterator IR as ours, one by one, by the names of their classes: nothing of GT4Py is imported.

>>> from types import SimpleNamespace
>>> SymRef = type("SymRef", (SimpleNamespace,), {})
>>> expression(SymRef(id="deref"))
Ref(name='deref')
"""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensorir.ir.types import SCALARS, Scalar
from tensorir.iterator.nodes import (
    Axis,
    Call,
    CartesianOffset,
    Expr,
    FieldType,
    FunctionDefinition,
    If,
    Infinity,
    Lambda,
    Literal,
    NoValue,
    Offset,
    Param,
    ParamType,
    Program,
    Ref,
    SetAt,
    Statement,
    Temporary,
    TupleType,
)
from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = ["axis_of", "expression", "param_type", "program"]

OF_OPERATOR = "__field_operator_"
"""What GT4Py puts before the name of an operator that is called as a program."""


def program(node: Any) -> Program:
    """A program of GT4Py as one of ours; raises TI01 for nodes that are not known here."""
    if (kind := type(node).__name__) != "Program":
        raise _unknown(kind, "a program of iterator IR is needed: give program.gtir.")
    return Program(
        str(node.id).removeprefix(OF_OPERATOR),
        tuple(
            FunctionDefinition(str(f.id), tuple(str(p.id) for p in f.params), expression(f.expr))
            for f in node.function_definitions
        ),
        tuple(Param(str(p.id), param_type(getattr(p, "type", None))) for p in node.params),
        tuple(
            Temporary(
                str(t.id), None if t.domain is None else expression(t.domain), param_type(getattr(t, "dtype", None))
            )
            for t in node.declarations
        ),
        statements(node.body),
    )


def statements(nodes: Iterable[Any]) -> tuple[Statement, ...]:
    return tuple(_statement(n) for n in nodes)


def _statement(node: Any) -> Statement:
    match type(node).__name__:
        case "SetAt":
            return SetAt(expression(node.expr), expression(node.domain), expression(node.target))
        case "IfStmt":
            return If(expression(node.cond), statements(node.true_branch), statements(node.false_branch))
        case kind:
            raise _unknown(kind)


def _parts(node: Any) -> tuple[Any, ...]:
    match type(node).__name__:
        case "Lambda":
            return (node.expr,)
        case "FunCall":
            return (node.fun, *node.args)
        case _:
            return ()


_LEAVES: dict[str, Callable[[Any], Expr]] = {
    "Literal": lambda n: Literal(str(n.value), _scalar(n.type)),
    "NoneLiteral": lambda n: NoValue(),
    "InfinityLiteral": lambda n: Infinity(n.name == "POSITIVE"),
    "OffsetLiteral": lambda n: Offset(n.value if isinstance(n.value, int) else str(n.value)),
    "AxisLiteral": lambda n: axis_of(n),
    "CartesianOffset": lambda n: CartesianOffset(axis_of(n.domain), axis_of(n.codomain)),
    "SymRef": lambda n: Ref(str(n.id)),
}


def expression(root: Any) -> Expr:
    """An expression of GT4Py as ours; nodes that occur several times stay one node."""
    done: dict[int, Expr] = {}
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        parts = _parts(node)
        if parts and not ready:
            stack.append((node, True))
            stack.extend((part, False) for part in parts)
            continue
        match type(node).__name__:
            case "Lambda":
                done[id(node)] = Lambda(tuple(str(p.id) for p in node.params), done[id(node.expr)])
            case "FunCall":
                done[id(node)] = Call(done[id(node.fun)], tuple(done[id(a)] for a in node.args))
            case kind if kind in _LEAVES:
                done[id(node)] = _LEAVES[kind](node)
            case kind:
                raise _unknown(kind)
    return done[id(root)]


def axis_of(node: Any) -> Axis:
    """An axis of a node or of a dimension, which have the same parts."""
    return Axis(str(node.value), str(getattr(node.kind, "value", node.kind)))


def _scalar(node: Any) -> Scalar:
    name = node.kind.name.lower()
    if name not in SCALARS:
        raise DiagnosticError(Diagnostic("TI02", f"there is no element type '{name}' here."))
    return SCALARS[name]


def param_type(node: Any) -> ParamType | None:
    """The type of a parameter; None where it has none that is known."""
    match type(node).__name__:
        case "FieldType":
            return (
                None
                if type(node.dtype).__name__ != "ScalarType"
                else FieldType(tuple(axis_of(d) for d in node.dims), _scalar(node.dtype))
            )
        case "ScalarType":
            return FieldType((), _scalar(node))
        case "TupleType" | "NamedCollectionType":
            members = tuple(param_type(t) for t in node.types)
            return None if None in members else TupleType(tuple(m for m in members if m is not None))
        case _:
            return None


def _unknown(kind: str, hint: str = "") -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "TI01", f"iterator IR has no '{kind}' that is known here.",
            help=hint or "nodes of GT4Py 1.1 are read; install a release of it.",
        )
    )  # fmt: skip
