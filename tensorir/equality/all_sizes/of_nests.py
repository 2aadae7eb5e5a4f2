"""Loops around stores whose bounds depend on sizes: an element of a result at symbolic coordinates.

A read is what its store gives at the iteration that it comes from. A store that reads what an earlier iteration of
itself left is a fold over the loops in between. A store whose place data tell is the last one to its buffer, and a fold
over all its iterations, of which those that store elsewhere leave an element as it is.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from tensorir.equality.all_sizes.cases import Case
from tensorir.equality.all_sizes.dataflow import (
    Flow,
    Place,
    Statement,
    conditions_of,
    flow_of,
    known_sum,
    reads_of,
    sure,
)
from tensorir.equality.all_sizes.terms import Algebra, Term, unsupported
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.sets import text
from tensorir.lifting.nests.affine import Affine, number, variable
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.nest import SymbolicNest
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Number, Op, loads
from tensorir.lifting.nests.terms import Term as Scalars

__all__ = ["Nest", "nest_of"]


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
        """What a statement reads, or the end of the program, at values of its loops."""
        scatter = next((s for s in self.flow.statements if s.buffer is load.buffer and s.at is None), None)
        if sink is None and scatter is not None:
            at = [known_sum(affine_of(i)).replaced(place, {}) for i in load.indices]
            return self.scattered(algebra, scatter, at, self.stored(algebra, sink, load, place))
        return self.stored(algebra, sink, load, place)

    def stored(self, algebra: Algebra, sink: Statement | None, load: Load, place: Place) -> Term:
        """What the stores to known places left of what is read."""
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
        """What a statement stores at values of its loops."""
        if s.name in self.waiting:
            raise unsupported("statements that read each other's earlier rounds")
        own = [load for load, _ in reads_of(s.value, {}, ()) if self._carried(s, load)]
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
        """What a statement stores that reads what it stored in the round before, as a fold over the rounds.

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
        """Whether a statement runs at values of its loops."""
        told = " and ".join(s.conditions) or "true"
        here = f"[{', '.join(self.flow.sizes)}] -> {{ [{', '.join(s.names)}] : {told} }}"
        parts = sure(lambda: isl.Set(here).compute_divs().make_disjoint().get_basic_sets())
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
    """Whether what a statement reads of itself is from the round before, and is so in all rounds but the first."""
    params = f"[{', '.join(flow.sizes)}] -> "
    old, new = [f"{n}_" for n in s.names], list(s.names)
    told = " and ".join((*s.conditions, *(f"0 <= {n} <= {flow.nest.largest}" for n in flow.sizes))) or "true"
    domain = isl.Set(f"{params}{{ [{', '.join(new)}] : {told} }}")
    fixed = [f"{n}_ = {n}" for n in new if n not in turns]
    earlier = [
        " and ".join([*(f"{n}_ = {n}" for n in turns[:k]), f"{turns[k]}_ < {turns[k]}"]) for k in range(len(turns))
    ]
    before = " and ".join([*fixed, f"({' or '.join(f'({e})' for e in earlier)})"])
    rounds = isl.Map(f"{params}{{ [{', '.join(new)}] -> [{', '.join(old)}] : {before} }}")
    last = rounds.intersect_domain(domain).intersect_range(domain).lexmax()
    own = isl.Map(f"{params}{{ [{', '.join(new)}] -> [{', '.join(old)}] : 1 = 0 }}")
    for source in flow.of(s, load):
        if source.statement is not s:
            continue
        names = {n: n for n in (*flow.sizes, *new)}
        conditions = [f"{text(a, names)} {'=' if zero else '>='} 0" for a, zero in source.conditions]
        where = [f"{a} = {text(b, names)}" for a, b in zip(old, source.at, strict=True)]
        own = own.union(
            isl.Map(f"{params}{{ [{', '.join(new)}] -> [{', '.join(old)}] : {' and '.join([*conditions, *where])} }}")
        )
    return bool(own.intersect_domain(domain).is_equal(last))
