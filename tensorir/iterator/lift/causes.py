"""Why a field is read where it has no points: the way from one of them to what is stored.

>>> from tensorir.iterator.lift.graph import Graph
>>> from tensorir.ir.types import FLOAT64
>>> g = Graph()
>>> x = g.input("x", FLOAT64, ("I",))
>>> root = g.shift(x, "I", 1)
>>> why(x, "I", Interval(0, 9), {root: {"I": (0, 9)}, x: {"I": (1, 10)}}, [("y", root, {"I": (0, 9)})])
['x at I = 9 is read for y at I = 8.']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorir.ir.types import Interval
from tensorir.iterator.lift.boxes import Box
from tensorir.iterator.lift.graph import Node, Table
from tensorir.iterator.lift.needs import asked

__all__ = ["begins_elsewhere", "why"]


@dataclass(frozen=True, slots=True)
class _Point:
    """A point of the field, and the point of a node that reads it, through entries of tables."""

    first: int
    node: Node
    dim: str
    at: int
    entries: tuple[str, ...] = ()


def why(
    node: Node, dim: str, have: Interval, needed: Mapping[Node, Box], stored: Sequence[tuple[str, Node, Box]]
) -> list[str]:
    """Notes: a point that an input lacks, and what is stored and reads it; what leads there, or where it may begin."""
    start, stop = needed[node][dim]
    up = stop > have.stop
    outside = max(have.stop, start) if up else start
    seen, waiting = {node}, [_Point(outside, node, dim, outside)]
    while waiting:
        here = waiting.pop(0)
        for name, root, box in stored:
            if root is here.node and here.dim in box and box[here.dim][0] <= here.at < box[here.dim][1]:
                read = f"{node.static[0]} at {dim} = {here.first} is read for {name} at {here.dim} = {here.at}."
                straight = here.at == here.first and not here.entries
                return [read, *here.entries, *(begins_elsewhere(dim, have, start, stop) if straight else ())]
        for reader, box in needed.items():
            if reader not in seen and _reads(reader, box, here):
                seen.add(reader)
                waiting.append(_before(reader, box, here, up))
    return []


def _reads(reader: Node, box: Box, point: _Point) -> bool:
    if not any(a is point.node for a in reader.args):
        return False
    parts = [part[point.dim] for a, part in asked(reader, box) if a is point.node and point.dim in part]
    return any(start <= point.at < stop for start, stop in parts)


def _before(reader: Node, box: Box, point: _Point, up: bool) -> _Point:
    """Where a reader is when it reads a point."""
    match reader.op, reader.static:
        case "shift", (d, by) if d == point.dim:
            return replace(point, node=reader, at=point.at - by)
        case "restagger", (old, new, by) if old == point.dim:
            return replace(point, node=reader, dim=new, at=point.at - by)
        case "neighbour" | "neighbours", (Table() as table, *_) if table.codomain == point.dim:
            rows = table.rows(box)
            found = table.at(rows)
            # an interval has points to which no entry leads: the nearest one beyond is meant
            beyond = found >= point.at if up else (found <= point.at) & (found >= 0)
            entry = int(found[beyond].min() if up else found[beyond].max())
            place = [int(k) for k in np.argwhere(found == entry)[0]]
            row = [k + start for k, (start, _) in zip(place, rows, strict=False)]
            first = point.first if point.entries else point.first + entry - point.at
            named = f"{table.name}[{', '.join(map(str, (*row, place[-1])))}] is {entry}."
            return _Point(first, reader, table.domain[0], row[0], (*point.entries, named))
        case _:
            return replace(point, node=reader)


def begins_elsewhere(dim: str, have: Interval, start: int, stop: int) -> tuple[str, ...]:
    """A note where a field has as many points as are meant, and they are others."""
    if have.stop - have.start < stop - start:
        return ()
    return (f"it has as many points as are meant: its domain may have to begin at {dim} = {start}.",)
