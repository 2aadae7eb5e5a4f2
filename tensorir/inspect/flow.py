"""Pictures of programs: how values flow in one, and what a pass changes in it.

Parameters, named values and folds stand with their types, and an arrow for each use is as thick as there are bytes in
what flows along it, in steps of powers of ten. A program before and after a pass has what changed marked, and its cost.

>>> import tensorir as ti
>>> f = ti.parse('''f(out: tensor<float, I[1:9]>, inp: tensor<float, I[0:10]>) {
...   out ← let lap = ⟪I, 1⟫(inp) - ⟪I, -1⟫(inp); lap × lap; }''')
>>> print(dataflow(f))
inp (80 bytes) → lap through ⟪I, -1⟫, ⟪I, 1⟫
lap (64 bytes) → out
>>> f = ti.parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { out ← x × 1.0; }")
>>> print(before_after("simplify", f))
simplify: 1 line of 3 changed; 3 operations before and 0 after.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from typing import Any

from tensorir.analysis.cost import bytes_of
from tensorir.binding.programs import fencil_of, subject
from tensorir.inspect.pages import spelled
from tensorir.inspect.picture import INK, LINE, PALE, Drawing, Picture, hue, middle, width_of
from tensorir.ir.nodes import Call, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import counted

MAX_NODES = 60
"""Values that are drawn; a program without names and with fewer operations than this is drawn whole."""
MAX_CHAIN = 60
"""Characters of a chain of shifts."""
_HIGH, _WAY, _GAP, _LANE = 44, 8, 20, 80


@dataclass(eq=False, slots=True)
class _Value:
    """A box of the dataflow graph; `role` is "in", "out" or "value", `layer` its column from the left."""

    name: str
    type: TensorType
    role: str
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def lines(self) -> tuple[str, list[tuple[str, str]]]:
        """The element type, and each dim with its text."""
        element = str(TensorType(self.type.element)).removeprefix("tensor<").removesuffix(">")
        return element, [(n, f"{n}{i}") for n, i in self.type.dims.items]

    @property
    def width(self) -> float:
        element, dims = self.lines
        wide = sum(width_of(t, 10) + 7 for _, t in dims) + width_of(element, 10)
        return max(width_of(self.name), wide) + 22


@dataclass(slots=True)
class _Graph:
    values: list[_Value] = field(default_factory=list[_Value])
    edges: dict[tuple[int, int], dict[str, None]] = field(default_factory=dict[tuple[int, int], dict[str, None]])
    """From value to value, by position, and the shifts on the way."""

    def add(self, value: _Value) -> int:
        self.values.append(value)
        return len(self.values) - 1


def dataflow(program: Any) -> Picture:
    """The dataflow graph of a program: parameters, named values and folds, with types and shifts on the way.

    The program is a fencil, a bound program, or an operator that was called. A small program without names is drawn
    operation by operation. Raises I05 and B09 if its types are not known.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:9]>, x: tensor<float, I[0:10]>) { out ← cos(⟪I, 1⟫(x)); }")
    >>> print(dataflow(f))
    x (80 bytes) → ⟪I, 1⟫ through ⟪I, 1⟫
    ⟪I, 1⟫ (80 bytes) → out
    """
    fencil = fencil_of(program)
    nodes = list(postorder(*(c.value for c in fencil.closures)))
    shows_operations = not any(n.label for n in nodes) and len(nodes) <= MAX_NODES // 2
    graph = _build_graph(fencil, shows_operations)
    hidden = len(graph.values) - MAX_NODES
    if hidden > 0:
        graph = _Graph(graph.values[:MAX_NODES], {e: v for e, v in graph.edges.items() if max(e) < MAX_NODES})
    heights = _place(graph)
    words = [_describe(graph, a, b, list(via)) for (a, b), via in graph.edges.items()]
    if hidden > 0:
        words.append(f"{hidden} more values are not drawn.")
    return _draw(graph, heights, hidden).picture("\n".join(words) or "Nothing is read.")


def _describe(graph: _Graph, a: int, b: int, via: list[str]) -> str:
    """An edge in words: from value `a` to value `b` through the shifts in `via`."""
    source = graph.values[a]
    through = f" through {', '.join(sorted(v for v in via if v))}" if any(via) else ""
    return f"{source.name} ({_bytes(bytes_of(source.type))}) → {graph.values[b].name}{through}"


def _bytes(count: int) -> str:
    """A number of bytes with three digits and a decimal unit.

    >>> _bytes(80), _bytes(33554432), _bytes(999499), _bytes(999500)
    ('80 bytes', '33.6 MB', '999 kB', '1 MB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= 0.9995 * size:  # 999,500 are shown as 1 MB
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _build_graph(fencil: Fencil, shows_operations: bool) -> _Graph:
    """The values of a program and their edges; a variable stands for the value that an earlier closure stored.

    For each node the drawn values that it depends on are followed, with the chains of shifts in between (8 at most).
    """
    graph = _Graph()
    outputs = {p.name for p in fencil.outputs}
    needed = {p.name for p in fencil.inputs}
    value_of_variable: dict[Var, int] = {
        p: graph.add(_Value(p.name, p.type, "in")) for p in fencil.params if p.name in needed or p.name not in outputs
    }
    for closure in fencil.closures:
        inner = {p for n in postorder(closure.value) if isinstance(n, Lambda) for p in n.params}
        reads: dict[int, dict[int, dict[str, None]]] = {}
        for node in postorder(closure.value):
            sources: dict[int, dict[str, None]] = {}
            if isinstance(node, Var):
                if node in value_of_variable and node not in inner:
                    sources[value_of_variable[node]] = {"": None}
            else:
                shifts = isinstance(node, Call) and node.op in ("cartesian_shift", "unstructured_shift", "shift_init")
                step = spelled(node) if shifts else ""
                for k, child in enumerate(node.children):
                    chain_step = "" if step and k == 0 and len(node.children) == 2 else step
                    for source, chains in reads.get(id(child), {}).items():
                        known = sources.setdefault(source, {})
                        for chain in (chain_step + c for c in list(chains)[:8]):
                            known[chain if len(chain) <= MAX_CHAIN else f"{chain[:MAX_CHAIN].rstrip('…')}…"] = None
                is_drawn = isinstance(node, Call) and (
                    node.label or node.op in ("scan", "reduce", "loop", "cond") or shows_operations
                )
                if is_drawn and node is not closure.value and node.free.isdisjoint(inner):
                    box = graph.add(_Value(node.label or spelled(node), node.tensor, "value"))
                    graph.edges.update({(source, box): via for source, via in sources.items()})
                    sources = {box: {"": None}}
            reads[id(node)] = sources
        output_value = graph.add(_Value(closure.output.name, closure.target, "out"))
        graph.edges.update({(source, output_value): via for source, via in reads[id(closure.value)].items()})
        value_of_variable[closure.output] = output_value
    return graph


def _place(graph: _Graph) -> dict[tuple[int, int], float]:
    """Assigns layers by the longest path from the inputs, and coordinates in them, ordered by the mean height of
    operands.

    Fills in `layer`, `x` and `y` of the values; gives the heights, by source and layer, at which edges pass through
    layers.
    """
    values = graph.values
    for a, b in sorted(graph.edges, key=lambda e: e[1]):
        values[b].layer = max(values[b].layer, values[a].layer + 1)
    for k, value in enumerate(values):  # an input stands just before its first reader
        readers = [values[b].layer for a, b in graph.edges if a == k]
        if value.role == "in" and readers:
            value.layer = min(readers) - 1
    # what stands in a layer: a value, or the way of the arrows of one source through it
    layers: dict[int, list[tuple[int, bool]]] = {}
    for k, value in enumerate(values):
        layers.setdefault(value.layer, []).append((k, False))
        last_layer = max((values[b].layer for a, b in graph.edges if a == k), default=0)
        for layer in range(value.layer + 1, last_layer):
            layers.setdefault(layer, []).append((k, True))
    heights: dict[tuple[int, int], float] = {}
    x = 20.0
    for layer in sorted(layers):
        members = layers[layer]

        def mean_height(member: tuple[int, bool], layer: int = layer) -> float:
            """The mean height of a member's sources in the layer before, -1 without any: the key that layers are
            ordered by.
            """
            k, passes_through = member
            sources = [k] if passes_through else [a for a, b in graph.edges if b == k]
            near = [heights[s, layer - 1] for s in sources if (s, layer - 1) in heights]
            return sum(near) / len(near) if near else -1.0

        members.sort(key=mean_height)
        y = 0.0
        for k, passes_through in members:
            heights[k, layer] = y + (_WAY if passes_through else _HIGH) / 2
            y += (_WAY if passes_through else _HIGH) + _GAP
            if not passes_through:
                values[k].x = x
        for k, _ in members:  # every layer around one middle
            heights[k, layer] -= (y - _GAP) / 2
        x += max([values[k].width for k, passes_through in members if not passes_through], default=0.0) + _LANE
    top = min(heights.values(), default=0.0) - _HIGH / 2 - 20
    heights = {place: y - top for place, y in heights.items()}
    for k, value in enumerate(values):
        value.y = heights[k, value.layer] - _HIGH / 2
    return heights


def _draw(graph: _Graph, heights: dict[tuple[int, int], float], hidden: int) -> Drawing:
    """The drawing of a placed graph; `hidden` is the number of values left out."""
    width = max((v.x + v.width for v in graph.values), default=100.0) + 20
    height = max([v.y + _HIGH for v in graph.values] + list(heights.values()), default=40.0) + 34
    sheet = Drawing("dataflow", width, height)
    ends: dict[int, float] = {}
    starts: dict[int, float] = {}
    for value in graph.values:
        ends[value.layer] = max(ends.get(value.layer, 0.0), value.x + value.width)
        starts[value.layer] = value.x
    for (a, b), via in graph.edges.items():
        middles = range(graph.values[a].layer + 1, graph.values[b].layer)
        passages = [(starts[n], ends[n], heights[a, n]) for n in middles if n in starts]
        _draw_arrow(sheet, graph, a, b, list(via), passages)
    for value in graph.values:
        _draw_box(sheet, value)
    more = f"; {hidden} more values are not drawn" if hidden > 0 else ""
    sheet.text(20, height - 10, f"the thicker an arrow, the more bytes, in powers of ten{more}", colour=PALE, size=10)
    return sheet


def _draw_arrow(
    sheet: Drawing, graph: _Graph, a: int, b: int, via: list[str], passages: list[tuple[float, float, float]]
) -> None:
    """Draws the edge from value a to b as a curve; `passages` are (left, right, height) of the layers that it passes
    through.
    """
    source, target = graph.values[a], graph.values[b]
    thick = 1.0 + 0.7 * max(0.0, math.log10(max(1, bytes_of(source.type))) - 1)
    x, y = source.x + source.width, source.y + _HIGH / 2
    end, height = target.x - 7, target.y + _HIGH / 2
    incoming = sorted((graph.values[s].y, s) for s, t in graph.edges if t == b)
    height += (incoming.index((source.y, a)) - (len(incoming) - 1) / 2) * min(9.0, 30 / len(incoming))
    dims = source.type.dims.names
    colour = middle(hue(dims[0])) if dims else "#888888"
    curve = f"M{x:.1f} {y:.1f}"
    for left, right, passage_height in passages:
        curve += f"{_bend(x, y, left, passage_height)}L{right:.1f} {passage_height:.1f}"
        x, y = right, passage_height
    curve += _bend(x, y, end, height)
    sheet.path(curve, stroke=colour, thick=thick, opacity=0.55, title=_describe(graph, a, b, via))
    sheet.path(f"M{end + 7:.1f} {height:.1f}l-9 -4.5l0 9z", stroke="none", fill=colour)


def _bend(x: float, y: float, x2: float, y2: float) -> str:
    half = (x2 - x) / 2
    return f"C{x + half:.1f} {y:.1f} {x2 - half:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


def _draw_box(sheet: Drawing, value: _Value) -> None:
    """Draws a value: its name, element type and dims."""
    element, dims = value.lines
    stroke = {"in": "#2b80d4", "out": "#d4472b"}.get(value.role, LINE)
    sheet.rect(value.x, value.y, value.width, _HIGH, stroke=stroke, thick=1.8 if value.role != "value" else 1, round=5)
    sheet.text(value.x + 10, value.y + 18, value.name, bold=True, colour=INK)
    x = value.x + 10
    sheet.text(x, value.y + 35, element, size=10, colour=PALE)
    x += width_of(element, 10) + 7
    for name, text in dims:
        sheet.text(x, value.y + 35, text, size=10, colour=middle(hue(name), 0.45))
        x += width_of(text, 10) + 7


MAX_LINES = 80
"""Lines of a program that are drawn."""
MAX_COLUMNS = 110
MAX_COMPARED = 1000
"""Lines after the first difference that are compared."""
_LINE = 16
_OLD, _NEW = "#d4472b", "#2ba84a"


def before_after(a_pass: Any, program: Any) -> Picture:
    """The picture of a program before and after a pass, a pipeline, or the text of one.

    The program is a fencil, a bound program, or an operator that was called. Raises N20 for an unknown pass.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { out ← x; }")
    >>> print(before_after("inline, cse", f))
    inline, cse: nothing changes.
    """
    from tensorir.analysis.cost import count
    from tensorir.passes.base import Pass
    from tensorir.passes.pipeline import Pipeline

    pipeline = a_pass if isinstance(a_pass, Pass) else Pipeline(a_pass)
    name = str(pipeline) if isinstance(pipeline, Pipeline) else pipeline.name()
    before = subject(program)
    after = pipeline(before)
    old, new = (str(p).split("\n") for p in (before, after))
    costs = [count(fencil_of(p)) for p in (before, after)]
    rows = _align(old, new)
    changed = sum(mark != " " for mark, _, _ in rows)
    lines = f"{counted(changed, 'line')} of {len(rows)} changed"
    summary = f"{name}: {lines}; {costs[0].operations:,} operations before and {costs[1].operations:,} after."
    if not changed:
        summary = f"{name}: nothing changes."
    return _draw_change(rows, summary).picture(summary, (before, after))


def _align(old: list[str], new: list[str]) -> list[tuple[str, str, str]]:
    """The lines of two texts side by side: (" ", old, new) for equal lines, ("~", old, new) for different ones.

    At most `MAX_COMPARED` lines after the first difference are compared, since the comparison takes quadratic time.
    """
    common_prefix = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rows = [(" ", line, line) for line in old[:common_prefix]]
    # what is compared after the first difference: comparing takes time that is quadratic in equal lines
    old, new = old[common_prefix : common_prefix + MAX_COMPARED], new[common_prefix : common_prefix + MAX_COMPARED]
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for k in range(max(b - a, d - c)):
            left = old[a + k] if a + k < b else ""
            right = new[c + k] if c + k < d else ""
            rows.append((" " if tag == "equal" else "~", left, right))
    return rows


def _draw_change(rows: list[tuple[str, str, str]], words: str) -> Drawing:
    """The drawing of aligned lines in two columns; changed ones have a coloured background."""
    hidden = len(rows) - MAX_LINES
    rows = [(mark, _cut(a), _cut(b)) for mark, a, b in rows[:MAX_LINES]]
    widths = [max([200.0, *(width_of(r[side], 11) for r in rows)]) + 24 for side in (1, 2)]
    height = 62 + _LINE * len(rows) + (24 if hidden > 0 else 8)
    sheet = Drawing("before and after", max(sum(widths) + 36, width_of(words, 11) + 30), height)
    sheet.text(12, 18, words, size=11, colour=PALE)
    for side, (title, x) in enumerate((("before", 12.0), ("after", 24.0 + widths[0])), start=1):
        sheet.text(x, 40, title, bold=True)
        sheet.rect(x, 46, widths[side - 1], _LINE * len(rows) + 10, stroke=LINE, round=4)
        for k, row in enumerate(rows):
            y = 52 + _LINE * k
            if row[0] != " " and row[side]:
                colour = _OLD if side == 1 else _NEW
                sheet.rect(x + 1, y, widths[side - 1] - 2, _LINE, fill=colour, stroke="none", opacity=0.18)
            indent = len(row[side]) - len(row[side].lstrip())
            sheet.text(x + 8 + width_of(" " * indent, 11), y + 12, row[side].strip(), size=11, colour=INK)
    if hidden > 0:
        sheet.text(12, height - 8, f"{hidden} more lines are not drawn", size=11, colour=PALE)
    return sheet


def _cut(line: str) -> str:
    return line if len(line) <= MAX_COLUMNS else line[: MAX_COLUMNS - 1] + "…"
