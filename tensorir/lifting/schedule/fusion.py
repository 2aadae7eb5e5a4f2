"""Recurrences along one loop as one recurrence, where one alone would have to keep each of its states for another.

`mean = mean + (x - mean) / n; q = q + (x - old) × (x - mean)`: by itself the mean is a scan, whose results take as much
as all of x, and the source keeps one number. Together both are a fold with two numbers as its state.
"""

# islpy has no types of its own that say enough.
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tensorir.lifting.accesses.components import components
from tensorir.lifting.dataflow.statements import Uncovered
from tensorir.lifting.schedule.folding import combined

if TYPE_CHECKING:
    from tensorir.lifting.schedule.run import Run

__all__ = ["fused"]


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


def _carrying(run: Run, part: Sequence[int]) -> str | None:
    try:
        return run.carrying(part)
    except Uncovered:
        return None


def _expands(run: Run, part: Sequence[int], dim: str) -> bool:
    """Whether others ask for states before the last one, of which the source keeps fewer than there are."""
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
    """Whether a recurrence is one write that combines what was there with something: a prefix of a known kind."""
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
