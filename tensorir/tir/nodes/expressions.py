"""Nodes: their base, the types of variables, buffers and their regions, and expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, TypeAlias

from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir.dtypes import BOOL, HANDLE, VOID, DataType

print_tir = ExtensionPoint("the text of a node of TIR", "tensorir.tir.printer", "show")
equal_tir = ExtensionPoint("whether two trees of TIR are equal up to names", "tensorir.tir.trees", "structurally_equal")
hash_tir = ExtensionPoint("a hash that equal trees of TIR share", "tensorir.tir.trees", "structural_hash")

# What all nodes share, and the types of variables.


class Node:
    """The base of all nodes: equality by structure, and text as representation."""

    __slots__ = ()

    is_name: ClassVar[bool] = False
    """Whether the node is a name: a variable or a buffer, which is the same only as one object."""
    is_closed: ClassVar[bool] = False
    """Whether every name in the tree is bound in it."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node):
            return NotImplemented
        return equal_tir(self, other)

    def __hash__(self) -> int:
        return hash_tir(self)

    def __repr__(self) -> str:
        return print_tir(self)


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

# Expressions: they carry the data type of their result, computed when they are built.

_set = object.__setattr__


class Expr(Node):
    """An expression; `dtype` is the data type of its value."""

    __slots__ = ()
    dtype: DataType
    span: Span


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """A name for one value. The object is the identity: equal names are not equal variables."""

    is_name: ClassVar[bool] = True

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

    def __hash__(self) -> int:
        return object.__hash__(self)


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
    """A call of a builtin (`op` is its name in `tensorir/tir/builtins.py`) or of the module's function (a `GlobalVar`).

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MemoryMap(Node):
    """A mapping from the pointers of buffers, as attributes hold it: `{As: layout, B.data: layout}`."""

    entries: tuple[tuple[Var, Attribute], ...]
    span: Span = NOWHERE


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


# Buffers, their regions, and the iterators that run over them.


class BufferType(Enum):
    """The broadcasting of a buffer: AUTO_BROADCAST repeats extents of one."""

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
    """The kind of an iterator; the value is its name in TVMScript (`T.axis.<value>`, or a loop's kind)."""

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


# What attributes and arguments hold.

_Entries: TypeAlias = "tuple[Attribute, ...] | Mapping[str, Attribute]"
Attribute: TypeAlias = "bool | int | float | str | DataType | Type | Node | GlobalVar | _Entries | None"
"""What attributes, annotations and keywords of opaque calls hold."""
Argument: TypeAlias = Expr | Buffer | BufferRegion | Opaque | IndexMap | CommReducer | IterVar
