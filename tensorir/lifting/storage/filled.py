"""Storage that an iteration fills before it reads it, wherever data decide that it does both.

`if c[i]: S[0] = A[i]`, and then `if c[i]: B[i] = S[0]`, finds in S what the same iteration wrote: a condition that data
decide is an unknown, 0 or 1, and the same one for the store and the read where nothing changes what it reads in
between.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tensorir.integers.affine import Affine, variable
from tensorir.lifting.accesses.choices import MOST_CONDITIONS, Seen, reads_under
from tensorir.lifting.accesses.dependence import common_loops
from tensorir.lifting.accesses.sets import condition_text, conjuncts, domain, integer_set, text
from tensorir.lifting.accesses.touched import places
from tensorir.lifting.nests.linear import Ranges, linear, settled, term_of
from tensorir.lifting.nests.nest import Leaf, Store, ranges_of
from tensorir.lifting.nests.terms import Buffer, Linear, Term, buffers_of, index_names, rebuilt

__all__ = ["Writers", "filled_first", "writers_of"]

MOST_UNKNOWNS = 8
"""How many conditions that data decide are told apart for one read; what further ones guard is no sure store."""

Writers = Mapping[Buffer, Sequence[Leaf]]
"""Who stores to memory, anywhere in a program, by the buffer that has it."""

_Place = tuple[Affine | None, ...]


def writers_of(statements: Sequence[Leaf]) -> Writers:
    """The statements that store to each buffer, or to a view of its memory."""
    found: dict[Buffer, list[Leaf]] = {}
    for leaf in statements:
        for buffer in leaf.written:
            found.setdefault(buffer.root, []).append(leaf)
    return found


def filled_first(buffer: Buffer, touching: Sequence[Leaf], depth: int, writers: Writers | None = None) -> bool:
    """Whether every read finds what an earlier store in the same iteration of the outer loops wrote.

    Without the program's `writers`, a store under a condition that data decide is none.
    """
    return all(
        not any(i is None for i in place) and _found(_Read(buffer, r, place, depth, writers), touching)
        for r in touching
        for write, place in places(r, buffer)
        if not write
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """A place that a statement reads, inside of an iteration of the outer loops, and what data decide about it."""

    buffer: Buffer
    leaf: Leaf
    place: _Place
    depth: int
    writers: Writers | None
    unknowns: dict[Term, str] = field(default_factory=dict[Term, str])

    @property
    def ranges(self) -> Ranges:
        return ranges_of(self.leaf.loops)

    def unknown(self, condition: Term) -> str | None:
        """A condition that data decide, of this iteration, as isl writes it; None where there are too many."""
        if self.writers is None or (condition not in self.unknowns and len(self.unknowns) == MOST_UNKNOWNS):
            return None
        return f"{self.unknowns.setdefault(condition, f'_p{len(self.unknowns)}')} = 1"

    def set_of(self, names: Sequence[str], constraints: Sequence[str]) -> Any:
        """A set of iterations, and of what data decide in them."""
        bits = self.unknowns.values()
        return integer_set([*bits, *names], [*(f"0 <= {p} <= 1" for p in bits), *constraints])


def _found(read: _Read, touching: Sequence[Leaf]) -> bool:
    """Whether all iterations of a read find what was written before."""
    names = [f"{n}_r" for n in read.leaf.names]
    reading = domain(read.leaf, read.ranges, (), "_r", read.unknown)
    stores = [found for w in touching for found in _stores(read, w, reading.names)]
    chosen = _where_read(read, reading.names)
    missing = read.set_of(names, reading.constraints)
    # the last store before a read is mostly the one that it finds
    for of_writer, constraints in reversed(stores):
        found = read.set_of([*names, *of_writer], constraints)
        missing = missing.subtract(found.project_out(_set_dim(), len(read.unknowns) + len(names), len(of_writer)))
        if missing.is_empty():
            return True
    if chosen is None:
        return bool(missing.is_empty())
    return all(missing.intersect(read.set_of(names, told)).is_empty() for told in chosen)


def _where_read(read: _Read, names: Mapping[str, str]) -> list[list[str]] | None:
    """The conditions of the choices around each read of a place; None where they are too many."""
    node = read.leaf.node
    if not isinstance(node, Store):
        return None
    ranges, seen = read.ranges, Seen()
    found: list[list[str]] = []
    for term in (node.value, *node.indices, *node.guards):
        for load, conditions in reads_under(term, (), seen):
            if load.buffer is read.buffer and tuple(linear(i, ranges) for i in load.indices) == read.place:
                parts = [p for c in conditions for p in conjuncts(settled(c, ranges))]
                told = [condition_text(p, names, read.unknown) for p in parts]
                found.append([t for t in told if t is not None])
    return None if any(len(sets) >= MOST_CONDITIONS for sets in seen.values()) else found


def _stores(read: _Read, w: Leaf, of_reader: Mapping[str, str]) -> list[tuple[list[str], list[str]]]:
    """The variables of a store, and when it wrote a read's place before, in the same iteration of the outer loops."""
    found: list[tuple[list[str], list[str]]] = []
    of_writer = [f"{n}_w" for n in w.names]
    common = common_loops(w, read.leaf)
    for write, stored in places(w, read.buffer):
        if not write or any(i is None for i in stored):
            continue
        orders: list[tuple[int, list[str]]] = []
        for k in range(read.depth, common):
            orders.append((k, [f"{w.loops[k].name}_w < {w.loops[k].name}_r"]))
        if w.place < read.leaf.place:
            orders.append((common, []))
        for alike, order in orders:
            same = {loop.name: variable(loop.name) for loop in w.loops[:alike]}
            writing = domain(w, ranges_of(w.loops), (), "_w", partial(_unknown, read, w, stored, same))
            if not writing.exact:
                continue
            place = [
                f"{text(i, writing.names)} = {text(j, of_reader)}"
                for i, j in zip(stored, read.place, strict=True)
                if i is not None and j is not None
            ]
            equal = [f"{name}_w = {name}_r" for name in same]
            found.append((of_writer, [*writing.constraints, *place, *equal, *order]))
    return found


def _unknown(read: _Read, w: Leaf, stored: _Place, same: Mapping[str, Affine], condition: Term) -> str | None:
    """A condition of a store that data decide as one of the iteration that reads; None where it may be another.

    The variables of the loops in `same` are those of the read; others are told by the place that both touch.
    """
    values = dict(same)
    for i, j in zip(stored, read.place, strict=True):
        if i is not None and j is not None and (name := i.bare_name) is not None and i == variable(name):
            values.setdefault(name, j)
    firm = all(_unchanged(read, w, b, len(same)) for b in buffers_of(condition))
    if not firm or not index_names(condition) <= values.keys():
        return None

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(affine, element):
                return term_of(affine.replaced(values, read.ranges), element)
            case _:
                return None

    return read.unknown(settled(rebuilt(condition, rule), read.ranges))


def _unchanged(read: _Read, w: Leaf, data: Buffer, alike: int) -> bool:
    """Whether a buffer holds the same for a store and a read in one iteration of the first loops of both."""
    writers = () if read.writers is None else read.writers.get(data.root, ())
    return all(
        max(common_loops(x, w), common_loops(x, read.leaf)) <= alike and not w.place <= x.place < read.leaf.place
        for x in writers
    )


def _set_dim() -> Any:
    import islpy

    return islpy.dim_type.set
