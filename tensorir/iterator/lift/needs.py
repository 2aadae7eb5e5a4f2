"""The intervals of a graph: what each tensor must provide, backwards from what is stored.

A stored tensor is needed on its domain; what is shifted is needed where the shift reads, what a table leads to on the
interval of its entries, a branch of concat_where on its part of the region. A tensor that several read is needed on the
smallest box that holds what each needs. A scan runs over the levels that are needed of it. Where a field is read at
points that it lacks, the way from one of them to what is stored says why.

>>> from tensorir.iterator.lift.graph import Graph
>>> from tensorir.ir.types import FLOAT64
>>> g = Graph()
>>> x = g.input("x", FLOAT64, ("I",))
>>> needed = needs([(g.op("plus", g.shift(x, "I", 1), g.shift(x, "I", -1)), {"I": (1, 9)})], {"x": Dims.of(I=(0, 10))})
>>> needed.all[x]
{'I': (0, 10)}
>>> root = g.shift(x, "I", 1)
>>> why(x, "I", Interval(0, 9), {root: {"I": (0, 9)}, x: {"I": (1, 10)}}, [("y", root, {"I": (0, 9)})])
['x at I = 9 is read for y at I = 8.']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorir.integers.dims import Dims, Interval
from tensorir.integers.sets import ALWAYS, NEVER, Box, cut_boxes, hull, intersection, is_empty, moved
from tensorir.iterator.lift.graph import Node, Table, postorder


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """The needed points of each node: `all`, and the part `firm` that no condition guards."""

    all: Mapping[Node, Box]
    firm: Mapping[Node, Box]
    columns: Mapping[Node, tuple[int, int]]
    """The levels of scans that run over fewer than are needed."""


def needs(roots: Sequence[tuple[Node, Box]], domains: Mapping[str, Dims], lenient: bool = False) -> Needs:
    """The boxes of every node that is needed; nodes of which nothing is needed are left out.

    What only a branch of a condition on values needs is not firm: where the branch is not taken, nothing is read. With
    `lenient`, what is read outside of a field is as at its nearest point, and of a scan, too: to run it over one more
    level would change the state of all others.
    """
    columns = _find_columns(roots, domains) if lenient else {}
    order = list(postorder([r for r, _ in roots]))
    needed: dict[Node, Box] = {}
    firm: dict[Node, Box] = {}
    natural: dict[Node, Box] = {}
    for root, box in roots:
        for known in (needed, firm):
            known[root] = hull(known.get(root), {d: e for d, e in box.items() if d in root.dims})
    for node in reversed(order):
        for known in (needed, firm):
            box = known.get(node)
            if box is None:
                continue
            if any(e in (NEVER, ALWAYS) for ends in box.values() for e in ends):
                if not natural:
                    natural = extents(order, domains)
                box = known[node] = {d: e for d, e in intersection(box, natural[node]).items() if d in box}
            for k, (arg, part) in enumerate(asked(node, box, columns.get(node))):
                guarded = known is firm and node.op == "if" and k > 0
                if not guarded and not is_empty(part):
                    known[arg] = hull(known.get(arg), {d: e for d, e in part.items() if d in arg.dims})
    columns = {
        n: c for n, levels in columns.items() if n in needed and (c := _limit_levels(n, needed[n], levels)) is not None
    }
    return Needs(needed, firm, columns)


def asked(node: Node, box: Box, levels: tuple[int, int] | None = None) -> Iterator[tuple[Node, Box]]:
    """The operands of a node, each with the box of it that the node needs to be known on `box`.

    A shift by n along I on I[a:b] needs I[a+n:b+n]; a neighbour read needs the smallest interval with all entries of
    its rows (one point if there are none, since a box is not empty); a dynamic offset needs all points of its dim.
    `levels`: those on which all operands of a scan exist, None for no limit; the scan then runs over no others.
    """
    match node.op, node.static:
        case "shift", (dim, by):
            yield node.args[0], {**box, dim: moved(box[dim], by)}
        case "restagger", (old, new, by):
            kept = {d: e for d, e in box.items() if d != new}
            yield node.args[0], {**kept, old: moved(box[new], by)} if new in box else kept
        case "neighbour" | "neighbours", (Table() as table, *_):
            ends = table.targets(box)
            kept = {d: e for d, e in box.items() if d != table.codomain or d in table.domain}
            yield node.args[0], {**kept, table.codomain: ends or (0, 1)}
        case "gather", (dim,):
            x, by = node.args
            yield by, box
            yield x, {**box, dim: (NEVER, ALWAYS)}
        case "concat_where", (region,):
            for inside, part in cut_boxes(region.split(box), box):
                yield node.args[0 if inside else 1], part
        case "update", (stored,):
            old, new = node.args
            part = intersection(dict(stored), box)
            if not is_empty(part):
                yield new, part
            if region_left(box, dict(stored)):
                yield old, box
        case "scan", (fold,):
            column = (levels and _limit_levels(node, box, levels)) or fold.column or box.get(fold.dim)
            for arg in node.args:
                yield arg, {**box, fold.dim: column} if column else box
        case _:
            for arg in node.args:
                yield arg, box


def _find_columns(roots: Sequence[tuple[Node, Box]], domains: Mapping[str, Dims]) -> dict[Node, tuple[int, int]]:
    """The levels of scans: those that are stored, and those on which a scan can be computed."""
    order = list(postorder([r for r, _ in roots]))
    natural, columns = extents(order, domains), dict[Node, tuple[int, int]]()
    for node in order:
        match node.op, node.static:
            case "scan", (fold,):
                ends = [natural[a][fold.dim] for a in node.args if fold.dim in natural[a]]
                levels = max((a for a, _ in ends), default=NEVER), min((b for _, b in ends), default=ALWAYS)
                stored = [box[fold.dim] for _, box in roots if fold.dim in box]
                columns[node] = min(a for a, _ in (levels, *stored)), max(b for _, b in (levels, *stored))
            case _:
                pass
    return columns


def _limit_levels(scan: Node, box: Box, levels: tuple[int, int]) -> tuple[int, int] | None:
    """The levels over which a scan runs whose operands exist on `levels` alone; None if that is all that is asked for,
    or nothing.
    """
    (fold,) = scan.static
    asked = fold.column or box.get(fold.dim)
    if asked is None:
        return None
    start, stop = max(asked[0], levels[0]), min(asked[1], levels[1])
    return (start, stop) if start < stop and (start, stop) != asked else None


def region_left(box: Box, stored: Box) -> bool:
    """True if a box has points outside of what was stored."""
    return any(box[d][0] < stored[d][0] or stored[d][1] < box[d][1] for d in stored if d in box)


def extents(order: Sequence[Node], domains: Mapping[str, Dims]) -> dict[Node, Box]:
    """The largest box of each node on which it can be computed; without an end where nothing bounds it."""
    result: dict[Node, Box] = {}
    for node in order:
        everywhere: Box = dict.fromkeys(node.dims, (NEVER, ALWAYS))
        boxes = [result[a] for a in node.args]
        match node.op, node.static:
            case "input", (name,):
                box: Box = {d: (i.start, i.stop) for d, i in domains[name].items} if name in domains else {}
            case "shift", (dim, by):
                box = {**boxes[0], dim: moved(boxes[0][dim], -by)}
            case "restagger", (old, new, by):
                box = {**{d: e for d, e in boxes[0].items() if d != old}, new: moved(boxes[0][old], -by)}
            case "neighbour" | "neighbours", (Table() as table, *_):
                rows = dict(zip(table.domain, table.rows({}), strict=True))
                box = {**{d: e for d, e in boxes[0].items() if d != table.codomain}, **rows}
            case "gather", (dim,):
                box = intersection({d: e for d, e in boxes[0].items() if d != dim}, boxes[1])
            case "concat_where", (_,):
                ends = {d: [b.get(d, everywhere[d]) for b in boxes] for d in node.dims}
                box = {d: (min(a for a, _ in e), max(b for _, b in e)) for d, e in ends.items()}
            case "update", _:
                box = boxes[0]
            case "scan", (fold,):
                box = everywhere
                for b in boxes:
                    box = intersection(box, b)
                if fold.column:
                    box = {**box, fold.dim: fold.column}
            case _:
                box = everywhere
                for b in boxes:
                    box = intersection(box, b)
        result[node] = {d: box.get(d, everywhere[d]) for d in node.dims}
    return result


# Why a field is read where it has no points.


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
    # the first point beyond the field may lie between two parts that are stored, the last one is read
    points = dict.fromkeys((max(have.stop, start), stop - 1)) if up else (start,)
    notes = (_why_at(node, dim, have, needed, stored, point) for point in points)
    return next(filter(None, notes), list[str]())


def _why_at(
    node: Node, dim: str, have: Interval, needed: Mapping[Node, Box], stored: Sequence[tuple[str, Node, Box]],
    outside: int,
) -> list[str]:  # fmt: skip
    """The notes on the point `outside` of the field; none if nothing that is stored reads it."""
    start, stop = needed[node][dim]
    up = stop > have.stop
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
                waiting.append(_trace_back(reader, box, here, up))
    return []


def _reads(reader: Node, box: Box, point: _Point) -> bool:
    """True if a node, to be known on `box`, needs the `point` of its operand."""
    if not any(a is point.node for a in reader.args):
        return False
    parts = [part[point.dim] for a, part in asked(reader, box) if a is point.node and point.dim in part]
    return any(start <= point.at < stop for start, stop in parts)


def _trace_back(reader: Node, box: Box, point: _Point, up: bool) -> _Point:
    """The iterations of a reader that read a point."""
    match reader.op, reader.static:
        case "shift", (d, by) if d == point.dim:
            return replace(point, node=reader, at=point.at - by)
        case "restagger", (old, new, by) if old == point.dim:
            return replace(point, node=reader, dim=new, at=point.at - by)
        case "neighbour" | "neighbours", (Table() as table, *_) if table.codomain == point.dim:
            rows = table.rows(box)
            entries = table.at(rows)
            # an interval has points to which no entry leads: the nearest one beyond is meant
            beyond = entries >= point.at if up else (entries <= point.at) & (entries >= 0)
            entry = int(entries[beyond].min() if up else entries[beyond].max())
            place = [int(k) for k in np.argwhere(entries == entry)[0]]
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
