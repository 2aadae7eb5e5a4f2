"""What passes over storage have in common: which is the program's own, sums in terms of others, nodes left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from tensorir.integers.affine import Affine
from tensorir.lifting.nests.bounded import by_multiple
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store
from tensorir.lifting.nests.terms import (
    Buffer,
    Linear,
    Term,
    rebuilt,
)

__all__ = ["own", "with_multiples", "without"]


def own(statements: Sequence[Leaf]) -> set[Buffer]:
    """The storage of a program's own that has no copies for iterations yet, and no other names."""
    every = {b for leaf in statements for b in leaf.written | leaf.read}
    named = {b.memory for b in every}
    plain = (b for b in every if not (b.argument or b.loops or b.copies or b.memory) and b.value is None)
    return {b for b in plain if b not in named}


def with_multiples(term: Term, wholes: Mapping[str, Affine]) -> Term:
    """A term whose sums hold multiples of others, under names for these."""

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(a, element):
                return Linear(reduce(lambda left, one: by_multiple(left, one[1], one[0]), wholes.items(), a), element)
            case _:
                return None

    return rebuilt(term, rule) if wholes else term


def without(node: Node, gone: Collection[Store]) -> Node | None:
    """A node without some stores; None where nothing is left."""
    if isinstance(node, Loop):
        body = tuple(kept for inner in node.body if (kept := without(inner, gone)) is not None)
        return replace(node, body=body) if body else None
    return None if isinstance(node, Store) and node in gone else node
