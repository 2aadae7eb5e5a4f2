"""Storage whose places tell what they hold: what iterations fill again and again, each a part of it, is filled once.

`D[i + r] = f(i + r)`, for i in [0, 8) and r in [0, 3), is `D[p] = f(p)` for p in [0, 10): whoever fills an element
fills it with the same value, and nobody can tell whether all of them had it before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import gcd

from tensorir.lift.accesses.inverse import inverse
from tensorir.lift.accesses.space import Space, substituted
from tensorir.lift.nests.affine import Affine, number, variable
from tensorir.lift.nests.bounded import by_multiple
from tensorir.lift.nests.linear import affine_of
from tensorir.lift.nests.nest import Check, Leaf, Loop, Node, Store, leaves
from tensorir.lift.nests.terms import (
    Buffer,
    Linear,
    Load,
    Number,
    Term,
    buffers_of,
    index_names,
    indexed_by_data,
    rebuilt,
)
from tensorir.lift.storage.copies import changed, whole_space
from tensorir.types import INT32, Interval

__all__ = ["filled_once", "own", "with_multiples", "without"]


def filled_once(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with stores of what places tell before the loops in which parts of it are stored again."""
    statements = leaves(nodes)
    writers: dict[Buffer, list[Leaf]] = {}
    for leaf in statements:
        for buffer in leaf.written:
            writers.setdefault(buffer, []).append(leaf)
    last: dict[Buffer, int] = {}  # the last nest that stores to a buffer
    for leaf in statements:
        for buffer in leaf.written:
            last[buffer.root] = max(last.get(buffer.root, 0), leaf.place[0])
    mine = own(statements)
    whole = {b for leaf in statements if not isinstance(leaf.node, Store | Check) for b in leaf.read}
    found: dict[Store, Node] = {}
    filled: dict[Buffer, Buffer] = {}
    for leaf in statements:
        node = leaf.node
        if not isinstance(node, Store) or node.atomic or node.buffer not in mine or node.buffer in whole:
            continue
        if len(writers[node.buffer]) > 1 or any(b.private or b.loops for b in leaf.read):
            continue
        if any(last.get(b.root, -1) >= leaf.place[0] for b in leaf.read if b not in filled):
            continue
        if (space := _by_place(leaf, node.buffer)) is not None:
            filled[node.buffer] = replace(node.buffer, private=())
            found[node] = _loops(leaf, node, filled[node.buffer], space)
    if not found:
        return tuple(nodes)
    first: dict[int, list[Node]] = {}
    for leaf in statements:
        if isinstance(leaf.node, Store) and leaf.node in found:
            first.setdefault(leaf.place[0], []).append(found[leaf.node])
    made: list[Node] = []
    for k, node in enumerate(nodes):
        made += [_reading(new, filled) for new in first.get(k, ())]
        kept = without(node, found.keys())
        made += [] if kept is None else [_reading(kept, filled)]
    return tuple(made)


def own(statements: Sequence[Leaf]) -> set[Buffer]:
    """The storage of a program's own that has no copies for iterations yet, and no other names."""
    every = {b for leaf in statements for b in leaf.written | leaf.read}
    named = {b.memory for b in every}
    plain = (b for b in every if not (b.argument or b.loops or b.copies or b.memory) and b.value is None)
    return {b for b in plain if b not in named}


def _by_place(leaf: Leaf, buffer: Buffer) -> Space | None:
    """A store over the elements that it writes, in the place of iterations that meet there; None where it is none."""
    if not leaf.loops or buffer in leaf.read:
        return None
    space = whole_space(leaf)
    if space.empty or space.outer:
        return None
    sums = [affine_of(t) for t in space.location]
    known = [a for a in sums if a is not None and a.names <= space.dims.keys()]
    if len(known) < len(sums) or inverse(known, space.dims) is not None:
        return None
    told = [n for a in known for n in a.names]
    if len(told) > len(set(told)) or not all(_without_gaps(a, space) for a in known):
        return None
    values: dict[str, Affine] = {}
    multiples: dict[str, Affine] = {}
    places: dict[str, Interval] = {}
    location: list[Term] = []
    for k, a in enumerate(known):
        if a.is_number:
            location.append(space.location[k])
            continue
        place, spread = f"{buffer.name}_{k}", a.range(space.ranges)
        if place in space.dims or spread is None:
            return None
        if gcd(*(c for _, c in a.terms)) > 1:
            multiples[f" {k}"] = Affine(a.terms)
            values[f" {k}"] = variable(place).minus(number(a.constant))
        elif (name := a.bare_name) is None:
            return None
        else:
            sign = a.coefficient(name)
            values[name] = variable(place).minus(a.minus(variable(name).times(sign))).times(sign)
        location.append(Linear(variable(place), INT32))
        places[place] = Interval(max(spread[0], 0), min(spread[1] + 1, buffer.shape[k]))
    old = {n: i for n, i in space.dims.items() if n not in values}
    named = replace(space, location=(), value=with_multiples(space.value, multiples))
    new = substituted(named, values, {**old, **places}, [with_multiples(g, multiples) for g in space.guards])
    kept = tuple(g for g in new.guards if not index_names(g) & old.keys())
    # what is never read may hold anything, if only it can be computed
    fewer = multiples or len(kept) < len(new.guards)
    if index_names(new.value) & old.keys() or (fewer and indexed_by_data(new.value)):
        return None
    return replace(new, dims=places, location=tuple(location), guards=kept)


def with_multiples(term: Term, wholes: Mapping[str, Affine]) -> Term:
    """A term whose sums hold multiples of others, under names for these."""

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(a, element):
                return Linear(reduce(lambda left, one: by_multiple(left, one[1], one[0]), wholes.items(), a), element)
            case _:
                return None

    return rebuilt(term, rule) if wholes else term


def _without_gaps(a: Affine, space: Space) -> bool:
    """Whether a sum takes each value from its least to its greatest one, or every other, as far as ranges tell."""
    reach, step = 0, gcd(*(c for _, c in a.terms)) if len(a.terms) > 1 else 1
    for c, part in sorted(((abs(c), Affine(((t, 1),))) for t, c in a.terms), key=lambda part: part[0]):
        spread = part.range(space.ranges)
        if spread is None or c > reach + step:
            return False
        reach += c * (spread[1] - spread[0])
    return step <= 2


def _loops(leaf: Leaf, node: Store, buffer: Buffer, space: Space) -> Node:
    made: Node = Store(buffer, space.location, space.value, space.guards, node.span)
    for name, i in reversed(list(space.dims.items())):
        made = Loop(name, Number(i.start, INT32), Number(len(i), INT32), (made,), True, leaf.loops[0].span, name)
    return made


def without(node: Node, gone: Collection[Store]) -> Node | None:
    """A node without some stores; None where nothing is left."""
    if isinstance(node, Loop):
        body = tuple(kept for inner in node.body if (kept := without(inner, gone)) is not None)
        return replace(node, body=body) if body else None
    return None if isinstance(node, Store) and node in gone else node


def _reading(node: Node, filled: Mapping[Buffer, Buffer]) -> Node:
    """A node that reads what is filled once."""

    def rule(t: Term) -> Term | None:
        return Load(filled[t.buffer], t.indices, t.span) if isinstance(t, Load) and t.buffer in filled else None

    def over(t: Term) -> Term:
        return rebuilt(t, rule) if buffers_of(t) & filled.keys() else t

    def inner(n: Node) -> Node:
        return changed(n, over, inner, lambda b: b, lambda b: ())

    return inner(node)
