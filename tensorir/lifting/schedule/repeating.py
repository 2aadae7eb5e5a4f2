"""Whiles and external functions on whole buffers: loops over what they write, their rounds decided anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tensorir.ir.build import call, function, literal, var
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, Dims, TensorType
from tensorir.lifting.dataflow.opaque import Opaque
from tensorir.lifting.dataflow.statements import Statement, Uncovered
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.tensors import renamed, spread
from tensorir.lifting.nests.terms import Buffer
from tensorir.lifting.region.nodes import External, While
from tensorir.lifting.schedule.decided import Decided
from tensorir.runtime.errors import Span

if TYPE_CHECKING:
    from tensorir.lifting.schedule.run import Run

__all__ = ["looped", "repeated"]


def repeated(run: Run, writes: Sequence[Statement]) -> None:
    """Make the tensors of what a while, or an external function, writes: some of the buffers, in one iteration."""
    parts = writes[0].opaque
    assert parts is not None
    buffers: dict[str, Buffer] = {}
    before: dict[str, Expr] = {}
    for name, result in parts.before.items():
        r = run.statements[run.writers[result]]
        buffer = buffers[name] = Buffer(name, r.buffer.element, r.buffer.shape)
        names = run.emitter.dims_of(buffer)
        x = renamed(run.read(r, {}), dict(zip((n for n, _ in r.own), names, strict=True)))
        before[name] = spread(x, run.emitter.intervals(buffer))
    after = (
        _called(run, parts, buffers, before) if isinstance(parts.node, External) else _loop(run, parts, buffers, before)
    )
    for s in writes:
        x = after[s.buffer.name]
        for guard in reversed(parts.guards):
            x = call("if", run.emitter.emit(run.as_term(guard, {}), {}), x, before[s.buffer.name])
        names = run.emitter.dims_of(buffers[s.buffer.name])
        own = dict(s.own)
        x = spread(renamed(x, dict(zip(names, own, strict=True))), own)
        run.made[s.number] = run.keep(run.emitter, s.buffer.name, x, own)
        if isinstance(parts.node, While) and s is writes[0]:
            run.decided.append(Decided(parts.node.title, "sequential", s, parts.node.reason))


def _called(run: Run, parts: Opaque, buffers: Mapping[str, Buffer], before: Mapping[str, Expr]) -> dict[str, Expr]:
    node = parts.node
    assert isinstance(node, External)
    if node.make is None:
        raise Uncovered(f"{node.name}, which nobody knows")
    made = node.make(*(before[b.name] for b in node.reads))
    names = run.emitter.dims_of(buffers[node.reads[0].name])
    return {
        b.name: renamed(x, dict(zip(names, run.emitter.dims_of(buffers[b.name]), strict=True)))
        for b, x in zip(node.writes, made, strict=True)
    }


def _loop(run: Run, parts: Opaque, buffers: Mapping[str, Buffer], before: Mapping[str, Expr]) -> dict[str, Expr]:
    node, emitter = parts.node, run.emitter
    assert isinstance(node, While) and parts.condition is not None and parts.body is not None and parts.goes is not None
    carried = [b.name for b in parts.written]
    constant = {buffers[n]: x for n, x in before.items() if n not in carried}

    def variables() -> list[Var]:
        """The number of a round, and what buffers hold before it."""
        types = [TensorType(buffers[n].element, Dims(tuple(emitter.intervals(buffers[n]).items()))) for n in carried]
        return [
            var(run.fresh(n), t)
            for n, t in zip(["step", *(f"{n}_now" for n in carried)], [TensorType(INT32), *types], strict=True)
        ]

    def inside(now: Sequence[Var]) -> Emitter:
        return emitter.inside({**constant, **{buffers[n]: x for n, x in zip(carried, now, strict=True)}}, {}, {})

    i, *now = variables()
    inner = inside(now)
    values, decided = run.part(parts.body, inner, dict(buffers), run.exact, run.masked, asked=carried)
    new = [values.get(n, x) for n, x in zip(carried, now, strict=True)]
    j, *found = variables()
    goes = Buffer(parts.goes.name, BOOL, ())
    asks = inside(found)
    going, _ = run.part(parts.condition, asks, {**buffers, goes.name: goes}, run.exact, run.masked, asked=[goes.name])
    made = looped(
        run,
        inner,
        [i, *now],
        new,
        [before[n] for n in carried],
        node.span,
        ([j, *found], asks.asserting(going[goes.name])),
        node.most,
    )
    run.decided += decided
    return dict(zip(carried, made, strict=True))


def looped(
    run: Run, inner: Emitter, params: Sequence[Var], new: Sequence[Expr], first: Sequence[Expr], span: Span,
    going: tuple[Sequence[Var], Expr] | None, most: int | None,
) -> list[Expr]:  # fmt: skip
    """Rounds that each make new tensors of old ones, while a condition of them holds, as loops with one result each.

    What must hold in a round is a state of its own, which is always true.
    """
    before, goes = going or ([var(run.fresh(v.name), v.type) for v in params], literal(True, BOOL))
    if inner.asserted:
        fine, other = (var(run.fresh("holds"), TensorType(BOOL)) for _ in range(2))
        params, before = [*params, fine], [*before, other]
        new, first = [*new, inner.asserting(fine)], [*first, literal(True, BOOL)]
        count = len(new) - 1
    else:
        count = len(new)
    operands = (function(before, goes), function(params, *new), *first)
    made = [call("loop", *operands, static=(k, most), span=span) for k in range(len(new))]
    run.emitter.asserted += [(x, "an assertion of a loop fails.", span) for x in made[count:]]
    return made[:count]
