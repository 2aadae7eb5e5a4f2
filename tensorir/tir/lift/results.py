"""Functions of the module that do more than to return a value to an expression: they run before its statement.

A function that takes a buffer, or that computes by loops and stores, leaves what it returns where the statement then
finds it: `B[i] = A[i] + f(A.data)` is `result = f(A.data); B[i] = A[i] + result`.
"""

from __future__ import annotations

from tensorir.lift.nests.nest import Node, written
from tensorir.lift.nests.terms import Buffer, Index, Load
from tensorir.tir import nodes as n
from tensorir.tir.lift.expressions import element_of, refused
from tensorir.tir.lift.own_calls import own_calls, own_parts
from tensorir.tir.lift.reader import Flag, Reader
from tensorir.tir.walk import children, walk
from tensorir.types import INT32

__all__ = ["results"]


def results(reader: Reader, node: n.Stmt) -> list[Node]:
    """The calls that a statement's own expressions make of such functions, which then find what they returned.

    Errors: TL01 where a choice decides whether a function is called, or where the statement reads what one writes.
    """
    if reader.module is None or len(reader.module.functions) == 1:
        return []
    found: list[Node] = []
    for call, lazy in own_calls(node, lambda call: _runs(reader, call)):
        if isinstance(node, n.Evaluate) and call is node.value:
            continue
        if lazy:
            told = "a choice decides whether this function is called."
            raise refused(told, call.span, "call it in a statement before, under an `if`.")
        found += _result(reader, node, call, _name(call))
    return found


def _runs(reader: Reader, call: n.Call, above: tuple[str, ...] = ()) -> bool:
    """Whether a call is of a function of the module that takes a buffer, or does something, itself or by its calls."""
    name = _name(call)
    callee = None if reader.module is None or name in above else reader.module.functions.get(name)
    if not isinstance(callee, n.PrimFunc):
        return False
    if any(p.dtype.code == "handle" for p in callee.params) or not _is_value(callee.body):
        return True
    return any(isinstance(part, n.Call) and _runs(reader, part, (*above, name)) for part in walk(callee.body))


def _name(call: n.Call) -> str:
    return call.op.name if isinstance(call.op, n.GlobalVar) else ""


def _is_value(body: n.Stmt) -> bool:
    """Whether lets, choices and returns are all that there is."""
    match body:
        case n.SeqStmt(parts):
            return all(map(_is_value, parts))
        case n.IfThenElse(_, yes, no):
            return _is_value(yes) and (no is None or _is_value(no))
        case n.LetStmt() | n.Evaluate(n.Call(op="ret")):
            return True
        case _:
            return False


def _result(reader: Reader, node: n.Stmt, call: n.Call, name: str) -> list[Node]:
    from tensorir.tir.lift.calls import called

    lanes = reader.lanes
    buffer = reader.buffer("result", element_of(call.dtype), tuple(t.extent for t in lanes), call.span)
    target = Flag(buffer, tuple(Index(t.name, INT32) for t in lanes))
    nodes = called(reader, name, call, call.span, target)
    stored = written(nodes)
    if buffer not in stored:
        raise refused(f"{name!r} stands in an expression, and does not return a value.", call.span)
    if changed := {b.root for b in stored} & _read(reader, node, call):
        names = " and ".join(sorted(repr(b.name) for b in changed))
        message = f"this statement reads {names}, which {name!r} writes."
        raise refused(message, call.span, "call it in a statement of its own, and keep what it returns.")
    reader.scope.exchanged[id(call)] = Load(buffer, target.indices)
    return nodes


def _read(reader: Reader, node: n.Stmt, call: n.Call) -> set[Buffer]:
    """The memories that a statement's own expressions read, but for what they pass to a call."""
    pending: list[n.Node] = list(own_parts(node))
    found: set[Buffer] = set()
    while pending:
        part = pending.pop()
        if part is call:
            continue
        if isinstance(part, n.BufferLoad) and part.buffer in reader.scope.views:
            found.add(reader.scope.views[part.buffer].buffer.root)
        pending += () if isinstance(part, n.Buffer) else children(part)
    return found
