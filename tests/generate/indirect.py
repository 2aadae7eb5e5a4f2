"""Rules for neighbour tables, gather and scatter."""

from __future__ import annotations

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, function, var
from tensorir.ir.nodes import Expr
from tensorir.ir.types import INT32, NEIGHBOUR, Element, TensorType, bcast

from .data import Entries
from .maker import SOURCES, Maker, Scope, exactly, full, neighbour_dim

__all__ = ["INDIRECT", "partial_shift"]


def _source(m: Maker, need: Dims) -> tuple[str, Interval]:
    """A dim that a table may lead to, and an interval without -1."""
    own = [d for d in need if not neighbour_dim(d) and -1 not in need[d]]
    dim = m.pick([*SOURCES, *own])
    return dim, need[dim] if dim in own and m.chance(2) else m.interval(2, 4, 0)


def _neighbours(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> tuple[Expr, Expr, Interval] | None:
    """A table and an operand for it, such that the shift covers a box."""
    source, interval = _source(m, need)
    operand = m.some(need.without(source), 4).with_interval(source, interval)
    x = full(m.expr(element, operand, depth, scope), Dims(((source, interval),)))
    if -1 in x.type.dims[source]:
        x = exactly(x, Dims(((source, interval),)))
    tag = Dims(((f"{NEIGHBOUR}{source}", Interval(0, m.integer(1, 3))),))
    destinations = Dims(tuple(item for item in m.some(need, 3).items if item[0] not in scope.forbidden))
    destinations = destinations if not m.chance(4) else m.widened(destinations)
    holes = scope.absent and not m.chance(3)
    if tag.names[0] in scope.forbidden or tag.names[0] in need:
        return None
    if depth > 0 and m.chance(3):
        box = Dims((*destinations.items, *tag.items))
        table = full(
            exactly(m.index(x.type.dims[source], box, depth - 1, scope, holes, proven=not scope.absent), tag), tag
        )
        names = [d for d in table.type.dims if neighbour_dim(d) and not d[len(NEIGHBOUR) :].isdigit()]
        if len(names) != 1:
            return None
    else:
        table = _table(m, x.type.dims[source], destinations, tag, holes)
    return table, x, table.type.dims[tag.names[0]]


def _table(m: Maker, inside: Interval, destinations: Dims, tag: Dims, holes: bool) -> Expr:

    kind = TensorType(
        m.pick([INT32, *(e for e in m.profile.elements if e.is_integer and e.kind == "int")]), destinations
    )
    return m.declare("n", kind.on(Dims((*destinations.items, *tag.items))), Entries(inside, holes))


def partial_shift(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    """The values at all neighbours: the new dim is no part of the box."""
    found = _neighbours(m, element, need, depth, scope)
    if found is None:
        return None
    table, x, _ = found
    return call("shift_init", table, x)


def shift_apply(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    made = partial_shift(m, element, need, depth, scope)
    if made is None:
        return None
    (dim,) = (d for d in made.type.dims if d not in need) if len(set(made.type.dims) - set(need)) == 1 else (None,)
    if dim is None:
        return None
    interval = made.type.dims[dim]
    return call("shift_apply", made, static=(m.integer(interval.start, interval.stop - 1),))


def unstructured_shift(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    found = _neighbours(m, element, need, depth, scope)
    if found is None:
        return None
    table, x, slots = found
    return call("unstructured_shift", table, x, static=(m.integer(slots.start, slots.stop - 1),))


def gather(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    dims = m.some_names([*SOURCES, *(d for d in need if not neighbour_dim(d))])
    box = m.some(need, 4)
    inside = Dims(tuple((d, m.interval(1, 4)) for d in dims))
    for d, i in inside.items:
        box = box.with_interval(d, i)
    x = full(m.expr(element, box, depth, scope), inside)
    mode = m.pick(["checked", "clamp", "zero"])
    indices = [
        m.index(x.type.dims[d], m.some(need, 3), depth, scope)
        if mode == "checked"
        else m.expr(m.integers(), m.some(need, 3), depth, scope)
        for d in dims
    ]
    return call("gather", x, *indices, static=(tuple(dims), mode))


def scatter(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    own = [d for d in need if not neighbour_dim(d)]
    if not own:
        return None
    dims = m.some_names(own)
    indexed = Dims(tuple((d, need[d]) for d in dims))
    base = full(m.expr(element, need, depth, scope), indexed)
    kept = base.type.dims.without(*dims)
    moving = Dims(
        tuple(
            (d, Interval(0, m.integer(1, 3)))
            for d in m.some_names([*(n for n in ("P", "Q", "R", "S") if n not in kept), *dims[:1]])
        )
    )
    still = Dims(tuple((n, i if neighbour_dim(n) else m.within(i)) for n, i in kept.items))
    box = Dims((*moving.items, *still.items))
    of = m.pick([element, m.element()])
    mode = m.pick(["checked", "clamp", "zero"])
    updates = exactly(m.expr(of, box, depth, scope), box)
    indices: list[Expr] = []
    for d in dims:
        part = m.some(box, 3)
        made = (
            m.index(base.type.dims[d], part, min(depth, 1), scope)
            if mode == "checked"
            else m.expr(m.integers(), part, depth, scope)
        )
        indices.append(exactly(made, box))
    points = bcast([a.type for a in (*indices, updates)])
    over = tuple(d for d in points if d not in kept)
    old, new = var(m.name("a"), TensorType(element)), var(m.name("u"), TensorType(of))
    bound = [(old, False), (new, False)]
    body = m.expr(element, Dims(), depth, Scope((*scope.variables, *bound), scope.forbidden, scope.outer, False))
    if of == element and not m.chance(3) and not hasattr(element, "members"):
        op = m.pick(["and", "or"] if element.kind == "bool" else ["plus", "minus", "min", "max"])
        body = m.pick([call(op, old, new), new])
    return call(
        "scatter", function([old, new], body), base, *indices, updates,
        static=(tuple(dims), over if m.chance(2) else over[::-1], mode),
    )  # fmt: skip


INDIRECT = [shift_apply, unstructured_shift, gather, scatter]
