"""The statements of a region while they become tensors: boxes, distances, the values of reads, and who asks for what.

A read becomes an access of the tensors of its sources, so no storage is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Interval
from tensorir.integers.sets import isl
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Var
from tensorir.ir.types import INT32, Scalar
from tensorir.lifting.accesses.sets import text
from tensorir.lifting.accesses.space import as_it_is, boxed, in_order
from tensorir.lifting.dataflow.flow import Source, box_of, condition_of, domain_of, set_of
from tensorir.lifting.dataflow.statements import Statement, Uncovered
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.tensors import cut, shifted, spread
from tensorir.lifting.nests.linear import term_of
from tensorir.lifting.nests.terms import (
    Buffer,
    Load,
    Number,
    Op,
    Term,
    index_names,
    loads,
    walk,
)
from tensorir.lifting.region.nodes import For, Rule
from tensorir.lifting.schedule.placed import (
    Computed,
    Made,
    Placed,
    applied,
    by_digits,
    is_whole,
    looked_up,
    placed,
    short_names,
    with_indices,
)

MOST_FOLLOWED = 4
"""Through how many writes a value is followed to where it ends."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The schedule of a loop for a statement."""

    dim: str
    strategy: str
    statement: Statement
    reason: str = ""


FAR = 1 << 30
"""The distance of what was found in some earlier round, not always as many ago."""


@dataclass(slots=True)
class Run:
    """The statements of a region, and the tensors that they have become so far."""

    statements: Sequence[Statement]
    flow: Mapping[int, Sequence[Source]]
    emitter: Emitter
    arguments: Mapping[str, Buffer]
    schedule: Callable[[Run, Sequence[int]], frozenset[int]]
    """Makes the tensors of all writes among statements; gives back what else has to be made with them, if any."""
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


def all_of(run: Run, r: Statement, places: Mapping[str, tuple[Term, int]]) -> Term:
    """The value of a read of all elements, in which `places` along some of its dims are looked up.

    Where it is checked that they are inside, it is one tensor that has these elements and no others.
    """
    found = run.found(r)
    if not run.emitter.checked or not any(loads(p) for p, _ in places.values()):
        return found
    if is_whole(found, places):
        return found
    used = index_names(found)
    here = {n: i for n, i in {**run.box(r), **dict(r.own)}.items() if n in used}
    return run.keep(run.emitter, r.buffer.name, run.read(r, here), here).at({}, {})


def distances(run: Run, source: Source, dim: str) -> tuple[int, int]:
    """The least and the greatest distance of a read from what it reads along a loop, as far as their signs go."""
    i, relation, (k, j) = isl(), source.relation, places(run, source, dim)
    ordered = [
        not relation.order_lt(i.dim_type.in_, k, i.dim_type.out, j).is_empty(),
        not relation.order_gt(i.dim_type.in_, k, i.dim_type.out, j).is_empty(),
        not relation.equate(i.dim_type.in_, k, i.dim_type.out, j).is_empty(),
    ]
    back, far, here = ordered
    return -1 if back else 0 if here else 1, 1 if far else 0 if here else -1


def places(run: Run, source: Source, dim: str) -> tuple[int, int]:
    """The variables of a loop in a read, and in the write of its value."""
    assert source.writer is not None
    reader = run.statements[int(source.relation.get_tuple_name(isl().dim_type.in_)[1:])]
    return reader.names.index(dim), run.statements[source.writer].names.index(dim)
