"""Pictures of footprints and domains: which points an output reads, and which are needed.

The picture of a footprint: which points of an input one point of an output reads, with weights where it is linear.

>>> import tensorir as ti
>>> f = ti.parse('''lap(out: tensor<float, I[1:9], J[1:9]>, h: tensor<float, I[0:10], J[0:10]>) {
...   out ← ⟪I, 1⟫(h) + ⟪I, -1⟫(h) + ⟪J, 1⟫(h) + ⟪J, -1⟫(h) - 4.0 × h; }''')
>>> print(footprint(f, at={"I": 4, "J": 5}))
out at I = 4, J = 5 reads
h: 5 points of I[3:6], J[4:7]; it is linear in them
>>> footprint(f, at={"I": 4, "J": 5}).data["h"].weights[(4, 5)]
-4.0

The picture of domains: for every dim the intervals that are needed of everything, and of two dims nested boxes.

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

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorir.binding.arrays import Array, accept, refuse
from tensorir.binding.calls import BoundProgram, fencil_of, subject
from tensorir.inspect.picture import INK, LINE, PALE, PAPER, Drawing, Picture, hue, middle, width_of
from tensorir.integers.sets import IntegerSet
from tensorir.ir import build
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.types import DTYPES, Dims, Interval, Scalar
from tensorir.passes.base import with_fencil
from tensorir.passes.closures import Inline
from tensorir.runtime.errors import DiagnosticError, did_you_mean

if TYPE_CHECKING:
    from tensorir.analysis.domains import Domains

MAX_POINTS = 300
"""IntegerSet of an input whose weights are computed: each takes one run of the oracle on what one point needs."""
MAX_CELLS = 64
"""Cells along one side of a drawn grid."""
_WIDE, _SMALL, _SHEET = 42, 13, 900
_POSITIVE, _NEGATIVE, _READ = 25, 215, 145


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads of one input: the points, and their weights where the output is linear in them."""

    points: IntegerSet
    weights: dict[tuple[int, ...], float] | None


def footprint(
    program: Any, out: str | None = None, at: Mapping[Any, int] | None = None, given: Mapping[str, Any] | None = None
) -> Picture:
    """The points of every input that one point of an output reads, with their weights where it is linear in them.

    The program is a fencil, a bound program, or an operator that was called. `out` names the output where there are
    several, or a member of one that holds tuples, such as "out[0]"; `at` gives the point by dim (the middle of what it
    leaves out), `given` values for inputs that are to be held fixed, such as coefficients. Weights come from the
    oracle. Raises N22 for an output and A15 or A16 for a point that is not there.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:9]>, a: tensor<float>, x: tensor<float, I[0:9]>) { out ← a × x; }")
    >>> footprint(f, at={"I": 4}, given={"a": 0.5}).data["x"].weights
    {(4,): 0.5}
    """
    found: Any = subject(program)
    name, _, member = (out or "").partition("[")
    if member:
        output = _output(fencil_of(found), name)
        found = with_fencil(found, lambda fencil: _member(fencil, output, member.removesuffix("]")))
    bound = BoundProgram.of(found)
    fencil = fencil_of(found)
    output = _output(fencil, name or None)
    _refuse_no_point(at)
    point = _point(output, at or {})
    from tensorir.analysis.domains import domains

    where = {n: (p, p + 1) for n, p in point.items()}
    others = {p.name: {d: (i.start, i.start) for d, i in p.type.dims.items} for p in fencil.outputs if p is not output}
    needs = domains(found, {**others, output.name: where}).params
    reads = {n: points for n, points in needs.items() if points and n not in bound.constants}
    weights = _weights(found, output, where, reads, given or {})
    readings = {n: Reading(points, None if weights is None else weights.get(n)) for n, points in reads.items()}
    spot = ", ".join(f"{n} = {p}" for n, p in point.items())
    lines = [f"{out or output.name}{' at ' if spot else ''}{spot} reads"]
    lines += [f"{n}: {_said(r)}" for n, r in readings.items()]
    return _drawing(out or output.name, point, readings, fencil).picture("\n".join(lines), readings)


def _said(reading: Reading) -> str:
    points = reading.points
    if not points.names:
        return "its value"
    count = "one point" if len(points) == 1 else f"{len(points)} points"
    linear = "; it is linear in them" if reading.weights is not None else ""
    return f"{count} of {points.hull}{linear}"


def _output(fencil: Fencil, name: str | None) -> Var:
    if name is None:
        return fencil.outputs[-1]
    for p in fencil.outputs:
        if p.name == name:
            return p
    names = [p.name for p in fencil.outputs]
    raise refuse("N22", f"'{fencil.name}' has no output '{name}'.", did_you_mean(name, names))


def _member(fencil: Fencil, output: Var, member: str) -> Fencil:
    """The program that stores one member of an output of tuples alone; raises N22 where there is no such member."""
    element = output.type.element
    count = 0 if isinstance(element, Scalar) else len(element.members)
    read = any(output in c.value.free for c in fencil.closures)
    if not member.isdecimal() or int(member) >= count or read:
        members = f"it has {count} members" if count else "it holds numbers"
        why = "it is read, too" if read else members
        raise refuse("N22", f"'{output.name}' has no member {member} to look at: {why}.")
    k = int(member)
    one = build.var(output.name, output.type.of(element.members[k]))  # type: ignore[union-attr]

    def taken(value: Expr) -> Expr:
        return value.args[k] if isinstance(value, Call) and value.op == "make_tuple" else _get(value, k)

    closures = [
        build.closure(one, taken(c.value), c.region) if c.output == output else c for c in Inline().run(fencil).closures
    ]
    return build.fencil(fencil.name, [one if p == output else p for p in fencil.params], closures)


def _get(value: Expr, k: int) -> Expr:
    return build.call("tuple_get", value, static=(k,))


def _refuse_no_point(at: object) -> None:
    if at is not None and not isinstance(at, Mapping):
        raise refuse("A16", f"{at!r} is no point: a point has a number for each dim.", 'write at={"I": 4}.')


def _point(output: Var, at: Mapping[Any, int]) -> dict[str, int]:
    """The point asked for, in the order of the output's dims."""
    dims = output.type.dims
    for key in map(str, at):
        if key not in dims:
            raise refuse("A15", f"'{output.name}' has no dim {key}.", did_you_mean(key, dims.names))
    given = {str(k): int(v) for k, v in at.items()}
    point = {n: given.get(n, (i.start + i.stop) // 2) for n, i in dims.items}
    for n, p in point.items():
        if p not in dims[n]:
            raise refuse("A16", f"{n} = {p} is not inside of {n}{dims[n]}, all of '{output.name}'.")
    return point


# Weights


def _weights(
    program: Any, output: Var, where: Mapping[str, tuple[int, int]], reads: Mapping[str, IntegerSet],
    given: Mapping[str, Any],
) -> dict[str, dict[tuple[int, ...], float]] | None:  # fmt: skip
    """Of every input its points' weights, None where the output is not linear in the inputs together."""
    from tensorir import reference
    from tensorir.passes.restrict import restrict

    if not isinstance(output.type.element, Scalar) or not output.type.element.is_float:
        return None
    small: Any = restrict(program, {output.name: dict(where)})
    constants: Any = small.constants if isinstance(small, BoundProgram) else {}
    fencil = fencil_of(small)
    free = {p.name: p for p in fencil.inputs if p.name in reads and p.name not in given and _is_float(p)}
    if sum(len(reads[n]) for n in free) > MAX_POINTS:
        return None
    fixed: dict[str, Any] = {}
    for p in fencil.inputs:
        if p.name in given:
            fixed[p.name] = _part(given[p.name], fencil_of(program)[p.name], p)
        elif p.name not in free and p.name not in constants:
            return None  # an integer or a table that nobody gave decides what is computed

    def value(inputs: Mapping[str, Array]) -> float:
        return float(np.asarray(reference.run(small, **fixed, **inputs)[output.name]).ravel()[0])

    def zeros() -> dict[str, Array]:
        return {n: np.zeros(p.type.dims.shape, DTYPES[p.type.leaves[0]]) for n, p in free.items()}

    try:
        base = value(zeros())
        found: dict[str, dict[tuple[int, ...], float]] = {}
        for name, p in free.items():
            starts = [i.start for _, i in p.type.dims.items]
            found[name] = {}
            for q in reads[name].onto(p.type.dims.names):
                unit = zeros()
                unit[name][tuple(c - s for c, s in zip(q, starts, strict=True))] = 1.0
                found[name][tuple(q)] = value(unit) - base
        rng = np.random.default_rng(0)
        for scale in (1.0, -37.5):
            trial: dict[str, Array] = {
                n: np.asarray(scale * rng.normal(size=a.shape), a.dtype) for n, a in zeros().items()
            }
            expected, size = base, 0.0
            for name, p in free.items():
                starts = [i.start for _, i in p.type.dims.items]
                for q, w in found[name].items():
                    term = w * float(trial[name][tuple(c - s for c, s in zip(q, starts, strict=True))])
                    expected, size = expected + term, size + abs(term)
            if not abs(value(trial) - expected) <= 1e-5 * max(size, abs(base), 1e-300):
                return None
    except DiagnosticError:
        return None
    return {
        n: {tuple(q[p.type.dims.names.index(d)] for d in reads[n].names): w for q, w in found[n].items()}
        for n, p in free.items()
    }


def _part(value: Any, whole: Var, part: Var) -> Any:
    """A value for a parameter, cut for one on smaller intervals."""
    if not isinstance(whole.type.element, Scalar):
        return value
    array = accept(value, whole.name, whole.type.element, whole.type.dims, any_integer=True).data
    cut = [(i, part.type.dims[n]) for n, i in whole.type.dims.items]
    return np.asarray(array)[tuple(slice(p.start - i.start, p.stop - i.start) for i, p in cut)]


def _is_float(p: Var) -> bool:
    return isinstance(p.type.element, Scalar) and p.type.element.is_float


# Drawing


def _drawing(name: str, point: Mapping[str, int], readings: Mapping[str, Reading], fencil: Fencil) -> Drawing:
    panels = [p for n, r in readings.items() for p in _panels(n, r, point, fencil)]
    lines: list[list[_Panel]] = [[]]
    for panel in panels:
        if lines[-1] and sum(p.width for p in lines[-1]) + panel.width > _SHEET:
            lines.append([])
        lines[-1].append(panel)
    wide = max(sum(p.width for p in line) for line in lines) + 20
    high = sum(max((p.height for p in line), default=0.0) for line in lines) + 40
    spot = ", ".join(f"{n} = {p}" for n, p in point.items())
    title = f"{name}{' at ' if spot else ''}{spot} reads"
    sheet = Drawing("footprint", max(wide, width_of(title) + 30), high)
    sheet.text(14, 20, title, bold=True)
    y = 34.0
    for line in lines:
        x = 10.0
        for panel in line:
            panel.draw(sheet, x, y)
            x += panel.width
        y += max((p.height for p in line), default=0.0)
    return sheet


@dataclass(frozen=True, slots=True)
class _Panel:
    """A grid of cells: columns along one dim, rows along another, each with what is read there."""

    title: str
    across: str
    columns: tuple[int, ...]
    up: str
    rows: tuple[int, ...]
    cells: Mapping[tuple[int, int], float | None]
    spot: tuple[int | None, int | None]

    @property
    def largest(self) -> float:
        """The largest weight, 1 where there are none."""
        return max([abs(w) for w in self.cells.values() if w is not None], default=1.0) or 1.0

    @property
    def power(self) -> int:
        """The power of ten that weights are shown in, 0 for those that can be shown as they are."""
        power = math.floor(math.log10(self.largest))
        return power if power < -2 or power > 3 else 0

    @property
    def heading(self) -> str:
        return f"{self.title}, weights in 1e{self.power}" if self.power else self.title

    @property
    def cell(self) -> int:
        """The side of a cell: large enough for a weight where there are few."""
        return _WIDE if max(len(self.columns), len(self.rows)) <= 14 else _SMALL

    @property
    def left(self) -> float:
        if not self.up:
            return 26.0
        return max((width_of(str(r), 10) for r in self.rows), default=0.0) + width_of(self.up) + 20

    @property
    def width(self) -> float:
        return max(self.left + self.cell * len(self.columns) + 24, width_of(self.heading) + 24)

    @property
    def height(self) -> float:
        return 46 + self.cell * len(self.rows) + (40 if self.across else 0)

    def draw(self, sheet: Drawing, x: float, y: float) -> None:
        sheet.text(x + 6, y + 14, self.heading, colour=INK)
        left, top = x + self.left, y + 28
        for (c, column), (r, row) in product(enumerate(self.columns), enumerate(reversed(self.rows))):
            self._cell(sheet, left + self.cell * c, top + self.cell * r, column, row)
        bottom = top + self.cell * len(self.rows)
        if self.across:
            every = 1 if self.cell == _WIDE else 5
            for c, column in enumerate(self.columns):
                if c % every:
                    continue
                centre = left + self.cell * (c + 0.5)
                sheet.text(centre, bottom + 15, str(column), anchor="middle", size=10, colour=PALE)
            centre = left + self.cell * len(self.columns) / 2
            sheet.text(centre, bottom + 31, self.across, anchor="middle", colour=middle(hue(self.across)), bold=True)
        if self.up:
            every = 1 if len(self.rows) <= 14 else 5
            for r, row in enumerate(reversed(self.rows)):
                if (len(self.rows) - 1 - r) % every:
                    continue
                sheet.text(left - 6, top + self.cell * (r + 0.5) + 4, str(row), anchor="end", size=10, colour=PALE)
            sheet.text(x + 6, (top + bottom) / 2 + 4, self.up, colour=middle(hue(self.up)), bold=True)

    def _cell(self, sheet: Drawing, x: float, y: float, column: int, row: int) -> None:
        place = (column, row)
        read = place in self.cells
        weight = self.cells.get(place)
        fill, opacity, largest = PAPER, 1.0, self.largest
        if read:
            angle = _READ if weight is None else _POSITIVE if weight > 0 else _NEGATIVE
            fill = middle(angle, 0.5)
            opacity = 0.45 if weight is None else 0.2 + 0.5 * abs(weight) / largest
        sheet.rect(x, y, self.cell, self.cell, stroke=LINE)
        if read:
            sheet.rect(x + 1, y + 1, self.cell - 2, self.cell - 2, fill=fill, stroke="none", opacity=opacity)
            if weight is not None and self.cell == _WIDE:
                text = f"{weight / 10.0**self.power:.3g}" if abs(weight) > 1e-12 * largest else "0"
                size = min(13.0, (self.cell - 12) / (max(1, len(text)) * 0.61))
                sheet.text(x + self.cell / 2, y + self.cell / 2 + 4.5, text, anchor="middle", size=size)
        here = [s == p for s, p in zip(self.spot, place, strict=True) if s is not None]
        if here and all(here):
            sheet.rect(x + 2.5, y + 2.5, self.cell - 5, self.cell - 5, fill="none", stroke=INK, thick=2.2, round=4)


def _panels(name: str, reading: Reading, point: Mapping[str, int], fencil: Fencil) -> list[_Panel]:
    """Up to two dims across and up, the others as panels of their own; few and scattered points stand in a row."""
    points = reading.points
    rows = [tuple(q) for q in points] if len(points) <= 5000 else []
    weights = reading.weights or {}
    if not points.names:
        return [_Panel(f"{name}, a number", "", (0,), "", (0,), {(0, 0): weights.get(())}, (None, None))]
    if not rows:
        return [_Panel(f"{name}: {len(points):,} points of {points.hull}", "", (), "", (), {}, (None, None))]
    own = {n: sorted({q[k] for q in rows}) for k, n in enumerate(points.names)}
    wide = sorted(points.names, key=lambda n: (len(own[n]) == 1, n))
    across, up = wide[0], wide[1] if len(wide) > 1 else ""
    others = [n for n in points.names if n not in (across, up)]
    inside = fencil[name].type.dims
    panels: list[_Panel] = []
    for rest in product(*[own[n] for n in others]):
        some = [q for q in rows if all(q[points.names.index(n)] == r for n, r in zip(others, rest, strict=True))]
        if not some:
            continue
        a = points.names.index(across)
        b = points.names.index(up) if up else -1
        cells = {(q[a], q[b] if up else 0): weights.get(q) for q in some}
        fixed = "".join(f", {n} = {r}" for n, r in zip(others, rest, strict=True))
        cut = ", a part" if any(len(own[n]) > MAX_CELLS for n in (across, up) if n) else ""
        panels.append(
            _Panel(
                f"{name}{fixed}{cut}", across, _axis(own[across], inside[across], point, across),
                up, _axis(own[up], inside[up], point, up) if up else (0,), cells,
                (point.get(across), point.get(up) if up else None),
            )
        )  # fmt: skip
    return panels[:8]


def _axis(used: list[int], inside: Interval, point: Mapping[str, int], dim: str) -> tuple[int, ...]:
    """The coordinates of a side: all between the ends and one more, or only those that are used where they are far."""
    both = [*used, point[dim]] if dim in point else used
    low, high = max(inside.start, min(both) - 1), min(inside.stop, max(both) + 2)
    if high - low <= MAX_CELLS and not (dim not in point and len(used) * 3 < high - low):
        return tuple(range(low, high))
    return tuple(used[:MAX_CELLS])


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
    """Needed points of inputs and named values, for all outputs or for the part `out` of them.

    The program is a fencil, a bound program, or an operator that was called. Raises I05 and B09 where its types are not
    known, A15 and A16 for a part that is not there.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:9]>, x: tensor<float, I[0:12]>) { out ← ⟪I, 3⟫(x) + x; }")
    >>> print(domains(f, {"I": (4, 6)}))
    out: I[4:6]
    x: I[4:9], three more after along I
    """
    from tensorir.analysis.domains import domains as infer

    return domains_of(infer(subject(program), out))


def domains_of(found: Domains) -> Picture:
    """The picture of domains that are known."""
    from tensorir.ir.rewrite import postorder

    boxes = [Box(name, points.hull, "out") for name, points in found.written.items() if points]
    outputs = {b.name for b in boxes}
    for closure in reversed(found.fencil.closures):
        for node in reversed(list(postorder(closure.value))):
            points = found.nodes.get(id(node)) if node.label else None
            if points and node.label not in {b.name for b in boxes}:
                boxes.append(Box(node.label, points.hull))
    boxes += [Box(name, points.hull, "in") for name, points in found.params.items() if points and name not in outputs]
    return drawn(boxes)


def drawn(boxes: list[Box]) -> Picture:
    """Boxes as a picture; the first one is the one that halos are counted from."""
    hidden = len(boxes) - MAX_BOXES
    boxes = boxes[:MAX_BOXES]
    words = [f"{b.name}: {b.dims if b.dims.items else 'its value'}{_more(b.dims, boxes[0].dims)}" for b in boxes]
    boxes = [b for b in boxes if b.dims.items] or boxes[:1]
    if hidden > 0:
        words.append(f"{hidden} more are not drawn.")
    names = list(dict.fromkeys(n for b in boxes for n in b.dims.names))
    names.sort(key=lambda n: (-len(_ends(boxes, n)), n))
    panels = [n for n in names if len(_ends(boxes, n)) > 2][:4] or names[:2]
    pair = _pair(boxes, panels)
    sheet = _Sheet(boxes, panels, pair)
    return sheet.drawing(hidden).picture("\n".join(words), boxes)


def _more(dims: Dims, base: Dims) -> str:
    """The halo in words."""
    found: list[str] = []
    for name, i in dims.items:
        have = base.get(name)
        if have is None or i == have:
            continue
        sides = [(have.start - i.start, "before"), (i.stop - have.stop, "after")]
        said = [f"{_count(k)} {'more' if k > 0 else 'fewer'} {side}" for k, side in sides if k]
        found.append(f"{' and '.join(said)} along {name}")
    return f", {'; '.join(found)}" if found else ""


def _count(k: int) -> str:
    return {1: "one", 2: "two", 3: "three", 4: "four"}.get(abs(k), str(abs(k)))


def _ends(boxes: list[Box], name: str) -> list[int]:
    found = [b.dims[name] for b in boxes if name in b.dims]
    return sorted({i.start for i in found} | {i.stop for i in found})


def _pair(boxes: list[Box], panels: list[str]) -> tuple[str, str] | None:
    """The two dims that are drawn against each other: those that most boxes have and that differ most."""
    both = [
        (sum(a in x.dims and b in x.dims for x in boxes), a, b)
        for a, b in combinations(panels, 2)
        if len(_ends(boxes, a)) > 2 and len(_ends(boxes, b)) > 2
    ]
    if not both or max(both)[0] < 2:
        return None
    _, a, b = max(both, key=lambda x: x[0])
    return a, b


def _places(ends: list[int], step: float) -> dict[int, float]:
    """Positions of the ends: a few points apart near each other, many points a little further."""
    places, at = {ends[0]: 0.0}, 0.0
    for before, end in pairwise(ends):
        at += step * (0.8 if end - before <= 4 else 1.7)
        places[end] = at
    return places


class _Sheet:
    """The layout of a picture: nested boxes to the left, a bar per value and dim to the right."""

    def __init__(self, boxes: list[Box], panels: list[str], pair: tuple[str, str] | None) -> None:
        self.boxes, self.panels, self.pair = boxes, panels, pair
        self.ends = {n: _ends(boxes, n) for n in panels}
        self.places = {n: _places(ends, _TICK) for n, ends in self.ends.items()}
        self.colours = {b.name: middle(round(360 * k / len(boxes) + 205) % 360, 0.42) for k, b in enumerate(boxes)}

    def drawing(self, hidden: int) -> Drawing:
        nested = self._nested_size() if self.pair else (0.0, 0.0)
        names = max(width_of(b.name) for b in self.boxes) + 2 * _MARGIN if self.boxes else 0
        bars = names + sum(self._bar_width(n) for n in self.panels)
        height = max(nested[1], 40 + _ROW * len(self.boxes) + 20) + (_ROW if hidden > 0 else 0)
        sheet = Drawing("domains", nested[0] + bars + _MARGIN, height)
        if self.pair:
            self._nested(sheet)
        self._bars(sheet, nested[0], names)
        if hidden > 0:
            sheet.text(nested[0] + _MARGIN, height - 8, f"{hidden} more are not drawn", colour=PALE)
        return sheet

    def _bar_width(self, name: str) -> float:
        return max(self.places[name].values()) + 1.2 * _TICK

    def _at(self, name: str, end: int) -> float:
        return self.places[name][end]

    def _bars(self, sheet: Drawing, left: float, names: float) -> None:
        top, at = 40.0, left + names
        for name in self.panels:
            x = at + _TICK / 2
            sheet.text(x, 14, name, colour=middle(hue(name)), bold=True)
            for end in self.ends[name]:
                tick = x + self._at(name, end)
                sheet.text(tick, 30, str(end), anchor="middle", colour=PALE, size=10)
                sheet.line(tick, 34, tick, top + _ROW * len(self.boxes), stroke=LINE, thick=0.5)
            for k, box in enumerate(self.boxes):
                self._bar(sheet, box, name, x, top + _ROW * k)
            at += self._bar_width(name)
        for k, box in enumerate(self.boxes):
            place = left + _MARGIN, top + _ROW * k + 13
            sheet.text(*place, box.name, bold=box.role != "value")

    def _bar(self, sheet: Drawing, box: Box, name: str, x: float, y: float) -> None:
        i, base = box.dims.get(name), self.boxes[0].dims.get(name)
        if i is None:
            return
        a, b = x + self._at(name, i.start), x + self._at(name, i.stop)
        said = f"{box.name}: {name}{i}, {len(i)} points"
        sheet.rect(a, y + 2, b - a, _ROW - 7, fill=self.colours[box.name], stroke="none", round=3, title=said)
        for low, high in () if not base else ((i.start, base.start), (base.stop, i.stop)):
            if i.start <= low < high <= i.stop:
                centre = x + (self._at(name, low) + self._at(name, high)) / 2
                sheet.text(centre, y + 14, f"+{high - low}", anchor="middle", size=10, colour="#ffffff", bold=True)

    # Nested boxes

    def _nested_size(self) -> tuple[float, float]:
        assert self.pair
        a, b = self.pair
        return max(self.places[a].values()) + 1.6 * _TICK, max(_places(self.ends[b], _STEP).values()) + 1.9 * _TICK

    def _nested(self, sheet: Drawing) -> None:
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
        for (i, j), same in sorted(placed.items(), key=lambda item: -len(item[0][0]) * len(item[0][1])):
            x, width = left + self._at(a, i.start), self._at(a, i.stop) - self._at(a, i.start)
            colour = self.colours[same[0].name]
            names = ", ".join(box.name for box in same)
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
