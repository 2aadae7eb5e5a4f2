"""The protocol of circular buffers: who owns a slot, what can be wrong, which tiles are unwritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tensorir.runtime.errors import refuse
from tensorir.tenstorrent.kernels.nodes import (
    MOVES,
    Barrier,
    Bind,
    Branch,
    Kernel,
    Loop,
    Op,
    Program,
    Role,
    Sync,
    Work,
    moved_by,
    ops_of,
)
from tensorir.tenstorrent.kernels.printing import printed
from tensorir.tir import nodes as n
from tensorir.tir.tiles.operations import (
    Atomic,
    Box,
    Copy,
    Fill,
    Gemm,
    Im2col,
    Nothing,
    Reduce,
    Scan,
    Transpose,
    is_tile,
    operation,
)
from tensorir.tir.trees import children

# What can be wrong with the protocol of circular buffers, and how it is told.


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a kernel: its kind, the file and the line, the circular buffer, the counts that do not fit.

    `kind` is "deadlock", "push without reserve", "push without write", "pop without wait", "pop without read",
    "overflow", "read without wait", "write without reserve", "push without barrier", "pop without barrier",
    "end without barrier", "two producers", "two consumers", "left over", "unbalanced" or "read without write" (then
    `buffer` is a tile).

    >>> print(Fault("overflow", "reader.cpp", 7, "cb_push_back(CB_A, 3);", "CB_A", {"room": 2}, "it holds 2 tiles."))
    reader.cpp:7: overflow of CB_A: it holds 2 tiles.
        cb_push_back(CB_A, 3);
    """

    kind: str
    file: str
    line: int
    text: str
    buffer: str
    counts: Mapping[str, int] = field(hash=False)
    message: str
    core: int | None = None
    waiting: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        of = f" of {self.buffer}" if self.buffer else ""
        on = "" if self.core is None else f" on core {self.core}"
        lines = [f"{self.file}:{self.line}: {self.kind}{of}{on}: {self.message}", f"    {self.text}"]
        return "\n".join([*lines, *(f"  {who}" for who in self.waiting)])


def tiles(count: int) -> str:
    """A number of tiles in words."""
    return "1 tile" if count == 1 else f"{count} tiles"


def fault_at(
    program: Program, op: Op, kind: str, buffer: str, counts: Mapping[str, int], message: str,
    core: int | None = None, waiting: tuple[str, ...] = (),
) -> Fault:  # fmt: skip
    """A fault at a statement."""
    for kernel in program.kernels:
        whole = printed(program, kernel)
        if (line := whole.lines.get(id(op))) is not None:
            text = whole.text.splitlines()[line - 1].strip()
            return Fault(kind, kernel.file, line, text, buffer, counts, message, core, waiting)
    raise AssertionError(op)


def without_write(program: Program, op: Sync, written: int, core: int | None = None) -> Fault:
    """A push of tiles into which nothing was put since they were reserved."""
    counts = {"pushed": op.count, "written": written}
    message = f"it pushes {tiles(op.count)}, and has written {written}: the rest is what was there before."
    return fault_at(program, op, "push without write", op.buffer, counts, message, core)


def without_barrier(program: Program, role: Role, op: Sync | Work, buffer: str, core: int | None = None) -> Fault:
    """A push or a pop of tiles that may still be on their way; or the work that is so where its kernel ends."""
    way = MOVES[role]
    match op:
        case Sync(action, _, count):
            done = "pushes" if action == "push" else "pops"
            message = (
                f"it {done} {tiles(count)} whose {way} may not be done: no noc_async_{way}_barrier() stands between."
            )
            return fault_at(program, op, f"{action} without barrier", buffer, {}, message, core)
        case Work():
            message = f"the kernel ends, and this {way} may not be done: no noc_async_{way}_barrier() stands behind it."
            return fault_at(program, op, "end without barrier", buffer, {}, message, core)


# The protocol of circular buffers, statement by statement: who owns a side, what is reserved, and what is moved.
#
# Each circular buffer has one producer and one consumer; no kernel pushes more than it reserved or pops more than it
# waited for, or tiles that are still on their way; nobody asks for more than the buffer holds; and both sides move as
# many tiles, loop by loop.


def protocol(program: Program) -> list[Fault]:
    """Faults of the protocol."""
    found = [*ownership(program), *_room(program)]
    for kernel in program.kernels:
        found += _Walk(program, kernel).faults_of()
    return [*found, *_balance(program)]


def _syncs(kernel: Kernel) -> Iterator[Sync]:
    return (op for op in ops_of(kernel.body) if isinstance(op, Sync))


def ownership(program: Program) -> list[Fault]:
    """The circular buffers that two kernels push to, or pop from."""
    found: list[Fault] = []
    for side, actions in (("producers", ("reserve", "push")), ("consumers", ("wait", "pop"))):
        for queue in program.buffers:
            owner: Kernel | None = None
            for kernel in program.kernels:
                first = next((op for op in _syncs(kernel) if op.buffer == queue.name and op.action in actions), None)
                if first is None:
                    continue
                if owner is not None:
                    message = f"{owner.role} is its {side[:-1]} already, and there is one."
                    found.append(fault_at(program, first, f"two {side}", queue.name, {side: 2}, message))
                owner = owner or kernel
    return found


def _room(program: Program) -> list[Fault]:
    """Requests for more tiles at once than a circular buffer holds."""
    found: list[Fault] = []
    for kernel in program.kernels:
        for op in _syncs(kernel):
            capacity = program.buffer(op.buffer).capacity
            if op.action in ("reserve", "wait") and op.count > capacity:
                message = f"{tiles(op.count)} at once, and it holds {capacity}."
                counts = {"asked": op.count, "capacity": capacity}
                found.append(fault_at(program, op, "overflow", op.buffer, counts, message))
    return found


def capacities(program: Program) -> None:
    """Raise TN10 for a program that asks for more tiles at once than a circular buffer holds."""
    for fault in _room(program):
        message = (
            f"{fault.buffer} holds {tiles(fault.counts['capacity'])}, and {fault.file}:{fault.line} asks for more."
        )
        help = f"give it room for {tiles(fault.counts['asked'])} or more: split(f, capacity=…)."
        raise refuse("TN10", message, help, notes=(fault.text,))


@dataclass(slots=True)
class _Walk:
    """One kernel alone: what is reserved, waited for and on its way of each buffer, at least, at each statement."""

    program: Program
    kernel: Kernel
    faults: dict[int, Fault] = field(default_factory=dict[int, Fault])

    def faults_of(self) -> list[Fault]:
        held = self._body(self.kernel.body, {})
        for name in [name for (name, what), count in held.items() if what == "on its way" and count]:
            works = [op for op in ops_of(self.kernel.body) if isinstance(op, Work)]
            last = next(op for op in reversed(works) if name in moved_by(self.kernel.role, op))
            self.faults.setdefault(id(last), without_barrier(self.program, self.kernel.role, last, name))
        return list(self.faults.values())

    def _body(self, body: tuple[Op, ...], held: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        for op in body:
            match op:
                case Sync(action, buffer, count):
                    held = dict(held)
                    side = buffer, "reserved" if action in ("reserve", "push") else "waited for"
                    have = held.get(side, 0)
                    if action in ("reserve", "wait"):
                        held[side] = max(have, count)
                        continue
                    kind, done = (
                        ("push without reserve", "pushes") if action == "push" else ("pop without wait", "pops")
                    )
                    written = held.get((buffer, "written"), 0)
                    if count > have:
                        self._fault(op, kind, buffer, done, count, side[1], have)
                    elif action == "push" and count > written:
                        self.faults.setdefault(id(op), without_write(self.program, op, written))
                    elif held.pop((buffer, "on its way"), 0):
                        self.faults.setdefault(id(op), without_barrier(self.program, self.kernel.role, op, buffer))
                    held[side] = max(have - count, 0)
                    if action == "push":
                        held[buffer, "written"] = max(written - count, 0)
                case Barrier(way):
                    if way == MOVES.get(self.kernel.role):
                        held = {key: count for key, count in held.items() if key[1] != "on its way"}
                case Work(_, fronts, fills):
                    for name in fronts:
                        self._needs(op, "read without wait", name, "reads", "waited for", held)
                    if fills is not None:
                        self._needs(op, "write without reserve", fills, "writes", "reserved", held)
                        held = held | {(fills, "written"): self.program.buffer(fills).pages}
                    held = held | {(name, "on its way"): 1 for name in moved_by(self.kernel.role, op)}
                case Loop(body=inner):
                    # a second pass sees what the first one leaves; what holds in both is at least what both have
                    after = self._body(inner, held)
                    self._body(inner, after)
                    held = _least(held, after)
                case Branch(_, then, otherwise):
                    held = _least(self._body(then, held), self._body(otherwise, held))
                case Bind():
                    pass
        return held

    def _needs(self, op: Work, kind: str, name: str, done: str, by: str, held: dict[tuple[str, str], int]) -> None:
        pages, have = self.program.buffer(name).pages, held.get((name, by), 0)
        if have < pages:
            self._fault(op, kind, name, done, pages, by, have)

    def _fault(self, op: Op, kind: str, buffer: str, done: str, count: int, by: str, have: int) -> None:
        message = f"it {done} {tiles(count)}, and has {by} {have}."
        fault = fault_at(self.program, op, kind, buffer, {done: count, by: have}, message)
        self.faults.setdefault(id(op), fault)


def _least(a: dict[tuple[str, str], int], b: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    return {key: min(a.get(key, 0), b.get(key, 0)) for key in (*a, *b)}


# Tiles that a kernel pops before it reads any of them, on whatever way: their values are lost.
#
# What no statement of the grid kernel uses is loaded and popped all the same, and known for it.


def unread(program: Program) -> list[Fault]:
    """The pops of tiles that nothing has read since those before them were popped."""
    faults: dict[int, Fault] = {}
    for kernel in program.kernels:
        _pops(program, kernel.body, frozenset(), faults)
    return list(faults.values())


def _pops(
    program: Program, body: tuple[Op, ...], read: frozenset[str], faults: dict[int, Fault] | None
) -> frozenset[str]:
    """The buffers of which something may have been read behind a body; those that are known are added to `faults`."""
    for op in body:
        match op:
            case Sync("pop", buffer, count, unused=unused):
                if faults is not None and buffer not in read and not unused:
                    message = f"it pops {tiles(count)}, which nothing has read."
                    fault = fault_at(program, op, "pop without read", buffer, {"popped": count}, message)
                    faults.setdefault(id(op), fault)
                read -= {buffer}
            case Work(_, fronts):
                read |= frozenset(fronts)
            case Loop(body=inner):
                again = read | _pops(program, inner, read, None)
                read |= _pops(program, inner, again, faults)
            case Branch(_, then, otherwise):
                sides = [_pops(program, side, read, faults) for side in (then, otherwise)]
                read = sides[0] | sides[1]
            case Sync() | Barrier() | Bind():
                pass
    return read


# How many tiles are moved: sums, under loops and conditions that both sides share

_Rate: TypeAlias = "tuple[int, tuple[tuple[n.Node, ...], ...], tuple[_Rate, ...]]"
"""A constant, and parts under a loop (its bounds) or under the sides of a branch (its condition)."""


def _balance(program: Program) -> list[Fault]:
    """The buffers of which more tiles are pushed than popped, or fewer, where both sides have the same loops."""
    found: list[Fault] = []
    for queue in program.buffers:
        pushed = [(k, r) for k in program.kernels if (r := _rate(k.body, queue.name, "push")) != (0, (), ())]
        popped = [(k, r) for k in program.kernels if (r := _rate(k.body, queue.name, "pop")) != (0, (), ())]
        if len(pushed) != 1 or len(popped) > 1:
            continue
        kernel, rate = pushed[0]
        other = popped[0][1] if popped else (0, (), ())
        if (counts := _unequal(rate, other)) is not None:
            op = next(o for o in _syncs(kernel) if o.buffer == queue.name and o.action == "push")
            more = "at the same place" if popped else "anywhere"
            message = f"{tiles(counts[0])} pushed, and {counts[1]} popped {more}."
            told = {"pushed": counts[0], "popped": counts[1]}
            found.append(fault_at(program, op, "unbalanced", queue.name, told, message))
    return found


def _rate(body: tuple[Op, ...], buffer: str, action: str) -> _Rate:
    constant = 0
    keys: list[tuple[n.Node, ...]] = []
    parts: list[_Rate] = []
    for op in body:
        match op:
            case Sync() if op.buffer == buffer and op.action == action:
                constant += op.count
            case Loop(_, start, extent, inner):
                if (rate := _rate(inner, buffer, action)) != (0, (), ()):
                    if isinstance(extent, n.IntImm) and not rate[1]:
                        constant += extent.value * rate[0]
                    else:
                        keys.append((start, extent))
                        parts.append(rate)
            case Branch(condition, then, otherwise):
                for side, inner in enumerate((then, otherwise)):
                    if (rate := _rate(inner, buffer, action)) != (0, (), ()):
                        keys.append((condition, n.IntImm(side, n.BOOL)))
                        parts.append(rate)
            case _:
                pass
    return constant, tuple(keys), tuple(parts)


def _unequal(a: _Rate, b: _Rate) -> tuple[int, int] | None:
    """The counts of the first place at which two rates differ; None where they do not, or where that is not known."""
    if len(a[1]) != len(b[1]):
        return None if a[1] and b[1] else (a[0] or _first(a), b[0] or _first(b))
    if a[0] != b[0]:
        return a[0], b[0]
    for x, y, p, q in zip(a[1], b[1], a[2], b[2], strict=True):
        if len(x) != len(y) or any(i != j for i, j in zip(x, y, strict=True)):
            return None
        if (found := _unequal(p, q)) is not None:
            return found
    return None


def _first(rate: _Rate) -> int:
    return rate[0] if not rate[2] else rate[0] or _first(rate[2][0])


# Tiles that a kernel reads before it writes any of them: what is there is left over from the tile before.
#
# A loop is looked at as if it ran, and what stands in one branch only may write, and is not known to read. So a fault
# is one in every run that comes to its place.


def unwritten(program: Program) -> list[Fault]:
    """A fault for each tile of a kernel that is read before anything has been written to it."""
    found: list[Fault] = []
    for kernel in program.kernels:
        for op, buffer in _Reads.of(kernel).first.values():
            message = "nothing has written it before, and the tile before has left there what it had."
            found.append(fault_at(program, op, "read without write", buffer.name, {}, message))
    return found


@dataclass(slots=True)
class _Reads:
    """Writes so far, by memory, and the first read of each memory that none of them may have written."""

    own: set[n.Var]
    written: set[n.Var] = field(default_factory=set[n.Var])
    first: dict[n.Var, tuple[Op, n.Buffer]] = field(default_factory=dict[n.Var, "tuple[Op, n.Buffer]"])

    @staticmethod
    def of(kernel: Kernel) -> _Reads:
        made = _Reads({buffer.data for buffer in kernel.tiles})
        made._body(kernel.body, sure=True)
        return made

    def _body(self, body: tuple[Op, ...], sure: bool) -> None:
        for op in body:
            match op:
                case Work(statement):
                    self._statement(statement, op, sure)
                case Loop(body=inner):
                    self._body(inner, sure)
                case Branch(_, then, otherwise):
                    self._body(then, sure=False)
                    self._body(otherwise, sure=False)
                case _:
                    pass

    def _statement(self, node: n.Stmt, op: Work, sure: bool) -> None:
        match node:
            case n.SeqStmt(parts):
                for part in parts:
                    self._statement(part, op, sure)
            case n.For(_, low, extent, body=body):
                self._expression(op, sure, low, extent)
                self._statement(body, op, sure)
            case n.While(condition, body):
                self._expression(op, sure, condition)
                self._statement(body, op, sure)
            case n.IfThenElse(condition, then, otherwise):
                self._expression(op, sure, condition)
                self._statement(then, op, sure=False)
                if otherwise is not None:
                    self._statement(otherwise, op, sure=False)
            case n.AttrStmt(body=body) | n.BufferRealize(body=body):
                self._statement(body, op, sure)
            case n.BlockRealize(values, predicate, block):
                self._expression(op, sure, *values, predicate)
                self._statement(block.body, op, sure)
            case n.Evaluate(n.Call() as call) if is_tile(call):
                read, wrote = _boxes(call)
                for box in read:
                    self._read(box.buffer, op, sure)
                self.written |= {box.buffer.data for box in wrote}
            case n.BufferStore(buffer):
                self._expression(op, sure, *(part for part in children(node) if isinstance(part, n.Expr)))
                self.written.add(buffer.data)
            case _:
                self._expression(op, sure, *(part for part in children(node) if isinstance(part, n.Expr)))

    def _expression(self, op: Work, sure: bool, *parts: n.Expr) -> None:
        pending: list[tuple[n.Node, bool]] = [(part, sure) for part in parts]
        while pending:
            node, known = pending.pop()
            match node:
                case n.Call(op="if_then_else", args=(first, *_)):
                    pending += [(part, part is first and known) for part in children(node)]
                case n.Select(first) | n.And(first) | n.Or(first):
                    pending += [(part, part is first and known) for part in children(node)]
                case n.Call(op="address_of" | "access_ptr", args=(n.BufferLoad(buffer, indices), *_)):
                    self.written.add(buffer.data)
                    pending += [(index, known) for index in indices]
                case n.BufferLoad(buffer):
                    self._read(buffer, op, known)
                    pending += [(part, known) for part in children(node) if not isinstance(part, n.Buffer)]
                case n.Buffer():
                    self.written.add(node.data)
                case _:
                    pending += [(part, known) for part in children(node)]

    def _read(self, buffer: n.Buffer, op: Work, sure: bool) -> None:
        if sure and buffer.data in self.own and buffer.data not in self.written:
            self.first.setdefault(buffer.data, (op, buffer))


def _boxes(call: n.Call) -> tuple[list[Box], list[Box]]:
    """The boxes that a tile operation is sure to read, and those that it writes."""
    match operation(call):
        case Copy(src, dst) | Transpose(src, dst) | Im2col(src, dst) | Scan(src, dst):
            return [src], [dst]
        case Atomic(src, dst):
            return [src, dst], [dst]
        case Fill(dst):
            return [], [dst]
        case Gemm(a, b, c, _, clear):
            return [a, b, *_kept(c, clear)], [c]
        case Reduce(src, dst, clear=clear):
            return [src, *_kept(dst, clear)], [dst]
        case Nothing():
            return [], []


def _kept(box: Box, clear: n.Expr) -> Iterator[Box]:
    """The boxes whose old values an operation goes on from, where it never clears them before."""
    if isinstance(clear, n.IntImm) and not clear.value:
        yield box
