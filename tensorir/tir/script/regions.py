"""The regions that a block reads and writes, for text that leaves `T.reads` or `T.writes` out.

Every access is a box of its buffer: indices that depend on loops inside of the block are widened over those loops
where they are linear in them, and to the whole dimension otherwise. Boxes of one buffer are joined. Buffers that the
block allocates itself do not count, and neither do reads of what a reduction with an `init` updates.
"""

from __future__ import annotations

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.script.extents import linear
from tensorir.tir.walk import children, walk

__all__ = ["accessed"]


def accessed(block: n.Block) -> tuple[tuple[n.BufferRegion, ...], tuple[n.BufferRegion, ...]]:
    """The regions that the block reads, and those that it writes, in the order of the text."""
    own = set(block.alloc_buffers)
    sources = {match.buffer: match.source for match in block.match_buffers}
    reads: dict[n.Buffer, list[n.Range]] = {}
    writes: dict[n.Buffer, list[n.Range]] = {}
    pending: list[tuple[n.Node, dict[n.Var, n.Range]]] = []
    if block.init is not None:
        pending.append((block.init, {}))
    pending.insert(0, (block.body, {}))
    while pending:
        node, loops = pending.pop()
        match node:
            case n.For():
                inner = {**loops, node.loop_var: n.Range(node.min, node.extent)}
                pending += [(node.body, inner), (node.extent, loops), (node.min, loops)]
                continue
            case n.BlockRealize():
                _nested(node, loops, reads, writes, own)
                pending.extend((value, loops) for value in node.values)
                continue
            case n.AllocBuffer(buffer) | n.DeclBuffer(buffer):
                own.add(buffer)
            case n.BufferStore():
                _access(writes, node.buffer, tuple(node.indices), loops)
                pending += [(index, loops) for index in reversed(node.indices)]
                pending.append((node.value, loops))
                continue
            case n.BufferLoad():
                _access(reads, node.buffer, tuple(node.indices), loops)
                pending.extend((index, loops) for index in reversed(node.indices))
                continue
            case n.LetStmt(_, value):
                pending.append((value, loops))
                continue
            case _:
                pass
        if not isinstance(node, n.Var | n.Buffer):
            pending.extend((child, loops) for child in reversed(list(children(node))))
    for buffer, region in sources.items():
        for table in (reads, writes):
            if table.pop(buffer, None) is not None:
                _join(table, region.buffer, list(region.region))
    if block.init is not None:
        for buffer in list(reads):
            if buffer in writes:
                del reads[buffer]
    return _regions(reads, own), _regions(writes, own)


def _regions(table: dict[n.Buffer, list[n.Range]], own: set[n.Buffer]) -> tuple[n.BufferRegion, ...]:
    return tuple(n.BufferRegion(buffer, tuple(box)) for buffer, box in table.items() if buffer not in own)


def _nested(
    node: n.BlockRealize,
    loops: dict[n.Var, n.Range],
    reads: dict[n.Buffer, list[n.Range]],
    writes: dict[n.Buffer, list[n.Range]],
    own: set[n.Buffer],
) -> None:
    """What a block inside declares, with its iterators replaced by their values."""
    from tensorir.tir.walk import substitute

    values = {it.var: value for it, value in zip(node.block.iter_vars, node.values, strict=False)}
    for table, regions in ((reads, node.block.reads), (writes, node.block.writes)):
        for region in regions:
            box = [
                _widen(n.Range(substitute(part.min, values), substitute(part.extent, values)), loops, size)
                for part, size in zip(region.region, region.buffer.shape, strict=True)
            ]
            if region.buffer not in own:
                _join(table, region.buffer, box)


def _access(
    table: dict[n.Buffer, list[n.Range]],
    buffer: n.Buffer,
    indices: tuple[n.Expr, ...],
    loops: dict[n.Var, n.Range],
) -> None:
    box: list[n.Range] = []
    for index, size in zip(indices, buffer.shape, strict=False):
        match index:
            case n.Ramp(base, n.IntImm(step), int(lanes)) if step > 0:
                part = n.Range(base, const(step * (lanes - 1) + 1, base.dtype))
            case n.Ramp():
                part = n.Range(const(0, size.dtype), size)
            case _:
                part = n.Range(index, const(1, index.dtype))
        box.append(_widen(part, loops, size))
    _join(table, buffer, box)


def _widen(part: n.Range, loops: dict[n.Var, n.Range], size: n.Expr) -> n.Range:
    """The range over all iterations of the loops that it depends on."""
    used = [var for node in walk(part) if isinstance(node, n.Var) and (var := node) in loops]
    if not used:
        return part
    total = linear(part.min)
    low: object = part.min
    length: object = part.extent
    for var in dict.fromkeys(used):
        factor = total.get(var)
        others = any(atom is not None and atom is not var and var in set(walk(atom)) for atom in total)
        match loops[var]:
            case n.Range(first, n.IntImm(count)) if factor and factor > 0 and not others:
                from tensorir.tir.walk import substitute

                assert isinstance(low, n.Expr)
                low = _resummed(substitute(low, {var: first}))
                length = binary("+", length, factor * (count - 1))
            case _:
                return n.Range(const(0, size.dtype), size)
    assert isinstance(low, n.Expr) and isinstance(length, n.Expr)
    return n.Range(low, length)


def _resummed(expr: n.Expr) -> n.Expr:
    """A linear expression as a sum of its terms, without those that vanished."""
    total = linear(expr)
    result: object = 0
    for atom, factor in total.items():
        if atom is not None and factor:
            result = binary("+", result, binary("*", atom, factor)) if result != 0 else binary("*", atom, factor)
    constant = total.get(None, 0)
    if not isinstance(result, n.Expr):
        return const(constant, expr.dtype)
    summed = binary("+", result, constant) if constant else result
    assert isinstance(summed, n.Expr)
    return summed


def _join(table: dict[n.Buffer, list[n.Range]], buffer: n.Buffer, box: list[n.Range]) -> None:
    if buffer not in table:
        table[buffer] = box
        return
    table[buffer] = [_union(a, b, size) for a, b, size in zip(table[buffer], box, buffer.shape, strict=True)]


def _union(a: n.Range, b: n.Range, size: n.Expr) -> n.Range:
    """The smallest range that holds both, where their distance is a constant; else the whole dimension."""
    if a == b:
        return a
    distance = linear(b.min)
    for atom, factor in linear(a.min).items():
        distance[atom] = distance.get(atom, 0) - factor
    shift = distance.pop(None, 0)
    match a.extent, b.extent:
        case n.IntImm(x), n.IntImm(y) if not any(distance.values()):
            low, start = (a.min, 0) if shift >= 0 else (b.min, shift)
            return n.Range(low, const(max(x, shift + y) - start, low.dtype))
        case _:
            return n.Range(const(0, size.dtype), size)
