"""Programs of GT4Py, read: its nodes of iterator IR as ours, by the names of their classes, and nothing imported.

>>> from types import SimpleNamespace
>>> SymRef = type("SymRef", (SimpleNamespace,), {})
>>> expression(SymRef(id="deref"))
Ref(name='deref')
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir import nodes
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import INT32, SCALARS, Scalar, TensorType
from tensorir.iterator.nodes import (
    Axis,
    Call,
    CartesianOffset,
    Expr,
    FieldType,
    FunctionDefinition,
    If,
    Infinity,
    Lambda,
    Literal,
    NoValue,
    Offset,
    Param,
    ParamType,
    Program,
    Ref,
    SetAt,
    Statement,
    Temporary,
    TupleType,
)
from tensorir.runtime.errors import DiagnosticError, refuse

# What programs evaluate to is of many kinds, which only running tells.


OF_OPERATOR = "__field_operator_"
"""What GT4Py puts before the name of an operator that is called as a program."""


def program_of(node: Any) -> Program:
    """A program of GT4Py as one of ours; raises TI01 for nodes that are not known here."""
    if (kind := type(node).__name__) != "Program":
        raise _unknown(kind, "a program of iterator IR is needed: give program.gtir.")
    return Program(
        str(node.id).removeprefix(OF_OPERATOR),
        tuple(
            FunctionDefinition(str(f.id), tuple(str(p.id) for p in f.params), expression(f.expr))
            for f in node.function_definitions
        ),
        tuple(Param(str(p.id), param_type(getattr(p, "type", None))) for p in node.params),
        tuple(
            Temporary(
                str(t.id), None if t.domain is None else expression(t.domain), param_type(getattr(t, "dtype", None))
            )
            for t in node.declarations
        ),
        statements(node.body),
    )


def statements(nodes: Iterable[Any]) -> tuple[Statement, ...]:
    """Statements of GT4Py as ours."""
    return tuple(_read_statement(n) for n in nodes)


def _read_statement(node: Any) -> Statement:
    """One statement of GT4Py as ours; raises TI02 for an unknown kind."""
    match type(node).__name__:
        case "SetAt":
            return SetAt(expression(node.expr), expression(node.domain), expression(node.target))
        case "IfStmt":
            return If(expression(node.cond), statements(node.true_branch), statements(node.false_branch))
        case kind:
            raise _unknown(kind)


def _parts(node: Any) -> tuple[Any, ...]:
    """The children of a node of GT4Py's expressions: a function's body, or the function and arguments of a call."""
    match type(node).__name__:
        case "Lambda":
            return (node.expr,)
        case "FunCall":
            return (node.fun, *node.args)
        case _:
            return ()


_LEAVES: dict[str, Callable[[Any], Expr]] = {
    "Literal": lambda n: Literal(str(n.value), _scalar(n.type)),
    "NoneLiteral": lambda n: NoValue(),
    "InfinityLiteral": lambda n: Infinity(n.name == "POSITIVE"),
    "OffsetLiteral": lambda n: Offset(n.value if isinstance(n.value, int) else str(n.value)),
    "AxisLiteral": lambda n: axis_of(n),
    "CartesianOffset": lambda n: CartesianOffset(axis_of(n.domain), axis_of(n.codomain)),
    "SymRef": lambda n: Ref(str(n.id)),
}


def expression(root: Any) -> Expr:
    """An expression of GT4Py as ours; nodes that occur several times stay one node."""

    def rule(node: Any, parts: Sequence[Expr]) -> Expr:
        """One node with its children as ours already."""
        match type(node).__name__:
            case "Lambda":
                return Lambda(tuple(str(p.id) for p in node.params), parts[0])
            case "FunCall":
                return Call(parts[0], tuple(parts[1:]))
            case kind if kind in _LEAVES:
                return _LEAVES[kind](node)
            case kind:
                raise _unknown(kind)

    return nodes.folded([root], _parts, rule)[id(root)]


def axis_of(node: Any) -> Axis:
    """An axis of a node or of a dimension, which have the same parts."""
    return Axis(str(node.value), str(getattr(node.kind, "value", node.kind)))


def _scalar(node: Any) -> Scalar:
    """The element type of a type of GT4Py; raises TI02 for one that is not known here."""
    name = node.kind.name.lower()
    if name not in SCALARS:
        raise refuse("TI02", f"there is no element type '{name}' here.")
    return SCALARS[name]


def param_type(node: Any) -> ParamType | None:
    """The type of a parameter; None where it has none that is known."""
    match type(node).__name__:
        case "FieldType" if type(node.dtype).__name__ == "ScalarType":
            return FieldType(tuple(axis_of(d) for d in node.dims), _scalar(node.dtype))
        case "ScalarType":
            return FieldType((), _scalar(node))
        case "TupleType" | "NamedCollectionType":
            members = tuple(param_type(t) for t in node.types)
            return None if None in members else TupleType(tuple(m for m in members if m is not None))
        case _:
            return None


def _unknown(kind: str, hint: str = "") -> DiagnosticError:
    return refuse("TI01", f"iterator IR has no '{kind}' that is known here.",
        hint or "nodes of GT4Py 1.1 are read; install a release of it.")  # fmt: skip


# A program of GT4Py that was read: its iterator IR, and what it is lifted for.

# What programs evaluate to is of many kinds, which only running tells.


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A program, the types of its arguments where they are known, and its offsets; `ti.lift` takes it as it is."""

    program: Program
    args: tuple[Any, ...] | None
    offset_provider: Any
    column: str | None = None
    field_offsets: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The offsets that it names, which tell the dims of neighbour tables that are plain arrays."""

    def __str__(self) -> str:
        return str(self.program)


def from_gt4py(source: Any, *args: Any, sizes: Any = None, offset_provider: Any = None) -> Imported:
    """A program or operator of GT4Py as iterator IR, with what it is lifted for.

    `args` are fields and numbers, one per parameter (for an operator with its output last), or `sizes` has an interval
    per dim, `{"K": 65}`, of which every field is made. Nothing of GT4Py is imported: nodes are read by their names.
    """
    if hasattr(source, "gtir"):
        program = program_of(source.gtir)
    elif hasattr(source, "__gt_itir__"):
        program = _read_operator(source)
    elif type(source).__name__ == "Program":
        program = program_of(source)
    else:
        message = f"a program or operator of GT4Py is needed, and this is of type {type(source).__name__}."
        raise refuse("TI01", message, "decorate it: @gtx.program, or @gtx.field_operator.")
    column = next((a.name for p in program.params for a in _axes(p.type) if a.kind == "vertical"), None)
    if sizes is not None:
        args = tuple(_size_argument(p, p.type, sizes) for p in program.params)
    return Imported(program, args or None, offset_provider, column, _field_offsets(source))


def _field_offsets(source: Any) -> dict[str, Any]:
    """The offsets of a program or operator and of the operators that it calls."""
    offsets: dict[str, Any] = {}
    seen: set[int] = set()
    stack = [source]
    while stack:
        one = stack.pop()
        seen.add(id(one))
        called = getattr(one, "__gt_closure_vars__", None)
        names: Any = getattr(one, "_all_closure_vars", None) or (called() if called is not None else None) or {}
        for value in names.values():
            if hasattr(value, "source") and hasattr(value, "target"):
                offsets[str(value.value)] = value
            elif hasattr(value, "__gt_itir__") and id(value) not in seen:
                stack.append(value)
    return offsets


def _axes(kind: ParamType | None) -> list[Any]:
    """The axes of a parameter's type, those of the members of tuples in their order."""
    if isinstance(kind, FieldType):
        return list(kind.dims)
    return [a for m in kind.members for a in _axes(m)] if kind is not None else []


def by_dim(given: Any, what: str, help: str) -> dict[str, Any]:
    """What is given for dims, by their names; raises TI06 for what is no mapping."""
    try:
        return {str(getattr(d, "value", d)): ends for d, ends in dict(given).items()}
    except (TypeError, ValueError):
        raise refuse("TI06", f"{given!r} is no {what}.", help) from None


def interval_of(dim: str, ends: Any, help: str) -> tuple[int, int]:
    """The (start, stop) of a pair, an extent from 0, or an object with start and stop, for the dim `dim`."""
    match ends:
        case tuple((start, stop)):
            pass
        case _ if hasattr(ends, "start") and hasattr(ends, "stop"):
            start, stop = ends.start, ends.stop if getattr(ends, "step", None) in (None, 1) else None
        case _:
            start, stop = 0, ends
    if isinstance(start, int | np.integer) and isinstance(stop, int | np.integer) and start <= stop:
        return int(start), int(stop)
    message = f"the interval of {dim} is {ends!r}."
    raise refuse("TI06", message, help)


def _size_argument(p: Param, kind: ParamType | None, sizes: Any) -> Any:
    """The argument type of a parameter of type `kind` at the `sizes` by dim: a field's tensor type, or the number that
    is given by the name of `p`.

    Raises TI06 for a dim or number without a size, TI11 for an unknown type.
    """
    named = by_dim(sizes, "mapping of dims to sizes", "sizes={'I': 10}.")
    match kind:
        case FieldType(dims, element) if dims:
            intervals: list[tuple[str, Interval]] = []
            for axis in dims:
                if axis.name not in named:
                    raise refuse("TI06", f"the size of {axis.name} is not given.", f"sizes={{'{axis.name}': 10}}.")
                ends = interval_of(axis.name, named[axis.name], f"sizes={{'{axis.name}': 10}}.")
                intervals.append((axis.name, Interval(*ends)))
            return TensorType(element, Dims(tuple(intervals)))
        case FieldType():
            if p.name not in named:
                raise refuse("TI06", f"the number '{p.name}' is not given.", f"sizes={{'{p.name}': ...}}.")
            return named[p.name]
        case None:
            raise refuse("TI11", f"the type of '{p.name}' is not known.", "pass arguments.")
        case _:
            return tuple(_size_argument(p, m, sizes) for m in kind.members)


def _read_operator(source: Any) -> Program:
    """An operator as a program that stores what it returns in `out`."""
    lambdas = [f.__gt_itir__() for f in _operators(source)]
    functions = [FunctionDefinition(str(n.id), tuple(str(p.id) for p in n.params), expression(n.expr)) for n in lambdas]
    definition = getattr(source.__gt_type__(), "definition", None)
    kinds = [param_type(t) for t in (*definition.pos_only_args, *definition.pos_or_kw_args.values())]  # type: ignore
    result = param_type(definition.returns)  # type: ignore[union-attr]
    f = functions[-1]
    params = tuple(Param(n, k) for n, k in zip(f.params, kinds, strict=True))
    value = Call(Ref(f.name), tuple(Ref(p) for p in f.params))
    target, domain = _store_leaves(Ref("out"), result)
    return Program(f.name, tuple(functions), (*params, Param("out", result)), (), (SetAt(value, domain, target),))


def _operators(source: Any) -> list[Any]:
    """An operator and those that it calls, each after those that it calls itself."""

    def called(one: Any) -> list[Any]:
        return [f for f in (one.__gt_closure_vars__() or {}).values() if hasattr(f, "__gt_itir__")]

    return list(nodes.postorder([source], called))


def _store_leaves(place: Expr, kind: ParamType | None) -> tuple[Expr, Expr]:
    """Every leaf of an output, each on its whole domain."""
    match kind:
        case FieldType(dims, _):
            ranges = [
                Call(Ref("named_range"), (a, *(
                    Call(Ref("tuple_get"), (Literal(str(k), INT32), Call(Ref("get_domain_range"), (place, a))))
                    for k in (0, 1)
                )))
                for a in dims if a.kind != "local"
            ]  # fmt: skip
            return place, Call(Ref("cartesian_domain"), tuple(ranges))
        case None:
            raise refuse("TI11", "the type of the operator's result is not known.")
        case _:
            members = [
                _store_leaves(Call(Ref("tuple_get"), (Literal(str(k), INT32), place)), m)
                for k, m in enumerate(kind.members)
            ]
            maker = Ref("make_tuple")
            return Call(maker, tuple(t for t, _ in members)), Call(maker, tuple(d for _, d in members))
