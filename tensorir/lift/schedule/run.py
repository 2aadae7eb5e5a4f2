"""Components of the dataflow in their order, each as tensors: at once, as a fold over dims, or as a scan along a loop.

A write becomes a tensor over its loops; a read becomes an access of the tensors of its sources, so no storage is left.
Writes that need each other step along the outermost loop that carries a value: what is carried at distances up to d is
the state, and the rest is decided anew inside of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tensorir.build import call, function, literal, reduce, scan, var
from tensorir.ir import Expr, Var
from tensorir.lift.accesses.components import components
from tensorir.lift.dataflow.flow import Source, box_of, condition_of, domain_of
from tensorir.lift.dataflow.statements import Statement, Uncovered
from tensorir.lift.emission.emit import Emitter
from tensorir.lift.emission.folds import folded, neutral, rounds
from tensorir.lift.emission.tensors import cut, filled, position, shifted, spread
from tensorir.lift.nests.affine import Affine, number, variable
from tensorir.lift.nests.linear import term_of
from tensorir.lift.nests.terms import Buffer, Load, Number, Op, Term
from tensorir.lift.schedule.applied import applied
from tensorir.lift.schedule.folding import chain_of, combined
from tensorir.types import INT32, Dims, Interval, Scalar, TensorType, TupleElement

__all__ = ["Decided", "Run"]

MOST_KEPT = 4
"""How many times what the source keeps a scan may keep."""


@dataclass(frozen=True, slots=True)
class Decided:
    """How a loop runs for a statement."""

    dim: str
    strategy: str
    statement: Statement


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor that a write has become: a buffer whose dims are those of the write from their least values on."""

    buffer: Buffer
    names: tuple[str, ...]
    lows: Mapping[str, int]

    def at(self, place: Mapping[str, Affine]) -> Term:
        moved = (place[n].plus(number(-self.lows[n])) for n in self.names)
        return Load(self.buffer, tuple(term_of(a, INT32) for a in moved))


@dataclass(slots=True)
class Run:
    """The statements of a region, and the tensors that they have become so far."""

    statements: Sequence[Statement]
    flow: Mapping[int, Sequence[Source]]
    emitter: Emitter
    arguments: Mapping[str, Buffer]
    exact: bool = False
    masked: bool = True
    """Whether zeros are asked for where the mask of a read does not hold."""
    living: Sequence[int] = ()
    """The statements that are needed."""
    steps: tuple[str, ...] = ()
    made: dict[int, Made] = field(default_factory=dict[int, Made])
    states: Mapping[tuple[int, int], Made] = field(default_factory=dict[tuple[int, int], Made])
    stepping: frozenset[int] = frozenset()
    """The reads and writes that step along the innermost loop of `steps`."""
    given: Mapping[int, Made] = field(default_factory=dict[int, Made])
    decided: list[Decided] = field(default_factory=list[Decided])
    writers: Mapping[Var, int] = field(default_factory=dict[Var, int])
    boxes: dict[int, dict[str, Interval]] = field(default_factory=dict[int, dict[str, Interval]])
    known: dict[object, Expr] = field(default_factory=dict[object, Expr])

    def __post_init__(self) -> None:
        self.writers = self.writers or {s.result: s.number for s in self.statements if s.result is not None}

    def box(self, s: Statement) -> dict[str, Interval]:
        """The box around the iterations of a statement, without the loops that step."""
        if s.number not in self.boxes:
            self.boxes[s.number] = box_of(domain_of(s), s.names)
        return {n: i for n, i in self.boxes[s.number].items() if n not in self.steps}

    # Order

    def schedule(self, members: Sequence[int]) -> None:
        """Make the tensors of all writes among the members."""
        place = {m: k for k, m in enumerate(members)}
        edges: set[tuple[int, int]] = set()
        for m in members:
            s = self.statements[m]
            if s.is_read:
                edges |= {(place[w], place[m]) for w in self.sources_now(m) if w in place}
            else:
                edges |= {(place[r], place[m]) for r in self.reads_of(s) if r in place}
        for part in components(len(members), edges):
            numbers = sorted(members[k] for k in part)
            if len(numbers) > 1:
                self.cycle(numbers)
            elif not (s := self.statements[numbers[0]]).is_read:
                self.make(s)
                self.decide([s], {})

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
        assert s.value is not None
        return [self.writers[v] for v in s.value.free if v in self.writers]

    def decide(self, writes: Sequence[Statement], strategies: Mapping[str, str]) -> None:
        for s in writes:
            for loop in s.loops:
                if loop.dim not in self.steps:
                    self.decided.append(Decided(loop.dim, strategies.get(loop.dim, "parallel"), s))

    def before(self, read: int, source: Source) -> bool:
        """Whether the value is of an earlier round of a loop that steps."""
        return any(self.distance(source, dim) for dim in self.steps) if self.steps_both(read, source) else False

    def steps_both(self, read: int, source: Source) -> bool:
        return read in self.stepping and source.writer in self.stepping

    def in_step(self, read: int, source: Source) -> bool:
        """Whether the innermost loop that steps is the one that hands the value on."""
        return self.steps_both(read, source) and not any(self.distance(source, dim) for dim in self.steps[:-1])

    def distance(self, source: Source, dim: str) -> int:
        assert source.writer is not None
        names = self.statements[source.writer].names
        if dim not in names:
            raise Uncovered("values that leave a loop and come back")
        by = variable(dim).minus(source.at[names.index(dim)])
        if not by.is_number:
            raise Uncovered("a dependence whose distance differs")
        return by.constant

    # Tensors

    def make(self, s: Statement, value: Expr | None = None, names: Sequence[str] | None = None) -> None:
        """The tensor of a write."""
        box = self.box(s)
        names = [n for n in s.names if n in box] if names is None else names
        x = self.value(s, box) if value is None else value
        self.made[s.number] = self.keep(self.emitter, f"t{s.number}", x, {n: box[n] for n in names})

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
        return Made(buffer, tuple(box), {n: i.start for n, i in box.items()})

    def value(self, s: Statement, box: Mapping[str, Interval], e: Expr | None = None) -> Expr:
        """The value of a write on a box."""
        e = s.value if e is None else e
        assert e is not None
        values: dict[Var, Expr] = {}
        for v in e.free:
            if v in self.writers:
                values[v] = self.read(self.statements[self.writers[v]], box)
            else:
                values[v] = self.emitter.emit(term_of(variable(v.name), INT32), box)
        return cut(applied(e, values), box)

    def read(self, r: Statement, box: Mapping[str, Interval]) -> Expr:
        """What a read finds, on the part of a box that has its dims."""
        own = dict(r.own)
        here = {n: own[n] if n in own else box[n] for n in r.names if n in own or n in box}
        key = (r.number, tuple(here.items()))
        if key not in self.known:
            self.known[key] = cut(self.emitter.emit(self.term(r), here), here)
        return self.known[key]

    def term(self, r: Statement, outside: Sequence[int] | None = None) -> Term:
        """What a read finds as a choice between its sources; with `outside`, without those of these numbers."""
        pieces: list[tuple[Source, Term]] = []
        here = {n: variable(n) for n in r.names}
        rest: Term | None = None
        for source in self.flow[r.number]:
            w = source.writer
            if outside is not None and w in outside and not self.before(r.number, source):
                continue
            if w is not None and self.in_step(r.number, source):
                d = self.distance(source, self.steps[-1])
                found = self.states[w, d] if d else self.made[w]
                pieces.append((source, found.at(self._at(source))))
            elif r.number in self.given:
                rest = self.given[r.number].at(here)
            elif w is None:
                pieces.append((source, self.initial(r, source)))
            else:
                pieces.append((source, self.made[w].at(self._at(source))))
        pieces.sort(key=lambda p: p[0].writer is None)
        if rest is None:
            if not pieces:
                return Number(0, r.buffer.element)
            _, rest = pieces.pop()
        domain = domain_of(r)
        for source, found in reversed(pieces):
            holds = condition_of(source.domain, domain, r.names)
            rest = found if holds is None else Op("if", (holds, found, rest), r.buffer.element)
        if r.unmasked is not None and self.masked:
            holds = condition_of(domain, domain_of(replace(r, constraints=r.unmasked)), r.names)
            rest = rest if holds is None else Op("if", (holds, rest, Number(0, r.buffer.element)), r.buffer.element)
        return rest

    def _at(self, source: Source) -> dict[str, Affine]:
        assert source.writer is not None
        return dict(zip(self.statements[source.writer].names, source.at, strict=True))

    def initial(self, r: Statement, source: Source) -> Term:
        """What a read finds where nothing was written."""
        argument = self.arguments.get(source.buffer)
        if argument is None:
            return Number(0, r.buffer.element)
        return Load(argument, tuple(term_of(a, INT32) for a in source.at))

    # Cycles

    def cycle(self, members: Sequence[int]) -> None:
        writes = [self.statements[m] for m in members if not self.statements[m].is_read]
        reads = [self.statements[m] for m in members if self.statements[m].is_read]
        if len(writes) == len(reads) == 1 and self.reduction(writes[0], reads[0]):
            return
        self.recurrence(members, writes, reads)

    def reduction(self, w: Statement, r: Statement) -> bool:
        assert w.value is not None and r.result is not None
        found = combined(w.value, r.result)
        inside = [s for s in self.flow[r.number] if s.writer == w.number and not self.before(r.number, s)]
        if found is None or w.loops != r.loops or w.at != r.at or w.constraints != r.constraints:
            return False
        chain = chain_of(w, inside)
        inner = [] if r.number in self.read_outside([w.number, r.number]) else [r.number]
        if chain is None or not self.only_asked_for(w, inner, chain.ends):
            return False
        op, e = found
        box = self.box(w)
        if any(n not in box for n in chain.over):
            return False
        if self.exact and len(chain.over) > 1 and rounds(op, w.buffer.element):
            return False
        domain = domain_of(w)
        from tensorir.lift.dataflow.flow import isl

        value = self.value(w, box, e)
        whole = isl().Set(_box_text(w.names, self.boxes[w.number])).set_tuple_name(domain.get_tuple_name())
        holds = condition_of(domain, whole, w.names)
        element = w.buffer.element
        if holds is not None:
            value = call("if", self.emitter.emit(holds, box), value, literal(neutral(op, element), element))
        value = spread(cut(value, box), {n: box[n] for n in chain.over})
        # the first round finds what was there before
        left = {n: i for n, i in box.items() if n not in chain.over}
        first = self.term(r, [w.number])
        init = self.emitter.emit(_replaced(first, chain.start, self.emitter.scope(box)), left)
        total = folded(op, cut(init, left), value, list(chain.over), element, self.exact, w.span)
        self.make(w, total, [n for n in w.names if n in left])
        self.decide([w], dict.fromkeys(chain.over, "reduction"))
        return True

    def read_outside(self, members: Sequence[int]) -> set[int]:
        """The reads whose values writes that are no members use."""
        others = (self.statements[k] for k in self.living if k not in members)
        return {r for s in others if s.value is not None for r in self.reads_of(s)}

    def only_asked_for(self, w: Statement, inside: Sequence[int], ends: object) -> bool:
        """Whether all other reads of a write ask for iterations of a set only."""
        for number_, sources in self.flow.items():
            for source in sources if number_ not in inside else ():
                if source.writer == w.number and not source.relation.range().is_subset(ends):
                    return False
        return True

    def recurrence(self, members: Sequence[int], writes: Sequence[Statement], reads: Sequence[Statement]) -> None:
        """Step along the outermost loop that carries a value: a scan, or a fold where the last state is all."""
        dim = self.carrying(members)
        inside = frozenset(members) | {r for w in writes for r in self.reads_of(w)}
        depth: dict[int, int] = {}
        for r in reads:
            for source in self.flow[r.number]:
                w = source.writer
                if w is not None and w in inside and not self.before(r.number, source):
                    depth[w] = max(depth.get(w, 0), self.distance(source, dim))
        everywhere, outside = False, self.read_outside(members)
        stop = max(self.boxes_of(w)[dim].stop for w in writes)
        start = min(self.boxes_of(w)[dim].start for w in writes)
        for w in writes:
            k = w.names.index(dim)
            for number_, sources in self.flow.items():
                for source in sources if number_ not in members or number_ in outside else ():
                    if source.writer == w.number:
                        depth[w.number] = max(depth.get(w.number, 0), 1)
                        low = source.relation.range().dim_min_val(k).to_python()
                        everywhere |= low != stop - 1
        slots = [(w.number, d + 1) for w in writes for d in range(depth.get(w.number, 0))]
        state = self.state_box(writes, dim)
        if everywhere:
            size = prod(len(i) for i in state.values()) * (stop - start) * len(slots)
            kept = sum(prod(s) for s in {b.name: b.shape for b in (x.buffer for x in self.statements)}.values())
            if size > MOST_KEPT * kept + 1024:
                raise Uncovered("a scan that would keep more than the source does")
        interval = {dim: Interval(start, stop)}
        here = {n: Interval(0, len(i)) for n, i in state.items()}
        element = TupleElement(tuple(self.statements[w].buffer.element for w, _ in slots))
        kind = TensorType(element if len(slots) > 1 else element.members[0], Dims(tuple(here.items())))
        s = var(self.fresh("state"), kind)
        counter = var(self.fresh(dim), TensorType(INT32))
        inner = self.emitter.inside({}, {dim: counter}, {dim: (start, stop - 1)})
        params, args = [counter], [position(dim, interval[dim])]
        given: dict[int, Made] = {}
        for number_ in sorted(inside):
            r = self.statements[number_]
            others = [x for x in self.flow.get(number_, ()) if x.writer not in members or self.before(number_, x)]
            if not r.is_read or not others:
                continue
            own = dict(r.own)
            whole = {**self.box(r), **own}
            if dim in whole:
                whole[dim] = interval[dim]
            x = cut(self.emitter.emit(self.term(r, members), whole), whole)
            rest = {n: i for n, i in whole.items() if n != dim}
            if dim in x.tensor.dims:
                p = var(self.fresh(f"{r.buffer.name}_now"), x.tensor.on(x.tensor.dims.without(dim)))
                params.append(p)
                args.append(x)
                x = p
            given[number_] = self.keep(inner, f"g{number_}", x, rest)
        states: dict[tuple[int, int], Made] = {}
        lows = {n: i.start for n, i in state.items()}
        for k, slot in enumerate(slots):
            x = s if len(slots) == 1 else call("tuple_get", s, static=(k,))
            made = self.keep(inner, f"s{slot[0]}_{slot[1]}", x, here)
            states[slot] = replace(made, lows=lows)
        step = replace(
            self, emitter=inner, steps=(*self.steps, dim), states=states, stepping=inside, given=given,
            made={}, known={},
        )  # fmt: skip
        step.schedule(sorted(inside))
        self.decided += [Decided(dim, "scan" if everywhere else "reduction", w) for w in writes]
        new: list[Expr] = []
        for w, d in slots:
            made = step.made[w] if d == 1 else states[w, d - 1]
            back = inner.tensors[made.buffer]
            if d == 1:
                for n in made.names:
                    back = shifted(back, n, -(made.lows[n] - lows[n]))
            new.append(spread(cut(back, here), here))
        body = new[0] if len(new) == 1 else call("make_tuple", *new)
        zeros = [filled(0, self.statements[w].buffer.element, here) for w, _ in slots]
        init = zeros[0] if len(zeros) == 1 else call("make_tuple", *zeros)
        f = function([s, *params], body)
        x = scan(f, True, init, *args, dim=dim) if everywhere else reduce(f, init, *args, dim=dim)
        for k, (w, d) in enumerate(slots):
            if d == 1:
                part = x if len(slots) == 1 else call("tuple_get", x, static=(k,))
                names = [*([dim] if everywhere else []), *here]
                box = {n: interval.get(n, here.get(n, Interval(0, 0))) for n in names}
                made = self.keep(self.emitter, f"t{w}", part, box)
                self.made[w] = replace(made, lows={**{n: i.start for n, i in box.items()}, **lows})

    def boxes_of(self, s: Statement) -> dict[str, Interval]:
        self.box(s)
        return self.boxes[s.number]

    def state_box(self, writes: Sequence[Statement], dim: str) -> dict[str, Interval]:
        """The box of a state, which all writes of a recurrence have in common."""
        found: dict[str, Interval] = {}
        for w in writes:
            box = {n: i for n, i in self.box(w).items() if n != dim}
            if found and box.keys() != found.keys():
                raise Uncovered("a recurrence of tensors of different dims")
            found = {n: i | found.get(n, i) for n, i in box.items()}
        if any(w.own for w in writes) or len({tuple(self.box(w)) for w in writes}) > 1:
            raise Uncovered("a recurrence of tensors of different dims")
        return found

    def carrying(self, members: Sequence[int]) -> str:
        """The outermost loop around all members along which values are carried."""
        common = list(self.statements[members[0]].loops)
        for m in members[1:]:
            loops = self.statements[m].loops
            common = [a for a, b in zip(common, loops, strict=False) if a is b]
        pieces = [
            source for m in members if self.statements[m].is_read for source in self.flow[m]
            if source.writer in members and not self.before(m, source)
        ]  # fmt: skip
        for loop in common:
            if loop.dim in self.steps:
                continue
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


def _box_text(names: Sequence[str], box: Mapping[str, Interval]) -> str:
    parts = [f"{box[n].start} <= i{k} < {box[n].stop}" for k, n in enumerate(names)]
    where = f" : {' and '.join(parts)}" if parts else ""
    return f"{{ [{', '.join(f'i{k}' for k in range(len(names)))}]{where} }}"


def _replaced(term: Term, values: Mapping[str, Affine], ranges: Mapping[str, tuple[int, int]]) -> Term:
    """A term with indices replaced by sums of others."""
    from tensorir.lift.nests.terms import Linear, rebuilt

    new = dict(values)

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(affine, element) if affine.names & new.keys():
                return term_of(affine.replaced(new, ranges), element)
            case _:
                return None

    return rebuilt(term, rule)
