"""Blocks, with memory of their own and declared regions, and reductions that are folded at once."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.interpret.accesses import access, check_declared, check_domain
from tensorir.tir.interpret.machine import Act, Machine, Run, compiled, error
from tensorir.tir.interpret.memory import Pointer, View
from tensorir.tir.interpret.values import Value, is_array
from tensorir.tir.trees import walk

# What holds in a block: buffers with memory of their own, the regions that it declares, and names of regions.


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


def whole(value: Value) -> Value:
    """A number of elements, as an integer of Python or of 64 bits."""
    return value.astype(np.int64) if is_array(value) else int(value)


Box = tuple[tuple[Value, Value], ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """Declared regions of a running block: boxes of buffers. Memory born after the block needs no declaration."""

    node: n.Block
    reads: tuple[tuple[n.Buffer, Box], ...]
    writes: tuple[tuple[n.Buffer, Box], ...]
    born: int
    last: dict[n.Buffer, tuple[list[Value], bool]] = field(default_factory=dict[n.Buffer, Any])


def entering(block: n.Block, span: Span) -> Act:
    """In checked mode: the iterators are inside of their domains, and from here on the block's regions hold."""
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


def matched(node: n.MatchBufferRegion) -> Act:
    """The buffer as another name for a region: new shape, strides and offset over the same memory."""
    buffer, source = node.buffer, node.source
    ranges = [(compiled(r.min), compiled(r.extent)) for r in source.region]

    def run(m: Machine) -> None:
        view = m.view(source.buffer, node.span)
        offset: Value = view.offset
        extents: list[Value] = []
        for (low, extent), stride in zip(ranges, view.strides, strict=True):
            offset = offset + whole(low(m)) * stride
            extents.append(whole(extent(m)))
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


# Reductions `B[f] = B[f] + e`, folded at once: the values e of all iterations, then one fold in the source's order.
#
# A nest qualifies if its body is one such update, perhaps behind guards and with a store that initialises; e and f
# must not read what is written. `ufunc.at` takes the iterations in the order of the text, one after the other, so
# that floats round as they would step by step.

_FUNCTIONS: dict[type[n.Expr], Any] = {n.Add: np.add, n.Mul: np.multiply, n.Max: np.maximum, n.Min: np.minimum}


@dataclass(slots=True)
class Fold:
    """The body of a reduction: what to bind, which guards hold, how to start, and the update."""

    bind: list[Callable[[Machine], Value | None]] = field(default_factory=list[Any])
    start: tuple[Callable[[Machine], Value], n.BufferStore] | None = None
    update: n.BufferStore | None = None
    term: n.Expr | None = None
    function: Any = None
    reads: set[n.Buffer] = field(default_factory=set[n.Buffer])

    def run(self, m: Machine) -> bool:
        """Fold over the lanes of the machine; False, with nothing changed, where iterations may meet otherwise."""
        assert self.update is not None and self.term is not None
        view = m.view(self.update.buffer)
        if any(m.view(buffer).memory is view.memory for buffer in self.reads):
            return False
        before, blocks = m.mask, len(m.blocks)
        try:
            for step in self.bind:
                guard = step(m)
                if guard is not None:
                    mask = m.narrowed(guard)
                    if not np.any(mask):
                        return True
                    m.mask = None if np.ndim(mask) == 0 else mask
            return self._apply(m, view)
        finally:
            m.mask = before
            del m.blocks[blocks:]

    def _apply(self, m: Machine, view: View) -> bool:
        assert self.update is not None and self.term is not None
        places = _places(m, self.update, view)
        if places is None:
            return False
        lanes = _flat(m, places, m.mask)
        array = view.memory.typed(view.dtype)
        starts: Value = None
        if self.start is not None:
            condition, store = self.start
            first = m.narrowed(condition(m))
            if np.any(first):
                with m.masked(None if np.ndim(first) == 0 else first):
                    into = _places(m, store, view)
                    value = compiled(store.value)(m)
                    _declared_in_folds(m, store)
                if into is None:
                    return False
                starts = _flat(m, into, first)
                order = _flat(m, _order(m), first)
                if not _starts_first(array.size, starts, order, lanes, _flat(m, _order(m), m.mask)):
                    return False
                self._note(m, view, into, first, store)
                values = _flat(m, value, first)
                if m.undo is not None:
                    m.undo.append((array, starts, array[starts]))
                array[starts] = values
        term = compiled(self.term)(m)
        _declared_in_folds(m, self.update)
        self._note(m, view, places, m.mask, self.update)
        terms = _flat(m, term, m.mask)
        if m.undo is not None:
            once = np.unique(lanes)
            m.undo.append((array, once, array[once]))
        self.function.at(array, lanes, terms)
        return True

    def _note(self, m: Machine, view: View, places: Value, mask: Value, store: n.BufferStore) -> None:
        if m.levels or m.checked:
            if store is self.update:
                m.note(view, places, mask, False, store.span)
            m.note(view, places, mask, True, store.span)


def _declared_in_folds(m: Machine, store: n.BufferStore) -> None:
    if m.checked and m.blocks:
        check_declared(m, store.buffer, True, store.span)


def _order(m: Machine) -> Value:
    """The place of each lane in the order of the text."""
    return np.arange(int(np.prod(m.lanes, dtype=np.int64))).reshape(m.lanes[::-1]).transpose()


def _flat(m: Machine, value: Value, mask: Value) -> Value:
    """The values of the lanes that take part, in the order of the text: outer loops vary slowest."""
    whole = np.broadcast_to(value, m.lanes).transpose().ravel()
    if mask is None or np.ndim(mask) == 0:
        return whole
    return whole[np.broadcast_to(mask, m.lanes).transpose().ravel()]


def _places(m: Machine, store: n.BufferStore, view: View) -> Value | None:
    """The addresses of the lanes' stores, checked to be inside of the memory; None where that is decided lane by
    lane.
    """
    found, address = access(store.buffer, store.indices, store.span)(m)
    limit = view.memory.size // view.dtype.itemsize
    live = _flat(m, address, m.mask)
    if live.size and (live.min() < 0 or live.max() >= limit):
        return None
    address = np.clip(address, 0, limit - 1)
    return address if isinstance(found.memory.copy, int) else address + found.memory.copy * limit


def _starts_first(size: int, starts: Value, start_order: Value, places: Value, order: Value) -> bool:
    """True if every element is initialised at most once, and before it is updated."""
    if np.unique(starts).size != starts.size:
        return False
    first = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first, places, order)
    return bool(np.all(first[starts] >= start_order))


def fold_of(body: n.Stmt) -> Fold | None:
    """The fold that a body is, if it is one."""
    fold = Fold()
    return fold if _collect(body, fold) else None


def _collect(node: n.Stmt, fold: Fold) -> bool:
    match node:
        case n.BufferStore():
            return _update(node, fold)
        case n.IfThenElse(condition, then, None) if _pure(condition, fold):
            fold.bind.append(compiled(condition))
            return _collect(then, fold)
        case n.SeqStmt((*first, last)):
            return all(_prepare(part, fold) for part in first) and _collect(last, fold)
        case n.BlockRealize(values, predicate, block) if not (block.alloc_buffers or block.match_buffers):
            if not all(_pure(v, fold) for v in (*values, predicate)):
                return False
            for iterator, value in zip(block.iter_vars, values, strict=True):
                fold.bind.append(_binding(iterator.var, value, True))
            fold.bind.append(compiled(predicate))
            fold.bind.append(entering(block, node.span))
            if block.init is not None:
                kinds = [i for i in block.iter_vars if i.kind is n.IterKind.COMM_REDUCE]
                if not isinstance(block.init, n.BufferStore) or not _start(block.init, _at_start(kinds), fold):
                    return False
            return _collect(block.body, fold)
        case _:
            return False


def _prepare(node: n.Stmt, fold: Fold) -> bool:
    match node:
        case n.LetStmt(var, value) if _pure(value, fold):
            fold.bind.append(_binding(var, value, False))
            return True
        case n.IfThenElse(condition, n.BufferStore() as store, None) if _pure(condition, fold):
            return _start(store, compiled(condition), fold)
        case _:
            return False


def _start(store: n.BufferStore, condition: Callable[[Machine], Value], fold: Fold) -> bool:
    if fold.start is not None or store.predicate is not None or not _pure(store.value, fold):
        return False
    if store.value.dtype != store.buffer.dtype or not all(_pure(i, fold) for i in store.indices):
        return False
    fold.start = (condition, store)
    return True


def _at_start(iterators: list[n.IterVar]) -> Callable[[Machine], Value]:
    lows = [(i.var, None if i.dom is None else compiled(i.dom.min)) for i in iterators]

    def first(m: Machine) -> Value:
        found: Value = np.True_
        for var, low in lows:
            found = found & (m.env[var] == (0 if low is None else low(m)))
        return found

    return first


def _binding(var: n.Var, value: n.Expr, index: bool) -> Callable[[Machine], None]:
    run = compiled(value)
    kind = var.dtype.numpy

    def bind(m: Machine) -> None:
        m.indexing += index and m.checked
        found = run(m)
        m.indexing -= index and m.checked
        m.env[var] = found if found.dtype == kind else found.astype(kind)

    return bind


def _update(store: n.BufferStore, fold: Fold) -> bool:
    if store.predicate is not None or store.value.dtype.lanes != 1 or store.buffer.dtype != store.value.dtype:
        return False
    if fold.start is not None and fold.start[1].buffer is not store.buffer:
        return False
    match store.value:
        case n.Add(a, b) | n.Mul(a, b) | n.Max(a, b) | n.Min(a, b):
            pass
        case _:
            return False
    if store.value.dtype.is_bool or (store.value.dtype.is_float and type(store.value) in (n.Max, n.Min)):
        return False  # the maximum of floats has its own rule for NaN
    old, term = (a, b) if isinstance(a, n.BufferLoad) and a.buffer is store.buffer else (b, a)
    same = isinstance(old, n.BufferLoad) and old.buffer is store.buffer and old.indices == store.indices
    if not same or not _pure(term, fold) or not all(_pure(i, fold) for i in store.indices):
        return False
    if store.buffer in fold.reads:
        return False
    fold.update, fold.term, fold.function = store, term, _FUNCTIONS[type(store.value)]
    return True


def _pure(expr: n.Expr, fold: Fold) -> bool:
    """True if an expression only computes; notes what it reads."""
    for node in walk(expr):
        match node:
            case n.BufferLoad(buffer):
                fold.reads.add(buffer)
            case n.Let() | n.Reduce() | n.Load():
                return False
            case _:
                pass
    return True
