"""The programs of all cores, run: what they compute, what they do in which order, and what stops them.

Each kernel is a process. A step is one synchronisation, with the work before it; `order` says whose step is next. With
one producer and one consumer for each circular buffer the network is Kahn's: neither results nor deadlocks depend on
the order. Cores share the memory of the arrays only.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Literal

import numpy as np

from tensorir.runtime.errors import NOWHERE, did_you_mean, refuse
from tensorir.runtime.randomness import generator
from tensorir.tenstorrent.grid import number
from tensorir.tenstorrent.kernels.nodes import (
    MOVES,
    ROLES,
    Barrier,
    Bind,
    Branch,
    CircularBuffer,
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
from tensorir.tenstorrent.kernels.protocol import (
    Fault,
    capacities,
    fault_at,
    ownership,
    protocol,
    tiles,
    unread,
    unwritten,
    without_barrier,
    without_write,
)
from tensorir.tenstorrent.kernels.queues import Queue, Sender, array_of, pages_to_block, senders, work
from tensorir.tenstorrent.schedule import partition, schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.interpret.accesses import create
from tensorir.tir.interpret.arguments import give, take
from tensorir.tir.interpret.calls import bind
from tensorir.tir.interpret.machine import Machine, compiled, deep, execute
from tensorir.tir.interpret.memory import Pointer
from tensorir.tir.trees import walk

Order = Literal["reader first", "writer first", "round robin", "random"]
ORDERS: tuple[Order, ...] = ("reader first", "writer first", "round robin", "random")


def order_of(name: str) -> Order:
    """The order of a name; raises TN12 for one that there is not."""
    by_name: dict[str, Order] = {o: o for o in ORDERS}
    if isinstance(name, str) and name in by_name:  # pyright: ignore[reportUnnecessaryIsInstance]
        return by_name[name]
    message = f"there is no order {name!r}; there are {', '.join(ORDERS)}."
    raise refuse("TN12", message, did_you_mean(name, ORDERS))


@dataclass(frozen=True, slots=True)
class Event:
    """One step: on a core a kernel did something with a buffer, which holds `fill` tiles since."""

    core: int
    role: str
    action: str
    buffer: str
    count: int
    fill: int


_WIDE, _HIGH, _LEFT, _TOP = 640, 48, 110, 24
"""Extents of the picture of fills."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """The trace of a run, and the arrays after it, or the fault that stopped it."""

    program: Program
    trace: tuple[Event, ...]
    fault: Fault | None
    found: tuple[Any, ...]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """One array for each parameter of the grid kernel; raises TN11 where a fault stopped the run."""
        if self.fault is not None:
            raise refuse("TN11", f"the simulation stopped: {self.fault}")
        return self.found

    def __bool__(self) -> bool:
        return self.fault is None

    def fills(self, core: int) -> dict[str, list[tuple[int, int]]]:
        """For each circular buffer of a core its fill over time: the step of the run, and the tiles since."""
        found: dict[str, list[tuple[int, int]]] = {q.name: [(0, 0)] for q in self.program.buffers}
        for step, event in enumerate(self.trace, 1):
            if event.core == core and event.action in ("push", "pop"):
                found[event.buffer].append((step, event.fill))
        return found

    def picture(self, core: int = 0) -> str:
        """The fill of every circular buffer of a core over its own steps, as SVG."""
        own = [event for event in self.trace if event.core == core]
        queues = self.program.buffers
        high = _TOP + len(queues) * (_HIGH + 16) + 24
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDE + 20} {high}" '
            f'width="{_LEFT + _WIDE + 20}" height="{high}" font-family="sans-serif" font-size="12">',
            f'<text x="{_LEFT}" y="15">tiles in each circular buffer of core {core}</text>',
        ]
        step = _WIDE / max(len(own), 1)
        for row, queue in enumerate(queues):
            top = _TOP + row * (_HIGH + 16)
            base = top + _HIGH
            x, fill = float(_LEFT), 0
            path = [f"M{x:.1f} {base}"]
            for place, event in enumerate(own, 1):
                if event.buffer != queue.name or event.fill == fill:
                    continue
                x, fill = _LEFT + place * step, event.fill
                path += [f"H{x:.1f}", f"V{base - fill / queue.capacity * _HIGH:.1f}"]
            path += [f"H{_LEFT + _WIDE}", f"V{base}", "Z"]
            parts += [
                f'<text x="{_LEFT - 8}" y="{base - _HIGH / 2 + 4}" text-anchor="end">{escape(queue.name)}</text>',
                f'<text x="{_LEFT + _WIDE + 4}" y="{top + 10}">{queue.capacity}</text>',
                f'<line x1="{_LEFT}" y1="{top}" x2="{_LEFT + _WIDE}" y2="{top}" stroke="#bbb" stroke-dasharray="3 3"/>',
                f'<path d="{" ".join(path)}" fill="#8fb8de" stroke="#1f5c99"/>',
            ]
        parts.append(f'<text x="{_LEFT + _WIDE}" y="{high - 8}" text-anchor="end">{len(own)} steps</text></svg>')
        return "\n".join(parts)

    def _repr_svg_(self) -> str:
        cores = [event.core for event in self.trace]
        return self.picture(cores[0] if cores else 0)

    def __str__(self) -> str:
        if self.fault is not None:
            return str(self.fault)
        cores = len({event.core for event in self.trace})
        return f"{len(self.trace)} steps on {cores} cores with tiles, without a fault"


def simulate(
    program: Program,
    arrays: Sequence[Any],
    cores: int | None = None,
    order: str = "random",
    seed: int = 0,
    *,
    mcast: bool = False,
) -> Simulation:
    """The program on arrays, one for each parameter of the grid kernel, on a number of cores.

    Without `cores` the ranges are those of the program's attributes. `order` is "reader first", "writer first",
    "round robin" or "random" (by `seed`). With `mcast` a block that the cores of a row or of a column of a
    Wormhole's grid always need together is loaded by the first of them, once all others have asked for it, and
    sent. Arguments are never changed. A fault of the protocol is a result, with the kernel, the line, the buffer
    and the counts. Raises TN04 for less than one core, TN10 for a capacity that no block fits, TN12 for an order
    that there is not, and what the interpreter raises.

    >>> import numpy as np
    >>> from tensorir.tir import parse
    >>> from tensorir.tenstorrent.split import split
    >>> program = split(parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((4, 32, 32)), B: T.Buffer((4, 32, 32))):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         with T.sblock("tilelang_root"):
    ...             a = T.sblock_alloc_buffer((32, 32), scope="shared.dyn")
    ...             T.copy(T.region(A[bx, 0, 0], 1, 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
    ...             T.copy(T.region(a[0, 0], 1, 32, 32), T.region(B[bx, 0, 0], 2, 1, 32, 32))
    ... ''')["main"])
    >>> a = np.arange(4096, dtype=np.float32).reshape(4, 32, 32)
    >>> run = simulate(program, [a, np.zeros_like(a)], cores=2)
    >>> bool((run.arrays[1] == a).all()), len(run.trace)
    (True, 32)
    >>> print(simulate(program.edited("compute.cpp", 14, 2), [a, np.zeros_like(a)], cores=2))
    compute.cpp:14: push without reserve of CB_B on core 0: it pushes 2 tiles, and has reserved 1.
        cb_push_back(CB_B, 2);
    """
    known = order_of(order)
    capacities(program)
    func = program.func
    plan = schedule_of(func)
    share = plan.shares if cores is None else partition(plan.tiles, cores)
    base = Machine()
    given = take(func, [*arrays, 0, 0, *plan.grid[:2]])
    bind(base, func, given, func.span)
    run = _Run(program, base, lines=senders(program, cores) if mcast else {})
    fault = next(iter((*ownership(program), *unwritten(program), *unread(program))), None)
    if fault is None:
        with np.errstate(all="ignore"):
            fault = deep(lambda: run.all(enumerate(share), known, generator(seed)))
    values = [give(v.view) if isinstance(v, Pointer) else v for v in given[: len(given) - 4]]
    return Simulation(program, tuple(run.trace), fault, tuple(values))


def stuck(program: Program, shares: Iterable[tuple[int, tuple[int, int]]]) -> Fault | None:
    """The first fault of cores, each with its share, found from counts alone: no tile is read, computed or written."""
    func = program.func
    base = Machine()
    scalars = [p for p in func.params if p not in func.buffer_map]
    for param, value in zip(scalars[-2:], schedule_of(func).grid, strict=False):
        base.env[param] = np.int32(value)
    for param in scalars[:-4]:
        base.env[param] = param.dtype.numpy.type(1)
    return deep(lambda: _Run(program, base, moves=False).all(shares, "round robin", np.random.default_rng(0)))


class _Stop(Exception):
    """A fault stops the run."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


_Step = Callable[[Machine, "_Core"], Generator[bool, None, None]]
_MOVED, _BLOCKED = True, False


@dataclass(eq=False, slots=True)
class _Core:
    """A core: its number, its circular buffers, and where each of its kernels stands.

    `moving` are the statements of each kernel that are not done before a barrier, by circular buffer.
    """

    number: int
    queues: dict[str, Queue]
    machines: dict[Role, Machine]
    at: dict[Role, Sync] = field(default_factory=dict[Role, Sync])
    moving: dict[Role, dict[str, Work]] = field(default_factory=lambda: {role: {} for role in ROLES})
    blocked: set[Role] = field(default_factory=set[Role])
    in_line: set[Role] = field(default_factory=set[Role])
    alive: dict[Role, Generator[bool, None, None]] = field(default_factory=dict[Role, Any])


@dataclass(eq=False, slots=True)
class _Run:
    """All cores; `moves` says whether tiles are moved and computed, or only counted."""

    program: Program
    base: Machine
    moves: bool = True
    lines: dict[tuple[int, int], Sender] = field(default_factory=dict[tuple[int, int], Sender])
    trace: list[Event] = field(default_factory=list[Event])
    code: dict[int, Any] = field(default_factory=dict[int, Any])

    def all(self, share: Iterable[tuple[int, tuple[int, int]]], order: Order, rng: np.random.Generator) -> Fault | None:
        cores = [self._core(k, first, count) for k, (first, count) in share]
        try:
            if self.lines:
                self._together(cores, order, rng)
            elif order == "random":
                self._at_random(cores, rng)
            else:
                for core in cores:
                    self._one(core, order)
        except _Stop as stop:
            return stop.fault
        return None

    def _core(self, place: int, first: int, count: int) -> _Core:
        high, wide = (number(self.program.func, f"tt_tile_{s}", "defaults") for s in ("height", "width"))
        queues = {q.name: Queue(q, (high, wide), self.moves) for q in self.program.buffers}
        core = _Core(place, queues, {})
        scalars = [p for p in self.program.func.params if p not in self.program.func.buffer_map]
        start, number_of = scalars[-4:-2]
        for kernel in self.program.kernels:
            machine = Machine(module=self.base.module)
            machine.env = {**self.base.env, start: np.int32(first), number_of: np.int32(count)}
            machine.views = dict(self.base.views)
            if self.moves:
                for buffer in (*kernel.tiles, *_blocks(self.program, kernel)):
                    if buffer.data in machine.env:  # a view of another tile
                        execute(n.DeclBuffer(buffer, buffer.data))(machine)
                    else:
                        create(machine, buffer, tuple(int(compiled(e)(machine)) for e in buffer.shape), NOWHERE)
            core.machines[kernel.role] = machine
            core.alive[kernel.role] = self._body(kernel.body, kernel.role, core, machine)
        return core

    # Whose step is next

    def _one(self, core: _Core, order: Order) -> None:
        roles = ROLES if order != "writer first" else ROLES[::-1]
        turn = 0
        while core.alive:
            ready: list[Role] = [r for r in roles if r in core.alive and r not in core.blocked]
            if not ready:
                raise _Stop(self._deadlock(core))
            role = ready[turn % len(ready)] if order == "round robin" else ready[0]
            turn += 1
            self._step(core, role)
        self._left(core)

    def _at_random(self, cores: list[_Core], rng: np.random.Generator) -> None:
        going = list(cores)
        draws: list[float] = []
        while going:
            if not draws:
                draws = rng.random(1024).tolist()
            drawn = draws.pop() * len(going)
            place = int(drawn)
            core = going[place]
            ready: list[Role] = [r for r in ROLES if r in core.alive and r not in core.blocked]
            if not ready:
                raise _Stop(self._deadlock(core))
            self._step(core, ready[int((drawn - place) * len(ready))])
            if not core.alive:
                self._left(core)
                going[place] = going[-1]
                going.pop()

    def _together(self, cores: list[_Core], order: Order, rng: np.random.Generator) -> None:
        """Cores that wait for each other: any step of one may let another go on."""
        roles = ROLES if order != "writer first" else ROLES[::-1]
        turn = 0
        while any(core.alive for core in cores):
            ready: list[tuple[_Core, Role]] = [
                (c, r) for r in roles for c in cores if r in c.alive and r not in c.blocked
            ]
            if not ready:
                alive = [core for core in cores if core.alive]
                raise _Stop(self._deadlock(next((core for core in alive if not core.in_line), alive[0])))
            turn += 1
            place = int(rng.integers(len(ready))) if order == "random" else turn % len(ready)
            steps = len(self.trace)
            self._step(*ready[place if order in ("random", "round robin") else 0])
            if len(self.trace) > steps:
                for core in cores:
                    core.blocked.clear()
        for core in cores:
            self._left(core)

    def _step(self, core: _Core, role: Role) -> None:
        match next(core.alive[role], None):
            case None:
                del core.alive[role]
                for name, op in core.moving[role].items():
                    raise _Stop(without_barrier(self.program, role, op, name, core.number))
            case True:
                core.blocked.clear()
            case _:
                core.blocked.add(role)

    # What kernels do

    def _body(self, body: tuple[Op, ...], role: Role, core: _Core, m: Machine) -> Generator[bool, None, None]:
        for op in body:
            match op:
                case Sync(action, name, count):
                    queue = core.queues[name]
                    if action == "reserve" or action == "wait":
                        while (queue.room if action == "reserve" else queue.fill) < count:
                            core.at[role] = op
                            yield _BLOCKED
                    elif count > (queue.reserved if action == "push" else queue.waited):
                        raise _Stop(self._unasked(op, queue, core))
                    elif action == "push" and count > queue.written:
                        raise _Stop(without_write(self.program, op, queue.written, core.number))
                    elif name in core.moving[role]:
                        raise _Stop(without_barrier(self.program, role, op, name, core.number))
                    queue.do(action, count)
                    self.trace.append(Event(core.number, role, action, name, count, queue.fill))
                    yield _MOVED
                case Barrier(way):
                    if way == MOVES.get(role):
                        core.moving[role].clear()
                case Work() if (line := self.lines.get((id(op), core.number))) is not None:
                    yield from self._in_line(op, role, core, m, line)
                case Work():
                    self._work(op, core, m)
                    core.moving[role].update(dict.fromkeys(moved_by(role, op), op))
                case Bind(var, value):
                    m.env[var] = compiled(value)(m)
                case Loop(var, start, extent, inner):
                    low, size = int(compiled(start)(m)), int(compiled(extent)(m))
                    kind = var.dtype.numpy.type
                    for k in range(low, low + size):
                        m.env[var] = kind(k)
                        yield from self._body(inner, role, core, m)
                case Branch(condition, then, otherwise):
                    yield from self._body(then if compiled(condition)(m) else otherwise, role, core, m)

    def _in_line(self, op: Work, role: Role, core: _Core, m: Machine, line: Sender) -> Generator[bool, None, None]:
        """A load that is multicast: the first core waits until all others have asked, they until it has sent."""
        assert op.fills is not None
        queue = core.queues[op.fills]

        def told(action: str) -> None:
            self.trace.append(Event(core.number, role, action, queue.made.name, queue.made.pages, queue.fill))

        core.in_line.add(role)
        if line.first == core.number:
            while line.asked < line.others:
                yield _BLOCKED
            self._work(op, core, m)
            line.block = np.array(array_of(m.view(queue.made.block)))
            line.asked, line.turn = 0, line.turn + 1
            told("send")
        else:
            turn = line.turn
            line.asked += 1
            told("ask")
            yield _MOVED
            while line.turn == turn:
                yield _BLOCKED
            self._work(op, core, m, line.block)
            told("receive")
        core.in_line.discard(role)
        yield _MOVED

    def _work(self, op: Work, core: _Core, m: Machine, sent: Any = None) -> None:
        """The work of a statement; or, in its place, the block that another core has sent."""
        for name in op.fronts:
            queue = core.queues[name]
            if queue.waited < queue.made.pages:
                counts = {"needed": queue.made.pages, "waited for": queue.waited}
                message = f"it reads {tiles(queue.made.pages)}, and has waited for {queue.waited}."
                raise _Stop(fault_at(self.program, op, "read without wait", name, counts, message, core.number))
            if self.moves:
                pages_to_block(queue.front(), array_of(m.view(queue.made.block)))
        if op.fills is not None:
            queue = core.queues[op.fills]
            if queue.reserved < queue.made.pages:
                counts = {"needed": queue.made.pages, "reserved": queue.reserved}
                message = f"it writes {tiles(queue.made.pages)}, and has reserved {queue.reserved}."
                raise _Stop(fault_at(self.program, op, "write without reserve", op.fills, counts, message, core.number))
            queue.written = queue.made.pages
        if not self.moves:
            return
        act = self.code.get(id(op))
        if act is None:
            act = self.code[id(op)] = work(op.statement)
        if sent is None:
            act(m)
        if op.fills is not None:
            queue = core.queues[op.fills]
            if sent is not None:
                array_of(m.view(queue.made.block))[...] = sent
            queue.put(array_of(m.view(queue.made.block)))

    # What is wrong

    def _unasked(self, op: Sync, queue: Queue, core: _Core) -> Fault:
        asked = queue.reserved if op.action == "push" else queue.waited
        kind, done, by = (
            ("push without reserve", "pushes", "reserved")
            if op.action == "push"
            else ("pop without wait", "pops", "waited for")
        )
        message = f"it {done} {tiles(op.count)}, and has {by} {asked}."
        return fault_at(self.program, op, kind, op.buffer, {done: op.count, by: asked}, message, core.number)

    def _deadlock(self, core: _Core) -> Fault:
        waiting: list[Role] = [role for role in ROLES if role in core.alive]
        told = tuple(self._waits(core, role) for role in waiting)
        role = self._culprit(core, waiting)
        op = core.at[role]
        queue = core.queues[op.buffer]
        counts = {"needed": op.count, "fill": queue.fill, "capacity": queue.made.capacity}
        message = (
            f"{len(told)} kernels wait, and none goes on." if len(told) > 1 else "it waits, and the others are done."
        )
        return fault_at(self.program, op, "deadlock", op.buffer, counts, message, core.number, told)

    def _waits(self, core: _Core, role: Role) -> str:
        op = core.at[role]
        queue = core.queues[op.buffer]
        full = op.action == "reserve"
        there = f"room for {queue.room} of {queue.made.capacity}" if full else f"{queue.fill} there"
        kept = queue.waited if full else queue.reserved
        verb = "waited for and not popped" if full else "reserved and not pushed"
        return f"{role} waits for {tiles(op.count)} of {op.buffer}: {there}" + (f", {kept} {verb}" if kept else "")

    def _culprit(self, core: _Core, waiting: list[Role]) -> Role:
        """The kernel that waits for one that is done; else, for tiles that the other side began and did not finish."""

        def partner(role: Role) -> Role | None:
            op = core.at[role]
            wanted = ("wait", "pop") if op.action == "reserve" else ("reserve", "push")
            for kernel in self.program.kernels:
                if any(s.buffer == op.buffer and s.action in wanted for s in _syncs(kernel.body)):
                    return kernel.role
            return None

        def begun(role: Role) -> bool:
            op = core.at[role]
            queue = core.queues[op.buffer]
            return (queue.waited if op.action == "reserve" else queue.reserved) > 0

        alone: list[Role] = [role for role in waiting if partner(role) not in core.alive]
        started: list[Role] = [role for role in waiting if begun(role)]
        starved: list[Role] = [role for role in started if core.at[role].action == "wait"]
        return (alone or starved or started or waiting)[0]

    def _left(self, core: _Core) -> None:
        for name, queue in core.queues.items():
            if queue.fill:
                last = next(
                    (op for kernel in self.program.kernels for op in _syncs(kernel.body) if op.buffer == name and
                     op.action == "push"), None
                )  # fmt: skip
                assert last is not None
                message = f"{tiles(queue.fill)} at the end, which nobody pops."
                raise _Stop(fault_at(self.program, last, "left over", name, {"left": queue.fill}, message, core.number))


def _syncs(body: tuple[Op, ...]) -> list[Sync]:
    from tensorir.tenstorrent.kernels.nodes import ops_of

    return [op for op in ops_of(body) if isinstance(op, Sync)]


def _blocks(program: Program, kernel: Kernel) -> list[n.Buffer]:
    """The blocks of the circular buffers that a kernel works on."""
    from tensorir.tenstorrent.kernels.nodes import ops_of

    names: dict[str, None] = {}
    for op in ops_of(kernel.body):
        if isinstance(op, Work):
            names.update(dict.fromkeys((*op.fronts, *(() if op.fills is None else (op.fills,)))))
    queues: dict[str, CircularBuffer] = {q.name: q for q in program.buffers}
    return [queues[name].block for name in names]


# Faults that the text of a program shows, before it runs: those of the protocol of circular buffers, and reads by a
# kernel of a tile of its own before it writes there.
#
# Where counts are known, which they are for a range of tiles, a run with counts alone decides about deadlocks: of every
# core that does something else than the cores before it, and of shares that cores have in other schedules.


def check(program: Program) -> tuple[Fault, ...]:
    """The faults of a program's protocol; none, where every core comes to its end, whatever tiles it has.

    Raises TN14 and TN15 where the attributes of the program's kernel are no schedule of its grid.

    >>> from tensorir.tir import parse
    >>> from tensorir.tenstorrent.split import split
    >>> program = split(parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((4, 32, 32)), B: T.Buffer((4, 32, 32))):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         with T.sblock("tilelang_root"):
    ...             a = T.sblock_alloc_buffer((32, 32), scope="shared.dyn")
    ...             T.copy(T.region(A[bx, 0, 0], 1, 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
    ...             T.copy(T.region(a[0, 0], 1, 32, 32), T.region(B[bx, 0, 0], 2, 1, 32, 32))
    ... ''')["main"])
    >>> check(program)
    ()
    >>> print(*check(program.edited("compute.cpp", 12)), sep="\\n")
    compute.cpp:12: write without reserve of CB_B: it writes 1 tile, and has reserved 0.
        pack_tile(CB_A, CB_B);
    compute.cpp:13: push without reserve of CB_B: it pushes 1 tile, and has reserved 0.
        cb_push_back(CB_B, 1);
    """
    if found := [*protocol(program), *unwritten(program), *unread(program)]:
        return tuple(dict.fromkeys(found))
    plan = schedule_of(program.func)
    each = _follows_the_number(program)
    cores: dict[tuple[int, int], tuple[int, tuple[int, int]]] = {}
    for core, (first, count) in enumerate(plan.shares):
        cores.setdefault((first if each else 0, count), (core, (first, count)))
    if (fault := stuck(program, cores.values())) is not None:
        return (fault,)
    # no tile, each tile alone and one tile more: what every other schedule is made of
    more = min(max(count for _, count in plan.shares) + 1, plan.tiles)
    for share in [(0, 0), *((tile, 1) for tile in range(plan.tiles if each else 1)), (0, more)]:
        if share not in cores and (fault := stuck(program, [(0, share)])) is not None:
            message = f"{fault.message[:-1]}, on a core with {tiles(share[1])} from tile {share[0]}."
            return (replace(fault, core=None, message=message),)
    return ()


def _follows_the_number(program: Program) -> bool:
    """True if the number of a tile, and not only how many there are, decides what a kernel does."""
    start = [p for p in program.func.params if p not in program.func.buffer_map][-4]
    known: set[n.Var] = {start}

    def follows(*parts: n.Expr) -> bool:
        return any(isinstance(v, n.Var) and v in known for part in parts for v in walk(part))

    for kernel in program.kernels:
        for op in ops_of(kernel.body):
            match op:
                case Bind(var, value) if follows(value):
                    known.add(var)
                case Loop(_, low, extent) if follows(low, extent):
                    return True
                case Branch(condition) if follows(condition):
                    return True
                case _:
                    pass
    return False
