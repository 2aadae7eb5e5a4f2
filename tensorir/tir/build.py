"""Makers of TIR: sequences that are flat, constants, regions, and operators that match their operands' types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir.dtypes import BOOL, INT32, DataType
from tensorir.tir.nodes import Allocate, Evaluate, Expr, FloatImm, IfThenElse, IntImm, SeqStmt, Stmt


def seq(statements: Iterable[Stmt], span: Span = NOWHERE) -> Stmt:
    """The statements one after the other, flat: one statement stands for itself, none is an empty sequence.

    Only a sequence that starts with a conditional allocation stays a sequence of its own, for the condition governs it.
    """
    flat: list[Stmt] = []
    for statement in statements:
        if isinstance(statement, SeqStmt) and not is_scope(statement):
            flat.extend(statement.seq)
        else:
            flat.append(statement)
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat), span)


def is_scope(statement: SeqStmt) -> bool:
    """True if a sequence is governed by a conditional allocation at its start."""
    match statement.seq:
        case (Allocate(condition=IntImm(1)), *_):
            return False
        case (Allocate(), *_):
            return True
        case _:
            return False


def branched(statement: SeqStmt) -> SeqStmt | IfThenElse:
    """A conditional allocation as a branch: where its condition fails, the sequence that it governs does not run.

    >>> from tensorir.tir import nodes as n
    >>> size = IntImm(4, INT32)
    >>> made = n.Allocate(n.Var("p", DataType("handle", 64)), INT32, (size,), condition=false())
    >>> type(branched(SeqStmt((made, nothing())))).__name__
    'IfThenElse'
    """
    match statement.seq:
        case (Allocate() as made, *rest) if is_scope(statement):
            inner = SeqStmt((replace(made, condition=true(made.span)), *rest), statement.span)
            return IfThenElse(made.condition, inner, None, made.span)
        case _:
            return statement


def const(value: int | float | bool, dtype: DataType | None = None, span: Span = NOWHERE) -> Expr:
    """A number as a constant of `dtype`, or of TVM's default for Python numbers (bool, int32, float32).

    >>> const(3), const(2, DataType.parse("float16")), const(True)
    (3, T.float16(2.0), T.bool(True))
    """
    if dtype is None:
        dtype = BOOL if isinstance(value, bool) else INT32 if isinstance(value, int) else DataType("float", 32)
    if dtype.is_float:
        try:
            number = float(value)
        except OverflowError:
            number = float("inf") if value > 0 else float("-inf")
        return FloatImm(number, dtype, span)
    return IntImm(int(value), dtype, span)


def true(span: Span = NOWHERE) -> IntImm:
    """The constant that always holds."""
    return IntImm(1, BOOL, span)


def false(span: Span = NOWHERE) -> IntImm:
    """The constant that never holds."""
    return IntImm(0, BOOL, span)


def nothing(span: Span = NOWHERE) -> Stmt:
    """The statement that does nothing."""
    return Evaluate(IntImm(0, INT32, span), span)
