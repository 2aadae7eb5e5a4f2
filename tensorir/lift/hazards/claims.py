"""What a text keeps to beside its accesses: barriers that all threads reach, iterators inside of their domains.

A reader places a check with a claim where it has to hold. What is proven to break it is told before anything runs; what
data decide is checked while the program runs, or left alone, as the claim says.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tensorir.errors import Diagnostic
from tensorir.lift.accesses.sets import condition_text, domain, integer_set, point
from tensorir.lift.nests.linear import settled
from tensorir.lift.nests.nest import Check, Leaf, Loop, Node, While, leaves, ranges_of
from tensorir.lift.nests.terms import Op
from tensorir.types import BOOL

__all__ = ["broken_claims", "without_claims"]


def broken_claims(nodes: Sequence[Node]) -> list[Diagnostic]:
    """The first claim that is proven not to hold, with an iteration in which it does not."""
    for leaf in leaves(nodes):
        found = _breaking(leaf)
        if found is None or found.is_empty():
            continue
        at = dict(zip(leaf.names, point(found), strict=True))
        assert isinstance(leaf.node, Check) and leaf.node.claim is not None
        claim = leaf.node.claim
        iteration = ", ".join(f"{loop.title or loop.name} = {at[loop.name]}" for loop in leaf.loops)
        note = claim.note.format(iteration or "the only iteration")
        return [Diagnostic(claim.code, leaf.node.message, leaf.span, (note,), claim.help)]
    return []


def without_claims(nodes: Sequence[Node], told: bool, loops: tuple[Loop, ...] = ()) -> tuple[Node, ...]:
    """The nodes without the claims of which all is known, without those not asked of a run, and all if not `told`."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(body=body) | While(body=body):
                inner = without_claims(body, told, (*loops, node) if isinstance(node, Loop) else loops)
                same = len(inner) == len(body) and all(x is y for x, y in zip(inner, body, strict=True))
                if inner or isinstance(node, While):
                    found.append(node if same else replace(node, body=inner))
            case Check(claim=claim) if claim is not None and not (
                told and claim.asked and _breaking(Leaf(node, loops, ())) is None
            ):
                pass
            case _:
                found.append(node)
    return tuple(found)


def _breaking(leaf: Leaf) -> Any | None:
    """The iterations that break a claim; None where data decide, or where nothing is claimed."""
    node = leaf.node
    if not isinstance(node, Check) or node.claim is None:
        return None
    ranges = ranges_of(leaf.loops)
    whole = domain(leaf, ranges, (), "")
    condition = condition_text(settled(Op("not", (node.condition,), BOOL), ranges), whole.names)
    if condition is None or not whole.exact:
        return None
    return integer_set([whole.names[n] for n in leaf.names], [*whole.constraints, condition])
