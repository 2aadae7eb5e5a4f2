"""What programs that check say: that places which data tell are inside, and that what must hold does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tensorir.ir.build import call
from tensorir.ir.types import BOOL, Interval
from tensorir.lifting.dataflow.flow import condition_of, domain_of, set_of
from tensorir.lifting.dataflow.statements import Statement
from tensorir.lifting.emission.stores import holding
from tensorir.lifting.emission.tensors import cut, renamed
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.terms import Number, Op, Term, children, index_names, loads
from tensorir.lifting.schedule.placed import Made, short_names
from tensorir.lifting.schedule.scattering import is_whole

if TYPE_CHECKING:
    from tensorir.lifting.schedule.run import Run

__all__ = ["all_of", "checked", "verify"]


def verify(run: Run, s: Statement, message: str) -> None:
    """An error where the value of a statement, which must hold, does not."""
    assert s.value is not None
    box, domain = run.box(s), domain_of(s)
    holds = condition_of(domain, set_of(run.boxes_of(s), domain, s.names), s.names)
    x = run.emitter.emit(settled(run.as_term(s.value, box), run.emitter.scope(box)), box, holds)
    if holds is not None:
        x = call("or", call("not", run.emitter.emit(holds, box)), x)
    run.emitter.asserted.append((renamed(cut(x, box), short_names(s)), message, s.span))


def checked(run: Run, s: Statement, box: Mapping[str, Interval], term: Term) -> Made:
    """The tensor of a write of what data say where to find, of which places count in its iterations alone."""
    ranges = run.emitter.ranges
    whole = {**run.boxes_of(s), **box, **{n: Interval(ranges[n][0], ranges[n][1] + 1) for n in run.steps}}
    domain = domain_of(s)
    holds = condition_of(domain, set_of(whole, domain, s.names), s.names) or Number(True, BOOL)
    found = run.placed(s, box, Op("values", (term, holds), BOOL))
    value, safe = children(found.space.value)
    # where conditions of the space hold, the one that is put beside the value is true
    safe = holding([*found.space.guards, *([] if isinstance(safe, Number) and safe.value else [safe])])
    return found.made(run.emitter, s.buffer.element, run.emitter.emit(value, found.space.dims, safe))


def all_of(run: Run, r: Statement, places: Mapping[str, tuple[Term, int]]) -> Term:
    """What a read of all elements finds, as what `places` along some of its dims are looked up in.

    Where it is checked that they are inside, it is one tensor that has these elements and no others.
    """
    found = run.found(r)
    if not run.emitter.checked or not any(loads(p) for p, _ in places.values()):
        return found
    if is_whole(found, places):
        return found
    used = index_names(found)
    here = {n: i for n, i in {**run.box(r), **dict(r.own)}.items() if n in used}
    return run.keep(run.emitter, r.buffer.name, run.read(r, here), here).at({}, {})
