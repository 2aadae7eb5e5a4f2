"""Boxes of buffers, blocks that hold what is in them, and the calls that move one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tensorir.runtime.errors import Span
from tensorir.tenstorrent.grid import number
from tensorir.tenstorrent.items import refuse
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import HANDLE, INT32, DataType
from tensorir.tir.tiles.operations import Box

__all__ = ["all_of", "block_of", "copy", "extents_of", "is_whole", "own_block", "pages_of", "region", "with_box"]


def pages_of(func: n.PrimFunc, block: n.Buffer) -> int:
    """How many tiles of the hardware a block needs: along its last two dims, for each of the others."""
    high, wide = number(func, "tt_tile_height", "defaults"), number(func, "tt_tile_width", "defaults")
    sizes = [e.value if isinstance(e, n.IntImm) else 1 for e in block.shape]
    rows, columns = [1, 1, *sizes][-2:]
    return prod(sizes[:-2]) * -(-rows // high) * -(-columns // wide)


def is_whole(box: Box) -> bool:
    """Whether a box is all of its buffer."""
    return all(isinstance(s, n.IntImm) and s.value == 0 for s in box.starts) and all(
        isinstance(e, n.IntImm) and isinstance(size, n.IntImm) and e.value == size.value
        for e, size in zip(box.extents, box.buffer.shape, strict=True)
    )


def extents_of(box: Box) -> tuple[int, ...]:
    return tuple(e.value if isinstance(e, n.IntImm) else 0 for e in box.extents)


def block_of(like: n.Buffer, box: Box, dtype: DataType) -> n.Buffer:
    """A block of a box's extents, named after a buffer, with memory of its own."""
    if any(not isinstance(e, n.IntImm) for e in box.extents):
        refuse(f"the tile of {box.buffer.name!r} has extents that only a call tells.", box.span,
                "write the extents of the tile as numbers.")  # fmt: skip
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
