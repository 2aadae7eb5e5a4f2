"""Statements, functions and modules of TIR, and layouts of buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Displayed, Span, did_you_mean, refuse
from tensorir.tir.dtypes import DataType
from tensorir.tir.nodes.expressions import (
    Attribute,
    Buffer,
    BufferRegion,
    Expr,
    IntImm,
    IterVar,
    MatchBufferRegion,
    Mul,
    Node,
    Range,
    Type,
    Var,
    print_tir,
)

# Layouts of 0.27: where the elements of a buffer lie, as `T.TileLayout(T.S[shape:strides] + T.R[...] + offset)`.

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
        """True if the elements lie compact, in the order of their indices, once each.

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
        """True if nothing is swizzled."""
        return self.swizzle_len == 0 and self.tile_layout.is_row_major


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def _same(stride: Expr, step: Expr | None) -> bool:
    """True if a stride is the step, for which None stands where it is one."""
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


# Statements, one class per construct.


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
    """The kind of a loop; the value is the word of TVMScript."""

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


# Functions and modules.


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimFunc(Node, Displayed):
    """A function: parameters, the buffers that some of them are, a body.

    `attrs["global_symbol"]` is the name under which the function is known outside; private functions have none.
    `module` is the module that the function was taken from (`mod["main"]`), so that its calls resolve.
    """

    _drawn_by: ClassVar[str] = "tensorir.tir.printer:page_of"

    is_closed: ClassVar[bool] = True

    name: str
    params: tuple[Var, ...]
    buffer_map: Mapping[Var, Buffer]
    body: Stmt
    ret_type: Type | None = None
    attrs: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    s_tir: bool = True
    module: IRModule | None = None
    span: Span = NOWHERE

    def __str__(self) -> str:
        return print_tir(self)


class GraphNode(Node):
    """A node of a graph of operators around functions of TIR; the package above, `tensorir.relax`, has all of them."""

    __slots__ = ()


class GraphFunction(GraphNode, Displayed):
    """A function of a module that is a graph of operators."""

    __slots__ = ()
    _drawn_by: ClassVar[str] = "tensorir.tir.printer:page_of"
    is_closed = True

    name: str
    params: tuple[Any, ...]
    module: IRModule | None

    def __str__(self) -> str:
        return print_tir(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IRModule(Node, Displayed):
    """Functions by name, in the order of the text.

    `metadata` holds what `metadata["key"][index]` in the text refers to, where it was supplied. `wanting` tells of
    kernels of a text of TileLang that constants without values left out, by name.
    """

    _drawn_by: ClassVar[str] = "tensorir.tir.printer:page_of"

    is_closed: ClassVar[bool] = True

    functions: Mapping[str, PrimFunc | GraphFunction]
    attrs: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    global_infos: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    metadata: Mapping[str, object] | None = None
    name: str = "Module"
    span: Span = NOWHERE
    wanting: Mapping[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])

    def __getitem__(self, name: str) -> PrimFunc | GraphFunction:
        """The function of that name, which knows this module."""
        if name in self.wanting:
            raise DiagnosticError(self.wanting[name])
        if name not in self.functions:
            hint = did_you_mean(name, self.functions)
            raise refuse("TS60", f"the module has no function {name!r}.", hint, at=self.span)
        function: Any = self.functions[name]
        return replace(function, module=self)

    def __str__(self) -> str:
        return print_tir(self)
