"""Loops of TIR as nests: counted ones, whiles, and those that are left early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.nests.bounded import extremes
from tensorir.lifting.nests.linear import linear, settled
from tensorir.lifting.nests.nest import Check, Loop, Node, Rounds, Store, While
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term, index_names
from tensorir.lifting.nests.unknowns import bounds
from tensorir.runtime.errors import Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.lift.asked import asked
from tensorir.tir.lift.expressions import element_of, truth
from tensorir.tir.lift.intrinsics import cast, number
from tensorir.tir.lift.memory import plus
from tensorir.tir.lift.reader import Flag, Reader, jumps, read_statement, returns, waits
from tensorir.tir.lift.results import does
from tensorir.tir.lift.turns import turns
from tensorir.tir.storage import AT_ONCE
from tensorir.tir.trees import walk

# Loops of which every thread takes turns of its own number, in lockstep: all wait for the one that takes the most.
#
# A turn is one of the whole block: those threads do something in it whose own turns are not over. What threads share
# is so written and read in the order in which they come to a barrier inside of the loop, as a barrier there demands
# that all of them come to it.

Turn = Callable[[tuple[Term, ...]], tuple[list[Node], list[Node], Flag | None]]
"""Reads what one turn does, under guards: its nodes, those that prepare the loop, and the flag of threads that left."""


def counted(
    reader: Reader, name: str, extent: Term, most: int | None, turn: Callable[[Term], Turn], waiting: bool, span: Span
) -> list[Node]:
    """A loop of `extent` turns, which every thread has its own of; `turn` reads the one of a number.

    `waiting`: whether threads wait for each other in it.
    """
    places = tuple(Index(t.name, INT32) for t in reader.lanes)
    own = reader.buffer("turns", INT32, tuple(t.extent for t in reader.lanes), span)
    stop, counter = (reader.buffer(n, INT32, (), span) for n in ("stop", name))
    current, last, zero = Load(counter, ()), Load(stop, ()), Number(0, INT32)
    with reader.unguarded():
        nodes = [reader.store(b, at, zero, span) for b, at in ((own, places), (stop, ()), (counter, ()))]
    nodes.append(reader.store(own, places, extent, span))
    nodes.append(_gathered(reader, stop, Op("max", (last, Load(own, places)), INT32), span))
    with reader.unguarded():
        if waiting:
            nodes.append(_all_come(reader, Op("eq", (Load(own, places), last), BOOL), span))
        goes = Op("less", (current, Load(own, places)), BOOL)
        reader.joint = (*reader.joint, *([goes] if waiting else []))
        inner, before, _ = turn(current)((goes,))
        inner.append(reader.store(counter, (), plus(current, number(1, INT32)), span))
    return [*nodes, *before, While(Op("less", (current, last), BOOL), tuple(inner), (), span, most)]


def repeated(
    reader: Reader, condition: Term, checks: Callable[[], list[Node]], turn: Turn, waiting: bool, span: Span
) -> list[Node]:
    """A while, of which every thread has its own condition; `checks` reads what this asks for."""
    going = reader.flag("going", span)
    more = reader.buffer("more", BOOL, (), span)
    goes, yes, no = Load(going.buffer, going.indices), Load(more, ()), Number(False, BOOL)
    again = [
        Store(more, (), no, (), span),
        _gathered(reader, more, Op("or", (yes, goes), BOOL), span),
    ]
    nodes = [reader.cleared(going, span)]
    with reader.unguarded():
        if waiting:
            again.append(_all_come(reader, Op("eq", (goes, yes), BOOL), span))
    nodes += [*checks(), reader.store(going.buffer, going.indices, condition, span)]
    with reader.unguarded():
        reader.joint = (*reader.joint, *([goes] if waiting else []))
        inner, before, broken = turn((goes,))
        for flag in (*([] if broken is None else [broken]), *reader.live):
            with reader.unguarded(), reader.guarded(Load(flag.buffer, flag.indices)):
                inner.append(reader.store(going.buffer, going.indices, no, span))
        with reader.guarded(goes):
            inner += [*checks(), reader.store(going.buffer, going.indices, condition, span)]
    return [*nodes, *again, *before, While(yes, (*inner, *again), (), span)]


def met(reader: Reader, span: Span) -> list[Node]:
    """The check of a barrier whose condition reads each thread's own storage: all of a block reach it, or none."""
    comes, some = reader.flag("comes", span), reader.buffer("some", BOOL, (), span)
    here, any_come = Load(comes.buffer, comes.indices), Load(some, ())
    nodes = [reader.cleared(comes, span), Store(some, (), Number(False, BOOL), (), span)]
    nodes.append(reader.raised(comes, span))
    nodes.append(_gathered(reader, some, Op("or", (any_come, here), BOOL), span))
    check = Check(
        Op("eq", (here, any_come), BOOL), "not all threads of the block reach this barrier.", (), span, "TL13"
    )
    return [*nodes, reader.placed(check)]


def _all_come(reader: Reader, holds: Term, span: Span) -> Node:
    """The assertion for every thread of a block at a barrier within rounds."""
    message = "not all threads of the block reach the barriers in this loop."
    return reader.placed(Check(holds, message, (), span, "TL13"))


def _gathered(reader: Reader, buffer: Buffer, value: Term, span: Span) -> Node:
    """Values of all threads combined, one after the other."""
    node: Node = Store(buffer, (), value, (), span)
    for thread in reversed(reader.lanes):
        node = Loop(thread.name, Number(0, INT32), Number(thread.extent, INT32), (node,), span=span, title=thread.name)
    return node


# Loops of TIR as nests: counted ones, whiles, and those that are left before their end.
#
# A loop whose bounds depend on data takes as many turns as accesses or blocks inside leave it, and data tell which of
# them do something; where nothing bounds it, it is a while.


def for_loop(reader: Reader, node: n.For) -> list[Node]:
    bounds = reader.term(node.min), reader.term(node.extent)
    low, extent = (cast(x, INT32) if x.element == BOOL else x for x in bounds)
    step = None if node.step is None else reader.term(node.step)
    parallel = node.kind in AT_ONCE
    own = tuple(reader.scope.view(b, node.span).buffer for b in reader.scratch.get(node, ()))
    checks = asked(reader, node.min, node.extent)
    before = reader.stretch
    if before is not None and waits(node.body):
        reader.barrier()  # rounds meet each other, and what stands around, in their own way
    first = reader.stretch
    nodes = checks + loop(reader, node.loop_var, low, extent, step, parallel, node.body, node.span, own)
    last = reader.stretch
    if before is not None and last != before:
        reader.barrier()
    after, made = reader.stretch, nodes[-1] if nodes else None
    if before is None or first is None or last is None or after is None:
        return nodes
    if isinstance(made, Loop) and not made.lockstep:
        nodes[-1] = replace(made, rounds=Rounds(before, first, last, after))
    return nodes


def loop(
    reader: Reader, var: n.Var, low: Term, extent: Term, step: Term | None, parallel: bool, body: n.Stmt, span: Span,
    own: Sequence[Buffer] = (),
) -> list[Node]:  # fmt: skip
    """A loop: bounded, and guarded where its bounds depend on other loops in other ways than sums; or a while.

    No iteration may find what another one left in its `own` storage.
    """
    element = element_of(var.dtype, span)
    by = 1
    if step is not None:
        if not isinstance(step, Number) or int(step.value) <= 0:
            raise refuse("TL01", "the step of a loop must be a positive constant.", at=span)
        by = int(step.value)
        extent = Op(
            "floordiv", (plus(extent, Number(by - 1, extent.element)), Number(by, extent.element)), extent.element
        )
    known = reader.known
    first, count = extremes(low, known), extremes(extent, known)
    if first is None or count is None:
        return _open_loop(reader, var, low, extent, by, parallel, body, span, own)
    if count[1] <= 0:
        return []
    name = reader.loop_name(var.name)
    # the loops over threads stand inside of this one, so what tells threads apart is no bound of it
    told = any(lane.name in index_names(low) | index_names(extent) for lane in reader.lanes)
    if by == 1 and (told or (not isinstance(extent, Number) and linear(extent, known) is None)):
        guard = True
        index: Term = Index(name, INT32)
        value = plus(cast(low, element), cast(index, element))
        bounds = (Number(0, INT32), Number(count[1], INT32))
    elif by == 1:
        guard = False
        value = Index(name, element)
        bounds = (low, extent)
    else:
        guard = not isinstance(extent, Number)
        scaled = Op("multiplies", (Index(name, element), number(by, element)), element)
        value = plus(cast(low, element), scaled)
        bounds = (Number(0, INT32), Number(count[1], INT32))
    top = (first[0], first[1] + count[1] - 1) if by == 1 and not guard else (0, count[1] - 1)
    reader.scope.values[var] = lambda lane: value
    _begin(reader, name, parallel, own)
    with reader.inside(name, top):
        limit = (Op("less", (Index(name, INT32), cast(extent, INT32)), BOOL),) if guard else ()
        nodes, before, _ = _body(reader, body, span, limit, name)
    return [*before, Loop(name, bounds[0], bounds[1], tuple(nodes), parallel, span, var.name)]


def _begin(reader: Reader, name: str, parallel: bool, own: Sequence[Buffer]) -> None:
    """Say of a loop whether its iterations run at once, and what storage each of them has for itself."""
    reader.parallel.discard(name)
    if parallel:
        reader.parallel.add(name)
    for buffer in own:
        buffer.apart = (*buffer.apart, name)


def _body(
    reader: Reader, body: n.Stmt, span: Span, limit: tuple[Term, ...] = (), name: str = ""
) -> tuple[list[Node], list[Node], Flag | None]:
    """The nodes of one iteration, which does something where the limit holds, those that prepare the loop, and the flag
    of those who broke it. `name`: of the loop, where it is one of a nest and no while.
    """

    breaks, continues = jumps(body)
    outer = (reader.broken, reader.continued, list(reader.live))
    before: list[Node] = []
    nodes: list[Node] = []
    if breaks:
        inside = reader.loops
        reader.loops = tuple(loop for loop in inside if loop != name)
        reader.broken = reader.flag("broken", span)
        before.append(reader.cleared(reader.broken, span))
        reader.loops = inside
        reader.live.append(reader.broken)
    if reader.returned is not None and reader.returned not in reader.live and returns(body):
        reader.live.append(reader.returned)  # what stands before a return does nothing in later iterations
    with reader.guarded(*limit):
        if continues:
            reader.continued = reader.flag("continued", span)
            nodes.append(reader.cleared(reader.continued, span))
        nodes += read_statement(reader, body)
    returned, broken = [f for f in reader.live if f is reader.returned], reader.broken if breaks else None
    reader.broken, reader.continued, reader.live = outer
    reader.live += [f for f in returned if f not in reader.live]
    return nodes, before, broken


def leave(reader: Reader, kind: str, span: Span) -> list[Node]:
    flag = reader.broken if kind == "broken" else reader.continued
    if flag is None:
        raise refuse("TL01", "this leaves no loop.", at=span)
    node = reader.raised(flag, span)
    if flag not in reader.live:
        reader.live.append(flag)
    return [node]


MOST_TURNS = (1 << 31) - 1
"""A number of turns that says no more than its type does."""
MOST_MASKED, MOST_AT_ONCE = 1 << 16, 1 << 24
"""How many turns, of which data tell which take place, are laid side by side rather than taken in a while: where they
may follow each other, and where the source says that they run at once."""


def _open_loop(
    reader: Reader, var: n.Var, low: Term, extent: Term, by: int, parallel: bool, body: n.Stmt, span: Span,
    own: Sequence[Buffer],
) -> list[Node]:  # fmt: skip
    """A loop whose bounds depend on data: bounded by the block or the accesses inside, or a while."""
    limit = _declared(reader, var, body)
    if limit is not None and by == 1 and isinstance(low, Number) and not low.value:
        return _masked(reader, var, low, extent, by, limit, parallel, body, span, own)
    told = extent if by == 1 and isinstance(low, Number) and not low.value else None
    bounded = None if jumps(body)[0] else turns(reader, var, by, body, told)
    checks: list[Node] = []
    rounds = _most(extent, reader.known)
    most = None if rounds is None else max(0, rounds)
    if bounded is not None:
        inside = bounded.most if bounded.sure else bounded.most + 1
        if bounded.sure and (most is None or inside < most):
            holds = Op("less_equal", (extent, number(inside, extent.element)), BOOL)
            message = f"an index leaves the {bounded.elements} elements of {bounded.name}."
            checks.append(reader.placed(Check(holds, message, reader.holding, bounded.span)))
        inside = inside if most is None else min(inside, most)
        if inside <= 0:
            return checks
        around = prod(reader.ranges[a][1] - reader.ranges[a][0] + 1 for a in reader.loops)
        if reader.lanes or around * inside <= (MOST_AT_ONCE if parallel else MOST_MASKED):
            counted = None if bounded.over else extent
            return [*checks, *_masked(reader, var, low, counted, by, inside, parallel, body, span, own)]
        most = inside
    if reader.lanes:
        return [*checks, *_together(reader, var, low, extent, by, most, body, span)]
    element = element_of(var.dtype, span)
    counter = reader.buffer(var.name, element, (), span)
    length = extent if by == 1 else Op("multiplies", (extent, number(by, extent.element)), extent.element)
    last, keep = reader.temporary("stop", cast(plus(low, length), element), span)
    start = reader.store(counter, (), cast(low, element), span)
    current = Load(counter, ())
    reader.scope.values[var] = lambda lane: current
    holding = reader.holding
    with reader.unguarded():
        inner, before, _ = _body(reader, body, span)
        inner.append(Store(counter, (), plus(current, number(by, element)), (), span))
    return [*checks, keep, start, *before, While(Op("less", (current, last), BOOL), tuple(inner), holding, span, most)]


def _masked(
    reader: Reader, var: n.Var, low: Term, extent: Term | None, by: int, limit: int, parallel: bool, body: n.Stmt,
    span: Span, own: Sequence[Buffer],
) -> list[Node]:  # fmt: skip
    """As many turns as there may be, of which those do something that data ask for: all, where there is no `extent`."""
    name, element = reader.loop_name(var.name), element_of(var.dtype, span)
    nodes: list[Node] = []
    if extent is not None and not reader.unchanged(extent, body):
        extent, keep = reader.temporary("extent", extent, span)
        nodes.append(keep)
    if not reader.unchanged(low, body):
        low, keep = reader.temporary("start", low, span)
        nodes.append(keep)
    turn: Term = Index(name, element)
    if by != 1:
        turn = Op("multiplies", (turn, number(by, element)), element)
    current = turn if isinstance(low, Number) and not low.value else plus(cast(low, element), turn)
    reader.scope.values[var] = lambda lane: current
    _begin(reader, name, parallel, own)
    with reader.inside(name, (0, max(0, limit - 1))):
        guards = () if extent is None else (Op("less", (Index(name, extent.element), extent), BOOL),)
        inner, before, _ = _body(reader, body, span, guards, name)
    bounds = Number(0, INT32), Number(limit, INT32)
    return [*nodes, *before, Loop(name, *bounds, tuple(inner), parallel, span, var.name)]


def _most(extent: Term, ranges: dict[str, tuple[int, int]]) -> int | None:
    """The greatest value of a loop's extent, None where nothing bounds it."""
    found = bounds(settled(extent, ranges), ranges)
    return None if found is None or found[1] >= MOST_TURNS else found[1]


def _declared(reader: Reader, var: n.Var, body: n.Stmt) -> int | None:
    """An upper bound of a loop's extent, since a block binds one of its iterators to it."""
    for part in walk(body):
        if isinstance(part, n.BlockRealize):
            for iterator, value in zip(part.block.iter_vars, part.values, strict=True):
                if value is var and iterator.dom is not None:
                    low, extent = reader.term(iterator.dom.min), reader.term(iterator.dom.extent)
                    if isinstance(low, Number) and isinstance(extent, Number) and not low.value:
                        return int(extent.value)
    return None


def _together(
    reader: Reader, var: n.Var, low: Term, extent: Term, by: int, most: int | None, body: n.Stmt, span: Span
) -> list[Node]:
    """A loop whose bounds depend on data, and which threads take in lockstep."""
    element = element_of(var.dtype, span)
    kept: list[Node] = []
    if not reader.unchanged(low, body):
        low, keep = reader.temporary("start", low, span)
        kept.append(keep)

    def turn(current: Term) -> Turn:
        at = plus(cast(low, element), Op("multiplies", (cast(current, element), number(by, element)), element))
        reader.scope.values[var] = lambda lane: at
        return lambda guards: _body(reader, body, span, guards)

    return [*kept, *counted(reader, var.name, cast(extent, INT32), most, turn, waits(body), span)]


def while_loop(reader: Reader, condition: n.Expr, body: n.Stmt, span: Span) -> list[Node]:
    if does(reader, condition):
        # each round begins with what the condition does
        leaves = n.IfThenElse(n.Not(condition, condition.span), n.Break(span), None, span)
        condition, body = n.IntImm(1, n.BOOL), n.SeqStmt((leaves, body), span)
    holds, checks = truth(reader.scope, condition), partial(asked, reader, condition)
    if reader.lanes:
        turn = partial(_body, reader, body, span)
        return repeated(reader, holds, checks, turn, waits(body), span)
    holding, first = reader.holding, checks()
    with reader.unguarded():
        inner, before, broken = _body(reader, body, span)
        left = [*([] if broken is None else [broken]), *reader.live]
    with reader.unguarded(), reader.guarded(*(flag.clear for flag in left)):
        inner += checks()  # the condition is looked at again behind each round
    for flag in left:
        holds = Op("and", (flag.clear, holds), BOOL)
    return [*first, *before, While(holds, tuple(inner), holding, span)]
