"""What a read may find: the iterations in which some store wrote its element before.

A set of them may be too large where data decide over a store; what is missing in it is missing.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tensorir.lifting.accesses.sets import decided, integer_set, point, same_element
from tensorir.lifting.hazards.touches import Touch
from tensorir.lifting.nests.nest import ranges_of

__all__ = ["all_missing", "first_missing", "met_before", "written_before"]


def first_missing(r: Touch, writes: Sequence[Touch]) -> list[tuple[int, ...]] | None:
    """The first iteration of a read before which no store writes its element, if there is one.

    None where isl does not decide it. The only iteration outside of loops is that of no variables.
    """
    missing = all_missing(r, writes)
    return None if missing is None else [] if missing.is_empty() else decided(lambda: [point(missing)])


def all_missing(r: Touch, writes: Sequence[Touch]) -> Any | None:
    """The iterations of a read before which no store writes its element; None where isl does not decide it."""
    left: Any | None = integer_set(r.names, r.constraints)
    for written in (part for w in writes for part in written_before(w, r)):
        left = decided(partial(_without, left, written))
        if left is None or left.is_empty():
            break
    return left


def _without(left: Any, written: Any) -> Any:
    found = left.subtract(written)
    found.is_empty()  # the work is here
    return found


def written_before(w: Touch, r: Touch, first: int = 0) -> Iterator[Any]:
    """The iterations of a read before which a store may write its element: more than do, where data decide."""
    import islpy

    for found in met_before(w, r, first):
        yield found.project_out(islpy.dim_type.set, len(r.leaf.names), len(w.names))


def met_before(w: Touch, r: Touch, first: int = 0) -> Iterator[Any]:
    """The iterations of a read, each with those of a store that may write its element before.

    What one iteration of all common loops writes comes first, what earlier rounds of the outermost one write last.
    Iterations that are apart find nothing of what others wrote, nor is asked what others of the `first` loops did.
    """
    if any(i.is_number and j.is_number and i != j for i, j in zip(w.indices, r.indices, strict=True)):
        return
    reader = {n: f"{v[:-2]}_r" for n, v in r.domain.names.items()}
    names = [reader[n] for n in r.leaf.names]
    common = 0
    for x, y in zip(w.leaf.loops, r.leaf.loops, strict=False):
        if x is not y:
            break
        common += 1
    ranges = ranges_of(w.leaf.loops), ranges_of(r.leaf.loops)
    own = [f"{w.domain.names[n]} = {reader[n]}" for n in w.buffer.private if n in w.domain.names and n in reader]
    same = [*own, *same_element(w.indices, r.indices, w.buffer.shape, w.domain.names, reader, *ranges)]
    pairs = [(w.domain.names[loop.name], reader[loop.name]) for loop in w.leaf.loops[:common]]
    apart = [k for k, loop in enumerate(w.leaf.loops[:common]) if loop.name in (*w.buffer.private, *w.buffer.apart)]
    rounds = range(max(first, apart[-1] + 1 if apart else 0), common)
    orders = [[*(f"{a} = {b}" for a, b in pairs[:k]), f"{pairs[k][0]} < {pairs[k][1]}"] for k in rounds]
    if w.leaf.place < r.leaf.place:
        orders.append([f"{a} = {b}" for a, b in pairs])
    # most reads find what their own iteration wrote, and sets without all the earlier ones are much smaller
    for order in reversed(orders):
        yield integer_set([*names, *w.names], [*w.constraints, *same, *order])
