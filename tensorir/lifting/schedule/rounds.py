"""Sources of reads by rounds of a loop: of the same one, of earlier ones, or in parts where some are of either."""

# islpy has no types of its own that say enough.
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorir.integers.affine import variable
from tensorir.lifting.dataflow.flow import Source, isl, sources_of

if TYPE_CHECKING:
    from tensorir.lifting.schedule.run import Run

__all__ = ["distances", "with_rounds_apart"]


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


def distances(run: Run, source: Source, dim: str) -> tuple[int, int]:
    """The least and the greatest distance of a read from what it reads along a loop, as far as their signs go."""
    i, relation, (k, j) = isl(), source.relation, _places(run, source, dim)
    ordered = [
        not relation.order_lt(i.dim_type.in_, k, i.dim_type.out, j).is_empty(),
        not relation.order_gt(i.dim_type.in_, k, i.dim_type.out, j).is_empty(),
        not relation.equate(i.dim_type.in_, k, i.dim_type.out, j).is_empty(),
    ]
    back, far, here = ordered
    return -1 if back else 0 if here else 1, 1 if far else 0 if here else -1


def _is_told(run: Run, source: Source, dim: str) -> bool:
    """Whether it is known if a value comes from the same round of a loop."""
    assert source.writer is not None
    names = run.statements[source.writer].names
    if dim not in names or variable(dim).minus(source.at[names.index(dim)]).is_number:
        return True
    least, most = distances(run, source, dim)
    return least > 0 or most < 0


def _split(run: Run, read: int, source: Source, dim: str) -> list[Source]:
    """A source in parts: of the same round of a loop, and of others."""
    i, relation, (k, j) = isl(), source.relation, _places(run, source, dim)
    assert source.writer is not None
    names, loops = run.statements[read].names, run.statements[source.writer].names
    return [
        part
        for at in ("equate", "order_gt", "order_lt")
        if not (some := getattr(relation, at)(i.dim_type.in_, k, i.dim_type.out, j)).is_empty()
        for part in sources_of(some, names, source.writer, loops=loops)
    ]


def _places(run: Run, source: Source, dim: str) -> tuple[int, int]:
    """Which variables of a read, and of the write that its value comes from, are those of a loop."""
    assert source.writer is not None
    reader = run.statements[int(source.relation.get_tuple_name(isl().dim_type.in_)[1:])]
    return reader.names.index(dim), run.statements[source.writer].names.index(dim)
