"""Programs on the devices of a mesh as pictures: blocks with the halos that they get, or the parts of a mesh.

Of blocks it is from whom each gets what; of an unstructured mesh a circle for each device, and a line for all that one
sends to another.

>>> import tensorir as ti
>>> from tensorir.distribution.partition import Decomposition
>>> from tensorir.distribution.exchange import exchange
>>> from tensorir.distribution.local_program import localised
>>> from tensorir.distribution.plan import DistributionPlan
>>> from tensorir.integers.dims import Interval
>>> f = ti.parse("f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:8]>) { y ← ⟪I, -1⟫(x) + x; }")
>>> local = localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 2)})
>>> print(distribution(DistributionPlan(local, exchange(local))))
f on 2 devices
I[0:8] along 'px' in 2 blocks of 4
x: 1 point before along I
px 0 → 1: x at I[3:4], 8 bytes
1 permute and 8 bytes a step
>>> import numpy as np
>>> from tensorir.distribution.partition import Subdomains
>>> f = ti.parse("f(y: tensor<float, V[0:4]>, x: tensor<float, V[0:4]>, T: tensor<int, V[0:4], _NB_V[0:1]>) {"
...              "y ← ⟪T, 0⟫(x); }")
>>> owners = {"V": Subdomains("V", "px", Interval(0, 4), 2, np.array([0, 0, 1, 1]))}
>>> local = localised(f, owners, {"T": np.array([[1], [2], [3], [0]])})
>>> print(parts_of_a_mesh(DistributionPlan(local, exchange(local))))
f on 2 devices
V[0:4] along 'px' in 2 parts of 2
x: 1 point of others along V at most
px 0 → 1: x at 1 point of V, 8 bytes
px 1 → 0: x at 1 point of V, 8 bytes
1 permute and 16 bytes a step
"""

from __future__ import annotations

import math
from itertools import product

from tensorir.distribution.exchange import Message
from tensorir.distribution.mesh_exchange import MeshMessage
from tensorir.distribution.partition import Decomposition
from tensorir.distribution.plan import DistributionPlan
from tensorir.inspect.pages import Fold, markup, page
from tensorir.inspect.picture import INK, PALE, PAPER, Drawing, Picture, middle
from tensorir.runtime.errors import refuse

MOST = 12
"""Devices that are drawn."""
DISC, MARGIN = 30, 46


def parts_of_a_mesh(plan: DistributionPlan) -> Picture:
    """The picture of an unstructured mesh on devices: a disc per device with its points, a line per pair that sends.

    Lines have the sender's colour and a width by bytes; at most `MOST` devices are drawn.
    """
    first = plan.subdomains[0]
    count = min(first.parts, MOST)
    radius = max(95.0, 2.1 * DISC * count / math.pi)
    side = 2 * (radius + DISC + MARGIN)
    sheet = Drawing(f"{plan.local.program.name} on many devices", side, side + 18)
    places = [
        (side / 2 + radius * math.sin(2 * math.pi * k / count), side / 2 - radius * math.cos(2 * math.pi * k / count))
        for k in range(count)
    ]
    by_pair: dict[tuple[int, int], list[MeshMessage]] = {}
    for m in plan.messages:
        if isinstance(m, MeshMessage) and max(m.source, m.target) < count:
            by_pair.setdefault((m.source, m.target), []).append(m)
    largest = max((sum(m.bytes for m in messages) for messages in by_pair.values()), default=1)
    numbers = [
        _draw_line(sheet, places[source], places[target], _colour(source, count), messages, largest)
        for (source, target), messages in by_pair.items()
    ]
    for x, y, size in numbers:  # no line goes over them
        sheet.text(x, y + 3, f"{size:,}", anchor="middle", size=9, colour=INK)
    for k, (x, y) in enumerate(places):
        points = [f"{p.counts[k]} {p.dim}" for p in plan.subdomains]
        sheet.circle(x, y, DISC, stroke=_colour(k, count), thick=2, title="\n".join(points))
        sheet.text(x, y - 2, str(k), anchor="middle", bold=True, size=13)
        sheet.text(x, y + 14, str(first.counts[k]), anchor="middle", size=10, colour=PALE)
    shown = "" if count == first.parts else f"; the first {count} devices"
    sheet.text(MARGIN / 2, side + 8, f"points of {first.dim}; lines: bytes sent{shown}", colour=PALE, size=10)
    return sheet.picture(str(plan), plan)


def _colour(k: int, count: int) -> str:
    return middle((205 + 360 * k // count) % 360, 0.42)


def _draw_line(
    sheet: Drawing, a: tuple[float, float], b: tuple[float, float], colour: str, sent: list[MeshMessage], largest: int
) -> tuple[float, float, int]:
    """Draws a curve from a to b, bent to the left so that the one back lies beside it; gives the place and value of its
    label.

    `largest` is the largest number of bytes of any line, for the width.
    """
    total_bytes = sum(m.bytes for m in sent)
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = math.hypot(dx, dy)
    bend = (a[0] + dx / 2 + 26 * dy / length, a[1] + dy / 2 - 26 * dx / length)
    t = 0.66
    x, y = ((1 - t) ** 2 * p + 2 * t * (1 - t) * q + t**2 * r for p, q, r in zip(a, bend, b, strict=True))
    title = "\n".join(f"{m}, {m.bytes:,} bytes" for m in sent)
    path = f"M{a[0]:.1f} {a[1]:.1f}Q{bend[0]:.1f} {bend[1]:.1f} {b[0]:.1f} {b[1]:.1f}"
    sheet.path(path, stroke=colour, thick=1 + 3 * total_bytes / largest, opacity=0.75, title=title)
    return x, y, total_bytes


BLOCK, GAP, BLOCK_MARGIN = (120, 76), 84, 46
"""Width and height of a block, what lies between two, and what lies around."""
HALO = 13
MOST_BLOCKS = 4
"""Blocks along a dim that are drawn."""

Place = tuple[float, float]


def distribution(plan: DistributionPlan) -> Picture:
    """The picture of a plan: blocks along its first two dims, with the halo that each receives in the sender's colour.

    Of an unstructured mesh, the bytes sent between devices.
    """
    # users who check no types give programs
    if not isinstance(plan, DistributionPlan):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"a plan of devices is drawn, and this is of type {type(plan).__name__}."
        raise refuse("B10", message, "write ti.inspect.distribution(d.plan(n=64)).")
    if plan.subdomains:
        return parts_of_a_mesh(plan)
    first_dim, *more_dims = plan.decompositions
    second_dim = more_dims[0] if more_dims else None
    columns, rows = min(first_dim.parts, MOST_BLOCKS), min(second_dim.parts, MOST_BLOCKS) if second_dim else 1
    width = 2 * BLOCK_MARGIN + columns * BLOCK[0] + (columns - 1) * GAP
    height = 2 * BLOCK_MARGIN + rows * BLOCK[1] + (rows - 1) * GAP + 18
    sheet = Drawing(f"{plan.local.program.name} on many devices", width, height)
    for k, j in product(range(columns), range(rows)):
        _draw_block(sheet, first_dim, second_dim, k, j, rows)
    for side, part, count in ((0, first_dim, columns), (1, second_dim, rows)):
        if part is not None:
            _draw_messages(sheet, plan, part, side, count, rows if side == 0 else columns, columns, rows)
    if columns < first_dim.parts or (second_dim and rows < second_dim.parts):
        sheet.text(BLOCK_MARGIN, height - 8, "the first blocks along each dim", colour=PALE, size=10)
    return sheet.picture(str(plan), plan)


def page_of(plan: DistributionPlan) -> str:
    """The picture, and the plan in words."""
    lines = tuple(Fold(markup("{}", line)) for line in str(plan).split("\n"))
    return distribution(plan).svg + page(Fold(markup("{}", "in words"), lines, open=False))


def _corner(k: int, j: int) -> Place:
    return BLOCK_MARGIN + k * (BLOCK[0] + GAP), BLOCK_MARGIN + j * (BLOCK[1] + GAP)


def _colour_of_device(k: int, j: int, rows: int) -> str:
    return middle((205 + 77 * (k * rows + j)) % 360, 0.42)


def _draw_block(
    sheet: Drawing, across: Decomposition, down: Decomposition | None, k: int, j: int, rows: int
) -> None:  # fmt: skip
    """Draws the block of device (k, j) with its intervals; `down` is None for one row of blocks."""
    (x, y), colour = _corner(k, j), _colour_of_device(k, j, rows)
    points = [f"{across.dim}{across.block(k)}"] + ([f"{down.dim}{down.block(j)}"] if down else [])
    sheet.rect(x, y, *BLOCK, fill=colour, stroke="none", opacity=0.16)
    sheet.rect(x, y, *BLOCK, fill="none", stroke=colour, thick=2, title=", ".join(points))
    name = f"{k}, {j}" if down else str(k)
    for row, line in enumerate([name, *points]):
        sheet.text(x + BLOCK[0] / 2, y + 26 + 17 * row, line, anchor="middle", bold=row == 0, size=12 if row else 13)


def _draw_messages(
    sheet: Drawing, plan: DistributionPlan, part: Decomposition, orientation: int, blocks: int, repeats: int,
    columns: int, rows: int,
) -> None:  # fmt: skip
    """Draws the messages along one axis: a strip of halo at the target, with its width in points, and an arrow.

    `orientation` is 0 for the horizontal dim, 1 for the vertical one; `blocks` are drawn along it, `repeats` across it.
    """
    by_pair: dict[tuple[int, int], list[Message]] = {}
    for m in plan.messages:
        if isinstance(m, Message) and m.axis == part.axis and m.source != m.target and max(m.source, m.target) < blocks:
            by_pair.setdefault((m.source, m.target), []).append(m)
    for (source, target), sent in by_pair.items():
        is_before = sent[0].position < 0
        points = max(len(m.points) for m in sent)
        title = "\n".join(f"{m}, {m.bytes:,} bytes" for m in sent)
        for line in range(repeats):
            (k, j), (a, b) = ((target, line), (source, line)) if orientation == 0 else ((line, target), (line, source))
            x, y = _corner(k, j)
            colour = _colour_of_device(a, b, rows)
            if orientation == 0:
                strip = x - HALO - 2 if is_before else x + BLOCK[0] + 2
                sheet.rect(strip, y, HALO, BLOCK[1], fill=colour, stroke="none", opacity=0.75, round=2, title=title)
                _write_count(sheet, strip + HALO / 2, y + BLOCK[1] / 2 + 4, points)
            else:
                strip = y - HALO - 2 if is_before else y + BLOCK[1] + 2
                sheet.rect(x, strip, BLOCK[0], HALO, fill=colour, stroke="none", opacity=0.75, round=2, title=title)
                _write_count(sheet, x + BLOCK[0] / 2, strip + HALO - 3, points)
            if abs(source - target) == 1:
                _draw_arrow(sheet, _corner(a, b), _corner(k, j), orientation, source < target)


def _write_count(sheet: Drawing, x: float, y: float, points: int) -> None:
    sheet.text(x, y, str(points), anchor="middle", size=10, colour=PAPER, bold=True)


def _draw_arrow(sheet: Drawing, source: Place, target: Place, orientation: int, forth: bool) -> None:
    """Draws an arrow from a block to the next; forward ones (`forth`) lie above, or left of, those back."""
    shift = -14 if forth else 14
    if orientation == 0:
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
