"""Statements as Python functions of the machine, one rule for each kind."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.source import Span
from tensorir.tir import nodes as n
from tensorir.tir.build import branched
from tensorir.tir.interpret.arithmetic import Value, cast, is_array
from tensorir.tir.interpret.expressions import CODE, Run, access, compiled
from tensorir.tir.interpret.machine import Machine, error
from tensorir.tir.interpret.memory import Memory, Pointer, View, row_major
from tensorir.tir.scratch import scratch_of
from tensorir.tir.walk import walk

__all__ = ["Act", "create", "entering", "execute", "sequence"]

Act = Callable[[Machine], None]


def execute(node: n.Stmt) -> Act:
    """The function that executes a statement."""
    return CODE.of(node, _compile)


def _compile(node: n.Stmt) -> Act:
    from tensorir.tir.interpret import loops, threads

    match node:
        case n.SeqStmt():
            whole = branched(node)
            return _branch(whole) if isinstance(whole, n.IfThenElse) else sequence([execute(s) for s in whole.seq])
        case n.BufferStore():
            return _store(node)
        case n.LetStmt(var, value):
            return _let(var, compiled(value))
        case n.For(kind=n.ForKind.THREAD_BINDING):
            return threads.compile_thread_loop(node)
        case n.For():
            return loops.compile_loop(node)
        case n.While():
            return loops.compile_while(node)
        case n.IfThenElse():
            return _branch(node)
        case n.BlockRealize():
            return _realize(node)
        case n.Block():
            return _realize(n.BlockRealize((), n.IntImm(1, n.BOOL), node))
        case n.Evaluate(value):
            return _evaluate(value)
        case n.AssertStmt():
            return _assert(node)
        case n.AttrStmt():
            return threads.compile_attribute(node)
        case n.AllocBuffer(buffer) | n.BufferRealize(buffer):
            return _allocate(node, buffer)
        case n.Allocate():
            return _allocate_pointer(node)
        case n.AllocateConst():
            return _allocate_constant(node)
        case n.DeclBuffer():
            return _declare(node)
        case n.Break():
            return _leave("broken")
        case n.Continue():
            return _leave("continued")
        case n.Prefetch():
            return lambda m: None
        case n.Store():
            from tensorir.tir.interpret.deprecated import store

            return store(node)
        case _:
            raise error("TR42", f"a {type(node).__name__} is not run.", node.span)


def sequence(parts: list[Act]) -> Act:
    """The statements one after the other; lanes that left do not take part in what follows."""

    def run(m: Machine) -> None:
        before = m.mask
        for part in parts:
            part(m)
            if m.jumps:
                going = m.narrowed(~m.left())
                if not np.any(going):
                    break
                m.mask = going
        m.mask = before

    return run


def _store(node: n.BufferStore) -> Act:
    predicate = None if node.predicate is None else compiled(node.predicate)
    place, value = access(node.buffer, node.indices, node.span, predicate), compiled(node.value)
    buffer, span = node.buffer, node.span
    vector = node.value.dtype.lanes != 1
    source, target = node.value.dtype.element, node.buffer.dtype.element
    convert = source != target

    def run(m: Machine) -> None:
        new = value(m)
        if convert:
            new = cast(new, source, target)
        view, address = place(m)
        if m.blocks and m.checked and predicate is None:
            from tensorir.tir.interpret.bounds import check_declared

            check_declared(m, buffer, True, span)
        lanes = None if predicate is None else predicate(m)
        if lanes is not None:
            address = np.where(lanes, address, 0)
        m.write(view, address, new, span, vector, lanes)
        if m.kernel is not None:
            m.kernel.stored(m)

    return run


def _let(var: n.Var, value: Callable[[Machine], Value]) -> Act:
    def run(m: Machine) -> None:
        m.env[var] = value(m)

    return run


def _branch(node: n.IfThenElse) -> Act:
    condition, then = compiled(node.condition), execute(node.then_case)
    otherwise = None if node.else_case is None else execute(node.else_case)

    def run(m: Machine) -> None:
        which = condition(m)
        if np.ndim(which) == 0:
            if which:
                then(m)
            elif otherwise is not None:
                otherwise(m)
            return
        here = m.narrowed(which)
        there = None if otherwise is None else m.narrowed(~which)
        if here.any():
            with m.masked(here):
                then(m)
        if otherwise is not None and there is not None and there.any():
            with m.masked(there):
                otherwise(m)

    return run


def _evaluate(value: n.Expr) -> Act:
    match value:
        case n.IntImm() | n.FloatImm() | n.Var():
            return lambda m: None
        case n.Call(op="ret" | "thread_return", args=arguments):
            return _return([compiled(a) for a in arguments if isinstance(a, n.Expr)])
        case n.Call(op="break_loop"):
            return _leave("broken")
        case n.Call(op="continue_loop"):
            return _leave("continued")
        case _:
            run = compiled(value)

            def evaluate(m: Machine) -> None:
                run(m)

            return evaluate


def _return(values: list[Callable[[Machine], Value]]) -> Act:
    def run(m: Machine) -> None:
        if values:
            m.result = values[0](m)
        m.returned = m.active() if m.returned is None else m.returned | m.active()
        m.jumps = True

    return run


def _leave(kind: str) -> Act:
    def run(m: Machine) -> None:
        before = getattr(m, kind)
        setattr(m, kind, m.active() if before is None else before | m.active())
        m.jumps = True

    return run


def _assert(node: n.AssertStmt) -> Act:
    condition = compiled(node.condition)
    message = "".join(node.message)

    def run(m: Machine) -> None:
        holds = condition(m)
        if not np.all(holds) and np.any(m.narrowed(~holds)):
            raise error("TR10", f"{node.kind}: {message}", node.span, *m.where())

    return run


def _allocate(node: n.AllocBuffer | n.BufferRealize, buffer: n.Buffer) -> Act:
    shape = [compiled(extent) for extent in buffer.shape]
    body = execute(node.body) if isinstance(node, n.BufferRealize) else None
    span = node.span

    def run(m: Machine) -> None:
        create(m, buffer, tuple(_number(extent(m)) for extent in shape), span)
        if body is not None:
            body(m)

    return run


def create(m: Machine, buffer: n.Buffer, shape: tuple[Value, ...], span: Span) -> None:
    """New memory for a buffer, and what its pointer and its fresh variables then are."""
    view = m.allocate(buffer, shape, span)
    m.views[buffer] = view
    m.env[buffer.data] = Pointer(view.memory, 0, view)
    for stride, value in zip(buffer.strides, view.strides, strict=False):
        if isinstance(stride, n.Var):
            m.env[stride] = stride.dtype.numpy.type(value)
    if isinstance(buffer.elem_offset, n.Var):
        m.env[buffer.elem_offset] = buffer.elem_offset.dtype.numpy.type(0)


def _number(value: Value) -> Value:
    return value.astype(np.int64) if is_array(value) else int(value)


def _allocate_pointer(node: n.Allocate) -> Act:
    extents = [compiled(extent) for extent in node.extents]
    dtype, var = node.dtype, node.buffer_var
    scope = var.type.storage_scope if isinstance(var.type, n.PointerType) else "global"
    buffer = n.Buffer(var, dtype, node.extents, name=var.name, span=node.span)

    def run(m: Machine) -> None:
        shape = tuple(_number(extent(m)) for extent in extents)
        view = m.allocate(buffer, shape, node.span)
        view.memory.scope = scope
        m.env[var] = Pointer(view.memory, 0, view)

    return run


def _allocate_constant(node: n.AllocateConst) -> Act:
    data = node.data

    def run(m: Machine) -> None:
        if not isinstance(data, tuple):
            raise error("TR43", "the contents of this constant are not in the text.", node.span)
        elements = np.asarray(data).astype(node.dtype.element.numpy).ravel()
        memory = Memory.of(elements, node.buffer_var.name)
        shape = tuple(int(compiled(e)(m)) for e in node.extents)
        view = View(memory, elements.dtype, node.dtype.lanes, shape, row_major(shape), 0)
        m.env[node.buffer_var] = Pointer(memory, 0, view)

    return run


def _declare(node: n.DeclBuffer) -> Act:
    buffer, span = node.buffer, node.span
    shape = [compiled(e) for e in buffer.shape]
    strides = [compiled(e) for e in buffer.strides]
    offset = None if buffer.elem_offset is None else compiled(buffer.elem_offset)
    source = node.data

    def run(m: Machine) -> None:
        if source is None:
            if not isinstance(m.env.get(buffer.data), Pointer):
                create(m, buffer, tuple(_number(extent(m)) for extent in shape), span)
                return
            pointer = m.env[buffer.data]
        else:
            pointer = compiled(source)(m)
            if not isinstance(pointer, Pointer):
                raise error("TR07", f"{buffer.name!r} is declared over no memory.", span)
            if source is not buffer.data:
                m.env[buffer.data] = pointer
        extents = tuple(extent(m) for extent in shape)
        steps = tuple(stride(m) for stride in strides)
        view = m.alias(pointer, buffer, extents, steps, 0 if offset is None else offset(m))
        m.views[buffer] = view

    return run


# --------------------------------------------------------------------------------------------------------------- blocks


Box = tuple[tuple[Value, Value], ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """What a block that runs has declared: boxes of buffers. Memory born after the block needs no declaration."""

    node: n.Block
    reads: tuple[tuple[n.Buffer, Box], ...]
    writes: tuple[tuple[n.Buffer, Box], ...]
    born: int
    last: dict[n.Buffer, tuple[list[Value], bool]] = field(default_factory=dict[n.Buffer, Any])


def _realize(node: n.BlockRealize) -> Act:
    from tensorir.tir.interpret import threads

    block = node.block
    values = [(iterator.var, compiled(v), v.dtype) for iterator, v in zip(block.iter_vars, node.values, strict=True)]
    predicate = None if isinstance(node.predicate, n.IntImm) and node.predicate.value else compiled(node.predicate)
    body = execute(block.body)
    init = None if block.init is None else execute(block.init)
    reductions = [
        (i.var, None if i.dom is None else compiled(i.dom.min))
        for i in block.iter_vars
        if i.kind is n.IterKind.COMM_REDUCE
    ]
    allocations = [(b, [compiled(e) for e in b.shape]) for b in block.alloc_buffers]
    scratch = scratch_of(block)
    matches = [_match(m) for m in block.match_buffers]
    enter = entering(block, node.span)

    def inside(m: Machine) -> None:
        depth = len(m.blocks)
        enter(m)
        for buffer, extents in allocations:
            create(m, buffer, tuple(_number(extent(m)) for extent in extents), block.span)
        m.scratch.update(scratch)
        for match in matches:
            match(m)
        try:
            if init is not None:
                first: Value = np.True_
                for var, low in reductions:
                    first = first & (m.env[var] == (0 if low is None else low(m)))
                if np.ndim(first) == 0:
                    if first:
                        init(m)
                else:
                    here = m.narrowed(first)
                    if here.any():
                        with m.masked(here):
                            init(m)
            body(m)
        finally:
            del m.blocks[depth:]

    def run(m: Machine) -> None:
        m.indexing += m.checked
        for var, value, dtype in values:
            found = value(m)
            m.env[var] = found if dtype == var.dtype else cast(found, dtype, var.dtype)
        m.indexing -= m.checked
        if predicate is None:
            inner(m)
            return
        holds = predicate(m)
        if np.ndim(holds) == 0:
            if holds:
                inner(m)
            return
        here = m.narrowed(holds)
        if here.any():
            with m.masked(here):
                inner(m)

    # Where threads reduce together they do it at once, not one by one.
    together = bool(reductions) and any(isinstance(x, n.Call) and x.op == "tvm_thread_allreduce" for x in walk(block))
    over = () if together else tuple(var for var, _ in reductions)
    inner = threads.one_by_one(inside, over) if over else inside
    return run


def entering(block: n.Block, span: Span) -> Act:
    """In checked mode: the iterators are inside of their domains, and from here on the block's regions hold."""
    from tensorir.tir.interpret.bounds import check_domain

    declares = bool(block.reads or block.writes)
    # what the block fills itself, or allocates, it cannot tell when it starts: it may hold what an earlier block left
    told = {r.buffer for r in block.writes} | {buffer for part in walk(block) for buffer in _allocated(part)}
    declared = [[_declared(r, told) for r in regions] for regions in (block.reads, block.writes)]
    domains = [(i, compiled(i.dom.min), compiled(i.dom.extent)) for i in block.iter_vars if i.dom is not None]

    def enter(m: Machine) -> None:
        if m.checked:
            for iterator, low, extent in domains:
                check_domain(m, iterator, low(m), extent(m), span)
            if declares:
                reads, writes = (tuple(box(m) for box in boxes) for boxes in declared)
                m.blocks.append(Declared(block, reads, writes, m.births))

    return enter


def _allocated(node: n.Node) -> tuple[n.Buffer, ...]:
    """The buffers of which a node makes new memory."""
    match node:
        case n.Block():
            return node.alloc_buffers
        case n.AllocBuffer(buffer) | n.BufferRealize(buffer) | n.DeclBuffer(buffer=buffer):
            return (buffer,)
        case _:
            return ()


def _declared(region: n.BufferRegion, written: Set[n.Buffer]) -> Callable[[Machine], tuple[n.Buffer, Box]]:
    """A region that a block declares: all of an axis where storage tells it that the block allocates or writes."""
    axes: list[tuple[list[n.Buffer], tuple[Run, Run], Run]] = []
    for x, size in zip(region.region, region.buffer.shape, strict=True):
        read = [e.buffer for part in (x.min, x.extent) for e in walk(part) if isinstance(e, n.BufferLoad)]
        axes.append((read, (compiled(x.min), compiled(x.extent)), compiled(size)))

    def box(m: Machine) -> tuple[n.Buffer, Box]:
        found = (
            (low(m), extent(m)) if all(m.has_memory(b) and b not in written for b in read) else (0, whole(m))
            for read, (low, extent), whole in axes
        )
        return region.buffer, tuple(found)

    return box


def _match(node: n.MatchBufferRegion) -> Act:
    """The buffer as another name for a region: new shape, strides and offset over the same memory."""
    buffer, source = node.buffer, node.source
    ranges = [(compiled(r.min), compiled(r.extent)) for r in source.region]

    def run(m: Machine) -> None:
        view = m.view(source.buffer, node.span)
        offset: Value = view.offset
        extents: list[Value] = []
        for (low, extent), stride in zip(ranges, view.strides, strict=True):
            offset = offset + _number(low(m)) * stride
            extents.append(_number(extent(m)))
        left_out = len(extents) - len(buffer.shape)
        if left_out < 0:
            raise error("TR11", f"{buffer.name!r} has more dimensions than the region that it matches.", node.span)
        steps = view.strides[left_out:]
        for declared, extent in zip(buffer.shape, extents[left_out:], strict=True):
            _bind(m, declared, extent, buffer.name, "extent", node.span)
        for declared, step in zip(buffer.strides, steps, strict=False):
            _bind(m, declared, step, buffer.name, "stride", node.span)
        if isinstance(buffer.elem_offset, n.Var):
            _bind(m, buffer.elem_offset, offset, buffer.name, "offset", node.span)
        new = View(view.memory, view.dtype, view.lanes, tuple(extents[left_out:]), steps, offset)
        m.views[buffer] = new
        pointer = Pointer(view.memory, 0, new)
        m.env[buffer.data] = pointer
        if buffer.name in m.watch:
            m.watched.setdefault(buffer.name, new)

    return run


def _bind(m: Machine, declared: n.Expr, value: Value, name: str, what: str, span: Span) -> None:
    """A variable takes the value; what is known already must be it."""
    if isinstance(declared, n.Var) and (what != "extent" or declared not in m.env):
        m.env[declared] = np.asarray(value).astype(declared.dtype.numpy)[()]
        return
    known = compiled(declared)(m)
    if np.any(m.narrowed(known != value)):
        message = f"{name!r} declares the {what} {_shown(known)}, but the region has {_shown(value)}."
        raise error("TR11", message, span)


def _shown(value: Value) -> object:
    return value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value
