"""Speculation: stores to a private buffer run without a condition of data under which all accesses to it stand.

A loop as many times as data say is a loop over its longest range, under a condition. Under it a buffer that each
iteration fills before it reads would still hand its old elements to the next one, where the condition fails:

>>> from tensorir.ir.types import BOOL, INT32
>>> def index(name): return Index(name, INT32)
>>> count, out, t = Buffer("count", INT32, (4,), True), Buffer("out", INT32, (4,), True), Buffer("t", INT32, (1,))
>>> zero = (Number(0, INT32),)
>>> runs = Op("less", (index("i"), Load(count, zero)), BOOL)
>>> body = Store(t, zero, index("i"), (runs,)), Store(out, (index("i"),), Load(t, zero), (runs,))
>>> (loop,) = speculated([Loop("i", Number(0, INT32), Number(4, INT32), body)], [count, out], checked=False)
>>> [(store.buffer.name, len(store.guards)) for store in loop.body]
[('t', 0), ('out', 1)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from tensorir.integers.affine import variable
from tensorir.lifting.dataflow.flow import flow_of
from tensorir.lifting.dataflow.nests import region_of
from tensorir.lifting.dataflow.opaque import Uncovered
from tensorir.lifting.dataflow.statements import statements_of
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store, changed, leaves, written
from tensorir.lifting.nests.terms import (
    Buffer,
    Index,
    Linear,
    Load,
    Number,
    Op,
    Term,
    buffers_of,
    children,
    index_names,
    indexed_by_data,
    loads,
    rebuilt,
)
from tensorir.nodes import folded

Conditions = Mapping[Buffer, frozenset[Term]]
"""By buffer the conditions that its stores run without, in terms of loops around all accesses and of elements."""


def speculated(nodes: Sequence[Node], arguments: Sequence[Buffer], checked: bool) -> tuple[Node, ...]:
    """The nodes in which stores to private buffers have no condition under which all accesses to them stand.

    An element that is read under the condition has to be written before in the same iteration of the loops that the
    condition depends on, as dataflow without the condition tells. If the program is `checked`, a value whose places
    data tell stands under the condition itself.
    """
    nodes = _with_branches_joined(nodes)
    dropped = _dropped(nodes)
    if not dropped:
        return tuple(nodes)
    try:
        # of one buffer nothing changes the sources of another
        private = _private(_without(nodes, dropped, checked), arguments, dropped)
    except Uncovered:
        return tuple(nodes)
    kept = {b: conditions for b, conditions in dropped.items() if b in private}
    return _without(nodes, kept, checked) if kept else tuple(nodes)


def _with_branches_joined(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes in which two stores to one place, of which a condition of data chooses one, are a store of a choice.

    `t[0] = x if c; t[0] = y if not c` is `t[0] = if c then x else y`.
    """
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            found.append(replace(node, body=_with_branches_joined(node.body)))
            continue
        match (found[-1] if found else None, node):
            case (
                Store(a, at, x, (*outer, c), atomic=False) as first,
                Store(b, there, y, (*same, Op("not", (other,))), atomic=False),
            ) if (a, at, outer, c) == (b, there, same, other) and (read := buffers_of(c)) and a not in read:
                found[-1] = replace(first, value=Op("if", (c, x, y), a.element), guards=tuple(outer))
            case _:
                found.append(node)
    return tuple(found)


def _touching(nodes: Sequence[Node]) -> dict[Buffer, list[Leaf]]:
    """By buffer the leaves that store to it or read it."""
    touching: dict[Buffer, list[Leaf]] = {}
    for leaf in leaves(nodes):
        for b in leaf.written | leaf.read:
            touching.setdefault(b, []).append(leaf)
    return touching


def _common(touching: Sequence[Leaf]) -> list[Loop]:
    """The loops around all of some leaves."""
    pairs = zip(*(leaf.loops for leaf in touching), strict=False)
    return [same[0] for same in pairs if all(loop is same[0] for loop in same)]


def _dropped(nodes: Sequence[Node]) -> Conditions:
    stored, dropped = written(nodes), dict[Buffer, frozenset[Term]]()
    for b, touching in _touching(nodes).items():
        plain = b in stored and not b.argument and b.memory is None and not b.loops
        if not plain or any(isinstance(leaf.node, Store) and not leaf.node.guards for leaf in touching):
            continue
        around = {loop.name for loop in _common(touching)}
        each = [frozenset(_keys(leaf, b, around, stored)) for leaf in touching]
        if conditions := each[0].intersection(*each[1:]):
            dropped[b] = conditions
    return dropped


def _keys(leaf: Leaf, buffer: Buffer, around: set[str], stored: set[Buffer]) -> dict[Term, Term]:
    """The conditions of data under which a leaf touches a buffer, by the form that all accesses to it have in common.

    `i < n[b]` around `t[i]` is `t_0 < n[b]`, the variable of a loop around this access alone as the element's place.
    """
    if not isinstance(leaf.node, Store) and buffer in leaf.written:
        return {}
    if any(buffer in buffers_of(t) for loop in leaf.loops for t in (loop.low, loop.extent)):
        return {}
    places = [r.indices for r in leaf.reads if r.buffer is buffer]
    if isinstance(leaf.node, Store) and leaf.node.buffer is buffer:
        places.append(leaf.node.indices)
        if any(loads(i) for i in leaf.node.indices):
            return {}
    elements: dict[str, str] = {}
    for k, indices in enumerate(zip(*places, strict=True)):
        if isinstance(indices[0], Index) and all(i == indices[0] for i in indices):
            elements.setdefault(indices[0].name, f"{buffer.name}_{k}")
    elements = {n: e for n, e in elements.items() if n not in around}

    def rule(t: Term) -> Term | None:
        match t:
            case Index(name, element) if name in elements:
                return Index(elements[name], element)
            case Linear(affine, element) if affine.names & elements.keys():
                return Linear(affine.replaced({n: variable(e) for n, e in elements.items()}, {}), element)
            case _:
                return None

    keys: dict[Term, Term] = {}
    for guard in _conditions(leaf, buffer):
        read = buffers_of(guard)
        if read and not read & stored and index_names(guard) <= around | elements.keys():
            keys[rebuilt(guard, rule)] = guard
    return keys


def _conditions(leaf: Leaf, buffer: Buffer) -> list[Term]:
    """The conditions that hold wherever a leaf touches a buffer: its guards, and those of choices in its value."""
    match leaf.node:
        case Store(stored, indices, value, guards) if stored is not buffer:
            reads_else = any(buffer in buffers_of(t) for t in (*indices, *guards))
            chosen = [] if reads_else else _chosen(value, buffer)
        case _:
            chosen, guards = [], leaf.node.guards
    before = takewhile(lambda g: buffer not in buffers_of(g), guards)
    return [*before, *chosen]


def _chosen(value: Term, buffer: Buffer) -> list[Term]:
    """The conditions of choices in a term under which all its reads of a buffer stand."""

    def held(t: Term, parts: Sequence[dict[Term, None] | None]) -> dict[Term, None] | None:
        match t, parts:
            case Op("if", (c, _, _)), (own, yes, no):
                under = {**yes, c: None} if yes is not None else None
                other = {**no, Op("not", (c,), c.element): None} if no is not None else None
                parts = [own, under, other]
            case Load(read), _ if read is buffer:
                parts = [*parts, {}]
            case _:
                pass
        reading = [p for p in parts if p is not None]
        return {c: None for c in reading[0] if all(c in p for p in reading)} if reading else None

    return list(folded([value], children, held)[id(value)] or {})


def _without(nodes: Sequence[Node], dropped: Conditions, checked: bool) -> tuple[Node, ...]:
    stored, touching = written(nodes), _touching(nodes)
    new: dict[int, Store] = {}
    for b, conditions in dropped.items():
        around = {loop.name for loop in _common(touching[b])}
        for leaf in touching[b]:
            match leaf.node:
                case Store(buffer, _, value, guards) if buffer is b:
                    keys = _keys(leaf, b, around, stored)
                    gone = {id(g) for key, g in keys.items() if key in conditions}
                    if checked and indexed_by_data(value):
                        for guard in reversed([g for g in guards if id(g) in gone]):
                            value = Op("if", (guard, value, Number(0, b.element)), b.element)
                    left = tuple(g for g in guards if id(g) not in gone)
                    new[id(leaf.node)] = replace(leaf.node, value=value, guards=left)
                case _:
                    pass

    def inner(node: Node) -> Node:
        same = changed(node, lambda t: t, inner, lambda b: b, lambda _: ()) if isinstance(node, Loop) else node
        return new.get(id(node), same)

    return tuple(map(inner, nodes))


def _private(nodes: Sequence[Node], arguments: Sequence[Buffer], dropped: Conditions) -> set[Buffer]:
    """The buffers whose reads find what the same iteration of the loops that conditions depend on has written."""
    translated = region_of("speculated", arguments, nodes)
    statements = statements_of(translated.region)
    flow = flow_of(statements)
    dims = {id(loop): dim for dim, loop in translated.loops.items()}
    touching, private = _touching(nodes), set[Buffer]()
    for b, conditions in dropped.items():
        names = {n for c in conditions for n in index_names(c)}
        own = [dims[id(loop)] for loop in _common(touching[b]) if loop.name in names]
        memory = translated.buffers.get(b)
        sources = [x for s in statements if s.is_read and s.buffer is memory for x in flow[s.number]]
        if all(
            x.writer is None
            or all(at == variable(n) for n, at in zip(statements[x.writer].names, x.at, strict=True) if n in own)
            for x in sources
        ):
            private.add(b)
    return private
