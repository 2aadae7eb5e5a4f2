"""What holds in a block: buffers with memory of their own, the regions that it declares, and names of regions."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.interpret.arithmetic import Value, is_array
from tensorir.tir.interpret.bounds import check_domain
from tensorir.tir.interpret.code import Act, Run, compiled
from tensorir.tir.interpret.machine import Machine, error
from tensorir.tir.interpret.memory import Pointer, View
from tensorir.tir.walk import walk

__all__ = ["create", "entering", "matched", "whole"]


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
    """What a block that runs has declared: boxes of buffers. Memory born after the block needs no declaration."""

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
