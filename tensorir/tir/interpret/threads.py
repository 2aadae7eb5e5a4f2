"""Kernels: nests of thread-bound loops, whose threads run every statement together.

The outermost thread-bound loop starts a kernel: every hardware index that its body mentions becomes an axis of lanes,
shared memory gets one copy per block of threads and local memory one per thread. A block that reduces over a thread
index runs thread by thread, ascending.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tensorir.runtime.errors import DiagnosticError, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.builtins import is_block, is_hardware
from tensorir.tir.interpret.loops import compile_loop, execute_later
from tensorir.tir.interpret.machine import Act, Machine, compiled, execute
from tensorir.tir.interpret.memory import Axis, Conflict, Level, Memory, Pointer, lane_numbers
from tensorir.tir.interpret.values import Value, is_array
from tensorir.tir.storage import lost_storage
from tensorir.tir.trees import walk

MOST_THREADS = 1 << 18
"""How many threads run side by side, as far as their blocks can be run in portions."""
PORTION_BYTES = 1 << 28
"""How much memory the blocks of a portion have for themselves, where one of them does not need more."""
MOST_LANES = 1 << 22
"""How many threads may have to."""
_PER_BLOCK = ("shared", "wmma.accumulator.shared")


@dataclass(eq=False, slots=True)
class Kernel:
    """A running kernel: the axis of every tag, the logs, and which barriers there are."""

    axes: dict[str, Axis]
    grid: Level | None
    block: Level | None
    synchronised: bool
    joined: dict[n.Buffer, frozenset[str]]
    failed: Exception | None = None

    def private(self, axes: tuple[Axis, ...], scope: str, buffer: n.Buffer | None) -> tuple[Axis, ...]:
        """The lanes among `axes` that have a copy of their own of memory allocated here."""
        shared = scope.startswith(_PER_BLOCK)
        joined = frozenset[str]() if buffer is None else self.joined.get(buffer, frozenset())
        common = {id(axis) for tag, axis in self.axes.items() if (shared and not is_block(tag)) or tag in joined}
        return tuple(axis for axis in axes if id(axis) not in common)

    def stored(self, m: Machine) -> None:
        """After each statement: a barrier, where the kernel has none of its own."""
        if not self.synchronised and self.block is not None:
            self.block.restart()

    def reached(self, m: Machine, span: Span) -> None:
        """Every block whose threads come to a barrier comes with all of them."""
        if m.mask is None or self.block is None:
            return
        here = np.broadcast_to(m.mask, m.lanes)
        threads = tuple(k for k, axis in enumerate(reversed(m.axes)) if self._is_thread(axis))
        apart = here.any(axis=threads, keepdims=True) & ~here
        if apart.any():
            at = np.argwhere(apart)[0][::-1]
            lane = ", ".join(f"{a.name} = {a.low + int(a.values[i]) * a.step}" for a, i in zip(m.axes, at, strict=True))
            message = "not all threads of the block reach this barrier."
            help = "move the barrier out of the condition."
            raise refuse("TR14", message, help, at=span, notes=(f"{lane} does not.",))

    def _is_thread(self, axis: Axis) -> bool:
        return any(axis is known and not is_block(tag) for tag, known in self.axes.items())

    def barrier(self) -> None:
        if self.block is not None:
            self.block.restart()


def keeps_storage(func: n.PrimFunc) -> Act:
    """The check before a function runs: every kernel reads shared and local storage of its own only."""
    lost = lost_storage(func.body)

    def check(m: Machine) -> None:
        if lost is not None:
            raise DiagnosticError(lost)

    return check


def compile_thread_loop(node: n.For) -> Act:
    """A loop bound to threads: the start of a kernel, or one more name for an index of the kernel."""
    assert node.thread_binding is not None
    tag = node.thread_binding.thread_tag
    return _thread(tag, node.loop_var, node.min, node.extent, node.body, node)


def compile_attribute(node: n.AttrStmt) -> Act:
    """`thread_extent` binds a thread index, `virtual_thread` is a loop; other attributes do not change what runs."""

    match node:
        case n.AttrStmt(n.IterVar(_, var, _, tag), "thread_extent" | "virtual_thread" as key, n.Expr() as extent, body):
            zero = n.IntImm(0, var.dtype)
            if key == "virtual_thread" or not is_hardware(tag):
                return compile_loop(n.For(var, zero, extent, n.ForKind.SERIAL, body, span=node.span))
            return _thread(tag, var, zero, extent, body, node)
        case n.AttrStmt(n.CommReducer() as reducer, "reduce_scope", _, body):
            inner = execute(body)

            def reduce_scope(m: Machine) -> None:
                m.reducers.append(reducer)
                try:
                    inner(m)
                finally:
                    m.reducers.pop()

            return reduce_scope
        case _:
            return execute(node.body)


def _thread(tag: str, var: n.Var, low: n.Expr, extent: n.Expr, body: n.Stmt, node: n.Stmt) -> Act:

    if not is_hardware(tag):
        assert isinstance(node, n.For)
        return compile_loop(replace(node, kind=n.ForKind.SERIAL, thread_binding=None))
    first, size, inner = compiled(low), compiled(extent), execute_later(body)

    def bound(m: Machine) -> None:
        axis = m.kernel.axes[tag]
        place = next(k for k, a in enumerate(m.axes) if a is axis)
        index = axis.values.reshape(-1, *([1] * place)).astype(var.dtype.numpy)
        wide = size(m)
        m.env[var] = index + first(m)
        if np.ndim(wide) == 0 and int(wide) == axis.extent:
            inner(m)
            return
        here = m.narrowed(index < wide)
        if here.any():
            with m.masked(here):
                inner(m)

    def run(m: Machine) -> None:
        if m.kernel is not None:
            bound(m)
        else:
            _launch(m, node, bound)

    return run


def _launch(m: Machine, node: n.Stmt, body: Act) -> None:
    """Run a kernel; blocks of threads that do not fit side by side run in portions."""
    extents = _extents(m, node)
    order = sorted(extents, key=_rank)
    if any(extent <= 0 for extent in extents.values()):
        return
    total = 1
    for tag in order:
        total *= extents[tag]
    portion = extents[order[0]]
    if m.count * total > MOST_THREADS and is_block(order[0]):
        portion = max(1, MOST_THREADS * extents[order[0]] // (m.count * total))
    if (together := m.count * total // extents[order[0]] * portion) > MOST_LANES:
        message = f"{together} threads run side by side here, more than the {MOST_LANES} there are."
        raise refuse("TR06", message, "bind the outer loop to blockIdx: blocks run in portions.", at=node.span)
    synchronised, joined, scoped = _survey(node)
    private = _private_bytes(m, scoped, extents)
    if private > PORTION_BYTES and is_block(order[0]):
        portion = max(1, min(portion, extents[order[0]] * PORTION_BYTES // private))
    depth = len(m.levels)
    before = (m.axes, m.count, m.mask, dict(m.views), m.returned, m.jumps)
    grid: Level | None = None
    try:
        for start in range(0, extents[order[0]], portion):
            m.axes, m.count, m.mask = before[0], before[1], before[2]
            axes: dict[str, Axis] = {}
            for tag in order:
                first, stop = (start, start + portion) if tag == order[0] else (0, extents[tag])
                values = np.arange(first, min(stop, extents[tag]))
                axes[tag] = Axis(tag, 0, extents[tag], values, depth if is_block(tag) else depth + 1)
                m.axes = (*m.axes, axes[tag])
                m.count *= len(values)
            kernel = Kernel(axes, None, None, synchronised, joined)
            m.kernel = kernel
            if m.checked:
                blocks = tuple(a for a in m.axes if not any(a is axes[t] for t in order if not is_block(t)))
                numbers = lane_numbers(blocks)
                if is_array(numbers):
                    numbers = numbers.reshape(*([1] * (len(m.axes) - len(blocks))), *numbers.shape)
                if grid is None:
                    grid = Level(blocks, depth, numbers, None, once=True, sites=m.sites)
                grid.numbers = numbers
                kernel.grid = grid
                kernel.block = Level(m.axes, depth + 1, lane_numbers(m.axes), None, once=True, sites=m.sites)
                m.levels[depth:] = [kernel.grid, kernel.block]
            _privatise(m, scoped, node.span)
            body(m)
            for buffer in scoped:
                if buffer in before[3]:
                    m.views[buffer] = before[3][buffer]
    except Conflict as conflict:
        if conflict.depth < depth or (m.undo is not None and not m.checked):
            raise
        within = conflict.depth > depth  # threads of one block, which a barrier can order
        help = (
            "put a barrier between the two, or use an atomic." if within else "let each block write its own elements."
        )
        raise m.race(conflict, help) from None
    finally:
        del m.levels[depth:]
        m.axes, m.count, m.mask, _, m.returned, m.jumps = before
        m.kernel = None


def _rank(tag: str) -> tuple[int, int]:
    kind = 0 if is_block(tag) else 1
    return kind, {"z": 0, "y": 1, "x": 2}.get(tag[-1], 3)


def _extents(m: Machine, node: n.Stmt) -> dict[str, int]:
    """The extent of every hardware index that the kernel mentions: the largest of those written."""

    found: dict[str, int] = {}
    for inner in walk(node):
        match inner:
            case n.For(extent=extent, kind=n.ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)):
                pass
            case n.AttrStmt(n.IterVar(thread_tag=tag), "thread_extent", n.Expr() as extent):
                pass
            case _:
                continue
        if is_hardware(tag):
            found[tag] = max(found.get(tag, 0), int(np.max(compiled(extent)(m))))
    return found


def _survey(node: n.Stmt) -> tuple[bool, dict[n.Buffer, frozenset[str]], list[n.Buffer]]:
    """True if the kernel has barriers, which buffers cross-thread reductions write, which have a scope of threads."""
    synchronised = False
    joined: dict[n.Buffer, frozenset[str]] = {}
    scoped: dict[n.Buffer, None] = {}
    apart: set[n.Buffer] = set()
    for inner in walk(node):
        match inner:
            case n.Call(op="tvm_storage_sync"):
                synchronised = True
            case n.Call(op="tvm_thread_allreduce", args=arguments):
                # What threads reduce together here, each has summed up alone.
                apart |= {argument.buffer for argument in arguments if isinstance(argument, n.BufferLoad)}
            case n.BlockRealize():
                if tags := crossing_tags(inner, node):
                    for store in walk(inner.block):
                        if isinstance(store, n.BufferStore):
                            joined[store.buffer] = joined.get(store.buffer, frozenset()) | tags
            case n.Buffer() if inner.scope not in ("global", ""):
                scoped[inner] = None
            case n.BufferStore(buffer) | n.BufferLoad(buffer) if buffer.scope not in ("global", ""):
                scoped[buffer] = None
            case _:
                pass
    return synchronised, {b: tags for b, tags in joined.items() if b not in apart}, list(scoped)


def _private_bytes(m: Machine, buffers: list[n.Buffer], extents: dict[str, int]) -> int:
    """The memory of all copies that blocks and threads need of buffers which were allocated outside of the kernel."""
    blocks = m.count * math.prod(extent for tag, extent in extents.items() if is_block(tag))
    threads = blocks * math.prod(extent for tag, extent in extents.items() if not is_block(tag))
    copies = {buffer: blocks if buffer.scope.startswith(_PER_BLOCK) else threads for buffer in buffers}
    return sum(m.views[buffer].memory.size * count for buffer, count in copies.items() if buffer in m.views)


def _privatise(m: Machine, buffers: list[n.Buffer], span: Span) -> None:
    """Local and shared buffers that were allocated outside of the kernel get their copies."""
    moved: dict[int, Memory] = {}
    for buffer in buffers:
        view = m.views.get(buffer)
        if view is None or not view.memory.allocated or not isinstance(view.memory.copy, int):
            continue
        old = view.memory
        new = moved.get(id(old))
        if new is None:
            axes = m.private_axes(buffer.scope, buffer)
            unit = np.dtype(f"u{old.unit}")
            new = moved[id(old)] = m.memory(old.size // old.unit, unit, old.name, old.scope, axes, span)
            new.element = old.element
            if old.raw.any():
                new.raw.reshape(-1, old.size)[:] = old.raw
            if old.known is not None:
                new.knowledge().reshape(-1, old.known.size)[:] = old.known
        m.views[buffer] = replace(view, memory=new)
        m.env[buffer.data] = Pointer(new, 0, m.views[buffer])
        if buffer.name in m.watched:
            m.watched[buffer.name] = m.views[buffer]


def crossing_tags(node: n.BlockRealize, kernel: n.Stmt) -> frozenset[str]:
    """The thread indices on which a reduction iterator of the block depends."""
    if not any(iterator.kind is n.IterKind.COMM_REDUCE for iterator in node.block.iter_vars):
        return frozenset()
    binders: dict[n.Var, frozenset[str]] = {}
    for inner in walk(kernel):
        match inner:
            case n.For(loop_var=var, kind=n.ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)):
                binders[var] = frozenset([tag]) if is_hardware(tag) else frozenset()
            case n.AttrStmt(n.IterVar(var=var, thread_tag=tag), "thread_extent"):
                binders[var] = frozenset([tag])
            case n.LetStmt(var, value):
                binders[var] = _among(value, binders)
            case n.BlockRealize(values, _, block) if inner is not node:
                for iterator, value in zip(block.iter_vars, values, strict=True):
                    binders[iterator.var] = _among(value, binders)
            case _:
                pass
    found: frozenset[str] = frozenset()
    for iterator, value in zip(node.block.iter_vars, node.values, strict=True):
        if iterator.kind is n.IterKind.COMM_REDUCE:
            found |= _among(value, binders)
    return frozenset(tag for tag in found if not is_block(tag))


def _among(value: n.Expr, binders: dict[n.Var, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(binders.get(v, frozenset()) for v in walk(value) if isinstance(v, n.Var)))


def one_by_one(inside: Act, reductions: tuple[n.Var, ...]) -> Act:
    """A reduction block: where its iterators differ from thread to thread, the threads take turns."""

    def run(m: Machine) -> None:
        if m.kernel is None:
            inside(m)
            return
        kernel: Kernel = m.kernel
        varying = [
            axis
            for tag, axis in kernel.axes.items()
            if not is_block(tag) and any(_varies(m, m.env[var], axis) for var in reductions)
        ]
        if not varying:
            inside(m)
            return
        if kernel.block is not None:
            kernel.block.restart()
            kernel.block.enabled = False
        try:
            _turns(m, varying, inside)
        finally:
            if kernel.block is not None:
                kernel.block.enabled = True

    return run


def _varies(m: Machine, value: Value, axis: Axis) -> bool:
    place = next(k for k, a in enumerate(m.axes) if a is axis)
    return np.ndim(value) > place and np.shape(value)[-1 - place] > 1


def _turns(m: Machine, axes: list[Axis], inside: Act) -> None:
    if not axes:
        inside(m)
        return
    axis = axes[0]
    place = next(k for k, a in enumerate(m.axes) if a is axis)
    index = axis.values.reshape(-1, *([1] * place))
    for value in axis.values:
        here = m.narrowed(index == value)
        if here.any():
            with m.masked(here):
                _turns(m, axes[1:], inside)
