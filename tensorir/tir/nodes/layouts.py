"""Layouts of 0.27: where the elements of a buffer lie, as `T.TileLayout(T.S[shape:strides] + T.R[...] + offset)`."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir.nodes.base import Node
from tensorir.tir.nodes.expressions import Expr, IntImm, Mul

__all__ = ["ComposeLayout", "LayoutIter", "OnAxis", "TileLayout"]

MEMORY = "m"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OnAxis(Node):
    """A distance along an axis of the hardware (`4 @ Axis.laneid`); "m" is the memory, and is not written."""

    value: Expr
    axis: str = MEMORY
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LayoutIter(Node):
    """An index that runs over `extent` and moves by `stride`."""

    extent: Expr
    stride: OnAxis
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TileLayout(Node):
    """Places of elements: the index taken apart over `shard`, copies over `replica`, all moved by `offset`."""

    shard: tuple[LayoutIter, ...]
    replica: tuple[LayoutIter, ...] = ()
    offset: tuple[OnAxis, ...] = ()
    span: Span = NOWHERE

    @property
    def is_row_major(self) -> bool:
        """Whether the elements lie compact, in the order of their indices, once each.

        >>> from tensorir.tir.build import const
        >>> one, two, three = const(1), const(2), const(3)
        >>> rows, columns = LayoutIter(two, OnAxis(three)), LayoutIter(three, OnAxis(one))
        >>> TileLayout((rows, columns)).is_row_major, TileLayout((columns, rows)).is_row_major
        (True, False)
        """
        step: Expr | None = None
        for part in reversed(self.shard):
            if not _is_one(part.extent):
                if part.stride.axis != MEMORY or not _same(part.stride.value, step):
                    return False
                step = _times(part.extent, step)
        return not self.offset and all(_is_one(part.extent) for part in self.replica)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ComposeLayout(Node):
    """A tile layout whose places are swizzled."""

    per_element: int
    swizzle_len: int
    atom_len: int
    tile_layout: TileLayout
    swizzle_inner: bool = True
    span: Span = NOWHERE

    @property
    def is_row_major(self) -> bool:
        """Whether nothing is swizzled."""
        return self.swizzle_len == 0 and self.tile_layout.is_row_major


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def _same(stride: Expr, step: Expr | None) -> bool:
    """Whether a stride is the step, for which None stands where it is one."""
    if step is None:
        return _is_one(stride)
    if isinstance(stride, IntImm) and isinstance(step, IntImm):
        return stride.value == step.value
    return stride == step


def _times(extent: Expr, step: Expr | None) -> Expr:
    if step is None:
        return extent
    if isinstance(extent, IntImm) and isinstance(step, IntImm):
        return IntImm(extent.value * step.value, extent.dtype)
    return Mul(extent, step)
