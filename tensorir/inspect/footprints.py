"""The picture of a footprint: the points of inputs that one point of an output reads, with weights where it is linear.

>>> import tensorir as ti
>>> f = ti.parse('''lap(out: tensor<float, I[1:9], J[1:9]>, h: tensor<float, I[0:10], J[0:10]>) {
...   out ← ⟪I, 1⟫(h) + ⟪I, -1⟫(h) + ⟪J, 1⟫(h) + ⟪J, -1⟫(h) - 4.0 × h; }''')
>>> print(footprint(f, at={"I": 4, "J": 5}))
out at I = 4, J = 5 reads
h: 5 points of I[3:6], J[4:7]; it is linear in them
>>> footprint(f, at={"I": 4, "J": 5}).data["h"].weights[(4, 5)]
-4.0
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tensorir.analysis.domains import domains
from tensorir.binding.arrays import Array, accept, leaves_of, nested
from tensorir.binding.calls import check_names, tables_of
from tensorir.binding.programs import BoundProgram, fencil_of, subject
from tensorir.inspect.picture import INK, LINE, PALE, PAPER, Drawing, Picture, hue, middle, width_of
from tensorir.integers.dims import Interval
from tensorir.integers.sets import IntegerSet
from tensorir.ir import build
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.types import DTYPES, Scalar
from tensorir.passes.base import with_fencil
from tensorir.passes.closures import Inline
from tensorir.runtime.errors import DiagnosticError, did_you_mean, refuse

MAX_POINTS = 300
"""Points of an input whose weights are computed: each takes one run of the oracle on what one point needs."""
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
    """The points of every input that one point of an output reads, with weights if the output is linear in them.

    The program is a fencil, a bound program, or an operator that was called. `out` names the output if there are
    several, or a member of tuples, such as "out[0]". `at` is the point by dim (default: the middle), `given` has values
    of inputs held fixed, such as coefficients. Weights are computed with the interpreter. Raises N22 for an unknown
    output, A08 for a `given` one, A15 or A16 for a point that does not exist.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:9]>, a: tensor<float>, x: tensor<float, I[0:9]>) { out ← a × x; }")
    >>> footprint(f, at={"I": 4}, given={"a": 0.5}).data["x"].weights
    {(4,): 0.5}
    """
    selected: Any = subject(program)
    name, _, member = (out or "").partition("[")
    if member:
        output = _find_output(fencil_of(selected), name)
        selected = with_fencil(selected, lambda fencil: _take_member(fencil, output, member.removesuffix("]")))
    bound = BoundProgram.of(selected)
    fencil = fencil_of(selected)
    output = _find_output(fencil, name or None)
    point = _choose_point(output, {} if at is None else at)
    region = {n: (p, p + 1) for n, p in point.items()}
    others = {p.name: {d: (i.start, i.start) for d, i in p.type.dims.items} for p in fencil.outputs if p is not output}
    needed_points = domains(selected, {**others, output.name: region}).params
    reads = {n: points for n, points in needed_points.items() if points and n not in bound.constants}
    if given is not None and not hasattr(given, "items"):
        raise refuse("A08", f"{given!r} gives no values of parameters.", 'write given={"a": 0.5}.')
    check_names(bound, given or {})
    tables = tables_of(fencil)
    fixed = {p.name: _accept(given[p.name], p, p.name in tables) for p in fencil.params if given and p.name in given}
    weights = _find_weights(selected, output, region, reads, fixed)
    readings = {n: Reading(points, None if weights is None else weights.get(n)) for n, points in reads.items()}
    point_text = ", ".join(f"{n} = {p}" for n, p in point.items())
    lines = [f"{out or output.name}{' at ' if point_text else ''}{point_text} reads"]
    lines += [f"{n}: {_describe(r)}" for n, r in readings.items()]
    return _draw(out or output.name, point, readings, fencil).picture("\n".join(lines), readings)


def _describe(reading: Reading) -> str:
    """A reading in words: the number of points, their hull, and if the output is linear in them."""
    points = reading.points
    if not points.names:
        return "its value"
    count = "one point" if len(points) == 1 else f"{len(points)} points"
    linear = "; it is linear in them" if reading.weights is not None else ""
    return f"{count} of {points.hull}{linear}"


def _find_output(fencil: Fencil, name: str | None) -> Var:
    """The output of a name, the last one for None; raises N22 for an unknown name."""
    if name is None:
        return fencil.outputs[-1]
    for p in fencil.outputs:
        if p.name == name:
            return p
    names = [p.name for p in fencil.outputs]
    raise refuse("N22", f"'{fencil.name}' has no output '{name}'.", did_you_mean(name, names))


def _take_member(fencil: Fencil, output: Var, member: str) -> Fencil:
    """The program with one member of a tuple output as that output.

    Raises N22 if there is no such member, or a closure reads the output.
    """
    element = output.type.element
    count = 0 if isinstance(element, Scalar) else len(element.members)
    is_read = any(output in c.value.free for c in fencil.closures)
    if not member.isdecimal() or int(member) >= count or is_read:
        members = f"it has {count} members" if count else "it holds numbers"
        reason = "it is read, too" if is_read else members
        raise refuse("N22", f"'{output.name}' has no member {member} to look at: {reason}.")
    index = int(member)
    one = build.var(output.name, output.type.of(element.members[index]))  # type: ignore[union-attr]

    def member_of(value: Expr) -> Expr:
        if isinstance(value, Call) and value.op == "make_tuple":
            return value.args[index]
        return build.call("tuple_get", value, static=(index,))

    closures = [
        build.closure(one, member_of(c.value), c.region) if c.output == output else c
        for c in Inline().run(fencil).closures
    ]
    return build.fencil(fencil.name, [one if p == output else p for p in fencil.params], closures)


def _choose_point(output: Var, at: Mapping[Any, Any]) -> dict[str, int]:
    """The point of an output, in the order of its dims; missing coordinates are in the middle. Raises A15 or A16."""
    if not hasattr(at, "items"):
        raise refuse("A16", f"{at!r} is no point: a point has a number for each dim.", 'write at={"I": 4}.')
    dims = output.type.dims
    for key, value in at.items():
        if str(key) not in dims:
            raise refuse("A15", f"'{output.name}' has no dim {key}.", did_you_mean(str(key), dims.names))
        if not isinstance(value, int | np.integer):
            raise refuse("A16", f"{key} = {value!r} is no point: a coordinate is a whole number.")
    given = {str(k): int(v) for k, v in at.items()}
    point = {n: given.get(n, (i.start + i.stop) // 2) for n, i in dims.items}
    for n, p in point.items():
        if p not in dims[n]:
            raise refuse("A16", f"{n} = {p} is not inside of {n}{dims[n]}, all of '{output.name}'.")
    return point


# Weights


def _find_weights(
    program: Any, output: Var, region: Mapping[str, tuple[int, int]], reads: Mapping[str, IntegerSet],
    given: Mapping[str, list[Array]],
) -> dict[str, dict[tuple[int, ...], float]] | None:  # fmt: skip
    """The weight of each point of the float inputs, None if the output is not linear in all of them together.

    Weights are differences to the value at zero, one run of the interpreter per point; two random inputs verify
    linearity. Also None for outputs that are no floats, more than `MAX_POINTS` points, and integer inputs that are not
    given.
    """
    from tensorir import reference
    from tensorir.passes.restrict import restrict

    if not isinstance(output.type.element, Scalar) or not output.type.element.is_float:
        return None
    restricted: Any = restrict(program, {output.name: dict(region)})
    constants: Any = restricted.constants if isinstance(restricted, BoundProgram) else {}
    fencil = fencil_of(restricted)
    variable_inputs = {
        p.name: p for p in fencil.inputs
        if p.name in reads and p.name not in given and isinstance(e := p.type.element, Scalar) and e.is_float
    }  # fmt: skip
    if sum(len(reads[n]) for n in variable_inputs) > MAX_POINTS:
        return None
    fixed_inputs: dict[str, Any] = {}
    for p in fencil.inputs:
        if p.name in given:
            pairs = [(i.start, p.type.dims[n]) for n, i in fencil_of(program)[p.name].type.dims.items]
            part = tuple(slice(i.start - origin, i.stop - origin) for origin, i in pairs)
            fixed_inputs[p.name] = nested(p.type.element, [a[part] for a in given[p.name]])
        elif p.name not in variable_inputs and p.name not in constants:
            return None  # an integer or a table that nobody gave decides what is computed

    def output_value(inputs: Mapping[str, Array]) -> float:
        return float(np.asarray(reference.run(restricted, **fixed_inputs, **inputs)[output.name]).ravel()[0])

    def zeros() -> dict[str, Array]:
        return {n: np.zeros(p.type.dims.shape, DTYPES[p.type.leaves[0]]) for n, p in variable_inputs.items()}

    try:
        base = output_value(zeros())
        weights: dict[str, dict[tuple[int, ...], float]] = {}
        for name, p in variable_inputs.items():
            starts = [i.start for _, i in p.type.dims.items]
            weights[name] = {}
            for q in reads[name].onto(p.type.dims.names):
                unit = zeros()
                unit[name][tuple(c - s for c, s in zip(q, starts, strict=True))] = 1.0
                weights[name][tuple(q)] = output_value(unit) - base
        rng = np.random.default_rng(0)
        for scale in (1.0, -37.5):
            trial: dict[str, Array] = {
                n: np.asarray(scale * rng.normal(size=a.shape), a.dtype) for n, a in zeros().items()
            }
            expected, size = base, 0.0
            for name, p in variable_inputs.items():
                starts = [i.start for _, i in p.type.dims.items]
                for q, w in weights[name].items():
                    term = w * float(trial[name][tuple(c - s for c, s in zip(q, starts, strict=True))])
                    expected, size = expected + term, size + abs(term)
            if not abs(output_value(trial) - expected) <= 1e-5 * max(size, abs(base), 1e-300):
                return None
    except DiagnosticError:
        return None
    return {
        n: {tuple(q[p.type.dims.names.index(d)] for d in reads[n].names): w for q, w in weights[n].items()}
        for n, p in variable_inputs.items()
    }


def _accept(value: Any, param: Var, is_table: bool) -> list[Array]:
    """The arrays of a value for a parameter, one for each leaf of its elements."""
    leaves = leaves_of(value, param.type.element, param.name)
    return [np.asarray(accept(leaf, name, e, param.type.dims, is_table).data) for name, e, leaf in leaves]


# Drawing


def _draw(name: str, point: Mapping[str, int], readings: Mapping[str, Reading], fencil: Fencil) -> Drawing:
    """The drawing of all readings: panels from left to right, in rows of limited width."""
    panels = [p for n, r in readings.items() for p in _lay_out(n, r, point, fencil)]
    panel_rows: list[list[_Panel]] = [[]]
    for panel in panels:
        if panel_rows[-1] and sum(p.width for p in panel_rows[-1]) + panel.width > _SHEET:
            panel_rows.append([])
        panel_rows[-1].append(panel)
    width = max(sum(p.width for p in line) for line in panel_rows) + 20
    height = sum(max((p.height for p in line), default=0.0) for line in panel_rows) + 40
    point_text = ", ".join(f"{n} = {p}" for n, p in point.items())
    title = f"{name}{' at ' if point_text else ''}{point_text} reads"
    sheet = Drawing("footprint", max(width, width_of(title) + 30), height)
    sheet.text(14, 20, title, bold=True)
    y = 34.0
    for line in panel_rows:
        x = 10.0
        for panel in line:
            panel.draw(sheet, x, y)
            x += panel.width
        y += max((p.height for p in line), default=0.0)
    return sheet


@dataclass(frozen=True, slots=True)
class _Panel:
    """A grid of cells: columns along dim `across`, rows along dim `up`, with the weight of each point that is read."""

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
        """The width of the labels left of the grid."""
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
        """Draws the grid with labels at its axes, at position (x, y)."""
        sheet.text(x + 6, y + 14, self.heading, colour=INK)
        left, top = x + self.left, y + 28
        for (c, column), (r, row) in product(enumerate(self.columns), enumerate(reversed(self.rows))):
            self._draw_cell(sheet, left + self.cell * c, top + self.cell * r, column, row)
        bottom = top + self.cell * len(self.rows)
        if self.across:
            label_step = 1 if self.cell == _WIDE else 5
            for c, column in enumerate(self.columns):
                if c % label_step:
                    continue
                centre = left + self.cell * (c + 0.5)
                sheet.text(centre, bottom + 15, str(column), anchor="middle", size=10, colour=PALE)
            centre = left + self.cell * len(self.columns) / 2
            sheet.text(centre, bottom + 31, self.across, anchor="middle", colour=middle(hue(self.across)), bold=True)
        if self.up:
            label_step = 1 if len(self.rows) <= 14 else 5
            for r, row in enumerate(reversed(self.rows)):
                if (len(self.rows) - 1 - r) % label_step:
                    continue
                sheet.text(left - 6, top + self.cell * (r + 0.5) + 4, str(row), anchor="end", size=10, colour=PALE)
            sheet.text(x + 6, (top + bottom) / 2 + 4, self.up, colour=middle(hue(self.up)), bold=True)

    def _draw_cell(self, sheet: Drawing, x: float, y: float, column: int, row: int) -> None:
        """Draws one cell: coloured by the sign and size of its weight, with the weight if there is room, framed at the
        output's point.
        """
        cell = (column, row)
        is_read = cell in self.cells
        weight = self.cells.get(cell)
        fill, opacity, largest = PAPER, 1.0, self.largest
        if is_read:
            angle = _READ if weight is None else _POSITIVE if weight > 0 else _NEGATIVE
            fill = middle(angle, 0.5)
            opacity = 0.45 if weight is None else 0.2 + 0.5 * abs(weight) / largest
        sheet.rect(x, y, self.cell, self.cell, stroke=LINE)
        if is_read:
            sheet.rect(x + 1, y + 1, self.cell - 2, self.cell - 2, fill=fill, stroke="none", opacity=opacity)
            if weight is not None and self.cell == _WIDE:
                text = f"{weight / 10.0**self.power:.3g}" if abs(weight) > 1e-12 * largest else "0"
                size = min(13.0, (self.cell - 12) / (max(1, len(text)) * 0.61))
                sheet.text(x + self.cell / 2, y + self.cell / 2 + 4.5, text, anchor="middle", size=size)
        matches = [s == p for s, p in zip(self.spot, cell, strict=True) if s is not None]
        if matches and all(matches):
            sheet.rect(x + 2.5, y + 2.5, self.cell - 5, self.cell - 5, fill="none", stroke=INK, thick=2.2, round=4)


def _lay_out(name: str, reading: Reading, point: Mapping[str, int], fencil: Fencil) -> list[_Panel]:
    """The panels of one reading: two dims as axes, one panel per combination of the others; at most 8."""
    points = reading.points
    rows = [tuple(q) for q in points] if len(points) <= 5000 else []
    weights = reading.weights or {}
    if not points.names:
        return [_Panel(f"{name}, a number", "", (0,), "", (0,), {(0, 0): weights.get(())}, (None, None))]
    if not rows:
        return [_Panel(f"{name}: {len(points):,} points of {points.hull}", "", (), "", (), {}, (None, None))]
    coordinates_of = {n: sorted({q[k] for q in rows}) for k, n in enumerate(points.names)}
    ordered_dims = sorted(points.names, key=lambda n: (len(coordinates_of[n]) == 1, n))
    across, up = ordered_dims[0], ordered_dims[1] if len(ordered_dims) > 1 else ""
    other_dims = [n for n in points.names if n not in (across, up)]
    input_dims = fencil[name].type.dims
    panels: list[_Panel] = []
    for rest in product(*[coordinates_of[n] for n in other_dims]):
        alike = [q for q in rows if all(q[points.names.index(n)] == r for n, r in zip(other_dims, rest, strict=True))]
        if not alike:
            continue
        a = points.names.index(across)
        b = points.names.index(up) if up else -1
        cells = {(q[a], q[b] if up else 0): weights.get(q) for q in alike}
        fixed = "".join(f", {n} = {r}" for n, r in zip(other_dims, rest, strict=True))
        cut = ", a part" if any(len(coordinates_of[n]) > MAX_CELLS for n in (across, up) if n) else ""
        panels.append(
            _Panel(
                f"{name}{fixed}{cut}", across, _axis(coordinates_of[across], input_dims[across], point, across),
                up, _axis(coordinates_of[up], input_dims[up], point, up) if up else (0,), cells,
                (point.get(across), point.get(up) if up else None),
            )
        )  # fmt: skip
    return panels[:8]


def _axis(used: list[int], inside: Interval, point: Mapping[str, int], dim: str) -> tuple[int, ...]:
    """The coordinates along one side: all between the ends and one more on each side, or only those used if they are
    sparse.
    """
    shown = [*used, point[dim]] if dim in point else used
    low, high = max(inside.start, min(shown) - 1), min(inside.stop, max(shown) + 2)
    if high - low <= MAX_CELLS and not (dim not in point and len(used) * 3 < high - low):
        return tuple(range(low, high))
    return tuple(used[:MAX_CELLS])
