"""Warp specialisation, and kernels of tiles in normal form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise, product
from typing import cast

from tensorir.tir import nodes as n
from tensorir.tir.build import const, nothing, seq
from tensorir.tir.builtins import HINTS, is_block
from tensorir.tir.dtypes import HANDLE
from tensorir.tir.tiles.operations import OPERATIONS, Undecided, Values, combined, identity, is_tile, number
from tensorir.tir.tiles.threads import Dependence, by_threads, is_local, is_own, parts_of
from tensorir.tir.trees import transform, walk

# Warp specialisation: groups of threads that run statements of their own, in the order that their mbarriers leave.
#
# `T.ws(1)` copies tiles for `T.ws(0)`, which multiplies them; both say through mbarriers when a tile is there, and when
# its memory is free. The phases of the barriers are played, for every block that they depend on, and every round of the
# loops around: the order is one in which the hardware may run the groups. In it their statements follow each other as
# those of a kernel whose threads are all alike. What is not decided by constants is left as it is.
#
# Before:                                            After:
#
#     if tx < 128:                                       for k in range(n):
#         for k in range(n):                                 T.copy(A[k], s)
#             wait(free, (k + 1) % 2)                        T.gemm(s, B, c)
#             T.copy(A[k], s)
#             arrive(full)
#     else:
#         for k in range(n):
#             wait(full, k % 2)
#             T.gemm(s, B, c)
#             arrive(free)

MOST_STEPS = 200_000
"""How many statements are played before a kernel is left as it is."""
MOST_ORDERS = 8
"""How often the order of a loop's statements is found anew, where a later round needs another one."""

_WAITS = ("mbarrier_wait_parity", "barrier_wait")
_ARRIVES = ("ptx_arrive_barrier", "mbarrier_arrive", "barrier_arrive")
_ONCE = ("tcgen05_mma_arrive",)
_OTHERS = (
    "ptx_arrive_barrier_expect_tx", "mbarrier_arrive_expect_tx", "ptx_arrive_cluster_barrier", "cp_async_barrier_noinc",
    "ptx_cp_async_barrier", "named_barrier_arrive",
)  # fmt: skip

_BARRIERS = frozenset((*_WAITS, *_ARRIVES, *_ONCE, *_OTHERS, "tvm_storage_sync"))

Threads = frozenset[int]
Phases = dict[tuple[n.Var, int], tuple[int, int]]
"""How many threads arrived at each barrier, and how many of its phases are complete."""


class _Blocked(Exception):
    """A group waits for a phase that no statement before it completes."""


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A statement that its threads run without other groups in between, and the conditions that choose them."""

    threads: Threads
    statement: n.Stmt
    conditions: tuple[n.Expr, ...]


@dataclass(frozen=True, eq=False)
class _Loop:
    """A loop in which groups differ or wait."""

    threads: Threads
    loop: n.For
    body: tuple[_Leaf | _Loop, ...]


_Item = _Leaf | _Loop


@dataclass(frozen=True)
class _Fused:
    """Loops of as many rounds each, as one, with the order of their statements."""

    loops: tuple[_Loop, ...]
    body: tuple[_Leaf | _Fused, ...]


_Plan = tuple[_Leaf | _Fused, ...]


def in_one_order(body: n.Stmt) -> n.Stmt:
    """The kernel with the statements of groups of threads in one order; itself where there is none, or no groups."""

    def rule(node: n.Node) -> n.Node | None:
        if not isinstance(node, n.Block) or "tl.launch_threads" not in node.annotations:
            return None
        try:
            made = _Kernel.of(body, node).ordered()
        except (Undecided, _Blocked):
            return None
        return None if made is None else replace(node, body=made)

    return transform(body, rule)


@dataclass
class _Kernel:
    """A block of threads, its barriers, and what is known of numbers."""

    block: n.Block
    threads: Threads
    numbers: frozenset[n.Var]
    """The variables that hold the number of a thread."""
    outer: Values
    """The variables with one value, which stand around the block."""
    grid: Mapping[n.Var, int]
    counts: Mapping[n.Var, tuple[int, ...]]
    known: Dependence
    """What differs from thread to thread."""
    steps: int = 0
    speaking: dict[n.Stmt, bool] = field(default_factory=dict[n.Stmt, bool])
    """Whether something waits or arrives at a barrier in a statement."""

    @classmethod
    def of(cls, body: n.Stmt, block: n.Block) -> _Kernel:
        sizes = block.annotations["tl.launch_threads"]
        extents = _constants(sizes)
        if not extents or any(e != 1 for e in extents[1:]):
            raise Undecided
        numbers: set[n.Var] = set()
        outer: dict[n.Var, int] = {}
        grid: dict[n.Var, int] = {}
        for node in walk(body):
            match node:
                case n.LetStmt(var, n.Call(op="launch_thread_idx", args=(n.IntImm(axis), *_))):
                    numbers |= {var} if axis == 0 else set()
                    outer |= {} if axis == 0 else {var: 0}
                case n.For(var, n.IntImm(0), n.IntImm(extent), thread_binding=n.IterVar(thread_tag=tag)) if is_block(
                    tag
                ):
                    grid[var] = extent
                case n.AttrStmt(n.IterVar(var=var, thread_tag=tag), "thread_extent", n.IntImm(extent)) if is_block(tag):
                    grid[var] = extent
                case _:
                    pass
        counts: dict[n.Var, tuple[int, ...]] = {}
        given = block.annotations.get("barrier_init")
        for var, count in given.entries if isinstance(given, n.MemoryMap) else ():
            counts[var] = tuple(_constants(count))
        known = Dependence(frozenset((0,)), frozenset((0,)))
        known.spread(body)
        return cls(block, frozenset(range(extents[0])), frozenset(numbers), outer, grid, counts, known)

    # The items of a kernel

    def ordered(self) -> n.Stmt | None:
        items = self.items(self.block.body, self.threads, ())
        if all(item.threads == self.threads for item in _leaves(items)):
            return None
        if any(
            not (not leaf.threads or max(leaf.threads) - min(leaf.threads) + 1 == len(leaf.threads))
            and any(map(_is_whole, walk(leaf.statement)))
            for leaf in _leaves(items)
        ):
            return None  # a tile is shared out to all threads from the first to the last of a group
        if any(leaf.threads != self.threads and self.mixes(leaf.statement) for leaf in _leaves(items)):
            return None
        if any(
            (isinstance(node, n.Call) and node.op in ("ret", "thread_return")) for node in walk(self.block.body)
        ) or self.shares_fragments(items):
            return None
        plan = self.plan(items)
        return seq(self.statements(plan), self.block.body.span)

    def items(self, node: n.Stmt, threads: Threads, conditions: tuple[n.Expr, ...]) -> tuple[_Item, ...]:
        match node:
            case n.SeqStmt(parts):
                return tuple(item for part in parts for item in self.items(part, threads, conditions))
            case n.AttrStmt() if self.splits(node, threads):  # a fact for other compilers
                return self.items(node.body, threads, conditions)
            case n.IfThenElse(condition, then, otherwise) if self.parts(node):
                chosen = frozenset(t for t in threads if number(condition, self.at(t, self.outer)))
                found = self.items(then, chosen, (*conditions, condition)) if chosen else ()
                if otherwise is not None and threads - chosen:
                    found += self.items(otherwise, threads - chosen, (*conditions, n.Not(condition)))
                return found
            case n.For() if self.splits(node, threads):
                return (_Loop(threads, node, self.items(node.body, threads, conditions)),)
            case _:
                return (_Leaf(threads, node, conditions),)

    def at(self, thread: int, values: Values) -> Values:
        return {**values, **dict.fromkeys(self.numbers, thread)}

    def splits(self, node: n.Stmt, threads: Threads) -> bool:
        """True if groups part or wait in a statement, or its threads differ in what is no tile."""
        parted = self.speaks(node) or any(self.parts(part) for part in walk(node))
        return parted or (threads != self.threads and self.mixes(node))

    def mixes(self, node: n.Stmt) -> bool:
        """True if a statement has tiles of a group, and what each of its threads does for itself."""
        return bool(self.known.axes(node)) and any(map(_is_whole, walk(node)))

    def parts(self, node: n.Node) -> bool:
        """True if a conditional chooses threads by their number, for operations on tiles or on barriers."""
        if not isinstance(node, n.IfThenElse) or not any(v in self.numbers for v in walk(node.condition)):
            return False
        return any(_is_whole(part) for part in walk(node)) or self.speaks(node)

    def shares_fragments(self, items: Sequence[_Item]) -> bool:
        """True if groups apart from each other use registers of one name, which are not the same ones."""
        users: dict[n.Buffer, set[Threads]] = {}
        for leaf in _leaves(items):
            for node in walk(leaf.statement):
                buffer = getattr(node, "buffer", None)
                if isinstance(buffer, n.Buffer) and (is_local(buffer) or buffer.scope == "local.fragment"):
                    users.setdefault(buffer, set()).add(leaf.threads)
        return any(not a & b for groups in users.values() for a in groups for b in groups)

    # Plans

    def plan(self, items: tuple[_Item, ...]) -> _Plan:
        """An order that all blocks may take whose barriers differ."""
        asked: dict[n.Var, int] = {}
        while True:
            try:
                plans = [
                    self.played(items, dict(zip(asked, at, strict=True)))
                    for at in product(*(range(extent) for extent in tuple(asked.values())))
                ]
            except Undecided as undecided:
                var = undecided.var
                if var is None or var not in self.grid or var in asked:
                    raise
                asked[var] = self.grid[var]
                continue
            if any(plan != plans[0] for plan in plans):
                raise Undecided
            return plans[0]

    def played(self, items: tuple[_Item, ...], block: Values) -> _Plan:
        state = {(var, k): (0, 0) for var, counts in self.counts.items() for k in range(len(counts))}
        values = {**self.outer, **block}
        return self.order(items, state, values)

    def order(self, items: Sequence[_Item], state: Phases, values: dict[n.Var, int]) -> _Plan:
        """Play items in the first order that no barrier forbids: a group takes its own in the order of the text."""
        left: list[_Item] = list(items)
        done: list[_Leaf | _Fused] = []
        while left:
            heads = [i for k, i in enumerate(left) if not any(i.threads & before.threads for before in left[:k])]
            ran = next((h for h in heads if isinstance(h, _Leaf) and self.runs(h, state, values)), None)
            if ran is not None:
                left.remove(ran)
                done.append(ran)
                continue
            loops = [h for h in heads if isinstance(h, _Loop)]
            if not loops:
                raise _Blocked
            rounds = [self.rounds(h, values) for h in loops]
            together = tuple(h for h, r in zip(loops, rounds, strict=True) if r == rounds[0])
            done.append(self.loop(together, *rounds[0], state, values))
            left = [i for i in left if i not in together]
        return tuple(done)

    def rounds(self, item: _Loop, values: Values) -> tuple[int, int]:
        if item.loop.step is not None:
            raise Undecided
        return number(item.loop.min, values), number(item.loop.extent, values)

    def loop(
        self, loops: tuple[_Loop, ...], low: int, extent: int,
        state: Phases, values: dict[n.Var, int],
    ) -> _Fused:  # fmt: skip
        """Loops of as many rounds, as one whose statements have one order in all of them."""
        items = tuple(item for loop in loops for item in loop.body)
        start, known = dict(state), dict(values)
        plan: _Plan | None = None
        for _ in range(MOST_ORDERS):
            state.clear()
            state.update(start)
            for k in range(low, low + extent):
                values |= {loop.loop.loop_var: k for loop in loops}
                before = dict(state), dict(values)
                try:
                    if plan is not None:
                        self.again(plan, state, values)
                        continue
                except _Blocked:
                    pass
                state.clear()
                state.update(before[0])
                found = self.order(items, state, {**before[1]})
                if plan is not None and found != plan:
                    plan = found
                    break
                plan = found
            else:
                values.clear()
                values.update(known)
                if plan is None:  # no round: any order will do
                    plan = tuple(_Fused((i,), ()) if isinstance(i, _Loop) else i for i in items)
                return _Fused(loops, plan)
        raise Undecided

    def again(self, plan: _Plan, state: Phases, values: dict[n.Var, int]) -> None:
        """Play statements in an order that is given."""
        for part in plan:
            if isinstance(part, _Leaf):
                if not self.runs(part, state, values):
                    raise _Blocked
            else:
                low, extent = self.rounds(part.loops[0], values)
                for k in range(low, low + extent):
                    self.again(part.body, state, {**values, **{loop.loop.loop_var: k for loop in part.loops}})

    # Barriers

    def speaks(self, node: n.Stmt) -> bool:
        """True if something waits or arrives at a barrier in a statement."""
        if node not in self.speaking:
            self.speaking[node] = any(
                (isinstance(part, n.Call) and part.op in _BARRIERS)
                or (isinstance(part, n.BufferLoad) and _is_barrier(part.buffer))
                for part in walk(node)
            )
        return self.speaking[node]

    def runs(self, leaf: _Leaf, state: Phases, values: dict[n.Var, int]) -> bool:
        """Play what a statement does to barriers; False, and nothing, where it waits for a phase to come."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Undecided
        match leaf.statement:
            case n.LetStmt(var, value):
                try:
                    values[var] = number(value, values)
                except Undecided as undecided:
                    if undecided.var in self.grid:
                        raise
            case _:
                pass
        if not self.speaks(leaf.statement):
            return True
        trial = dict(state)
        try:
            self.plays(leaf.statement, leaf.threads, trial, dict(values))
        except _Blocked:
            return False
        state.update(trial)
        return True

    def plays(self, node: n.Stmt, threads: Threads, state: Phases, values: dict[n.Var, int]) -> None:
        match node:
            case n.SeqStmt(parts):
                for part in parts:
                    self.plays(part, threads, state, values)
            case n.LetStmt(var, value):
                values[var] = number(value, values)
            case n.AttrStmt():
                self.plays(node.body, threads, state, values)
            case n.IfThenElse(condition, then, otherwise) if self.speaks(node):
                if any(v in self.numbers for v in walk(condition)):
                    chosen = frozenset(t for t in threads if number(condition, self.at(t, values)))
                else:
                    chosen = threads if number(condition, values) else frozenset[int]()
                if chosen:
                    self.plays(then, chosen, state, values)
                if otherwise is not None and threads - chosen:
                    self.plays(otherwise, threads - chosen, state, values)
            case n.For(var) if self.speaks(node):
                low, extent = self.rounds(_Loop(threads, node, ()), values)
                for k in range(low, low + extent):
                    self.plays(node.body, threads, state, {**values, var: k})
            case n.Evaluate(n.Call() as call):
                self.called(call, len(threads), state, values)
            case _ if self.speaks(node):
                raise Undecided
            case _:
                pass

    def called(self, call: n.Call, threads: int, state: Phases, values: Values) -> None:
        match call:
            case n.Call(op=op, args=(barrier, n.Expr() as parity, *_)) if op in _WAITS:
                _, phase = state[self.barrier(barrier, values)]
                if phase % 2 == number(parity, values):
                    raise _Blocked
            case n.Call(op=op, args=(barrier, *_)) if op in _ARRIVES:
                self.arrive(self.barrier(barrier, values), threads, state)
            case n.Call(op=op, args=(barrier, *_)) if op in _ONCE:
                self.arrive(self.barrier(barrier, values), 1, state)
            case n.Call(op="tvm_storage_sync", args=args) if threads != len(self.threads):
                if len(args) < 3 or not isinstance(args[2], n.IntImm) or args[2].value != threads:
                    raise Undecided  # other groups are meant, or all of them
            case n.Call(op=op) if op in _OTHERS:
                raise Undecided
            case _:
                for argument in call.args:
                    if isinstance(argument, n.BufferLoad) and _is_barrier(argument.buffer):
                        self.arrive(self.barrier(argument, values), 1, state)

    def barrier(self, argument: n.Argument, values: Values) -> tuple[n.Var, int]:
        """The barrier of an argument: its memory, and its place there."""
        match argument:
            case n.BufferLoad(buffer, (index,)) if buffer.data in self.counts:
                found = buffer.data, number(index, values)
            case n.Call(op="tvm_access_ptr" | "access_ptr", args=(_, n.Var() as data, n.Expr() as offset, *_)):
                found = data, number(offset, values)
            case n.Call(op="address_of", args=(n.BufferLoad() as load, *_)):
                return self.barrier(load, values)
            case _:
                raise Undecided
        if found[0] not in self.counts or not 0 <= found[1] < len(self.counts[found[0]]):
            raise Undecided
        return found

    def arrive(self, barrier: tuple[n.Var, int], count: int, state: Phases) -> None:
        """Threads arrive: with the last that is expected, the phase of the barrier is complete."""
        arrived, phase = state[barrier]
        expected = self.counts[barrier[0]][barrier[1]]
        if arrived + count > expected:
            raise Undecided
        state[barrier] = (0, phase + 1) if arrived + count == expected else (arrived + count, phase)

    # Statements

    def statements(self, plan: _Plan) -> list[n.Stmt]:
        made: list[n.Stmt] = []
        for part in plan:
            if isinstance(part, _Leaf):
                made.append(self.statement(part))
            else:
                first = part.loops[0].loop
                others = {loop.loop.loop_var: first.loop_var for loop in part.loops[1:]}
                body = seq(self.statements(part.body), first.span)
                renamed = transform(
                    body, lambda node, others=others: others.get(node) if isinstance(node, n.Var) else None
                )
                made.append(replace(first, body=renamed))
        return made

    def statement(self, leaf: _Leaf) -> n.Stmt:
        """A group's statement as one for all threads; under its conditions if it has no operation on tiles."""
        node = leaf.statement
        plain = isinstance(node, n.LetStmt | n.AllocBuffer | n.DeclBuffer)
        if plain or leaf.threads == self.threads or any(_is_whole(part) for part in walk(node)):
            return node
        for condition in reversed(leaf.conditions):
            node = n.IfThenElse(condition, node, None, node.span)
        return node


def _constants(given: object) -> list[int]:
    """The numbers of an attribute that holds some."""
    found: list[int] = []
    for e in cast("Sequence[object]", given) if isinstance(given, Sequence) and not isinstance(given, str) else ():
        match e:
            case int() | n.IntImm():
                found.append(e if isinstance(e, int) else e.value)
            case _:
                raise Undecided
    return found


def _leaves(items: Sequence[_Item]) -> Iterator[_Leaf]:
    for item in items:
        if isinstance(item, _Leaf):
            yield item
        else:
            yield from _leaves(item.body)


def _is_barrier(buffer: n.Buffer) -> bool:
    return buffer.scope == "shared.barrier"


def _is_whole(node: n.Node) -> bool:
    """True if a part of a statement belongs to all threads that come to it, together."""
    if isinstance(node, n.Call) and is_tile(node):
        return not is_own(node)
    return isinstance(node, n.For) and node.kind is n.ForKind.PARALLEL


# Kernels of tiles without what says nothing about values: thread indices, reducers, safe values.
#
# A kernel is a program of its blocks, to which tile operations belong as a whole; `threads` has what its threads do
# for themselves. A reducer is a buffer whose updates come in any order; here they come in that of the text.

_normal_OTHERS = frozenset((
    *HINTS, "launch_thread_idx", "reducer_update", "device_assert", "device_assert_with_msg", "any_of", "all_of",
    "atomic_addx2_elem_op", "atomic_addx4_elem_op",
))  # fmt: skip


def normal(func: n.PrimFunc) -> n.PrimFunc:
    """The function as a program of its blocks; itself where it has no tile operations and no thread indices."""
    found = [node for node in walk(func.body) if isinstance(node, n.Call) and isinstance(node.op, str)]
    if not any(call.op in OPERATIONS or call.op in _normal_OTHERS for call in found):
        return func
    reducers: dict[n.Var, str] = {}
    safe: dict[n.Var, n.Attribute] = {}
    for block in walk(func.body):
        if isinstance(block, n.Block):
            for key in ("reducer_info", "reducer_info_v2"):
                reducers |= {
                    memory: (str(facts.get("op", "sum")) if isinstance(facts, Mapping) else "sum")
                    for memory, facts in _entries(block, key).items()
                }
            safe |= _entries(block, "safe_value_map")
    serial = _folding_loops(func.body, reducers)

    def rule(node: n.Node) -> n.Node | None:
        match node:
            case n.Call(op="copy", args=(n.Call(op="region", args=(n.BufferLoad(buffer), *_)), *_)):
                value = safe.get(buffer.data)
                if isinstance(value, n.Expr | int | float):
                    made = value if isinstance(value, n.Expr) else const(value, buffer.dtype)
                    return replace(node, attrs={**node.attrs, "safe_value": made})
            case n.Call(op="reducer_init", args=(n.Call(op="region", args=(n.BufferLoad(buffer), *_)) as box,)):
                start = identity(reducers.get(buffer.data, "sum"), buffer.dtype)
                return replace(node, op="fill", args=(box, start))
            case n.Evaluate(n.Call(op="reducer_update", args=(n.BufferLoad(buffer, places) as old, n.Expr() as new))):
                value = combined(reducers.get(buffer.data, "sum"), old, new)
                return n.BufferStore(buffer, value, places, None, node.span)
            case n.Evaluate(n.Call(op=str(op))) if op in HINTS:
                return nothing(node.span)
            case n.Evaluate(n.Call(op="call_extern", args=(n.StringImm(name), *_))) if name.startswith("debug_print"):
                return nothing(node.span)
            case n.Evaluate(n.Call(op="device_assert" | "device_assert_with_msg", args=(n.Expr() as condition, *_))):
                return n.AssertStmt(condition, ("a device assertion fails",), span=node.span)
            case n.Evaluate(n.Call(op="atomic_addx2_elem_op" | "atomic_addx4_elem_op" as name) as call):
                return _apart(call, 2 if "x2" in str(name) else 4) or node
            case n.Call(
                op="any_of" | "all_of" as name, args=(n.Call(args=(n.BufferLoad() as first, *_)), n.IntImm(count))
            ):
                return reduce(n.Or if name == "any_of" else n.And, (_truth(_next(first, k)) for k in range(count)))
            case n.For(kind=n.ForKind.PARALLEL) if node.loop_var in serial:
                return replace(node, kind=n.ForKind.SERIAL)
            case _:
                pass
        return None

    return replace(func, body=by_threads(transform(in_one_order(_with_lets(func.body)), rule)))


def _next(first: n.BufferLoad, by: int) -> n.BufferLoad:
    """An element that lies some places behind another one."""
    *outer, last = first.indices
    return replace(first, indices=(*outer, n.Add(last, const(by, last.dtype)) if by else last))


def _truth(value: n.Expr) -> n.Expr:
    return value if value.dtype.is_bool else n.NE(value, const(0, value.dtype))


def _apart(call: n.Call, count: int) -> n.Stmt | None:
    """Several elements that are updated at once, one by one."""
    loads = [a.args[0] for a in call.args[:2] if isinstance(a, n.Call) and a.op in ("access_ptr", "address_of")]
    places = [load for load in loads if isinstance(load, n.BufferLoad)]
    if len(places) != 2:
        return None
    to, given = places
    made: list[n.Stmt] = []
    for k in range(count):
        at = n.Call(HANDLE, "address_of", (_next(to, k),), span=call.span)
        update = n.Call(to.dtype, "atomic_add", (at, _next(given, k)), span=call.span)
        made.append(n.Evaluate(update, call.span))
    return seq(made, call.span)


def _entries(block: n.Block, key: str) -> dict[n.Var, n.Attribute]:
    """The entries of an attribute of a block that are about buffers, by their memory."""
    found = block.annotations.get(key)
    return dict(found.entries) if isinstance(found, n.MemoryMap) else {}


def _folding_loops(body: n.Stmt, reducers: Mapping[n.Var, str]) -> set[n.Var]:
    """The loops that update elements of reducers which they do not choose."""
    found: set[n.Var] = set()
    pending: list[tuple[n.Stmt, tuple[n.Var, ...]]] = [(body, ())]
    while pending:
        node, loops = pending.pop()
        match node:
            case n.BufferStore(buffer, _, indices) | n.Evaluate(
                n.Call(op="reducer_update", args=(n.BufferLoad(buffer, indices), *_))
            ) if buffer.data in reducers:
                chosen = {v for index in indices for v in walk(index) if isinstance(v, n.Var)}
                found |= set(loops) - chosen
            case n.For(var, kind=n.ForKind.PARALLEL):
                loops = (*loops, var)
            case _:
                pass
        pending.extend((part, loops) for part in parts_of(node))
    return found


def _with_lets(body: n.Stmt) -> n.Stmt:
    """Numbers that are given a value once, where they are declared, as lets: `tile: T.int32 = t * 3 + bx`."""
    stores: Counter[n.Buffer] = Counter()
    other: set[n.Node] = set()
    for node in walk(body):
        match node:
            case n.BufferStore(buffer) if buffer.layout == "scalar":
                stores[buffer] += 1
            case n.Call(op=op, args=args):
                other |= {a for a in args if isinstance(a, n.Buffer)}
                other |= {a.buffer for a in args if isinstance(a, n.BufferLoad) and op in _PLACES}
            case _:
                pass
    made: dict[n.Buffer, n.Var] = {}

    def bound(node: n.Node) -> n.Node | None:
        if not isinstance(node, n.SeqStmt):
            return None
        parts = list(node.seq)
        for k, (first, second) in enumerate(pairwise(parts)):
            match first, second:
                case n.AllocBuffer(buffer), n.BufferStore(stored, value) if buffer is stored and stores[buffer] == 1:
                    if buffer not in other and value.dtype == buffer.dtype:
                        var = made[buffer] = n.Var(buffer.name, n.PrimType(buffer.dtype), buffer.span)
                        parts[k : k + 2] = [nothing(first.span), n.LetStmt(var, value, second.span)]
                case _:
                    pass
        return (
            replace(node, seq=tuple(parts)) if any(a is not b for a, b in zip(parts, node.seq, strict=True)) else None
        )

    body = transform(body, bound)
    if not made:
        return body
    return transform(body, lambda node: made.get(node.buffer) if isinstance(node, n.BufferLoad) else None)


_PLACES = frozenset(("address_of", "access_ptr"))
