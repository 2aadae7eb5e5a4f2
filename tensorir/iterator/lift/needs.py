"""The intervals of a graph: what each tensor must provide, backwards from what is stored.

A stored tensor is needed on its domain; what is shifted is needed where the shift reads, what a table leads to on the
interval of its entries, a branch of concat_where on its part of the region. A tensor that several read is needed on the
smallest box that holds what each needs. A scan runs over the levels that are needed of it.

>>> from tensorir.iterator.lift.graph import Graph
>>> from tensorir.ir.types import FLOAT64
>>> g = Graph()
>>> x = g.input("x", FLOAT64, ("I",))
>>> needed = needs([(g.op("plus", g.shift(x, "I", 1), g.shift(x, "I", -1)), {"I": (1, 9)})], {"x": Dims.of(I=(0, 10))})
>>> needed.all[x]
{'I': (0, 10)}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorir.ir.types import Dims
from tensorir.iterator.lift.boxes import ALWAYS, NEVER, Box, cut_boxes, hull, intersection, is_empty, moved
from tensorir.iterator.lift.graph import Node, Table, postorder

__all__ = ["Needs", "asked", "extents", "needs", "region_left"]

Ends = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """What is needed of each node: `all`, and the part `firm` that no condition guards."""

    all: Mapping[Node, Box]
    firm: Mapping[Node, Box]


def needs(roots: Sequence[tuple[Node, Box]], domains: Mapping[str, Dims]) -> Needs:
    """The boxes of every node that is needed; nodes of which nothing is needed are left out.

    What only a branch of a condition on values needs is not firm: where the branch is not taken, nothing is read.
    """
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
            for k, (arg, part) in enumerate(asked(node, box)):
                guarded = known is firm and node.op == "if" and k > 0
                if not guarded and not is_empty(part):
                    known[arg] = hull(known.get(arg), {d: e for d, e in part.items() if d in arg.dims})
    return Needs(needed, firm)


def asked(node: Node, box: Box) -> Iterator[tuple[Node, Box]]:
    """What a node on a box needs of its operands."""
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
            column = fold.column or box.get(fold.dim)
            for arg in node.args:
                yield arg, {**box, fold.dim: column} if column else box
        case _:
            for arg in node.args:
                yield arg, box


def region_left(box: Box, stored: Box) -> bool:
    """Whether a box has points outside of what was stored."""
    return any(box[d][0] < stored[d][0] or stored[d][1] < box[d][1] for d in stored if d in box)


def extents(order: Sequence[Node], domains: Mapping[str, Dims]) -> dict[Node, Box]:
    """Where each node can be computed at most; without an end where nothing bounds it."""
    result: dict[Node, Box] = {}
    for node in order:
        everywhere: Box = dict.fromkeys(node.dims, (NEVER, ALWAYS))
        boxes = [result[a] for a in node.args]
        match node.op, node.static:
            case "input", (name,):
                found: Box = {d: (i.start, i.stop) for d, i in domains[name].items} if name in domains else {}
            case "shift", (dim, by):
                found = {**boxes[0], dim: moved(boxes[0][dim], -by)}
            case "restagger", (old, new, by):
                found = {**{d: e for d, e in boxes[0].items() if d != old}, new: moved(boxes[0][old], -by)}
            case "neighbour" | "neighbours", (Table() as table, *_):
                rows = dict(zip(table.domain, table.rows({}), strict=True))
                found = {**{d: e for d, e in boxes[0].items() if d != table.codomain}, **rows}
            case "gather", (dim,):
                found = intersection({d: e for d, e in boxes[0].items() if d != dim}, boxes[1])
            case "concat_where", (_,):
                ends = {d: [b.get(d, everywhere[d]) for b in boxes] for d in node.dims}
                found = {d: (min(a for a, _ in e), max(b for _, b in e)) for d, e in ends.items()}
            case "update", _:
                found = boxes[0]
            case "scan", (fold,):
                found = everywhere
                for b in boxes:
                    found = intersection(found, b)
                if fold.column:
                    found = {**found, fold.dim: fold.column}
            case _:
                found = everywhere
                for b in boxes:
                    found = intersection(found, b)
        result[node] = {d: found.get(d, everywhere[d]) for d in node.dims}
    return result
