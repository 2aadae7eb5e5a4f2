"""What checked mode asks of an access: that it is inside of the buffer's shape, and of what the blocks declare."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.source import Span
from tensorir.tir import nodes as n
from tensorir.tir.interpret.arithmetic import Value
from tensorir.tir.interpret.machine import Machine, error
from tensorir.tir.interpret.memory import View

__all__ = ["check_bounds", "check_declared"]


def check_bounds(m: Machine, buffer: n.Buffer, view: View, indices: list[Value], vector: bool, span: Span) -> None:
    """Every index is at least 0 and below the extent of its dimension; the values are noted for the blocks' check."""
    for place, (index, extent) in enumerate(zip(indices, view.shape, strict=True)):
        if isinstance(index, np.ndarray) and index.size == 0:
            continue
        wide = vector and place == len(indices) - 1
        high = extent[..., None] if wide and isinstance(extent, np.ndarray) else extent
        bad = (index < 0) | (index >= high)
        if np.any(bad) and np.any(bad := _live(m, bad, wide)):
            shown = int(np.broadcast_to(index, np.shape(bad))[bad][0])
            where = f"dimension {place} of {buffer.name!r}, which has {_largest(extent)} elements"
            message = f"index {shown} is outside of {where}."
            raise error("TR01", message, span, *_iteration(m, bad, wide))
    if m.blocks:
        m.blocks[-1].last[buffer] = (indices, vector)


def _live(m: Machine, bad: Value, wide: bool) -> Value:
    if m.mask is None:
        return bad
    return bad & (m.mask[..., None] if wide and isinstance(m.mask, np.ndarray) else m.mask)


def _largest(extent: Value) -> int:
    return int(np.max(extent))


def _iteration(m: Machine, bad: Value, wide: bool) -> tuple[str, ...]:
    """The first iteration for which it happens, as a note."""
    if not m.axes:
        return m.where()
    lanes = np.broadcast_to(bad.any(axis=-1) if wide else bad, m.lanes)
    at = np.argwhere(lanes)[0][::-1]
    named: list[tuple[str, Any]] = []
    for axis, index in zip(m.axes, at, strict=True):
        named.append((axis.name, axis.low + int(axis.values[index]) * axis.step))
    return ("in the iteration " + ", ".join(f"{name} = {value}" for name, value in [*m.trace, *named]) + ".",)


def check_declared(m: Machine, buffer: n.Buffer, write: bool, span: Span) -> None:
    """The access that was just checked lies inside of a region that the innermost block with regions declares."""
    indices, vector = m.blocks[-1].last.get(buffer, (None, False))
    if indices is None or vector:
        return
    for block in reversed(m.blocks):
        if buffer in block.own:
            return
        if not (block.reads or block.writes):
            continue
        boxes = block.writes.get(buffer, []) if write else [*block.reads.get(buffer, []), *block.writes.get(buffer, [])]
        if not boxes and not _known(block, buffer) and _aliased(m, block, buffer):
            return
        inside: Value = np.False_
        for box in boxes:
            holds: Value = np.True_
            for index, (low, extent) in zip(indices, box, strict=True):
                holds = holds & (index >= low) & (index < low + extent)
            inside = inside | holds
        bad = ~np.asarray(inside) if m.mask is None else m.mask & ~np.asarray(inside)
        if np.any(bad):
            at = tuple(int(np.broadcast_to(i, np.shape(bad))[bad][0]) for i in indices)
            verb, where = ("written", "T.writes") if write else ("read", "T.reads")
            access = f"element {at} of {buffer.name!r} is {verb}"
            message = f"{access}, but {where} of the block {block.node.name!r} leaves it out."
            raise error("TR04", message, span, *_iteration(m, np.asarray(bad), False))
        return


def _known(block: Any, buffer: n.Buffer) -> bool:
    return buffer in block.reads or buffer in block.writes


def _aliased(m: Machine, block: Any, buffer: n.Buffer) -> bool:
    """Whether the block declares the memory of the buffer under another name."""
    memory = m.view(buffer).memory
    return any(b in m.views and m.views[b].memory is memory for b in (*block.reads, *block.writes))
