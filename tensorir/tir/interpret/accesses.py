"""Accesses to buffers: their address, the bounds and declared regions that checked mode asks, and what is undefined."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tensorir.runtime.errors import DiagnosticError, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.interpret.machine import Act, Machine, Run, compiled
from tensorir.tir.interpret.memory import Pointer, View
from tensorir.tir.interpret.values import Value, is_array
from tensorir.tir.trees import walk

# What checked mode asks of an access: that it is inside of the buffer's shape, and of what the blocks declare.


def check_bounds(
    m: Machine,
    buffer: n.Buffer,
    view: View,
    indices: list[Value],
    vector: bool,
    span: Span,
    lanes: Value = None,
) -> None:
    """Every index is at least 0 and below the extent of its dimension; the values are noted for the blocks' check."""
    for place, (index, extent) in enumerate(zip(indices, view.shape, strict=True)):
        if is_array(index) and index.size == 0:
            continue
        wide = vector and place == len(indices) - 1
        high = extent[..., None] if wide and is_array(extent) else extent
        bad = (index < 0) | (index >= high)
        if wide and lanes is not None:
            bad = bad & lanes
        if np.any(bad) and np.any(bad := live(m, bad, wide)):
            shown = int(np.broadcast_to(index, np.shape(bad))[bad][0])
            where = f"dimension {place} of {buffer.name!r}, which has {int(np.max(extent))} elements"
            raise refuse("TR01", f"index {shown} is outside of {where}.", at=span, notes=iteration(m, bad, wide))
    if m.blocks:
        m.blocks[-1].last[buffer] = (indices, vector)


def live(m: Machine, bad: Value, wide: bool) -> Value:
    """The mask of a fault among the lanes that take part."""
    if m.mask is None:
        return bad
    return bad & (m.mask[..., None] if wide and is_array(m.mask) else m.mask)


def iteration(m: Machine, bad: Value, wide: bool) -> tuple[str, ...]:
    """The first iteration for which it happens, as a note."""
    if not m.axes:
        return m.where()
    lanes = np.broadcast_to(bad.any(axis=-1) if wide else bad, m.lanes)
    at = np.argwhere(lanes)[0][::-1]
    named: list[tuple[str, Any]] = []
    serial = {name for name, _ in m.trace}
    for axis, index in zip(m.axes, at, strict=True):
        # a loop that is watched while it runs in order is an axis of one place
        if len(axis.values) > 1 or axis.name not in serial:
            named.append((axis.name, axis.low + int(axis.values[index]) * axis.step))
    return ("in the iteration " + ", ".join(f"{name} = {value}" for name, value in [*m.trace, *named]) + ".",)


def check_declared(m: Machine, buffer: n.Buffer, write: bool, span: Span) -> None:
    """The access that was just checked lies inside of what every block around declares of memory older than itself."""
    indices, vector = m.blocks[-1].last.get(buffer, (None, False))
    if indices is None:
        return
    view = m.view(buffer)
    for block in reversed(m.blocks):
        if view.memory.born > block.born:
            return
        named = block.writes if write else (*block.reads, *block.writes)
        parts = [_within(m, declared, box, buffer, view, indices, vector) for declared, box in named]
        if any(part is None for part in parts):
            continue
        inside: Value = np.False_
        for part in parts:
            inside = inside | part
        bad = live(m, ~np.asarray(inside), vector)
        if np.any(bad):
            shown = [_widened(i, vector and place < len(indices) - 1) for place, i in enumerate(indices)]
            everywhere = np.broadcast_shapes(np.shape(bad), *map(np.shape, shown))
            first = np.argwhere(np.broadcast_to(bad, everywhere))[0]
            at = tuple(int(np.broadcast_to(i, everywhere)[tuple(first)]) for i in shown)
            verb, where = ("written", "T.writes") if write else ("read", "T.reads")
            access = f"element {at} of {buffer.name!r} is {verb}"
            message = f"{access}, but {where} of the block {block.node.name!r} leaves it out."
            raise refuse("TR04", message, at=span, notes=iteration(m, np.asarray(bad), vector))


Box = tuple[tuple[Value, Value], ...]


def _within(
    m: Machine, declared: n.Buffer, box: Box, buffer: n.Buffer, view: View, indices: list[Value], vector: bool
) -> Value | None:
    """A mask of accesses inside of a declared box; None where that cannot be decided."""
    places = indices
    if declared is not buffer:
        other = m.view(declared)
        if other.memory is not view.memory:
            return np.False_
        found = _coordinates(other, view, indices, vector)
        if found is None:
            return None
        places = found
    holds: Value = np.True_
    for place, (index, (low, extent)) in enumerate(zip(places, box, strict=True)):
        index = _widened(index, vector and declared is buffer and place < len(places) - 1)
        # the end of a box does not always fit the type of an index that was read
        low, extent = (np.asarray(_widened(x, vector)).astype(np.int64) for x in (low, extent))
        holds = holds & (index >= low) & (index < low + extent)
    return holds


def _coordinates(other: View, view: View, indices: list[Value], vector: bool) -> list[Value] | None:
    """The indices of an element in another buffer over the same memory; None where strides or types forbid it."""
    if other.dtype != view.dtype or other.lanes != 1 or view.lanes != 1:
        return None
    strides = [int(s) for s in other.strides if np.ndim(s) == 0]
    if len(strides) != len(other.strides) or any(a < b for a, b in pairwise(strides)) or strides[-1:] == [0]:
        return None
    rest = np.asarray(view.address(indices, vector)) - _widened(other.offset, vector)
    found: list[Value] = []
    for place, stride in enumerate(strides):
        found.append(rest // stride if place or stride else rest)
        rest = rest % stride
    return found


def _widened(value: Value, wide: bool) -> Value:
    return value[..., None] if wide and is_array(value) else value


def check_domain(m: Machine, iterator: n.IterVar, low: Value, extent: Value, span: Span) -> None:
    """The value of a block's iterator lies inside of its domain, wherever the block runs.

    A computed extent that is not positive says nothing: legalised operators of TVM have blocks that run all the same.
    """
    value = m.env[iterator.var]
    bad = (value < low) | (value >= low + extent)
    if iterator.dom is not None and not isinstance(iterator.dom.extent, n.IntImm):
        bad = bad & (extent > 0)
    if np.any(bad) and np.any(bad := live(m, bad, False)):
        shown = int(np.broadcast_to(value, np.shape(bad))[bad][0])
        first, last = (int(np.broadcast_to(x, np.shape(bad))[bad][0]) for x in (low, low + extent - 1))
        message = f"the iterator {iterator.var.name!r} is {shown}, outside of its domain, {first} to {last}."
        raise refuse("TR13", message, at=span, notes=iteration(m, np.asarray(bad), False))


_WORDS: dict[type[n.BinaryOp], str] = {n.Add: "+", n.Sub: "-", n.Mul: "*"}


def check_overflow(m: Machine, node: n.BinaryOp, x: Value, y: Value) -> None:
    """A sum, difference or product inside of an index is a number that its type holds."""
    low, high = node.a.dtype.range
    wide = node.a.dtype.lanes != 1
    bad = _overflows(node, x, y, low, high)
    if np.any(bad) and np.any(bad := live(m, np.asarray(bad), wide)):
        a, b = (int(np.broadcast_to(v, np.shape(bad))[bad][0]) for v in (x, y))
        raise _overflow(m, node, f"{a} {_WORDS[type(node)]} {b}", bad, wide)


def _overflows(node: n.BinaryOp, x: Value, y: Value, low: int, high: int) -> Value:
    if node.a.dtype.bits < 64:
        exact = _exact(node, np.asarray(x).astype(np.int64), np.asarray(y).astype(np.int64))
        return (exact < low) | (exact > high)
    # A product of doubles is near enough to tell whether the exact one has to be looked at.
    near = _exact(node, np.asarray(x).astype(np.float64), np.asarray(y).astype(np.float64))
    if not np.any((near < 0.99 * low) | (near > 0.99 * high)):
        return np.False_
    exact = _exact(node, np.asarray(x).astype(object), np.asarray(y).astype(object))
    return np.asarray((exact < low) | (exact > high), bool)


def _exact(node: n.BinaryOp, x: Value, y: Value) -> Value:
    match node:
        case n.Add():
            return x + y
        case n.Sub():
            return x - y
        case _:
            return x * y


def _overflow(m: Machine, node: n.Expr, what: str, bad: Value, wide: bool) -> DiagnosticError:
    message = f"integer overflow in an index: {what} is no {node.dtype.element}."
    return refuse(
        "TR15", message, "compute the index in int64.", at=node.span, notes=iteration(m, np.asarray(bad), wide)
    )


def check_ramp(m: Machine, node: n.Ramp, first: Value, step: Value) -> None:
    """The last lane of a vector of indices is a number that its type holds."""
    low, high = node.base.dtype.range
    last = n.lane_count(node.lanes) - 1
    bad = np.asarray([not low <= int(a) + int(b) * last <= high for a, b in np.broadcast(first, step)])
    bad = bad.reshape(np.broadcast_shapes(np.shape(first), np.shape(step)))
    if bad.any() and np.any(bad := live(m, bad, True)):
        a, b = (int(np.broadcast_to(v, np.shape(bad))[bad][0]) for v in (first, step))
        raise _overflow(m, node, f"{a} + {b} * {last}", bad, True)


# The memory and the address that an access to a buffer means.


def access(
    buffer: n.Buffer, indices: tuple[n.Expr, ...], span: Span, predicate: Run | None = None
) -> Callable[[Machine], tuple[View, Value]]:
    """The view and the address that an access to a buffer means; `predicate` says which lanes of a vector count."""
    places = [compiled(index) for index in indices]
    vector = bool(indices) and indices[-1].dtype.lanes != 1

    def run(m: Machine) -> tuple[View, Value]:
        view = m.views.get(buffer)
        if view is None:
            view = m.view(buffer, span)
        if m.checked:
            m.indexing += 1
            values = [place(m) for place in places]
            m.indexing -= 1
        else:
            values = [place(m) for place in places]
        if len(values) != len(view.strides):
            message = f"{buffer.name!r} has {len(view.strides)} dimensions, but is indexed by {len(values)}."
            raise refuse("TR09", message, at=span)
        if m.checked:
            check_bounds(m, buffer, view, values, vector, span, None if predicate is None else predicate(m))
        return view, view.address(values, vector)

    return run


def pointer_to(m: Machine, buffer: n.Buffer, span: Span) -> Pointer:
    """The pointer at which a buffer starts."""
    view = m.view(buffer, span)
    return Pointer(view.memory, view.offset * view.dtype.itemsize * view.lanes, view)


# What TIR leaves undefined: it is 0, and checked mode tells of it, with the iteration and the value.


def check_divisor(m: Machine, node: n.BinaryOp, divisor: Value) -> None:
    """No integer is divided by zero."""
    _told(m, node, divisor, np.asarray(divisor == 0), "TR08", "division of an integer by zero.")


def check_shift(m: Machine, node: n.Call, by: Value) -> None:
    """The places of a shift are fewer than the type has."""
    bits = node.dtype.bits
    message = f"a shift by {{}} places, of {node.dtype.element}, which has {bits}."
    _told(m, node, by, np.asarray((by < 0) | (by >= bits)), "TR19", message)


def check_cast(m: Machine, node: n.Cast, value: Value) -> None:
    """A float that becomes an integer is near to one of the type."""
    low, high = node.dtype.element.range
    whole = np.trunc(np.asarray(value).astype(np.float64))
    bad = ~((whole >= float(low)) & (whole < float(high) + 1.0))
    _told(m, node, value, bad, "TR26", f"{{}} becomes {node.dtype.element}, which holds {low} to {high}.")


def _told(m: Machine, node: n.Expr, value: Value, bad: Value, code: str, message: str) -> None:
    wide = node.dtype.lanes != 1
    if np.any(bad) and np.any(bad := live(m, bad, wide)):
        first = np.broadcast_to(value, np.shape(bad))[bad][0]
        shown = f"{first:g}" if isinstance(first, np.floating) else str(first)
        raise refuse(code, message.format(shown), at=node.span, notes=iteration(m, np.asarray(bad), wide))


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
            raise refuse("TR11", f"{buffer.name!r} has more dimensions than the region that it matches.", at=node.span)
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
        raise refuse("TR11", message, at=span)


def _shown(value: Value) -> object:
    return value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value


_FOLDS: dict[type[n.Expr], np.ufunc] = {n.Add: np.add, n.Mul: np.multiply, n.Max: np.maximum, n.Min: np.minimum}


def update_of(store: n.BufferStore) -> tuple[np.ufunc, n.Expr] | None:
    """The fold and the term of an update `B[f] = B[f] + e`, where neither reads B otherwise."""
    value, dtype = store.value, store.buffer.dtype
    if not isinstance(value, n.Add | n.Mul | n.Max | n.Min) or store.predicate is not None or value.dtype != dtype:
        return None
    if dtype.lanes != 1 or dtype.is_bool or (dtype.is_float and isinstance(value, n.Max | n.Min)):
        return None  # the maximum of floats has its own rule for NaN
    for old, term in ((value.a, value.b), (value.b, value.a)):
        if isinstance(old, n.BufferLoad) and old.buffer is store.buffer and old.indices == store.indices:
            parts = [x for part in (term, *store.indices) for x in walk(part)]
            if not any(isinstance(x, n.BufferLoad) and x.buffer is store.buffer for x in parts):
                return _FOLDS[type(value)], term
    return None
