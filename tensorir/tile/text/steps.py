"""The syntax of a row as steps, which the reader and the printer follow alike.

>>> from tensorir.tile.operations import TABLE
>>> [type(step).__name__ for step in steps_of(TABLE["negf"])]
['OperandStep', 'DictStep', 'Literal', 'TypeStep']
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tensorir.tile.operations import Row

_PART = re.compile(r"\$\w+|\^\w+|@\w+|\{\}|\)\?|->|\w+|[^\s\w]")


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class OperandStep:
    name: str
    index: int
    any: bool


@dataclass(frozen=True, slots=True)
class AttrStep:
    index: int


@dataclass(frozen=True, slots=True)
class FlagsStep:
    """Flags, in any order."""

    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TypeStep:
    """The type of an operand or a result; of any number of them a list."""

    name: str
    any: bool


@dataclass(frozen=True, slots=True)
class DictStep:
    pass


@dataclass(frozen=True, slots=True)
class RegionStep:
    pass


@dataclass(frozen=True, slots=True)
class Group:
    """A part of a form that is left out where its operand or attribute is absent."""

    steps: tuple[Step, ...]
    operand: str | None
    """The operand whose presence decides; None where an attribute does."""
    attribute: int | None


Step = Literal | OperandStep | AttrStep | FlagsStep | TypeStep | DictStep | RegionStep | Group


@cache
def steps_of(row: Row) -> tuple[Step, ...]:
    """The steps of a row that has a syntax."""
    parts = _PART.findall(row.syntax)
    steps, rest = _steps(row, parts)
    assert not rest, row.name
    return steps


def _steps(row: Row, parts: list[str]) -> tuple[tuple[Step, ...], list[str]]:
    steps: list[Step] = []
    while parts:
        part, *parts = parts
        match part[0]:
            case "(":
                inner, parts = _steps(row, parts)
                operand = next((s.name for s in inner if isinstance(s, OperandStep | TypeStep)), None)
                attribute = next((s.index for s in inner if isinstance(s, AttrStep)), None)
                steps.append(Group(inner, operand, attribute))
            case ")":
                return tuple(steps), parts
            case "$":
                steps.append(_named(row, part[1:], steps))
            case "^":
                counted = {o.name: o.count == "any" for o in row.operands} | {r.name: r.any for r in row.results}
                steps.append(TypeStep(part[1:], counted[part[1:]]))
            case "@":
                steps.append(RegionStep())
            case _:
                steps.append(DictStep() if part == "{}" else Literal(part))
    return tuple(steps), parts


def _named(row: Row, name: str, before: list[Step]) -> Step:
    if name in row.operand_index:
        index = row.operand_index[name]
        return OperandStep(name, index, row.operands[index].count == "any")
    index = row.attribute_index[name]
    if row.attributes[index].kind != "flag":
        return AttrStep(index)
    match before:
        case [*_, FlagsStep(indices)]:
            before.pop()
            return FlagsStep((*indices, index))
        case _:
            return FlagsStep((index,))
