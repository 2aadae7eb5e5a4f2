"""The rules of a buffer's declaration."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.tir import nodes as n
from tensorir.tir.check.expressions import Finding
from tensorir.tir.dtypes import HANDLE

__all__ = ["buffer_rule"]


def buffer_rule(buffer: n.Buffer) -> Iterator[Finding]:
    """Extents, strides and offset are scalar integers, the pointer is one, and the elements are numbers."""
    name = repr(buffer.name)
    for place, extent in enumerate(buffer.shape):
        if not _is_size(extent):
            yield "TC32", f"extent {place} of {name} is a scalar integer, and not {extent.dtype}.", "error"
        elif isinstance(extent, n.IntImm) and extent.value < 0:
            yield "TC32", f"extent {place} of {name} is {extent.value}; no extent is negative.", "error"
    if buffer.strides and len(buffer.strides) != len(buffer.shape):
        message = f"{name} has {len(buffer.shape)} dimensions, but {len(buffer.strides)} strides."
        yield "TC33", message, "error"
    for stride in buffer.strides:
        if not _is_size(stride):
            yield "TC33", f"a stride of {name} is a scalar integer, and not {stride.dtype}.", "error"
    if any(not isinstance(stride, n.Var) for stride in buffer.strides):
        message = f"the strides of {name} are written out; the specification leaves them to the compiler."
        yield "TC33", message, "warning"
    if buffer.elem_offset is not None and not _is_size(buffer.elem_offset):
        yield "TC34", f"the offset of {name} is a scalar integer, and not {buffer.elem_offset.dtype}.", "error"
    if not isinstance(buffer.data.type, n.PointerType) and buffer.data.dtype != HANDLE:
        yield "TC35", f"the pointer of {name} is not of a pointer type.", "error"
    if buffer.dtype.code == "handle":
        yield "TC36", f"{name} holds handles; a buffer holds numbers.", "warning"


def _is_size(expr: n.Expr) -> bool:
    return expr.dtype.is_integer and expr.dtype.is_scalar
