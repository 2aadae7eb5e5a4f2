"""The nodes of iterator IR: programs of statements over stencils, as GT4Py has them.

A stencil is a function of iterators, which are positions in fields: `deref` reads there, `shift` moves. Programs store
fields, `SetAt`, that `as_fieldop` makes of stencils.

>>> Call(Ref("deref"), (Call(Call(Ref("shift"), (Offset("Ioff"), Offset(1))), (Ref("x"),)),)).args[0].args[0]
Ref(name='x')
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorir.ir.types import Scalar
from tensorir.runtime.assembly import print_iterator
from tensorir.runtime.errors import NOWHERE, Span

__all__ = [
    "Axis", "Call", "CartesianOffset", "Expr", "FieldType", "FunctionDefinition", "If", "Infinity", "Lambda", "Literal",
    "NoValue", "Offset", "Param", "ParamType", "Program", "Ref", "SetAt", "Statement", "Temporary", "TupleType",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or truth value of a scalar type, as it was spelled."""

    value: str
    element: Scalar
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NoValue:
    """The absence of an optional argument."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Infinity:
    """The end of an interval that has none: positive or negative."""

    positive: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Offset:
    """The name of an offset, or the slot or distance that goes with one."""

    value: int | str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension: its name and its kind, `horizontal`, `vertical` or `local`."""

    name: str
    kind: str = "horizontal"
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CartesianOffset:
    """The offset from points of `domain` to points of `codomain`, which are one dimension or staggered ones."""

    domain: Axis
    codomain: Axis
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ref:
    """A parameter, a function of the program, or a builtin, by name."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function without a name."""

    params: tuple[str, ...]
    body: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function applied to arguments."""

    function: Expr
    args: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expr = Literal | NoValue | Infinity | Offset | Axis | CartesianOffset | Ref | Lambda | Call


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field on dimensions, a scalar where there are none."""

    dims: tuple[Axis, ...]
    element: Scalar


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple of fields and scalars."""

    members: tuple[ParamType, ...]


ParamType = FieldType | TupleType


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a program; programs of text and of traces have no types."""

    name: str
    type: ParamType | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """A function of a program, which later functions and all statements may call."""

    name: str
    params: tuple[str, ...]
    body: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Temporary:
    """A field of the program's own, on a domain."""

    name: str
    domain: Expr | None
    type: ParamType | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SetAt:
    """An expression stored in a target, on a domain."""

    value: Expr
    domain: Expr
    target: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """Statements that depend on a scalar condition."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Statement = SetAt | If


@dataclass(frozen=True, slots=True)
class Program:
    """A program: functions, parameters, temporaries, and statements that run in order."""

    name: str
    functions: tuple[FunctionDefinition, ...]
    params: tuple[Param, ...]
    temporaries: tuple[Temporary, ...]
    body: tuple[Statement, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return print_iterator(self)
