"""Steps arranged for the card: sums of products stay in registers, results go where they are wanted, tiles are freed.

A block that a core has for itself lies in a circular buffer of its own, which the computation both fills and empties.
It is full from the step that makes it to the last step that reads it; where it is made anew while it is full, the new
tiles are pushed behind the old ones, and these are popped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tenstorrent.kernels.nodes import Bind, Sync
from tensorir.tenstorrent.metal.steps import Item, Map, Product, Repeat, Step, When, read_by
from tensorir.tenstorrent.metal.tiles import Leaf, Number, is_zero
from tensorir.tir import nodes as n

__all__ = ["Accumulate", "Arranged", "Drop", "Made", "arranged"]


@dataclass(frozen=True, slots=True, eq=False)
class Accumulate:
    """The sum of all products of the body, in registers, from zeros or from what `start` holds, packed at the end."""

    dst: n.Buffer
    start: n.Buffer | None
    product: Product
    body: tuple[Item, ...]
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Drop:
    """The tiles of a block are popped: nothing reads them any more."""

    buffer: n.Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A step, and whether the block that it makes is full already."""

    step: Step | Accumulate
    replaces: bool


Arranged: TypeAlias = "Made | Sync | Bind | Drop | Repeat | When"


def arranged(
    items: Sequence[Item], own: Collection[n.Buffer], room: Mapping[n.Buffer, int], registers: int
) -> list[Arranged]:
    """The items with sums in registers where the `room` of their block suffices, and with blocks of `own` freed."""
    summed = _summed(items, room, registers)
    sunk = _sunk(summed, own)
    return _Freed(frozenset(own)).suite(sunk, frozenset(), set())


_Some: TypeAlias = "Item | Accumulate"


def _reads(item: _Some) -> Iterator[n.Buffer]:
    match item:
        case Accumulate(_, start, product):
            yield from (product.a, product.b, *(() if start is None else (start,)))
        case Repeat(body=body):
            for inner in body:
                yield from _reads(inner)
        case When(_, then, otherwise):
            for inner in (*then, *otherwise):
                yield from _reads(inner)
        case Sync() | Bind():
            pass
        case _:
            yield from read_by(item)


def _writes(item: _Some) -> Iterator[n.Buffer]:
    match item:
        case Repeat(body=body):
            for inner in body:
                yield from _writes(inner)
        case When(_, then, otherwise):
            for inner in (*then, *otherwise):
                yield from _writes(inner)
        case Sync() | Bind():
            pass
        case _:
            yield item.dst


def _touches(item: _Some, buffer: n.Buffer) -> bool:
    return buffer in _reads(item) or buffer in _writes(item)


def _summed(items: Sequence[Item], room: Mapping[n.Buffer, int], registers: int) -> list[_Some]:
    """Loops of which a product is the only step, and products alone, as sums in registers."""
    made: list[_Some] = []
    for item in items:
        product = _only_product(item)
        if product is not None and room[product.dst] <= registers and not (product.clear and item is not product):
            start: n.Buffer | None = None if product.clear else product.dst
            last = next((k for k in range(len(made) - 1, -1, -1) if _touches(made[k], product.dst)), None)
            if start is not None and last is not None:
                before = made[last]
                if isinstance(before, Map) and is_zero(before.value):
                    made.pop(last)  # registers are zeros when they are acquired
                    start = None
            body = item.body if isinstance(item, Repeat) else (item,)
            whole = (item,) if isinstance(item, Repeat) else body
            made.append(Accumulate(product.dst, start, product, whole, product.span))
            continue
        match item:
            case Repeat():
                made.append(replace(item, body=tuple(_summed(item.body, room, registers))))
            case When():
                then, otherwise = (tuple(_summed(x, room, registers)) for x in (item.then, item.otherwise))
                made.append(replace(item, then=then, otherwise=otherwise))
            case _:
                made.append(item)
    return made


def _only_product(item: Item) -> Product | None:
    """The product that is the only step of an item, at any depth of loops."""
    match item:
        case Product():
            return item
        case Repeat(body=body):
            steps = [inner for inner in body if not isinstance(inner, Sync | Bind)]
            return _only_product(steps[0]) if len(steps) == 1 else None
        case _:
            return None


def _sunk(items: Sequence[_Some], own: Collection[n.Buffer]) -> list[_Some]:
    """Blocks that are only copied on are made where the copy goes."""
    count = Counter(buffer for item in items for buffer in _reads(item))
    return _sunk_suite(items, frozenset(b for b in own if count[b] == 1))


def _sunk_suite(items: Sequence[_Some], once: frozenset[n.Buffer]) -> list[_Some]:
    made: list[_Some] = []
    for item in items:
        match item:
            case Map(dst, Leaf(source, "tile")) if source in once:
                place = next((k for k in range(len(made) - 1, -1, -1) if _touches(made[k], source)), None)
                if place is not None:
                    maker = made[place]
                    between = made[place + 1 :]
                    if (
                        not isinstance(maker, Repeat | When | Sync | Bind)
                        and source not in _reads(maker)
                        and not any(set(_writes(x)) for x in between)
                        and all(not isinstance(x, Sync) or x.action == "pop" for x in between)
                    ):
                        made[place] = replace(maker, dst=dst)
                        continue
                made.append(item)
            case Repeat():
                made.append(replace(item, body=tuple(_sunk_suite(item.body, once))))
            case When():
                then, otherwise = (tuple(_sunk_suite(x, once)) for x in (item.then, item.otherwise))
                made.append(replace(item, then=then, otherwise=otherwise))
            case _:
                made.append(item)
    return made


@dataclass(frozen=True, slots=True)
class _Freed:
    """Which blocks are full where, and where they are popped; `own` are those that the computation has for itself."""

    own: frozenset[n.Buffer]

    def live(self, items: Iterable[_Some], after: frozenset[n.Buffer]) -> frozenset[n.Buffer]:
        """The blocks whose contents at the beginning are read."""
        now = after
        for item in reversed(tuple(items)):
            match item:
                case Sync() | Bind():
                    pass
                case Repeat(body=body):
                    now |= self.live(body, now)
                    now |= self.live(body, now)
                case When(_, then, otherwise):
                    now = self.live(then, now) | self.live(otherwise, now)
                case _:
                    now = (now - {item.dst}) | (frozenset(_reads(item)) & self.own)
        return now

    def suite(self, items: Sequence[_Some], after: frozenset[n.Buffer], full: set[n.Buffer]) -> list[Arranged]:
        """The items with what frees blocks; `full` is what is full before, and becomes what is full behind."""
        made: list[Arranged] = []
        self._drop(made, full, self.live(items, after))
        for place, item in enumerate(items):
            then_live = self.live(items[place + 1 :], after)
            match item:
                case Sync() | Bind():
                    made.append(item)
                case Repeat():
                    around = then_live | self.live(item.body, then_live)
                    around |= self.live(item.body, around)
                    self._fill(made, full, around & frozenset(_writes(item)), item)
                    inner = set(full)
                    body = self.suite(item.body, around, inner)
                    self._drop(body, inner, frozenset(full))
                    made.append(replace(item, body=tuple(body)))
                case When():
                    self._fill(made, full, then_live & frozenset(_writes(item)), item)
                    sides = [set(full), set(full)]
                    bodies = [
                        self.suite(x, then_live, s) for x, s in zip((item.then, item.otherwise), sides, strict=True)
                    ]
                    for body, side in zip(bodies, sides, strict=True):
                        self._drop(body, side, then_live)
                    full &= then_live
                    then, otherwise = map(tuple, bodies)
                    made.append(replace(item, then=then, otherwise=otherwise))
                case _:
                    own = item.dst in self.own
                    made.append(Made(item, own and item.dst in full))
                    if own:
                        full.add(item.dst)
            self._drop(made, full, then_live)
        return made

    def _drop(self, made: list[Arranged], full: set[n.Buffer], live: frozenset[n.Buffer]) -> None:
        for buffer in sorted(full - live, key=lambda b: b.name):
            made.append(Drop(buffer))
            full.discard(buffer)

    def _fill(
        self, made: list[Arranged], full: set[n.Buffer], wanted: frozenset[n.Buffer], item: Repeat | When
    ) -> None:
        """Zeros for blocks that may be made inside, and are read behind: they are full on every way there."""
        for buffer in sorted(wanted - full, key=lambda b: b.name):
            made.append(Made(Map(buffer, Number(0.0)), replaces=False))
            full.add(buffer)
