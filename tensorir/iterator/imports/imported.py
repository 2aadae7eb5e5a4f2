"""A program of GT4Py that was read: its iterator IR, and what it is lifted for."""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorir.ir.types import INT32, Dims, Interval, TensorType
from tensorir.iterator.imports.nodes_of import expression, param_type
from tensorir.iterator.imports.nodes_of import program as program_of
from tensorir.iterator.nodes import (
    Call,
    Expr,
    FieldType,
    FunctionDefinition,
    Literal,
    Param,
    ParamType,
    Program,
    Ref,
    SetAt,
)
from tensorir.iterator.refusals import refused

__all__ = ["Imported", "from_gt4py"]


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
        program = _of_operator(source)
    elif type(source).__name__ == "Program":
        program = program_of(source)
    else:
        said = f"a program or operator of GT4Py is needed, and this is of type {type(source).__name__}."
        raise refused("TI01", said, help="decorate it: @gtx.program, or @gtx.field_operator.")
    column = next((a.name for p in program.params for a in _axes(p.type) if a.kind == "vertical"), None)
    if sizes is not None:
        args = tuple(_sized(p, p.type, sizes) for p in program.params)
    return Imported(program, args or None, offset_provider, column, _field_offsets(source))


def _field_offsets(source: Any) -> dict[str, Any]:
    """The offsets of a program or operator and of the operators that it calls."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    stack = [source]
    while stack:
        one = stack.pop()
        seen.add(id(one))
        called = getattr(one, "__gt_closure_vars__", None)
        names: Any = getattr(one, "_all_closure_vars", None) or (called() if called is not None else None) or {}
        for value in names.values():
            if hasattr(value, "source") and hasattr(value, "target"):
                found[str(value.value)] = value
            elif hasattr(value, "__gt_itir__") and id(value) not in seen:
                stack.append(value)
    return found


def _axes(kind: ParamType | None) -> list[Any]:
    if isinstance(kind, FieldType):
        return list(kind.dims)
    return [a for m in kind.members for a in _axes(m)] if kind is not None else []


def _sized(p: Param, kind: ParamType | None, sizes: Any) -> Any:
    named = {str(getattr(d, "value", d)): ends for d, ends in dict(sizes).items()}
    match kind:
        case FieldType(dims, element) if dims:
            found: list[tuple[str, Interval]] = []
            for axis in dims:
                if axis.name not in named:
                    raise refused(
                        "TI06", f"the size of {axis.name} is not given.", help=f"sizes={{'{axis.name}': 10}}."
                    )
                ends = named[axis.name]
                found.append((axis.name, Interval(*ends) if isinstance(ends, tuple) else Interval(0, int(ends))))
            return TensorType(element, Dims(tuple(found)))
        case FieldType():
            if p.name not in named:
                raise refused("TI06", f"the number '{p.name}' is not given.", help=f"sizes={{'{p.name}': ...}}.")
            return named[p.name]
        case None:
            raise refused("TI11", f"the type of '{p.name}' is not known.", help="pass arguments.")
        case _:
            return tuple(_sized(p, m, sizes) for m in kind.members)


def _of_operator(source: Any) -> Program:
    """An operator as a program that stores what it returns in `out`."""
    functions = [_definition(f) for f in _operators(source)]
    definition = getattr(source.__gt_type__(), "definition", None)
    kinds = [param_type(t) for t in (*definition.pos_only_args, *definition.pos_or_kw_args.values())]  # type: ignore
    result = param_type(definition.returns)  # type: ignore[union-attr]
    f = functions[-1]
    params = tuple(Param(n, k) for n, k in zip(f.params, kinds, strict=True))
    value = Call(Ref(f.name), tuple(Ref(p) for p in f.params))
    target, domain = _stored(Ref("out"), result)
    return Program(f.name, tuple(functions), (*params, Param("out", result)), (), (SetAt(value, domain, target),))


def _operators(source: Any) -> list[Any]:
    """An operator and those that it calls, each after those that it calls itself."""
    found: dict[int, Any] = {}
    stack = [(source, False)]
    while stack:
        one, ready = stack.pop()
        if ready:
            found[id(one)] = one
        elif id(one) not in found:
            stack.append((one, True))
            called = (one.__gt_closure_vars__() or {}).values()
            stack.extend((f, False) for f in called if hasattr(f, "__gt_itir__") and id(f) not in found)
    return list(found.values())


def _definition(operator: Any) -> FunctionDefinition:
    node = operator.__gt_itir__()
    return FunctionDefinition(str(node.id), tuple(str(p.id) for p in node.params), expression(node.expr))


def _stored(place: Expr, kind: ParamType | None) -> tuple[Expr, Expr]:
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
            raise refused("TI11", "the type of the operator's result is not known.")
        case _:
            members = [
                _stored(Call(Ref("tuple_get"), (Literal(str(k), INT32), place)), m) for k, m in enumerate(kind.members)
            ]
            made = Ref("make_tuple")
            return Call(made, tuple(t for t, _ in members)), Call(made, tuple(d for _, d in members))
