"""The picture of a neighbour table: a point of a mesh, and who its neighbours are, slot by slot.

>>> import numpy as np
>>> print(table(np.array([[0, 1, -1], [2, 1, 0]]), 0))
0 has 2 neighbours: 0 in slot 0, 1 in slot 1; slot 2 is empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.binding.arrays import Array
from tensorir.inspect.picture import INK, LINE, PALE, PAPER, Drawing, Picture, hue, middle, width_of
from tensorir.ir.types import NEIGHBOUR
from tensorir.runtime.errors import counted, did_you_mean, refuse

_SIDE = 420
_KINDS = {"V": "Vertex", "E": "Edge", "C": "Cell"}


def table(table: Any, point: int, name: str = "") -> Picture:
    """The picture of one point of a neighbour table and its neighbours.

    `table` is an array (points × slots, -1: no neighbour), or a mesh with `points` and `tables`; then `name` is the
    table, such as "V2E", and neighbours are drawn at their positions. Raises I06 for a point, I07 for a table, that
    does not exist.

    >>> table(np.array([[3, 4], [5, 6]]), 1).data
    [5, 6]
    """
    mesh = table if hasattr(table, "tables") else None
    if mesh is not None:
        if name not in mesh.tables:
            raise refuse("I07", f"the mesh has no table '{name}'.", did_you_mean(name, mesh.tables))
        entries: Array = np.asarray(mesh.tables[name])
        kind, other = (_KINDS.get(letter, letter) for letter in (name[0], name[-1]))
    else:
        entries = np.asarray(table)
        dims = [str(d) for d in getattr(table, "dims", ())]
        kind = dims[0] if dims else ""
        other = dims[-1].removeprefix(NEIGHBOUR) if dims else ""
    if entries.ndim != 2 or entries.dtype.kind not in "iu":
        actual = f"its shape is {entries.shape}, and it holds {entries.dtype}"
        raise refuse("I07", f"this is no neighbour table: {actual}.")
    if not 0 <= point < len(entries):
        raise refuse("I06", f"the table has no point {point}, only 0 to {len(entries) - 1}.")
    row = [int(k) for k in entries[point]]
    words = _describe(f"{kind} {point}".strip(), other, row)
    positions = None if mesh is None else _locate(mesh, kind), None if mesh is None else _locate(mesh, other)
    if positions[0] is None or positions[1] is None:
        return _draw_list(kind, other, point, row).picture(words, row)
    return _draw_map(mesh, kind, other, point, row, positions[0], positions[1]).picture(words, row)


def _describe(subject: str, other: str, row: list[int]) -> str:
    """The neighbours of a point in words, with their slots; `other` is the neighbours' kind."""
    present = [f"{k} in slot {s}" for s, k in enumerate(row) if k != -1]
    empty = [str(s) for s, k in enumerate(row) if k == -1]
    count = counted(len(present), f"{other} neighbour".strip())
    missing = f"; slot{'s' * (len(empty) != 1)} {', '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty"
    return f"{subject} has {count}{': ' if present else ''}{', '.join(present)}{missing if empty else ''}."


def _draw_list(kind: str, other: str, point: int, row: list[int]) -> Drawing:
    """The drawing of a point and its neighbours as a list, without positions."""
    high = max(90.0, 34.0 * len(row) + 50)
    sheet = Drawing("table", 330.0, high)
    y = 34 + (high - 50) / 2
    for slot, k in enumerate(row):
        slot_y = 50 + 34 * slot
        if k != -1:
            sheet.line(86, y, 210, slot_y, stroke=middle(hue(other)), thick=1.6)
        sheet.circle(224, slot_y, 14, stroke=LINE if k == -1 else middle(hue(other)), thick=1.6)
        sheet.text(224, slot_y + 4, "–" if k == -1 else str(k), anchor="middle", size=10, colour=INK)
        sheet.text(246, slot_y + 4, f"slot {slot}", size=10, colour=PALE)
    sheet.circle(66, y, 20, stroke=middle(hue(kind)), thick=2.4)
    sheet.text(66, y + 4, str(point), anchor="middle", bold=True)
    return sheet


def _locate(mesh: Any, kind: str) -> Array | None:
    """Positions of elements of a kind: of vertices, or centres of edges and cells; None if the mesh lacks a table for
    it.
    """
    points: Array = np.asarray(mesh.points, float)
    if kind == "Vertex":
        return points
    corners = np.asarray(mesh.tables.get(f"{kind[0]}2V", np.zeros((0, 1), int)))
    if not len(corners):
        return None
    return points[corners].mean(1)


def _draw_map(mesh: Any, kind: str, other: str, point: int, row: list[int], own: Array, others: Array) -> Drawing:
    """The drawing of a point and its surroundings on the mesh, projected onto the tangent plane."""
    sheet = Drawing("table", _SIDE, _SIDE + 30)
    empty = [str(s) for s, k in enumerate(row) if k == -1]
    absent = f", none in slot {', '.join(empty)}" if empty else ""
    sheet.text(12, 18, f"{kind} {point}: {len(row) - len(empty)} of {other}{absent}", colour=PALE)
    centre = own[point]
    across, along, up = _orient(centre, np.asarray(mesh.points, float))
    present = [k for k in row if k != -1]
    reach = max([float(np.linalg.norm(others[k] - centre)) for k in present] + [0.0])
    ends = np.asarray(mesh.points, float)[np.asarray(mesh.tables["E2V"])]
    lengths = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)
    distance = np.linalg.norm(ends.mean(1) - centre, axis=1)
    reach = max(2.2 * reach, 1.7 * float(lengths[np.argmin(distance)]))

    def projected(p: Array) -> tuple[float, float]:
        d = p - centre
        half = _SIDE / 2
        return half + half * float(d @ across) / reach, 30 + half - half * float(d @ along) / reach

    def is_visible(p: Array) -> bool:
        x, y = projected(p)
        return float((p - centre) @ up) > -reach and 0 <= x <= _SIDE and 30 <= y <= _SIDE + 30

    for a, b in ends[distance < 1.5 * reach]:
        if is_visible(a) and is_visible(b):
            sheet.line(*projected(a), *projected(b), stroke=LINE)
    colour = middle(hue(other), 0.45)
    for k in present:
        if other == "Edge" and not np.array_equal(own, others):
            a, b = np.asarray(mesh.points, float)[np.asarray(mesh.tables["E2V"])[k]]
            sheet.line(*projected(a), *projected(b), stroke=colour, thick=3)
        if other == "Cell":
            corners = [projected(p) for p in np.asarray(mesh.points, float)[np.asarray(mesh.tables["C2V"])[k]]]
            outline = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "z"
            sheet.path(outline, fill=colour, stroke=colour, opacity=0.35)
        if other == "Vertex":
            sheet.line(*projected(centre), *projected(others[k]), stroke=colour, thick=2)
    for slot, k in enumerate(row):
        if k == -1:
            continue
        x, y = projected(others[k])
        label = str(k)
        sheet.circle(x, y, max(11.0, width_of(label, 10) / 2 + 4), stroke=colour, fill=PAPER, thick=1.6)
        sheet.text(x, y + 4, label, anchor="middle", size=10)
        sheet.text(x + 14, y - 11, str(slot), size=9, colour=PALE)
    x, y = projected(centre)
    label = str(point)
    sheet.circle(x, y, max(13.0, width_of(label) / 2 + 5), stroke=middle(hue(kind)), fill=PAPER, thick=3)
    sheet.text(x, y + 4, label, anchor="middle", bold=True)
    return sheet


def _orient(centre: Array, points: Array) -> tuple[Array, Array, Array]:
    """The directions to the right, upwards and towards the viewer at a point of a plane or a sphere."""
    if np.ptp(points[:, 2]) == 0:
        return np.eye(3)[0], np.eye(3)[1], np.eye(3)[2]
    up = centre / np.linalg.norm(centre)
    across = np.cross([0.0, 0.0, 1.0], up)
    if np.linalg.norm(across) < 1e-9:
        across = np.array([1.0, 0.0, 0.0])
    across = across / np.linalg.norm(across)
    return across, np.cross(up, across), up
