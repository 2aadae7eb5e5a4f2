"""A picture of a view over its tensor: which tile covers which elements, and what hangs over the edge, hatched.

>>> print(picture("partition_view<tile=(1x4), tensor_view<8x2xf32, strides=[2,1]>>"))
partition_view<tile=(1x4), tensor_view<8x2xf32, strides=[2,1]>>: an index space of 8x1; 16 of 32 elements of tiles are
outside
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tensorir.inspect.picture import INK, LINE, PALE, PAPER, Drawing, Picture, middle, width_of
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Source
from tensorir.tile.text.cursor import Cursor
from tensorir.tile.text.types import TypeReader
from tensorir.tile.types import GatherScatterView, PartitionView, StridedView, TileView
from tensorir.tile.views import coordinates, dims_of, index_space, steps_of

__all__ = ["picture"]

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
        raise DiagnosticError(Diagnostic("TK08", message, NOWHERE, help="pass extents=(...) of one or two numbers."))
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
