"""Sources of reads: the write of each read's value, exactly, by isl's flow analysis.

>>> from tensorir.lifting.region import parse_region
>>> from tensorir.lifting.dataflow.statements import statements_of
>>> region = parse_region('''
... region sums {
...   argument A: int32[n=8];
...   for i in 1:8 {
...     a: int ← A[i - 1];
...     b: int ← A[i];
...     A[i] ← a + b;
...   }
... }''')
>>> statements = statements_of(region)
>>> for source in flow_of(statements)[0]:
...     print(source.writer, [str(i) for i in source.at], source.domain)
2 ['i - 1'] { R0[i0] : 2 <= i0 <= 7 }
None ['i - 1'] { R0[i0 = 1] }
"""

# islpy has no types of its own that say enough.
# pyright: basic

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Interval
from tensorir.integers.sets import affine_from_isl, conditions_of, isl
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.overlap import inverse
from tensorir.lifting.accesses.sets import decided, text
from tensorir.lifting.dataflow.statements import Statement, Uncovered
from tensorir.lifting.nests.linear import term_of
from tensorir.lifting.nests.terms import Number, Op, Term
from tensorir.runtime.memory import RecentCache, remembered

T = TypeVar("T")

MOST_PARTS = 16
"""How many sums of indices may tell where in one write the value of a read comes from: each is a choice."""

FEW_WRITES = 16
"""To how many writes, at most, isl's flow analysis is asked for the sources of a read at once."""

PARTS = 1 / 16
"""The share of EFFORT for parts of a relation: where they are many, each step of isl takes 30 times as long."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The source of a read in a part of its iterations: `writer` at its iteration `at`.

    Without a writer it is what was before in a buffer, at the element `at`.
    """

    writer: int | None
    at: tuple[Affine, ...]
    domain: Any
    relation: Any
    buffer: str = ""


@remembered("facts of nests", limit=1024)
def domain_of(s: Statement) -> Any:
    """The iterations of a statement, with the points of its window."""
    return _set(f"{{ {_points(s)}{_where(s)} }}").set_tuple_name(_name(s))


@remembered("facts of nests", limit=1024)
def _element_of(s: Statement) -> Any:
    """The access map of a statement."""
    return _map(f"{{ {_points(s)} -> {_access(s)}{_where(s)} }}").set_tuple_name(isl().dim_type.in_, _name(s))


@remembered("facts of nests", limit=1024)
def _set(words: str) -> Any:
    """Statements of one nest have one domain, and to read its text takes isl longer than most questions about it."""
    return isl().Set(words)


@remembered("facts of nests", limit=1024)
def _map(words: str) -> Any:
    return isl().Map(words)


def _name(s: Statement) -> str:
    return f"{'R' if s.is_read else 'W'}{s.number}"


def _points(s: Statement) -> str:
    return f"[{', '.join(_named(s).values())}]"


def _tuple(s: Statement) -> str:
    return f"{_name(s)}{_points(s)}"


def _named(s: Statement) -> dict[str, str]:
    return {name: f"i{k}" for k, name in enumerate(s.names)}


@remembered("facts of nests", limit=1024)
def _where(s: Statement) -> str:
    if not s.constraints:
        return ""
    names = _named(s)
    return " : " + " and ".join(_renamed(c, names) for c in s.constraints)


def _renamed(constraint: str, names: Mapping[str, str]) -> str:
    return _WORDS.sub(lambda m: names.get(m.group(), m.group()), constraint)


_WORDS = re.compile(r"[^\W\d]\w*")


def flow_of(statements: Sequence[Statement]) -> dict[int, list[Source]]:
    """The sources of every read, by its number. Raises Uncovered where isl does not decide in its budget."""
    longest = max((len(s.order) for s in statements), default=1)
    by_buffer: dict[str, list[Statement]] = {}
    for s in statements:
        by_buffer.setdefault(s.buffer.name, []).append(s)
    found: dict[int, list[Source]] = {}
    for touching in by_buffer.values():
        if any(s.is_read for s in touching):
            accesses = (longest, *((s.number, s.is_read, s.names, s.at, s.constraints, s.order) for s in touching))
            known = _FLOWS.of((touching[0].buffer.name, accesses), partial(_flow, touching, longest))
            found.update({number: list(sources) for number, sources in known.items()})
    return found


_FLOWS: RecentCache[Hashable, dict[int, list[Source]]] = RecentCache("dataflow of buffers", 256)
"""By what statements touch, and when: a kernel that is lifted again, or at another step of its lowering, asks again."""


def _flow(touching: Sequence[Statement], longest: int) -> dict[int, list[Source]]:
    """The sources of every read of one buffer."""
    name = touching[0].buffer.name
    reads = [s for s in touching if s.is_read]
    writes = [s for s in touching if not s.is_read]
    if not writes:
        return {r.number: [] if (d := domain_of(r)).is_empty() else [_initial(r, d)] for r in reads}
    # to read a text is no question: it takes no part in the budget
    maps = _Accesses.of(reads, writes, longest)
    found: dict[int, list[Source]] = {}
    for together, sources in _reaching(reads, writes, maps).items():
        asking, given = [s for s in reads if s.number in together], [s for s in writes if s.number in sources]
        if len(given) == 1:
            known = {r.number: [s] for r in asking if (s := _by_inverse(r, given[0], maps)) is not None}
        elif len(given) > FEW_WRITES:
            chains = {r.number: decided(partial(_in_text_order, r, given, maps), 4) for r in asking}
            known = {r: sources for r, sources in chains.items() if sources is not None}
        else:
            known = {}
        found |= known
        asking = [r for r in asking if r.number not in known]
        if not asking:
            continue
        along = _along([*asking, *given])
        parts = [[_without(s, along) for s in every] if along else every for every in (asking, given)]
        few = _Accesses.of(*parts, longest) if along else maps
        schedule = isl().UnionMap(few.times(*parts[0], *parts[1]))
        flow = decided(partial(_Flow.of, *parts, name, few, schedule), 4)
        found.update(
            {r.number: _sources(r, part, given, flow, maps, along) for r, part in zip(asking, parts[0], strict=True)}
        )
    return found


def _along(statements: Sequence[Statement]) -> list[int]:
    """The indices that are a variable of its own in each of some statements, with one interval in all.

    Elements that differ there never meet, and the flow of those at one place is that of all.
    """
    found: list[int] = []
    for k in range(len(statements[0].at)):
        names = [_own_variable(s, k) for s in statements]
        # a loop around several statements is the variable of all of them
        meets = any(a in s.order and a != b for a in names for s, b in zip(statements, names, strict=True))
        if None in names or meets:
            continue
        intervals = {box_of(domain_of(s), s.names)[str(n)] for s, n in zip(statements, names, strict=True)}
        if len(intervals) == 1:
            found.append(k)
    return found


def _own_variable(s: Statement, k: int) -> str | None:
    """The variable that is an index of a statement, where it is in no other and in no constraint with others."""
    match s.at[k]:
        case Affine(((str() as name, 1),), 0):
            pass
        case _:
            return None
    if any(name in a.names for j, a in enumerate(s.at) if j != k):
        return None
    bounds = [words for c in s.constraints if name in (words := set(_WORDS.findall(c)))]
    return name if all(words == {name} for words in bounds) else None


def _without(s: Statement, along: Sequence[int]) -> Statement:
    """A statement at one place of some of its indices."""
    gone = {name for k in along for name in s.at[k].names}
    return replace(
        s, at=tuple(a for k, a in enumerate(s.at) if k not in along),
        loops=tuple(loop for loop in s.loops if loop.dim not in gone), own=tuple(d for d in s.own if d[0] not in gone),
        constraints=tuple(c for c in s.constraints if gone.isdisjoint(_WORDS.findall(c))),
        order=tuple(o for o in s.order if o not in gone),
    )  # fmt: skip


def _at_all(source: Source, r: Statement, writes: Sequence[Statement], along: Sequence[int]) -> Source:
    """The source at one place of some indices, at all places."""
    i = isl()
    here = _to_one_place(r, along)
    domain = source.domain.apply(here.reverse()).intersect(domain_of(r))
    if source.writer is None:
        return _initial(r, domain)
    (w,) = (w for w in writes if w.number == source.writer)
    pairs = {name: here_too for k in along for name, here_too in zip(w.at[k].names, r.at[k].names, strict=True)}
    relation = here.apply_range(source.relation).apply_range(_to_one_place(w, along).reverse())
    for there, name in pairs.items():
        relation = relation.equate(i.dim_type.in_, r.names.index(name), i.dim_type.out, w.names.index(there))
    rest = iter(source.at)
    at = tuple(variable(pairs[n]) if n in pairs else next(rest) for n in w.names)
    return Source(w.number, at, domain, relation.intersect_domain(domain))


def _to_one_place(s: Statement, along: Sequence[int]) -> Any:
    """The iterations of a statement without the variables of some indices."""
    gone = {name for k in along for name in s.at[k].names}
    kept = ", ".join(shown for n, shown in _named(s).items() if n not in gone)
    found = _map(f"{{ {_points(s)} -> [{kept}] }}")
    return found.set_tuple_name(isl().dim_type.in_, _name(s)).set_tuple_name(isl().dim_type.out, _name(s))


def _sources(
    r: Statement, part: Statement, writes: Sequence[Statement], flow: _Flow | None, maps: _Accesses,
    along: Sequence[int],
) -> list[Source]:  # fmt: skip
    """The sources of a read by isl's flow analysis of a part of it, or else those of the elements at its indices."""
    try:
        if flow is None:
            raise Uncovered(_too_long(r.buffer.name))
        sources = flow.sources(part)
        return [_at_all(s, r, writes, along) for s in sources] if along else sources
    except Uncovered:
        if (known := _by_elements(r, writes, maps)) is None:
            raise
        return known


def _by_elements(r: Statement, writes: Sequence[Statement], maps: _Accesses) -> list[Source] | None:
    """The sources of a read in a nest behind those of all writes: what these leave in the elements that it names.

    The flow analysis of an element by its coordinates takes few steps, however a read divides its indices. None where
    a write stands in the read's nest.
    """
    if any(int(w.order[0]) >= int(r.order[0]) for w in writes):
        return None
    box = _within_budget(partial(maps.box, r), r.buffer.name, 1) or ()
    own = {f"e{k}": Interval(low, high + 1) for k, (low, high) in enumerate(box)}
    element = Statement(
        r.number, r.buffer, tuple(map(variable, own)), (), tuple(own.items()),
        tuple(f"{i.start} <= {n} < {i.stop}" for n, i in own.items()), (r.order[0],), None, None,
    )  # fmt: skip
    each = _Accesses.of([element], writes, max(len(s.order) for s in (element, *writes)))
    schedule = isl().UnionMap(each.times(element, *writes))
    flow = _within_budget(partial(_Flow.of, [element], writes, r.buffer.name, each, schedule), r.buffer.name, 4)
    sources = flow.sources(element)
    indices, names = dict(zip(own, r.at, strict=True)), _named(r)
    ranges = {n: (i.start, i.stop - 1) for n, i in box_of(maps.domain[r.number], r.names).items()}

    def at_indices(source: Source) -> Source | None:
        place = tuple(a.replaced(indices, ranges) for a in source.at)
        if len(sources) == 1 and source.writer is not None:
            image = f"W{source.writer}[{', '.join(text(a, names) for a in place)}]"
            relation = isl().Map(f"{{ {_tuple(r)} -> {image}{_where(r)} }}")
            return Source(source.writer, place, maps.domain[r.number], relation)
        reach = maps.element[r.number].apply_range(each.element[r.number].reverse()).intersect_range(source.domain)
        domain = reach.domain().coalesce()
        if domain.is_empty():
            return None
        if source.writer is None:
            return _initial(r, domain)
        return Source(source.writer, place, domain, reach.apply_range(source.relation))

    known = [_within_budget(partial(at_indices, s), r.buffer.name, 1) for s in sources]
    return [s for s in known if s is not None]


def _by_inverse(r: Statement, w: Statement, maps: _Accesses) -> Source | None:
    """The source of a read whose buffer one write fills before it, by the inverse of the write's access map.

    None where that does not tell it: then isl's flow analysis does. Loops of which each round writes first are told
    by their variables.
    """
    common = _rounds_in_common(w, r)
    dims = box_of(maps.domain[w.number], w.names)
    here = box_of(maps.domain[r.number], r.names)
    if common is None or not all(dims.values()) or not all(here.values()):
        return None
    ranges = {n: (i.start, i.stop - 1) for n, i in here.items()}
    # the last of several rounds that write an element stays
    again = {loop.dim for loop in w.in_turn} - {n for a in w.at for n in a.names} - set(common)
    for written, read in _ways(r, w, common, maps):
        solved = inverse(written, dims)
        at = None if solved is None else solved.at(read, ranges)
        if at is not None and all(n in at or len(i) < 2 or n in again for n, i in dims.items()):
            break
    else:
        return None
    place = tuple(at[n] if n in at else number(i.stop - 1) for n, i in dims.items())
    names = _named(r)
    relation = isl().Map(f"{{ {_tuple(r)} -> W{w.number}[{', '.join(text(a, names) for a in place)}]{_where(r)} }}")
    if not decided(lambda: relation.range().is_subset(maps.domain[w.number]), 1 / 4):
        return None
    return Source(w.number, place, maps.domain[r.number], relation)


def _ways(
    r: Statement, w: Statement, common: Sequence[str], maps: _Accesses
) -> Iterator[tuple[list[Affine], list[Affine]]]:
    """The indices of a write, and those of a read, that tell the iteration: as they are, and then row by row."""
    known = [variable(n) for n in common]
    kept = [k for k, (a, b) in enumerate(zip(w.at, r.at, strict=True)) if not (a == b and a.names <= set(common))]
    yield [*known, *(w.at[k] for k in kept)], [*known, *(r.at[k] for k in kept)]
    # the place row by row tells an element where all indices but the first are inside
    bounds = " and ".join(["1 = 1", *(f"0 <= a{k} < {w.buffer.shape[k]}" for k in kept[1:])])
    box = isl().Set(f"{{ A[{', '.join(f'a{k}' for k in range(len(w.at)))}] : {bounds} }}")
    if len(kept) < 2 or not decided(lambda: all(maps.element[s.number].range().is_subset(box) for s in (w, r)), PARTS):
        return
    rows = [number(0), number(0)]
    for k in kept:
        rows = [row.times(w.buffer.shape[k]).plus(s.at[k]) for row, s in zip(rows, (w, r), strict=True)]
    yield [*known, rows[0]], [*known, rows[1]]


def _in_text_order(r: Statement, writes: Sequence[Statement], maps: _Accesses) -> list[Source] | None:
    """The sources of a read among writes that each stand in a nest of their own, those of the last nest first.

    None where some stand in one nest, or a nest writes an element twice.
    """
    if len({int(s.order[0]) for s in (r, *writes)}) <= len(writes):
        return None
    sources: list[Source] = []
    left = maps.domain[r.number]
    for w in sorted(writes, key=lambda w: int(w.order[0]), reverse=True):
        if int(w.order[0]) > int(r.order[0]):
            continue
        relation = maps.element[r.number].apply_range(maps.element[w.number].reverse()).intersect_domain(left)
        if relation.is_empty():
            continue
        if not relation.is_single_valued():
            return None
        sources += sources_of(relation, r.names, w.number, loops=w.names)
        left = left.subtract(relation.domain()).coalesce()
        if left.is_empty():
            return sources
    return [*sources, _initial(r, left)]


def _rounds_in_common(w: Statement, r: Statement) -> list[str] | None:
    """The loops in each round of which a write comes before a read; None where it does not, or not always."""
    common: list[str] = []
    for a, b in zip(w.order, r.order, strict=False):
        if a != b:
            return common if isinstance(a, int) and isinstance(b, int) and a < b else None
        if isinstance(a, str):
            common.append(a)
    return None


def _within_budget(question: Callable[[], T], buffer: str, times: float) -> T:
    found = decided(question, times)
    if found is None:
        raise Uncovered(_too_long(buffer))
    return found


def _too_long(buffer: str) -> str:
    return f"the dataflow of {buffer!r}, which takes too long"


_Box = tuple[tuple[int, int], ...]
"""The least and the greatest index along each dim."""


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Access maps of statements, as maps of isl; their schedules are read where isl's flow analysis is asked."""

    element: Mapping[int, Any]
    domain: Mapping[int, Any]
    longest: int

    @staticmethod
    def of(reads: Sequence[Statement], writes: Sequence[Statement], longest: int) -> _Accesses:
        every = [*reads, *writes]
        return _Accesses({s.number: _element_of(s) for s in every}, {s.number: domain_of(s) for s in every}, longest)

    def time(self, s: Statement) -> str:
        """The schedule of a statement, as a text of isl."""
        return _relations([s], lambda s: _order(s, self.longest))

    def times(self, *statements: Statement) -> str:
        """The schedule of statements without their domains, which their access maps have."""
        return f"{{ {'; '.join(f'{_tuple(s)} -> {_order(s, self.longest)}' for s in statements)} }}"

    def box(self, s: Statement) -> _Box | None:
        """The box around what a statement touches, None where it touches nothing."""
        touched = self.element[s.number].range()
        if touched.is_empty():
            return None
        count = touched.dim(isl().dim_type.set)
        return tuple((touched.dim_min_val(k).to_python(), touched.dim_max_val(k).to_python()) for k in range(count))

    def of_all(self, statements: Sequence[Statement]) -> Any:
        """The elements of all statements, as one map."""
        found = isl().UnionMap.empty(isl().Space.params_alloc(isl().DEFAULT_CONTEXT, 0))
        for s in statements:
            found = found.add_map(self.element[s.number])
        return found


def _reaching(
    reads: Sequence[Statement], writes: Sequence[Statement], accesses: _Accesses
) -> dict[frozenset[int], frozenset[int]]:
    """The reads by the writes that may reach them: reaching definitions over the nests of a region.

    A nest that writes all elements that a read touches kills what nests before it wrote; what touches other elements
    does not reach. `A[0:8] ← …; A[0:8] ← …; … ← A[2]`: the second write alone reaches the read.
    """
    if len(writes) < 2:
        return {frozenset(r.number for r in reads): frozenset(w.number for w in writes)}
    boxes = {s.number: accesses.box(s) for s in (*reads, *writes)}
    whole = {w.number: accesses.element[w.number].range().is_box() for w in writes}
    by_nest: dict[int | str, list[Statement]] = {}
    for w in writes:
        by_nest.setdefault(w.order[0], []).append(w)
    nests = sorted(by_nest, key=int)
    found: dict[frozenset[int], set[int]] = {}
    for r in reads:
        reaching: set[int] = set()
        wanted = boxes[r.number]
        for nest in reversed(nests[: bisect_right(nests, int(r.order[0]), key=int)]):
            near = [w for w in by_nest[nest] if _meet(boxes[w.number], wanted)]
            reaching |= {w.number for w in near}
            if nest != r.order[0] and any(whole[w.number] and _covers(boxes[w.number], wanted) for w in near):
                break
        found.setdefault(frozenset(reaching), set()).add(r.number)
    return {frozenset(together): sources for sources, together in found.items()}


def _meet(a: _Box | None, b: _Box | None) -> bool:
    return a is not None and b is not None and all(x[0] <= y[1] and y[0] <= x[1] for x, y in zip(a, b, strict=True))


def _covers(a: _Box | None, b: _Box | None) -> bool:
    return a is not None and b is not None and all(x[0] <= y[0] and y[1] <= x[1] for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, slots=True)
class _Flow:
    """Writes that reach the reads of a buffer, by isl's flow analysis."""

    buffer: str
    writes: Sequence[Statement]
    accesses: _Accesses
    reaching: Mapping[int, Sequence[Any]]
    """The relations to writes, by the number of the read."""
    without: Any
    """The iterations that no write reaches, None where there is no write."""

    @staticmethod
    def of(
        reads: Sequence[Statement], writes: Sequence[Statement], buffer: str, accesses: _Accesses, schedule: Any
    ) -> _Flow:
        i = isl()
        reaching: dict[int, list[Any]] = {r.number: [] for r in reads}
        if not writes:
            return _Flow(buffer, writes, accesses, reaching, None)
        info = i.UnionAccessInfo.from_sink(accesses.of_all(reads)).set_must_source(accesses.of_all(writes))
        info = info.set_schedule_map(schedule)
        try:
            flow = info.compute_flow()
        except i.Error as error:
            if "domain dimensions" not in str(error):
                raise
            # isl fails on some sets that have quotients, which the greatest time is known of
            last = {r.number: _last_writes(r, writes, accesses) for r in reads}
            return _Flow(buffer, writes, accesses, last, None)
        maps: list[Any] = []
        flow.get_must_dependence().reverse().foreach_map(maps.append)
        for m in maps:
            reaching[int(m.get_tuple_name(i.dim_type.in_)[1:])].append(m)
        return _Flow(buffer, writes, accesses, reaching, flow.get_must_no_source().domain())

    def sources(self, r: Statement) -> list[Source]:
        domain, maps = self.accesses.domain[r.number], self.reaching[r.number]
        left, lost = self._left(domain, maps)
        if lost:
            maps = _within_budget(lambda: _last_writes(r, self.writes, self.accesses), self.buffer, 1)
            left, _ = self._left(domain, maps)
        found = [s for m in maps for s in self._parts(r, m)]
        return found if left.is_empty() else [*found, _initial(r, left)]

    def _left(self, domain: Any, maps: Sequence[Any]) -> tuple[Any, bool]:
        """The iterations that no relation has, and whether isl lost some of them.

        It does where a source is asked for at steps of a stride: every iteration has a source, or none.
        """

        def asked() -> tuple[Any, bool]:
            left = domain
            for m in maps:
                left = left.subtract(m.domain())
            left = left.coalesce()
            return left, self.without is not None and not left.is_subset(self.without.extract_set(domain.get_space()))

        return _within_budget(asked, self.buffer, PARTS)

    def _parts(self, r: Statement, relation: Any) -> list[Source]:
        if not _within_budget(relation.is_single_valued, self.buffer, 1):
            raise Uncovered(f"two writes to one element of {self.buffer!r} at once")
        writer = int(relation.get_tuple_name(isl().dim_type.out)[1:])
        (loops,) = (w.names for w in self.writes if w.number == writer)
        sources = _within_budget(lambda: sources_of(relation, r.names, writer, loops=loops), self.buffer, PARTS)
        if len(sources) > MOST_PARTS:
            raise Uncovered(f"a read of {self.buffer!r} whose values come from {len(sources)} parts of one write")
        return sources


def _last_writes(r: Statement, writes: Sequence[Statement], accesses: _Accesses) -> list[Any]:
    """The last write before each iteration of a read, as the greatest time among those of all writes to its element.

    >>> from tensorir.lifting.region import parse_region
    >>> from tensorir.lifting.dataflow.statements import statements_of
    >>> region = parse_region("region r { argument A: int32[n=8]; for i in 0:4 { A[2*i] ← i; } }")
    >>> write, end = statements_of(region)
    >>> for found in _last_writes(end, [write], _Accesses.of([end], [write], 3)):
    ...     print(found)
    { R1[i0] -> W0[i0'] : (i0) mod 2 = 0 and 0 <= i0 <= 6 and 0 <= i0' <= 3 and i0 <= 2i0' <= 1 + i0 }
    """
    i = isl()
    element, when = accesses.element[r.number], i.Map(accesses.time(r))
    earlier = when.apply_range(i.Map.lex_gt(when.get_space().range()))
    total, times = None, list[Any]()
    for w in writes:
        time = i.Map(accesses.time(w))
        same = element.apply_range(accesses.element[w.number].reverse())
        possible = same.apply_range(time).intersect(earlier)
        total = possible if total is None else total.union(possible)
        times.append(time)
    assert total is not None
    last = total.lexmax()
    found = [last.apply_range(time.reverse()).coalesce() for time in times]
    return [m for m in found if not m.is_empty()]


def sources_of(
    relation: Any, names: Sequence[str], writer: int | None, buffer: str = "", loops: Sequence[str] = ()
) -> list[Source]:
    """The parts of a relation from a read to what it reads, in each of which this is a sum of indices.

    `names` are those of the read's iterations, `loops` those of the write's: a loop of both in which they meet in one
    iteration is told by its variable, whatever else that is.
    """
    i, pieces = isl(), list[tuple[Any, Any]]()
    i.PwMultiAff.from_map(relation).foreach_piece(lambda s, a: pieces.append((s, a)))
    found: list[Source] = []
    for where, at in pieces:
        target = [affine_from_isl(at.get_aff(k), names) for k in range(at.dim(i.dim_type.out))]
        part = relation.intersect_domain(where)
        for k, name in enumerate(loops):
            if target[k] != variable(name) and name in names:
                same = part.equate(i.dim_type.in_, names.index(name), i.dim_type.out, k)
                target[k] = variable(name) if part.is_subset(same) else target[k]
        found.append(Source(writer, tuple(target), where, part, buffer))
    return found


def _initial(r: Statement, where: Any) -> Source:
    return Source(None, r.at, where, _element_of(r).intersect_domain(where), r.buffer.name)


def elements_of(s: Statement, outside: Sequence[str]) -> Any:
    """The elements that iterations touch, after the variables of some loops, as a map of isl."""
    names = _named(s)
    image = ", ".join([*(names[n] for n in outside), *(text(a, names) for a in s.at)])
    return _map(f"{{ {_points(s)} -> [{image}]{_where(s)} }}").set_tuple_name(isl().dim_type.in_, _name(s))


def last_of(writes: Sequence[Statement], apart: Callable[[Statement], Sequence[str]]) -> dict[int, Any]:
    """The iterations of writes after which no other one of them writes the same element, by the write.

    Those that differ in some of their loops are told `apart`. Raises Uncovered where isl does not decide in its budget.
    """
    return _within_budget(lambda: _last_of(writes, apart), writes[0].buffer.name, PARTS)


def _last_of(writes: Sequence[Statement], apart: Callable[[Statement], Sequence[str]]) -> dict[int, Any]:
    longest = max(len(w.order) for w in writes)
    times = {w.number: isl().Map(_relations([w], lambda s: _order(s, longest))) for w in writes}
    total = None
    for w in writes:
        when = elements_of(w, apart(w)).reverse().apply_range(times[w.number])
        total = when if total is None else total.union(when)
    assert total is not None
    last = total.lexmax()
    return {w: last.apply_range(time.reverse()).range().coalesce() for w, time in times.items()}


def _relations(statements: Sequence[Statement], image: Any) -> str:
    return "{ " + "; ".join(f"{_tuple(s)} -> {image(s)}{_where(s)}" for s in statements) + " }"


def _access(s: Statement) -> str:
    names = _named(s)
    return f"A[{', '.join(text(a, names) for a in s.at)}]"


def _order(s: Statement, longest: int) -> str:
    names = _named(s)
    parts = [str(o) if isinstance(o, int) else names[o] for o in s.order]
    return f"[{', '.join([*parts, *['0'] * (longest - len(parts))])}]"


def condition_of(where: Any, context: Any, names: Sequence[str]) -> Term | None:
    """That an iteration of `context` is one of a set, as a term; None where all are."""
    where = where.intersect(context).coalesce().gist(context).compute_divs()
    if where.plain_is_universe() or context.is_subset(where):
        return None
    parts: list[Any] = []
    where.foreach_basic_set(parts.append)
    choices: list[Term] = []
    for basic in parts:
        holds: list[Term] = []
        for a, zero in conditions_of(basic, names):
            holds.append(_comparison("eq" if zero else "greater_equal", a))
        choices.append(_joined("and", holds, True))
    return _joined("or", choices, False)


def _comparison(op: str, a: Affine) -> Term:
    """That a sum is zero, or not negative, as a comparison of its variables with a number: `i <= 9` of `9 - i`."""
    negative = bool(a.terms) and a.terms[0][1] < 0
    variables = Affine(a.terms).times(-1 if negative else 1)
    op = "less_equal" if negative and op != "eq" else op
    return Op(op, (term_of(variables, INT32), Number(a.constant if negative else -a.constant, INT32)), BOOL)


def _joined(op: str, parts: Sequence[Term], neutral: bool) -> Term:
    if not parts:
        return Number(neutral, BOOL)
    result = parts[0]
    for p in parts[1:]:
        result = Op(op, (result, p), BOOL)
    return result


def box_of(domain: Any, names: Sequence[str]) -> dict[str, Interval]:
    """The smallest box around the points of a set, under the names given; of no points, an empty one."""
    if domain.is_empty():
        return {name: Interval(0, 0) for name in names}
    found: dict[str, Interval] = {}
    for k, name in enumerate(names):
        low, high = domain.dim_min_val(k), domain.dim_max_val(k)
        found[name] = Interval(low.to_python(), high.to_python() + 1)
    return found


def set_of(box: Mapping[str, Interval], like: Any, names: Sequence[str]) -> Any:
    """A box as a set of iterations like those of another one."""
    places = [f"i{k}" for k in range(len(names))]
    parts = [f"{box[n].start} <= {i} < {box[n].stop}" for n, i in zip(names, places, strict=True)]
    where = f" : {' and '.join(parts)}" if parts else ""
    return _set(f"{{ [{', '.join(places)}]{where} }}").set_tuple_name(like.get_tuple_name())
