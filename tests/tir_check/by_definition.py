"""What a function of TIR does wrong, by the definitions themselves: slow, obvious, and apart from the package.

It shares nothing with the checker and the interpreter but the nodes. `verdict` first applies the typing and scoping
rules, written down once more, and then runs the function on one element at a time, noting every access in Python sets.
It returns the first thing that is wrong, in a word, or None:

    type, scope, structure   a rule of the specification that needs no run
    bounds                   an index below 0, or not below the extent of its dimension
    uninitialised            a read of an element of allocated memory that nobody has written
    race                     two iterations of a parallel or vectorized loop, or two threads between barriers, touch one
                             element, and one of them writes
    region                   an access that a block's T.reads and T.writes leave out
    domain                   a block's iterator outside of its declared domain
    division                 an integer divided by zero
    overflow                 arithmetic of an index whose result its type does not hold
    barrier                  a barrier that not all threads of a block reach

Loops, blocks, lets, guards, vectors, matched regions, views and kernels are covered; calls of functions are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, product
from typing import Any

from by_rules import Rules, Wrong, need
from plain_arithmetic import COMPARE, arithmetic, convert, each

from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType

STEPS = 20_000


class Endless(Exception):
    """More steps than any sound program here takes."""


def verdict(func: n.PrimFunc, arrays: list[Any]) -> str | None:
    """What is wrong with the function, or with running it on these arrays."""
    try:
        Rules().function(func)
        _Run(func, arrays).body()
    except Wrong as wrong:
        return str(wrong)
    except Endless:
        return "endless"
    return None


@dataclass(eq=False)
class Memory:
    """One allocation: elements by address, None where nobody has written."""

    cells: dict[int, Any]
    whole: bool
    depth: int


@dataclass(eq=False)
class View:
    """A buffer at run time."""

    memory: Memory
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(eq=False)
class Parallel:
    """A running parallel loop: who touched what. `depth` counts the memories that are older than its iterations."""

    depth: int
    wrote: dict[tuple[int, int], object] = field(default_factory=dict[Any, Any])
    read: dict[tuple[int, int], set[object]] = field(default_factory=dict[Any, Any])

    def touch(self, who: object, place: tuple[int, int], write: bool) -> None:
        writer = self.wrote.get(place)
        need(writer is None or writer == who, "race")
        readers = self.read.setdefault(place, set())
        if write:
            need(readers <= {who}, "race")
            self.wrote[place] = who
        else:
            readers.add(who)


@dataclass
class Lane:
    """One thread (or the only one): its variables, its buffers, its place in the running parallel loops."""

    env: dict[int, int]
    views: dict[int, View]
    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    iterations: tuple[tuple[Parallel, int], ...] = ()
    declared: tuple[tuple[int, set[tuple[int, int]], set[tuple[int, int]]], ...] = ()


@dataclass
class Access:
    """What a statement does in one lane."""

    reads: list[tuple[Memory, int]] = field(default_factory=list[Any])
    writes: list[tuple[Memory, int, Any]] = field(default_factory=list[Any])

    @property
    def key(self) -> object:
        reads = tuple((id(memory), at) for memory, at in self.reads)
        return reads, tuple((id(memory), at, repr(value)) for memory, at, value in self.writes)


class _Run:
    """Statements over lists of lanes, in lockstep."""

    def __init__(self, func: n.PrimFunc, arrays: list[Any]) -> None:
        self.func, self.steps, self.born = func, 0, count()
        self.kernel: Parallel | None = None  # what blocks of threads share, over the whole kernel
        self.epochs: dict[tuple[int, ...], Parallel] = {}  # what threads of a block share, since the last barrier
        self.synchronised, self.everybody, self.size = False, 1, 1
        self.pending: list[tuple[Lane, Access]] = []
        self.tags: dict[str, n.For] = {}
        self.access = Access()
        self.index_depth = 0
        views: dict[int, View] = {}
        for param, array in zip(func.params, arrays, strict=True):
            buffer = func.buffer_map[param]
            memory = Memory(dict(enumerate(array.ravel().tolist())), True, -1)
            views[id(buffer)] = View(memory, array.shape, _row_major(array.shape), 0)
        self.lane = Lane({}, views)

    def body(self) -> None:
        self.run(self.func.body, [self.lane])

    # expressions

    def load(self, lane: Lane, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> Any:
        found = []
        for place in self.places(lane, buffer, indices):
            view, at = self.inside(lane, buffer, place, False)
            self.access.reads.append((view.memory, at))
            need(view.memory.whole or at in view.memory.cells, "uninitialised")
            found.append(view.memory.cells.get(at, 0))
        return found[0] if _scalar(indices) else tuple(found)

    def places(self, lane: Lane, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> Iterator[tuple[int, ...]]:
        self.index_depth += 1
        values = [self.value(lane, index) for index in indices]
        self.index_depth -= 1
        if _scalar(indices):
            yield tuple(values)
        else:
            for last in values[-1]:
                yield (*values[:-1], last)

    def inside(self, lane: Lane, buffer: n.Buffer, place: tuple[int, ...], write: bool) -> tuple[View, int]:
        view = lane.views[id(buffer)]
        need(all(0 <= i < extent for i, extent in zip(place, view.shape, strict=True)), "bounds")
        at = view.offset + sum(i * s for i, s in zip(place, view.strides, strict=True))
        for born, reads, writes in lane.declared:
            inside = view.memory.depth > born  # what is allocated in a block needs no declaration
            need(inside or (id(view.memory), at) in (writes if write else reads | writes), "region")
        return view, at

    def value(self, lane: Lane, e: n.Expr) -> Any:
        match e:
            case n.Var():
                return lane.env[id(e)]
            case n.IntImm(value) | n.FloatImm(value):
                return value
            case n.Cast(value, dtype):
                return each(lambda x: convert(x, dtype), self.value(lane, value))
            case n.Select(c, a, b):
                which, yes, no = (self.value(lane, x) for x in (c, a, b))
                return each(lambda w, y, z: y if w else z, which, yes, no)
            case n.Call(op="if_then_else", args=(c, a, b)):
                return self.value(lane, a if self.value(lane, c) else b)  # type: ignore[arg-type]
            case n.And(a, b):
                return self.value(lane, a) and self.value(lane, b)
            case n.Or(a, b):
                return self.value(lane, a) or self.value(lane, b)
            case n.Not(a):
                return not self.value(lane, a)
            case n.BufferLoad(buffer, indices):
                return self.load(lane, buffer, indices)
            case n.Ramp(base, stride, lanes):
                first, step = self.value(lane, base), self.value(lane, stride)
                return tuple(self.fit(first + k * step, base.dtype) for k in range(lanes))  # type: ignore[arg-type]
            case n.Broadcast(value, lanes):
                return (self.value(lane, value),) * lanes  # type: ignore[operator]
            case n.BinaryOp(a=a, b=b):
                x, y = self.value(lane, a), self.value(lane, b)
                return each(lambda p, q: self.fit(arithmetic(e, p, q), a.dtype), x, y)
            case n.CmpOp(a=a, b=b):
                return each(lambda p, q: COMPARE[type(e)](p, q), self.value(lane, a), self.value(lane, b))
            case n.Call(op="tvm_storage_sync"):
                return 0
            case _:
                raise NotImplementedError(type(e).__name__)

    def fit(self, x: Any, dtype: DataType) -> Any:
        """Integers wrap; where they are indices, they must not have to."""
        if dtype.is_float or dtype.bits == 1:
            return x
        low, high = dtype.range
        if not low <= x <= high:
            need(self.index_depth == 0, "overflow")
            x = (x - low) % (high - low + 1) + low
        return x

    # statements

    def run(self, s: n.Stmt, lanes: list[Lane]) -> None:
        self.steps += len(lanes)
        if self.steps > STEPS:
            raise Endless
        if not lanes:
            return
        match s:
            case n.SeqStmt(parts):
                for part in parts:
                    self.run(part, lanes)
            case n.LetStmt(var, value):
                for lane in lanes:
                    lane.env[id(var)] = self.noted(lanes, lane, lambda lane=lane: self.value(lane, value))
                self.commit(lanes)
            case n.BufferStore():
                for lane in lanes:
                    self.noted(lanes, lane, lambda lane=lane: self.store(lane, s))
                self.commit(lanes, True)
            case n.For(kind=n.ForKind.THREAD_BINDING):
                self.threads(s, lanes)
            case n.For():
                self.loop(s, lanes)
            case n.While(condition, body):
                while lanes := [lane for lane in lanes if self.asked(lanes, lane, condition)]:
                    self.commit(lanes)
                    self.run(body, lanes)
                self.commit(lanes)
            case n.IfThenElse(condition, then, otherwise):
                answers = [(lane, self.asked(lanes, lane, condition)) for lane in lanes]
                self.commit(lanes)
                self.run(then, [lane for lane, holds in answers if holds])
                if otherwise is not None:
                    self.run(otherwise, [lane for lane, holds in answers if not holds])
            case n.Evaluate(n.Call(op="tvm_storage_sync")):
                for block in {lane.block for lane in lanes}:
                    need(sum(lane.block == block for lane in lanes) == self.everybody, "barrier")
                    self.epochs.pop(block, None)
            case n.Evaluate():
                pass
            case n.AllocBuffer(buffer):
                self.allocate(buffer, lanes)
            case n.BlockRealize():
                self.realize(s, lanes)
            case _:
                raise NotImplementedError(type(s).__name__)

    def asked(self, lanes: list[Lane], lane: Lane, condition: n.Expr) -> Any:
        return self.noted(lanes, lane, lambda: self.value(lane, condition))

    def noted(self, lanes: list[Lane], lane: Lane, act: Any) -> Any:
        """Do something in one lane, and note its accesses for the parallel loops around."""
        self.access = Access()
        found = act()
        self.pending.append((lane, self.access))
        return found

    def commit(self, lanes: list[Lane], stored: bool = False) -> None:
        """All lanes did a statement: writes take effect, and conflicts among threads and iterations show.

        What all threads of a block do in exactly the same way (same reads, same element, same value) is done once.
        """
        pending, self.pending = self.pending, []
        alike: dict[object, list[Lane]] = {}
        for lane, access in pending:
            alike.setdefault((lane.block, access.key), []).append(lane)
        blocks: dict[object, list[Lane]] = {}
        for (_, key), lanes in alike.items():  # type: ignore[misc]
            if len(lanes) == self.everybody:
                blocks.setdefault(key, []).append(lanes[0])
        uniform = {id(lanes[0]) for lanes in blocks.values() if len(lanes) * self.everybody == self.size}
        for lane, access in pending:
            first = alike[lane.block, access.key]
            if self.kernel is not None and len(first) == self.everybody and lane is not first[0]:
                continue
            if (
                self.kernel is not None
                and len(blocks.get(access.key, ())) * self.everybody == self.size
                and id(lane) not in uniform
            ):
                continue
            for write, places in ((False, access.reads), (True, access.writes)):
                for memory, at, *_ in places:
                    self.touch(lane, memory, at, write)
        for _, access in pending:
            for memory, at, value in access.writes:
                memory.cells[at] = value
        if stored and self.kernel is not None and not self.synchronised:
            self.epochs.clear()

    def touch(self, lane: Lane, memory: Memory, at: int, write: bool) -> None:
        place = (id(memory), at)
        for loop, iteration in lane.iterations:
            if memory.depth < loop.depth:
                loop.touch(iteration, place, write)
        if self.kernel is not None:
            self.kernel.touch(lane.block, place, write)
            self.epochs.setdefault(lane.block, Parallel(0)).touch(lane.thread, place, write)

    def store(self, lane: Lane, s: n.BufferStore) -> None:
        value = self.value(lane, s.value)
        values = value if isinstance(value, tuple) else (value,)
        kept = list(self.places(lane, s.buffer, s.indices))
        for place, one in zip(kept, values, strict=True):
            view, at = self.inside(lane, s.buffer, place, True)
            self.access.writes.append((view.memory, at, convert(one, s.buffer.dtype)))

    def loop(self, s: n.For, lanes: list[Lane]) -> None:
        bounds: dict[int, tuple[int, int]] = {}
        for lane in lanes:
            low = self.noted(lanes, lane, lambda lane=lane: self.value(lane, s.min))
            bounds[id(lane)] = low, self.noted(lanes, lane, lambda lane=lane: self.value(lane, s.extent))
        self.commit(lanes)
        parallel = s.kind in (n.ForKind.PARALLEL, n.ForKind.VECTORIZED)
        depth = next(self.born)
        loops = {id(lane): Parallel(depth) for lane in lanes}
        for k in count():
            here = [lane for lane in lanes if k < bounds[id(lane)][1]]
            if not here:
                break
            outer = [lane.iterations for lane in here]
            for lane in here:
                lane.env[id(s.loop_var)] = bounds[id(lane)][0] + k
                if parallel:
                    lane.iterations = (*lane.iterations, (loops[id(lane)], k))
            self.run(s.body, here)
            for lane, before in zip(here, outer, strict=True):
                lane.iterations = before

    def allocate(self, buffer: n.Buffer, lanes: list[Lane]) -> None:
        born = next(self.born)
        shared: dict[tuple[int, ...], Memory] = {}
        for lane in lanes:
            per_block = self.kernel is not None and buffer.scope.startswith("shared")
            memory = Memory({}, False, born)
            if per_block:
                memory = shared.setdefault(lane.block, memory)
            shape = tuple(self.value(lane, extent) for extent in buffer.shape)
            lane.views[id(buffer)] = View(memory, shape, _row_major(shape), 0)

    def realize(self, s: n.BlockRealize, lanes: list[Lane]) -> None:
        block = s.block
        self.index_depth += 1
        for lane in lanes:
            for iterator, value in zip(block.iter_vars, s.values, strict=True):
                lane.env[id(iterator.var)] = self.value(lane, value)
        self.index_depth -= 1
        lanes = [lane for lane in lanes if self.value(lane, s.predicate)]
        for lane in lanes:
            for iterator in block.iter_vars:
                assert iterator.dom is not None
                low, extent = self.value(lane, iterator.dom.min), self.value(lane, iterator.dom.extent)
                need(low <= lane.env[id(iterator.var)] < low + extent, "domain")
        born = next(self.born)
        for buffer in block.alloc_buffers:
            self.allocate(buffer, lanes)
        outer = [lane.declared for lane in lanes]
        for lane in lanes:
            for match in block.match_buffers:
                self.match(lane, match)
            if block.reads or block.writes:
                declared = born, self.elements(lane, block.reads), self.elements(lane, block.writes)
                lane.declared = (*lane.declared, declared)
        if block.init is not None:
            reductions = [i for i in block.iter_vars if i.kind is n.IterKind.COMM_REDUCE]
            starting = [
                lane
                for lane in lanes
                if all(lane.env[id(i.var)] == self.value(lane, i.dom.min) for i in reductions)  # type: ignore[union-attr]
            ]
            self.run(block.init, starting)
        self.run(block.body, lanes)
        for lane, before in zip(lanes, outer, strict=True):
            lane.declared = before

    def elements(self, lane: Lane, regions: tuple[n.BufferRegion, ...]) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for region in regions:
            view = lane.views[id(region.buffer)]
            ranges = [(self.value(lane, r.min), self.value(lane, r.extent)) for r in region.region]
            for place in product(*(range(low, low + extent) for low, extent in ranges)):
                if all(0 <= i < extent for i, extent in zip(place, view.shape, strict=True)):
                    at = view.offset + sum(i * s for i, s in zip(place, view.strides, strict=True))
                    found.add((id(view.memory), at))
        return found

    def match(self, lane: Lane, match: n.MatchBufferRegion) -> None:
        view = lane.views[id(match.source.buffer)]
        lows = [self.value(lane, r.min) for r in match.source.region]
        extents = [self.value(lane, r.extent) for r in match.source.region]
        left_out = len(lows) - len(match.buffer.shape)
        shape = tuple(self.value(lane, extent) for extent in match.buffer.shape)
        need([1] * left_out + list(shape) == extents, "structure")
        offset = view.offset + sum(low * stride for low, stride in zip(lows, view.strides, strict=True))
        lane.views[id(match.buffer)] = View(view.memory, shape, view.strides[left_out:], offset)

    # kernels

    def threads(self, s: n.For, lanes: list[Lane]) -> None:
        assert s.thread_binding is not None
        tag = s.thread_binding.thread_tag
        if self.kernel is not None:
            for lane in lanes:
                coordinate = (lane.block + lane.thread)[list(self.tags).index(tag)]
                lane.env[id(s.loop_var)] = self.value(lane, s.min) + coordinate
            self.run(s.body, lanes)
            return
        self.tags = dict(sorted(_bound(s).items()))  # blockIdx before threadIdx
        extents = {t: self.value(lanes[0], loop.extent) for t, loop in self.tags.items()}
        blocks = [range(e) for t, e in extents.items() if t.startswith("blockIdx")]
        threads = [range(e) for t, e in extents.items() if not t.startswith("blockIdx")]
        self.everybody = len(list(product(*threads)))
        self.size = self.everybody * len(list(product(*blocks)))
        self.synchronised = _synchronises(s)
        self.kernel, self.epochs = Parallel(0), {}
        (lane,) = lanes
        inside = [
            replace(lane, env=dict(lane.env), views=dict(lane.views), block=b, thread=t)
            for b in product(*blocks)
            for t in product(*threads)
        ]
        self.threads(s, inside)
        self.kernel, self.tags = None, {}


def _bound(s: n.Stmt) -> Mapping[str, n.For]:
    from tensorir.tir.trees import walk

    loops = [node for node in walk(s) if isinstance(node, n.For) and node.thread_binding is not None]
    return {loop.thread_binding.thread_tag: loop for loop in loops if loop.thread_binding is not None}


def _synchronises(s: n.Stmt) -> bool:
    from tensorir.tir.trees import walk

    return any(isinstance(node, n.Call) and node.op == "tvm_storage_sync" for node in walk(s))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)


def _scalar(indices: tuple[n.Expr, ...]) -> bool:
    return not indices or indices[-1].dtype.lanes == 1
