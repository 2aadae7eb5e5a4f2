"""Loops along which one value after the other is handed on, from the end of a row to the next: one loop over all rows.

`for i: for j: s = f(s, A[i, j])` hands its state on along j, and from the last j to the next i. By itself each loop
is a fold of folds; as one loop, of which i and j are digits, it is one fold.
"""

# islpy has no types of its own that say enough.
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.rewrite import substitute
from tensorir.ir.types import INT32, TensorType
from tensorir.lifting.accesses.sets import decided, text
from tensorir.lifting.accesses.space import joined_name
from tensorir.lifting.dataflow.flow import PARTS, Source, domain_of, isl
from tensorir.lifting.dataflow.statements import Statement, Uncovered
from tensorir.lifting.emission.tensors import sum_of
from tensorir.lifting.region.nodes import For
from tensorir.lifting.schedule.placed import Made, with_indices
from tensorir.lifting.schedule.recurrence import step_along

if TYPE_CHECKING:
    from tensorir.lifting.schedule.run import Run

__all__ = ["step_along_rows"]


def step_along_rows(run: Run, members: Sequence[int]) -> bool:
    """Make the tensors of writes that hand values on along the rows of several loops; False where they do not."""
    loops = _handing_on(run, members)
    writes = [run.statements[m] for m in members if not run.statements[m].is_read]
    if len(loops) < 2 or any(w.scatter is not None or w.opaque is not None for w in writes):
        return False
    inside = frozenset(members).union(*(run.reads_of(w) for w in writes))
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
