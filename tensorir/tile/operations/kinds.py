"""The shapes of rows that many operations share: one tile in and out, two, comparisons, conversions."""

from __future__ import annotations

from tensorir.tile.operations.classes import BASE_FLOAT, INT, TypeClass
from tensorir.tile.operations.rows import (
    OVERFLOW,
    ROUNDING,
    SIGNEDNESS,
    V13_1,
    Attr,
    Constraint,
    Operand,
    Result,
    Row,
    Since,
)

__all__ = [
    "FLUSH", "ROUNDED", "SIGNED", "WRAPS", "binary", "constraint", "conversion", "operands", "overflow", "results",
    "rounding", "unary",
]  # fmt: skip


def operands(types: TypeClass, names: str) -> tuple[Operand, ...]:
    """Operands of one class: `operands(INT, "lhs rhs")`."""
    return tuple(Operand(name, types) for name in names.split())


def results(types: TypeClass, names: str) -> tuple[Result, ...]:
    return tuple(Result(name, types) for name in names.split())


def constraint(part: str, names: str) -> Constraint:
    """`constraint("type", "lhs rhs result")`: these have one type."""
    return Constraint(part, tuple(names.split()))  # type: ignore[arg-type]


def rounding(default: str = "nearest_even", since: Since = V13_1, name: str = "rounding_mode") -> Attr:
    return Attr(name, "enum", ROUNDING, default, since=since)


def overflow(since: Since = V13_1) -> Attr:
    return Attr("overflow", "enum", OVERFLOW, "none", since=since)


SIGNED = Attr("signedness", "enum", SIGNEDNESS)
WRAPS = overflow()
ROUNDED = rounding()
FLUSH = Attr("flush_to_zero", "flag")


def unary(
    name: str, opcode: int, doc: str, types: TypeClass = BASE_FLOAT, attributes: tuple[Attr, ...] = ()
) -> Row:  # fmt: skip
    """An operation on each element of one tile."""
    words = "".join(f" ${a.name}" for a in attributes)
    return Row(
        name, opcode, doc, operands(types, "source"), attributes, results(types, "result"), (),
        (constraint("type", "source result"),), f"$source{words} {{}} : ^result", elementwise=True,
    )  # fmt: skip


def binary(
    name: str, opcode: int, doc: str, types: TypeClass = INT, attributes: tuple[Attr, ...] = (),
    names: str = "lhs rhs", since: Since = V13_1, syntax: str = "", pure: bool = True,
) -> Row:  # fmt: skip
    """An operation on the elements of tiles of one type."""
    words = syntax or "".join(f" ${a.name}" for a in attributes)
    values = ", ".join(f"${n}" for n in names.split())
    return Row(
        name, opcode, doc, operands(types, names), attributes, results(types, "result"), (),
        (constraint("type", f"{names} result"),), f"{values} {words} {{}} : ^result", since, pure=pure,
        elementwise=True,
    )  # fmt: skip


def conversion(
    name: str, opcode: int, doc: str, source: TypeClass, target: TypeClass, attributes: tuple[Attr, ...] = (),
    names: str = "source result",
) -> Row:  # fmt: skip
    """An operation that gives each element another type."""
    given, made = names.split()
    words = "".join(f" ${a.name}" for a in attributes)
    return Row(
        name, opcode, doc, operands(source, given), attributes, results(target, made), (),
        (constraint("shape", names),), f"${given}{words} {{}} : ^{given} -> ^{made}", elementwise=True,
    )  # fmt: skip
