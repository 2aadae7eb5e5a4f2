"""A region with tensor values as a fencil: parameters for its arguments, one closure per argument that is written.

>>> from tensorir.lifting.region import parse_region
>>> region = parse_region('''
... region twice {
...   argument A: float32[a=8];
...   argument B: float32[b=8];
...   for i in 0:4 independent {
...     t: tensor<float32, x[0:2]> ← A[2*i + x];
...     B[2*i + x] ← t + t;
...   }
... }''')
>>> print(batched(region).fencil)
twice(A: tensor<float32, b[0:8]>, B: tensor<float32, b[0:8]>) {
  B ← A + A;
}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, closure, fencil, literal, var
from tensorir.ir.nodes import Expr, Fencil, Var
from tensorir.ir.types import BOOL, FLOAT32, Scalar, TensorType
from tensorir.lifting.batched.abreast import abreast
from tensorir.lifting.batched.blocks import Scheduled, in_order_where_conflicting
from tensorir.lifting.batched.online import ONLINE, with_sums_scaled_once
from tensorir.lifting.dataflow.statements import Uncovered
from tensorir.lifting.emission.emit import Emitter, ordered_closures
from tensorir.lifting.emission.tensors import converted, cut, spread
from tensorir.lifting.nests.terms import Buffer as Memory
from tensorir.lifting.region.nodes import Buffer, Check, For, Region, Rule, While, walk
from tensorir.lifting.rewrites.canonical import by_parameters, tidied
from tensorir.lifting.schedule.order import values_of
from tensorir.lifting.schedule.run import Decided
from tensorir.runtime.errors import NOWHERE, Span, refuse


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a region as the parameter of a program: its type, and what it is of the other both ways."""

    type: TensorType
    taken: Callable[[Expr], Expr]
    given: Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Batched:
    """The program of a region, the arguments that it writes, and what was decided.

    `decided` has loops with how they run, and why; `merged` where sums of parts are one sum. `unchecked` says that a
    program that checks would differ.
    """

    fencil: Fencil
    written: tuple[str, ...]
    decided: tuple[tuple[For | While, str, str], ...]
    notes: tuple[str, ...]
    merged: tuple[Span, ...]
    unchecked: bool


@dataclass(frozen=True, slots=True)
class Unspecified:
    """Unspecified values that are read, and the region with others in their place."""

    what: str
    span: Span
    others: Sequence[Region]


def batched(
    region: Region, arguments: Mapping[str, Argument] | None = None, checked: bool = False, exact: bool = False,
    on_hazard: str = "error", raise_online: bool = False, unspecified: Unspecified | None = None,
) -> Batched:  # fmt: skip
    """The tensor program of a region. Raises TL12 for races that are proven, unless `on_hazard` is "sequential".

    With values that are `unspecified` it checks that no result shows them.
    """
    known = {b.name: (arguments or {}).get(b.name) or _plain(b) for b in region.buffers if b.argument}
    params = {n: var(n, a.type) for n, a in known.items()}
    memories = {b.name: Memory(b.name, b.element, b.shape, True) for b in region.buffers if b.argument}
    notes: list[str] = []
    first = _final(region, known, Emitter(checked=checked), params, memories, exact, on_hazard, raise_online, notes)
    values = dict(first.values)
    for other in () if unspecified is None else unspecified.others:
        assert unspecified is not None
        emitter = Emitter(checked=checked)
        filled = _final(other, known, emitter, params, memories, exact, on_hazard, raise_online, []).values
        for n, x in values.items():
            message = f"{unspecified.what} reaches '{n}'."
            values[n] = call("assert_", x, _alike(x, filled[n]), static=(message,), span=unspecified.span)
    order, stored = list(params.values()), [(memories[n], x) for n, x in values.items()]
    closures, further = ordered_closures(stored, order, Emitter(params={memories[n]: p for n, p in params.items()}))
    if not closures:
        nothing = var("nothing", TensorType(BOOL))
        order, closures = [*order, nothing], [closure(nothing, literal(False))]
    merged = list(first.merged)
    made = tidied(fencil(region.name, [*order, *further], closures), exact, merged, by_parameters)
    made = replace(made, buffers=frozenset(v.name for v in further))
    return Batched(made, tuple(values), first.decided, tuple(notes), tuple(merged), first.unchecked)


@dataclass(frozen=True, slots=True)
class _Final:
    """Final values of the arguments that a region writes, and the schedule of its loops."""

    values: Mapping[str, Expr]
    decided: tuple[tuple[For | While, str, str], ...]
    merged: tuple[Span, ...]
    unchecked: bool


def _final(
    region: Region, arguments: Mapping[str, Argument], emitter: Emitter, params: Mapping[str, Var],
    memories: dict[str, Memory], exact: bool, on_hazard: str, raise_online: bool, notes: list[str],
) -> _Final:  # fmt: skip
    emitter.taken |= params.keys()
    for b in region.buffers:
        if b.argument:
            emitter.names[memories[b.name]] = tuple(n for n, _ in b.dims)
            emitter.tensors[memories[b.name]] = arguments[b.name].taken(params[b.name])
    ordered, nests = in_order_where_conflicting(region.body, on_hazard, notes)
    scaled: set[str] = set()
    body = abreast(with_sums_scaled_once(ordered, {}, scaled) if raise_online else ordered)
    try:
        values, decided = values_of(replace(region, body=body), emitter, memories, exact)
    except Uncovered as reason:
        span = next((n.span for n in walk(body) if n.span is not NOWHERE), NOWHERE)
        raise refuse("TL40", f"this has no tensor program: {reason}.", at=span) from None
    found: dict[str, Expr] = {}
    for b in region.buffers:
        if b.argument and b.name in values:
            whole = {n: Interval(0, e) for n, e in b.dims}
            x = arguments[b.name].given(cut(spread(values[b.name], whole), whole))
            found[b.name] = x if found else emitter.asserting(x)
    loops = [n for n in walk(ordered) if isinstance(n, For | While)]
    sums = {d.dim for d in decided if d.reason.endswith(ROUNDED) and d.statement.buffer.element.is_float}
    merged = [n.span for n in loops if isinstance(n, For) and n.carried and n.dim in sums]
    unchecked = bool(emitter.notes) or any(isinstance(n, Check) for n in walk(body))
    return _Final(found, tuple(_decisions(loops, nests, decided, scaled)), tuple(merged), unchecked)


def _decisions(
    loops: Sequence[For | While], nests: Sequence[Scheduled], decided: Sequence[Decided], scaled: Set[str]
) -> Iterator[tuple[For | While, str, str]]:
    """Schedules of loops: of inner ones as their writes are made, of those of blocks as they may conflict."""
    by_loop: dict[str, list[Decided]] = {}
    for d in decided:
        by_loop.setdefault(d.dim, []).append(d)
    blocks = {met.loop.dim for met in nests}
    for node in loops:
        match node:
            case While():
                yield node, "sequential", "it runs until data end it"
            case For(dim) if node.rule is Rule.INDEPENDENT or dim in blocks:
                continue
            case For(dim) if dim in scaled:
                yield node, "reduction", ONLINE
            case For(dim):
                own = by_loop.get(dim, ())
                if not own or any(d.strategy in ("sequential", "scan") or d.reason.endswith(ROUNDS) for d in own):
                    yield node, "sequential", "what a round carries depends on the round before"
                else:
                    yield node, "reduction" if node.carried else "parallel", ""
    for met in nests:
        yield met.loop, "parallel" if met.reason is None else "sequential", met.reason or ""


ROUNDED = " by plus", " by multiplies"
"""The ends of reasons of folds that round."""

ROUNDS = "in the order of the loop"
"""The end of the reason of a fold whose rounds depend on each other."""


def _alike(x: Expr, y: Expr) -> Expr:
    """True if two results are one number, or, of floats that are not rounded in the same order, finite alike."""
    element = x.tensor.element
    if isinstance(element, Scalar) and element.is_float:
        x, y = (call("isfinite", converted(e, FLOAT32) if element.bits < 32 else e) for e in (x, y))
    return call("eq", x, y)


def _plain(b: Buffer) -> Argument:
    kind = TensorType(b.element, Dims(tuple((n, Interval(0, e)) for n, e in b.dims)))
    return Argument(kind, lambda x: x, lambda x: x)
