"""Statements of TIR as nests: one function per kind, each gives the nodes that stand for the statement."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.nest import Check, Loop, Node
from tensorir.lifting.nests.terms import Index, Number, Op, Term, index_names, loads
from tensorir.runtime.errors import Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.build import branched
from tensorir.tir.builtins import is_hardware
from tensorir.tir.lift import allocation, calls
from tensorir.tir.lift.asked import asked, inside_of_domains
from tensorir.tir.lift.expressions import as_stored, element_of, place, term, truth
from tensorir.tir.lift.intrinsics import cast
from tensorir.tir.lift.kernels import attribute, thread_loop
from tensorir.tir.lift.loops import for_loop, leave, while_loop
from tensorir.tir.lift.reader import Reader
from tensorir.tir.lift.results import asked_of_lanes, kept, lane_loop, results
from tensorir.tir.lift.warps import exchanged, folded
from tensorir.tir.storage import scratch_of
from tensorir.tir.trees import walk


def statement(reader: Reader, node: n.Stmt) -> list[Node]:
    """The nodes of one statement."""
    if isinstance(node, n.LetStmt):
        return sequence(reader, (node,))
    return [*_before(reader, node), *_statement(reader, node)]


def _before(reader: Reader, node: n.Stmt) -> list[Node]:
    """Statements before a statement that reads the values they store."""
    return [*exchanged(reader, node), *results(reader, node)]


def _statement(reader: Reader, node: n.Stmt) -> list[Node]:
    match node:
        case n.SeqStmt():
            whole = branched(node)
            return _branch(reader, whole) if isinstance(whole, n.IfThenElse) else sequence(reader, whole.seq)
        case n.BufferStore():
            return _store(reader, node)
        case n.For(kind=n.ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)) if is_hardware(tag):
            return thread_loop(reader, node, tag)
        case n.For():
            return for_loop(reader, node)
        case n.While(condition, body):
            return while_loop(reader, condition, body, node.span)
        case n.IfThenElse():
            return _branch(reader, node)
        case n.BlockRealize():
            return _realize(reader, node)
        case n.Block():
            return _realize(reader, n.BlockRealize((), n.IntImm(1, n.BOOL), node, node.span))
        case n.Evaluate(value):
            return _evaluate(reader, value, node.span)
        case n.AssertStmt(condition, message, kind):
            check = Check(truth(reader.scope, condition), f"{kind}: {''.join(message)}", reader.holding, node.span)
            return [*asked(reader, condition), reader.placed(check)]
        case n.AttrStmt():
            return attribute(reader, node)
        case n.AllocBuffer(buffer):
            allocation.allocate(reader, buffer, node.span)
            return []
        case n.BufferRealize(buffer, _, _, body):
            allocation.allocate(reader, buffer, node.span)
            return statement(reader, body)
        case n.Allocate(var, dtype, extents):
            allocation.allocate(reader, n.Buffer(var, dtype, extents, name=var.name, span=node.span), node.span)
            return []
        case n.AllocateConst():
            allocation.constant(reader, node)
            return []
        case n.DeclBuffer():
            allocation.declare(reader, node)
            return []
        case n.Break():
            return leave(reader, "broken", node.span)
        case n.Continue():
            return leave(reader, "continued", node.span)
        case n.Prefetch():
            return []
        case _:
            raise refuse("TL01", f"a {type(node).__name__} cannot be lifted.", at=node.span)


def _unless_true(condition: Term) -> tuple[Term, ...]:
    return () if isinstance(condition, Number) and condition.value else (condition,)


def sequence(reader: Reader, parts: Sequence[n.Stmt]) -> list[Node]:
    """Statements one after the other; lets and allocations hold for what follows."""
    found: list[Node] = []
    k = 0
    while k < len(parts):
        part = parts[k]
        nodes, taken = folded(reader, parts[k:]) if reader.shuffling is not None else ([], 0)
        if not taken and isinstance(part, n.LetStmt):
            nodes = [*_before(reader, part), *_let(reader, part, parts[k + 1 :])]
        elif not taken:
            nodes = statement(reader, part)
        found += nodes
        k += taken or 1
    return found


def _let(reader: Reader, node: n.LetStmt, rest: Sequence[n.Stmt]) -> list[Node]:
    """A let whose value stays what it is stands for its value; any other is computed once and kept."""
    value, scope = node.value, reader.scope
    if node.var.dtype.code == "handle":
        scope.pointers[node.var] = allocation.pointer(reader, value, node.span)
        return []
    nodes, found = asked_of_lanes(reader, value), reader.term(value)
    if not reader.unchanged(found, *rest):
        scope.values[node.var], keep = kept(reader, node.var.name, value, node.span)
        return nodes + keep
    scope.values[node.var] = (lambda lane: found) if value.dtype.lanes == 1 else (lambda lane: term(scope, value, lane))
    return nodes


def _store(reader: Reader, node: n.BufferStore) -> list[Node]:
    lanes = node.value.dtype.lanes
    if node.indices and node.indices[-1].dtype.lanes != 1:
        view = reader.scope.view(node.buffer, node.span)
        lanes = max(lanes, node.indices[-1].dtype.lanes * view.lanes)
    scope = reader.scope
    target = element_of(node.buffer.dtype, node.span)
    if lanes == 1:
        buffer, indices = place(scope, node.buffer, node.indices, Number(0, INT32), 1, node.span)
        value = cast(term(scope, node.value), target)
        before = asked(reader, node)
        with reader.guarded(*(() if node.predicate is None else _unless_true(term(scope, node.predicate)))):
            return [*before, reader.written(buffer, indices, as_stored(value, buffer.element), node.span)]
    name = reader.loop_name("lane")
    lane = Index(name, INT32)
    buffer, indices = place(scope, node.buffer, node.indices, lane, lanes, node.span)
    value = cast(term(scope, node.value, lane), target)
    predicate = () if node.predicate is None else _unless_true(term(scope, node.predicate, lane))
    nodes: list[Node] = []
    with reader.inside(name, (0, lanes - 1)):
        nodes += [lane_loop(name, lanes, check, node.span) for check in asked(reader, node, lane=lane)]
        if any(load.buffer.root is buffer.root for load in loads(value)):
            # a vector is read as a whole before any of it is written
            value, keep = reader.temporary("vector", value, node.span)
            nodes.append(lane_loop(name, lanes, keep, node.span))
        with reader.guarded(*predicate):
            stored = reader.written(buffer, indices, as_stored(value, buffer.element), node.span)
    return [*nodes, lane_loop(name, lanes, stored, node.span)]


def _branch(reader: Reader, node: n.IfThenElse) -> list[Node]:
    condition = truth(reader.scope, node.condition)
    cases = [node.then_case, *([] if node.else_case is None else [node.else_case])]
    nodes = asked(reader, node.condition)
    if reader.stack and isinstance(decided := settled(condition, reader.known), Number):
        # a function that calls itself ends where its condition is decided
        return nodes + [made for case in cases[0 if decided.value else 1 :][:1] for made in statement(reader, case)]
    if not reader.unchanged(condition, *cases):
        condition, keep = reader.temporary("condition", condition, node.span)
        nodes.append(keep)
    with reader.guarded(condition):
        nodes += statement(reader, node.then_case)
    if node.else_case is not None:
        with reader.guarded(Op("not", (condition,), BOOL)):
            nodes += statement(reader, node.else_case)
    return nodes


# --------------------------------------------------------------------------------------------------------------- blocks


def _realize(reader: Reader, node: n.BlockRealize) -> list[Node]:
    block, scope = node.block, reader.scope
    bound: list[tuple[n.IterVar, Term]] = []
    for iterator, value in zip(block.iter_vars, node.values, strict=True):
        found = cast(reader.term(value), element_of(iterator.var.dtype, node.span))
        bound.append((iterator, found))
    for iterator, found in bound:
        scope.values[iterator.var] = lambda lane, found=found: found
    reduced = [v for i, v in bound if i.kind is n.IterKind.COMM_REDUCE]
    over = frozenset(name for v in reduced for name in index_names(v))
    if over and any(isinstance(part, n.Call) and part.op == "tvm_thread_allreduce" for part in walk(block)):
        over = frozenset[str]()  # where threads reduce together they do it at once
    with reader.in_turn(over) as turns:
        nodes: list[Node] = _block(reader, node, bound)
    # a reduction over threads runs thread by thread, all of the block for each
    for thread in reversed(turns):
        bounds = Number(0, INT32), Number(thread.extent, INT32)
        nodes = [Loop(thread.name, *bounds, tuple(nodes), span=node.span, title=thread.name)]
    return nodes


def _block(reader: Reader, node: n.BlockRealize, bound: list[tuple[n.IterVar, Term]]) -> list[Node]:
    """The nodes of a block whose iterators are bound."""
    block = node.block
    nodes = asked(reader, *node.values, node.predicate)
    with reader.guarded(*_unless_true(reader.term(node.predicate))):
        for buffer in block.alloc_buffers:
            allocation.allocate(reader, buffer, block.span)
        reader.scratch.update(scratch_of(block))
        for one in block.match_buffers:
            allocation.match(reader, one)
        nodes += inside_of_domains(reader, bound, node.span)
        if block.init is not None:
            first: list[Term] = []
            for iterator, found in bound:
                if iterator.kind is n.IterKind.COMM_REDUCE:
                    low = Number(0, INT32) if iterator.dom is None else reader.term(iterator.dom.min)
                    first.append(Op("eq", (found, cast(low, found.element)), BOOL))
            with reader.guarded(*first):
                nodes += statement(reader, block.init)
        return [*nodes, *statement(reader, block.body)]


# -------------------------------------------------------------------------------------------------------------- effects


def _evaluate(reader: Reader, value: n.Expr, span: Span) -> list[Node]:
    match value:
        case n.IntImm() | n.FloatImm() | n.Var():
            return []
        case n.Expr() if id(value) in reader.scope.exchanged:
            return []  # it has been done already
        case n.Call(op="ret" | "thread_return" as op, args=given):
            values = [a for a in given if isinstance(a, n.Expr)]
            nodes = [node for a in values for node in _evaluate(reader, a, span)]
            if (to := reader.result) is not None and op == "ret":
                stored = (cast(reader.term(a), to.buffer.element) for a in values)
                nodes += [reader.store(to.buffer, to.indices, value, span) for value in stored]
            if reader.returned is None:
                return nodes
            flag = reader.returned
            nodes.append(reader.raised(flag, span))
            if flag not in reader.live:
                reader.live.append(flag)
            return nodes
        case n.Call(op="break_loop"):
            return leave(reader, "broken", span)
        case n.Call(op="continue_loop"):
            return leave(reader, "continued", span)
        case n.Call() if not calls.is_pure(value):
            return [*asked(reader, value), *calls.effect(reader, value, span)]
        case _:
            return asked(reader, value)
