"""Every node of Relax: types, expressions, bindings, functions.

As in TIR, variables are names (two are the same only as one object), and other nodes compare by structure.

>>> from tensorir.tir.dtypes import FLOAT32
>>> x = RelaxVar("x", TensorType(None, FLOAT32, 2))
>>> Call("add", (x, x))
R.add(x, x)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType

_set = object.__setattr__


class RelaxType(n.GraphNode):
    """The type of a value: all that is known before it exists."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorType(RelaxType):
    """A tensor; `shape` None is unknown, and then `ndim` may be known (-1: unknown as well)."""

    shape: tuple[n.Expr, ...] | None
    dtype: DataType | None
    ndim: int = -1
    vdevice: str | None = None

    def __post_init__(self) -> None:
        if self.shape is not None:
            _set(self, "ndim", len(self.shape))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapeType(RelaxType):
    """A shape as a value."""

    values: tuple[n.Expr, ...] | None
    ndim: int = -1

    def __post_init__(self) -> None:
        if self.values is not None:
            _set(self, "ndim", len(self.values))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleType(RelaxType):
    """Several values."""

    fields: tuple[RelaxType, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimValueType(RelaxType):
    """A number; `value` is the name under which shapes and other numbers know it."""

    dtype: DataType
    value: n.Var | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ObjectType(RelaxType):
    """Anything."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FuncType(RelaxType):
    """A function; parameters None are unknown."""

    params: tuple[RelaxType, ...] | None
    ret: RelaxType | None
    pure: bool = True


class RelaxExpr(n.GraphNode):
    """An expression."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RelaxVar(RelaxExpr):
    """A name for one value; those of a dataflow block are known there only."""

    is_name: ClassVar[bool] = True

    name: str
    type: RelaxType
    dataflow: bool = False
    span: Span = NOWHERE

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)


def known_as(var: RelaxVar) -> RelaxVar | n.Var:
    """The value behind a variable's name: a number is a variable of TIR, so that shapes may hold it."""
    named = var.type.value if isinstance(var.type, PrimValueType) else None
    return var if named is None else named


Data: TypeAlias = "bool | int | float | tuple[Data, ...]"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(RelaxExpr):
    """A tensor in the text: a number, or nested tuples of numbers."""

    data: Data
    dtype: DataType
    span: Span = NOWHERE

    @property
    def shape(self) -> tuple[int, ...]:
        shape: list[int] = []
        data = self.data
        while isinstance(data, tuple):
            shape.append(len(data))
            if not data:
                break
            data = data[0]
        return tuple(shape)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MetadataConstant(RelaxExpr):
    """A constant that the text only refers to: `metadata[key][index]`."""

    key: str
    index: int
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple(RelaxExpr):
    """Several values as one."""

    fields: tuple[RelaxExpr, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItem(RelaxExpr):
    """One of them."""

    tuple_value: RelaxExpr
    index: int
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapeExpr(RelaxExpr):
    """A shape as a value."""

    values: tuple[n.Expr, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimValue(RelaxExpr):
    """A number as a value."""

    value: n.Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StringValue(RelaxExpr):
    """A string as a value."""

    value: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DataTypeValue(RelaxExpr):
    """A data type as a value."""

    value: DataType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FunctionRef(RelaxExpr):
    """A function of the module, `cls.name`."""

    name: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExternFunc(RelaxExpr):
    """A function that the runtime knows by name."""

    name: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(RelaxExpr):
    """An operator (its name in the table of operators) or a function, on arguments.

    `attrs` holds the attributes by name, all of them, defaults included. `types` are the types that the text states for
    the result (`out_ty` of `call_tir`, `ty_args` of `call_packed`).
    """

    op: str | RelaxExpr
    args: tuple[RelaxExpr, ...]
    attrs: Mapping[str, n.Attribute] = field(default_factory=dict[str, n.Attribute])
    types: tuple[RelaxType, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(RelaxExpr):
    """One of two sequences."""

    condition: RelaxExpr
    true_branch: SeqExpr
    false_branch: SeqExpr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VarBinding(n.GraphNode):
    """var = value"""

    var: RelaxVar
    value: RelaxExpr | Function
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatchCast(n.GraphNode):
    """var = value, which is checked to be of the type; new sizes in it are bound."""

    var: RelaxVar
    value: RelaxExpr
    type: RelaxType
    span: Span = NOWHERE


Binding: TypeAlias = VarBinding | MatchCast


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BindingBlock(n.GraphNode):
    """Bindings, one after the other."""

    bindings: tuple[Binding, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DataflowBlock(n.GraphNode):
    """Bindings without effects; `outputs` are known after the block."""

    bindings: tuple[Binding, ...]
    outputs: tuple[RelaxVar, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SeqExpr(RelaxExpr):
    """Blocks of bindings, and then a value."""

    blocks: tuple[BindingBlock | DataflowBlock, ...]
    body: RelaxExpr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function(n.GraphFunction):
    """A function of Relax; `module` is the module that it was taken from."""

    name: str
    params: tuple[RelaxVar, ...]
    body: SeqExpr
    ret_type: RelaxType | None = None
    attrs: Mapping[str, n.Attribute] = field(default_factory=dict[str, n.Attribute])
    pure: bool = True
    module: n.IRModule | None = None
    span: Span = NOWHERE
