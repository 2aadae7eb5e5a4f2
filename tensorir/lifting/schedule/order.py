"""Components of the dataflow in their order, each as tensors: at once, as a fold over dims, or as a scan along a loop.

A write becomes a tensor over its loops; a read becomes an access of the tensors of its sources, so no storage is left.
Writes that need each other step along the outermost loop that carries a value: what is carried at distances up to d is
the state, and the rest is decided anew inside of a step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tensorir.integers.affine import number, variable
from tensorir.integers.dims import Interval
from tensorir.ir.build import call, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Expr
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.space import boxed, in_order
from tensorir.lifting.dataflow.flow import box_of, condition_of, domain_of, flow_of, set_of
from tensorir.lifting.dataflow.opaque import Opaque
from tensorir.lifting.dataflow.propagation import forwarded, live, through_copies, with_reads_once
from tensorir.lifting.dataflow.statements import Scatter, Statement, Uncovered, statements_of
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.stores import holding, scatter
from tensorir.lifting.emission.tensors import constant_of, cut, fold_of, folded, neutral, renamed, rounds, spread
from tensorir.lifting.nests.linear import settled, term_of
from tensorir.lifting.nests.nest import Store
from tensorir.lifting.nests.terms import (
    Buffer,
    Load,
    Number,
    Op,
    Term,
    children,
    indexed_by_data,
    loads,
)
from tensorir.lifting.region.nodes import For, Region, Rule
from tensorir.lifting.schedule.components import (
    carrying,
    chain_of,
    components,
    fused,
    step_along_rows,
)
from tensorir.lifting.schedule.placed import (
    Made,
    by_sums,
    computed,
    names_along,
    placed,
    short_names,
    with_indices,
)
from tensorir.lifting.schedule.recurrence import step_along
from tensorir.lifting.schedule.run import Run
from tensorir.lifting.schedule.stepping import Decided, repeated

MOST_JOINED = 3
"""How often what steps along is put together with others that have to: each time all of a loop is looked at again."""


def schedule(run: Run, members: Sequence[int]) -> frozenset[int]:
    """Make the tensors of all writes among the members; gives back what else has to be made with them, if any."""
    place = {m: k for k, m in enumerate(members)}
    edges: set[tuple[int, int]] = set()
    groups: dict[Opaque, int] = {}
    for m in members:
        s = run.statements[m]
        if s.is_read:
            edges |= {(place[w], place[m]) for w in run.sources_now(m) if w in place}
        else:
            edges |= {(place[r], place[m]) for r in run.reads_of(s) if r in place}
        if s.opaque is not None and not s.is_read:
            # one node makes all that it writes
            first = groups.setdefault(s.opaque, place[m])
            edges |= {(first, place[m]), (place[m], first)} if first != place[m] else set()
    done = set[int]()
    for _ in range(MOST_JOINED):
        further = schedule_in_parts(run, members, edges, done)
        if not further <= place.keys():
            return further
        if not further:
            return frozenset()
        edges |= {(place[m], place[n]) for m in further for n in further}
    raise Uncovered("statements that step along with others, found one after another")


def schedule_in_parts(
    run: Run, members: Sequence[int], edges: Collection[tuple[int, int]], done: set[int]
) -> frozenset[int]:
    """Make the tensors of what is not `done`; gives back what has to be made together, if there is any."""
    parts = [sorted(members[k] for k in part) for part in components(len(members), edges)]
    for part in fused(run, parts, [(members[a], members[b]) for a, b in edges]):
        numbers = sorted(set(part) - done)
        if numbers and (further := component(run, numbers)):
            together = further | set(numbers)
            if not done.isdisjoint(together):
                raise Uncovered("what is made already would have to step along with others")
            return together
        done |= set(numbers)
    return frozenset()


def component(run: Run, numbers: Sequence[int]) -> frozenset[int]:
    """Make the tensors of a component; gives back what has to step along with it."""
    s = run.statements[numbers[0]]
    if len(numbers) > 1:
        return cycle(run, numbers)
    if s.opaque is not None:
        return opaque(run, numbers)
    if s.message is not None:
        verify(run, s, s.message)
    elif not s.is_read:
        make(run, s)
        run.decide(s)
    return frozenset()


def make(run: Run, s: Statement) -> None:
    """The tensor of a write."""
    assert s.value is not None
    if s.scatter is not None:
        run.made[s.number] = scattered(run, s, s.scatter)
        return
    box = run.asked_for(s)
    term = settled(run.as_term(s.value, box), run.emitter.scope(box))
    if (alone := computed(term)) is not None:
        run.made[s.number] = alone
        return
    if run.emitter.checked and indexed_by_data(term):
        run.made[s.number] = checked(run, s, box, term)
        return
    if (sums := by_sums(term, box, (*run.steps, *run.emitter.ranges), lambda a: run.reach(s, a))) is not None:
        at, ranges = tuple(map(variable, sums.box)), run.emitter.ranges
        along = placed(s.buffer.name, at, sums.box, sums.term, (), (), {}, ranges)
        if along is not None:
            x = run.emitter.emit(along.space.value, along.space.dims)
            made = along.made(run.emitter, s.buffer.element, x)
            run.made[s.number] = sums.over_iterations(made)
            return
    found = run.placed(s, box, term)
    x = run.emitter.emit(found.space.value, found.space.dims)
    run.made[s.number] = found.made(run.emitter, s.buffer.element, x)


def scattered(run: Run, s: Statement, found: Scatter) -> Made:
    """The buffer after a scatter, for each iteration of the loops outside."""
    assert s.value is not None
    every = replace(s, loops=found.loops, own=found.own, at=(), constraints=found.constraints)
    domain = domain_of(every)
    hull = box_of(domain, every.names)
    box = {n: i for n, i in hull.items() if n not in run.steps}
    old = run.statements[run.writers[found.old]]
    outside = {n: i for n, i in run.box(s).items() if n not in dict(s.own)}
    own = dict(s.own)
    tmp = Buffer(s.buffer.name, s.buffer.element, (*(len(i) for i in outside.values()), *s.buffer.shape))
    names = run.emitter.dims_of(tmp, [f"{n}_" for n in outside])
    renames = dict(zip((*outside, *own), names, strict=True))
    whole = {renames[n]: Interval(0, len(i)) for n, i in (*outside.items(), *own.items())}
    there = {n: variable(renames[n]).plus(number(i.start)) for n, i in (*outside.items(), *own.items())}
    before = settled(with_indices(run.found(old), there, run.emitter.scope(whole)), run.emitter.scope(whole))
    run.emitter.tensors[tmp] = spread(cut(run.emitter.emit(before, whole), whole), whole)
    rounds = {n: i for n, i in run.rounds.items() if n in hull}
    holds = condition_of(domain, set_of({**hull, **rounds}, domain, every.names), every.names)
    guards = ([] if holds is None else [holds]) + [run.as_term(g, box) for g in found.guards]
    first = [term_of(variable(n).minus(number(i.start)), INT32) for n, i in outside.items()]
    location = (*first, *(run.as_term(i, box) for i in found.at))
    value = run.as_term(s.value, box)
    for term in (value, *location, *guards):
        for load in loads(term):
            if load.buffer is tmp:
                raise Uncovered("a scatter of what it changes")
    make = in_order if found.op is None or (run.exact and s.buffer.element.is_float) else boxed
    space = make(box, tuple(location), value, tuple(guards), run.emitter.ranges)
    if not space.empty:
        scatter(run.emitter, tmp, space, found.op, s.span)
    return Made(tmp, tuple(variable(n).minus(number(run.box(s)[n].start)) for n in (*outside, *own)))


def verify(run: Run, s: Statement, message: str) -> None:
    """An error where the value of a statement, which must hold, does not."""
    assert s.value is not None
    box, domain = run.box(s), domain_of(s)
    holds = condition_of(domain, set_of({**run.boxes_of(s), **run.rounds}, domain, s.names), s.names)
    x = run.emitter.emit(settled(run.as_term(s.value, box), run.emitter.scope(box)), box, holds)
    if holds is not None:
        x = call("or", call("not", run.emitter.emit(holds, box)), x)
    run.emitter.asserted.append((renamed(cut(x, box), short_names(s)), message, s.span))


def checked(run: Run, s: Statement, box: Mapping[str, Interval], term: Term) -> Made:
    """The tensor of a write of what data say where to find, of which places count in its iterations alone."""
    domain = domain_of(s)
    whole = {**run.boxes_of(s), **box, **run.rounds}
    holds = condition_of(domain, set_of(whole, domain, s.names), s.names) or Number(True, BOOL)
    found = run.placed(s, box, Op("values", (term, holds), BOOL))
    value, safe = children(found.space.value)
    # where conditions of the space hold, the one that is put beside the value is true
    safe = holding([*found.space.guards, *([] if isinstance(safe, Number) and safe.value else [safe])])
    return found.made(run.emitter, s.buffer.element, run.emitter.emit(value, found.space.dims, safe))


# Cycles.


def opaque(run: Run, members: Sequence[int]) -> frozenset[int]:
    """Writes of a while or an external function: of loops around it each has its rounds in order."""
    writes = [run.statements[m] for m in members]
    loop = next((loop for loop in writes[0].loops if loop.dim not in run.steps), None)
    if loop is None:
        repeated(run, writes)
        return frozenset()
    return step_along(run, [*members, *run.reads_of(writes[0])], loop.dim)


def cycle(run: Run, members: Sequence[int]) -> frozenset[int]:
    writes = [run.statements[m] for m in members if not run.statements[m].is_read]
    reads = [run.statements[m] for m in members if run.statements[m].is_read]
    if all(w.opaque is not None and w.opaque is writes[0].opaque for w in writes) and not reads:
        return opaque(run, members)
    if (
        len(writes) == len(reads) == 1
        and writes[0].opaque is None
        and writes[0].scatter is None
        and reduction(run, writes[0], reads[0])
    ):
        return frozenset()
    if step_along_rows(run, members):
        return frozenset()
    return step_along(run, members, carrying(run, members))


def fold(run: Run, w: Statement, r: Statement, box: Mapping[str, Interval]) -> tuple[str, Term] | None:
    """The operation by which a write combines a read's value with an operand; None for other writes."""
    assert w.value is not None
    element = w.buffer.element
    old = Load(Buffer("old", element, (), exact=run.exact), ())
    try:
        term = run.as_term(w.value, box, {r.number: old})
    except Uncovered:
        return None
    found = fold_of(Store(old.buffer, (), term))
    if found is None or TABLE[found[0]].identity is None:
        return None
    op, term, conditions = found
    guard = holding(conditions)
    nothing = Number(neutral(op, element, run.exact), element)
    return op, term if guard is None else Op("if", (guard, term, nothing), element)


def reduction(run: Run, w: Statement, r: Statement) -> bool:
    assert w.value is not None and r.result is not None
    inside = [s for s in run.flow[r.number] if s.writer == w.number and not run.before(r.number, s)]
    if w.loops != r.loops or w.own != r.own or w.constraints != r.constraints:
        return False
    chain = chain_of(w, inside)
    inner = [] if r.number in run.read_outside([w.number, r.number]) else [r.number]
    if chain is None or not run.only_asked_for(w, inner, chain.ends):
        return False
    box, element = run.box(w), w.buffer.element
    found = fold(run, w, r, box)
    if found is None:
        return False
    op, e = found
    if any(n not in box for n in chain.over) or (run.exact and len(chain.over) > 1 and rounds(op, element)):
        return False
    # the first round finds what was there before
    first = with_indices(run.term(r, [w.number]), chain.start, run.emitter.scope(box))
    here = run.placed(w, box, Op("values", (e, first), BOOL), chain.over, masked=True)
    value, init = children(here.space.value)
    guard, whole, left = holding(here.space.guards), here.space.dims, here.left
    x = run.emitter.emit(value, whole, guard)
    if guard is not None:
        nothing = literal(neutral(op, element, run.exact), element)
        x = call("if", run.emitter.emit(guard, whole), x, nothing)
    x = cut(x, whole)
    # what all iterations have alike counts once
    over = [n for n in here.over if not TABLE[op].idempotent or n in x.tensor.dims]
    old = run.emitter.emit(init, left)
    total = folded(
        op, constant_of(old) or cut(old, left), spread(x, {n: whole[n] for n in over}), over, element, run.exact,
        w.span,
    )  # fmt: skip
    run.made[w.number] = here.made(run.emitter, element, total)
    run.decide(w, chain.over, f"folds into {w.buffer.name} by {op}")
    return True


def values_of(
    region: Region, emitter: Emitter, arguments: dict[str, Buffer], exact: bool = False, masked: bool = True,
    asked: Collection[str] | None = None, covering: dict[str, int] | None = None,
) -> tuple[dict[str, Expr], list[Decided]]:  # fmt: skip
    """The values of the arguments that a region writes in the end, and the schedule of each loop.

    Without `masked` nothing is asked of a read where its mask does not hold. Of a part of a program it may be `asked`
    what other buffers hold. Copies are seen through, or made where that covers more; what neither covers runs step by
    step along its outermost loops. Raises Uncovered for the rest. `covering` has the way that covered a part, by its
    name: parts are asked for again with each way of what is around.
    """
    covering = {} if covering is None else covering
    outermost = any(isinstance(node, For) and node.rule is not Rule.LOCKSTEP for node in region.body)
    ways = [(True, False), (False, False), *([(True, True)] if outermost else [])]
    first, reasons = covering.get(region.name, 0), list[Uncovered]()
    for k in (*range(first, len(ways)), *range(first)):
        asserted = len(emitter.asserted)
        try:
            made = _values_of(region, emitter, arguments, exact, masked, asked, covering, *ways[k])
            covering[region.name] = k
            return made
        except Uncovered as reason:
            reasons.append(reason)
            del emitter.asserted[asserted:]
    raise reasons[0]


def _values_of(
    region: Region, emitter: Emitter, arguments: dict[str, Buffer], exact: bool, masked: bool,
    asked: Collection[str] | None, covering: dict[str, int], copies: bool, in_steps: bool,
) -> tuple[dict[str, Expr], list[Decided]]:  # fmt: skip
    statements = statements_of(region, asked, in_steps)
    direct = flow_of(statements)
    flow = through_copies(statements, direct, masked) if copies else direct
    statements = with_reads_once(forwarded(statements, flow, masked), flow, masked)
    needed = live(statements, flow, emitter.checked)
    emitter.taken |= {loop.dim for s in statements for loop in s.loops}
    known = {k: flow[k] for k in needed if k in flow}
    run = Run(
        statements, known, emitter, arguments, schedule, partial(values_of, covering=covering), exact, masked, needed
    )
    schedule(run, needed)
    for s in statements:
        if not s.is_read and s.message is None and s.number not in needed:
            run.decide(s)
    found: dict[str, Expr] = {}
    for s in statements:
        if s.is_end:
            writers = [x.writer for x in direct[s.number] if x.writer is not None]
            wanted = names_along(statements[writers[-1]]) if writers else []
            found[s.buffer.name] = run.end(s, emitter.dims_of(arguments[s.buffer.name], wanted))
    return found, run.decided
