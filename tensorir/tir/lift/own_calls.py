"""The calls that a statement makes itself, before the statements inside of it do anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorir.tir import nodes as n
from tensorir.tir.lift.atomics import is_atomic
from tensorir.tir.walk import children

__all__ = ["own_calls", "own_parts", "writes"]

_LAZY = ("if_then_else",)
Wanted = Callable[[n.Call], bool]


def writes(node: n.Node) -> bool:
    """Whether a call may write, wherever in an expression it stands."""
    return isinstance(node, n.Call) and (isinstance(node.op, n.GlobalVar) or is_atomic(node))


def own_calls(node: n.Stmt, wanted: Wanted) -> Iterator[tuple[n.Call, bool]]:
    """The calls that are wanted, inner ones first, and whether what stands around decides if they are reached."""
    for part in own_parts(node):
        yield from _calls(part, wanted, False)


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


def _calls(node: n.Node, wanted: Wanted, lazy: bool) -> Iterator[tuple[n.Call, bool]]:
    match node:
        case n.Call(op=op, args=arguments):
            for k, argument in enumerate(arguments):
                yield from _calls(argument, wanted, lazy or (op in _LAZY and k > 0))
            if wanted(node):
                yield node, lazy
        case n.And(a, b) | n.Or(a, b):
            yield from _calls(a, wanted, lazy)
            yield from _calls(b, wanted, True)
        case _:
            for part in () if isinstance(node, n.Buffer) else children(node):
                yield from _calls(part, wanted, lazy)
