"""Statements of TIR as nests: one function per kind, each gives the nodes that stand for the statement."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorir.lift.nests.linear import linear
from tensorir.lift.nests.nest import Check, Loop, Node, Store, While
from tensorir.lift.nests.numbers import extremes
from tensorir.lift.nests.terms import Index, Load, Number, Op, Term, index_names, loads
from tensorir.source import Span
from tensorir.tir import nodes as n
from tensorir.tir.lift import allocation
from tensorir.tir.lift.expressions import as_stored, element_of, place, refused, truth
from tensorir.tir.lift.intrinsics import cast, number
from tensorir.tir.lift.memory import plus
from tensorir.tir.lift.reader import Reader, waits
from tensorir.tir.lift.turns import turns
from tensorir.tir.lift.warp_folds import folded
from tensorir.tir.lift.warps import exchanged
from tensorir.tir.walk import walk
from tensorir.types import BOOL, INT32

__all__ = ["sequence", "statement"]


def statement(reader: Reader, node: n.Stmt) -> list[Node]:
    """The nodes of one statement."""
    return [*exchanged(reader, node), *_statement(reader, node)]


def _statement(reader: Reader, node: n.Stmt) -> list[Node]:
    match node:
        case n.SeqStmt(parts):
            return sequence(reader, parts)
        case n.BufferStore():
            return _store(reader, node)
        case n.For():
            return _for(reader, node)
        case n.While(condition, body):
            return _while(reader, condition, body, node.span)
        case n.IfThenElse():
            return _branch(reader, node)
        case n.BlockRealize():
            return _realize(reader, node)
        case n.Block():
            return _realize(reader, n.BlockRealize((), n.IntImm(1, n.BOOL), node, node.span))
        case n.Evaluate(value):
            return _evaluate(reader, value, node.span)
        case n.AssertStmt(condition, message, kind):
            check = Check(reader.term(condition), f"{kind}: {''.join(message)}", reader.holding, node.span)
            return [reader.placed(check)]
        case n.AttrStmt():
            from tensorir.tir.lift.kernels import attribute

            return attribute(reader, node)
        case n.AllocBuffer(buffer):
            allocation.allocate(reader, buffer, node.span)
            return []
        case n.BufferRealize(buffer, _, _, body):
            allocation.allocate(reader, buffer, node.span)
            return statement(reader, body)
        case n.Allocate(var, dtype, extents):
            allocation.allocate(reader, n.Buffer(var, dtype, extents, name=var.name, span=node.span), node.span)
            with reader.guarded(*_unless_true(reader.term(node.condition))):
                return []
        case n.AllocateConst():
            allocation.constant(reader, node)
            return []
        case n.DeclBuffer():
            allocation.declare(reader, node)
            return []
        case n.Break():
            return _leave(reader, "broken", node.span)
        case n.Continue():
            return _leave(reader, "continued", node.span)
        case n.Prefetch():
            return []
        case n.LetStmt():
            return sequence(reader, (node,))
        case _:
            raise refused(f"a {type(node).__name__} cannot be lifted.", node.span)


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
            nodes = [*exchanged(reader, part), *_let(reader, part, parts[k + 1 :])]
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
    if value.dtype.lanes != 1:
        from tensorir.tir.lift.expressions import term

        sample = term(scope, value)
        if not reader.unchanged(sample, *rest):
            raise refused("a vector that is kept while its source changes cannot be lifted.", node.span)
        scope.values[node.var] = lambda lane: term(scope, value, lane)
        return []
    found = reader.term(value)
    nodes: list[Node] = []
    if not reader.unchanged(found, *rest):
        found, keep = reader.temporary(node.var.name, found, node.span)
        nodes = [keep]
    scope.values[node.var] = lambda lane: found
    return nodes


def _store(reader: Reader, node: n.BufferStore) -> list[Node]:
    from tensorir.tir.lift.expressions import term

    lanes = node.value.dtype.lanes
    if node.indices and node.indices[-1].dtype.lanes != 1:
        view = reader.scope.view(node.buffer, node.span)
        lanes = max(lanes, node.indices[-1].dtype.lanes * view.lanes)
    scope = reader.scope
    target = element_of(node.buffer.dtype, node.span)
    if lanes == 1:
        buffer, indices = place(scope, node.buffer, node.indices, Number(0, INT32), 1, node.span)
        value = cast(term(scope, node.value), target)
        with reader.guarded(*(() if node.predicate is None else _unless_true(term(scope, node.predicate)))):
            return [reader.written(buffer, indices, as_stored(value, buffer.element), node.span)]
    name = reader.loop_name("lane")
    lane = Index(name, INT32)
    buffer, indices = place(scope, node.buffer, node.indices, lane, lanes, node.span)
    value = cast(term(scope, node.value, lane), target)
    predicate = () if node.predicate is None else _unless_true(term(scope, node.predicate, lane))
    nodes: list[Node] = []
    with reader.inside(name, (0, lanes - 1)):
        if any(load.buffer.root is buffer.root for load in loads(value)):
            # a vector is read as a whole before any of it is written
            value, keep = reader.temporary("vector", value, node.span)
            nodes.append(_lane_loop(name, lanes, keep, node.span))
        with reader.guarded(*predicate):
            stored = reader.written(buffer, indices, as_stored(value, buffer.element), node.span)
    return [*nodes, _lane_loop(name, lanes, stored, node.span)]


def _lane_loop(name: str, lanes: int, node: Node, span: Span) -> Node:
    extent = Number(lanes, INT32)
    return Loop(name, Number(0, INT32), extent, (node,), span=span, title="lane", lockstep=True)


def _branch(reader: Reader, node: n.IfThenElse) -> list[Node]:
    condition = truth(reader.scope, node.condition)
    cases = [node.then_case, *([] if node.else_case is None else [node.else_case])]
    nodes: list[Node] = []
    if not reader.unchanged(condition, *cases):
        condition, keep = reader.temporary("condition", condition, node.span)
        nodes.append(keep)
    with reader.guarded(condition):
        nodes += statement(reader, node.then_case)
    if node.else_case is not None:
        with reader.guarded(Op("not", (condition,), BOOL)):
            nodes += statement(reader, node.else_case)
    return nodes


# ---------------------------------------------------------------------------------------------------------------- loops


def _for(reader: Reader, node: n.For) -> list[Node]:
    if node.kind is n.ForKind.THREAD_BINDING and node.thread_binding is not None:
        from tensorir.tir.lift.kernels import thread_loop

        done = thread_loop(reader, node)
        if done is not None:
            return done
    low, extent = reader.term(node.min), reader.term(node.extent)
    step = None if node.step is None else reader.term(node.step)
    parallel = node.kind in (n.ForKind.PARALLEL, n.ForKind.VECTORIZED)
    stretch = reader.stretch
    if stretch is not None and waits(node.body):
        reader.barrier()  # what stands before its barriers in one round, and behind them in another, is in no stretch
    nodes = loop(reader, node.loop_var, low, extent, step, parallel, node.body, node.span)
    if stretch is not None and reader.stretch != stretch:
        reader.barrier()
    return nodes


def loop(
    reader: Reader, var: n.Var, low: Term, extent: Term, step: Term | None, parallel: bool, body: n.Stmt, span: Span
) -> list[Node]:
    """A loop: bounded, and guarded where its bounds depend on other loops in other ways than sums; or a while."""
    element = element_of(var.dtype, span)
    by = 1
    if step is not None:
        if not isinstance(step, Number) or int(step.value) <= 0:
            raise refused("the step of a loop must be a positive constant.", span)
        by = int(step.value)
        extent = Op(
            "floordiv", (_sum(extent, Number(by - 1, extent.element)), Number(by, extent.element)), extent.element
        )
    known = reader.known
    first, count = _bound(low, known), _bound(extent, known)
    if first is None or count is None:
        return _open_loop(reader, var, low, extent, by, body, span)
    if count[1] <= 0:
        return []
    name = reader.loop_name(var.name)
    # the loops over threads stand inside of this one, so what tells threads apart is no bound of it
    told = any(lane.name in index_names(low) | index_names(extent) for lane in reader.lanes)
    if by == 1 and (told or (not isinstance(extent, Number) and linear(extent, known) is None)):
        start, guard, last = Number(0, INT32), True, count[1]
        index: Term = Index(name, INT32)
        value = _sum(cast(low, element), cast(index, element))
        bounds = (Number(0, INT32), Number(count[1], INT32))
    elif by == 1:
        start, guard, last = low, False, 0
        value = Index(name, element)
        bounds = (low, extent)
    else:
        start, guard, last = Number(0, INT32), not isinstance(extent, Number), count[1]
        scaled = Op("multiplies", (Index(name, element), number(by, element)), element)
        value = _sum(cast(low, element), scaled)
        bounds = (Number(0, INT32), Number(count[1], INT32))
    del start, last
    top = (first[0], first[1] + count[1] - 1) if by == 1 and not guard else (0, count[1] - 1)
    reader.scope.values[var] = lambda lane: value
    reader.parallel.discard(name)
    if parallel:
        reader.parallel.add(name)
    with reader.inside(name, top):
        limit = (Op("less", (Index(name, INT32), cast(extent, INT32)), BOOL),) if guard else ()
        nodes, before = _body(reader, body, span, limit)
    return [*before, Loop(name, bounds[0], bounds[1], tuple(nodes), parallel, span, var.name)]


def _sum(a: Term, b: Term) -> Term:
    return plus(a, b)


def _bound(value: Term, ranges: dict[str, tuple[int, int]]) -> tuple[int, int] | None:
    return extremes(value, ranges)


def _jumps(body: n.Stmt) -> tuple[bool, bool]:
    """Whether a loop's body breaks, or continues, this loop."""
    breaks = continues = False
    pending: list[n.Node] = [body]
    while pending:
        node = pending.pop()
        match node:
            case n.Break() | n.Evaluate(n.Call(op="break_loop")):
                breaks = True
            case n.Continue() | n.Evaluate(n.Call(op="continue_loop")):
                continues = True
            case n.For() | n.While():
                pass
            case n.SeqStmt(parts):
                pending += parts
            case n.IfThenElse(_, then, otherwise):
                pending += [then, *([] if otherwise is None else [otherwise])]
            case n.AttrStmt(body=inner) | n.BufferRealize(body=inner) | n.Block(body=inner):
                pending.append(inner)
            case n.BlockRealize(_, _, block):
                pending.append(block)
            case _:
                pass
    return breaks, continues


def _body(reader: Reader, body: n.Stmt, span: Span, limit: tuple[Term, ...] = ()) -> tuple[list[Node], list[Node]]:
    """The nodes of one iteration, which does something where the limit holds, and those that prepare the loop."""
    breaks, continues = _jumps(body)
    outer = (reader.broken, reader.continued, list(reader.live))
    before: list[Node] = []
    nodes: list[Node] = []
    if breaks:
        inside = reader.loops
        reader.loops = inside[:-1]
        reader.broken = reader.flag("broken", span)
        before.append(reader.raised(reader.broken, False, span))
        reader.loops = inside
        reader.live.append(reader.broken)
    with reader.guarded(*limit):
        if continues:
            reader.continued = reader.flag("continued", span)
            nodes.append(reader.raised(reader.continued, False, span))
        nodes += statement(reader, body)
    returned = [f for f in reader.live if f is reader.returned]
    reader.broken, reader.continued, reader.live = outer
    reader.live += [f for f in returned if f not in reader.live]
    return nodes, before


def _leave(reader: Reader, kind: str, span: Span) -> list[Node]:
    flag = reader.broken if kind == "broken" else reader.continued
    if flag is None:
        raise refused("this leaves no loop.", span)
    node = reader.raised(flag, True, span)
    if flag not in reader.live:
        reader.live.append(flag)
    return [node]


MOST_MASKED = 1 << 16
"""How many turns, of which data tell which take place, are laid side by side rather than taken in a while."""


def _open_loop(reader: Reader, var: n.Var, low: Term, extent: Term, by: int, body: n.Stmt, span: Span) -> list[Node]:
    """A loop whose bounds depend on data: bounded by the block or the accesses inside, or a while."""
    limit = _declared(reader, var, body)
    if limit is not None and by == 1 and isinstance(low, Number) and not low.value:
        return _masked(reader, var, low, extent, by, limit, body, span)
    counted = extent if by == 1 and isinstance(low, Number) and not low.value else None
    bounded = None if _jumps(body)[0] else turns(reader, var, by, body, counted)
    checks: list[Node] = []
    most = None if bounded is None else bounded.most if bounded.sure else bounded.most + 1
    if bounded is not None and most is not None:
        if bounded.sure:
            inside = Op("less_equal", (extent, number(most, extent.element)), BOOL)
            message = f"an index leaves the {bounded.elements} elements of {bounded.name}."
            checks.append(reader.placed(Check(inside, message, reader.holding, bounded.span)))
        if most <= 0:
            return checks
        around = prod(reader.ranges[a][1] - reader.ranges[a][0] + 1 for a in reader.loops)
        if reader.lanes or around * most <= MOST_MASKED:
            return [*checks, *_masked(reader, var, low, extent, by, most, body, span)]
    if reader.lanes:
        raise refused(
            "threads that take different numbers of turns and share memory cannot be lifted.", span,
            "run the loop to its greatest bound, with a condition inside, or give every thread elements of its own.",
        )  # fmt: skip
    element = element_of(var.dtype, span)
    counter = reader.buffer(var.name, element, (), span)
    length = extent if by == 1 else Op("multiplies", (extent, number(by, extent.element)), extent.element)
    last, keep = reader.temporary("stop", cast(_sum(low, length), element), span)
    start = reader.store(counter, (), cast(low, element), span)
    current = Load(counter, ())
    reader.scope.values[var] = lambda lane: current
    holding = reader.holding
    guards, reader.guards, live, reader.live = reader.guards, (), reader.live, []
    inner, before = _body(reader, body, span)
    inner.append(Store(counter, (), _sum(current, number(by, element)), (), span))
    reader.guards, reader.live = guards, live
    rounds = _most(extent, reader.known)
    most = most if rounds is None else max(0, rounds)
    return [*checks, keep, start, *before, While(Op("less", (current, last), BOOL), tuple(inner), holding, span, most)]


def _masked(
    reader: Reader, var: n.Var, low: Term, extent: Term, by: int, limit: int, body: n.Stmt, span: Span
) -> list[Node]:
    """As many turns as there may be, of which those do something that data ask for."""
    name, element = reader.loop_name(var.name), element_of(var.dtype, span)
    nodes: list[Node] = []
    if not reader.unchanged(extent, body):
        extent, keep = reader.temporary("extent", extent, span)
        nodes.append(keep)
    if not reader.unchanged(low, body):
        low, keep = reader.temporary("start", low, span)
        nodes.append(keep)
    turn: Term = Index(name, element)
    if by != 1:
        turn = Op("multiplies", (turn, number(by, element)), element)
    current = turn if isinstance(low, Number) and not low.value else _sum(cast(low, element), turn)
    reader.scope.values[var] = lambda lane: current
    with reader.inside(name, (0, max(0, limit - 1))):
        guard = Op("less", (Index(name, extent.element), extent), BOOL)
        inner, before = _body(reader, body, span, (guard,))
    bounds = Number(0, INT32), Number(limit, INT32)
    return [*nodes, *before, Loop(name, *bounds, tuple(inner), span=span, title=var.name)]


def _most(extent: Term, ranges: dict[str, tuple[int, int]]) -> int | None:
    """The greatest value of a loop's extent, None where nothing bounds it."""
    match extent:
        case Op("min", args):
            return min((most for a in args if (most := _most(a, ranges)) is not None), default=None)
        case Op("cast", (inner,)):
            return _most(inner, ranges)
        case _:
            found = _bound(extent, ranges)
            return None if found is None or found[1] >= 1 << 31 else found[1]


def _declared(reader: Reader, var: n.Var, body: n.Stmt) -> int | None:
    """How far a loop can go, since a block binds one of its iterators to it."""
    for part in walk(body):
        if isinstance(part, n.BlockRealize):
            for iterator, value in zip(part.block.iter_vars, part.values, strict=True):
                if value is var and iterator.dom is not None:
                    low, extent = reader.term(iterator.dom.min), reader.term(iterator.dom.extent)
                    if isinstance(low, Number) and isinstance(extent, Number) and not low.value:
                        return int(extent.value)
    return None


def _while(reader: Reader, condition: n.Expr, body: n.Stmt, span: Span) -> list[Node]:
    if reader.lanes:
        raise refused(
            "threads that wait for each other in a while cannot be lifted.", span,
            "write a loop with a bound and a condition inside, or give every thread elements of its own.",
        )  # fmt: skip
    holds = truth(reader.scope, condition)
    holding = reader.holding
    guards, reader.guards, live, reader.live = reader.guards, (), reader.live, []
    inner, before = _body(reader, body, span)
    breaks, _ = _jumps(body)
    reader.guards, reader.live = guards, live
    if breaks:
        first = before[0]
        assert isinstance(first, Store)
        flag = Load(first.buffer, first.indices)
        holds = Op("and", (Op("not", (flag,), BOOL), holds), BOOL)
    return [*before, While(holds, tuple(inner), holding, span)]


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
    with reader.guarded(*_unless_true(reader.term(node.predicate))):
        for buffer in block.alloc_buffers:
            allocation.allocate(reader, buffer, block.span)
        for one in block.match_buffers:
            allocation.match(reader, one)
        nodes: list[Node] = []
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
    from tensorir.tir.lift import calls

    match value:
        case n.IntImm() | n.FloatImm() | n.Var():
            return []
        case n.Call(op="ret" | "thread_return"):
            if reader.returned is None:
                return []
            flag = reader.returned
            node = reader.raised(flag, True, span)
            if flag not in reader.live:
                reader.live.append(flag)
            return [node]
        case n.Call(op="break_loop"):
            return _leave(reader, "broken", span)
        case n.Call(op="continue_loop"):
            return _leave(reader, "continued", span)
        case n.Call():
            return calls.effect(reader, value, span)
        case _:
            return []
