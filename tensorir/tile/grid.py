"""A picture of a launch: the arrays of a kernel, and over them what each block of the grid reads and writes.

>>> import numpy as np
>>> from tensorir.tile import parse
>>> module = parse('''
... entry @halves(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
...   %v = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
...   %w = make_tensor_view %q, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
...   %a = make_partition_view %v : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>
...   %b = make_partition_view %w : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>
...   %i, %j, %k = get_tile_block_id : tile<i32>
...   %x, %t = load_view_tko weak %a[%i] : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>, tile<i32>
...     -> tile<4xf32>, token
...   %u = store_view_tko weak %x, %b[%i] token = %t
...     : tile<4xf32>, partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>, tile<i32> -> token
... }''')
>>> x = np.zeros(8, np.float32)
>>> print(grid_picture(module, grid=2, args=(x, x)))
halves on 2 blocks
p, 8, read: block (0) at [0:4], block (1) at [4:8]
q, 8, written: block (0) at [0:4], block (1) at [4:8]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from tensorir.inspect.picture import INK, LINE, PALE, PAPER, Drawing, Picture, middle, width_of
from tensorir.ir.types import Interval
from tensorir.lifting.nests.affine import Affine
from tensorir.lifting.region.nodes import Atomic, Buffer, For, If, Index, Node, Read, Rule, While, Write
from tensorir.tile.interpret.launch import entry_of, grid_of
from tensorir.tile.nodes import Module

__all__ = ["grid_picture"]

MOST_BLOCKS = 256
"""Blocks that are drawn; of more every second one, or fewer."""
MOST_SAID = 4
"""Blocks of each array that the words have."""
MOST_BANDS = 64
"""Rows of a box of more than two dims that are drawn."""
SIDE = 220
"""The longer side of an array."""
LEAST = 16
"""The shorter side, where the array is much longer than wide."""
_HUES = (210, 25, 140, 280, 345, 175)
_KINDS = {"read": 0, "written": 1, "updated": 2}

Block = tuple[int, ...]
Box = tuple[Interval, ...]
Ranges = Mapping[str, tuple[int, int]]


def grid_picture(module: Module, *, entry: str | None = None, grid: Any = (1, 1, 1), args: Sequence[Any]) -> Picture:
    """The arrays of a launch, and over each which block of the grid reads, writes or updates what.

    The arguments are those of `ti.lift`. A block has the least box around the elements that it touches of an array; one
    that goes where data say has the whole array. Arrays of more than two dims are drawn row by row, one part under the
    other. `picture.data` has the boxes by array and kind, then by block. Raises what `ti.lift` raises of launches.
    """
    from tensorir.tile.lift.launch import signature
    from tensorir.tile.lift.translation import translated

    chosen = entry_of(module, entry)
    extents = grid_of(chosen, grid)
    form = signature(chosen, args)
    region = translated(module, chosen, extents, form.given(form.key(args))).region
    size = len(extents) - next((k for k, n in enumerate(reversed(extents)) if n > 1), len(extents) - 1)
    blocks = list(product(*(range(n) for n in extents[:size])))
    drawn = blocks[:: -(-len(blocks) // MOST_BLOCKS)]
    panels: dict[tuple[str, str], _Panel] = {}
    for block in drawn:
        ids = {name: (n, n) for name, n in zip(("bx", "by", "bz"), (*block, 0, 0), strict=False)}
        _look(region.body, ids, block, panels)
    ordered = sorted(panels.values(), key=lambda p: _KINDS[p.kind])
    shown = " by ".join(map(str, extents[:size])) + (" blocks" if len(blocks) > 1 else " block")
    if len(drawn) < len(blocks):
        shown += f", of which {len(drawn)} are drawn"
    title = f"{region.name} on {shown}"
    return _drawn(title, ordered)


@dataclass(slots=True)
class _Panel:
    """An array, how it is touched, and the box of each block."""

    buffer: Buffer
    kind: str
    boxes: dict[Block, Box]

    @property
    def title(self) -> str:
        return f"{self.buffer.name}, {' by '.join(map(str, self.buffer.shape))}, {self.kind}"

    def words(self) -> str:
        said = [f"block ({', '.join(map(str, b))}) at {_told(x)}" for b, x in list(self.boxes.items())[:MOST_SAID]]
        return f"{self.title}: {', '.join(said)}{', …' if len(self.boxes) > MOST_SAID else ''}"


def _told(box: Box) -> str:
    return f"[{', '.join(f'{i.start}:{i.stop}' for i in box)}]"


def _look(nodes: Sequence[Node], ranges: Ranges, block: Block, panels: dict[tuple[str, str], _Panel]) -> None:
    """Add what a block touches."""
    for node in nodes:
        match node:
            case Read(result, buffer, at):
                _add(panels, buffer, "read", block, at, {**ranges, **_own(result.type.dims.items)})
            case Write(buffer, at, value):
                _add(panels, buffer, "written", block, at, {**ranges, **_own(value.tensor.dims.items)})
            case Atomic(_, buffer, at, _, value):
                _add(panels, buffer, "updated", block, at, {**ranges, **_own(value.tensor.dims.items)})
            case For(dim, start, stop, body, rule=rule):
                known = (
                    {dim: ranges[dim]}
                    if dim in ranges and rule is Rule.INDEPENDENT
                    else _rounds(dim, start, stop, ranges)
                )
                if known is not None:
                    _look(body, {**ranges, **known}, block, panels)
            case If(_, body, otherwise):
                _look((*body, *otherwise), ranges, block, panels)
            case While(before, _, body):
                _look((*before, *body), ranges, block, panels)
            case _:
                pass


def _own(dims: Sequence[tuple[str, Interval]]) -> dict[str, tuple[int, int]]:
    return {n: (i.start, i.stop - 1) for n, i in dims}


def _rounds(dim: str, start: Index, stop: Index, ranges: Ranges) -> dict[str, tuple[int, int]] | None:
    """The range of a loop's variable, nothing where only data tell it; None where there is no round."""
    low = start.range(ranges) if isinstance(start, Affine) else None
    high = stop.range(ranges) if isinstance(stop, Affine) else None
    if low is None or high is None:
        return {}
    return {dim: (low[0], high[1] - 1)} if low[0] < high[1] else None


def _add(
    panels: dict[tuple[str, str], _Panel], buffer: Buffer, kind: str, block: Block, at: Sequence[Index], ranges: Ranges
) -> None:  # fmt: skip
    if not buffer.argument or not buffer.shape:
        return
    box: list[Interval] = []
    for (_, extent), i in zip(buffer.dims, at, strict=True):
        span = i.range(ranges) if isinstance(i, Affine) else None
        whole = Interval(0, extent)
        box.append(whole if span is None else Interval(span[0], span[1] + 1) & whole)
    if not all(box):
        return
    panel = panels.setdefault((buffer.name, kind), _Panel(buffer, kind, {}))
    before = panel.boxes.get(block)
    panel.boxes[block] = tuple(box) if before is None else tuple(a | b for a, b in zip(before, box, strict=True))


def _drawn(title: str, panels: Sequence[_Panel]) -> Picture:
    words = "\n".join([title, *(p.words() for p in panels)])
    sizes = [_size(p.buffer.shape) for p in panels]
    widths = [max(w, width_of(p.title, 10)) + 24 for p, (w, _) in zip(panels, sizes, strict=True)]
    drawing = Drawing(words, max(sum(widths), width_of(title)) + 16, max((h for _, h in sizes), default=0) + 70)
    drawing.text(12, 20, title)
    left = 12.0
    for panel, (width, height), whole in zip(panels, sizes, widths, strict=True):
        drawing.text(left, 42, panel.title, colour=PALE, size=10)
        _panel(drawing, left, 50, width, height, panel)
        left += whole
    return drawing.picture(words, {(p.buffer.name, p.kind): dict(p.boxes) for p in panels})


def _size(shape: Sequence[int]) -> tuple[float, float]:
    rows, columns = max(prod(shape[:-1]), 1), max(shape[-1], 1)
    by = SIDE / max(rows, columns)
    return max(columns * by, LEAST), max(rows * by, LEAST)


def _panel(drawing: Drawing, left: float, top: float, width: float, height: float, panel: _Panel) -> None:
    shape = panel.buffer.shape
    drawing.rect(left, top, width, height, fill=PAPER, stroke=LINE)
    rows, columns = prod(shape[:-1]), shape[-1]
    seen: set[Box] = set()
    for block, box in panel.boxes.items():
        name = ",".join(map(str, block))
        hue = _HUES[sum(k * n for k, n in enumerate(block, 1)) % len(_HUES)]
        across = box[-1]
        x, w = left + width * across.start / columns, width * len(across) / columns
        for start, stop in _bands(shape, box):
            y, h = top + height * start / rows, height * (stop - start) / rows
            said = f"block ({name}) at {_told(box)}"
            drawing.rect(x, y, w, h, fill=middle(hue), stroke=LINE, thick=0.5, opacity=0.3, title=said)
            if box not in seen and w > width_of(name, 8) and h > 9:
                drawing.text(x + w / 2, y + h / 2 + 3, name, anchor="middle", colour=INK, size=8)
            seen.add(box)


def _bands(shape: Sequence[int], box: Box) -> list[tuple[int, int]]:
    """The rows of a box, where all dims but the last are one under the other: parts that follow each other are one."""
    if len(shape) == 1:
        return [(0, 1)]
    found: list[tuple[int, int]] = []
    for lead in product(*(range(i.start, i.stop) for i in box[:-2])):
        first = 0
        for n, extent in zip(lead, shape, strict=False):
            first = first * extent + n
        start = first * shape[-2] + box[-2].start
        stop = start + len(box[-2])
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], stop
        elif len(found) < MOST_BANDS:
            found.append((start, stop))
    return found
