"""Conditions that keep reads inside of their buffer, said in full: copies of a loop differ in what a simplifier left.

    if i > 0 then A[i - 1] else 0,  A[i],  if i < 7 then A[i + 1] else 0
    →  if 0 ≤ i - 1 < 8 then A[i - 1] else 0,  if 0 ≤ i < 8 then A[i] else 0,  if 0 ≤ i + 1 < 8 then A[i + 1] else 0

What always holds is said where another copy reads the same buffer under a condition.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.sets import condition_text, decided, domain, integer_set
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, walk

__all__ = ["with_bounds_in_full"]


def with_bounds_in_full(nodes: Sequence[Node], loops: tuple[Loop, ...]) -> list[Node] | None:
    """The nodes, with terms in normal form, inside of loops; None where nothing is read under a condition."""
    others = _others(nodes)
    return [_in_full(node, loops, others) for node in nodes] if others else None


def _others(nodes: Sequence[Node]) -> dict[Buffer, Number]:
    """The buffers that are read under conditions, and what stands for what is not read."""
    found: dict[Buffer, set[Number]] = {}
    for leaf in leaves(nodes):
        if isinstance(leaf.node, Store):
            for term in walk(leaf.node.value):
                match term:
                    case Op("if", (_, Load(buffer), Number() as other)):
                        found.setdefault(buffer, set()).add(other)
                    case _:
                        pass
    return {buffer: other for buffer, (other, *more) in found.items() if not more}


def _in_full(node: Node, loops: tuple[Loop, ...], others: Mapping[Buffer, Number]) -> Node:
    match node:
        case Loop(body=body):
            return replace(node, body=tuple(_in_full(n, (*loops, node), others) for n in body))
        case Store(value=value):
            return replace(node, value=_bounded(value, Leaf(node, loops, ()), others, {}))
        case _:
            return node


def _bounded(term: Term, leaf: Leaf, others: Mapping[Buffer, Number], done: dict[int, Term]) -> Term:
    if id(term) not in done:
        done[id(term)] = _made(term, leaf, others, done)
    return done[id(term)]


def _made(term: Term, leaf: Leaf, others: Mapping[Buffer, Number], done: dict[int, Term]) -> Term:
    match term:
        case Op("if", (condition, Load(buffer) as load, other)) if others.get(buffer) == other:
            bounds = _bounds(load)
            same = bounds is not None and _same(condition, bounds, leaf)
            return Op("if", (bounds, load, other), term.element) if bounds is not None and same else term
        case Load(buffer) if buffer in others:
            bounds = _bounds(term)
            same = bounds is not None and _same(Number(True, BOOL), bounds, leaf)
            return Op("if", (bounds, term, others[buffer]), term.element) if bounds is not None and same else term
        case Op(op, args, element):
            return Op(op, tuple(_bounded(a, leaf, others, done) for a in args), element)
        case _:
            return term


def _bounds(load: Load) -> Term | None:
    """That a read is inside of its buffer; None where an index is no sum."""
    found: list[Term] = []
    for index, extent in zip(load.indices, load.buffer.shape, strict=True):
        if affine_of(index) is None:
            return None
        for op, bound in (("greater_equal", 0), ("less", extent)):
            found.append(Op(op, (index, Number(bound, INT32)), BOOL))
    return reduce(lambda a, b: Op("and", (a, b), BOOL), found) if found else None


def _same(a: Term, b: Term, leaf: Leaf) -> bool:
    """Whether two conditions hold in the same iterations of a statement, as far as that can be decided."""
    whole = domain(leaf, ranges_of(leaf.loops), (), "")
    known = [condition_text(c, whole.names) for c in (a, b)]
    if None in known:
        return False
    first, second = (integer_set(leaf.names, [*whole.constraints, *([c] if c else [])]) for c in known)
    return bool(decided(lambda: first.is_equal(second)))
