"""Statements, one class per construct."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir.dtypes import DataType
from tensorir.tir.nodes.base import Node
from tensorir.tir.nodes.buffers import Buffer, BufferRegion, IterVar, MatchBufferRegion, Range
from tensorir.tir.nodes.expressions import Expr, Var

if TYPE_CHECKING:
    from tensorir.tir.nodes.functions import Attribute

__all__ = [
    "AllocBuffer",
    "Allocate",
    "AllocateConst",
    "AssertStmt",
    "AttrStmt",
    "Block",
    "BlockRealize",
    "Break",
    "BufferRealize",
    "BufferStore",
    "Continue",
    "DeclBuffer",
    "Evaluate",
    "For",
    "ForKind",
    "IfThenElse",
    "LetStmt",
    "MetadataText",
    "Prefetch",
    "SeqStmt",
    "Stmt",
    "Store",
    "While",
]


class Stmt(Node):
    """A statement."""

    __slots__ = ()
    span: Span


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LetStmt(Stmt):
    """`var` stands for `value` in the rest of the sequence."""

    var: Var
    value: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttrStmt(Stmt):
    """A fact about `body` for the compiler; `thread_extent` and `virtual_thread` bind `node` (an `IterVar`)."""

    node: Attribute
    attr_key: str
    value: Attribute
    body: Stmt
    span: Span = NOWHERE


class MetadataText(str):
    """A part of a message that text only refers to: `metadata["ir.StringImm"][0]`, which is also how it is shown."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AssertStmt(Stmt):
    """The program stops with an error `kind` that shows `message` (its parts, joined) unless `condition` holds."""

    condition: Expr
    message: tuple[str, ...]
    kind: str = "RuntimeError"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferStore(Stmt):
    """buffer[indices] = value"""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]
    predicate: Expr | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferRealize(Stmt):
    """TE: `buffer` exists, on `bounds`, in `body`."""

    buffer: Buffer
    bounds: tuple[Range, ...]
    condition: Expr
    body: Stmt
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocate(Stmt):
    """Memory behind the pointer `buffer_var` for the rest of the sequence, which runs only where `condition` holds.

    Where the condition is not plainly true, the sequence is one of its own: a `SeqStmt` that starts with the statement.
    """

    buffer_var: Var
    dtype: DataType
    extents: tuple[Expr, ...]
    condition: Expr
    annotations: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AllocBuffer(Stmt):
    """A new buffer, with memory of its own, for the rest of the sequence (0.27's allocation)."""

    buffer: Buffer
    annotations: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AllocateConst(Stmt):
    """Deprecated: constant memory behind a pointer, with contents (`data`: numbers, or the index of a constant)."""

    buffer_var: Var
    dtype: DataType
    extents: tuple[Expr, ...]
    data: Attribute
    annotations: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DeclBuffer(Stmt):
    """`buffer` is a view of memory that exists already (behind `buffer.data`), for the rest of the sequence.

    `data` is the pointer expression that the view starts from: the data variable of another buffer, an allocated
    pointer, or a call that computes one (then `buffer.data` is a variable of its own, bound here). None: unbound.
    Elsewhere the pointer of a view is written `Call("buffer_data", (view,))`, which is the pointer `view.data`.
    """

    buffer: Buffer
    data: Expr | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SeqStmt(Stmt):
    """Statements one after the other; build with `tensorir.tir.build.seq`, which flattens."""

    seq: tuple[Stmt, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IfThenElse(Stmt):
    """One of two statements, or none."""

    condition: Expr
    then_case: Stmt
    else_case: Stmt | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluate(Stmt):
    """`value` for its effects; `Call(op="ret")` ends the function with a value."""

    value: Expr
    span: Span = NOWHERE


class ForKind(Enum):
    """How the iterations of a loop run; the value is the word of TVMScript."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unroll"
    THREAD_BINDING = "thread_binding"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class For(Stmt):
    """`body` for min <= loop_var < min + extent, by `step` where one is given."""

    loop_var: Var
    min: Expr
    extent: Expr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    step: Expr | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class While(Stmt):
    """`body` as long as `condition` holds."""

    condition: Expr
    body: Stmt
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Break(Stmt):
    """Leaves the innermost loop."""

    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Continue(Stmt):
    """Goes on with the next iteration of the innermost loop."""

    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prefetch(Stmt):
    """TE: a hint that a region will be read soon."""

    buffer: Buffer
    bounds: tuple[Range, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Store(Stmt):
    """Deprecated: the element at `index` behind a pointer becomes `value`."""

    buffer_var: Var
    value: Expr
    index: Expr
    predicate: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(Stmt):
    """A piece of a computation with its iterators and with what it declares to read and to write."""

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlockRealize(Stmt):
    """`block` with `values` for its iterators, where `predicate` holds."""

    values: tuple[Expr, ...]
    predicate: Expr
    block: Block
    span: Span = NOWHERE
