"""Loops that run step by step: `loop` over the buffers that are written, its body decided anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tensorir.integers.affine import number
from tensorir.ir.build import call, function, literal, var
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, Dims, Interval, TensorType
from tensorir.lifting.accesses.space import Space
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.stores import holding
from tensorir.lifting.emission.tensors import cut, renamed, spread
from tensorir.lifting.loops.report import Decision
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Store, While, is_true, leaves, ranges_of, written
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term, buffers_of, rebuilt
from tensorir.lifting.storage.copies import expanded
from tensorir.lifting.storage.filled import filled_first, writers_of
from tensorir.runtime.assembly import schedule_statements
from tensorir.runtime.errors import Span

if TYPE_CHECKING:
    from tensorir.lifting.loops.schedule import Region

__all__ = ["external", "step_by_step", "verified", "while_loop"]

ZERO = Number(0, INT32)
BOOL_FALSE = Number(False, BOOL)
MOST_ROUNDS = (1 << 31) - 1


def step_by_step(
    region: Region, loop: Loop, depth: int, members: Sequence[Leaf], handed: frozenset[Buffer] = frozenset()
) -> None:
    """Run a loop around statements one iteration after the other.

    Of `handed` buffers each iteration has a copy, which holds what was put there before, and which nobody reads later.
    """

    emitter = region.emitter
    inner, smaller = contracted([_without(m, depth) for m in members], loop.name, region.outside - handed)
    ranges = ranges_of((*members[0].loops[:depth], loop), emitter.ranges)
    low, extent = linear(loop.low, ranges), linear(loop.extent, ranges)
    assert low is not None and extent is not None
    if not (low.names | extent.names) <= emitter.outer.keys():
        # the bounds depend on loops that are dims: the widest ones, and guards
        index, element = Index(loop.name, loop.low.element), loop.low.element
        stop = Op("plus", (loop.low, loop.extent), element)
        bounds = Op("greater_equal", (index, loop.low), BOOL), Op("less", (index, stop), BOOL)
        inner = [_guarded(leaf, bounds) for leaf in inner]
        first_value, last_value = ranges[loop.name]
        low, extent = number(first_value), number(last_value - first_value + 1)
    first, count = emitter.sum(low, {}), emitter.sum(extent, {})
    # where data tell the number of rounds, its greatest value: reverse mode runs so many, the last ones doing nothing
    most = extent.range(emitter.ranges)
    limit = None if most is None or most[1] > MOST_ROUNDS else max(0, most[1])
    if limit == 0:
        return

    def body(inside: Emitter, i: Expr) -> None:
        inside.outer[loop.name] = i if low.is_number and not low.constant else call("plus", i, first)
        inside.ranges[loop.name] = ranges[loop.name]
        for old, (new, place) in smaller.items():
            if old in emitter.tensors:
                _hand_over(inside, old, new, place, Index(loop.name, INT32), ranges[loop.name][0])
        schedule_statements(replace(region, emitter=inside, steps=(*region.steps, loop)), inner)

    def going(inside: Emitter, i: Expr) -> Expr:
        return literal(True, BOOL) if extent.is_number else call("less", i, count)

    carry(region, _written(inner, members), body, going, limit, loop.span)


def while_loop(region: Region, node: While) -> None:
    """Run a while; under guards that do not hold it does not start."""

    guard = holding(node.guards)
    condition: Term = node.condition
    own = _of_one_round(region, node)
    rounds = expanded(node.body, own) if own else node.body

    def body(inside: Emitter, i: Expr) -> None:
        schedule_statements(replace(region, emitter=inside), leaves(rounds))

    def going(inside: Emitter, i: Expr) -> Expr:
        holds = condition if guard is None else Op("if", (guard, condition, BOOL_FALSE), BOOL)
        return inside.emit(holds, {})

    title = Loop("while", ZERO, ZERO, (), span=node.span, title="while")
    region.report.add(Decision(title, "sequential", "runs until its condition fails"))
    # values that live for one iteration are no state, unless somebody outside reads the last ones
    kept = [b for b in written(node.body) if b not in own and (not b.loops or b in region.outside)]
    carry(region, sorted(kept, key=lambda b: b.name), body, going, node.most, node.span)


def _of_one_round(region: Region, node: While) -> frozenset[Buffer]:
    """The buffers that nobody outside of a while touches, and that each round fills before it reads them."""
    inside = leaves(node.body)
    writers, asked = writers_of(inside), buffers_of(node.condition)
    found: set[Buffer] = set()
    for buffer in () if region.steps else written(node.body) - region.outside - asked:
        touching = [leaf for leaf in inside if buffer in leaf.read | leaf.written]
        opaque = any(isinstance(leaf.node, While | External) for leaf in touching)
        kept = buffer.argument or buffer.loops or buffer.value is not None or buffer.memory is not None
        if not (opaque or kept) and filled_first(buffer, touching, 0, writers):
            found.add(buffer)
    return frozenset(found)


def carry(
    region: Region, buffers: Sequence[Buffer], body: Callable[[Emitter, Expr], None],
    going: Callable[[Emitter, Expr], Expr], limit: int | None, span: Span,
) -> None:  # fmt: skip
    """A loop that carries buffers."""
    emitter = region.emitter
    start = [spread(emitter.tensor(b), emitter.intervals(b)) for b in buffers]
    i, *carried = _variables(emitter, buffers)
    inside = emitter.inside(dict(zip(buffers, carried, strict=True)), {}, {})
    body(inside, i)
    results = [inside.tensors[b] for b in buffers]
    j, *before = _variables(emitter, buffers)
    condition = going(emitter.inside(dict(zip(buffers, before, strict=True)), {}, {}), j)
    if inside.asserted:
        # what must hold is asked for whoever reads which buffer: it is a state of its own, and always true
        fine, other = (var(_fresh(emitter, "holds"), TensorType(BOOL)) for _ in range(2))
        carried, before = [*carried, fine], [*before, other]
        results, start = [*results, inside.asserting(fine)], [*start, literal(True, BOOL)]
    changed = [k for k, (r, c) in enumerate(zip(results, carried, strict=True)) if r is not c]
    operands = (function([j, *before], condition), function([i, *carried], *results), *start)
    for k in changed:
        made = call("loop", *operands, static=(k, limit), span=span)
        if k < len(buffers):
            emitter.tensors[buffers[k]] = made
        else:
            emitter.asserted.append((made, "an assertion of a loop fails.", span))


def _variables(emitter: Emitter, buffers: Sequence[Buffer]) -> list[Var]:
    """The number of a round, and what buffers hold before it."""
    types = [TensorType(b.element, Dims(tuple(emitter.intervals(b).items()))) for b in buffers]
    names = ["step", *(b.name for b in buffers)]
    return [var(_fresh(emitter, n), t) for n, t in zip(names, [TensorType(INT32), *types], strict=True)]


def _fresh(emitter: Emitter, name: str) -> str:
    k, found = 1, f"{name}_now" if name != "step" else name
    stem = found
    while found in emitter.taken:
        k += 1
        found = f"{stem}_{k}"
    emitter.taken.add(found)
    return found


def _guarded(leaf: Leaf, conditions: tuple[Term, ...]) -> Leaf:
    """A statement under further conditions."""
    return Leaf(replace(leaf.node, guards=(*conditions, *leaf.node.guards)), leaf.loops, leaf.place)


def _without(leaf: Leaf, depth: int) -> Leaf:
    """A statement inside of an iteration of one of its loops."""
    return Leaf(leaf.node, (*leaf.loops[:depth], *leaf.loops[depth + 1 :]), leaf.place)


def _written(inner: Sequence[Leaf], members: Sequence[Leaf]) -> list[Buffer]:
    """The buffers that iterations hand on: what they write, but for values that live in one iteration only."""
    found: dict[Buffer, None] = {}
    for leaf in inner:
        for buffer in sorted(leaf.written, key=lambda b: b.name):
            found[buffer] = None
    before = {b for m in members for b in m.written}
    return [b for b in found if b in before]


def _hand_over(inside: Emitter, old: Buffer, new: Buffer, place: int, index: Index, low: int) -> None:
    """What an iteration's copy of a buffer holds when the iteration begins, as a buffer of its own."""
    names = [f"{n}_" if n == index.name else n for n in inside.dims_of(old)]
    at: Term = Op("minus", (index, Number(low, INT32)), INT32) if low else index
    indices = tuple(at if k == place else Index(n, INT32) for k, n in enumerate(names))
    box = {n: Interval(0, size) for k, (n, size) in enumerate(zip(names, old.shape, strict=True)) if k != place}
    inside.names[new] = tuple(box)
    inside.tensors[new] = spread(cut(inside.emit(Load(old, indices), box), box), box)


def contracted(
    inner: list[Leaf], name: str, outside: frozenset[Buffer]
) -> tuple[list[Leaf], dict[Buffer, tuple[Buffer, int]]]:
    """Values that live for one iteration lose the dim of the loop, if nobody else touches them.

    Also gives each such buffer with the one in its place, and which dim it lost.
    """
    smaller: dict[Buffer, tuple[Buffer, int]] = {}
    for leaf in inner:
        node = leaf.node
        if not isinstance(node, Store) or node.buffer in smaller or node.buffer in outside:
            continue
        buffer = node.buffer
        dims = buffer.loops or buffer.copies
        if name in dims:
            place = dims.index(name)
            shape, rest = ((*of[:place], *of[place + 1 :]) for of in (buffer.shape, dims))
            new = (
                replace(buffer, shape=shape, loops=rest) if buffer.loops else replace(buffer, shape=shape, copies=rest)
            )
            smaller[buffer] = (new, place)
    if not smaller:
        return inner, {}

    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in smaller:
            new, place = smaller[t.buffer]
            return Load(new, (*t.indices[:place], *t.indices[place + 1 :]), t.span)
        return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    found: list[Leaf] = []
    for leaf in inner:
        node = leaf.node
        guards = tuple(map(over, node.guards))
        match node:
            case Store(buffer, indices, value, _, span):
                indices = tuple(map(over, indices))
                if buffer in smaller:
                    buffer, place = smaller[buffer]
                    indices = (*indices[:place], *indices[place + 1 :])
                found.append(Leaf(Store(buffer, indices, over(value), guards, span), leaf.loops, leaf.place))
            case Check(condition, message, _, span):
                found.append(Leaf(Check(over(condition), message, guards, span), leaf.loops, leaf.place))
            case While(condition, body, _, span, most) if not (leaf.read & smaller.keys()):
                found.append(Leaf(While(over(condition), body, guards, span, most), leaf.loops, leaf.place))
            case _:
                return inner, {}
    return found, smaller


def external(region: Region, node: External) -> None:
    """A known function of whole buffers."""
    emitter = region.emitter
    inputs = [spread(emitter.tensor(b), emitter.intervals(b)) for b in node.reads]
    guard = holding(node.guards)
    for buffer, made in zip(node.writes, node.make(*inputs), strict=True):
        new = made
        names = emitter.dims_of(buffer)
        new = renamed(new, dict(zip(emitter.dims_of(node.reads[0]), names, strict=True)))
        if guard is not None:
            new = call("if", emitter.emit(guard, {}), new, emitter.tensor(buffer))
        emitter.tensors[buffer] = new


def verified(region: Region, leaf: Leaf, node: Check, space: Space) -> None:
    """An assertion: an error where its condition fails, in programs that check."""
    emitter = region.emitter
    if space.empty or is_true(node.condition):
        return
    emitter.notes.append("assertion")
    if not emitter.checked:
        return
    guard = holding(space.guards)
    fails = emitter.emit(space.value, space.dims, guard)
    if guard is not None:
        fails = call("and", emitter.emit(guard, space.dims), fails)
    emitter.asserted.append((call("not", cut(fails, space.dims)), node.message, node.span))
