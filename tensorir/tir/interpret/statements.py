"""Statements as Python functions of the machine, one rule for each kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensorir.runtime.errors import refuse
from tensorir.tir import nodes as n
from tensorir.tir.build import branched
from tensorir.tir.interpret import loops, threads
from tensorir.tir.interpret.accesses import access, check_declared, create, entering, matched, update_of, whole
from tensorir.tir.interpret.expressions import store
from tensorir.tir.interpret.machine import Act, Machine, compiled, execute, holds
from tensorir.tir.interpret.memory import Memory, Pointer, View, row_major
from tensorir.tir.interpret.values import Value, cast
from tensorir.tir.storage import scratch_of
from tensorir.tir.trees import walk


def compile_statement(node: n.Stmt) -> Act:
    """The function of a statement, by the rule of its kind."""
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
            return store(node)
        case _:
            raise refuse("TR42", f"a {type(node).__name__} is not run.", at=node.span)


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
    predicate = None if node.predicate is None else holds(node.predicate)
    place, value = access(node.buffer, node.indices, node.span, predicate), compiled(node.value)
    buffer, span = node.buffer, node.span
    vector = node.value.dtype.lanes != 1
    source, target = node.value.dtype.element, node.buffer.dtype.element
    convert = source != target
    if convert and source.is_handle:
        raise refuse("TR20", f"a handle is stored into {buffer.name!r}, which holds {buffer.dtype}.", at=span)
    fold, term = (None, None) if (update := update_of(node)) is None else (update[0], compiled(update[1]))

    def run(m: Machine) -> None:
        if m.fold is not None and fold is not None and term is not None and m.levels[-1] is m.fold:
            view, address = place(m)
            limit = view.memory.size // view.dtype.itemsize
            if view.memory.unit == view.dtype.itemsize and np.all((address >= 0) & (address < limit)):
                if m.blocks and m.checked:
                    check_declared(m, buffer, True, span)
                m.update(view, address, term(m), fold, span)
                return
        new = value(m)
        if convert:
            new = cast(new, source, target)
        view, address = place(m)
        if m.blocks and m.checked and predicate is None:
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
    condition, then = holds(node.condition), execute(node.then_case)
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
    condition = holds(node.condition)
    message = "".join(node.message)

    def run(m: Machine) -> None:
        held = condition(m)
        if not np.all(held) and np.any(m.narrowed(~held)):
            raise refuse("TR10", f"{node.kind}: {message}", at=node.span, notes=m.where())

    return run


def _allocate(node: n.AllocBuffer | n.BufferRealize, buffer: n.Buffer) -> Act:
    shape = [compiled(extent) for extent in buffer.shape]
    body = execute(node.body) if isinstance(node, n.BufferRealize) else None
    span = node.span

    def run(m: Machine) -> None:
        create(m, buffer, tuple(whole(extent(m)) for extent in shape), span)
        if body is not None:
            body(m)

    return run


def _allocate_pointer(node: n.Allocate) -> Act:
    extents = [compiled(extent) for extent in node.extents]
    dtype, var = node.dtype, node.buffer_var
    scope = var.type.storage_scope if isinstance(var.type, n.PointerType) else "global"
    buffer = n.Buffer(var, dtype, node.extents, name=var.name, span=node.span)

    def run(m: Machine) -> None:
        shape = tuple(whole(extent(m)) for extent in extents)
        view = m.allocate(buffer, shape, node.span)
        view.memory.scope = scope
        m.env[var] = Pointer(view.memory, 0, view)

    return run


def _allocate_constant(node: n.AllocateConst) -> Act:
    data = node.data

    def run(m: Machine) -> None:
        if not isinstance(data, tuple):
            raise refuse("TR43", "the contents of this constant are not in the text.", at=node.span)
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
                create(m, buffer, tuple(whole(extent(m)) for extent in shape), span)
                return
            pointer = m.env[buffer.data]
        else:
            pointer = compiled(source)(m)
            if not isinstance(pointer, Pointer):
                raise refuse("TR07", f"{buffer.name!r} is declared over no memory.", at=span)
            if source is not buffer.data:
                m.env[buffer.data] = pointer
        extents = tuple(extent(m) for extent in shape)
        steps = tuple(stride(m) for stride in strides)
        view = m.alias(pointer, buffer, extents, steps, 0 if offset is None else offset(m))
        m.views[buffer] = view

    return run


def _realize(node: n.BlockRealize) -> Act:
    block = node.block
    values = [(iterator.var, compiled(v), v.dtype) for iterator, v in zip(block.iter_vars, node.values, strict=True)]
    predicate = None if isinstance(node.predicate, n.IntImm) and node.predicate.value else holds(node.predicate)
    body = execute(block.body)
    init = None if block.init is None else execute(block.init)
    reductions = [
        (i.var, None if i.dom is None else compiled(i.dom.min))
        for i in block.iter_vars
        if i.kind is n.IterKind.COMM_REDUCE
    ]
    allocations = [(b, [compiled(e) for e in b.shape]) for b in block.alloc_buffers]
    scratch = scratch_of(block)
    matches = [matched(m) for m in block.match_buffers]
    enter = entering(block, node.span)

    def inside(m: Machine) -> None:
        depth = len(m.blocks)
        enter(m)
        for buffer, extents in allocations:
            create(m, buffer, tuple(whole(extent(m)) for extent in extents), block.span)
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
