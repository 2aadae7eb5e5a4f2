"""Loops that run step by step: over elements kept in memory, over whole buffers while a condition holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, function, literal, var
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, TensorType
from tensorir.lifting.accesses.space import boxed
from tensorir.lifting.dataflow.flow import Source, condition_of, domain_of, elements_of, last_of, set_of, sources_of
from tensorir.lifting.dataflow.opaque import Opaque
from tensorir.lifting.dataflow.statements import Statement, Uncovered
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.stores import store
from tensorir.lifting.emission.tensors import cut, renamed, spread
from tensorir.lifting.nests.linear import settled, term_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, walk
from tensorir.lifting.region.nodes import External, While
from tensorir.lifting.schedule.placed import Made, with_indices
from tensorir.lifting.schedule.run import FAR, Decided, Run
from tensorir.runtime.errors import Span

# Whiles and external functions on whole buffers: loops over what they write, their rounds decided anew.


def repeated(run: Run, writes: Sequence[Statement]) -> None:
    """Make the tensors of what a while, or an external function, writes: some of the buffers, in one iteration."""
    parts = writes[0].opaque
    assert parts is not None
    buffers: dict[str, Buffer] = {}
    before: dict[str, Expr] = {}
    for name, result in parts.before.items():
        r = run.statements[run.writers[result]]
        buffer = buffers[name] = Buffer(name, r.buffer.element, r.buffer.shape)
        names = run.emitter.dims_of(buffer, [n for n, _ in r.buffer.dims])
        x = renamed(run.read(r, {}), dict(zip((n for n, _ in r.own), names, strict=True)))
        before[name] = spread(x, run.emitter.intervals(buffer))
    after = (
        _called(run, parts, buffers, before) if isinstance(parts.node, External)
        else _loop(run, parts, buffers, before, {s.buffer.name for s in writes})
    )  # fmt: skip
    for s in writes:
        x = after[s.buffer.name]
        for guard in reversed(parts.guards):
            x = call("if", run.emitter.emit(run.as_term(guard, {}), {}), x, before[s.buffer.name])
        names = run.emitter.dims_of(buffers[s.buffer.name])
        own = dict(s.own)
        x = spread(renamed(x, dict(zip(names, own, strict=True))), own)
        run.made[s.number] = run.keep(run.emitter, s.buffer.name, x, own)
        if isinstance(parts.node, While) and s is writes[0]:
            run.decided.append(Decided(parts.node.title, "sequential", s, parts.node.reason))


def _called(run: Run, parts: Opaque, buffers: Mapping[str, Buffer], before: Mapping[str, Expr]) -> dict[str, Expr]:
    node = parts.node
    assert isinstance(node, External)
    if node.make is None:
        raise Uncovered(f"{node.name}, which nobody knows")
    made = node.make(*(before[b.name] for b in node.reads))
    names = run.emitter.dims_of(buffers[node.reads[0].name])
    return {
        b.name: renamed(x, dict(zip(names, run.emitter.dims_of(buffers[b.name]), strict=True)))
        for b, x in zip(node.writes, made, strict=True)
    }


def _loop(
    run: Run, parts: Opaque, buffers: Mapping[str, Buffer], before: Mapping[str, Expr], asked: Collection[str]
) -> dict[str, Expr]:  # fmt: skip
    """The buffers after a while, of those that are read behind it or by a later round."""
    node, emitter = parts.node, run.emitter
    assert isinstance(node, While) and parts.condition is not None and parts.body is not None and parts.goes is not None
    carried = [b.name for b in parts.written]
    constant = {buffers[n]: x for n, x in before.items() if n not in carried}

    def variables() -> list[Var]:
        """The number of a round, and what buffers hold before it."""
        types = [TensorType(buffers[n].element, Dims(tuple(emitter.intervals(buffers[n]).items()))) for n in carried]
        return [
            var(run.fresh(n), t)
            for n, t in zip(["step", *(f"{n}_now" for n in carried)], [TensorType(INT32), *types], strict=True)
        ]

    def inside(now: Sequence[Var]) -> Emitter:
        return emitter.inside({**constant, **{buffers[n]: x for n, x in zip(carried, now, strict=True)}}, {}, {})

    i, *now = variables()
    inner = inside(now)
    values, decided = run.part(parts.body, inner, dict(buffers), run.exact, run.masked, asked=carried)
    new = [values.get(n, x) for n, x in zip(carried, now, strict=True)]
    j, *found = variables()
    goes = Buffer(parts.goes.name, BOOL, ())
    asks = inside(found)
    going, _ = run.part(parts.condition, asks, {**buffers, goes.name: goes}, run.exact, run.masked, asked=[goes.name])
    goes_on = asks.asserting(going[goes.name])
    handed = list(zip(carried, now, new, found, strict=True))
    while True:
        read = goes_on.free.union(*(e.free for _, _, e, _ in handed), *(e.free for e, _, _ in inner.asserted))
        left = [row for row in handed if row[0] in asked or row[1] in read or row[3] in read]
        if len(left) == len(handed):
            break
        handed = left
    names = [n for n, _, _, _ in handed]
    made = looped(
        run, inner, [i, *(x for _, x, _, _ in handed)], [e for _, _, e, _ in handed], [before[n] for n in names],
        node.span, ([j, *(x for _, _, _, x in handed)], goes_on), node.most,
    )  # fmt: skip
    run.decided += decided
    return dict(zip(names, made, strict=True))


def looped(
    run: Run, inner: Emitter, params: Sequence[Var], new: Sequence[Expr], first: Sequence[Expr], span: Span,
    going: tuple[Sequence[Var], Expr] | None, most: int | None,
) -> list[Expr]:  # fmt: skip
    """Rounds that each make new tensors of old ones, while a condition of them holds, as loops with one result each.

    What must hold in a round is a state of its own, which is always true.
    """
    before, goes = going or ([var(run.fresh(v.name), v.type) for v in params], literal(True, BOOL))
    if inner.asserted:
        fine, other = (var(run.fresh("holds"), TensorType(BOOL)) for _ in range(2))
        params, before = [*params, fine], [*before, other]
        new, first = [*new, inner.asserting(fine)], [*first, literal(True, BOOL)]
        count = len(new) - 1
    else:
        count = len(new)
    operands = (function(before, goes), function(params, *new), *first)
    made = [call("loop", *operands, static=(k, most), span=span) for k in range(len(new))]
    run.emitter.asserted += [(x, "an assertion of a loop fails.", span) for x in made[count:]]
    return made[:count]


# Elements that rounds of a loop find and leave: the state where values come from rounds at differing distances.
#
# A value that isl's flow gives to a read is the last one that was written to its element. So one tensor of the
# elements, to which each round writes the last value that it has for each, holds what later rounds ask for, however
# long ago it was written; loops around, along which nothing is handed on, are further dims of it.


@dataclass(frozen=True, slots=True)
class Memory:
    """The elements of a buffer, for each iteration of the loops outside, as writes of rounds along `dim` leave them."""

    dim: str
    buffer: Buffer
    writes: tuple[int, ...]
    box: Mapping[str, Interval]
    """The loops outside, and then the elements, all from 0 on."""
    indices: Mapping[int, tuple[Affine, ...]]
    """For each write where it stores."""
    begun: Mapping[int, Term]
    """The reads that find here what was there before the first round, too, and where."""
    before: Term
    """What was there, under the names of the box."""
    around: Buffer | None = None
    """The elements as a loop around keeps them, where these are what was there: all rounds write in place."""

    def variable(self, run: Run) -> Var:
        return var(run.fresh(f"{self.buffer.name}_now"), TensorType(self.buffer.element, Dims(tuple(self.box.items()))))

    def states(self, inner: Emitter, x: Expr) -> Iterator[tuple[tuple[int, int], Made]]:
        """Values of each write, by its iteration."""
        inner.names[self.buffer] = tuple(self.box)
        inner.tensors[self.buffer] = x
        for w in self.writes:
            yield (w, FAR), Made(self.buffer, self.indices[w])

    def first(self, run: Run) -> Expr:
        if self.around is not None:
            return self.as_mine(run.emitter, self.around)
        scope = run.emitter.scope(self.box)
        return spread(cut(run.emitter.emit(settled(self.before, scope), self.box), self.box), self.box)

    def as_mine(self, emitter: Emitter, other: Buffer) -> Expr:
        """Another loop's memory of the same elements, under the names of the box."""
        names = dict(zip(emitter.dims_of(other), self.box, strict=True))
        return spread(renamed(emitter.tensors[other], names), self.box)

    def after(self, step: Run, rounds: Interval) -> Expr:
        """The elements after a round."""
        if (inner := step.in_place.get(self.buffer)) is not None:
            return self.as_mine(step.emitter, inner)
        steps = {**step.rounds, self.dim: rounds}
        writes = [step.statements[w] for w in self.writes]
        last = last_of(writes, lambda w: [n for n in w.names if n in _outside(w, self.dim) or n == self.dim])
        for w in writes:
            box = step.box(w)
            whole = {**step.boxes_of(w), **steps}
            where = last[w.number].intersect(domain_of(w))
            if where.is_empty():
                continue
            holds = condition_of(where, set_of(whole, domain_of(w), w.names), w.names)
            value = settled(step.made[w.number].at({}, {}), step.emitter.scope(box))
            location = tuple(term_of(a, INT32) for a in self.indices[w.number])
            space = boxed(box, location, value, () if holds is None else (holds,), step.emitter.ranges)
            if not space.empty:
                store(step.emitter, self.buffer, space, w.span)
        return spread(step.emitter.tensors[self.buffer], self.box)

    def keep(self, run: Run, x: Expr) -> None:
        run.emitter.names[self.buffer] = tuple(self.box)
        run.emitter.tensors[self.buffer] = x
        for w in self.writes:
            run.made[w] = Made(self.buffer, self.indices[w])
        run.nested.add(self.buffer.name)
        if self.around is not None:
            run.in_place[self.around] = self.buffer


def _outside(w: Statement, dim: str) -> list[str]:
    """The loops of a write outside of the one that steps."""
    return [loop.dim for loop in takewhile(lambda loop: loop.dim != dim, w.in_turn)]


def memories_of(run: Run, dim: str, writes: Sequence[Statement], inside: Collection[int]) -> list[Memory]:
    """One memory for each buffer of which rounds find what writes have left, at differing distances."""
    return [_memory(run, dim, together, inside) for together in _by_buffer(writes)]


def _by_buffer(writes: Sequence[Statement]) -> list[list[Statement]]:
    found: dict[str, list[Statement]] = {}
    for w in writes:
        found.setdefault(w.buffer.name, []).append(w)
    return list(found.values())


def asked_between_rounds(run: Run, dim: str, writes: Sequence[Statement], inside: Collection[int]) -> set[int]:
    """The reads beside those inside that ask for elements which later rounds write again."""
    late = set[int]()
    outside = run.read_outside(inside)
    for together in _by_buffer(writes):
        last = last_of(together, lambda w: _outside(w, dim))
        for w in together:
            asked = [(r, s) for r, s in run.askers(w.number) if r not in inside or r in outside]
            late |= {r for r, s in asked if not s.relation.range().is_subset(last[w.number])}
    return late


def behind(run: Run, dim: str, reads: Collection[int]) -> frozenset[int]:
    """Reads in a loop, and all of the loop that needs what they find."""
    found, pending = set[int](), list(reads)
    while pending:
        m = pending.pop()
        if m in found:
            continue
        if dim not in run.statements[m].names:
            if m in reads:
                raise Uncovered("a copy of what rounds at differing distances change")
            continue
        found.add(m)
        pending += run.users.get(m, ()) if run.statements[m].is_read else [r for r, _ in run.askers(m)]
    return frozenset(found)


def _memory(run: Run, dim: str, writes: Sequence[Statement], inside: Collection[int]) -> Memory:
    outside = [n for n in _outside(writes[0], dim) if n not in run.steps]
    if any([n for n in _outside(w, dim) if n not in run.steps] != outside for w in writes):
        raise Uncovered("a dependence whose distance differs, of writes in other loops")
    for w in writes:
        if any(r in inside and not _same_element(run.statements[r], w, s) for r, s in run.askers(w.number)):
            raise Uncovered("a copy of what rounds at differing distances change")
    own, around = writes[0].buffer, run.box(writes[0])
    names = [*outside, *(n for n, _ in own.dims)]
    if len({*names, *run.steps, dim}) < len(names) + len(run.steps) + 1:
        names = [f"{n}_" for n in outside] + [f"{own.name}_{k}_" for k in range(len(own.shape))]
    extents = [len(around[n]) for n in outside] + list(own.shape)
    box = {n: Interval(0, e) for n, e in zip(names, extents, strict=True)}
    lows = [variable(n).minus(number(around[n].start)) for n in outside]
    buffer = Buffer(own.name, own.element, tuple(extents))
    kept = None if outside else _kept_around(run, writes, inside)
    around_it = {made.buffer for w in writes if (made := run.states.get((w.number, FAR))) is not None}
    sharing = {w for (w, _), made in run.states.items() if made.buffer in around_it}
    if sharing - {w.number for w in writes}:
        raise Uncovered("rounds in rounds that keep a buffer by element, of which others write it, too")
    if kept is not None:
        known = kept[0], Number(0, own.element)
    else:
        known = _before(run, dim, writes, outside, [around[n].start for n in outside], names, inside)
    begun, before = (frozenset[int](), Number(0, own.element)) if known is None else known
    places = {r: tuple(term_of(a, INT32) for a in (*lows, *run.statements[r].at)) for r in begun}
    return Memory(dim, buffer, tuple(w.number for w in writes), box,
                  {w.number: (*lows, *w.at) for w in writes},
                  {r: Load(buffer, at) for r, at in places.items()}, before, kept and kept[1])  # fmt: skip


def _same_element(r: Statement, w: Statement, source: Source) -> bool:
    """True if a read is of the element that its source was written to, and not of a copy of it."""
    if r.buffer is not w.buffer:
        return False
    at = dict(zip(w.names, source.at, strict=True))
    if all(a.replaced(at, {}) == b for a, b in zip(w.at, r.at, strict=True)):
        return True
    return source.relation.apply_range(elements_of(w, ())).is_subset(elements_of(r, ()))


def _kept_around(
    run: Run, writes: Sequence[Statement], inside: Collection[int]
) -> tuple[frozenset[int], Buffer] | None:  # fmt: skip
    """The reads of a buffer whose elements a loop around keeps for the same writes, and the buffer that has them."""
    numbers = {w.number for w in writes}
    kept = next((made.buffer for (w, d), made in run.states.items() if w in numbers and d == FAR), None)
    # where other loops around are dims of it, it has another shape
    if kept is None or kept.shape != writes[0].buffer.shape:
        return None
    if {w for (w, _), made in run.states.items() if made.buffer is kept} != numbers:
        return None
    reads = {r for r in inside if any(s.writer in numbers for s in run.flow.get(r, ()))}
    return (frozenset(reads), kept) if reads <= run.begun.keys() else None


def _before(
    run: Run, dim: str, writes: Sequence[Statement], outside: Sequence[str], lows: Sequence[int], names: Sequence[str],
    inside: Collection[int],
) -> tuple[frozenset[int], Term] | None:  # fmt: skip
    """The reads that find in a memory what was there before, and what that is; None where they do not agree."""
    numbers = {w.number for w in writes}
    reads = [run.statements[r] for r in sorted(inside) if any(s.writer in numbers for s in run.flow.get(r, ()))]
    found: dict[tuple[int | None, str], Any] = {}
    for r in reads:
        around = [n for n in r.names if n in run.steps]
        if list(run.steps) != around or [n for n in r.names if n in outside] != list(outside):
            return None
        element = elements_of(r, (*around, *outside)).reverse()
        for s in run.flow[r.number]:
            if s.writer in inside and not run.before(r.number, s):
                if s.writer not in numbers:
                    return None
            elif s.writer is not None and (
                run.before(r.number, s) or s.writer not in run.made or dim in run.statements[s.writer].names
            ):
                return None  # of what others write between rounds, this would hold what was there before
            else:
                key, relation = (s.writer, s.buffer), element.apply_range(s.relation)
                found[key] = relation if key not in found else found[key].union(relation)
    own, begun = writes[0].buffer, frozenset(r.number for r in reads)
    if not found:
        return begun, Number(0, own.element)
    asked, pieces = None, list[tuple[Any, Term]]()
    every = (*run.steps, *names)
    for (writer, buffer), relation in found.items():
        domain = relation.domain()
        if not relation.is_single_valued() or not (asked is None or asked.is_disjoint(domain)):
            return None
        asked = domain if asked is None else asked.union(domain)
        for piece in sources_of(relation, every, writer, buffer):
            if writer is None:
                term = run.initial(reads[0], piece)
            else:
                at = dict(zip(run.statements[writer].names, piece.at, strict=True))
                term = run.made[writer].at(at, run.emitter.ranges)
            pieces.append((piece.domain, term))
    choices = [(condition_of(domain, asked, every), term) for domain, term in pieces]
    choices.sort(key=lambda c: 0 if c[0] is None else sum(1 for _ in walk(c[0])), reverse=True)
    _, before = choices.pop(0)
    for holds, term in choices:
        before = term if holds is None else Op("if", (holds, term, before), own.element)
    moved = {n: variable(n).plus(number(low)) for n, low in zip(names, lows, strict=False)}
    return begun, with_indices(before, moved, run.emitter.ranges)
