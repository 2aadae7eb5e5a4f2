"""The computation of a core as steps that make all tiles of a block, arranged for the card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tenstorrent.items import in_words, is_whole, own_block
from tensorir.tenstorrent.kernels.nodes import Barrier, Bind, Branch, Loop, Op, Program, Sync, Work
from tensorir.tenstorrent.metal.values import (
    TILE,
    Apply,
    Leaf,
    Number,
    Shapes,
    Tile,
    Values,
    converted,
    extents,
    is_only,
    is_zero,
    kind_of_type,
    leaves,
)
from tensorir.tir import nodes as n
from tensorir.tir.tiles.operations import Box, Copy, Fill, Gemm, Nothing, Reduce, Transpose, is_tile, operation
from tensorir.tir.trees import walk

# What a core computes, as steps that each make all tiles of one block: maps, products, folds and transposes.
#
# A loop nest over the elements of tiles becomes a map: an expression of which every operand is a tile, a vector that
# is broadcast along the rows or the columns of a tile, or a number. What has no such form is refused where it stands.


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Every tile of `dst` is the value, element by element."""

    dst: n.Buffer
    value: Tile
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """dst = (0 where `clear`, else dst) + a · b, or a · bᵀ where `turned`."""

    a: n.Buffer
    b: n.Buffer
    dst: n.Buffer
    turned: bool
    clear: bool
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """The sums or maxima of `src` over its columns (dim 1) or its rows (dim 0)."""

    src: n.Buffer
    dst: n.Buffer
    kind: Literal["sum", "max"]
    dim: int
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """dst is src transposed."""

    src: n.Buffer
    dst: n.Buffer
    span: Span = field(default=NOWHERE, repr=False)


Step: TypeAlias = Map | Product | Fold | Turn


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """A loop around items."""

    var: n.Var
    start: n.Expr
    extent: n.Expr
    body: tuple[Item, ...]


@dataclass(frozen=True, slots=True, eq=False)
class When:
    """One of two lists of items."""

    condition: n.Expr
    then: tuple[Item, ...]
    otherwise: tuple[Item, ...]


Item: TypeAlias = Step | Sync | Bind | Repeat | When


def read_by(step: Step) -> tuple[n.Buffer, ...]:
    """The blocks that a step reads: what a product or a fold adds to is among them."""
    match step:
        case Map(_, value):
            return tuple(dict.fromkeys(leaf.buffer for leaf in leaves(value)))
        case Product(a, b, dst, _, clear):
            return (a, b) if clear else (a, b, dst)
        case Fold(src) | Turn(src):
            return (src,)


def steps_of(program: Program, shapes: Shapes) -> tuple[Item, ...]:
    """The computation of a program as steps; raises TN16 for what the card has no call for."""
    reader = _Reader(shapes, frozenset(queue.block for queue in program.buffers), program.func.params)
    made = tuple(reader.suite(program["compute"].body))
    for product in reader.first:
        raise refuse("TN16", "whether this product begins anew is known when it runs only.", _FIRST, at=product.span)
    return made


_FIRST = "clear always, never, or in the first iteration of the loop around it, from 0: ko == 0."


@dataclass(slots=True)
class _Reader:
    """Reads the computation: `moved` are the blocks between kernels, `params` those of the program.

    The products of `first` begin anew in the first iteration of a loop.
    """

    shapes: Shapes
    moved: frozenset[n.Buffer]
    params: Collection[n.Var]
    first: dict[Product, n.Var] = field(default_factory=dict[Product, n.Var])

    def suite(self, body: Sequence[Op]) -> list[Item]:
        """The items of a body. A block that is filled is reserved and pushed by the step that packs it."""
        filled = {op.fills for op in body if isinstance(op, Work)} - {None}
        made: list[Item] = []
        for op in body:
            match op:
                case Sync(action, buffer) if action in ("reserve", "push"):
                    if buffer not in filled:
                        message = f"{buffer} is {'reserved' if action == 'reserve' else 'pushed'} and not filled here."
                        raise refuse("TN16", message, "emit the program that ti.tt.split made.", at=op.span)
                case Sync() | Bind():
                    made.append(op)
                case Barrier(way):
                    message = f"the computation moves nothing from or to memory, and waits here for its {way}s."
                    raise refuse("TN16", message, "leave barriers to the reader and the writer.", at=op.span)
                case Loop(var, start, extent, inner):
                    made.extend(self.loop(var, start, extent, self.suite(inner)))
                case Branch(condition, then, otherwise):
                    made.append(When(condition, tuple(self.suite(then)), tuple(self.suite(otherwise))))
                case Work(statement):
                    made.extend(self.statement(statement))
        return made

    def loop(self, var: n.Var, start: n.Expr, extent: n.Expr, body: list[Item]) -> list[Item]:
        """A loop; a product that begins anew in its first iteration adds to zeros that stand before the loop."""
        before: list[Item] = []
        kept: list[Item] = []
        for item in body:
            if isinstance(item, Product) and self.first.get(item) == var:
                if not (isinstance(start, n.IntImm) and start.value == 0):
                    message = "the first iteration, in which this product begins anew, is not 0."
                    raise refuse("TN16", message, _FIRST, at=item.span)
                before.append(Map(item.dst, Number(0.0), item.span))
                self.first.pop(item)
            kept.append(item)
        return [*before, Repeat(var, start, extent, tuple(kept))]

    def statement(self, node: n.Stmt) -> list[Item]:
        match node:
            case n.SeqStmt(parts):
                return [item for part in parts for item in self.statement(part)]
            case n.AttrStmt(body=inner):
                return self.statement(inner)
            case n.BlockRealize():
                return self.statement(node.block.body)
            case n.AllocBuffer() | n.Allocate() | n.DeclBuffer() | n.Evaluate(n.IntImm()):
                return []
            case n.Evaluate(n.Call() as call) if is_tile(call):
                return self.operation(call)
            case n.For():
                return self.nest(node)
            case n.BufferStore(_, _, indices) if all(isinstance(i, n.IntImm) for i in indices):
                return [self.store(node, (), node.span)]
            case _:
                message = f"{in_words(node)} on the elements of tiles has no call on the card."
                help = "compute whole tiles: nests over all elements, or tile operations."
                raise refuse("TN16", message, help, at=node.span)

    # Tile operations

    def operation(self, call: n.Call) -> list[Item]:
        record = operation(call)
        match record:
            case Copy(src, dst, None):
                moved = converted(Leaf(self.whole(src)), dst.buffer.dtype, call)
                return [Map(self.whole(dst), moved, call.span)]
            case Fill(dst, n.IntImm(value) | n.FloatImm(value)):
                kind = kind_of_type(dst.buffer.dtype) or "float"  # a type that has no format is refused where it lies
                number = Number(float(value) if kind == "float" else int(value), kind)
                return [Map(self.whole(dst), number, call.span)]
            case Gemm() | Reduce() | Transpose() if (other := self.integers(record)) is not None:
                message = f"T.{call.op} of {other.dtype} tiles has no call on the card."
                raise refuse("TN16", message, "make them float32 or bfloat16.", at=call.span)
            case Gemm(a, b, c, (upright, turned), clear):
                return self.product(a, b, c, (upright, turned), clear, call.span)
            case Reduce(src, dst, "sum" | "max" as kind, dim, n.IntImm(value=clear)):
                return self.fold(src, dst, kind, dim, bool(clear), call.span)
            case Reduce(kind=kind):
                message = f"T.reduce of {kind!r} has no call on the card, which has sums and maxima."
                help = "fold sums or maxima: of -x for minima, of T.abs(x) for those of sizes."
                raise refuse("TN16", message, help, at=call.span)
            case Transpose(src, dst):
                return [Turn(self.whole(src), self.whole(dst), call.span)]
            case Nothing():
                return []
            case _:
                help = "write it with copies, products, sums and maxima of tiles, and nests over all elements."
                raise refuse("TN16", f"T.{call.op} has no call on the card.", help, at=call.span)

    def whole(self, box: Box) -> n.Buffer:
        if not is_whole(box):
            message = f"a part of {box.buffer.name!r} is used here, and the card's calls take whole tiles in order."
            raise refuse("TN16", message, "copy the part into a tile of its own where it is loaded.", at=box.span)
        return box.buffer

    def integers(self, record: Gemm | Reduce | Transpose) -> n.Buffer | None:
        """A block of integers among those of an operation of the matrix unit."""
        boxes = (record.a, record.b, record.c) if isinstance(record, Gemm) else (record.src, record.dst)
        return next((box.buffer for box in boxes if not box.buffer.dtype.is_float), None)

    def product(self, a: Box, b: Box, c: Box, turned: tuple[bool, bool], clear: n.Expr, span: Span) -> list[Item]:
        """A product; the call transposes tiles of B, and A is transposed into a block of its own before."""
        left, right, sum = self.whole(a), self.whole(b), self.whole(c)
        before: list[Item] = []
        inner = self.shapes.of(left).rows if turned[0] else self.shapes.of(left).columns
        if inner % TILE and not {left, right} <= self.moved:
            message = f"{inner} elements are summed over, and what lies behind them in the last tile was computed."
            help = f"give both tiles {-(-inner // TILE) * TILE}, with zeros where nothing is."
            raise refuse("TN16", message, help, at=span)
        if turned[0]:
            left = own_block(left, "transposed", (*extents(left)[:-2], *reversed(extents(left)[-2:])), left.dtype)
            before = [Turn(self.whole(a), left, span)]
        match clear:
            case n.IntImm(value):
                return [*before, Product(left, right, sum, turned[1], bool(value), span)]
            case n.EQ(n.Var() as var, n.IntImm(0)) | n.EQ(n.IntImm(0), n.Var() as var):
                made = Product(left, right, sum, turned[1], False, span)
                self.first[made] = var
                return [*before, made]
            case _:
                raise refuse("TN16", "whether this product begins anew is known when it runs only.", _FIRST, at=span)

    def fold(self, src: Box, dst: Box, kind: Literal["sum", "max"], dim: int, clear: bool, span: Span) -> list[Item]:
        source, target, rank = self.whole(src), self.whole(dst), len(src.extents)
        along = dim - (rank - 2)
        if rank < 2 or along not in (0, 1):
            message = f"T.reduce along dim {dim} of {source.name!r} has no call on the card."
            help = "reduce along the rows or the columns of tiles: one of the last two dims."
            raise refuse("TN16", message, help, at=span)
        size = extents(source)[dim]
        if size % TILE:
            message = f"dim {dim} of {source.name!r} has {size} elements, and its last tile would be folded whole."
            help = f"give the tile {-(-size // TILE) * TILE}, and fill what is not there."
            raise refuse("TN16", message, help, at=span)
        if clear:
            return [Fold(source, target, kind, along, span)]
        # folded for itself, then joined: with the extents of a matrix, which lie as the vector does
        shape = self.shapes.of(target)
        part = own_block(target, "part", (shape.count * shape.rows, shape.columns), target.dtype)
        joined = Apply("add" if kind == "sum" else "max", (Leaf(target), Leaf(part)))
        return [Fold(source, part, kind, along, span), Map(target, joined, span)]

    # Nests over the elements of tiles

    def nest(self, node: n.For) -> list[Item]:
        """A nest as a map for each store in it, all elements of one before the next."""
        loops: list[tuple[n.Var, int]] = []
        body: n.Stmt = node
        while isinstance(body, n.For):
            if not (isinstance(body.min, n.IntImm) and body.min.value == 0 and isinstance(body.extent, n.IntImm)):
                message = f"the loop over {body.loop_var.name!r} is none over all elements of a tile."
                raise refuse("TN16", message, "let nests begin at 0 and end at the extents of tiles.", at=node.span)
            loops.append((body.loop_var, body.extent.value))
            body = body.body
        stores = list(_stores(body))
        _conditions_stay(body)
        made = [self.store(store, loops, node.span) for store in stores]
        written = {m.dst: place for place, m in enumerate(made)}
        for place, step in enumerate(made):
            for leaf in leaves(step.value):
                # what another iteration has written already, or not yet, is another value than its tile holds
                if leaf.over != "tile" and leaf.buffer in written and written[leaf.buffer] >= place:
                    message = f"{leaf.buffer.name!r} is read here while other elements of it are written."
                    raise refuse("TN16", message, "write into another tile.", at=stores[place].span)
        return list(made)

    def store(self, store: n.BufferStore, loops: Sequence[tuple[n.Var, int]], span: Span) -> Map:
        buffer = store.buffer
        at = [i for i, size in zip(store.indices, extents(buffer), strict=True) if not is_only(i, size)]
        wanted = [(i, size) for i, size in zip(store.indices, extents(buffer), strict=True) if i in at]
        if store.predicate is not None or {v: e for v, e in loops if e != 1 or v in at} != dict(wanted):
            message = f"not all elements of {buffer.name!r} are written here, each in its own iteration."
            help = "write every element of a tile: y[i, j] in loops over i and j."
            raise refuse("TN16", message, help, at=store.span)
        values = Values(self.shapes, buffer, [v for v in at if isinstance(v, n.Var)], self.params)
        value = values.of(store.value, store.span)
        return Map(buffer, converted(value, buffer.dtype, store.value), span)


def _stores(body: n.Stmt) -> Iterator[n.BufferStore]:
    """The stores of a nest; one under a condition keeps what its element has where that does not hold."""
    match body:
        case n.IfThenElse(condition, then, otherwise):
            for side, holds in ((then, True), (otherwise, False)):
                for store in () if side is None else _stores(side):
                    kept = n.BufferLoad(store.buffer, store.indices, span=store.span)
                    a, b = (store.value, kept) if holds else (kept, store.value)
                    yield replace(store, value=n.Select(condition, a, b, store.span))
        case n.SeqStmt(parts):
            for part in parts:
                yield from _stores(part)
        case n.BufferStore():
            yield body
        case n.AttrStmt(body=inner):
            yield from _stores(inner)
        case n.AllocBuffer() | n.DeclBuffer() | n.Evaluate(n.IntImm()):
            pass
        case _:
            message = f"{in_words(body)} on the elements of tiles has no call on the card."
            help = "compute whole tiles: nests over all elements, and conditions on them."
            raise refuse("TN16", message, help, at=body.span)


def _conditions_stay(body: n.Stmt) -> None:
    """Refuse a store under a condition that changes the condition of a store behind it: masks are made for each."""
    for part in walk(body):
        if not isinstance(part, n.IfThenElse):
            continue
        asked = {load.buffer for load in walk(part.condition) if isinstance(load, n.BufferLoad)}
        sides = [side for side in (part.then_case, part.else_case) if side is not None]
        stores = [store for side in sides for store in walk(side) if isinstance(store, n.BufferStore)]
        for store in stores[:-1]:
            if store.buffer in asked:
                message = f"{store.buffer.name!r} is changed here, and the condition of the next store asks for it."
                raise refuse("TN16", message, "write into another tile first.", at=store.span)


# Steps arranged for the card: sums of products stay in registers, results go where they are wanted, tiles are freed.
#
# A block that a core has for itself lies in a circular buffer of its own, which the computation both fills and
# empties. It is full from the step that makes it to the last step that reads it; where it is made anew while it is
# full, the new tiles are pushed behind the old ones, and these are popped.


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
    """The places where blocks are full, and where they are popped; `own` are those that the computation has for
    itself.
    """

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
