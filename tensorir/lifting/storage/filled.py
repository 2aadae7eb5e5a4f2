"""Storage that an iteration fills before it reads it."""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir.integers.affine import Affine
from tensorir.lifting.accesses.choices import MOST_CONDITIONS, Seen, reads_under
from tensorir.lifting.accesses.sets import condition_text, conjuncts, domain, integer_set, text
from tensorir.lifting.accesses.touched import places
from tensorir.lifting.nests.linear import linear, settled
from tensorir.lifting.nests.nest import Leaf, Store, common_loops, ranges_of
from tensorir.lifting.nests.terms import Buffer

__all__ = ["filled_first"]

_Place = tuple[Affine | None, ...]


def filled_first(buffer: Buffer, touching: Sequence[Leaf], depth: int) -> bool:
    """Whether every read finds what an earlier store in the same iteration of the outer loops wrote.

    A store under a condition that data decide is none.
    """
    return all(
        not any(i is None for i in place) and _found(buffer, r, place, depth, touching)
        for r in touching
        for write, place in places(r, buffer)
        if not write
    )


def _found(buffer: Buffer, r: Leaf, place: _Place, depth: int, touching: Sequence[Leaf]) -> bool:
    """Whether all iterations of a read find what was written before."""
    names = [f"{n}_r" for n in r.names]
    reading = domain(r, ranges_of(r.loops), (), "_r")
    missing = integer_set(names, reading.constraints)
    stores = [found for w in touching for found in _stores(buffer, r, place, depth, w, reading.names)]
    # the last store before a read is mostly the one that it finds
    for of_writer, constraints in reversed(stores):
        found = integer_set([*names, *of_writer], constraints)
        missing = missing.subtract(found.project_out(_set_dim(), len(names), len(of_writer)))
        if missing.is_empty():
            return True
    chosen = _where_read(buffer, r, place, reading.names)
    if chosen is None:
        return bool(missing.is_empty())
    return all(missing.intersect(integer_set(names, told)).is_empty() for told in chosen)


def _where_read(buffer: Buffer, r: Leaf, place: _Place, names: Mapping[str, str]) -> list[list[str]] | None:
    """The conditions of the choices around each read of a place; None where they are too many."""
    node = r.node
    if not isinstance(node, Store):
        return None
    ranges, seen = ranges_of(r.loops), Seen()
    found: list[list[str]] = []
    for term in (node.value, *node.indices, *node.guards):
        for load, conditions in reads_under(term, (), seen):
            if load.buffer is buffer and tuple(linear(i, ranges) for i in load.indices) == place:
                parts = [p for c in conditions for p in conjuncts(settled(c, ranges))]
                told = [condition_text(p, names) for p in parts]
                found.append([t for t in told if t is not None])
    return None if any(len(sets) >= MOST_CONDITIONS for sets in seen.values()) else found


def _stores(
    buffer: Buffer, r: Leaf, read: _Place, depth: int, w: Leaf, of_reader: Mapping[str, str]
) -> list[tuple[list[str], list[str]]]:  # fmt: skip
    """The variables of a store, and when it wrote a read's place before, in the same iteration of the outer loops."""
    found: list[tuple[list[str], list[str]]] = []
    of_writer = [f"{n}_w" for n in w.names]
    common = common_loops(w, r)
    writing = domain(w, ranges_of(w.loops), (), "_w")
    for write, stored in places(w, buffer):
        if not write or not writing.exact or any(i is None for i in stored):
            continue
        orders: list[tuple[int, list[str]]] = []
        for k in range(depth, common):
            orders.append((k, [f"{w.loops[k].name}_w < {w.loops[k].name}_r"]))
        if w.place < r.place:
            orders.append((common, []))
        place = [
            f"{text(i, writing.names)} = {text(j, of_reader)}"
            for i, j in zip(stored, read, strict=True)
            if i is not None and j is not None
        ]
        for alike, order in orders:
            equal = [f"{loop.name}_w = {loop.name}_r" for loop in w.loops[:alike]]
            found.append((of_writer, [*writing.constraints, *place, *equal, *order]))
    return found


def _set_dim() -> Any:
    import islpy

    return islpy.dim_type.set
