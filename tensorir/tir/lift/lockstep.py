"""Loops of which every thread takes turns of its own number, in lockstep: all wait for the one that takes the most.

A turn is one of the whole block: those threads do something in it whose own turns are not over. What threads share is
so written and read in the order in which they come to a barrier inside of the loop, as a barrier there demands that
all of them come to it.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.nests.nest import Check, Loop, Node, Store, While
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term
from tensorir.runtime.errors import Span
from tensorir.tir.lift.intrinsics import number
from tensorir.tir.lift.memory import plus
from tensorir.tir.lift.reader import Flag, Reader

__all__ = ["Turn", "counted", "met", "repeated"]

Turn = Callable[[tuple[Term, ...]], tuple[list[Node], list[Node], Flag | None]]
"""Reads what one turn does, under guards: its nodes, those that prepare the loop, and the flag of threads that left."""


def counted(
    reader: Reader, name: str, extent: Term, most: int | None, turn: Callable[[Term], Turn], waiting: bool, span: Span
) -> list[Node]:
    """A loop of `extent` turns, which every thread has its own of; `turn` reads the one of a number.

    `waiting`: whether threads wait for each other in it.
    """
    places = tuple(Index(t.name, INT32) for t in reader.lanes)
    own = reader.buffer("turns", INT32, tuple(t.extent for t in reader.lanes), span)
    stop, counter = (reader.buffer(n, INT32, (), span) for n in ("stop", name))
    current, last, zero = Load(counter, ()), Load(stop, ()), Number(0, INT32)
    with reader.unguarded():
        nodes = [reader.store(b, at, zero, span) for b, at in ((own, places), (stop, ()), (counter, ()))]
    nodes.append(reader.store(own, places, extent, span))
    nodes.append(_gathered(reader, stop, Op("max", (last, Load(own, places)), INT32), span))
    with reader.unguarded():
        if waiting:
            nodes.append(_all_come(reader, Op("eq", (Load(own, places), last), BOOL), span))
        goes = Op("less", (current, Load(own, places)), BOOL)
        reader.joint = (*reader.joint, *([goes] if waiting else []))
        inner, before, _ = turn(current)((goes,))
        inner.append(reader.store(counter, (), plus(current, number(1, INT32)), span))
    return [*nodes, *before, While(Op("less", (current, last), BOOL), tuple(inner), (), span, most)]


def repeated(
    reader: Reader, condition: Term, checks: Callable[[], list[Node]], turn: Turn, waiting: bool, span: Span
) -> list[Node]:
    """A while, of which every thread has its own condition; `checks` reads what this asks for."""
    going = reader.flag("going", span)
    more = reader.buffer("more", BOOL, (), span)
    goes, yes, no = Load(going.buffer, going.indices), Load(more, ()), Number(False, BOOL)
    again = [
        Store(more, (), no, (), span),
        _gathered(reader, more, Op("or", (yes, goes), BOOL), span),
    ]
    nodes = [reader.cleared(going, span)]
    with reader.unguarded():
        if waiting:
            again.append(_all_come(reader, Op("eq", (goes, yes), BOOL), span))
    nodes += [*checks(), reader.store(going.buffer, going.indices, condition, span)]
    with reader.unguarded():
        reader.joint = (*reader.joint, *([goes] if waiting else []))
        inner, before, broken = turn((goes,))
        for flag in (*([] if broken is None else [broken]), *reader.live):
            with reader.unguarded(), reader.guarded(Load(flag.buffer, flag.indices)):
                inner.append(reader.store(going.buffer, going.indices, no, span))
        with reader.guarded(goes):
            inner += [*checks(), reader.store(going.buffer, going.indices, condition, span)]
    return [*nodes, *again, *before, While(yes, (*inner, *again), (), span)]


def met(reader: Reader, span: Span) -> list[Node]:
    """What is checked of a barrier where each thread asks storage of its own: that all of a block come, or none."""
    comes, some = reader.flag("comes", span), reader.buffer("some", BOOL, (), span)
    here, any_come = Load(comes.buffer, comes.indices), Load(some, ())
    nodes = [reader.cleared(comes, span), Store(some, (), Number(False, BOOL), (), span)]
    nodes.append(reader.raised(comes, span))
    nodes.append(_gathered(reader, some, Op("or", (any_come, here), BOOL), span))
    check = Check(
        Op("eq", (here, any_come), BOOL), "not all threads of the block reach this barrier.", (), span, "TL13"
    )
    return [*nodes, reader.placed(check)]


def _all_come(reader: Reader, holds: Term, span: Span) -> Node:
    """What is asserted of every thread of a block where a barrier stands in the turns."""
    message = "not all threads of the block reach the barriers in this loop."
    return reader.placed(Check(holds, message, (), span, "TL13"))


def _gathered(reader: Reader, buffer: Buffer, value: Term, span: Span) -> Node:
    """What is put together from all threads, one after the other."""
    node: Node = Store(buffer, (), value, (), span)
    for thread in reversed(reader.lanes):
        node = Loop(thread.name, Number(0, INT32), Number(thread.extent, INT32), (node,), span=span, title=thread.name)
    return node
