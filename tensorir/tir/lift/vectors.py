"""Vectors that statements compute: a loop over the lanes, which stands for all of them at once."""

from __future__ import annotations

from tensorir.ir.types import INT32
from tensorir.lifting.nests.nest import Loop, Node
from tensorir.lifting.nests.terms import Index, Load, Number, Term
from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.lift.asked import asked
from tensorir.tir.lift.expressions import Lanes, term
from tensorir.tir.lift.intrinsics import cast
from tensorir.tir.lift.reader import Reader

__all__ = ["asked_of_lanes", "kept", "lane_loop"]


def lane_loop(name: str, lanes: int, node: Node, span: Span) -> Node:
    extent = Number(lanes, INT32)
    return Loop(name, Number(0, INT32), extent, (node,), span=span, title="lane", lockstep=True)


def asked_of_lanes(reader: Reader, value: n.Expr) -> list[Node]:
    """What a value asks for, in every lane of it."""
    lanes = value.dtype.lanes
    if lanes == 1:
        return asked(reader, value)
    name = reader.loop_name("lane")
    with reader.inside(name, (0, lanes - 1)):
        return [lane_loop(name, lanes, check, value.span) for check in asked(reader, value, lane=Index(name, INT32))]


def kept(reader: Reader, title: str, value: n.Expr, span: Span) -> tuple[Lanes, list[Node]]:
    """A value that is computed here, once: where each lane of it is then, and the stores that leave it there."""
    lanes = value.dtype.lanes
    if lanes == 1:
        found, keep = reader.temporary(title, reader.term(value), span)
        return lambda lane: found, [keep]
    name = reader.loop_name("lane")
    own = Index(name, INT32)
    with reader.inside(name, (0, lanes - 1)):
        found, keep = reader.temporary(title, term(reader.scope, value, own), span)

    def of(lane: Term) -> Term:
        return Load(found.buffer, tuple(cast(lane, INT32) if index == own else index for index in found.indices))

    return of, [lane_loop(name, lanes, keep, span)]
