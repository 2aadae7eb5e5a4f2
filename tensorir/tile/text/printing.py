"""Modules as text: the assembly that the reader reads, one operation to a line, without prefixes."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.tile.attributes import (
    Attribute,
    Dense,
    Dictionary,
    Hints,
)
from tensorir.tile.nodes import Module, Operation, Region, Value, flat
from tensorir.tile.operations import Attr
from tensorir.tile.text import syntax as s
from tensorir.tile.text.literals import spelled_dense
from tensorir.tile.text.locations import spelled_location
from tensorir.tile.text.names import names_of
from tensorir.tile.text.own_printing import OWN
from tensorir.tile.text.reader import implied_end
from tensorir.tile.text.spelling import spelled_attribute, spelled_hints, symbol
from tensorir.tile.types import Type

__all__ = ["Printer", "print_module"]


def print_module(module: Module, locations: bool = False) -> str:
    """The text of a module; `locations` adds where each operation comes from.

    >>> from tensorir.tile.text.modules import parse
    >>> text = 'entry @f() { %t = make_token : token loc("k.py":3:4) }'
    >>> print(print_module(parse(text), locations=True))
    entry @f() {
      %t = make_token : token loc("k.py":3:4)
      return
    }
    """
    printer = Printer(names_of(module), locations)
    alone = len(module.operations) == 1 and module.name == "kernels" and module.producer is None and not module.further
    if alone:
        printer.operation(module.operations[0], 0)
        return "\n".join(printer.lines)
    further = dict(module.further)
    if module.producer is not None:
        further["producer"] = module.producer
    said = f" attributes {spelled_attribute(Dictionary(tuple(sorted(further.items()))))}" if further else ""
    printer.lines.append(f"cuda_tile.module @{symbol(module.name)}{said} {{")
    for op in module.operations:
        printer.operation(op, 1)
    printer.lines.append("}")
    return "\n".join(printer.lines)


class Printer:
    """Lines, and what values are called in them."""

    names: dict[int, str]
    locations: bool

    def __init__(self, names: dict[int, str], locations: bool = False) -> None:
        self.names, self.locations = names, locations
        self.lines: list[str] = []

    def operation(self, op: Operation, depth: int) -> None:
        """Append the lines of an operation."""
        head = f"{'  ' * depth}{self.results(op)}{op.name}"
        own = OWN.get(op.name)
        if own is not None:
            own(self, op, head, depth)
        else:
            self.lines.append(head)
            self._follow(op, s.steps_of(op.row), depth)
        if self.locations and op.location is not None:
            self.lines[-1] += f" loc({spelled_location(op.location)})"

    def results(self, op: Operation) -> str:
        if not op.results:
            return ""
        if len(op.results) > 1 and op.row.results[-1].any:
            return f"%{self.names[id(op.results[0])].partition('#')[0]}:{len(op.results)} = "
        return f"{', '.join(map(self.value, op.results))} = "

    def value(self, value: Value) -> str:
        return f"%{self.names[id(value)]}"

    def values(self, values: Sequence[Value]) -> str:
        return ", ".join(map(self.value, values))

    def add(self, text: str, tight: bool = False) -> None:
        self.lines[-1] += text if tight else f" {text}"

    def dictionary(self, op: Operation, word: str = "") -> str:
        return f" {word}{spelled_attribute(Dictionary(op.further))}" if op.further else ""

    def region(self, region: Region, owner: str, depth: int) -> None:
        """Append ` {`, the operations and `}`; an end that the reader would add is left out."""
        self.add("{")
        operations = region.operations
        end = implied_end(owner)
        if (
            operations
            and end is not None
            and owner not in ("entry", "testing$func")
            and operations[-1].row is end
            and not operations[-1].values
        ):
            operations = operations[:-1]
        for op in operations:
            self.operation(op, depth + 1)
        self.lines.append(f"{'  ' * depth}}}")

    def arguments(self, values: Sequence[Value]) -> str:
        return f"({', '.join(f'{self.value(v)}: {v.type}' for v in values)})"

    def _follow(self, op: Operation, steps: Sequence[s.Step], depth: int) -> None:
        for step in steps:
            match step:
                case s.Literal(text):
                    self.add(text, tight=text in ",[]=" or self.lines[-1].endswith("["))
                case s.OperandStep(_, index, _):
                    slot = op.operands[index]
                    text = self.values(slot) if isinstance(slot, tuple) else self.value(slot) if slot else ""
                    self.add(text, tight=self.lines[-1].endswith(("[", "=")))
                case s.AttrStep(index):
                    self._attribute(op.row.attributes[index], op.attributes[index])
                case s.FlagsStep(indices):
                    for index in indices:
                        if op.attributes[index]:
                            self.add(op.row.attributes[index].name)
                case s.TypeStep(name, _):
                    self.add(", ".join(map(str, self._types(op, name))))
                case s.DictStep():
                    self.lines[-1] += self.dictionary(op)
                case s.RegionStep():
                    self.lines.append(f"{'  ' * depth}{self.arguments(op.regions[0].arguments)}")
                    self.region(op.regions[0], op.name, depth)
                case s.Group(inner, operand, attribute):
                    if operand is not None:
                        present = bool(op.operand(operand))
                    else:
                        value = op.attributes[attribute or 0]
                        present = value is not None and value != op.row.attributes[attribute or 0].default
                    if present:
                        self._follow(op, inner, depth)

    def _types(self, op: Operation, name: str) -> list[Type]:
        if name in op.row.operand_index:
            return [v.type for v in flat((op.operand(name),))]
        index = next(k for k, r in enumerate(op.row.results) if r.name == name)
        values = op.results[index:] if op.row.results[index].any else op.results[index : index + 1]
        return [v.type for v in values]

    def _attribute(self, attr: Attr, value: Attribute | None) -> None:
        tight = self.lines[-1].endswith("=")
        match attr.kind, value:
            case "enum", _:
                domain = attr.domain
                assert domain is not None
                if domain.keyword or attr.default is not None:
                    if value != attr.default:
                        self.add(f"{domain.keyword}<{value}>" if domain.keyword else str(value))
                else:
                    self.add(str(value))
            case "symbol" | "reference", str():
                self.add(f"@{symbol(value)}")
            case "dense", Dense():
                self.add(f"<{value.type.element}: {spelled_dense(value)}> : {value.type}")
            case "predicate", _:
                self.add(str(value))
            case "hints", Hints():
                self.add(spelled_hints(value), tight)
            case "int32_list", tuple():
                self.add(f"[{', '.join(map(str, value))}]")
            case "bool", bool():
                self.add(str(value).lower(), tight)
            case "int32" | "int64", int():
                self.add(str(value), tight)
            case _, None:
                pass
            case _:
                self.add(spelled_attribute(value), tight)
