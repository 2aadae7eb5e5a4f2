"""The parts of a mesh as a picture: a circle for each device, and a line for all that one sends to another.

>>> import numpy as np
>>> import tensorir as ti
>>> from tensorir.distribution.exchange import exchange
>>> from tensorir.distribution.local_program import localised
>>> from tensorir.distribution.plan import DistributionPlan
>>> from tensorir.distribution.subdomains import Subdomains
>>> from tensorir.ir.types import Interval
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

from tensorir.distribution.mesh_exchange import MeshMessage
from tensorir.distribution.plan import DistributionPlan
from tensorir.inspect.colours import middle
from tensorir.inspect.picture import INK, PALE, Drawing, Picture

__all__ = ["parts_of_a_mesh"]

MOST = 12
"""Devices that are drawn."""
DISC, MARGIN = 30, 46


def parts_of_a_mesh(plan: DistributionPlan) -> Picture:
    """Who has how many points of a mesh, and who sends how much to whom: lines in the colour of the sender."""
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
    largest = max((sum(m.bytes for m in some) for some in by_pair.values()), default=1)
    numbers = [
        _line(sheet, places[source], places[target], _colour(source, count), some, largest)
        for (source, target), some in by_pair.items()
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


def _line(
    sheet: Drawing, a: tuple[float, float], b: tuple[float, float], colour: str, some: list[MeshMessage], largest: int
) -> tuple[float, float, int]:
    """A line, bent to the left of its way so that the one back lies beside it; where its number goes, at two thirds."""
    size = sum(m.bytes for m in some)
    dx, dy = b[0] - a[0], b[1] - a[1]
    far = math.hypot(dx, dy)
    bend = (a[0] + dx / 2 + 26 * dy / far, a[1] + dy / 2 - 26 * dx / far)
    t = 0.66
    x, y = ((1 - t) ** 2 * p + 2 * t * (1 - t) * q + t**2 * r for p, q, r in zip(a, bend, b, strict=True))
    title = "\n".join(f"{m}, {m.bytes:,} bytes" for m in some)
    path = f"M{a[0]:.1f} {a[1]:.1f}Q{bend[0]:.1f} {bend[1]:.1f} {b[0]:.1f} {b[1]:.1f}"
    sheet.path(path, stroke=colour, thick=1 + 3 * size / largest, opacity=0.75, title=title)
    return x, y, size
