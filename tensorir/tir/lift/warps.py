"""Values that threads of one warp hand to one another: every thread keeps its own, then each reads that of another.

The threads of a block are numbered with `threadIdx.x` running fastest. They run in lockstep, so a statement that
shuffles is two: all keep their values, and all read. What a thread that takes no part has is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tensorir.ir.types import BOOL, INT32, SCALARS
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.nest import Node, Store
from tensorir.lifting.nests.terms import Index, Load, Number, Op, Term
from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.lift.asked import asked
from tensorir.tir.lift.expressions import element_of, refused
from tensorir.tir.lift.intrinsics import cast, number
from tensorir.tir.lift.own_calls import Choice, own_calls
from tensorir.tir.lift.reader import Reader
from tensorir.tir.trees import walk

__all__ = ["EXCHANGES", "Block", "block_of", "exchanged", "of_all"]

WARP = 32
_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")

# from which lane of its group each lane takes the value: of its own lane, what it was told, and how many there are
_SOURCES: dict[str, Callable[[Term, Term, int], Term]] = {
    "tvm_warp_shuffle": lambda within, by, width: _op("mod", by, _whole(width)),
    "tvm_warp_shuffle_up": lambda within, by, width: _op("minus", within, by),
    "tvm_warp_shuffle_down": lambda within, by, width: _op("plus", within, by),
    "tvm_warp_shuffle_xor": lambda within, by, width: _op("bit_xor", within, by),
}
_ACTIVE = "tvm_warp_activemask"
EXCHANGES = frozenset((*_SOURCES, _ACTIVE))
"""What threads of a warp do together, by name."""


def exchanged(reader: Reader, node: n.Stmt) -> list[Node]:
    """What stands before a statement that shuffles: each thread keeps its value; the statement then reads those."""
    if reader.shuffling is None:
        return []
    found: list[Node] = []
    for call in own_calls(node, lambda call: call.op in EXCHANGES):
        if isinstance(call, Choice):
            inner = next(p for p in walk(call.node) if isinstance(p, n.Call) and p.op in EXCHANGES)
            message = f"T.{inner.op} stands where only some threads come to it."
            raise refused(message, inner.span, "write it as a statement before: let every thread shuffle.")
        if isinstance(call, n.Call):
            found += [*asked(reader, *call.args), *_kept(reader, call)]
    return found


@dataclass(frozen=True, slots=True)
class Block:
    """The threads of a block: how many there are, and the number of one of them."""

    count: int
    thread: Term


def block_of(reader: Reader, name: str, span: Span) -> Block:
    """The threads that hand values to one another; `name` is what does it."""
    if reader.threads is None:
        raise refused(f"T.{name} stands in no kernel.", span, "bind a loop to threadIdx.x.")
    known = [reader.threads[tag] for tag in _TAGS if tag in reader.threads]
    if any(t.name in reader.loops for t in known):
        raise refused(f"T.{name} stands where threads take turns, and needs all of them at once.", span)
    thread: Term = _whole(0)
    for t in known:
        index: Term = Index(t.name, INT32) if t.extent != 1 else _whole(0)
        thread = _op("plus", _op("multiplies", thread, _whole(t.extent)), index)
    return Block(prod(t.extent for t in known), settled(thread, reader.ranges))


def _kept(reader: Reader, call: n.Call) -> list[Node]:
    """The store of every thread's value, and what the call then stands for."""
    block = block_of(reader, str(call.op), call.span)
    if call.op == _ACTIVE:
        found, nodes = _active(reader, block, call.span)
        reader.scope.exchanged[id(call)] = cast(found, element_of(call.dtype, call.span))
        return nodes
    assert isinstance(call.op, str)
    _, value, by, width, warp = (reader.term(a) for a in call.args[:5] if isinstance(a, n.Expr))
    if call.dtype.lanes != 1:
        raise refused(f"T.{call.op} of a vector cannot be lifted.", call.span, "shuffle its lanes one by one.")
    group, size = _constant(width, call), _constant(warp, call)
    own, keep = of_all(reader, block, "own", value, call.span)
    within = _op("mod", _op("mod", block.thread, _whole(size)), _whole(group))
    taken = settled(_SOURCES[call.op](within, cast(by, INT32), group), reader.ranges)
    place = _op("plus", _op("minus", block.thread, within), taken)
    inside = (
        Op("greater_equal", (taken, _whole(0)), BOOL),
        Op("less", (taken, _whole(group)), BOOL),
        Op("less", (place, _whole(block.count)), BOOL),
    )
    other = Op("if", (_all(inside), own(place), own(block.thread)), value.element)
    reader.scope.exchanged[id(call)] = settled(other, reader.ranges)
    return [keep]


def of_all(
    reader: Reader, block: Block, name: str, value: Term, span: Span
) -> tuple[Callable[[Term], Term], Node]:  # fmt: skip
    """A value that every thread keeps, 0 where it takes no part: how to read that of a thread, and the store."""
    if reader.holding:
        value = Op("if", (_all(reader.holding), value, number(0, value.element)), value.element)
    made = reader.buffer(name, value.element, (block.count,), span)
    apart = tuple(t.name for t in (reader.threads or {}).values() if t.block and t.extent != 1)
    made.private = (*(loop for loop in reader.loops if loop in reader.parallel), *apart)
    keep = reader.placed(Store(made, (block.thread,), value, (), span))
    return lambda thread: Load(made, (thread,), span), keep


def _active(reader: Reader, block: Block, span: Span) -> tuple[Term, list[Node]]:
    """One bit per thread of the warp that takes part, and what that needs."""
    if reader.holding:
        live, keep = of_all(reader, block, "live", Number(True, BOOL), span)
        return _bits(block, live), [keep]
    word, whole = SCALARS["uint32"], block.count - block.count % WARP
    last: Term = Number((1 << block.count % WARP) - 1, word)
    if not whole:
        return last, []
    here = Op("less", (block.thread, _whole(whole)), BOOL)
    return settled(Op("if", (here, Number((1 << WARP) - 1, word), last), word), reader.ranges), []


def _bits(block: Block, live: Callable[[Term], Term]) -> Term:
    """One bit per thread of the warp, where it is live."""
    word = SCALARS["uint32"]
    first = _op("minus", block.thread, _op("mod", block.thread, _whole(WARP)))
    total: Term | None = None
    for k in range(min(WARP, block.count)):
        thread = _op("plus", first, _whole(k))
        bit = Op("cast", (live(thread),), word)
        if block.count % WARP:
            exists = Op("less", (thread, _whole(block.count)), BOOL)
            bit = Op("if", (exists, bit, Number(0, word)), word)
        moved = Op("shift_left", (bit, Number(k, word)), word)
        total = moved if total is None else Op("bit_or", (total, moved), word)
    assert total is not None
    return total


def _constant(value: Term, call: n.Call) -> int:
    found = settled(value, {})
    if not isinstance(found, Number) or int(found.value) <= 0:
        raise refused(f"the width of T.{call.op} must be a positive constant.", call.span)
    return int(found.value)


def _all(conditions: tuple[Term, ...]) -> Term:
    found, *others = conditions
    for other in others:
        found = Op("and", (found, other), BOOL)
    return found


def _op(name: str, a: Term, b: Term) -> Term:
    return Op(name, (a, b), INT32)


def _whole(value: int) -> Term:
    return Number(value, INT32)
