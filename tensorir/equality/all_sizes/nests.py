"""Loops around stores whose bounds depend on sizes: the store that each read comes from, by exact dataflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import islpy as isl

from tensorir.equality.all_sizes.cases import Algebra, Case, Term, unsupported
from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.sets import affine_from_isl, conditions_of, isl_map, isl_set
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.sets import condition_text, conjuncts, decided
from tensorir.lifting.nests.linear import affine_of, linear, settled
from tensorir.lifting.nests.nest import Check as Checked
from tensorir.lifting.nests.nest import Leaf, Store, SymbolicNest, is_true, leaves
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Number, Op, loads, rebuilt
from tensorir.lifting.nests.terms import Term as Scalars

# Which store of loops around stores each read comes from, where bounds depend on sizes.
#
# For each read isl tells the store, and its iteration, that what is read comes from (Feautrier, 1991).

# islpy has no types of its own that say enough.


T = TypeVar("T")
MOST_STATEMENTS, MOST_LOADS = 24, 48
"""Stores and reads of programs that are followed at symbolic coordinates."""
Place = Mapping[str, Affine]
"""The values of loops."""


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A store in its loops: where it stands, where it stores, what, and the iterations that run it."""

    name: str
    leaf: Leaf
    loops: tuple[tuple[str, Affine, Affine], ...]
    """Names, first values and extents."""
    buffer: Buffer
    at: tuple[Affine, ...] | None
    """The place, None where data tell it."""
    own: Load
    """The element that it stores to, as one that is read."""
    value: Scalars
    domain: Any
    """The iterations that run it, as a set of isl."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for n, _, _ in self.loops)


def _linear(a: Affine) -> Scalars:
    return Number(a.constant, INT32) if a.is_number else Linear(a, INT32)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a value on a part of the iterations: the statement, and the values of its loops."""

    conditions: tuple[tuple[Affine, bool], ...]
    """Sums that are not negative, or, where that is true, 0."""
    statement: Statement
    at: tuple[Affine, ...]


@dataclass(slots=True, eq=False)
class Flow:
    """A nest, and for each read what it comes from."""

    nest: SymbolicNest
    sizes: tuple[str, ...]
    ranges: dict[str, tuple[int, int]]
    statements: tuple[Statement, ...]
    names: Mapping[str, int]
    """The places of parameters, by the names that a caller has for them."""
    sources: dict[tuple[str, Load], list[Source]] = field(default_factory=dict[Any, "list[Source]"])

    def shape(self, name: str) -> tuple[Affine, ...]:
        """The extents of a parameter."""
        return tuple(known_sum(linear(e, self.ranges)) for e in self.nest.extents[self.names[name]])

    def extents(self, buffer: Buffer) -> list[Affine]:
        """The extents of a buffer."""
        declared = dict(zip(self.nest.arguments, self.nest.extents, strict=True)).get(buffer)
        if declared is None:
            return [number(e) for e in buffer.shape]
        return [known_sum(linear(e, self.ranges)) for e in declared]

    def at_sizes(self, points: Any) -> Any:
        """The points of a set at sizes that the program may have."""
        bounds = [b for n in map(variable, self.sizes) for b in (n, number(self.nest.largest).minus(n))]
        return points.intersect_params(isl_set(self.sizes, (), ((b, False) for b in bounds)).params())

    def buffer(self, name: str) -> Buffer:
        found = self.nest.arguments[self.names[name]]
        assert found is not None
        return found

    def of(self, statement: Statement | None, load: Load) -> list[Source]:
        """The source of a read of a statement; without a statement, of the end of the program."""
        key = "" if statement is None else statement.name, load
        if key not in self.sources:
            self.sources[key] = sure(lambda: list(_sources(self, statement, load)))
        return self.sources[key]


def known_sum(a: Affine | None) -> Affine:
    """A sum; raises where a term is none."""
    if a is None:
        raise unsupported("an index that is no sum")
    return a


def sure(question: Any) -> Any:
    """The answer to a question about sets; raises where it takes too many steps."""
    found = decided(question, 2)
    if found is None:
        raise unsupported("a dataflow that is too complicated")
    return found


def flow_of(nest: SymbolicNest, names: Mapping[str, int]) -> Flow:
    """The dataflow of a nest whose parameters a caller has these names for; raises what is not followed."""
    ranges: dict[str, tuple[int, int]] = dict.fromkeys(nest.sizes, (0, nest.largest))
    found: list[Statement] = []
    for leaf in leaves(nest.nodes):
        made = _statement(f"S{len(found)}", leaf, ranges)
        if made is not None:
            found.append(made)
    if len(found) > MOST_STATEMENTS:
        raise unsupported("many statements")
    flow = Flow(nest, nest.sizes, ranges, tuple(found), names)
    for s in found:
        _check_inside(flow, s)
        _check_told(flow, s)
    return flow


def _check_told(flow: Flow, s: Statement) -> None:
    """Raise where data tell which element of what is written is read, or written and written again."""
    reads = [load for load, _ in (*reads_of(s.value), *reads_of(s.own))]
    for load in reads:
        written = any(other.buffer is load.buffer for other in flow.statements)
        if written and any(loads(i) for i in load.indices) and (load != s.own or s.at is not None):
            raise unsupported("an index into what is written that data tell")
    for other in flow.statements:
        if s.at is None and other is not s:
            uses = {other.buffer, *(load.buffer for load, _ in reads_of(other.value))}
            if s.buffer in uses and other.leaf.place[0] >= s.leaf.place[0]:
                raise unsupported("a store whose place data tell, and others after it")
    if s.at is None and any(load.buffer is s.buffer and load != s.own for load in reads):
        raise unsupported("a store whose place data tell that reads other places")


def _statement(name: str, leaf: Leaf, sizes: Mapping[str, tuple[int, int]]) -> Statement | None:
    ranges, loops = dict(sizes), list[tuple[str, Affine, Affine]]()
    for loop in leaf.loops:
        if loop.lockstep or loop.rounds is not None:
            raise unsupported("threads")
        low, extent = (known_sum(linear(x, ranges)) for x in (loop.low, loop.extent))
        first, last = low.range(ranges), low.plus(extent).range(ranges)
        assert first is not None and last is not None
        ranges[loop.name] = first[0], max(first[0], last[1] - 1)
        loops.append((loop.name, low, extent))
    match leaf.node:
        case Checked(condition, guards=guards):
            if is_true(settled(condition, ranges)) or any(
                settled(g, ranges) == Number(False, g.element) for g in guards
            ):
                return None
            raise unsupported("a check")
        case Store(buffer, indices, value, guards, atomic=False, stretch=None):
            pass
        case _:
            raise unsupported("a loop whose end data tell")
    names = [n for n, _, _ in loops]
    rounds = ((a, False) for n, low, extent in loops for a in _between(variable(n).minus(low), extent))
    domain = isl_set(list(sizes), names, rounds)
    if buffer.memory is not None or buffer.value is not None:
        raise unsupported("memory of several types")
    told = any(loads(i) for i in indices)
    at = None if told else tuple(known_sum(linear(i, ranges)) for i in indices)
    own = Load(buffer, tuple(settled(i, ranges) for i in indices) if at is None else tuple(map(_linear, at)))
    value = _chosen(value, ranges)
    for guard in (part for g in guards for part in conjuncts(_chosen(g, ranges))):
        holds = _where(guard, domain)
        if holds is not None:
            domain = domain.intersect(holds)
        else:
            value = Op("if", (guard, value, own), value.element)
    return Statement(name, leaf, tuple(loops), buffer, at, own, value, domain)


def _where(condition: Scalars, domain: Any) -> Any:
    """The points in the space of a set at which a condition holds; None where data decide it."""
    sizes, names = (domain.get_var_names(kind) for kind in (isl.dim_type.param, isl.dim_type.set))
    told = condition_text(condition, {n: n for n in (*sizes, *names)})
    return None if told is None else isl.Set(f"[{', '.join(sizes)}] -> {{ [{', '.join(names)}] : {told} }}")


def _between(a: Affine, extent: Affine) -> tuple[Affine, Affine]:
    """Sums that are not negative exactly if a sum lies in an extent."""
    return a, extent.minus(a).plus(number(-1))


def _chosen(term: Scalars, ranges: Mapping[str, tuple[int, int]]) -> Scalars:
    """A term in normal form, in which an index that is a choice is a choice of reads: `x[min(i, 9)]`."""

    def rule(t: Scalars) -> Scalars | None:
        match t:
            case Op("min" | "max" as op, (a, b), element) if element.is_integer:
                return Op("if", (Op("less" if op == "min" else "greater", (a, b), BOOL), a, b), element)
            case Op("if", _, _):
                return None
            case Op(op, args, element) if all(a.element.is_integer for a in args):
                return _split(args, lambda new: Op(op, new, element))
            case Load(buffer, indices, span):
                return _split(indices, lambda new: Load(buffer, new, span))
            case _:
                return None

    return settled(rebuilt(settled(term, ranges), rule), ranges)


def _split(args: tuple[Scalars, ...], made: Callable[[tuple[Scalars, ...]], Scalars]) -> Scalars | None:
    """A choice of results, made of operands of which one is a choice."""
    for k, a in enumerate(args):
        match a:
            case Op("if", (condition, first, second), element) if element.is_integer:
                both = [(*args[:k], x, *args[k + 1 :]) for x in (first, second)]
                parts = [_split(new, made) or made(new) for new in both]
                return Op("if", (condition, *parts), parts[0].element)
            case _:
                pass
    return None


def _check_inside(flow: Flow, s: Statement) -> None:
    """Raise where an access may leave its array: what a program does then is not followed."""
    domain = flow.at_sizes(s.domain)
    for load, runs in (*reads_of(s.value, domain), *reads_of(s.own, domain)):
        # what data tell is checked where it is read
        pairs = [
            (known_sum(affine_of(i)), e)
            for i, e in zip(load.indices, flow.extents(load.buffer), strict=True)
            if not loads(i)
        ]
        inside = isl_set(flow.sizes, s.names, ((a, False) for pair in pairs for a in _between(*pair)))
        if not sure(lambda runs=runs, inside=inside: runs.is_subset(inside)):
            raise unsupported(f"an access to '{load.buffer.name}' that may leave it")


def reads_of(term: Scalars, runs: Any = None) -> Iterator[tuple[Load, Any]]:
    """The reads of a term, each with those of the iterations `runs` whose choices lead to it."""
    match term:
        case Op("if", (condition, first, second)):
            yield from reads_of(condition, runs)
            both = runs, runs
            if runs is not None and (holds := _where(condition, runs)) is not None:
                both = runs.intersect(holds), runs.subtract(holds)
            for branch, where in zip((first, second), both, strict=True):
                yield from reads_of(branch, where)
        case Op(_, args):
            for a in args:
                yield from reads_of(a, runs)
        case Load(_, indices):
            for i in indices:
                yield from reads_of(i, runs)
            yield term, runs
        case _:
            pass


def _turns(leaf: Leaf) -> list[Affine]:
    """When an iteration of a statement runs: its place in each body, and the loop's variable there, by turns."""
    turns: list[Affine] = []
    for k, place in enumerate(leaf.place):
        turns.append(number(place))
        turns += [variable(loop.name) for loop in leaf.loops[k : k + 1]]
    return turns


def _sources(flow: Flow, sink: Statement | None, load: Load) -> Iterator[Source]:
    writers = [(s, s.at) for s in flow.statements if s.buffer is load.buffer and s.at is not None]
    if not writers or any(loads(i) for i in load.indices):
        return
    depth = 1 + max(len(_turns(s.leaf)) for s in flow.statements)

    def scheduled(domain: Any, name: str, turns: Sequence[Affine]) -> Any:
        turns = [*turns, *([number(0)] * (depth - len(turns)))]
        return isl.UnionMap.from_map(isl_map(domain, turns).set_tuple_name(isl.dim_type.in_, name))

    def touched(domain: Any, name: str, at: Sequence[Affine]) -> Any:
        found = isl_map(flow.at_sizes(domain), at).set_tuple_name(isl.dim_type.in_, name)
        return isl.UnionMap.from_map(found.set_tuple_name(isl.dim_type.out, "M"))

    cell = [known_sum(affine_of(i)) for i in load.indices]
    if sink is None:
        names: tuple[str, ...] = tuple(next(iter(a.names)) for a in cell)
        extents = flow.nest.extents[flow.nest.arguments.index(load.buffer)]
        shape = [known_sum(linear(e, flow.ranges)) for e in extents]
        inside = ((a, False) for n, e in zip(names, shape, strict=True) for a in _between(variable(n), e))
        read = touched(isl_set(flow.sizes, names, inside), "END", cell)
        schedule = scheduled(isl_set(flow.sizes, names), "END", [number(10**6)])
    else:
        names = sink.names
        read = touched(sink.domain, sink.name, cell)
        schedule = scheduled(isl_set(flow.sizes, names), sink.name, _turns(sink.leaf))
    written = isl.UnionMap.empty(read.get_space())
    for s, at in writers:
        written = written.union(touched(s.domain, s.name, at))
        schedule = schedule.union(scheduled(isl_set(flow.sizes, s.names), s.name, _turns(s.leaf)))
    info = isl.UnionAccessInfo.from_sink(read).set_must_source(written).set_schedule_map(schedule)
    found: list[Any] = []
    info.compute_flow().get_must_dependence().reverse().foreach_map(found.append)
    by_name = {s.name: s for s, _ in writers}
    for m in found:
        statement = by_name[m.get_tuple_name(isl.dim_type.out)]
        for domain, ma in _pieces(m):
            at = tuple(affine_from_isl(ma.get_aff(k), names) for k in range(len(statement.loops)))
            for basic in domain.compute_divs().make_disjoint().get_basic_sets():
                yield Source(tuple(conditions_of(basic, names)), statement, at)


def _pieces(m: Any) -> list[tuple[Any, Any]]:
    """A map that gives one point each, as functions on parts of its domain."""
    found: list[tuple[Any, Any]] = []
    isl.PwMultiAff.from_map(m).foreach_piece(lambda domain, function: found.append((domain, function)))
    return found


# Loops around stores whose bounds depend on sizes: an element of a result at symbolic coordinates.
#
# A read is what its store gives at the iteration that it comes from. A store that reads what an earlier iteration of
# itself left is a fold over the loops in between. A store whose place data tell is the last one to its buffer, and a
# fold over all its iterations, of which those that store elsewhere leave an element as it is.

# islpy has no types of its own that say enough.


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A program of loops, in any case of its sizes."""

    flow: Flow

    def at(self, case: Case) -> Nest:
        """The program in a case of its sizes: what it is in all of them."""
        return self

    def shape(self, name: str) -> tuple[Affine, ...]:
        """The extents of a parameter."""
        return self.flow.shape(name)

    def element(self, algebra: Algebra, name: str, arrays: Mapping[str, int], at: Sequence[Affine]) -> Term:
        """An element of a result, its coordinates counted from 0; `arrays` are the numbers of inputs."""
        buffer = self.flow.buffer(name)
        given = {self.flow.buffer(n): k for n, k in arrays.items()}
        inputs = [f"_p{k}" for k in range(len(at))]
        last = Load(buffer, tuple(Linear(variable(n), INT32) for n in inputs))
        value = _Asked(self.flow, given)
        return value.read(algebra, None, last, dict(zip(inputs, at, strict=True)))


def nest_of(nest: SymbolicNest, names: Mapping[str, int]) -> Nest:
    """A nest whose parameters a caller has these names for; raises what is not followed."""
    return Nest(flow_of(nest, names))


@dataclass(slots=True)
class _Asked:
    """The evaluation of one element."""

    flow: Flow
    given: Mapping[Buffer, int]
    waiting: list[str] = field(default_factory=list[str])
    """The statements whose values are asked for around."""

    def read(self, algebra: Algebra, sink: Statement | None, load: Load, place: Place) -> Term:
        """The value that a statement reads, or the end of the program, at values of its loops."""
        scatter = next((s for s in self.flow.statements if s.buffer is load.buffer and s.at is None), None)
        if sink is None and scatter is not None:
            at = [known_sum(affine_of(i)).replaced(place, {}) for i in load.indices]
            return self.scattered(algebra, scatter, at, self.stored(algebra, sink, load, place))
        return self.stored(algebra, sink, load, place)

    def stored(self, algebra: Algebra, sink: Statement | None, load: Load, place: Place) -> Term:
        """The value that stores to known places left of a read."""
        for source in self.flow.of(sink, load):
            if all(_holds(algebra.case, a.replaced(place, {}), zero) for a, zero in source.conditions):
                at = [a.replaced(place, {}) for a in source.at]
                return self.value(algebra, source.statement, dict(zip(source.statement.names, at, strict=True)))
        array = self.given.get(load.buffer)
        if array is None:
            raise unsupported(f"a read of '{load.buffer.name}' before it is written")
        shape = self.flow.extents(load.buffer)
        at: list[Affine] = []
        for i, extent in zip(load.indices, shape, strict=True):
            if sink is None or not loads(i):
                at.append(known_sum(affine_of(i)).replaced(place, {}))
            else:
                told = self.term(algebra, sink, i, place)
                at.append(algebra.index(told, number(0), extent.plus(number(-1))))
        return algebra.element(array, load.buffer.element, at)

    def scattered(self, algebra: Algebra, s: Statement, at: Sequence[Affine], begin: Term) -> Term:
        """An element after all iterations of a store whose place data tell."""
        shape = self.flow.extents(s.buffer)

        def run(algebra: Algebra, old: Term, place: dict[str, Affine], rest: Sequence[tuple[str, Affine, Affine]]):
            if rest:
                (name, low, extent), *inside = rest
                first = low.replaced(place, {})

                def step(inner: Algebra, count: Affine, state: tuple[Term, ...]) -> Sequence[Term]:
                    return [run(inner, state[0], {**place, name: first.plus(count)}, inside)]

                return algebra.fold(extent.replaced(place, {}), [old], step)[0]
            if not self.runs(algebra, s, place):
                return old
            return store(algebra, s.value, old, place)

        def store(algebra: Algebra, value: Scalars, old: Term, place: Place) -> Term:
            match value:
                case Op("if", (condition, first, second)) if second == s.own:
                    chosen = self.term(algebra, s, condition, place, (s.own, old))
                    return algebra.compute("if", old.element, [chosen, store(algebra, first, old, place), old])
                case _:
                    pass
            hit = algebra.truth(True)
            for i, a, e in zip(s.own.indices, at, shape, strict=True):
                told = algebra.checked(self.term(algebra, s, i, place), number(0), e.plus(number(-1)))
                same = algebra.compute("eq", BOOL, [told, algebra.whole(a, told.element)])
                hit = algebra.compute("and", BOOL, [hit, same])
            new = self.term(algebra, s, value, place, (s.own, old))
            return algebra.compute("if", old.element, [hit, new, old])

        return run(algebra, begin, {}, s.loops)

    def value(self, algebra: Algebra, s: Statement, place: Place) -> Term:
        """The value that a statement stores at values of its loops."""
        if s.name in self.waiting:
            raise unsupported("statements that read each other's earlier rounds")
        own = [load for load, _ in reads_of(s.value) if self._carried(s, load)]
        self.waiting.append(s.name)
        try:
            if not own:
                return self.term(algebra, s, s.value, place)
            return self.folded(algebra, s, own, place)
        finally:
            self.waiting.pop()

    def _carried(self, s: Statement, load: Load) -> bool:
        return any(source.statement is s for source in self.flow.of(s, load))

    def term(
        self, algebra: Algebra, s: Statement, term: Scalars, place: Place, state: tuple[Load, Term] | None = None
    ) -> Term:
        """A term at values of loops; `state` is what one of its reads gives."""
        match term:
            case Number(value, element):
                return algebra.number(value, element)
            case Linear(a, element):
                return algebra.whole(a.replaced(place, {}), element)
            case Index(name, element):
                return algebra.whole(place.get(name) or variable(name), element)
            case Load():
                if state is not None and term == state[0]:
                    return state[1]
                return self.read(algebra, s, term, place)
            case Op("if", (condition, first, second), element):
                chosen = self.term(algebra, s, condition, place, state)
                if chosen.op == "truth":
                    return self.term(algebra, s, first if chosen.own else second, place, state)
                both = [self.term(algebra, s, x, place, state) for x in (first, second)]
                return algebra.compute("if", element, [chosen, *both])
            case Op(op, args, element):
                return algebra.compute(op, element, [self.term(algebra, s, a, place, state) for a in args])

    def folded(self, algebra: Algebra, s: Statement, own: Sequence[Load], place: Place) -> Term:
        """The stores of a statement that reads its store of the round before, as a fold over the rounds.

        Rounds either store to one element, or each to its own, which the next one reads.
        """
        if any(load != own[0] for load in own):
            raise unsupported("a store that reads several elements of earlier rounds")
        assert s.at is not None
        used = {n for a in s.at for n in a.names}
        in_place = own[0] == s.own
        turns = [n for n in s.names if n not in used] if in_place else _stepped(self.flow, s, own[0])
        if not turns or not sure(lambda: _in_order(self.flow, s, own[0], turns)):
            raise unsupported("a store that reads earlier rounds in another order")
        start = dict(place)
        for n, low, _ in s.loops:
            if n in turns:
                start[n] = low.replaced(start, {})
        if not in_place and not self.runs(algebra, s, start):
            start[turns[0]] = start[turns[0]].plus(number(1))
        if not self.runs(algebra, s, start):
            raise unsupported("a fold whose first rounds do not run")
        self.waiting.remove(s.name)
        if in_place:
            begin = self.read(algebra, s, own[0], start)
            self.waiting.append(s.name)
            return self.rounds(algebra, s, own[0], turns, dict(place), begin)
        begin = self.term(algebra, s, s.value, start)
        self.waiting.append(s.name)
        (name,) = turns

        def step(inner: Algebra, here: Affine, old: tuple[Term, ...]) -> Sequence[Term]:
            at = {**place, name: start[name].plus(here).plus(number(1))}
            return [self.term(inner, s, s.value, at, (own[0], old[0])) if self.runs(inner, s, at) else old[0]]

        return algebra.fold(place[name].minus(start[name]), [begin], step)[0]

    def rounds(
        self, algebra: Algebra, s: Statement, own: Load, turns: Sequence[str], place: Place, begin: Term
    ) -> Term:
        """The rounds of loops, the outermost first, up to those of a place."""
        if not turns:
            return self.term(algebra, s, s.value, place, (own, begin))
        name, *inside = turns
        bottom = next(low for n, low, _ in s.loops if n == name).replaced(place, {})
        count = place[name].minus(bottom)
        whole = all(algebra.case.is_always_zero(a.minus(place[n])) for n, a in _ends(s, inside, place).items())

        def step(inner: Algebra, here: Affine, old: tuple[Term, ...]) -> Sequence[Term]:
            at = {**place, name: bottom.plus(here)}
            at.update(_ends(s, inside, at))
            if not inside:
                return [self.term(inner, s, s.value, at, (own, old[0])) if self.runs(inner, s, at) else old[0]]
            return [self.rounds(inner, s, own, inside, at, old[0])]

        if whole:
            return algebra.fold(count.plus(number(1)), [begin], step)[0]
        (before,) = algebra.fold(count, [begin], step)
        return self.rounds(algebra, s, own, inside, place, before)

    def runs(self, algebra: Algebra, s: Statement, place: Place) -> bool:
        """True if a statement runs at values of its loops."""
        parts = sure(lambda: s.domain.compute_divs().make_disjoint().get_basic_sets())
        return any(
            all(_holds(algebra.case, a.replaced(place, {}), zero) for a, zero in conditions_of(basic, s.names))
            for basic in parts
        )


def _holds(case: Case, a: Affine, zero: bool) -> bool:
    return case.is_zero(a) if zero else case.holds(a)


def _ends(s: Statement, names: Sequence[str], place: Place) -> dict[str, Affine]:
    """The last values of loops."""
    found = dict(place)
    for name, low, extent in s.loops:
        if name in names:
            found[name] = low.plus(extent).plus(number(-1)).replaced(found, {})
    return {n: found[n] for n in names}


def _stepped(flow: Flow, s: Statement, load: Load) -> list[str]:
    """The loop in whose round before everything was stored that a read finds of its own statement."""
    found: set[str] = set()
    for source in flow.of(s, load):
        if source.statement is s:
            apart = [(n, variable(n).minus(a)) for n, a in zip(s.names, source.at, strict=True)]
            found |= {n if a == number(1) else "" for n, a in apart if a != number(0)}
    return [*found] if len(found) == 1 and "" not in found else []


def _in_order(flow: Flow, s: Statement, load: Load, turns: Sequence[str]) -> bool:
    """True if what a statement reads of itself is from the round before, and is so in all rounds but the first."""
    domain = flow.at_sizes(s.domain)
    whole = isl_set(flow.sizes, s.names)
    when, apart = (isl_map(whole, [variable(n) for n in s.names if (n in turns) == turn]) for turn in (True, False))
    rounds = when.lex_gt_map(when).intersect(apart.apply_range(apart.reverse()))
    last = rounds.intersect_domain(domain).intersect_range(domain).lexmax()
    own = isl.Map.empty(last.get_space())
    for source in flow.of(s, load):
        if source.statement is s:
            own = own.union(isl_map(isl_set(flow.sizes, s.names, source.conditions), source.at))
    return bool(own.intersect_domain(domain).is_equal(last))
