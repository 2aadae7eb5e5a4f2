"""A program on a mesh as a picture: the blocks of devices, the halos that they get, and who sends them.

>>> import tensorir as ti
>>> from tensorir.distribution.decomposition import Decomposition
>>> from tensorir.distribution.exchange import exchange
>>> from tensorir.distribution.local_program import localised
>>> from tensorir.distribution.plan import DistributionPlan
>>> from tensorir.ir.types import Interval
>>> f = ti.parse("f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:8]>) { y ← ⟪I, -1⟫(x) + x; }")
>>> local = localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 2)})
>>> print(distribution(DistributionPlan(local, exchange(local))))
f on 2 devices
I[0:8] along 'px' in 2 blocks of 4
x: 1 point before along I
px 0 → 1: x at I[3:4], 8 bytes
1 permute and 8 bytes a step
"""

from __future__ import annotations

from itertools import product

from tensorir.distribution.decomposition import Decomposition
from tensorir.distribution.exchange import Message
from tensorir.distribution.plan import DistributionPlan
from tensorir.inspect.colours import middle
from tensorir.inspect.mesh_pictures import parts_of_a_mesh
from tensorir.inspect.page import Fold, markup, page
from tensorir.inspect.picture import INK, PALE, PAPER, Drawing, Picture

__all__ = ["distribution", "page_of"]

BLOCK, GAP, MARGIN = (120, 76), 84, 46
"""Width and height of a block, what lies between two, and what lies around."""
HALO = 13
MOST = 4
"""Blocks along a dim that are drawn."""

Place = tuple[float, float]


def distribution(plan: DistributionPlan) -> Picture:
    """The blocks of a plan along its first two dims: what each gets of others, and from whom, in the block's colour.

    Of an unstructured mesh it is who sends how much to whom.
    """
    if plan.subdomains:
        return parts_of_a_mesh(plan)
    across, *others = plan.decompositions
    down = others[0] if others else None
    columns, rows = min(across.parts, MOST), min(down.parts, MOST) if down else 1
    width = 2 * MARGIN + columns * BLOCK[0] + (columns - 1) * GAP
    height = 2 * MARGIN + rows * BLOCK[1] + (rows - 1) * GAP + 18
    sheet = Drawing(f"{plan.local.program.name} on many devices", width, height)
    for k, j in product(range(columns), range(rows)):
        _block(sheet, across, down, k, j, rows)
    for side, part, count in ((0, across, columns), (1, down, rows)):
        if part is not None:
            _messages(sheet, plan, part, side, count, rows if side == 0 else columns, columns, rows)
    if columns < across.parts or (down and rows < down.parts):
        sheet.text(MARGIN, height - 8, "the first blocks along each dim", colour=PALE, size=10)
    return sheet.picture(str(plan), plan)


def page_of(plan: DistributionPlan) -> str:
    """The picture, and the plan in words."""
    lines = tuple(Fold(markup("{}", line)) for line in str(plan).split("\n"))
    return distribution(plan).svg + page(Fold(markup("{}", "in words"), lines, open=False))


def _corner(k: int, j: int) -> Place:
    return MARGIN + k * (BLOCK[0] + GAP), MARGIN + j * (BLOCK[1] + GAP)


def _colour(k: int, j: int, rows: int) -> str:
    return middle((205 + 77 * (k * rows + j)) % 360, 0.42)


def _block(
    sheet: Drawing, across: Decomposition, down: Decomposition | None, k: int, j: int, rows: int
) -> None:  # fmt: skip
    (x, y), colour = _corner(k, j), _colour(k, j, rows)
    points = [f"{across.dim}{across.block(k)}"] + ([f"{down.dim}{down.block(j)}"] if down else [])
    sheet.rect(x, y, *BLOCK, fill=colour, stroke="none", opacity=0.16)
    sheet.rect(x, y, *BLOCK, fill="none", stroke=colour, thick=2, title=", ".join(points))
    name = f"{k}, {j}" if down else str(k)
    for row, line in enumerate([name, *points]):
        sheet.text(x + BLOCK[0] / 2, y + 26 + 17 * row, line, anchor="middle", bold=row == 0, size=12 if row else 13)


def _messages(
    sheet: Drawing, plan: DistributionPlan, part: Decomposition, side: int, count: int, lines: int, columns: int,
    rows: int,
) -> None:  # fmt: skip
    """What devices along one axis of the mesh send: a strip at the target's side, with how many points it is wide."""
    for (source, target), sent in _by_pair(plan, part).items():
        if source >= count or target >= count:
            continue
        before = sent[0].position < 0
        points = max(len(m.points) for m in sent)
        title = "\n".join(f"{m}, {m.bytes:,} bytes" for m in sent)
        for line in range(lines):
            (k, j), (a, b) = ((target, line), (source, line)) if side == 0 else ((line, target), (line, source))
            x, y = _corner(k, j)
            colour = _colour(a, b, rows)
            if side == 0:
                at = x - HALO - 2 if before else x + BLOCK[0] + 2
                sheet.rect(at, y, HALO, BLOCK[1], fill=colour, stroke="none", opacity=0.75, round=2, title=title)
                _said(sheet, at + HALO / 2, y + BLOCK[1] / 2 + 4, points)
            else:
                at = y - HALO - 2 if before else y + BLOCK[1] + 2
                sheet.rect(x, at, BLOCK[0], HALO, fill=colour, stroke="none", opacity=0.75, round=2, title=title)
                _said(sheet, x + BLOCK[0] / 2, at + HALO - 3, points)
            if abs(source - target) == 1:
                _arrow(sheet, _corner(a, b), _corner(k, j), side, source < target)


def _by_pair(plan: DistributionPlan, part: Decomposition) -> dict[tuple[int, int], list[Message]]:
    found: dict[tuple[int, int], list[Message]] = {}
    for m in plan.messages:
        if isinstance(m, Message) and m.axis == part.axis and m.source != m.target:
            found.setdefault((m.source, m.target), []).append(m)
    return found


def _said(sheet: Drawing, x: float, y: float, points: int) -> None:
    sheet.text(x, y, str(points), anchor="middle", size=10, colour=PAPER, bold=True)


def _arrow(sheet: Drawing, source: Place, target: Place, side: int, forth: bool) -> None:
    """An arrow from a block to the one beside it: those forth lie above, or left of, those back."""
    shift = -14 if forth else 14
    if side == 0:
        y = source[1] + BLOCK[1] / 2 + shift
        x, x2 = (source[0] + BLOCK[0] + 20, target[0] - 22) if forth else (source[0] - 20, target[0] + BLOCK[0] + 22)
        tip = 5 if forth else -5
        sheet.line(x, y, x2, y, stroke=INK, thick=1.4)
        sheet.path(f"M{x2 - tip:.1f} {y - 4:.1f}L{x2:.1f} {y:.1f}L{x2 - tip:.1f} {y + 4:.1f}", stroke=INK, thick=1.4)
    else:
        x = source[0] + BLOCK[0] / 2 + shift
        y, y2 = (source[1] + BLOCK[1] + 20, target[1] - 22) if forth else (source[1] - 20, target[1] + BLOCK[1] + 22)
        tip = 5 if forth else -5
        sheet.line(x, y, x, y2, stroke=INK, thick=1.4)
        sheet.path(f"M{x - 4:.1f} {y2 - tip:.1f}L{x:.1f} {y2:.1f}L{x + 4:.1f} {y2 - tip:.1f}", stroke=INK, thick=1.4)
