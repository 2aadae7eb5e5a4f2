"""The nodes of iterator IR: programs of statements over stencils, as GT4Py has them; and the table of its builtins.

A stencil is a function of iterators, which are positions in fields: `deref` reads there, `shift` moves. Programs store
fields, `SetAt`, that `as_fieldop` makes of stencils. The table says what each builtin on values is in the tensor IR.

>>> Call(Ref("deref"), (Call(Call(Ref("shift"), (Offset("Ioff"), Offset(1))), (Ref("x"),)),)).args[0].args[0]
Ref(name='x')
>>> ARITHMETIC["minimum"].core, ARITHMETIC["minus"].glyph
('min', '-')
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tensorir import nodes
from tensorir.ir.types import SCALARS, Scalar
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import NOWHERE, DiagnosticError, Span, refuse

print_iterator = ExtensionPoint("the text of a program of iterator IR", "tensorir.iterator.text.printer", "show")


@dataclass(frozen=True, slots=True)
class Row:
    """An elementwise builtin: its name, the tensor IR's, its number of operands, and how its text spells it."""

    name: str
    core: str
    arity: int = 2
    glyph: str = ""


_SAME = "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh sqrt exp log cbrt floor ceil trunc"
_ROWS = (
    Row("plus", "plus", 2, "+"),
    Row("minus", "minus", 2, "-"),
    Row("multiplies", "multiplies", 2, "×"),
    Row("divides", "divides", 2, "/"),
    Row("mod", "mod", 2, "%"),
    Row("floordiv", "floordiv", 2, "//"),
    Row("fmod", "rem"),
    Row("power", "power"),
    Row("minimum", "min"),
    Row("maximum", "max"),
    Row("and_", "and", 2, "∧"),
    Row("or_", "or", 2, "∨"),
    Row("xor_", "xor"),
    Row("not_", "not", 1, "¬"),
    Row("eq", "eq", 2, "=="),
    Row("not_eq", "not_eq", 2, "≠"),
    Row("less", "less", 2, "<"),
    Row("less_equal", "less_equal", 2, "≤"),
    Row("greater", "greater", 2, ">"),
    Row("greater_equal", "greater_equal", 2, "≥"),
    Row("neg", "neg", 1),
    Row("abs", "abs", 1),
    Row("gamma", "gamma", 1),
    Row("isfinite", "isfinite", 1),
    Row("isinf", "isinf", 1),
    Row("isnan", "isnan", 1),
    *(Row(name, name, 1) for name in _SAME.split()),
)
ARITHMETIC = {row.name: row for row in _ROWS}

CASTS = {
    **{n: s for n, s in SCALARS.items() if n in ("bool", "float16", "float32", "float64") or s.is_integer},
    "int": SCALARS["int32"],
    "float": SCALARS["float64"],
}
"""The names of types, which are functions, too."""

_OTHERS = (
    "as_fieldop broadcast can_deref cartesian_domain cast_ concat_where deref get_domain_range if_ index lift list_get "
    "make_const_list make_tuple map_list map_tuple named_range neighbors reduce scan shift tree_map_tuple tuple_get "
    "unstructured_domain"
)
STRUCTURAL = frozenset(_OTHERS.split())

NAMES = frozenset({*ARITHMETIC, *CASTS, *STRUCTURAL})


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


# What is said of iterator IR that cannot be read or lifted.


OURS = ("tensorir", "lowering", "gt4py")
"""The packages between a caller's line and what runs."""


def located(problem: DiagnosticError, program: str) -> DiagnosticError:
    """A diagnostic of a call of a program, with the caller's line."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in OURS:
        frame = frame.f_back
    at = f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame is not None else ""
    note = f"in the call of '{program}'{at}."
    return DiagnosticError([replace(d, notes=(*d.notes, note)) for d in problem.diagnostics])


DEEPEST = 300_000
"""How many computations may wait for one another: more are a function that is applied to itself."""

Steps = nodes.Rule[Any]
"""A computation that yields those whose results it needs, so that no depth is too deep for Python."""


def run(steps: Steps) -> Any:
    """The result of a computation in steps."""
    try:
        return nodes.run(steps, DEEPEST)
    except RecursionError:
        raise refuse("TI04", "a function is applied to itself without end.", "use scan or reduce.") from None
