"""The calls that a statement makes itself, before the statements inside of it do anything, and choices of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tensorir.tir import nodes as n
from tensorir.tir.lift.atomics import is_atomic
from tensorir.tir.trees import children, walk

__all__ = ["Choice", "own_calls", "own_parts", "writes"]

Wanted = Callable[[n.Call], bool]


@dataclass(frozen=True, slots=True)
class Choice:
    """An expression of which a condition decides what is computed: `T.if_then_else`, `and`, `or`."""

    node: n.Expr
    condition: n.Expr
    yes: n.Expr
    no: n.Expr


def writes(node: n.Node) -> bool:
    """Whether a call may write, wherever in an expression it stands."""
    return isinstance(node, n.Call) and (isinstance(node.op, n.GlobalVar) or is_atomic(node))


def own_calls(node: n.Stmt, wanted: Wanted) -> Iterator[n.Call | Choice | n.Let]:
    """The calls that are wanted, inner ones first; the outermost choices that decide whether some are reached; and the
    lets that some stand in, behind their value.
    """
    for part in own_parts(node):
        yield from _calls(part, wanted)


def own_parts(node: n.Stmt) -> tuple[n.Node, ...]:
    """What a statement computes itself, before the statements inside of it."""
    match node:
        case n.BufferStore(_, value, indices, predicate):
            return (value, *indices, *(() if predicate is None else (predicate,)))
        case n.LetStmt(_, value) | n.Evaluate(value):
            return (value,)
        case n.IfThenElse(condition) | n.AssertStmt(condition):
            return (condition,)
        case n.For(_, low, extent):
            return (low, extent)
        case _:
            return ()


def _calls(node: n.Node, wanted: Wanted) -> Iterator[n.Call | Choice | n.Let]:
    match _choice(node):
        case Choice(yes=yes, no=no) as choice if _any(yes, wanted) or _any(no, wanted):
            yield choice
            return
        case _:
            pass
    match node:
        case n.Let(_, value, body) if _any(body, wanted):
            yield from _calls(value, wanted)
            yield node
            yield from _calls(body, wanted)
        case n.Buffer():
            pass
        case _:
            for part in children(node):
                yield from _calls(part, wanted)
            if isinstance(node, n.Call) and wanted(node):
                yield node


def _any(node: n.Node, wanted: Wanted) -> bool:
    return any(isinstance(part, n.Call) and wanted(part) for part in walk(node))


def _choice(node: n.Node) -> Choice | None:
    match node:
        case n.Call(op="if_then_else", args=(n.Expr() as condition, n.Expr() as yes, n.Expr() as no)):
            return Choice(node, condition, yes, no)
        case n.And(a, b):
            return Choice(node, a, b, n.IntImm(0, node.dtype))
        case n.Or(a, b):
            return Choice(node, a, n.IntImm(1, node.dtype), b)
        case _:
            return None
