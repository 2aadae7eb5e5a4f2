"""Neighbour tables of a triangulation, from the corners of its triangles.

Each triangle has three *half-edges*, number 3·cell + k from corner k to corner k + 1, counterclockwise. The two
half-edges of an edge are opposite to each other; the half-edge after h around its first vertex is the opposite of the
one before h in its cell. Everything here follows from these two arrays, without a loop over elements.

>>> tables = connect([[0, 1, 2], [1, 3, 2]])
>>> tables["E2V"].tolist()
[[0, 1], [2, 0], [1, 2], [1, 3], [3, 2]]
>>> tables["E2C"].tolist()
[[0, -1], [0, -1], [0, 1], [1, -1], [1, -1]]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

ELEMENTS = {"V": "Vertex", "E": "Edge", "C": "Cell"}

Ints = NDArray[np.int64]
Table = NDArray[np.int32]


def dims(table: str) -> tuple[str, str]:
    """The dims of a table by its name: where it is read from, and the tagged dim of what it points to.

    >>> dims("V2E"), dims("E2C2V")
    (('Vertex', '_NB_Edge'), ('Edge', '_NB_Vertex'))
    """
    return ELEMENTS[table[0]], f"_NB_{ELEMENTS[table[-1]]}"


class Unoriented(ValueError):
    """Triangles that do not all turn the same way."""


def connect(triangles: ArrayLike, edges: ArrayLike | None = None) -> dict[str, Table]:
    """All neighbour tables of a triangulation, from the three vertices of every cell (counterclockwise).

    Edges are numbered by their vertices in ascending order, or as `edges`, their two vertices, has them, in its
    direction (a boundary edge always with its cell on the left). An edge leads from E2V[e, 0] to E2V[e, 1] with E2C[e,
    0] on its left and E2C[e, 1], or -1 at a boundary, on its right. C2E[c, k] joins C2V[c, k] and C2V[c, k + 1], and
    C2C[c, k] is the cell behind it. V2E, V2V and V2C go counterclockwise around the vertex from the edge of the lowest
    number, at a boundary from the boundary; V2V[v, k] is at the other end of V2E[v, k], and V2C[v, k] lies between
    V2E[v, k] and V2E[v, k + 1]. E2C2V has the two ends, then what is opposite on the left and on the right; E2C2E the
    other two edges of the left, then of the right cell.
    """
    cells = _check(triangles)
    first = cells.ravel()
    second = np.roll(cells, -1, axis=1).ravel()
    edge, left, right = _pair_half_edges(first, second)
    if edges is not None:
        edge, left, right = _renumber(np.asarray(edges), first, second, edge, left, right)
    opposite = np.full(first.size, -1)
    paired = right >= 0
    opposite[left[paired]], opposite[right[paired]] = right[paired], left[paired]

    e2v = np.stack([first[left], second[left]], axis=1)
    around = _sort_around_vertices(first, edge, opposite)
    v2e, v2c = _close_fans(around, edge, opposite)
    ends = e2v[v2e]
    other = np.where(ends[..., 0] == np.arange(len(v2e))[:, None], ends[..., 1], ends[..., 0])

    sides = np.stack([left, right], axis=1)
    after = sides // 3 * 3 + (sides + 1) % 3
    diamond = np.stack([_where(sides, edge[after]), _where(sides, edge[_before(sides)])], axis=2)
    tables = {
        "V2V": np.where(v2e >= 0, other, -1),
        "V2E": v2e,
        "V2C": v2c,
        "E2V": e2v,
        "E2C": _cell(sides),
        "E2C2V": np.concatenate([e2v, _where(sides, first[_before(sides)])], axis=1),
        "E2C2E": diamond.reshape(-1, 4),
        "C2V": cells,
        "C2E": edge.reshape(-1, 3),
        "C2C": _cell(opposite).reshape(-1, 3),
    }
    return {name: np.ascontiguousarray(table, dtype=np.int32) for name, table in tables.items()}


def _check(triangles: ArrayLike) -> Ints:
    """Triangles as int64 (cells, 3); raises ValueError for another shape or type, negative, repeated or unused
    vertices.
    """
    cells = np.asarray(triangles)
    if cells.ndim != 2 or cells.shape[1] != 3 or cells.shape[0] == 0 or not np.issubdtype(cells.dtype, np.integer):
        raise ValueError(f"triangles must be integers of shape (cells, 3), not {cells.dtype} of shape {cells.shape}.")
    cells = cells.astype(np.int64)
    if cells.min() < 0:
        raise ValueError("triangles hold a negative vertex number.")
    if (cells == np.roll(cells, -1, axis=1)).any():
        raise ValueError("a triangle has the same vertex twice.")
    used = np.unique(cells)
    if used[-1] >= used.size:
        unused = int(np.argmax(used != np.arange(used.size)))
        raise ValueError(f"vertex {unused} belongs to no triangle.")
    return cells


def _pair_half_edges(first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
    """The edge of every half-edge, and the half-edges on the left and on the right of every edge (-1: none)."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    _, edge = np.unique(low * (int(high.max()) + 1) + high, return_inverse=True)
    forward = first < second
    count = int(edge.max()) + 1
    for direction in (forward, ~forward):
        if (np.bincount(edge[direction], minlength=count) > 1).any():
            raise Unoriented("two triangles run along one edge in the same direction: orient all counterclockwise.")
    left, right = np.full(count, -1), np.full(count, -1)
    left[edge[forward]] = np.flatnonzero(forward)
    right[edge[~forward]] = np.flatnonzero(~forward)
    turned = left < 0  # a boundary edge runs with its only cell on the left
    return edge, np.where(turned, right, left), np.where(turned, -1, right)


def _renumber(
    edges: Ints, first: Ints, second: Ints, edge: Ints, left: Ints, right: Ints
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """The half-edge arrays with edges numbered and directed as in `edges`, which has two vertices for each."""
    if edges.shape != (len(left), 2):
        raise ValueError(f"the triangles have {len(left)} edges, but the edges have the shape {edges.shape}.")
    count = int(first.max()) + 1
    sides, listed = (
        np.minimum(a, b) * count + np.maximum(a, b) for a, b in ((first[left], second[left]), edges.astype(np.int64).T)
    )
    place = np.searchsorted(sides, listed).clip(max=len(sides) - 1)
    if (wrong := np.flatnonzero(sides[place] != listed)).size:
        a, b = edges[wrong[0]]
        raise ValueError(f"edge {wrong[0]} joins vertices {a} and {b}, which no triangle does.")
    number = np.full(len(sides), -1)
    number[place] = np.arange(len(sides))
    if (number < 0).any():
        a, b = divmod(int(sides[np.argmin(number)]), count)
        raise ValueError(f"the side from vertex {a} to {b} of a triangle is no edge.")
    left, right = left[place], right[place]
    turned = (first[left] != edges[:, 0]) & (right >= 0)
    return number[edge], np.where(turned, right, left), np.where(turned, left, right)


def _sort_around_vertices(first: Ints, edge: Ints, opposite: Ints) -> Ints:
    """The outgoing half-edges of every vertex in counterclockwise order, padded with -1."""
    following = opposite[_before(np.arange(first.size))]
    boundary_first = np.where(opposite < 0, -1, edge)
    order = np.lexsort((boundary_first, first))
    start = order[np.searchsorted(first[order], np.arange(int(first.max()) + 1))]
    degree = int(np.bincount(first).max())
    columns = [start]
    while len(columns) < degree:
        last = columns[-1]
        step = np.where(last >= 0, following[last], -1)
        columns.append(np.where(step == start, -1, step))
    around = np.stack(columns, axis=1)
    if (around >= 0).sum() != first.size:
        lost = np.flatnonzero((around >= 0).sum(axis=1) != np.bincount(first))
        raise ValueError(f"the triangles at vertex {int(lost[0])} are not one fan.")
    return around


def _close_fans(around: Ints, edge: Ints, opposite: Ints) -> tuple[Ints, Ints]:
    """V2E and V2C; at a boundary the edge that closes the fan stands behind the last cell's first edge."""
    v2c = _cell(around)
    v2e = _where(around, edge[around])
    ends = np.flatnonzero(opposite[around[:, 0]] < 0)
    cells = (around[ends] >= 0).sum(axis=1)
    closing = edge[_before(around[ends, cells - 1])]
    if cells.size and cells.max() == v2e.shape[1]:
        v2e = np.pad(v2e, ((0, 0), (0, 1)), constant_values=-1)
    v2e[ends, cells] = closing
    return v2e, v2c


def _before(half_edge: Ints) -> Ints:
    """The half-edge that leads to where this one starts, in the same cell."""
    return half_edge // 3 * 3 + (half_edge + 2) % 3


def _cell(half_edge: Ints) -> Ints:
    return _where(half_edge, half_edge // 3)


def _where(half_edge: Ints, values: Ints) -> Ints:
    return np.where(half_edge >= 0, values, -1)
