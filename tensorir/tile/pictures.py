"""Pages and pictures: modules folded at regions, the tiles of a view, the launch of a kernel.

A picture of a view over its tensor: which tile covers which elements, and what hangs over the edge, hatched.

>>> print(picture("partition_view<tile=(1x4), tensor_view<8x2xf32, strides=[2,1]>>"))
partition_view<tile=(1x4), tensor_view<8x2xf32, strides=[2,1]>>: an index space of 8x1; 16 of 32 elements of tiles are
outside

A picture of a launch: the arrays of a kernel, and over them what each block of the grid reads and writes.

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

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from tensorir.inspect.pages import Fold, Markup, markup, page, pre
from tensorir.inspect.picture import INK, LINE, PALE, PAPER, Drawing, Picture, middle, width_of
from tensorir.integers.affine import Affine
from tensorir.integers.dims import Interval
from tensorir.lifting.region.nodes import Atomic, Buffer, For, If, Node, Read, Rule, While, Write
from tensorir.lifting.region.nodes import Index as RegionIndex
from tensorir.runtime.errors import Source, refuse
from tensorir.tile.interpret.hazards import coordinates, dims_of, index_space, steps_of
from tensorir.tile.interpret.launch import entry_of, grid_of
from tensorir.tile.nodes import Module
from tensorir.tile.operations import TABLE
from tensorir.tile.text.cursor import Cursor
from tensorir.tile.text.types import TypeReader
from tensorir.tile.types import GatherScatterView, PartitionView, StridedView, TileView

CELL = 30
"""The side of an element."""
SHOWN = 24
"""Elements along each dim that are shown."""
_HUES = (210, 25, 140, 280, 345, 175)

Index = tuple[int, ...]


def picture(view: TileView | str, extents: Sequence[int] = (), rows: Sequence[int] = (), at: int = 0) -> Picture:
    """The tiles of a view over the elements of its tensor, of one or two dims.

    `view` is a type, or its text; `extents` are those of the tensor where it leaves some open. Of a
    gather_scatter_view one tile is drawn: that of the `rows` along its sparse dim, and `at` along the other one.
    """
    kind = _view(view) if isinstance(view, str) else view
    dims = len(kind.tile)
    shape = tuple(extents) or tuple(n or 0 for n in kind.tensor.shape)
    if dims > 2 or len(shape) != dims or not all(shape):
        message = f"a picture has one or two dims with their extents, and this is {kind} on {list(shape)}."
        raise refuse("TK08", message, "pass extents=(...) of one or two numbers.")
    covered: dict[Index, list[tuple[Index, Index]]] = {}
    space = index_space(kind, shape)
    tiles = [(0,) * dims] if isinstance(kind, GatherScatterView) else itertools.product(*map(range, space))
    outside = total = 0
    for index in tiles:
        given = _given(kind, index, rows, at)
        for places, inside in _elements(kind, given, shape):
            total += 1
            outside += not inside
            covered.setdefault(places[0], []).append((index, places[1]))
    words = f"{kind}: an index space of {'x'.join(map(str, space))}; "
    words += f"{outside} of {total} elements of tiles are outside" if outside else "every element of a tile is inside"
    return _drawn(kind, shape, covered, words)


def _view(text: str) -> TileView:
    cursor = Cursor(Source("<view>", text))
    found = TypeReader(cursor).read()
    if not isinstance(found, PartitionView | StridedView | GatherScatterView) or cursor.pos < len(text):
        cursor.fail("TM12", "a picture is of a partition_view, strided_view or gather_scatter_view.", "", 0, len(text))
    return found


def _given(view: TileView, index: Index, rows: Sequence[int], at: int) -> list[object]:
    if not isinstance(view, GatherScatterView):
        return list(index)
    chosen = list(rows) or list(range(view.tile[view.sparse_dim]))
    return [chosen if k == view.sparse_dim else at for k in range(len(view.tile))]


def _elements(view: TileView, given: list[object], shape: Index) -> list[tuple[tuple[Index, Index], bool]]:
    """The elements of a tile: where they stand in the tensor, where in the tile, and whether they are inside."""
    along: list[list[tuple[int, bool]]] = []
    for k, (d, step) in enumerate(zip(dims_of(view), steps_of(view), strict=True)):
        (places, inside) = coordinates(view, given, shape)[k]
        if isinstance(view, GatherScatterView) and k == view.sparse_dim:
            along.append([(int(p), bool(i)) for p, i in zip(places, inside, strict=True) if i])
        else:
            start = int(given[k]) * step  # type: ignore[call-overload]
            along.append([(start + j, start + j < shape[d]) for j in range(view.tile[k])])
    found: list[tuple[tuple[Index, Index], bool]] = []
    for parts in itertools.product(*(list(enumerate(a)) for a in along)):
        place = [0] * len(shape)
        for d, (_, (coordinate, _)) in zip(dims_of(view), parts, strict=True):
            place[d] = coordinate
        found.append(((tuple(place), tuple(j for j, _ in parts)), all(ok for _, (_, ok) in parts)))
    return found


def _drawn(view: TileView, shape: Index, covered: Mapping[Index, list[tuple[Index, Index]]], words: str) -> Picture:
    flat = len(shape) == 1
    layers = _layers(view) if flat else 1
    across = [min(max(p[-1] for p in covered) + 1 if covered else shape[-1], SHOWN), min(shape[-1], SHOWN)]
    down = [layers, layers] if flat else [min(max((p[0] for p in covered), default=0) + 1, SHOWN), min(shape[0], SHOWN)]
    width, height = max(across), max(down)
    left, top = 40, 46
    title = str(view)
    drawing = Drawing(words, max(left + CELL * width + 16, width_of(title) + 16), top + CELL * height + 30)
    drawing.text(8, 18, title)
    for x in range(0, width, 2 if width > 12 else 1):
        drawing.text(left + CELL * (x + 0.5), top - 6, str(x), anchor="middle", colour=PALE, size=9)
    for y in range(0 if not flat else height, height):
        drawing.text(left - 6, top + CELL * (y + 0.5) + 4, str(y), anchor="end", colour=PALE, size=9)
    for y, x in itertools.product(range(height), range(width)):
        place = (x,) if flat else (y, x)
        inside = all(c < n for c, n in zip(place, shape, strict=True))
        found = covered.get(place, [])
        chosen = [f for f in found if not flat or f[0][0] % layers == y][:1]
        _cell(drawing, left + CELL * x, top + CELL * y, chosen, len(found), inside, view)
    if width < shape[-1] or (not flat and height < shape[0]):
        said = "x".join(map(str, shape))
        drawing.text(left, top + CELL * height + 20, f"… of {said} elements", colour=PALE, size=10)
    return drawing.picture(words, dict(covered))


def _layers(view: TileView) -> int:
    """On how many lines tiles of one dim stand so that none lies over another."""
    return -(-view.tile[0] // steps_of(view)[0]) if isinstance(view, StridedView) else 1


def _cell(
    drawing: Drawing, x: float, y: float, chosen: list[tuple[Index, Index]], count: int, inside: bool, view: TileView
) -> None:  # fmt: skip
    if not chosen:
        if inside:
            drawing.rect(x, y, CELL, CELL, fill=PAPER, stroke=LINE)
        return
    index, within = chosen[0]
    single = isinstance(view, GatherScatterView)
    shown = within if single else index
    hue = _HUES[sum(k * n for k, n in enumerate(shown, 1)) % len(_HUES)]
    drawing.rect(
        x,
        y,
        CELL,
        CELL,
        fill=middle(hue),
        stroke=LINE,
        opacity=0.35 if inside else 0.12,
        title=f"tile {index}, element {within}",
    )
    if not inside:
        for k in range(1, 6):  # hatched: outside of the tensor
            reach = CELL * k / 3
            x1, y1 = x + min(reach, CELL), y + max(0.0, reach - CELL)
            x2, y2 = x + max(0.0, reach - CELL), y + min(reach, CELL)
            drawing.line(x1, y1, x2, y2, stroke=PALE, thick=0.7)
    text = ",".join(map(str, shown)) + ("+" if count > 1 and len(within) > 1 else "")
    drawing.text(x + CELL / 2, y + CELL / 2 + 4, text, anchor="middle", colour=INK, size=10 if len(text) < 4 else 8)


# Modules as pages: the printed text, folded at its regions, what touches memory and what branches in colour.

LONG = 60
"""Lines from which on regions inside of an entry are folded."""
_OPERATION = re.compile(r"((?:%[^=]*= )?)((?:cuda_tile\.)?[a-z_0-9$]+)(.*)", re.DOTALL)
_STYLE = """<style>
.tensorir .tile{font-family:monospace;white-space:pre-wrap}
.tensorir .op{color:hsl(var(--hue) 75% var(--light));font-weight:600}
</style>"""


def page_of(module: Module) -> str:
    """A module as a piece of HTML; everything in it is escaped, and nothing is loaded from elsewhere.

    >>> from tensorir.tile import parse
    >>> "@f" in page_of(parse("entry @f() {}"))
    True
    """
    lines = str(module).splitlines()
    return page(Markup(_STYLE), *_folds(lines, len(lines) >= LONG))


def view_of(view: TileView) -> str:
    """A view as its picture, or as its text where it has no extents to draw, or more than two dims."""
    if len(view.tile) > 2 or None in view.tensor.shape:
        return page(pre(str(view)))
    return picture(view)._repr_html_()  # pyright: ignore[reportPrivateUsage]


def _folds(lines: list[str], long: bool) -> list[Fold]:
    """A tree of lines: one that ends in `{` holds those up to its closing brace."""
    stack: list[tuple[str, list[Fold]]] = [("", [])]
    for line in lines:
        text = line.strip()
        if text.startswith("}"):
            head, below = stack.pop()
            stack[-1][1].append(Fold(_coloured(head), tuple(below), not long or len(stack) < 3))
            text = text[1:].strip()
        if text.endswith("{"):
            stack.append((text, []))
        elif text:
            stack[-1][1].append(Fold(_coloured(text)))
    return stack[0][1]


def _coloured(text: str) -> Markup:
    found = _OPERATION.fullmatch(text)
    row = TABLE.get(found[2].removeprefix("cuda_tile.")) if found else None
    if found is None or row is None:
        return markup('<span class="tile">{}</span>', text)
    hue = 25 if row.name.endswith(("_tko", "alloca")) else 285 if row.regions or row.ends else 210 if row.pure else 60
    return markup(
        '<span class="tile">{}<span class="op" style="--hue:{}">{}</span>{}</span>', found[1], hue, found[2], found[3]
    )


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
_LAUNCH_HUES = (210, 25, 140, 280, 345, 175)
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
    from tensorir.tile.lift.translation import signature, translated

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
    return _launch_drawn(title, ordered)


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


def _rounds(dim: str, start: RegionIndex, stop: RegionIndex, ranges: Ranges) -> dict[str, tuple[int, int]] | None:
    """The range of a loop's variable, nothing where only data tell it; None where there is no round."""
    low = start.range(ranges) if isinstance(start, Affine) else None
    high = stop.range(ranges) if isinstance(stop, Affine) else None
    if low is None or high is None:
        return {}
    return {dim: (low[0], high[1] - 1)} if low[0] < high[1] else None


def _add(
    panels: dict[tuple[str, str], _Panel], buffer: Buffer, kind: str, block: Block, at: Sequence[RegionIndex],
    ranges: Ranges,
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


def _launch_drawn(title: str, panels: Sequence[_Panel]) -> Picture:
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
        hue = _LAUNCH_HUES[sum(k * n for k, n in enumerate(block, 1)) % len(_LAUNCH_HUES)]
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
