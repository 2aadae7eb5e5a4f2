"""What expressions do besides giving a value, done before their statement, which then finds what each of it gave.

A function that takes a buffer, or that computes by loops and stores, leaves what it returns in storage of its own:
`B[i] = A[i] + f(A.data)` is `result = f(A.data); B[i] = A[i] + result`. So do atomic updates of which the old value is
used, and choices that decide whether one of these is done: `B[i] = T.if_then_else(c, f(A.data), 0)` is
`if c: chosen = f(A.data)`, `else: chosen = 0`, `B[i] = chosen`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.ir.types import INT32
from tensorir.lifting.nests.nest import Node, written
from tensorir.lifting.nests.terms import Buffer, Index, Load
from tensorir.runtime.assembly import read_call, read_statement
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT32 as INDEX
from tensorir.tir.lift.allocation import allocate
from tensorir.tir.lift.asked import asked
from tensorir.tir.lift.atomics import is_atomic
from tensorir.tir.lift.expressions import element_of, refused
from tensorir.tir.lift.own_calls import Choice, own_calls, own_parts
from tensorir.tir.lift.reader import Flag, Reader
from tensorir.tir.lift.updates import fetched
from tensorir.tir.lift.vectors import kept
from tensorir.tir.trees import children, walk

__all__ = ["acts", "does", "results"]


def acts(parts: Iterable[n.Node]) -> bool:
    """Whether some expression may do more than to give a value: most calls and updates are statements."""
    alone: set[int] = set()
    for part in parts:
        match part:
            case n.Evaluate(n.Call() as call):
                alone.add(id(call))
            case n.Call(op=op) if id(part) not in alone and (isinstance(op, n.GlobalVar) or is_atomic(part)):
                return True
            case _:
                pass
    return False


def results(reader: Reader, node: n.Stmt) -> list[Node]:
    """What a statement's own expressions do, in their order.

    Errors: TL01 where the statement reads what one of them writes, and for choices among vectors.
    """
    if not reader.acting:
        return []
    found: list[Node] = []
    for one in own_calls(node, lambda call: is_atomic(call) or _runs(reader, call)):
        if isinstance(node, n.Evaluate) and one is node.value:
            continue
        found += _done(reader, node, one)
    return found


def does(reader: Reader, expression: n.Expr) -> bool:
    """Whether an expression does something of the kind."""
    return reader.acting and any(is_atomic(p) or _runs(reader, p) for p in walk(expression) if isinstance(p, n.Call))


def _done(reader: Reader, node: n.Stmt, one: n.Call | Choice | n.Let) -> list[Node]:
    match one:
        case n.Let(var, value):
            reader.scope.values[var], keep = kept(reader, var.name, value, one.span)
            return keep
        case Choice():
            expression, nodes, does = one.node, _chosen(reader, one), "a choice here"
        case _ if is_atomic(one):
            expression, nodes, does = one, [*asked(reader, *one.args), *fetched(reader, one)], "an atomic update"
        case _:
            name = _name(one)
            expression, nodes, does = one, [*asked(reader, *one.args), *_result(reader, one, name)], repr(name)
    if changed := {b.root for b in written(nodes)} & _read(reader, node, expression):
        names = " and ".join(sorted(repr(b.name) for b in changed))
        message = f"this statement reads {names}, which {does} writes."
        raise refused(message, expression.span, "let it stand in a statement of its own, and keep what it gives.")
    return nodes


def _chosen(reader: Reader, choice: Choice) -> list[Node]:

    dtype, span = choice.node.dtype, choice.node.span
    if dtype.lanes != 1:
        told = "a choice among vectors decides whether this is done."
        raise refused(told, span, "write it as a statement before, under an `if`.")
    data = n.Var("chosen", n.PointerType(n.PrimType(dtype), "local"))
    buffer = n.Buffer(data, dtype, (n.IntImm(1, INDEX),), name="chosen", span=span)
    allocate(reader, buffer, span)
    first = (n.IntImm(0, INDEX),)
    yes, no = (n.BufferStore(buffer, value, first, span=span) for value in (choice.yes, choice.no))
    nodes = read_statement(reader, n.IfThenElse(choice.condition, yes, no, span=span))
    reader.scope.exchanged[id(choice.node)] = reader.term(n.BufferLoad(buffer, first, span=span))
    return nodes


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


def _result(reader: Reader, call: n.Call, name: str) -> list[Node]:

    lanes = reader.lanes
    buffer = reader.buffer("result", element_of(call.dtype), tuple(t.extent for t in lanes), call.span)
    target = Flag(buffer, tuple(Index(t.name, INT32) for t in lanes))
    nodes = read_call(reader, name, call, call.span, target)
    if buffer not in written(nodes):
        raise refused(f"{name!r} stands in an expression, and does not return a value.", call.span)
    reader.scope.exchanged[id(call)] = Load(buffer, target.indices)
    return nodes


def _read(reader: Reader, node: n.Stmt, left_out: n.Expr) -> set[Buffer]:
    """The memories that a statement's own expressions read, but for what has been done."""
    pending: list[n.Node] = list(own_parts(node))
    found: set[Buffer] = set()
    while pending:
        part = pending.pop()
        if part is left_out or id(part) in reader.scope.exchanged:
            continue
        if isinstance(part, n.Call) and part.op in ("address_of", "tvm_access_ptr"):
            continue
        if isinstance(part, n.BufferLoad) and part.buffer in reader.scope.views:
            found.add(reader.scope.views[part.buffer].buffer.root)
        pending += () if isinstance(part, n.Buffer) else children(part)
    return found
