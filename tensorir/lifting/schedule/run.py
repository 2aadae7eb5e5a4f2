"""Components of the dataflow in their order, each as tensors: at once, as a fold over dims, or as a scan along a loop.

A write becomes a tensor over its loops; a read becomes an access of the tensors of its sources, so no storage is left.
Writes that need each other step along the outermost loop that carries a value: what is carried at distances up to d is
the state, and the rest is decided anew inside of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Interval
from tensorir.integers.sets import isl
from tensorir.ir.build import call, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Var
from tensorir.ir.types import BOOL, INT32, Scalar
from tensorir.lifting.accesses.sets import text
from tensorir.lifting.accesses.space import as_it_is, boxed, in_order
from tensorir.lifting.dataflow.flow import Source, box_of, condition_of, domain_of, flow_of, set_of
from tensorir.lifting.dataflow.opaque import Opaque
from tensorir.lifting.dataflow.propagation import forwarded, live, through_copies, with_reads_once
from tensorir.lifting.dataflow.statements import Statement, Uncovered, statements_of
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.stores import holding
from tensorir.lifting.emission.tensors import constant_of, cut, fold_of, folded, neutral, rounds, shifted, spread
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
    walk,
)
from tensorir.lifting.region.nodes import For, Region, Rule
from tensorir.lifting.schedule.components import (
    chain_of,
    components,
    distances,
    fused,
    step_along_rows,
    with_rounds_apart,
)
from tensorir.lifting.schedule.placed import (
    Computed,
    Made,
    Placed,
    all_of,
    applied,
    by_digits,
    by_sums,
    checked,
    computed,
    looked_up,
    names_along,
    placed,
    scattered,
    short_names,
    verify,
    with_indices,
)
from tensorir.lifting.schedule.recurrence import step_along
from tensorir.lifting.schedule.stepping import FAR, Decided, repeated

MOST_JOINED = 3
"""How often what steps along is put together with others that have to: each time all of a loop is looked at again."""

MOST_FOLLOWED = 4
"""Through how many writes a value is followed to where it ends."""


@dataclass(slots=True)
class Run:
    """The statements of a region, and the tensors that they have become so far."""

    statements: Sequence[Statement]
    flow: Mapping[int, Sequence[Source]]
    emitter: Emitter
    arguments: Mapping[str, Buffer]
    part: Callable[..., tuple[dict[str, Expr], list[Decided]]]
    """What buffers hold after a part of the region that is a region of its own."""
    exact: bool = False
    masked: bool = True
    """Whether zeros are asked for where the mask of a read does not hold."""
    living: Sequence[int] = ()
    """The statements that are needed."""
    steps: tuple[str, ...] = ()
    made: dict[int, Made | Computed] = field(default_factory=dict[int, Made | Computed])
    states: Mapping[tuple[int, int], Made] = field(default_factory=dict[tuple[int, int], Made])
    stepping: frozenset[int] = frozenset()
    """The reads and writes that step along the innermost loop of `steps`."""
    given: Mapping[int, Made] = field(default_factory=dict[int, Made])
    begun: Mapping[int, Term | None] = field(default_factory=dict[int, "Term | None"])
    """The reads that find in the state what was there before, too, and where, unless one source tells."""
    decided: list[Decided] = field(default_factory=list[Decided])
    writers: Mapping[Var, int] = field(default_factory=dict[Var, int])
    asking: dict[int, list[tuple[int, Source]]] = field(default_factory=dict[int, list[tuple[int, Source]]])
    """By write, the reads that take values from it."""
    users: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """By read, the writes that use its value."""
    boxes: dict[int, dict[str, Interval]] = field(default_factory=dict[int, dict[str, Interval]])
    nested: set[str] = field(default_factory=set[str])
    """The buffers that loops inside keep by element."""
    in_place: dict[Buffer, Buffer] = field(default_factory=dict[Buffer, Buffer])
    """By what a loop around keeps, what a loop inside has made of it."""
    known: dict[object, Expr] = field(default_factory=dict[object, Expr])
    terms: dict[int, Term] = field(default_factory=dict[int, Term])
    """What reads find."""

    def __post_init__(self) -> None:
        self.writers = self.writers or {s.result: s.number for s in self.statements if s.result is not None}
        if not self.asking:
            for r, sources in self.flow.items():
                for source in sources:
                    if source.writer is not None:
                        self.asking.setdefault(source.writer, []).append((r, source))
            for k in self.living:
                for r in self.reads_of(self.statements[k]):
                    self.users.setdefault(r, []).append(k)

    def box(self, s: Statement) -> dict[str, Interval]:
        """The box around the iterations of a statement, without the loops that step."""
        if s.number not in self.boxes:
            self.boxes[s.number] = box_of(domain_of(s), s.names)
        return {n: i for n, i in self.boxes[s.number].items() if n not in self.steps}

    @property
    def rounds(self) -> dict[str, Interval]:
        """The loops that step, whose rounds are more than the iterations of some statements in them."""
        return {n: Interval(low, high + 1) for n, (low, high) in self.emitter.ranges.items() if n in self.steps}

    # Order

    def schedule(self, members: Sequence[int]) -> frozenset[int]:
        """Make the tensors of all writes among the members; gives back what else has to be made with them, if any."""
        place = {m: k for k, m in enumerate(members)}
        edges: set[tuple[int, int]] = set()
        groups: dict[Opaque, int] = {}
        for m in members:
            s = self.statements[m]
            if s.is_read:
                edges |= {(place[w], place[m]) for w in self.sources_now(m) if w in place}
            else:
                edges |= {(place[r], place[m]) for r in self.reads_of(s) if r in place}
            if s.opaque is not None and not s.is_read:
                # one node makes all that it writes
                first = groups.setdefault(s.opaque, place[m])
                edges |= {(first, place[m]), (place[m], first)} if first != place[m] else set()
        done = set[int]()
        for _ in range(MOST_JOINED):
            further = self.schedule_in_parts(members, edges, done)
            if not further <= place.keys():
                return further
            if not further:
                return frozenset()
            edges |= {(place[m], place[n]) for m in further for n in further}
        raise Uncovered("statements that step along with others, found one after another")

    def schedule_in_parts(
        self, members: Sequence[int], edges: Collection[tuple[int, int]], done: set[int]
    ) -> frozenset[int]:
        """Make the tensors of what is not `done`; gives back what has to be made together, if there is any."""
        parts = [sorted(members[k] for k in part) for part in components(len(members), edges)]
        for part in fused(self, parts, [(members[a], members[b]) for a, b in edges]):
            numbers = sorted(set(part) - done)
            if numbers and (further := self.component(numbers)):
                together = further | set(numbers)
                if not done.isdisjoint(together):
                    raise Uncovered("what is made already would have to step along with others")
                return together
            done |= set(numbers)
        return frozenset()

    def component(self, numbers: Sequence[int]) -> frozenset[int]:
        """Make the tensors of a component; gives back what has to step along with it."""
        s = self.statements[numbers[0]]
        if len(numbers) > 1:
            return self.cycle(numbers)
        if s.opaque is not None:
            return self.opaque(numbers)
        if s.message is not None:
            verify(self, s, s.message)
        elif not s.is_read:
            self.make(s)
            self.decide(s)
        return frozenset()

    def sources_now(self, read: int) -> set[int]:
        """The writes that a read takes values from in the same round of all loops that step."""
        found: set[int] = set()
        for source in self.flow[read]:
            w = source.writer
            if w is None or self.before(read, source):
                continue
            found.add(w)
        return found

    def reads_of(self, s: Statement) -> list[int]:
        return [self.writers[v] for v in s.uses if v in self.writers]

    def decide(self, s: Statement, over: Sequence[str] = (), reason: str = "") -> None:
        """Say how the loops of a write run: as a fold over some of them, all others at once."""
        for loop in s.loops:
            if loop.dim not in self.steps:
                how = ("reduction", reason) if loop.dim in over else ("parallel", self.together(s, loop))
                self.decided.append(Decided(loop.dim, how[0], s, how[1]))
        self.decided += [Decided(loop.dim, "parallel", s) for loop in s.once]
        if s.scatter is not None:
            op = s.scatter.op
            how = "parallel" if op is None else "reduction"
            why = "the last of several writes stays" if op is None else f"folds into {s.buffer.name} by {op}"
            self.decided += [Decided(loop.dim, how, s, why) for loop in s.scatter.loops[len(s.loops) :]]

    def together(self, s: Statement, loop: For) -> str:
        """The report's text on a loop in lockstep whose iterations read writes of others."""
        own = [r for r in self.reads_of(s) if self.statements[r].buffer is s.buffer and self.statements[r].at != s.at]
        met = loop.rule is Rule.LOCKSTEP and any(loop in self.statements[r].loops for r in own)
        return f"in lockstep: all read {s.buffer.name} before any writes" if met else ""

    def before(self, read: int, source: Source) -> bool:
        """True if the value is of an earlier round of a loop that steps."""
        return any(self.distance(source, dim) for dim in self.steps) if self.steps_both(read, source) else False

    def steps_both(self, read: int, source: Source) -> bool:
        return read in self.stepping and source.writer in self.stepping

    def in_step(self, read: int, source: Source) -> bool:
        """True if the innermost loop that steps is the one that hands the value on."""
        return self.steps_both(read, source) and not any(self.distance(source, dim) for dim in self.steps[:-1])

    def distance(self, source: Source, dim: str) -> int:
        assert source.writer is not None
        names = self.statements[source.writer].names
        if dim not in names:
            raise Uncovered("values that leave a loop and come back")
        by = variable(dim).minus(source.at[names.index(dim)])
        if by.is_number:
            return by.constant
        least, most = distances(self, source, dim)
        if least <= 0 <= most:
            raise Uncovered("a dependence whose distance differs")
        return least if most < 0 else FAR

    # Tensors

    def make(self, s: Statement) -> None:
        """The tensor of a write."""
        assert s.value is not None
        if s.scatter is not None:
            self.made[s.number] = scattered(self, s, s.scatter)
            return
        box = self.asked_for(s)
        term = settled(self.as_term(s.value, box), self.emitter.scope(box))
        if (alone := computed(term)) is not None:
            self.made[s.number] = alone
            return
        if self.emitter.checked and indexed_by_data(term):
            self.made[s.number] = checked(self, s, box, term)
            return
        if (sums := by_sums(term, box, (*self.steps, *self.emitter.ranges), lambda a: self.reach(s, a))) is not None:
            at, ranges = tuple(map(variable, sums.box)), self.emitter.ranges
            along = placed(s.buffer.name, at, sums.box, sums.term, (), (), {}, ranges)
            if along is not None:
                x = self.emitter.emit(along.space.value, along.space.dims)
                made = along.made(self.emitter, s.buffer.element, x)
                self.made[s.number] = sums.over_iterations(made)
                return
        found = self.placed(s, box, term)
        x = self.emitter.emit(found.space.value, found.space.dims)
        self.made[s.number] = found.made(self.emitter, s.buffer.element, x)

    def placed(
        self, s: Statement, box: Mapping[str, Interval], value: Term, over: Sequence[str] = (), masked: bool = False
    ) -> Placed:
        """A write over its elements, where these tell its iterations apart, or over its iterations."""
        domain = domain_of(s)
        holds = condition_of(domain, set_of({**self.boxes_of(s), **box}, domain, s.names), s.names)
        guards = [] if holds is None else [holds]
        # inside of a step, dims are those of the state
        short = {} if self.steps else short_names(s)
        left = tuple(variable(n) for n in box if n not in over)
        first = in_order if self.exact and s.buffer.element.is_float else boxed
        for at, make in ((s.at, first), (left, first), (left, as_it_is)):
            for conditions in (guards,) if masked else (guards, []):
                found = placed(s.buffer.name, at, box, value, conditions, over, short, self.emitter.ranges, make)
                if found is not None:
                    return found
        raise Uncovered("a write of nothing")

    def asked_for(self, s: Statement) -> dict[str, Interval]:
        """The box around the iterations of a write whose values somebody reads, without the loops that step."""
        box, asked = self.box(s), self.asked(s)
        hull = box_of(asked, s.names) if asked is not None else box
        return {n: hull[n] & i for n, i in box.items()}

    def asked(self, s: Statement) -> Any:
        """The iterations of a write whose values somebody reads; None where nobody says."""
        asked = None
        for _, source in self.askers(s.number):
            found = source.relation.range()
            asked = found if asked is None else asked.union(found)
        return asked

    def reach(self, s: Statement, a: Affine) -> Interval:
        """The range of a sum in the live iterations of a write."""
        asked = self.asked(s)
        if asked is None:
            asked = domain_of(s)
        names = {n: f"i{k}" for k, n in enumerate(s.names)}
        image = isl().Map(f"{{ [{', '.join(names.values())}] -> [{text(a, names)}] }}")
        found = asked.reset_tuple_id().apply(image)
        return box_of(found, ["sum"])["sum"]

    def keep(self, emitter: Emitter, name: str, x: Expr, box: Mapping[str, Interval]) -> Made:
        """A tensor under a name, from 0 on along each dim."""
        element = x.tensor.element
        assert isinstance(element, Scalar)
        buffer = Buffer(name, element, tuple(len(i) for i in box.values()))
        emitter.names[buffer] = tuple(box)
        x = cut(x, box)
        for n, i in box.items():
            x = shifted(x, n, i.start)
        emitter.tensors[buffer] = x
        return Made(buffer, tuple(variable(n).minus(number(i.start)) for n, i in box.items()))

    def as_term(self, e: Expr, box: Mapping[str, Interval], known: Mapping[int, Term] | None = None) -> Term:
        """An expression for one iteration, and one point of its window, as a term over what reads find.

        Of some reads it is `known` what stands for it.
        """
        done: dict[int, Term] = {}
        stack: list[tuple[Expr, bool]] = [(e, False)]
        while stack:
            node, ready = stack.pop()
            below = _operands(node) if not ready and id(node) not in done else ()
            if below:
                stack.append((node, True))
                stack += [(c, False) for c in below]
                continue
            if id(node) in done:
                continue
            match node:
                case Var() if known and self.writers.get(node) in known:
                    done[id(node)] = known[self.writers[node]]
                case Var() if node in self.writers:
                    done[id(node)] = self.found(self.statements[self.writers[node]])
                case Var(name):
                    done[id(node)] = term_of(variable(name), INT32)
                case Literal(value, Scalar() as element):
                    done[id(node)] = Number(value, element)
                case Call("pos", _, (dim,)):
                    done[id(node)] = term_of(variable(dim), INT32)
                case Call("gather", (Var() as v, *indices), (dims, _)) if v in self.writers:
                    read = self.statements[self.writers[v]]
                    size = {n: len(i) for n, i in read.own}
                    places = {d: (done[id(i)], size[d]) for d, i in zip(dims, indices, strict=True)}
                    done[id(node)] = looked_up(all_of(self, read, places), places, read.span)
                case Call(op, args) if TABLE[op].elementwise:
                    element = node.tensor.element
                    assert isinstance(element, Scalar)
                    done[id(node)] = Op(op, tuple(done[id(a)] for a in args), element)
                case _:
                    if known and any(self.writers.get(v) in known for v in node.free):
                        raise Uncovered("a tensor that is handed on")
                    done[id(node)] = self.whole(node, box)
        return done[id(e)]

    def whole(self, e: Expr, box: Mapping[str, Interval]) -> Term:
        """An expression of other builtins than those that go element by element, as a tensor that is read."""
        values: dict[Var, Expr] = {}
        for v in e.free:
            if v in self.writers:
                # who asks for a dim finds it, also where the value is the same along it
                r = self.statements[self.writers[v]]
                values[v] = spread(self.read(r, box), dict(r.own))
            else:
                values[v] = self.emitter.emit(term_of(variable(v.name), INT32), box)
        x = applied(e, values)
        made = self.keep(self.emitter, "whole", x, dict(x.tensor.dims.items))
        return made.at({}, {})

    def found(self, r: Statement) -> Term:
        """The value of a read."""
        if r.number not in self.terms:
            self.terms[r.number] = self.term(r)
        return self.terms[r.number]

    def read(self, r: Statement, box: Mapping[str, Interval]) -> Expr:
        """The value of a read, on the part of a box that has its dims."""
        own = dict(r.own)
        here = {n: own[n] if n in own else box[n] for n in r.names if n in own or n in box}
        key = (r.number, tuple(here.items()))
        if key not in self.known:
            self.known[key] = cut(self.emitter.emit(self.found(r), here), here)
        return self.known[key]

    def end(self, r: Statement, names: Sequence[str]) -> Expr:
        """The value of a read of a whole argument, under names of its dims."""
        box = dict(zip(names, (i for _, i in r.own), strict=True))
        new = {n: variable(name) for (n, _), name in zip(r.own, names, strict=True)}
        scope = self.emitter.scope(box)
        # settled part by part: a choice between as many stores as a program has is long
        term = with_indices(self.found(r), new, scope)
        return spread(cut(by_digits(self.emitter, term, box), box), box)

    def term(self, r: Statement, outside: Collection[int] | None = None) -> Term:
        """The value of a read as a choice between its sources; with `outside`, without those of these numbers."""
        pieces: list[tuple[Source, Term]] = []
        begun = r.number in self.begun
        rest = self.begun.get(r.number)
        ranges = {**self.emitter.ranges, **{n: (i.start, i.stop - 1) for n, i in self.boxes_of(r).items()}}
        sources = self.flow[r.number]
        if begun:
            sources = [s for s in sources if s.writer is not None and self.in_step(r.number, s)]
        for source in sources:
            w = source.writer
            if outside is not None and w in outside and not self.before(r.number, source):
                continue
            if w is not None and self.in_step(r.number, source):
                d = self.distance(source, self.steps[-1])
                back = (w, FAR) if d and (w, FAR) in self.states else (w, d)
                found = (self.states[back] if d else self.made[w]).at(self._at(source), ranges)
                if d and begun:
                    rest = rest or found
                else:
                    pieces.append((source, found))
            elif r.number in self.given:
                rest = self.given[r.number].at({}, {})
            elif w is None:
                pieces.append((source, self.initial(r, source)))
            else:
                pieces.append((source, self.made[w].at(self._at(source), ranges)))
        domain = domain_of(r)
        # what the longest condition tells is left when the others are asked, and what was there before at equal ones
        pieces.sort(key=lambda p: p[0].writer is None, reverse=True)
        choices = [(condition_of(s.domain, domain, r.names), found) for s, found in pieces]
        choices.sort(key=lambda c: 0 if c[0] is None else sum(1 for _ in walk(c[0])), reverse=True)
        if rest is None:
            if not pieces:
                return Number(r.fill if self.masked else 0, r.buffer.element)
            rest = choices.pop(0)[1]
        for holds, found in choices:
            rest = found if holds is None else Op("if", (holds, found, rest), r.buffer.element)
        if r.unmasked is not None and self.masked:
            holds = condition_of(domain, domain_of(replace(r, constraints=r.unmasked)), r.names)
            fill = Number(r.fill, r.buffer.element)
            rest = rest if holds is None else Op("if", (holds, rest, fill), r.buffer.element)
        return rest

    def _at(self, source: Source) -> dict[str, Affine]:
        assert source.writer is not None
        return dict(zip(self.statements[source.writer].names, source.at, strict=True))

    def initial(self, r: Statement, source: Source) -> Term:
        """The value of a read without a source: the live-in."""
        argument = self.arguments.get(source.buffer)
        if argument is None:
            return Number(0, r.buffer.element)
        return Load(argument, tuple(term_of(a, INT32) for a in source.at), r.span)

    # Cycles

    def opaque(self, members: Sequence[int]) -> frozenset[int]:
        """Writes of a while or an external function: of loops around it each has its rounds in order."""
        writes = [self.statements[m] for m in members]
        loop = next((loop for loop in writes[0].loops if loop.dim not in self.steps), None)
        if loop is None:
            repeated(self, writes)
            return frozenset()
        return step_along(self, [*members, *self.reads_of(writes[0])], loop.dim)

    def cycle(self, members: Sequence[int]) -> frozenset[int]:
        writes = [self.statements[m] for m in members if not self.statements[m].is_read]
        reads = [self.statements[m] for m in members if self.statements[m].is_read]
        if all(w.opaque is not None and w.opaque is writes[0].opaque for w in writes) and not reads:
            return self.opaque(members)
        if (
            len(writes) == len(reads) == 1
            and writes[0].opaque is None
            and writes[0].scatter is None
            and self.reduction(writes[0], reads[0])
        ):
            return frozenset()
        if step_along_rows(self, members):
            return frozenset()
        return step_along(self, members, self.carrying(members))

    def fold(self, w: Statement, r: Statement, box: Mapping[str, Interval]) -> tuple[str, Term] | None:
        """The operation by which a write combines a read's value with an operand; None for other writes."""
        assert w.value is not None
        element = w.buffer.element
        old = Load(Buffer("old", element, (), exact=self.exact), ())
        try:
            term = self.as_term(w.value, box, {r.number: old})
        except Uncovered:
            return None
        found = fold_of(Store(old.buffer, (), term))
        if found is None or TABLE[found[0]].identity is None:
            return None
        op, term, conditions = found
        guard = holding(conditions)
        nothing = Number(neutral(op, element, self.exact), element)
        return op, term if guard is None else Op("if", (guard, term, nothing), element)

    def reduction(self, w: Statement, r: Statement) -> bool:
        assert w.value is not None and r.result is not None
        inside = [s for s in self.flow[r.number] if s.writer == w.number and not self.before(r.number, s)]
        if w.loops != r.loops or w.own != r.own or w.constraints != r.constraints:
            return False
        chain = chain_of(w, inside)
        inner = [] if r.number in self.read_outside([w.number, r.number]) else [r.number]
        if chain is None or not self.only_asked_for(w, inner, chain.ends):
            return False
        box, element = self.box(w), w.buffer.element
        found = self.fold(w, r, box)
        if found is None:
            return False
        op, e = found
        if any(n not in box for n in chain.over) or (self.exact and len(chain.over) > 1 and rounds(op, element)):
            return False
        # the first round finds what was there before
        first = with_indices(self.term(r, [w.number]), chain.start, self.emitter.scope(box))
        here = self.placed(w, box, Op("values", (e, first), BOOL), chain.over, masked=True)
        value, init = children(here.space.value)
        guard, whole, left = holding(here.space.guards), here.space.dims, here.left
        x = self.emitter.emit(value, whole, guard)
        if guard is not None:
            nothing = literal(neutral(op, element, self.exact), element)
            x = call("if", self.emitter.emit(guard, whole), x, nothing)
        x = cut(x, whole)
        # what all iterations have alike counts once
        over = [n for n in here.over if not TABLE[op].idempotent or n in x.tensor.dims]
        old = self.emitter.emit(init, left)
        total = folded(
            op, constant_of(old) or cut(old, left), spread(x, {n: whole[n] for n in over}), over, element, self.exact,
            w.span,
        )  # fmt: skip
        self.made[w.number] = here.made(self.emitter, element, total)
        self.decide(w, chain.over, f"folds into {w.buffer.name} by {op}")
        return True

    def askers(self, write: int) -> list[tuple[int, Source]]:
        """The reads that take values from a write, and which."""
        return self.asking.get(write, [])

    def read_outside(self, members: Collection[int]) -> set[int]:
        """The reads among statements whose values writes use that are not among them."""
        reads = {m for m in members if self.statements[m].is_read}
        reads |= {r for m in members for r in self.reads_of(self.statements[m])}
        return {r for r in reads if any(k not in members for k in self.users.get(r, ()))}

    def only_asked_for(self, w: Statement, inside: Collection[int], ends: object) -> bool:
        """True if all other reads of a write ask for iterations of a set only."""
        asked = ((r, source.relation) for r, source in self.askers(w.number) if r not in inside)
        return all(m.range().is_subset(ends) or self.wanted(r, m).range().is_subset(ends) for r, m in asked)

    def wanted(self, read: int, relation: Any, depth: int = 0) -> Any:
        """The part of a relation from a read to what it reads whose values come to an end, as far as is looked."""
        if depth == MOST_FOLLOWED or self.statements[read].is_end:
            return relation
        name, needed = relation.domain().get_tuple_name(), None
        for k in self.users.get(read, ()):
            if self.statements[k].names != self.statements[read].names or not self.askers(k):
                return relation
            for r, source in self.askers(k):
                found = self.wanted(r, source.relation, depth + 1).range().set_tuple_name(name)
                needed = found if needed is None else needed.union(found)
        return relation if needed is None else relation.intersect_domain(needed)

    @property
    def kept(self) -> int:
        """The number of elements that the source keeps."""
        return sum(prod(b.shape) for b in {s.buffer for s in self.statements})

    def boxes_of(self, s: Statement) -> dict[str, Interval]:
        self.box(s)
        return self.boxes[s.number]

    def carrying(self, members: Sequence[int]) -> str:
        """The outermost loop around all members along which values are carried."""
        common = self.statements[members[0]].in_turn
        for m in members[1:]:
            common = [a for a, b in zip(common, self.statements[m].in_turn, strict=False) if a is b]
        for loop in common:
            if loop.dim in self.steps:
                continue
            with_rounds_apart(self, members, loop.dim)
            pieces = [
                source for m in members if self.statements[m].is_read for source in self.flow[m]
                if source.writer in members and not self.before(m, source)
            ]  # fmt: skip
            by = {self.distance(source, loop.dim) for source in pieces}
            if any(by):
                if min(by) < 0:
                    raise Uncovered("a dependence that goes backwards")
                return loop.dim
        raise Uncovered("a recurrence without a loop in common")

    def fresh(self, name: str) -> str:
        found, k = name, 1
        while found in self.emitter.taken:
            found, k = f"{name}_{k}", k + 1
        self.emitter.taken.add(found)
        return found


def _operands(e: Expr) -> tuple[Expr, ...]:
    """Operands computed before an operation on elements; of any other, all at once."""
    match e:
        case Call("gather", (Var(), *indices)):
            return tuple(indices)
        case Call(op, args) if TABLE[op].elementwise:
            return args
        case _:
            return ()


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
    run = Run(statements, known, emitter, arguments, partial(values_of, covering=covering), exact, masked, needed)
    run.schedule(needed)
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
