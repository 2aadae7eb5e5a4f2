"""Which store of loops around stores each read comes from, where bounds depend on sizes.

For each read isl tells the store, and its iteration, that what is read comes from (Feautrier, 1991).
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import islpy as isl

from tensorir.equality.all_sizes.terms import unsupported
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.sets import condition_text, conjuncts, decided, text
from tensorir.lifting.nests.affine import Affine, number, quotient, variable
from tensorir.lifting.nests.linear import affine_of, linear, settled
from tensorir.lifting.nests.nest import Check as Checked
from tensorir.lifting.nests.nest import Leaf, Store, SymbolicNest, is_true, leaves
from tensorir.lifting.nests.terms import Buffer, Linear, Load, Number, Op, loads, rebuilt
from tensorir.lifting.nests.terms import Term as Scalars

__all__ = ["Flow", "Place", "Statement", "conditions_of", "flow_of", "known_sum", "reads_of", "sure"]

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
    conditions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for n, _, _ in self.loops)

    def tuple(self, values: Sequence[str]) -> str:
        return f"{self.name}[{', '.join(values)}]"


def _linear(a: Affine) -> Scalars:
    return Number(a.constant, INT32) if a.is_number else Linear(a, INT32)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from on a part of the iterations: which statement, and the values of its loops."""

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

    def buffer(self, name: str) -> Buffer:
        found = self.nest.arguments[self.names[name]]
        assert found is not None
        return found

    def of(self, statement: Statement | None, load: Load) -> list[Source]:
        """What a read of a statement comes from; without a statement, of the end of the program."""
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
    reads = [load for load, _ in (*reads_of(s.value, {}, ()), *reads_of(s.own, {}, ()))]
    for load in reads:
        written = any(other.buffer is load.buffer for other in flow.statements)
        if written and any(loads(i) for i in load.indices) and (load != s.own or s.at is not None):
            raise unsupported("an index into what is written that data tell")
    for other in flow.statements:
        if s.at is None and other is not s:
            uses = {other.buffer, *(load.buffer for load, _ in reads_of(other.value, {}, ()))}
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
    names = {n: n for n in ranges}
    conditions = [c for n, low, extent in loops for c in _bounds(n, low, extent, names)]
    if buffer.memory is not None or buffer.value is not None:
        raise unsupported("memory of several types")
    told = any(loads(i) for i in indices)
    at = None if told else tuple(known_sum(linear(i, ranges)) for i in indices)
    own = Load(buffer, tuple(settled(i, ranges) for i in indices) if at is None else tuple(map(_linear, at)))
    value = _chosen(value, ranges)
    for guard in (part for g in guards for part in conjuncts(_chosen(g, ranges))):
        told = condition_text(guard, names)
        if told is not None:
            conditions.append(told)
        else:
            value = Op("if", (guard, value, own), value.element)
    return Statement(name, leaf, tuple(loops), buffer, at, own, value, tuple(conditions))


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
    """What is made of operands of which one is a choice, as a choice."""
    for k, a in enumerate(args):
        match a:
            case Op("if", (condition, first, second), element) if element.is_integer:
                both = [(*args[:k], x, *args[k + 1 :]) for x in (first, second)]
                parts = [_split(new, made) or made(new) for new in both]
                return Op("if", (condition, *parts), parts[0].element)
            case _:
                pass
    return None


def _bounds(name: str, low: Affine, extent: Affine, names: Mapping[str, str]) -> list[str]:
    return [f"{name} >= {text(low, names)}", f"{name} < {text(low.plus(extent), names)}"]


def _inside(shape: Sequence[Affine], at: Sequence[Affine], names: Mapping[str, str]) -> str:
    told = [f"0 <= {text(a, names)} < {text(extent, names)}" for a, extent in zip(at, shape, strict=True)]
    return " and ".join(told) or "true"


def _check_inside(flow: Flow, s: Statement) -> None:
    """Raise where an access may leave its array: what a program does then is not followed."""
    names = {n: n for n in (*flow.sizes, *s.names)}
    for load, told in (*reads_of(s.value, names, ()), *reads_of(s.own, names, ())):
        shape = flow.extents(load.buffer)
        # what data tell is checked where it is read
        pairs = [(known_sum(affine_of(i)), e) for i, e in zip(load.indices, shape, strict=True) if not loads(i)]
        at, shape = [a for a, _ in pairs], [e for _, e in pairs]
        conditions = " and ".join((*s.conditions, *told)) or "true"
        params = ", ".join(flow.sizes)
        outside = f"[{params}] -> {{ [{', '.join(s.names)}] : ({conditions}) and not ({_inside(shape, at, names)})"
        sizes = " and ".join(f"0 <= {n} <= {flow.nest.largest}" for n in flow.sizes)
        if not sure(lambda told=f"{outside} and {sizes} }}": isl.Set(told).is_empty()):
            raise unsupported(f"an access to '{load.buffer.name}' that may leave it")


def reads_of(term: Scalars, names: Mapping[str, str], told: tuple[str, ...]) -> Iterator[tuple[Load, tuple[str, ...]]]:
    """The reads of a term, each with the conditions of the choices that lead to it."""
    match term:
        case Op("if", (condition, first, second)):
            yield from reads_of(condition, names, told)
            known = condition_text(condition, names)
            yield from reads_of(first, names, told if known is None else (*told, known))
            yield from reads_of(second, names, told if known is None else (*told, f"not ({known})"))
        case Op(_, args):
            for a in args:
                yield from reads_of(a, names, told)
        case Load(_, indices):
            for i in indices:
                yield from reads_of(i, names, told)
            yield term, told
        case _:
            pass


def _turns(leaf: Leaf) -> Iterator[Any]:
    for k, place in enumerate(leaf.place):
        yield place
        if k < len(leaf.loops):
            yield leaf.loops[k].name


def _sources(flow: Flow, sink: Statement | None, load: Load) -> Iterator[Source]:
    writers = [(s, s.at) for s in flow.statements if s.buffer is load.buffer and s.at is not None]
    if not writers or any(loads(i) for i in load.indices):
        return
    params = f"[{', '.join(flow.sizes)}] -> "
    depth = 1 + max(len(list(_turns(s.leaf))) for s in flow.statements)
    sizes = " and ".join(f"0 <= {n} <= {flow.nest.largest}" for n in flow.sizes)

    def scheduled(s: Statement) -> str:
        turns = [str(t) for t in _turns(s.leaf)]
        return f"{s.tuple(s.names)} -> [{', '.join([*turns, *(['0'] * (depth - len(turns)))])}]"

    if sink is None:
        free = [next(iter(known_sum(affine_of(i)).names)) for i in load.indices]
        extents = flow.nest.extents[flow.nest.arguments.index(load.buffer)]
        shape = [known_sum(linear(e, flow.ranges)) for e in extents]
        known = {n: n for n in (*free, *flow.sizes)}
        here, conditions = f"END[{', '.join(free)}]", (_inside(shape, [*map(variable, free)], known),)
        when = f"{here} -> [{', '.join([str(10**6), *(['0'] * (depth - 1))])}]"
        names: tuple[str, ...] = tuple(free)
    else:
        here, conditions, when, names = sink.tuple(sink.names), sink.conditions, scheduled(sink), sink.names
    known = {n: n for n in (*names, *flow.sizes)}
    cell = ", ".join(text(known_sum(affine_of(i)), known) for i in load.indices)
    read = isl.UnionMap(f"{params}{{ {here} -> M[{cell}] : {' and '.join((*conditions, sizes)) or 'true'} }}")
    written, schedule = isl.UnionMap(f"{params}{{ }}"), isl.UnionMap(f"{params}{{ {when} }}")
    for s, at in writers:
        own = {n: n for n in (*s.names, *flow.sizes)}
        told = " and ".join((*s.conditions, sizes)) or "true"
        cells = ", ".join(text(a, own) for a in at)
        written = written.union(isl.UnionMap(f"{params}{{ {s.tuple(s.names)} -> M[{cells}] : {told} }}"))
        schedule = schedule.union(isl.UnionMap(f"{params}{{ {scheduled(s)} }}"))
    info = isl.UnionAccessInfo.from_sink(read).set_must_source(written).set_schedule_map(schedule)
    found: list[Any] = []
    info.compute_flow().get_must_dependence().reverse().foreach_map(found.append)
    by_name = {s.name: s for s, _ in writers}
    for m in found:
        statement = by_name[m.get_tuple_name(isl.dim_type.out)]
        for domain, ma in _pieces(m):
            at = tuple(_affine(ma.get_aff(k), names) for k in range(len(statement.loops)))
            for basic in domain.compute_divs().make_disjoint().get_basic_sets():
                yield Source(tuple(conditions_of(basic, names)), statement, at)


def _pieces(m: Any) -> list[tuple[Any, Any]]:
    """A map that gives one point each, as functions on parts of its domain."""
    found: list[tuple[Any, Any]] = []
    isl.PwMultiAff.from_map(m).foreach_piece(lambda domain, function: found.append((domain, function)))
    return found


def conditions_of(basic: Any, names: Sequence[str]) -> Iterator[tuple[Affine, bool]]:
    """The sums that are not negative in a set, or, where that is true, 0."""
    for c in basic.get_constraints():
        yield _affine(c.get_aff(), names), bool(c.is_equality())


def _affine(aff: Any, names: Sequence[str]) -> Affine:
    """What isl writes as a quasi-affine function, as a sum."""
    total = number(0)
    by = aff.get_denominator_val().to_python()

    def whole(value: Any) -> int:
        return (value * isl.Val.int_from_si(isl.DEFAULT_CONTEXT, by)).to_python()

    total = total.plus(number(whole(aff.get_constant_val())))
    for k in range(aff.dim(isl.dim_type.param)):
        c = whole(aff.get_coefficient_val(isl.dim_type.param, k))
        total = total.plus(variable(aff.get_dim_name(isl.dim_type.param, k)).times(c))
    for k, n in enumerate(names):
        total = total.plus(variable(n).times(whole(aff.get_coefficient_val(isl.dim_type.in_, k))))
    for k in range(aff.dim(isl.dim_type.div)):
        c = whole(aff.get_coefficient_val(isl.dim_type.div, k))
        if c:
            total = total.plus(_floor(aff.get_div(k), names).times(c))
    if by != 1:
        raise unsupported("a quotient of no whole numbers")
    return total


def _floor(div: Any, names: Sequence[str]) -> Affine:
    by = div.get_denominator_val().to_python()
    return quotient(_affine(div.scale_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, by)), names), by, {})
