"""What the row of an operation says of its types and attributes."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.runtime.errors import Diagnostic
from tensorir.tile.attributes import Typed
from tensorir.tile.nodes import Operation, Value, flat
from tensorir.tile.operations import Constraint
from tensorir.tile.types import Tile, Type, complaint

__all__ = ["trait_findings"]

_WHAT = {"type": "one type", "shape": "one shape", "element": "one element type", "rank": "one rank"}


def trait_findings(op: Operation) -> Iterator[Diagnostic]:
    """Operands and results of another class, constraints that do not hold, attributes of other cases."""
    row = op.row
    for operand, slot in zip(row.operands, op.operands, strict=True):
        given = flat((slot,))
        if operand.count == "one" and not given:
            yield Diagnostic("TV01", f"{op.name} needs its operand '{operand.name}'.", op.span)
        for value in given:
            if not operand.types.holds(value.type):
                said = f"'{operand.name}' of {op.name} is {operand.types.noun}, and {value.type} is none."
                yield Diagnostic("TV01", said, op.span)
    for k, value in enumerate(op.results):
        result = row.results[min(k, len(row.results) - 1)]
        if not result.types.holds(value.type):
            said = f"'{result.name}' of {op.name} is {result.types.noun}, and {value.type} is none."
            yield Diagnostic("TV01", said, op.span)
    yield from _types(op)
    for constraint in row.constraints:
        if (said := _broken(op, constraint)) is not None:
            yield Diagnostic("TV02", said, op.span)
    yield from _attributes(op)


def _types(op: Operation) -> Iterator[Diagnostic]:
    """Types that are wrong in themselves, which only programs can build."""
    types = [v.type for v in op.results] + [v.type for region in op.regions for v in region.arguments]
    for type in dict.fromkeys(types):
        if (said := complaint(type)) is not None:
            yield Diagnostic("TV14", f"{said}.", op.span)


def _named(op: Operation, name: str) -> tuple[Value, ...]:
    if name in op.row.operand_index:
        return flat((op.operand(name),))
    index = next(k for k, r in enumerate(op.row.results) if r.name == name)
    return op.results[index : index + 1]


def _part(type: Type, part: str) -> object:
    if part == "type" or not isinstance(type, Tile):
        return type
    return type.shape if part == "shape" else type.element if part == "element" else len(type.shape)


def _broken(op: Operation, constraint: Constraint) -> str | None:
    values = [(name, value) for name in constraint.names for value in _named(op, name)]
    if not values:
        return None
    first, known = values[0]
    for name, value in values[1:]:
        if _part(known.type, constraint.part) != _part(value.type, constraint.part):
            both = f"'{first}' is {known.type} and '{name}' {value.type}"
            return f"'{first}' and '{name}' of {op.name} have {_WHAT[constraint.part]}, and {both}."
    return None


def _attributes(op: Operation) -> Iterator[Diagnostic]:
    for attr, value in zip(op.row.attributes, op.attributes, strict=True):
        if value is None:
            if not attr.may_be_absent:
                yield Diagnostic("TV03", f"{op.name} needs the attribute '{attr.name}'.", op.span)
        elif attr.only and value not in attr.only:
            cases = ", ".join(attr.only)
            yield Diagnostic("TV03", f"the {attr.name} of {op.name} is one of {cases}, and not {value}.", op.span)
        elif attr.least is not None and isinstance(value, int) and value < attr.least:
            yield Diagnostic(
                "TV03", f"the {attr.name} of {op.name} is at least {attr.least}, and not {value}.", op.span
            )
        elif attr.kind == "signature" and isinstance(value, Typed) and (said := complaint(value.type)) is not None:
            yield Diagnostic("TV14", f"{said}.", op.span)
