"""The generic form of operations, `"cuda_tile.addf"(%a, %b) <{...}> : (...) -> ...`, and attributes as it has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tensorir.tile.attributes import (
    Array,
    Attribute,
    Bounded,
    Dense,
    DivBy,
    Hints,
    Keyword,
    Number,
    SameElements,
    Symbol,
    Typed,
    Unit,
)
from tensorir.tile.nodes import Operation, Region, Slot, Value
from tensorir.tile.operations import Attr, Row
from tensorir.tile.types import Function, Type

if TYPE_CHECKING:
    from tensorir.tile.text.reader import Reader

__all__ = ["accept_attribute", "generic_operation"]

_CASE = re.compile(r"#cuda_tile\.(\w+)<\s*(\w+)\s*>")


def accept_attribute(reader: Reader, attr: Attr, value: Attribute, start: int) -> Attribute | None:
    """The value of a row's attribute from one that dictionaries hold; refused where it is of another kind."""
    if attr.kind == "signature" and isinstance(value, Typed) and isinstance(value.type, Function):
        return value
    match attr.kind, value:
        case "enum", Keyword(text):
            found = _CASE.fullmatch(text)
            domain = attr.domain
            if found and domain is not None and found[1] == domain.mnemonic and found[2] in domain.cases:
                return found[2]
        case "enum", Number() if attr.domain is not None and not attr.domain.mnemonic:
            if value.element.is_integer and 0 <= value.value < len(attr.domain.cases):
                return attr.domain.cases[int(value.value)]
        case "flag", Unit():
            return True
        case "int32" | "int64", Number() if value.element.name == ("i32" if attr.kind == "int32" else "i64"):
            if attr.least is None or value.value >= attr.least:
                return value.value
        case "bool", bool():
            return value
        case "string" | "symbol", str():
            return value
        case "reference", Symbol(name):
            return name
        case "dense", Dense():
            return value
        case "int32_list", tuple():
            return value
        case "numbers" | "dictionaries", Array():
            return value
        case "predicate", DivBy() | SameElements() | Bounded():
            return value
        case "hints", Hints():
            return value
        case _:
            pass
    what = "a case of its own" if attr.kind == "enum" else f"a value of kind '{attr.kind}'"
    reader.c.fail("TM36", f"the attribute '{attr.name}' needs {what}, and has another.", "", start, start + 1)


def generic_operation(reader: Reader, row: Row, start: int, names: list[tuple[str, int, int]]) -> Operation:
    """An operation in the generic form, after its quoted name."""
    c = reader.c
    c.expect("(")
    places: list[int] = []
    given: list[Value] = []
    while not c.accept(")"):
        places.append(c.pos)
        given.append(reader.value())
        if not c.accept(","):
            c.expect(")")
            break
    entries: dict[str, Attribute] = {}
    before = c.pos
    if c.accept("<"):
        entries.update(reader.attributes.dictionary().entries)
        c.expect(">")
    regions: list[Region] = []
    if c.accept("("):
        while not c.accept(")"):
            regions.append(reader.region(""))
            if not c.accept(","):
                c.expect(")")
                break
    if c.text.startswith("{", c.pos):
        entries.update(reader.attributes.dictionary().entries)
    c.expect(":")
    type_place = c.pos
    signature = reader.types.function()
    if len(signature.params) != len(given):
        c.fail(
            "TM45",
            f"{len(given)} operands have {len(signature.params)} types here.",
            "",
            type_place,
            c.span(type_place).stop,
        )
    for place, value, type in zip(places, given, signature.params, strict=True):
        if value.type != type:
            span = c.span_of_token(place)
            c.fail("TM40", f"'{span.text}' is of type {value.type}, and {type} is needed here.", "", place, span.stop)
    sizes = entries.pop("operandSegmentSizes", None)
    operands = _slots(reader, row, given, sizes, start)
    attributes: list[Attribute | None] = [a.default for a in row.attributes]
    further: list[tuple[str, Attribute]] = []
    for name, value in sorted(entries.items()):
        index = row.attribute_index.get(name)
        if index is None:
            further.append((name, value))
        elif row.attributes[index].kind != "dictionaries":  # attributes of arguments say nothing, and are not kept
            attributes[index] = accept_attribute(reader, row.attributes[index], value, before)
    span = c.span(start)
    for attr, value in zip(row.attributes, attributes, strict=True):
        if value is None and not attr.may_be_absent:
            c.fail("TM46", f"{row.name} needs the attribute '{attr.name}'.", "", start, span.stop)
    _counts(reader, row, regions, signature.results, start)
    labels = [name if count == 1 else "" for name, count, _ in names for _ in range(count)]
    labels = labels if len(labels) == len(signature.results) else [""] * len(signature.results)
    results = tuple(Value(t, n) for t, n in zip(signature.results, labels, strict=True))
    if row.name == "if" and len(regions) == 2 and not regions[1].operations:
        regions.pop()
    location = reader.locations.trailing()
    return Operation(row, operands, tuple(attributes), results, tuple(regions), tuple(further), span, location)


def _slots(reader: Reader, row: Row, given: list[Value], sizes: Attribute | None, start: int) -> tuple[Slot, ...]:
    """The operands, divided among the slots of the row."""
    loose = [k for k, o in enumerate(row.operands) if o.count != "one"]
    fixed = len(row.operands) - len(loose)
    if isinstance(sizes, tuple):
        counts = list(sizes)
    elif len(loose) <= 1:
        counts = [1 if o.count == "one" else len(given) - fixed for o in row.operands]
    elif len(given) == fixed:
        counts = [1 if o.count == "one" else 0 for o in row.operands]
    else:
        reader.c.fail("TM46", f"{row.name} needs the attribute 'operandSegmentSizes'.", "", start)
    fits = len(counts) == len(row.operands) and sum(counts) == len(given) and all(
        count == 1 if o.count == "one" else count in (0, 1) if o.count == "optional" else count >= 0
        for count, o in zip(counts, row.operands, strict=False)
    )  # fmt: skip
    if not fits:
        needed = f"{fixed} operand{'s' * (fixed != 1)}" if not loose else f"at least {fixed}"
        reader.c.fail(
            "TM45", f"{row.name} takes {needed}, and {len(given)} do not fit.", "", start, reader.c.span(start).stop
        )
    slots: list[Slot] = []
    place = 0
    for operand, count in zip(row.operands, counts, strict=True):
        part = tuple(given[place : place + count])
        slots.append(part if operand.count == "any" else part[0] if part else None)
        place += count
    return tuple(slots)


def _counts(reader: Reader, row: Row, regions: list[Region], results: tuple[Type, ...], start: int) -> None:
    c = reader.c
    optional = 1 if row.name == "if" else 0
    if not len(row.regions) - optional <= len(regions) <= len(row.regions):
        c.fail(
            "TM48",
            f"{row.name} has {len(row.regions)} region(s), and here are {len(regions)}.",
            "",
            start,
            c.span(start).stop,
        )
    if not any(r.any for r in row.results) and len(results) != len(row.results):
        c.fail(
            "TM44",
            f"{row.name} has {len(row.results)} result(s), and {len(results)} types are given.",
            "",
            start,
            c.span(start).stop,
        )
