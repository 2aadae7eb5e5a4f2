"""Components of the dataflow: in one order, joined where they meet the same box, as folds, row by row.

Strongly connected components of dependences, in an order in which they may run.

>>> components(4, [(0, 1), (1, 2), (2, 1), (0, 3)])
[[0], [1, 2], [3]]
"""

# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.integers.sets import affine_from_isl, isl
from tensorir.ir.build import call, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Var
from tensorir.ir.rewrite import substitute
from tensorir.ir.types import INT32, Scalar, TensorType
from tensorir.lifting.accesses.sets import decided, text
from tensorir.lifting.accesses.space import joined_name
from tensorir.lifting.dataflow.flow import PARTS, Source, domain_of, sources_of
from tensorir.lifting.dataflow.statements import Statement, Uncovered
from tensorir.lifting.emission.tensors import sum_of
from tensorir.lifting.region.nodes import COMBINING, For
from tensorir.lifting.schedule.placed import Made, with_indices
from tensorir.lifting.schedule.recurrence import step_along
from tensorir.lifting.schedule.run import Run, distances, places


def components(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The components of a graph on 0 to count - 1, sources first, ties in ascending order."""
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        after[a].append(b)
    number = [-1] * count
    low = [0] * count
    owner = [-1] * count
    stack: list[int] = []
    found: list[list[int]] = []
    counter = 0
    for root in range(count):
        if number[root] >= 0:
            continue
        work: list[tuple[int, int]] = [(root, 0)]
        while work:
            node, k = work.pop()
            if k == 0:
                number[node] = low[node] = counter
                counter += 1
                stack.append(node)
            descended = False
            while k < len(after[node]):
                other = after[node][k]
                k += 1
                if number[other] < 0:
                    work += [(node, k), (other, 0)]
                    descended = True
                    break
                if owner[other] < 0:
                    low[node] = min(low[node], number[other])
            if descended:
                continue
            for other in after[node]:
                if owner[other] < 0:
                    low[node] = min(low[node], low[other])
            if low[node] == number[node]:
                members: list[int] = []
                while True:
                    member = stack.pop()
                    owner[member] = len(found)
                    members.append(member)
                    if member == node:
                        break
                found.append(sorted(members))
    return _ordered(found, owner, after)


def _ordered(found: list[list[int]], owner: list[int], after: list[list[int]]) -> list[list[int]]:
    waiting = [0] * len(found)
    follows: list[set[int]] = [set() for _ in found]
    for a, targets in enumerate(after):
        for b in targets:
            if owner[a] != owner[b] and owner[b] not in follows[owner[a]]:
                follows[owner[a]].add(owner[b])
                waiting[owner[b]] += 1
    ready = [(found[k][0], k) for k in range(len(found)) if not waiting[k]]
    heapq.heapify(ready)
    order: list[list[int]] = []
    while ready:
        _, k = heapq.heappop(ready)
        order.append(found[k])
        for other in follows[k]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (found[other][0], other))
    return order


# Sources of reads by rounds of a loop: of the same one, of earlier ones, or in parts where some are of either.


def with_rounds_apart(run: Run, members: Sequence[int], dim: str) -> None:
    """Sources of which some are of the same round of a loop, and others are not, in parts."""
    inside = set(members)
    for m in members:
        if not run.statements[m].is_read:
            continue
        new: list[Source] = []
        for source in run.flow[m]:
            own = source.writer in inside and not run.before(m, source)
            told = not own or _is_told(run, source, dim)
            new += [source] if told else _split(run, m, source, dim)
        if any(a is not b for a, b in zip(new, run.flow[m], strict=False)):
            run.flow = {**run.flow, m: new}
            run.asking = {w: [(r, s) for r, s in asked if r != m] for w, asked in run.asking.items()}
            for source in new:
                if source.writer is not None:
                    run.asking.setdefault(source.writer, []).append((m, source))


def _is_told(run: Run, source: Source, dim: str) -> bool:
    """True if it is known if a value comes from the same round of a loop."""
    assert source.writer is not None
    names = run.statements[source.writer].names
    if dim not in names or variable(dim).minus(source.at[names.index(dim)]).is_number:
        return True
    least, most = distances(run, source, dim)
    return least > 0 or most < 0


def _split(run: Run, read: int, source: Source, dim: str) -> list[Source]:
    """A source in parts: of the same round of a loop, and of others."""
    i, relation, (k, j) = isl(), source.relation, places(run, source, dim)
    assert source.writer is not None
    names, loops = run.statements[read].names, run.statements[source.writer].names
    return [
        part
        for at in ("equate", "order_gt", "order_lt")
        if not (some := getattr(relation, at)(i.dim_type.in_, k, i.dim_type.out, j)).is_empty()
        for part in sources_of(some, names, source.writer, loops=loops)
    ]


# Components of the dataflow that are reductions: one write that combines its own last value with a term.


def combined(value: Expr, old: Var) -> tuple[str, Expr] | None:
    """The builtin and the term of `old ⊕ term`; None of any other value.

    >>> from tensorir.text import parse_expr
    >>> from tensorir.ir.types import tensor
    >>> s, x = Var("s", tensor("float")), Var("x", tensor("float"))
    >>> combined(parse_expr("if x > 0.0 then s - x else s", [s, x]), s)[0]
    'plus'
    """
    match value:
        case Call("minus", (a, b)) if a == old and old not in b.free:
            return "plus", call("neg", b)
        case Call(op, (a, b)) if op in COMBINING:
            if a == old and old not in b.free:
                return op, b
            if b == old and old not in a.free:
                return op, a
            if op in ("plus", "multiplies"):
                for x, y in ((a, b), (b, a)):
                    inner = combined(x, old)
                    if inner is not None and inner[0] == op and old not in y.free:
                        return op, call(op, inner[1], y)
            return None
        case Call("if", (c, a, b)) if old not in c.free and old in (a, b):
            inner = combined(a if b == old else b, old)
            element = value.tensor.element
            if inner is None or not isinstance(element, Scalar):
                return None
            identity = TABLE[inner[0]].identity
            if identity is None:
                return None
            neutral = literal(identity(element), element)
            parts = (inner[1], neutral) if b == old else (neutral, inner[1])
            return inner[0], call("if", c, *parts)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Chain:
    """The dims along which each element is combined, and where along them it begins."""

    over: tuple[str, ...]
    start: Mapping[str, Affine]
    ends: object


def chain_of(write: Statement, inside: Sequence[Source]) -> Chain | None:
    """The order of a write's iterations, if for all other indices they are one chain; else None."""
    over = [name for k, name in enumerate(write.names) if any(str(s.at[k]) != name for s in inside)]
    if not over or any(name not in {loop.dim for loop in write.loops} for name in over):
        return None
    relation = inside[0].relation
    for s in inside[1:]:
        relation = relation.union(s.relation)
    domain = domain_of(write)
    iterations = relation.reverse().coalesce()
    if not iterations.is_single_valued():
        return None
    # the read has the same loops: its iterations are those of the write
    follows = relation.domain()
    follows = follows.set_tuple_name(domain.get_tuple_name())
    starts = domain.subtract(follows).coalesce()
    ends = domain.subtract(relation.range()).coalesce()
    places = [k for k, name in enumerate(write.names) if name in over]
    by_place = _as_map(starts, places)
    if not by_place.is_single_valued():
        return None
    pieces: list[object] = []
    isl().PwMultiAff.from_map(by_place).foreach_piece(lambda s, a: pieces.append(a))
    if len(pieces) != 1:
        return None
    others = [name for name in write.names if name not in over]
    start = {write.names[p]: affine_from_isl(pieces[0].get_aff(k), others) for k, p in enumerate(places)}
    return Chain(tuple(over), start, ends)


def _as_map(points, places):
    """A set as a map from its other dims to those at the places."""
    i = isl()
    m = i.Map.from_range(points.reset_tuple_id())
    for count, p in enumerate(k for k in range(points.dim(i.dim_type.set)) if k not in places):
        m = m.move_dims(i.dim_type.in_, count, i.dim_type.out, p - count, 1)
    return m


# Recurrences along one loop as one recurrence, where one alone would have to keep each of its states for another.
#
# `mean = mean + (x - mean) / n; q = q + (x - old) × (x - mean)`: by itself the mean is a scan, whose results take as
# much as all of x, and the source keeps one number. Together both are a fold with two numbers as its state.


def fused(run: Run, parts: Sequence[list[int]], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The components, sources first, with recurrences joined that step along one loop; what is between goes along."""
    carrying = {k: dim for k, part in enumerate(parts) if len(part) > 1 and (dim := _carrying(run, part)) is not None}
    if len(carrying) < 2:
        return list(parts)
    part_of = {m: k for k, part in enumerate(parts) for m in part}
    after: dict[int, set[int]] = {}
    for a, b in edges:
        if part_of[a] != part_of[b]:
            after.setdefault(part_of[a], set()).add(part_of[b])
    joined: set[tuple[int, int]] = set()
    for k, dim in carrying.items():
        if _expands(run, parts[k], dim):
            within = _between(run, parts, after, k, dim, {q for q, d in carrying.items() if d == dim})
            cycles = [q for q in within if q in carrying]
            if len(cycles) > 1 and not all(_combines(run, parts[q]) for q in cycles):
                joined |= {pair for q in within for pair in ((q, k), (k, q))}
    if not joined:
        return list(parts)
    between = {(part_of[a], part_of[b]) for a, b in edges}
    return [[m for k in group for m in parts[k]] for group in components(len(parts), between | joined)]


def carrying(run: Run, members: Sequence[int]) -> str:
    """The outermost loop around all members along which values are carried."""
    common = run.statements[members[0]].in_turn
    for m in members[1:]:
        common = [a for a, b in zip(common, run.statements[m].in_turn, strict=False) if a is b]
    for loop in common:
        if loop.dim in run.steps:
            continue
        with_rounds_apart(run, members, loop.dim)
        pieces = [
            source for m in members if run.statements[m].is_read for source in run.flow[m]
            if source.writer in members and not run.before(m, source)
        ]  # fmt: skip
        by = {run.distance(source, loop.dim) for source in pieces}
        if any(by):
            if min(by) < 0:
                raise Uncovered("a dependence that goes backwards")
            return loop.dim
    raise Uncovered("a recurrence without a loop in common")


def _carrying(run: Run, part: Sequence[int]) -> str | None:
    try:
        return carrying(run, part)
    except Uncovered:
        return None


def _expands(run: Run, part: Sequence[int], dim: str) -> bool:
    """True if others ask for states before the last one, of which the source keeps fewer than there are."""
    for m in part:
        w = run.statements[m]
        if w.is_read or dim not in w.names:
            continue
        k, box = w.names.index(dim), run.boxes_of(w)
        last = box[dim].stop - 1
        asked = any(
            source.relation.range().dim_min_val(k).to_python() != last
            for r, source in run.askers(m)
            if r not in part or r in run.read_outside(part)
        )
        if asked and prod(len(i) for i in run.box(w).values()) > prod(w.buffer.shape):
            return True
    return False


def _combines(run: Run, part: Sequence[int]) -> bool:
    """True if a recurrence is one write that combines what was there with something: a prefix of a known kind."""
    writes = [run.statements[m] for m in part if not run.statements[m].is_read]
    reads = [run.statements[m] for m in part if run.statements[m].is_read]
    if (
        len(writes) != 1
        or writes[0].scatter is not None
        or len(reads) != 1
        or writes[0].value is None
        or reads[0].result is None
    ):
        return False
    return combined(writes[0].value, reads[0].result) is not None


def _between(
    run: Run, parts: Sequence[list[int]], after: dict[int, set[int]], start: int, dim: str, cycles: set[int]
) -> list[int]:
    """The parts on the ways from one recurrence to others, none of which leaves the loop."""
    inside = {k for k, part in enumerate(parts) if all(dim in run.statements[m].names for m in part)}
    reached, stack = {start}, [start]
    while stack:
        for q in after.get(stack.pop(), ()):
            if q not in reached:
                reached.add(q)
                stack.append(q)
    leads: dict[int, bool] = {}
    for k in sorted(reached, reverse=True):
        leads[k] = (k in cycles and k in inside) or any(leads.get(q, False) for q in after.get(k, ()))
    found = [k for k in sorted(reached) if leads[k]]
    return found if all(k in inside for k in found) else [start]


# Loops along which one value after the other is handed on, from the end of a row to the next: one loop over all rows.
#
# `for i: for j: s = f(s, A[i, j])` hands its state on along j, and from the last j to the next i. By itself each loop
# is a fold of folds; as one loop, of which i and j are digits, it is one fold.


def step_along_rows(run: Run, members: Sequence[int]) -> bool:
    """Make the tensors of writes that hand values on along the rows of several loops; False where they do not."""
    loops = _handing_on(run, members)
    writes = [run.statements[m] for m in members if not run.statements[m].is_read]
    if len(loops) < 2 or any(w.scatter is not None or w.opaque is not None for w in writes):
        return False
    inside = frozenset(members).union(*(run.reads_of(w) for w in writes))
    if any(loop.dim not in run.boxes_of(run.statements[m]) for loop in loops for m in inside):
        return False
    rows = _Rows.of(run, inside, loops)
    flow = decided(lambda: rows.flow(members), PARTS)
    if flow is None:
        return False
    try:
        rows.step(members, flow)
    except Uncovered:
        return False  # where all rounds at once would keep too much, those of one loop may not
    return True


def _handing_on(run: Run, members: Sequence[int]) -> list[For]:
    """The loops that lead from one iteration to another that finds its values, if nothing stands between them."""
    common = [loop for loop in run.statements[members[0]].loops if loop.dim not in run.steps]
    common = [loop for loop in common if all(any(x is loop for x in run.statements[m].loops) for m in members)]
    led: set[str] = set()
    for r, s in _own(run, members):
        at = dict(zip(run.statements[_writer(s)].names, s.at, strict=True))
        led.add(next((n for n in run.statements[r].names if n in at and at[n] != variable(n)), ""))
    found = [k for k, loop in enumerate(common) if loop.dim in led]
    if led - {""} != {common[k].dim for k in found} or found != list(range(found[0], found[-1] + 1) if found else ()):
        return []
    return [common[k] for k in found]


def _own(run: Run, members: Sequence[int]) -> list[tuple[int, Source]]:
    """The sources of reads that are writes beside them."""
    reads = [m for m in members if run.statements[m].is_read]
    return [(r, s) for r in reads for s in run.flow[r] if s.writer in members and not run.before(r, s)]


def _writer(s: Source) -> int:
    assert s.writer is not None
    return s.writer


@dataclass(frozen=True, slots=True)
class _Rows:
    """Loops as one of a name: `row` tells its iteration, `digits` what the loops are in it."""

    run: Run
    inside: Collection[int]
    """What is written, and the reads that this uses."""
    loops: Sequence[For]
    name: str
    count: int
    row: Affine
    digits: Mapping[str, Affine]

    @staticmethod
    def of(run: Run, inside: Collection[int], loops: Sequence[For]) -> _Rows:
        boxes = [run.boxes_of(run.statements[m]) for m in inside]
        box = {loop.dim: reduce(lambda a, b: a | b, (b[loop.dim] for b in boxes)) for loop in loops}
        name, count = run.fresh(reduce(lambda a, b: joined_name(a, b, {}), box)), prod(map(len, box.values()))
        row, left, size, digits = number(0), variable(name), count, dict[str, Affine]()
        for n, i in box.items():
            size //= len(i)
            row = row.plus(variable(n).minus(number(i.start)).times(size))
            digits[n] = quotient(left, size, {name: (0, count - 1)}).plus(number(i.start))
            left = remainder(left, size, {name: (0, count - 1)})
        return _Rows(run, inside, loops, name, count, row, digits)

    def step(self, members: Sequence[int], flow: Mapping[int, Sequence[Source]]) -> None:
        run = self.run
        one = replace(
            run, statements=[self.statement(s) if s.number in self.inside else s for s in run.statements], flow=flow,
            states={k: self.by_row(m) if k[0] in self.inside else m for k, m in run.states.items()},
            given={r: self.by_row(m) if r in self.inside else m for r, m in run.given.items()},
            begun={r: t and with_indices(t, self.digits, self.ranges) for r, t in run.begun.items()},
            boxes={}, terms={}, known={}, asking={}, users={}, decided=[],
        )  # fmt: skip
        step_along(one, members, self.name)
        for m in members:
            made = run.made.get(m)
            if isinstance(made, Made):
                run.made[m] = replace(made, indices=tuple(a.replaced({self.name: self.row}, {}) for a in made.indices))
        for d in one.decided:
            run.decided += [replace(d, dim=loop.dim) for loop in self.loops] if d.dim == self.name else [d]

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        return {self.name: (0, self.count - 1)}

    def by_row(self, made: Made) -> Made:
        return replace(made, indices=tuple(a.replaced(self.digits, self.ranges) for a in made.indices))

    # Statements

    def statement(self, s: Statement) -> Statement:
        """A statement for all iterations of the one loop."""
        first, here = self.loops[0], Var(self.name, TensorType(INT32))
        loop = replace(first, dim=self.name, start=number(0), stop=number(self.count), title=self.name)
        loops = [loop if x is first else x for x in s.loops if x is first or all(x is not y for y in self.loops)]
        at = tuple(a.replaced(self.digits, self.ranges) for a in s.at)
        values: dict[Var, Expr] = {
            Var(n, TensorType(INT32)): sum_of(a, {self.name: here}) for n, a in self.digits.items()
        }
        return replace(
            s, loops=tuple(loops), at=at, value=s.value and substitute(s.value, values),
            constraints=self.constraints(s.constraints), unmasked=s.unmasked and self.constraints(s.unmasked),
        )  # fmt: skip

    def constraints(self, old: Sequence[str]) -> tuple[str, ...]:
        digits = {n: f"({text(a, {self.name: self.name})})" for n, a in self.digits.items()}
        new = [re.sub(r"[^\W\d]\w*", lambda m: digits.get(m.group(), m.group()), c) for c in old]
        return (*new, f"0 <= {self.name} < {self.count}")

    # Sources

    def flow(self, members: Sequence[int]) -> dict[int, list[Source]] | None:
        """The sources of all reads; None where members find other values of theirs than those of the same iteration
        and of the one before.
        """
        run, own = self.run, _own(self.run, members)
        found: dict[int, list[Source]] = {}
        for r, sources in run.flow.items():
            reader = run.statements[r]
            beside = [s for k, s in own if k == r]
            found[r] = [self.source(reader, s) for s in sources if all(s is not other for other in beside)]
            for w in dict.fromkeys(s.writer for s in beside):
                joined = self.joined(reader, [s for s in beside if s.writer == w])
                if joined is None:
                    return None
                found[r].append(joined)
        return found

    def source(self, reader: Statement, s: Source) -> Source:
        """A source in terms of the one loop."""
        at, relation, domain = s.at, s.relation, s.domain
        if s.writer in self.inside:
            w = self.run.statements[_writer(s)]
            values = dict(zip(w.names, at, strict=True))
            at = tuple(self.row.replaced(values, {}) if n == self.name else values[n] for n in self.statement(w).names)
            relation = relation.apply_range(self.map(w))
        if reader.number in self.inside:
            at = tuple(a.replaced(self.digits, self.ranges) for a in at)
            relation, domain = relation.apply_domain(self.map(reader)), domain.apply(self.map(reader))
        return replace(s, at=at, relation=relation, domain=domain)

    def joined(self, reader: Statement, parts: Sequence[Source]) -> Source | None:
        """All that a read finds of one write, as of the same iteration, or of the one before; None of others."""
        writer, dims = self.run.statements[_writer(parts[0])], {loop.dim for loop in self.loops}
        apart = [[(n, a) for n, a in zip(writer.names, s.at, strict=True) if n not in dims] for s in parts]
        found = reduce(lambda a, b: a.union(b), (s.relation for s in parts))
        there = {n: f"j{k}" for k, n in enumerate(writer.names)}
        pairs = f"{_points(reader)} -> {_points(writer, 'j')} : {self.at(reader)} = {text(self.row, there)}"
        back = next((d for d in (0, 1) if found.is_subset(isl().Map(f"{{ {pairs} + {d} }}"))), None)
        if back is None or any(other != apart[0] for other in apart):
            return None
        values = {n: a.replaced(self.digits, self.ranges) for n, a in apart[0]}
        values[self.name] = variable(self.name).minus(number(back))
        reading, writing = self.statement(reader), self.statement(writer)
        domain, late = found.domain(), isl().Set(f"{{ {_points(reader)} : {self.at(reader)} >= {back} }}")
        if domain.is_equal(domain_of(reader).intersect(late)):
            place = reading.names.index(self.name)
            domain = domain_of(reading).lower_bound_val(isl().dim_type.set, place, isl().Val(back))
        else:
            domain = domain.apply(self.map(reader))
        at, here = tuple(values[n] for n in writing.names), {n: f"i{k}" for k, n in enumerate(reading.names)}
        image = f"{domain_of(writing).get_tuple_name()}[{', '.join(text(a, here) for a in at)}]"
        relation = isl().Map(f"{{ {_points(reading)} -> {image} }}").intersect_domain(domain)
        return Source(parts[0].writer, at, domain, relation)

    def at(self, s: Statement) -> str:
        return text(self.row, {n: f"i{k}" for k, n in enumerate(s.names)})

    def map(self, s: Statement) -> Any:
        """From iterations of a statement to those of the one loop."""
        places = {n: f"i{k}" for k, n in enumerate(s.names)}
        new = [self.at(s) if n == self.name else places[n] for n in self.statement(s).names]
        return isl().Map(f"{{ {_points(s)} -> {domain_of(s).get_tuple_name()}[{', '.join(new)}] }}")


def _points(s: Statement, letter: str = "i") -> str:
    return f"{domain_of(s).get_tuple_name()}[{', '.join(f'{letter}{k}' for k in range(len(s.names)))}]"
