"""A kernel as a list of tiles that move and computations on tiles: boxes of buffers, their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tensorir.runtime.errors import Span, refuse
from tensorir.tenstorrent.grid import number
from tensorir.tenstorrent.staging import staged
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import HANDLE, INT32, DataType
from tensorir.tir.tiles.operations import Atomic, Box, Copy, Im2col, Record, Transpose, is_tile, operation
from tensorir.tir.trees import children, walk

# What a part of a kernel is, in the words of a message.

_WORDS: Mapping[type[n.Node], str] = {
    n.Div: "a division", n.Mod: "a remainder", n.FloorDiv: "a division that rounds down", n.Add: "a sum",
    n.FloorMod: "a remainder that is never below 0", n.Sub: "a difference", n.Mul: "a product", n.Min: "a minimum",
    n.Max: "a maximum", n.EQ: "a comparison", n.NE: "a comparison", n.LT: "a comparison", n.LE: "a comparison",
    n.GT: "a comparison", n.GE: "a comparison", n.And: "a condition", n.Or: "a condition", n.Not: "a condition",
    n.Select: "a choice of two values", n.Ramp: "a vector", n.Broadcast: "a vector", n.Shuffle: "a vector",
    n.StringImm: "a text", n.Reduce: "a reduction", n.While: "a while loop", n.IfThenElse: "a condition",
    n.AssertStmt: "an assertion", n.Break: "the end of a loop", n.Continue: "the next iteration of a loop",
    n.Prefetch: "a prefetch", n.AllocateConst: "a constant array", n.Block: "a block", n.BlockRealize: "a block",
}  # fmt: skip


def in_words(node: n.Node) -> str:
    """An expression or a statement in words.

    >>> from tensorir.tir.dtypes import INT32
    >>> in_words(n.Evaluate(n.Call(INT32, "prefetch", ())))
    'T.prefetch'
    >>> in_words(n.While(n.IntImm(1, INT32), n.Evaluate(n.IntImm(0, INT32))))
    'a while loop'
    """
    match node:
        case n.Call(op=n.GlobalVar(name)):
            return f"a call of {name!r}"
        case n.Call(op=op):
            return f"T.{op}"
        case n.Evaluate(value):
            return in_words(value)
        case n.Cast(value, dtype):
            return f"a conversion of {value.dtype} to {dtype}"
        case n.Var(name):
            return repr(name)
        case n.For(var):
            return f"the loop over {var.name!r}"
        case n.Let(var) | n.LetStmt(var):
            return f"the name {var.name!r}"
        case n.AttrStmt(attr_key=key):
            return f"the attribute {key!r}"
        case n.BufferLoad(buffer):
            return f"a load of {buffer.name!r}"
        case n.BufferStore(buffer, predicate=predicate):
            return f"a store to {buffer.name!r}" + ("" if predicate is None else " under a predicate")
        case n.AllocBuffer(buffer) | n.DeclBuffer(buffer) | n.BufferRealize(buffer):
            return f"the buffer {buffer.name!r}"
        case _:
            return _WORDS.get(type(node), f"{type(node).__name__} of TIR")


# A kernel as a list of tiles that move, computations on tiles, and the control around them.

_MOVES = (Copy, Transpose, Im2col, Atomic)


@dataclass(frozen=True, slots=True)
class Move:
    """A tile between memory and the core; `kind` is "load", "store" or "through"."""

    kind: str
    record: Copy | Transpose | Im2col | Atomic
    call: n.Call


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    statement: n.Stmt


@dataclass(frozen=True, slots=True, eq=False)
class Control:
    """A loop (`var` and two bounds), a branch (a condition) around items, or a name (a variable and a value)."""

    node: n.For | n.IfThenElse | n.LetStmt
    bodies: tuple[tuple[Item, ...], ...]


Item = Move | Compute | Control


def items_of(func: n.PrimFunc, body: n.Stmt) -> tuple[Item, ...]:
    outer = set(func.buffer_map.values())
    memory = {buffer.data for buffer in outer}
    # views of memory are memory
    outer |= {v.buffer for v in walk(body) if isinstance(v, n.DeclBuffer) and v.buffer.data in memory}
    tiles = {buffer.data for names in names_of_tiles(body).values() for buffer in names}
    moving = _moving(body, outer)

    def of(node: n.Stmt) -> list[Item]:
        match node:
            case n.SeqStmt(parts):
                return [item for part in parts for item in of(part)]
            case n.BlockRealize(_, _, block) if not block.iter_vars and not block.match_buffers and block.init is None:
                return of(block.body)
            case n.AttrStmt(body=inner):
                return of(inner)
            case n.AllocBuffer() | n.Evaluate(n.IntImm()):
                return []
            case n.Allocate(condition=n.IntImm(1)):
                return []
            case n.DeclBuffer(buffer) if buffer in outer or (buffer.data in tiles and _is_plain(buffer)):
                return []
            case n.LetStmt():
                _plain(node.value, node.span)
                return [Control(node, ())]
            case n.For() if id(node) in moving:
                _plain(node.min, node.span)
                _plain(node.extent, node.span)
                if node.kind is n.ForKind.PARALLEL:
                    message = "tiles are moved in parallel here."
                    raise refuse("TN07", message, "load tiles in a serial loop.", at=node.span)
                return [Control(node, (tuple(of(node.body)),))]
            case n.IfThenElse() if id(node) in moving:
                _plain(node.condition, node.span)
                cases = (node.then_case,) if node.else_case is None else (node.then_case, node.else_case)
                return [Control(node, tuple(tuple(of(case)) for case in cases))]
            case n.Evaluate(n.Call(op="elided", args=(n.StringImm(what), *_))):
                message = f"the text leaves out what stands here: {what}."
                help = 'write it out; a product is value={"A": a, "B": b, "C": c}.'
                raise refuse("TN07", message, help, at=node.span)
            case n.Evaluate(n.Call() as call) if is_tile(call) and (move := _move(call, outer)) is not None:
                return [move]
            case (
                n.For()
                | n.IfThenElse()
                | n.BufferStore()
                | n.Evaluate()
                | n.AssertStmt()
                | n.While()
                | n.Break()
                | n.Continue()
            ):
                _stays(node)
                if (parts := staged(node, outer)) is None:
                    return [Compute(node)]
                loads = [Move("load", _moved(call), call) for call in parts.loads]
                stores = [Move("store", _moved(call), call) for call in parts.stores]
                return [*loads, Compute(parts.statement), *stores]
            case _:
                message = f"{in_words(node)} is neither a tile that moves nor a computation on tiles."
                raise refuse("TN07", message, "write the kernel with T.copy, tile operations and loops.", at=node.span)

    return tuple(of(body))


def names_of_tiles(body: n.Stmt) -> dict[n.Var, list[n.Buffer]]:
    """The buffers over each memory that a kernel allocates: several where one is a view of another."""
    found: dict[n.Var, list[n.Buffer]] = {}
    allocated: set[n.Var] = set()
    for node in walk(body):
        match node:
            case n.AllocBuffer(buffer):
                found.setdefault(buffer.data, []).append(buffer)
                allocated.add(buffer.data)
            case n.Block():
                for buffer in node.alloc_buffers:
                    found.setdefault(buffer.data, []).append(buffer)
                    allocated.add(buffer.data)
            case n.Allocate(var):
                allocated.add(var)
            case n.DeclBuffer(buffer):
                found.setdefault(buffer.data, []).append(buffer)
            case _:
                pass
    return {data: names for data, names in found.items() if data in allocated}


def _is_plain(buffer: n.Buffer) -> bool:
    """True if a view begins where its memory does, and lies row by row."""
    offset = buffer.elem_offset
    step = 1
    for extent, stride in zip(reversed(buffer.shape), reversed(buffer.strides), strict=False):
        if not (isinstance(extent, n.IntImm) and isinstance(stride, n.IntImm) and stride.value == step):
            return False
        step *= extent.value
    return offset is None or (isinstance(offset, n.IntImm) and offset.value == 0)


def _moved(call: n.Call) -> Copy | Atomic:
    record = operation(call)
    assert isinstance(record, Copy | Atomic)
    for box in (record.src, record.dst):
        for start in box.starts:
            _plain(start, call.span)
    return record


def _stays(node: n.Stmt) -> None:
    """Refuse a computation that leaves a loop around it, or the kernel: the other programs would go on."""
    pending: list[tuple[n.Node, bool]] = [(node, False)]
    while pending:
        current, inside = pending.pop()
        match current:
            case n.Break() | n.Continue():
                leaves = not inside
            case n.Call(op="break_loop" | "continue_loop"):
                leaves = not inside
            case n.Call(op="ret" | "thread_return"):
                leaves = True
            case _:
                leaves = False
        if leaves:
            span = current.span if isinstance(current, n.Stmt | n.Expr) else node.span
            raise refuse("TN08", "a loop in which tiles move is left here, and only the computation knows when.",
                "let the loop run to its end, and choose what is stored by a condition.", at=span)  # fmt: skip
        within = inside or isinstance(current, n.For | n.While)
        if not isinstance(current, n.Buffer):
            pending.extend((child, within) for child in children(current))


def _moving(body: n.Stmt, outer: set[n.Buffer]) -> set[int]:
    """The loops and branches below which tiles move, by identity: around moves, and around nests that use memory."""
    found: set[int] = set()
    tiled: set[int] = set()
    nests: list[tuple[n.For | n.IfThenElse, ...]] = []
    pending: list[tuple[n.Node, tuple[n.For | n.IfThenElse, ...]]] = [(body, ())]
    while pending:
        node, above = pending.pop()
        match node:
            case n.Evaluate(n.Call() as call) if is_tile(call):
                tiled.update(map(id, above))
                if _move(call, outer) is not None:
                    found.update(map(id, above))
            case n.SeqStmt(parts):
                pending.extend((p, above) for p in parts)
            case n.BlockRealize():
                pending.append((node.block.body, above))
            case n.AttrStmt():
                pending.append((node.body, above))
            case n.For():
                pending.append((node.body, (*above, node)))
            case n.IfThenElse():
                cases = [c for c in (node.then_case, node.else_case) if c is not None]
                pending.extend((c, (*above, node)) for c in cases)
            case n.While() if any(isinstance(p, n.Call) and is_tile(p) and _move(p, outer) for p in walk(node)):
                message = "tiles are moved in a while loop, and the reader does not know when it ends."
                raise refuse("TN08", message, "write a loop whose extent is known: for k in T.serial(n).", at=node.span)
            case n.BufferStore() | n.Evaluate() if any(
                isinstance(p, n.BufferLoad | n.BufferStore) and p.buffer in outer for p in walk(node)
            ):
                nests.append(above)
            case _:
                pass
    for above in nests:
        found.update(map(id, above[: _nest(above, tiled)]))
    return found


def _nest(above: tuple[n.For | n.IfThenElse, ...], tiled: set[int]) -> int:
    """The beginning of a statement's nest: its outermost parallel loop, or else the outermost one of known extents."""
    for place, node in enumerate(above):
        if isinstance(node, n.For) and node.kind is n.ForKind.PARALLEL:
            return place
    for place, node in enumerate(above):
        inner = [x for x in above[place:] if isinstance(x, n.For)]
        if inner[:1] == [node] and id(node) not in tiled and all(isinstance(x.extent, n.IntImm) for x in inner):
            return place
    return len(above)


def _move(call: n.Call, outer: set[n.Buffer]) -> Move | None:
    record = operation(call)
    if not isinstance(record, _MOVES):
        for box in _boxes(record):
            if box.buffer in outer:
                message = f"T.{call.op} works on {box.buffer.name!r} itself, and a core computes on its tiles."
                help = "copy it into a tile first, or from one afterwards: T.copy."
                raise refuse("TN07", message, help, at=call.span)
        return None
    ends = record.src.buffer in outer, record.dst.buffer in outer
    if ends == (False, False):
        return None
    for box in (record.src, record.dst):
        for expr in (*box.starts, *box.extents):
            _plain(expr, call.span)
    if isinstance(record, Im2col):
        _plain(record.row, call.span)
        _plain(record.column, call.span)
    kind = {(True, False): "load", (False, True): "store", (True, True): "through"}[ends]
    if (kind == "load" and isinstance(record, Atomic)) or (kind == "through" and not isinstance(record, Copy | Atomic)):
        message = f"T.{call.op} takes {record.src.buffer.name!r} from memory itself."
        raise refuse("TN07", message, "copy it into a tile first: T.copy.", at=call.span)
    return Move(kind, record, call)


def _boxes(record: Record) -> list[Box]:
    names = ("a", "b", "c", "src", "dst")
    return [box for name in names if isinstance(box := getattr(record, name, None), Box)]


def _plain(expr: n.Expr, span: Span) -> None:
    """Refuse what depends on the contents of buffers: the reader and the writer do not see tiles."""
    for part in walk(expr):
        if isinstance(part, n.BufferLoad):
            message = f"{part.buffer.name!r} decides here which tiles are moved, and only the computation sees it."
            help = "let loops, conditions and indices depend on the tile's number only."
            raise refuse("TN08", message, help, at=span)


def uses(node: n.Node) -> tuple[set[n.Buffer], set[n.Buffer]]:
    """The buffers that a computation reads or writes, and those that it writes."""
    used: set[n.Buffer] = set()
    written: set[n.Buffer] = set()
    for part in walk(node):
        match part:
            case n.BufferLoad(buffer):
                used.add(buffer)
            case n.BufferStore(buffer):
                used.add(buffer)
                written.add(buffer)
            case n.Call() if is_tile(part):
                record = operation(part)
                used |= {box.buffer for box in _boxes(record)}
                written |= {box.buffer for name in ("c", "dst") if isinstance(box := getattr(record, name, None), Box)}
            case n.Call(op="address_of" | "access_ptr", args=args):
                written |= {a.buffer for a in args if isinstance(a, n.BufferLoad)}
            case n.Buffer():
                used.add(part)
            case _:
                pass
    return used, written


# Boxes of buffers, blocks that hold what is in them, and the calls that move one to the other.


def pages_of(func: n.PrimFunc, block: n.Buffer) -> int:
    """The number of tiles of the hardware that a block needs: along its last two dims, for each of the others."""
    high, wide = number(func, "tt_tile_height", "defaults"), number(func, "tt_tile_width", "defaults")
    sizes = [e.value if isinstance(e, n.IntImm) else 1 for e in block.shape]
    rows, columns = [1, 1, *sizes][-2:]
    return prod(sizes[:-2]) * -(-rows // high) * -(-columns // wide)


def is_whole(box: Box) -> bool:
    """True if a box is all of its buffer."""
    if len(box.extents) != len(box.buffer.shape):  # an edited program: the box was one of another buffer
        return False
    return all(isinstance(s, n.IntImm) and s.value == 0 for s in box.starts) and all(
        isinstance(e, n.IntImm) and isinstance(size, n.IntImm) and e.value == size.value
        for e, size in zip(box.extents, box.buffer.shape, strict=True)
    )


def extents_of(box: Box) -> tuple[int, ...]:
    return tuple(e.value if isinstance(e, n.IntImm) else 0 for e in box.extents)


def block_of(like: n.Buffer, box: Box, dtype: DataType) -> n.Buffer:
    """A block of a box's extents, named after a buffer, with memory of its own."""
    if any(not isinstance(e, n.IntImm) for e in box.extents):
        message = f"the tile of {box.buffer.name!r} has extents that only a call tells."
        raise refuse("TN07", message, "write the extents of the tile as numbers.", at=box.span)
    return own_block(like, "block", extents_of(box), dtype)


def own_block(like: n.Buffer, word: str, sizes: Sequence[int], dtype: DataType) -> n.Buffer:
    """A block that a core has for itself, named after a buffer, with memory of its own."""
    name = f"{like.name}_{word}"
    data = n.Var(name, n.PointerType(n.PrimType(dtype), "shared"), like.span)
    return n.Buffer(data, dtype, tuple(const(size, INT32) for size in sizes), name=name, span=like.span)


def all_of(block: n.Buffer) -> Box:
    return Box(block, tuple(const(0, INT32) for _ in block.shape), block.shape, block.span)


def region(box: Box, mode: int) -> n.Call:
    first = n.BufferLoad(box.buffer, box.starts, span=box.span)
    return n.Call(HANDLE, "region", (first, const(mode, INT32), *box.extents), span=box.span)


def with_box(call: n.Call, place: int, region: n.Call) -> n.Call:
    return replace(call, args=(*call.args[:place], region, *call.args[place + 1 :]))


def copy(src: n.Call, dst: n.Call, span: Span) -> n.Call:
    return n.Call(HANDLE, "copy", (src, dst), span=span)
