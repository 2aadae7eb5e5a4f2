"""Buffers, their regions, and the iterators that run over them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir.dtypes import DataType
from tensorir.tir.nodes.base import Node, PointerType
from tensorir.tir.nodes.expressions import Expr, Var

if TYPE_CHECKING:
    from tensorir.tir.nodes.functions import Attribute

__all__ = ["Buffer", "BufferRegion", "BufferType", "IterKind", "IterVar", "MatchBufferRegion", "Range"]


class BufferType(Enum):
    """How a buffer meets other shapes: AUTO_BROADCAST repeats extents of one."""

    DEFAULT = "default"
    AUTO_BROADCAST = "auto"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Buffer(Node):
    """A view of memory as an array. The object is the identity, as for variables.

    Empty `strides` mean row-major and compact. `elem_offset` None means zero, or what the caller passes. `layout`
    is None where the layout is the row-major one that nobody wrote down, "scalar" for a scalar of 0.27's text.
    """

    is_name: ClassVar[bool] = True

    data: Var
    dtype: DataType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr | None = None
    axis_separators: tuple[int, ...] = ()
    name: str = ""
    data_alignment: int = 64
    offset_factor: int = 1
    buffer_type: BufferType = BufferType.DEFAULT
    layout: Attribute = None
    span: Span = NOWHERE

    @property
    def scope(self) -> str:
        """The memory that the buffer lives in: "global", "shared", "local", ..."""
        return self.data.type.storage_scope if isinstance(self.data.type, PointerType) else "global"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Range(Node):
    """The integers from `min` up to, and without, `min + extent`."""

    min: Expr
    extent: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferRegion(Node):
    """A box of a buffer, one range per dimension."""

    buffer: Buffer
    region: tuple[Range, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatchBufferRegion(Node):
    """`buffer` as another name for the region `source`."""

    buffer: Buffer
    source: BufferRegion
    span: Span = NOWHERE


class IterKind(Enum):
    """What an iterator does; the value is its name in TVMScript (`T.axis.<value>`, or a loop's kind)."""

    DATA_PARALLEL = "spatial"
    THREAD_INDEX = "thread"
    COMM_REDUCE = "reduce"
    ORDERED = "scan"
    OPAQUE = "opaque"
    UNROLLED = "unrolled"
    VECTORIZED = "vectorized"
    PARALLELIZED = "parallelized"
    TENSORIZED = "tensorized"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IterVar(Node):
    """A variable that runs over `dom`; thread iterators name their hardware index in `thread_tag`."""

    dom: Range | None
    var: Var
    kind: IterKind
    thread_tag: str = ""
    span: Span = NOWHERE
