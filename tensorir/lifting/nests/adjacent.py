"""Loops that were cut in parts: two that follow each other, and do the same for adjacent numbers, are one loop.

>>> from tensorir.lifting.nests.terms import Buffer
>>> from tensorir.ir.types import INT32
>>> def part(name, low, extent):
...     store = Store(b, (Index(name, INT32),), Index(name, INT32))
...     return Loop(name, Number(low, INT32), Number(extent, INT32), (store,))
>>> b = Buffer("B", INT32, (8,))
>>> [(loop.low.value, loop.extent.value) for loop in with_parts_joined([part("i", 0, 2), part("j", 2, 6)])]
[(0, 8)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorir.integers.affine import variable
from tensorir.lifting.nests.nest import Check, External, Loop, Node, Store, While
from tensorir.lifting.nests.terms import Index, Linear, Number, Term, rebuilt

__all__ = ["with_parts_joined"]


def with_parts_joined(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with parts of one loop, wherever they stand one after the other, as that loop."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop | While):
            body = with_parts_joined(node.body)
            same = len(body) == len(node.body) and all(x is y for x, y in zip(body, node.body, strict=True))
            node = node if same else replace(node, body=body)
        whole = _whole(found[-1], node) if found else None
        if whole is None:
            found.append(node)
        else:
            found[-1] = whole
    return tuple(found)


def _whole(a: Node, b: Node) -> Node | None:
    """The loop of which two are parts; None where they are none, or where iterations of either run at once."""
    if not isinstance(a, Loop) or not isinstance(b, Loop) or a.parallel or b.parallel or a.lockstep or b.lockstep:
        return None
    match a.low, a.extent, b.low, b.extent:
        case Number(low, element), Number(extent), Number(next_low), Number(more) if low + extent == next_low:
            joined = Loop(a.name, a.low, Number(extent + more, element), a.body, span=a.span, title=a.title)
            return joined if _alike(a.body, b.body, {b.name: a.name}, {}) else None
        case _:
            return None


def _alike(xs: Sequence[Node], ys: Sequence[Node], names: Mapping[str, str], known: dict[Term, Term]) -> bool:
    """Whether nodes do the same, where the variables of the second ones have the names of the first ones."""
    return len(xs) == len(ys) and all(_one_alike(x, y, names, known) for x, y in zip(xs, ys, strict=True))


def _one_alike(x: Node, y: Node, names: Mapping[str, str], known: dict[Term, Term]) -> bool:
    def terms(some: Sequence[Term], others: Sequence[Term]) -> bool:
        if len(some) != len(others):
            return False
        return all(_known(s, {}, known) is _known(o, names, known) for s, o in zip(some, others, strict=True))

    match x, y:
        case Loop(), Loop():
            kind = (x.parallel, x.lockstep) == (y.parallel, y.lockstep)
            bounds = terms((x.low, x.extent), (y.low, y.extent))
            return kind and bounds and _alike(x.body, y.body, {**names, y.name: x.name}, known)
        case Store(), Store():
            same = (x.buffer, x.atomic, x.stretch) == (y.buffer, y.atomic, y.stretch)
            return same and terms((*x.indices, x.value, *x.guards), (*y.indices, y.value, *y.guards))
        case While(), While():
            same = x.most == y.most and terms((x.condition, *x.guards), (y.condition, *y.guards))
            return same and _alike(x.body, y.body, names, known)
        case Check(), Check():
            return x.message == y.message and terms((x.condition, *x.guards), (y.condition, *y.guards))
        case External(), External():
            return x is y
        case _:
            return False


def _known(term: Term, names: Mapping[str, str], known: dict[Term, Term]) -> Term:
    """A term under other names of variables; one object for all that are equal."""
    values = {old: variable(new) for old, new in names.items()}

    def rule(t: Term) -> Term:
        match t:
            case Index(name, element) if name in names:
                t = Index(names[name], element)
            case Linear(a, element) if a.names & names.keys():
                t = Linear(a.replaced(values, {}), element)
            case _:
                pass
        return known.setdefault(t, t)

    return rebuilt(term, rule)
