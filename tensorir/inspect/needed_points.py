"""The picture of domains: for every dim the intervals that are needed of everything, and of two dims nested boxes.

Ends of intervals stand a little apart, whatever their distance, so that halos of one or two points can be seen around
a thousand.

>>> import tensorir as ti
>>> f = ti.parse('''f(out: tensor<float, I[1:9]>, inp: tensor<float, I[0:10]>) {
...   out ← let lap = ⟪I, 1⟫(inp) - ⟪I, -1⟫(inp); 2.0 × lap; }''')
>>> print(domains(f))
out: I[1:9]
lap: I[1:9]
inp: I[0:10], one more before and one more after along I
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from tensorir.analysis.domains import Domains
from tensorir.analysis.domains import domains as infer
from tensorir.binding.programs import subject
from tensorir.inspect.picture import LINE, PALE, Drawing, Picture, hue, middle, width_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.rewrite import postorder

MAX_BOXES = 24
"""Boxes of one picture."""
_ROW, _TICK, _STEP, _MARGIN = 22, 46, 32, 14


@dataclass(frozen=True, slots=True)
class Box:
    """One value and the hull of the points that are needed of it."""

    name: str
    dims: Dims
    role: str = "value"


def domains(program: Any, out: Mapping[Any, Any] | None = None) -> Picture:
    """The picture of the points needed of inputs and named values, for all outputs or the part `out` of them.

    The program is a fencil, a bound program, or an operator that was called. Raises I05 and B09 if its types are not
    known, A15 and A16 for a part that does not exist.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:9]>, x: tensor<float, I[0:12]>) { out ← ⟪I, 3⟫(x) + x; }")
    >>> print(domains(f, {"I": (4, 6)}))
    out: I[4:6]
    x: I[4:9], three more after along I
    """
    return domains_of(infer(subject(program), out))


def domains_of(needed: Domains) -> Picture:
    """The picture of domains that were inferred before: hulls of outputs, named values and inputs."""
    boxes = [Box(name, points.hull, "out") for name, points in needed.written.items() if points]
    outputs = {b.name for b in boxes}
    for closure in reversed(needed.fencil.closures):
        for node in reversed(list(postorder(closure.value))):
            points = needed.nodes.get(id(node)) if node.label else None
            if points and node.label not in {b.name for b in boxes}:
                boxes.append(Box(node.label, points.hull))
    boxes += [Box(name, points.hull, "in") for name, points in needed.params.items() if points and name not in outputs]
    return drawn(boxes)


def drawn(boxes: list[Box]) -> Picture:
    """The picture of boxes, at most `MAX_BOXES`; halos are given relative to the first one."""
    hidden = len(boxes) - MAX_BOXES
    boxes = boxes[:MAX_BOXES]
    words = [
        f"{b.name}: {b.dims if b.dims.items else 'its value'}{_describe_halo(b.dims, boxes[0].dims)}" for b in boxes
    ]
    boxes = [b for b in boxes if b.dims.items] or boxes[:1]
    if hidden > 0:
        words.append(f"{hidden} more are not drawn.")
    names = list(dict.fromkeys(n for b in boxes for n in b.dims.names))
    names.sort(key=lambda n: (-len(_ends(boxes, n)), n))
    panels = [n for n in names if len(_ends(boxes, n)) > 2][:4] or names[:2]
    nested_pair = _choose_pair(boxes, panels)
    sheet = _Sheet(boxes, panels, nested_pair)
    return sheet.drawing(hidden).picture("\n".join(words), boxes)


def _describe_halo(dims: Dims, base: Dims) -> str:
    """The difference to the base box in words, such as ", two more before along I"."""
    halos: list[str] = []
    for name, i in dims.items:
        base_interval = base.get(name)
        if base_interval is None or i == base_interval:
            continue
        sides = [(base_interval.start - i.start, "before"), (i.stop - base_interval.stop, "after")]
        words = {1: "one", 2: "two", 3: "three", 4: "four"}
        sides_text = [f"{words.get(abs(k), abs(k))} {'more' if k > 0 else 'fewer'} {side}" for k, side in sides if k]
        halos.append(f"{' and '.join(sides_text)} along {name}")
    return f", {'; '.join(halos)}" if halos else ""


def _ends(boxes: list[Box], name: str) -> list[int]:
    intervals = [b.dims[name] for b in boxes if name in b.dims]
    return sorted({i.start for i in intervals} | {i.stop for i in intervals})


def _choose_pair(boxes: list[Box], panels: list[str]) -> tuple[str, str] | None:
    """The two dims to draw nested boxes in: those that most boxes have, and along which they differ; None if there are
    none.
    """
    pairs = [
        (sum(a in x.dims and b in x.dims for x in boxes), a, b)
        for a, b in combinations(panels, 2)
        if len(_ends(boxes, a)) > 2 and len(_ends(boxes, b)) > 2
    ]
    if not pairs or max(pairs)[0] < 2:
        return None
    _, a, b = max(pairs, key=lambda x: x[0])
    return a, b


def _places(ends: list[int], step: float) -> dict[int, float]:
    """The drawn position of each coordinate; gaps of more than 4 points are drawn wider, but not to scale."""
    places, position = {ends[0]: 0.0}, 0.0
    for before, end in pairwise(ends):
        position += step * (0.8 if end - before <= 4 else 1.7)
        places[end] = position
    return places


class _Sheet:
    """The layout of a picture: nested boxes to the left, a bar per value and dim to the right."""

    def __init__(self, boxes: list[Box], panels: list[str], pair: tuple[str, str] | None) -> None:
        """Computes positions along each dim of `panels`, and a colour for each box; `pair` are the dims of nested
        boxes.
        """
        self.boxes, self.panels, self.pair = boxes, panels, pair
        self.ends = {n: _ends(boxes, n) for n in panels}
        self.places = {n: _places(ends, _TICK) for n, ends in self.ends.items()}
        self.colours = {b.name: middle(round(360 * k / len(boxes) + 205) % 360, 0.42) for k, b in enumerate(boxes)}

    def drawing(self, hidden: int) -> Drawing:
        """The drawing: nested boxes, a bar per box and dim, and the number of boxes left out."""
        nested = self._nested_size() if self.pair else (0.0, 0.0)
        names = max(width_of(b.name) for b in self.boxes) + 2 * _MARGIN if self.boxes else 0
        bars = names + sum(self._bar_width(n) for n in self.panels)
        height = max(nested[1], 40 + _ROW * len(self.boxes) + 20) + (_ROW if hidden > 0 else 0)
        sheet = Drawing("domains", nested[0] + bars + _MARGIN, height)
        if self.pair:
            self._draw_nested(sheet)
        self._draw_bars(sheet, nested[0], names)
        if hidden > 0:
            sheet.text(nested[0] + _MARGIN, height - 8, f"{hidden} more are not drawn", colour=PALE)
        return sheet

    def _bar_width(self, name: str) -> float:
        return max(self.places[name].values()) + 1.2 * _TICK

    def _at(self, name: str, end: int) -> float:
        return self.places[name][end]

    def _draw_bars(self, sheet: Drawing, left: float, names: float) -> None:
        """Draws the names of boxes and a panel of bars for each dim, with ticks."""
        top, x_left = 40.0, left + names
        for name in self.panels:
            x = x_left + _TICK / 2
            sheet.text(x, 14, name, colour=middle(hue(name)), bold=True)
            for end in self.ends[name]:
                tick = x + self._at(name, end)
                sheet.text(tick, 30, str(end), anchor="middle", colour=PALE, size=10)
                sheet.line(tick, 34, tick, top + _ROW * len(self.boxes), stroke=LINE, thick=0.5)
            for k, box in enumerate(self.boxes):
                self._draw_bar(sheet, box, name, x, top + _ROW * k)
            x_left += self._bar_width(name)
        for k, box in enumerate(self.boxes):
            label_place = left + _MARGIN, top + _ROW * k + 13
            sheet.text(*label_place, box.name, bold=box.role != "value")

    def _draw_bar(self, sheet: Drawing, box: Box, name: str, x: float, y: float) -> None:
        """Draws the interval of a box along a dim, with the widths of its halo beyond the first box."""
        i, base = box.dims.get(name), self.boxes[0].dims.get(name)
        if i is None:
            return
        a, b = x + self._at(name, i.start), x + self._at(name, i.stop)
        title = f"{box.name}: {name}{i}, {len(i)} points"
        sheet.rect(a, y + 2, b - a, _ROW - 7, fill=self.colours[box.name], stroke="none", round=3, title=title)
        for low, high in () if not base else ((i.start, base.start), (base.stop, i.stop)):
            if i.start <= low < high <= i.stop:
                centre = x + (self._at(name, low) + self._at(name, high)) / 2
                sheet.text(centre, y + 14, f"+{high - low}", anchor="middle", size=10, colour="#ffffff", bold=True)

    # Nested boxes

    def _nested_size(self) -> tuple[float, float]:
        assert self.pair
        a, b = self.pair
        return max(self.places[a].values()) + 1.6 * _TICK, max(_places(self.ends[b], _STEP).values()) + 1.9 * _TICK

    def _draw_nested(self, sheet: Drawing) -> None:
        """Draws the boxes as rectangles in the two dims of `pair`, the largest first."""
        assert self.pair
        a, b = self.pair
        heights, left = _places(self.ends[b], _STEP), _TICK
        bottom = self._nested_size()[1] - _TICK

        def y(end: int) -> float:
            return bottom - heights[end]

        placed: dict[tuple[Interval, Interval], list[Box]] = {}
        for box in self.boxes:
            if a in box.dims and b in box.dims:
                placed.setdefault((box.dims[a], box.dims[b]), []).append(box)
        for (i, j), boxes_alike in sorted(placed.items(), key=lambda item: -len(item[0][0]) * len(item[0][1])):
            x, width = left + self._at(a, i.start), self._at(a, i.stop) - self._at(a, i.start)
            colour = self.colours[boxes_alike[0].name]
            names = ", ".join(box.name for box in boxes_alike)
            sheet.rect(
                x, y(j.stop), width, y(j.start) - y(j.stop), fill=colour, stroke="none", opacity=0.14, title=names
            )
            sheet.rect(x, y(j.stop), width, y(j.start) - y(j.stop), fill="none", stroke=colour, thick=2)
        for end in self.ends[a]:
            sheet.text(left + self._at(a, end), bottom + 16, str(end), anchor="middle", colour=PALE, size=10)
        for end in self.ends[b]:
            sheet.text(left - 6, y(end) + 4, str(end), anchor="end", colour=PALE, size=10)
        centre = left + self._at(a, self.ends[a][-1]) / 2
        sheet.text(centre, bottom + 34, a, anchor="middle", colour=middle(hue(a)), bold=True)
        sheet.text(6, (y(self.ends[b][-1]) + bottom) / 2, b, colour=middle(hue(b)), bold=True)
        sheet.text(6, 14, "(not to scale)", colour=PALE, size=10)
