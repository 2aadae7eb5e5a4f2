"""Effects of expressions, done before their statement: atomic updates, vectors."""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.ir.types import INT32
from tensorir.lifting.nests.nest import Loop, Node, Store, written
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Term
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT32 as INDEX
from tensorir.tir.lift.allocation import allocate, pointer
from tensorir.tir.lift.asked import asked
from tensorir.tir.lift.expressions import Lanes, element_of, term, value_of
from tensorir.tir.lift.intrinsics import binary, cast
from tensorir.tir.lift.memory import apart
from tensorir.tir.lift.reader import (
    ATOMICS,
    Choice,
    Flag,
    Reader,
    as_builtin,
    is_atomic,
    own_calls,
    own_parts,
    read_statement,
)
from tensorir.tir.trees import children, walk

read_call = ExtensionPoint("a call of a function of TIR as nests", "tensorir.tir.lift.calls", "called")

# Atomic updates: threads take their turns in ascending order, and each may keep what it found.
#
# A statement that uses the old value is two: the update, in which each thread keeps what it finds, and what it does
# with that. Which thread finds what no text says; here the first one comes first.

_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


def updated(reader: Reader, call: n.Call, span: Span) -> list[Node]:
    """An atomic update that stands alone, as a store."""
    return _in_turn(reader, [_update(reader, call, span)])


def fetched(reader: Reader, call: n.Call) -> list[Node]:
    """An update of which a statement uses the old value, which it then finds where each thread kept its own."""
    known = as_builtin(call)
    update = _update(reader, known, call.span)
    kept, keep = reader.keeping("old", Load(update.buffer, update.indices, call.span), call.span, atomic=True)
    reader.scope.exchanged[id(call)] = kept
    line = f"line {call.span.line}: " if call.span is not NOWHERE else ""
    reader.scope.notes[f"{line}T.{known.op} updates thread by thread, in ascending order."] = None
    return _in_turn(reader, [keep, update])


def _update(reader: Reader, call: n.Call, span: Span) -> Store:
    view = pointer(reader, call.args[0], span)
    value = reader.term(value_of(call.args[1]))
    if isinstance(call.args[0], n.BufferLoad):
        indices = view.place(tuple(reader.term(i) for i in call.args[0].indices))
    else:
        indices = apart(view.offset, view.buffer.shape)
    old, name = Load(view.buffer, indices, span), ATOMICS[str(call.op)]
    new = binary(name, old, value) if name else value
    return Store(view.buffer, indices, new, reader.holding, span, atomic=True, stretch=reader.stretch)


def _in_turn(reader: Reader, nodes: list[Node]) -> list[Node]:
    """Statements that threads run one after the other, all of them for each, `threadIdx.x` fastest."""
    tags = {t.name: tag for tag, t in (reader.threads or {}).items()}
    span = nodes[-1].span
    for thread in sorted(reader.lanes, key=lambda t: _TAGS.index(tags[t.name]), reverse=True):
        bounds = Number(0, INT32), Number(thread.extent, INT32)
        nodes = [Loop(thread.name, *bounds, tuple(nodes), parallel=True, span=span, title=thread.name)]
    return nodes


# Vectors that statements compute: a loop over the lanes, which stands for all of them at once.


def lane_loop(name: str, lanes: int, node: Node, span: Span) -> Node:
    extent = Number(lanes, INT32)
    return Loop(name, Number(0, INT32), extent, (node,), span=span, title="lane", lockstep=True)


def asked_of_lanes(reader: Reader, value: n.Expr) -> list[Node]:
    """The checks of a value, for each of its lanes."""
    lanes = value.dtype.lanes
    if lanes == 1:
        return asked(reader, value)
    name = reader.loop_name("lane")
    with reader.inside(name, (0, lanes - 1)):
        return [lane_loop(name, lanes, check, value.span) for check in asked(reader, value, lane=Index(name, INT32))]


def kept(reader: Reader, title: str, value: n.Expr, span: Span) -> tuple[Lanes, list[Node]]:
    """A value that is computed here, once: where each lane of it is then, and the stores that leave it there."""
    lanes = value.dtype.lanes
    if lanes == 1:
        found, keep = reader.temporary(title, reader.term(value), span)
        return lambda lane: found, [keep]
    name = reader.loop_name("lane")
    own = Index(name, INT32)
    with reader.inside(name, (0, lanes - 1)):
        found, keep = reader.temporary(title, term(reader.scope, value, own), span)

    def of(lane: Term) -> Term:
        return Load(found.buffer, tuple(cast(lane, INT32) if index == own else index for index in found.indices))

    return of, [lane_loop(name, lanes, keep, span)]


# What expressions do besides giving a value, done before their statement, which then finds what each of it gave.
#
# A function that takes a buffer, or that computes by loops and stores, leaves what it returns in storage of its own:
# `B[i] = A[i] + f(A.data)` is `result = f(A.data); B[i] = A[i] + result`. So do atomic updates of which the old value
# is used, and choices that decide whether one of these is done: `B[i] = T.if_then_else(c, f(A.data), 0)` is `if c:
# chosen = f(A.data)`, `else: chosen = 0`, `B[i] = chosen`.


def acts(parts: Iterable[n.Node]) -> bool:
    """True if some expression may do more than to give a value: most calls and updates are statements."""
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
    """Effects of a statement's own expressions, in order.

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
    """True if an expression does something of the kind."""
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
        help = "let it stand in a statement of its own, and keep what it gives."
        raise refuse("TL01", message, help, at=expression.span)
    return nodes


def _chosen(reader: Reader, choice: Choice) -> list[Node]:

    dtype, span = choice.node.dtype, choice.node.span
    if dtype.lanes != 1:
        message = "a choice among vectors decides whether this is done."
        raise refuse("TL01", message, "write it as a statement before, under an `if`.", at=span)
    data = n.Var("chosen", n.PointerType(n.PrimType(dtype), "local"))
    buffer = n.Buffer(data, dtype, (n.IntImm(1, INDEX),), name="chosen", span=span)
    allocate(reader, buffer, span)
    first = (n.IntImm(0, INDEX),)
    yes, no = (n.BufferStore(buffer, value, first, span=span) for value in (choice.yes, choice.no))
    nodes = read_statement(reader, n.IfThenElse(choice.condition, yes, no, span=span))
    reader.scope.exchanged[id(choice.node)] = reader.term(n.BufferLoad(buffer, first, span=span))
    return nodes


def _runs(reader: Reader, call: n.Call, above: tuple[str, ...] = ()) -> bool:
    """True if a call is of a function of the module that takes a buffer, or does something, itself or by its calls."""
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
    """True if lets, choices and returns are all that there is."""
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
        raise refuse("TL01", f"{name!r} stands in an expression, and does not return a value.", at=call.span)
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
