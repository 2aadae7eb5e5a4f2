"""Every node of TIR, on one page (specification: "TIR Language Specification", grammar).

Expressions carry the data type of their result, computed when they are built. Variables and buffers are *names*: two
are the same only if they are one object; all other nodes compare by structure, up to the names of the variables that
they bind, and never by spans.

Statements that bind a name for what follows (`LetStmt`, `Allocate`, `AllocBuffer`, `DeclBuffer`, `AllocateConst`) and
`AssertStmt` have no `body` field: their body is the rest of the sequence that they stand in, as in TVM 0.27. So a long
list of allocations or lets is a long `SeqStmt` and not a deep tree.

>>> from tensorir.tir.dtypes import INT32
>>> i = Var("i", PrimType(INT32))
>>> Add(i, IntImm(1, INT32)), Add(i, IntImm(1, INT32)).dtype == INT32
(i + 1, True)
>>> Add(i, i) == Add(i, i), i == Var("i", PrimType(INT32))
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from tensorir.source import NOWHERE, Span
from tensorir.tir.dtypes import BOOL, HANDLE, VOID, DataType

if TYPE_CHECKING:
    from tensorir.tir.relax.nodes import Function

_set = object.__setattr__


class Node:
    """What all nodes share: equality by structure, and text as representation."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node):
            return NotImplemented
        from tensorir.tir.equality import structurally_equal

        return structurally_equal(self, other)

    def __hash__(self) -> int:
        from tensorir.tir.equality import structural_hash

        return structural_hash(self)

    def __repr__(self) -> str:
        from tensorir.tir.printer import show

        return show(self)


# ---------------------------------------------------------------------------------------------------------------- types


@dataclass(frozen=True, slots=True)
class PrimType:
    """The type of a variable that is known no finer than by its data type."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer to elements in the memory that `storage_scope` names; element type None is an opaque pointer."""

    element_type: Type | None
    storage_scope: str = "global"


@dataclass(frozen=True, slots=True)
class TupleType:
    """Several values; without fields, no value."""

    fields: tuple[Type, ...] = ()


Type: TypeAlias = PrimType | PointerType | TupleType


# ---------------------------------------------------------------------------------------------------------- expressions


class Expr(Node):
    """An expression; `dtype` is the data type of its value."""

    __slots__ = ()
    dtype: DataType
    span: Span


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """A name for one value. The object is the identity: equal names are not equal variables."""

    name: str
    type: Type
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        match self.type:
            case PrimType(dtype):
                _set(self, "dtype", dtype)
            case PointerType():
                _set(self, "dtype", HANDLE)
            case TupleType():
                _set(self, "dtype", VOID)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntImm(Expr):
    """An integer constant (a bool is one of type `bool`)."""

    value: int
    dtype: DataType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatImm(Expr):
    """A floating-point constant, kept as the double that the text wrote."""

    value: float
    dtype: DataType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StringImm(Expr):
    """A string constant: a handle to its characters."""

    value: str
    span: Span = NOWHERE
    dtype: DataType = field(init=False, default=HANDLE)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(Expr):
    """`value` converted, as C would, to `dtype`."""

    value: Expr
    dtype: DataType
    span: Span = NOWHERE


class BinaryOp(Expr):
    """An arithmetic operator; the result has the type of `a`."""

    __slots__ = ()
    a: Expr
    b: Expr


class CmpOp(Expr):
    """A comparison; the result is a bool of as many lanes."""

    __slots__ = ()
    a: Expr
    b: Expr


class LogicalOp(Expr):
    """And, Or, Not."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Arithmetic(BinaryOp):
    a: Expr
    b: Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.a.dtype)


class Add(_Arithmetic):
    """a + b"""

    __slots__ = ()


class Sub(_Arithmetic):
    """a - b"""

    __slots__ = ()


class Mul(_Arithmetic):
    """a * b"""

    __slots__ = ()


class Div(_Arithmetic):
    """a / b; of integers it truncates towards zero, as in C."""

    __slots__ = ()


class Mod(_Arithmetic):
    """The remainder of `Div`: it has the sign of a."""

    __slots__ = ()


class FloorDiv(_Arithmetic):
    """The floor of the quotient."""

    __slots__ = ()


class FloorMod(_Arithmetic):
    """The remainder of `FloorDiv`: it has the sign of b."""

    __slots__ = ()


class Min(_Arithmetic):
    """The smaller of a and b."""

    __slots__ = ()


class Max(_Arithmetic):
    """The larger of a and b."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Comparison(CmpOp):
    a: Expr
    b: Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", BOOL.with_lanes(self.a.dtype.lanes))


class EQ(_Comparison):
    """a == b"""

    __slots__ = ()


class NE(_Comparison):
    """a != b"""

    __slots__ = ()


class LT(_Comparison):
    """a < b"""

    __slots__ = ()


class LE(_Comparison):
    """a <= b"""

    __slots__ = ()


class GT(_Comparison):
    """a > b"""

    __slots__ = ()


class GE(_Comparison):
    """a >= b"""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Connective(LogicalOp):
    a: Expr
    b: Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.a.dtype)


class And(_Connective):
    """a and b; of scalars b is evaluated only where a is true."""

    __slots__ = ()


class Or(_Connective):
    """a or b; of scalars b is evaluated only where a is false."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(LogicalOp):
    """not a"""

    a: Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.a.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(Expr):
    """One of two values, both of which are evaluated."""

    condition: Expr
    true_value: Expr
    false_value: Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.true_value.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferLoad(Expr):
    """An element of a buffer, or several where the last index is a vector. `predicate` masks lanes."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    predicate: Expr | None = None
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        dtype = self.buffer.dtype
        _set(self, "dtype", dtype if lanes == 1 else dtype.with_lanes(lanes * dtype.lanes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ramp(Expr):
    """The vector base, base + stride, ... of `lanes` elements (an expression where the vector is scalable)."""

    base: Expr
    stride: Expr
    lanes: int | Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.base.dtype.with_lanes(lane_count(self.lanes)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Broadcast(Expr):
    """The vector of `lanes` equal elements."""

    value: Expr
    lanes: int | Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.value.dtype.with_lanes(lane_count(self.lanes)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shuffle(Expr):
    """The lanes at `indices` of the concatenation of `vectors`."""

    vectors: tuple[Expr, ...]
    indices: tuple[Expr, ...]
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        element = self.vectors[0].dtype if self.vectors else VOID
        _set(self, "dtype", element.with_lanes(len(self.indices)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Expr):
    """`body`, in which `var` stands for `value`."""

    var: Var
    value: Expr
    body: Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.body.dtype)


@dataclass(frozen=True, slots=True)
class GlobalVar:
    """The name of a function of the module."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expr):
    """A call of a builtin (`op` is its name in the table of `builtins`) or of a function of the module (a `GlobalVar`).

    Opaque intrinsics keep the arguments of their text: besides expressions, buffers, regions, strings (`StringImm`)
    and, in `attrs`, keywords.
    """

    dtype: DataType
    op: str | GlobalVar
    args: tuple[Argument, ...]
    attrs: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Load(Expr):
    """Deprecated: the element at `index` behind a pointer."""

    dtype: DataType
    buffer_var: Var
    index: Expr
    predicate: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommReducer(Node):
    """TE: how two partial results (`lhs`, `rhs`) combine, and what they start from."""

    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[Expr, ...]
    identity_element: tuple[Expr, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reduce(Expr):
    """TE: the reduction of `source` over `axis`, where `condition` holds; one of its results."""

    combiner: CommReducer
    source: tuple[Expr, ...]
    init: tuple[Expr, ...]
    axis: tuple[IterVar, ...]
    value_index: int
    condition: Expr
    span: Span = NOWHERE
    dtype: DataType = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.source[self.value_index].dtype if self.source else VOID)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IndexMap(Node):
    """A map of indices, `lambda i, j: ...`, as attributes hold it."""

    initial_indices: tuple[Var, ...]
    final_indices: tuple[Expr, ...]
    inverse: IndexMap | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Target(Node):
    """A compilation target, as attributes hold it: its text or its options, and the host's."""

    config: str | Mapping[str, Attribute]
    host: Target | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Opaque(Node):
    """A value that text only refers to: `metadata["key"][index]`, or a call kept as written (`T.TileLayout(...)`)."""

    text: str
    span: Span = NOWHERE


# -------------------------------------------------------------------------------------------------- buffers and regions


class BufferType(Enum):
    """How a buffer meets other shapes: AUTO_BROADCAST repeats extents of one."""

    DEFAULT = "default"
    AUTO_BROADCAST = "auto"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Buffer(Node):
    """A view of memory as an array. The object is the identity, as for variables.

    Empty `strides` mean row-major and compact. `elem_offset` None means zero, or what the caller passes. `layout`
    holds the text of a `tirx` layout, which nothing here reads.
    """

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

    __hash__ = object.__hash__


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


# ----------------------------------------------------------------------------------------------------------- statements


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


# ------------------------------------------------------------------------------------------------ functions and modules

_Entries: TypeAlias = "tuple[Attribute, ...] | Mapping[str, Attribute]"
Attribute: TypeAlias = "bool | int | float | str | DataType | Type | Node | GlobalVar | _Entries | None"
"""What attributes, annotations and keywords of opaque calls hold."""

Argument: TypeAlias = Expr | Buffer | BufferRegion | Opaque | IndexMap | CommReducer | IterVar


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimFunc(Node):
    """A function: parameters, the buffers that some of them are, a body.

    `attrs["global_symbol"]` is the name under which the function is known outside; private functions have none.
    `module` is the module that the function was taken from (`mod["main"]`), so that its calls resolve.
    """

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
        from tensorir.tir.printer import print_function

        return print_function(self)

    def _repr_html_(self) -> str:
        from tensorir.tir.html import page_of

        return page_of(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IRModule(Node):
    """Functions by name, in the order of the text.

    `metadata` holds what `metadata["key"][index]` in the text refers to, where it was supplied.
    """

    functions: Mapping[str, PrimFunc | Function]
    attrs: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    global_infos: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    metadata: Mapping[str, object] | None = None
    name: str = "Module"
    span: Span = NOWHERE

    def __getitem__(self, name: str) -> PrimFunc | Function:
        """The function of that name, which knows this module."""
        if name not in self.functions:
            from tensorir.errors import Diagnostic, DiagnosticError, did_you_mean

            hint = did_you_mean(name, self.functions)
            raise DiagnosticError(Diagnostic("TS60", f"the module has no function {name!r}.", self.span, help=hint))
        return replace(self.functions[name], module=self)

    def __str__(self) -> str:
        from tensorir.tir.printer import print_module

        return print_module(self)

    def _repr_html_(self) -> str:
        from tensorir.tir.html import page_of

        return page_of(self)


def lane_count(lanes: int | Expr) -> int:
    """Lanes of a vector as data types count them: `T.vscale() * n` lanes are -n."""
    match lanes:
        case int():
            return lanes
        case IntImm(value):
            return value
        case Mul(IntImm(value), _) | Mul(_, IntImm(value)):
            return -value
        case _:
            return -1
