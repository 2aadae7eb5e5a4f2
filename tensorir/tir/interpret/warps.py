"""Values that threads of one warp hand to one another: shuffles, and which threads take part.

The threads of a block are numbered with `threadIdx.x` running fastest; `warp_size` of them are a warp, and `width` of
them, side by side, hand values around. A thread whose source is outside keeps its own value.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.interpret.arithmetic import Value
from tensorir.tir.interpret.code import compiled
from tensorir.tir.interpret.machine import Machine, error

__all__ = ["ACTIVE", "SHUFFLES"]

Run = Callable[[Machine], Value]
_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


def _threads(m: Machine, span: Span) -> list[int]:
    """The axes of the lanes that are threads of a block, slowest first."""
    if m.kernel is None:
        raise error("TR21", "threads of a warp hand values around, and this stands in no kernel.", span)
    known = [m.kernel.axes.get(tag) for tag in _TAGS]
    return [len(m.axes) - 1 - k for axis in known for k, a in enumerate(m.axes) if a is axis]


def _lined_up(m: Machine, value: Value, axes: list[int]) -> Value:
    """The value of every lane, the threads of a block in one last axis."""
    whole = np.moveaxis(np.broadcast_to(value, m.lanes), axes, range(-len(axes), 0))
    return whole.reshape(*whole.shape[: whole.ndim - len(axes)], -1)


def _back(m: Machine, value: Value, axes: list[int]) -> Value:
    shape = [m.lanes[axis] for axis in axes]
    return np.moveaxis(value.reshape(*value.shape[:-1], *shape), range(-len(axes), 0), axes)


def _shuffle(source: Callable[[Value, Value, int], Value]) -> Callable[[n.Call], Run]:
    """A shuffle; `source` says from which lane of its group each lane takes the value."""

    def make(node: n.Call) -> Run:
        _, value, by, width, warp = (compiled(a) for a in node.args[:5] if isinstance(a, n.Expr))

        def run(m: Machine) -> Value:
            axes = _threads(m, node.span)
            if not axes:
                return value(m)
            own = _lined_up(m, value(m), axes)
            thread = np.arange(own.shape[-1])
            size, group = int(np.max(warp(m))), int(np.max(width(m)))
            within = thread % size % group
            taken = source(within, _lined_up(m, by(m), axes), group)
            kept = (taken < 0) | (taken >= group)
            place = thread - within + np.where(kept, within, taken)
            place = np.where(place < own.shape[-1], place, thread)
            live = _lined_up(m, m.active(), axes)
            place = np.broadcast_to(place, own.shape)
            there = np.take_along_axis(live, place, -1)
            if m.checked and (live & ~there).any():
                at = tuple(np.argwhere(live & ~there)[0])
                message = f"thread {at[-1]} takes a value from thread {place[at]}, which does not take part."
                raise error("TR16", message, node.span, *m.where())
            found = np.where(there, np.take_along_axis(own, place, -1), np.zeros((), own.dtype))
            return _back(m, found, axes)

        return run

    return make


def _active(node: n.Call) -> Run:
    """One bit per thread of the warp that takes part."""

    def run(m: Machine) -> Value:
        axes = _threads(m, node.span)
        if not axes:
            return node.dtype.numpy.type(1)
        live = _lined_up(m, m.active(), axes)
        count = live.shape[-1]
        padded = np.zeros((*live.shape[:-1], -(-count // 32) * 32), np.uint64)
        padded[..., :count] = live
        bits = (padded.reshape(*live.shape[:-1], -1, 32) << np.arange(32, dtype=np.uint64)).sum(-1)
        masks = np.repeat(bits, 32, axis=-1)[..., :count]
        return _back(m, masks.astype(np.uint32).astype(node.dtype.numpy), axes)

    return run


SHUFFLES: dict[str, Callable[[n.Call], Run]] = {
    "tvm_warp_shuffle": _shuffle(lambda within, by, width: by % width),
    "tvm_warp_shuffle_up": _shuffle(lambda within, by, width: within - by),
    "tvm_warp_shuffle_down": _shuffle(lambda within, by, width: within + by),
    "tvm_warp_shuffle_xor": _shuffle(lambda within, by, width: within ^ by),
}
"""The shuffles, by name: each makes the function of a call."""

ACTIVE: dict[str, Callable[[n.Call], Run]] = {"tvm_warp_activemask": _active}
