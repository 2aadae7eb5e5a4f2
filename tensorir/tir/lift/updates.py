"""Atomic updates: threads take their turns in ascending order, and each may keep what it found.

A statement that uses the old value is two: the update, in which each thread keeps what it finds, and what it does with
that. Which thread finds what no text says; here the first one comes first.
"""

from __future__ import annotations

from tensorir.ir.types import INT32
from tensorir.lifting.nests.nest import Loop, Node, Store
from tensorir.lifting.nests.terms import Load, Number
from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.lift.allocation import pointer
from tensorir.tir.lift.atomics import ATOMICS, as_builtin
from tensorir.tir.lift.expressions import value_of
from tensorir.tir.lift.intrinsics import binary
from tensorir.tir.lift.memory import apart
from tensorir.tir.lift.reader import Reader

__all__ = ["fetched", "updated"]

_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


def updated(reader: Reader, call: n.Call, span: Span) -> list[Node]:
    """An atomic update that stands alone, as a store."""
    return _in_turn(reader, [_update(reader, call, span)])


def fetched(reader: Reader, call: n.Call) -> list[Node]:
    """An update of which a statement uses the old value, which it then finds where each thread kept its own."""
    known = as_builtin(call)
    update = _update(reader, known, call.span)
    kept, keep = reader.keeping("old", Load(update.buffer, update.indices, call.span), call.span, atomic=True)
    reader.scope.exchanged[id(call)] = kept
    line = f"line {call.span.line}: " if call.span is not NOWHERE else ""
    reader.scope.notes[f"{line}T.{known.op} updates thread by thread, in ascending order."] = None
    return _in_turn(reader, [keep, update])


def _update(reader: Reader, call: n.Call, span: Span) -> Store:
    view = pointer(reader, call.args[0], span)
    value = reader.term(value_of(call.args[1]))
    if isinstance(call.args[0], n.BufferLoad):
        indices = view.place(tuple(reader.term(i) for i in call.args[0].indices))
    else:
        indices = apart(view.offset, view.buffer.shape)
    old, name = Load(view.buffer, indices, span), ATOMICS[str(call.op)]
    new = binary(name, old, value, reader.scope.exact) if name else value
    return Store(view.buffer, indices, new, reader.holding, span, atomic=True, stretch=reader.stretch)


def _in_turn(reader: Reader, nodes: list[Node]) -> list[Node]:
    """What threads do one after the other, all of it for each, `threadIdx.x` running fastest."""
    tags = {t.name: tag for tag, t in (reader.threads or {}).items()}
    span = nodes[-1].span
    for thread in sorted(reader.lanes, key=lambda t: _TAGS.index(tags[t.name]), reverse=True):
        bounds = Number(0, INT32), Number(thread.extent, INT32)
        nodes = [Loop(thread.name, *bounds, tuple(nodes), parallel=True, span=span, title=thread.name)]
    return nodes
