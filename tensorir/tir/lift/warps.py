"""Warps: values handed from thread to thread, and reductions in trees of shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import numpy as np

from tensorir.ir.types import BOOL, INT32, SCALARS
from tensorir.lifting.emission.tensors import neutral
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.nest import Loop, Node, Store
from tensorir.lifting.nests.terms import Index, Load, Number, Op, Term, values
from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.lift.asked import asked
from tensorir.tir.lift.expressions import element_of, place
from tensorir.tir.lift.intrinsics import ARITHMETIC, cast, number
from tensorir.tir.lift.reader import Choice, Reader, in_turn, own_calls
from tensorir.tir.trees import walk

# Values that threads of one warp hand to one another: every thread keeps its own, then each reads that of another.
#
# The threads of a block are numbered with `threadIdx.x` running fastest. They run in lockstep, so a statement that
# shuffles is two: all keep their values, and all read. What a thread that takes no part has is 0.

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
    """Stores before a statement that shuffles: each thread keeps its value; the statement then reads those."""
    if reader.shuffling is None:
        return []
    found: list[Node] = []
    for call in own_calls(node, lambda call: call.op in EXCHANGES):
        if isinstance(call, Choice):
            inner = next(p for p in walk(call.node) if isinstance(p, n.Call) and p.op in EXCHANGES)
            message = f"T.{inner.op} stands where only some threads come to it."
            raise refuse("TL01", message, "write it as a statement before: let every thread shuffle.", at=inner.span)
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
        raise refuse("TL01", f"T.{name} stands in no kernel.", "bind a loop to threadIdx.x.", at=span)
    known = [reader.threads[tag] for tag in _TAGS if tag in reader.threads]
    if any(t.name in reader.loops for t in known):
        raise refuse("TL01", f"T.{name} stands where threads take turns, and needs all of them at once.", at=span)
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
        message = f"T.{call.op} of a vector cannot be lifted."
        raise refuse("TL01", message, "shuffle its lanes one by one.", at=call.span)
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
        raise refuse("TL01", f"the width of T.{call.op} must be a positive constant.", at=call.span)
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


# Reductions that threads of a warp do in a tree of shuffles, read as the folds that they are.
#
#     t = shuffle_down(r, 16); r = r + t;  ...  t = shuffle_down(r, 1); r = r + t;
#
# After this the first thread of a warp holds the sum of 32, and the others what nobody asks for: it is read by threads
# that are first, or the first one hands it to all. With `xor` in the place of `down` every thread holds the sum. Only
# this is taken for a fold; any other row of shuffles is done step by step.

_KINDS = {"tvm_warp_shuffle_down": "down", "tvm_warp_shuffle_xor": "xor"}
_ZERO = Number(0, INT32)
Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Step:
    """One shuffle and what it is folded into: how far, in groups of how many, of warps of how many."""

    kind: str
    fold: str
    offset: int
    group: int
    warp: int


@dataclass(slots=True)
class _Row:
    """Steps that follow each other: all of one buffer's element, through others that hold what was handed on."""

    reader: Reader
    steps: list[_Step] = field(default_factory=list[_Step])
    own: n.BufferLoad | None = None
    loads: dict[n.Buffer, int] = field(default_factory=dict[n.Buffer, int])
    """How often the steps read each buffer, in the text."""

    def take(self, parts: Sequence[n.Stmt]) -> int:
        """The number of statements that are one step."""
        match parts:
            case [n.For(var, n.IntImm(low), n.IntImm(extent), _, body), *_] if 0 < extent <= 6:
                return int(self._rounds(var, low, extent, body))
            case [n.SeqStmt(inner), *_]:
                return int(self._all(inner))
            case [n.BufferStore(_, value, _, None) as store, *_] if self._own(store) and self._folded(
                store, value, None
            ):
                return 1
            case [n.BufferStore(t, n.Call() as call, _, None) as kept, n.BufferStore(r, value, _, None) as store, *_]:
                if t is not r and self._plain(kept) and self._folded(store, value, (kept, call)):
                    return 2
            case _:
                pass
        return 0

    def _all(self, parts: Sequence[n.Stmt]) -> bool:
        k = 0
        while k < len(parts):
            taken = self.take(parts[k:])
            if not taken:
                return False
            k += taken
        return True

    def _rounds(self, var: n.Var, low: int, extent: int, body: n.Stmt) -> bool:
        values, before = self.reader.scope.values, self.reader.scope.values.get(var)
        try:
            for k in range(low, low + extent):
                values[var] = lambda lane, k=k: number(k, INT32)
                read = None if k == low else dict(self.loads)
                if not self._all(body.seq if isinstance(body, n.SeqStmt) else (body,)):
                    return False
                self.loads = self.loads if read is None else read
            return True
        finally:
            if before is None:
                values.pop(var, None)
            else:
                values[var] = before

    def _plain(self, node: n.BufferStore | n.BufferLoad) -> bool:
        """True if an access is to one element of a thread's own."""
        view = self.reader.scope.views.get(node.buffer)
        own = view is not None and {t.name for t in self.reader.lanes} <= set(view.buffer.root.private)
        return own and node.buffer.dtype.lanes == 1 and all(isinstance(i, n.IntImm) for i in node.indices)

    def _own(self, store: n.BufferStore) -> bool:
        """True if a store is to the element that all steps fold into."""
        if self.own is None:
            return self._plain(store)
        return _same(store, self.own)

    def _folded(self, store: n.BufferStore, value: n.Expr, kept: tuple[n.BufferStore, n.Call] | None) -> bool:
        """Note a step `r = r + shuffle(r)`, or one by way of another buffer; False where it is none."""
        if not isinstance(value, n.Add | n.Mul | n.Min | n.Max) or not self._own(store):
            return False
        for r, other in ((value.a, value.b), (value.b, value.a)):
            call = other
            if kept is not None and isinstance(other, n.BufferLoad) and _same(kept[0], other):
                call = kept[1]
            if isinstance(r, n.BufferLoad) and _same(store, r) and isinstance(call, n.Call) and call.op in _KINDS:
                _, shuffled, by, width, warp = call.args[:5]
                if not (isinstance(shuffled, n.BufferLoad) and _same(shuffled, r) and self._own_load(r)):
                    return False
                numbers = [self._number(a) for a in (by, width, warp)]
                if any(k is None for k in numbers):
                    return False
                offset, group, size = (k for k in numbers if k is not None)
                self.steps.append(_Step(_KINDS[str(call.op)], type(value).__name__, offset, group, size))
                self._read(r.buffer, 2)
                if kept is not None:
                    self._read(kept[0].buffer, 1)
                return True
        return False

    def _own_load(self, r: n.BufferLoad) -> bool:
        if self.own is None:
            self.own = r
        return _same(r, self.own)

    def _read(self, buffer: n.Buffer, times: int) -> None:
        self.loads[buffer] = self.loads.get(buffer, 0) + times

    def _number(self, value: n.Argument) -> int | None:
        known = settled(self.reader.term(value), {}) if isinstance(value, n.Expr) else None
        return int(known.value) if isinstance(known, Number) else None


def _same(a: n.BufferLoad | n.BufferStore, b: n.BufferLoad) -> bool:
    """True if two accesses are to one element, at indices that are numbers."""
    return a.buffer is b.buffer and a.indices == b.indices


def folded(reader: Reader, parts: Sequence[n.Stmt]) -> tuple[list[Node], int]:
    """The nodes of the fold that statements begin with, and how many of them it takes; 0 where it is none."""
    kernel = reader.shuffling
    if kernel is None or reader.holding or reader.scope.exact:
        return [], 0
    row, taken = _Row(reader), 0
    while taken < len(parts) and (count := row.take(parts[taken:])):
        taken += count
    if row.own is None or len({(s.kind, s.fold, s.group, s.warp) for s in row.steps}) != 1:
        return [], 0
    first = row.steps[0]
    size = 1 << len(row.steps)
    if sorted(s.offset for s in row.steps) != [1 << k for k in range(len(row.steps))] or first.warp % first.group:
        return [], 0
    block = block_of(reader, "tvm_warp_shuffle", row.own.span)
    if any(_times(kernel, buffer) != times for buffer, times in row.loads.items() if buffer is not row.own.buffer):
        return [], 0
    if first.kind == "xor":
        every = size if size <= first.group and block.count % size == 0 else None
    elif taken < len(parts) and _handed_on(reader, parts[taken], row.own):
        every, taken = first.group, taken + 1
    else:
        every = _asked_for(reader, block, parts[taken:], row, kernel)
    if every is None or not all(
        s % first.group + size <= first.group and s + size <= block.count for s in range(0, block.count, every)
    ):
        return [], 0
    return _fold(reader, block, row.own, first.fold, every, size), taken


def _handed_on(reader: Reader, part: n.Stmt, own: n.BufferLoad) -> bool:
    """True if a statement hands the value of the first thread of a group to all of it."""
    match part:
        case n.BufferStore(_, n.Call(op="tvm_warp_shuffle", args=(_, n.BufferLoad() as r, n.IntImm(0), *_))) as store:
            return _same(store, own) and _same(r, own)
        case _:
            return False


def _times(kernel: n.Stmt, buffer: n.Buffer) -> int:
    """The number of reads of a buffer in a kernel's text; many if anything but reads and stores names it."""
    found = 0
    for part in walk(kernel):
        match part:
            case n.BufferLoad(b) if b is buffer:
                found += 1
            case n.DeclBuffer(b, data) if b is not buffer and data is not None and _names(data, buffer):
                return 1 << 30
            case n.Call(args=arguments) if any(_names(a, buffer) for a in arguments):
                return 1 << 30
            case _:
                pass
    return found


def _names(part: n.Node, buffer: n.Buffer) -> bool:
    return part is buffer or part is buffer.data


def _asked_for(reader: Reader, block: Block, rest: Sequence[n.Stmt], row: _Row, kernel: n.Stmt) -> int | None:
    """Every how many threads one reads what was folded, where the next statement that does so says it."""
    assert row.own is not None
    buffer = row.own.buffer
    if any(
        name in reader.ranges and not any(t.name == name and t.block for t in (reader.threads or {}).values())
        for name in reader.loops
    ):
        return None  # another round would begin with what the others hold
    for part in rest:
        times = _times(part, buffer)
        if not times:
            continue
        match part:
            case n.IfThenElse(condition, _, None) if not _times(n.Evaluate(condition), buffer):
                before = _times(kernel, buffer) - row.loads[buffer]
                which = _where(reader, block, condition)
                if times != before or which is None or not len(which):
                    return None
                # in groups, so that all have as many threads; only the first thread has no need of others
                return gcd(row.steps[0].group, *(int(k) for k in which)) if which.any() else block.count
            case _:
                return None
    return None


def _where(reader: Reader, block: Block, condition: n.Expr) -> Numbers | None:
    """The numbers of the threads for which a condition holds; None where more than they decide it."""
    threads = {t.name: t.extent for t in reader.lanes}
    grids: dict[str, Numbers] = dict(zip(threads, np.indices(tuple(threads.values())), strict=True))
    holds, number_of = values(reader.term(condition), grids), values(block.thread, grids)
    if holds is None or number_of is None:
        return None
    return np.broadcast_to(number_of, tuple(threads.values()))[np.broadcast_to(holds, tuple(threads.values()))]


def _fold(reader: Reader, block: Block, own: n.BufferLoad, kind: str, every: int, size: int) -> list[Node]:
    """The fold of `size` threads from every so many on, which all threads up to the next then hold."""
    buffer, indices = place(reader.scope, own.buffer, own.indices, _ZERO, 1, own.span)
    value = Load(buffer, indices, own.span)
    element, groups = value.element, -(-block.count // every)
    if element.is_float and kind in ("Add", "Mul"):
        line = f"line {own.span.line}: " if own.span is not NOWHERE else ""
        reader.scope.notes[f"{line}a tree of shuffles is one fold, which takes its terms in another order."] = None
    total = reader.buffer("total", element, (groups,) if groups > 1 else (), own.span)
    total.private = tuple(t.name for t in (reader.threads or {}).values() if t.block and t.extent != 1)
    op, group = ARITHMETIC[kind].integer, reader.loop_name("group")
    first: Node = Store(total, (Index(group, INT32),) if groups > 1 else (), _start(reader, op, value), (), own.span)
    if groups > 1:
        first = Loop(group, _ZERO, Number(groups, INT32), (first,), True, own.span, "warp")
    which, lane = (
        settled(Op(name, (block.thread, Number(every, INT32)), INT32), reader.ranges) for name in ("floordiv", "mod")
    )
    here = (which,) if groups > 1 else ()
    old = Load(total, here, own.span)
    within = () if size == every or size == block.count else (Op("less", (lane, Number(size, INT32)), BOOL),)
    new = reader.placed(Store(total, here, Op(op, (old, value), element), within, own.span), in_order=True)
    return [
        first,
        in_turn(new, {t.name for t in reader.lanes}),
        reader.placed(Store(buffer, indices, old, (), own.span)),
    ]


def _start(reader: Reader, op: str, value: Load) -> Term:
    """The initial value of a fold: the source's, or the identity."""
    reducer = reader.reducer
    if reducer is not None and len(reducer.identity_element) == 1:
        said = reader.term(reducer.identity_element[0])
        if said.element == value.element:
            return said
    return number(neutral(op, value.element), value.element)
