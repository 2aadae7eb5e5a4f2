"""Bytecode as a module: functions, regions and operations, in the order that the table's rows say."""

from __future__ import annotations

import gc
from typing import Any

from tensorir.runtime.errors import NOWHERE, refuse
from tensorir.tile.bytecode.bytes import Bytes, Sections, sections_of, spelled
from tensorir.tile.bytecode.tables import Tables, flag_bits
from tensorir.tile.bytecode.tagged import Debug, read_hints, read_tagged
from tensorir.tile.nodes import (
    Array,
    Attribute,
    Bounded,
    DivBy,
    Hints,
    Location,
    Module,
    Operation,
    Region,
    SameElements,
    Slot,
    Typed,
    Value,
)
from tensorir.tile.operations import ROWS_BY_OPCODE, TABLE, Attr, Row
from tensorir.tile.types import Function, Type

MAX_NESTING = 100
"""How deeply regions nest."""
_HIGHEST = {(13, 1): 0x6D, (13, 2): 0x6E, (13, 3): 0x75}
_VISIBILITY = ("public", "private")


def from_bytecode(data: object, name: str = "<bytecode>", debug: bool = True) -> Module:
    """The module in a file of Tile IR bytecode (versions 13.1, 13.2, 13.3), given as bytes.

    `debug=False` drops where operations come from. Raises a DiagnosticError with the place of the byte for a file that
    is damaged, or holds what its version lacks.

    >>> from tensorir.tile import parse, to_bytecode
    >>> module = parse("entry @f(%x: tile<i32>) { %y = addi %x, %x : tile<i32> }")
    >>> from_bytecode(to_bytecode(module)) == module
    True
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        message = f"bytecode is bytes, and this is of type {type(data).__name__}."
        raise refuse("TB01", message, "ti.tile.parse reads text.")
    c = Bytes(bytes(data), name)  # pyright: ignore[reportUnknownArgumentType]
    running = gc.isenabled()
    gc.disable()  # nodes only grow here: looking for cycles in them takes a third of the time
    try:
        return _Reading(sections_of(c), debug).module()
    except RecursionError:
        # The limits of nesting leave room; a caller deep in a recursion of its own may use that up.
        raise refuse("TB12", "the file is nested too deeply to be read from here.") from None
    finally:
        if running:
            gc.enable()


class _Reading:
    """The reading of one file."""

    def __init__(self, sections: Sections, debug: bool) -> None:
        self.sections, self.tables, self.version = sections, Tables(sections), sections.version
        self.debug = Debug(sections.parts.get("Debug") if debug else None, self.tables)
        self.values: list[Value] = []
        self.locations: list[Location | None] = []
        self.count = 0
        self.depth: int = 0

    def module(self) -> Module:
        parts = self.sections.parts
        operations = [*self._globals(parts.get("Global"))]
        c = parts["Func"]
        for _ in range(c.varint("the number of functions", 1 << 20)):
            operations.append(self._function(c))
        producer = None
        if (p := parts.get("Producer")) is not None:
            producer = self.tables.string(p, "the producer")
        return Module(tuple(operations), "kernels", producer, (), NOWHERE)

    def _globals(self, c: Bytes | None) -> list[Operation]:
        found: list[Operation] = []
        row = TABLE["global"]
        for _ in range(0 if c is None else c.varint("the number of globals", 1 << 20)):
            assert c is not None
            start = c.pos
            name = self.tables.string(c, "the name of a global")
            type = self.tables.type(c, "the type of a global")
            value = self.tables.dense(c, type)
            alignment = c.varint("the alignment of a global", 1 << 63)
            visibility, constant = "public", None
            if self.version >= (13, 3):
                visibility = _VISIBILITY[c.varint("the visibility of a global", 2)]
                constant = True if c.varint("whether a global is constant", 2) else None
            attributes: tuple[Attribute | None, ...] = (name, value, alignment, constant, visibility)
            found.append(Operation(row, (), attributes, span=c.span(start, c.pos)))
        return found

    def _function(self, c: Bytes) -> Operation:
        start = c.pos
        name = self.tables.string(c, "the name of a function")
        place = c.pos
        signature = self.tables.type(c, "a signature")
        if not isinstance(signature, Function):
            c.fail("TB10", f"the type of a function is a signature, and {signature} is none.", place)
        flags_place = c.pos
        flags = c.byte("the flags of a function")
        if flags & ~7:
            c.fail("TB10", f"the flags of a function are {flags:#x}, and at most 7 is possible.", flags_place)
        if not flags & 2:
            c.fail("TB10", f"'{name}' is no kernel, and a module holds kernels.", flags_place)
        self.locations = self.debug.of(c.varint("the debug information of a function"), c)
        hints: Attribute | None = None
        if flags & 4:
            place = c.pos
            hints = read_tagged(c, self.tables)
            if not isinstance(hints, Hints):
                c.fail("TB10", "the hints of a function are of another kind.", place)
        length = c.varint("the length of a function's code")
        if length > c.end - c.pos:
            c.fail("TB02", f"the code of '{name}' takes {length} bytes, and {c.end - c.pos} are left.")
        code = Bytes(c.data, c.name, c.pos, c.pos + length)
        c.pos += length
        self.values = [Value(t) for t in signature.params]
        self.count = 0
        location = self._next_location()
        arguments = tuple(self.values)
        operations: list[Operation] = []
        while code.pos < code.end:
            operations.append(self._operation(code))
        row = TABLE["entry"]
        attributes = {"sym_name": name, "function_type": Typed(signature), "optimization_hints": hints}
        region = Region(arguments, tuple(operations), c.span(start, c.pos))
        values = tuple(attributes.get(a.name) for a in row.attributes)
        return Operation(row, (), values, (), (region,), (), c.span(start, c.pos), location)

    def _next_location(self) -> Location | None:
        self.count += 1
        return self.locations[self.count - 1] if self.count <= len(self.locations) else None

    def _operation(self, c: Bytes) -> Operation:
        start = c.pos
        opcode = c.varint("an operation")
        row = ROWS_BY_OPCODE.get(opcode)
        if row is None or opcode > _HIGHEST[self.version]:
            if row is not None:
                since, version = spelled(row.since), spelled(self.version)
                c.fail("TB07", f"{row.name} is of version {since}, and the file is of {version}.", start)
            c.fail("TB10", f"there is no operation of the number {opcode:#x}.", start)
        if row.name in ("module", "entry", "global"):
            c.fail("TB10", f"{row.name} does not stand among operations.", start)
        location = self._next_location()
        version, values = self.version, self.values
        types = self._result_types(row, c)
        flags, bits = 0, flag_bits(row, version)
        if bits:
            place = c.pos
            flags = c.varint("the flags of an operation")
            if flags >> len(bits):
                c.fail("TB10", f"the flags of {row.name} are {flags:#x}, and there are {len(bits)}.", place)
        attributes: list[Attribute | None] = []
        for attr in row.attributes:
            if attr.since > version:
                attributes.append(attr.default)
            elif attr.kind == "flag":
                attributes.append(True if flags >> bits[attr.name] & 1 else None)
            elif attr.optional and not flags >> bits[attr.name] & 1:
                attributes.append(None)
            else:
                attributes.append(self._attribute(c, attr, types))
        operands = self._operands(row, c, flags, bits)
        regions: tuple[Region, ...] = ()
        if row.regions:
            regions = self._regions(row, c)
        results = tuple([Value(t) for t in types])
        if not (row.name == "print_tko" and version < (13, 2)):
            values.extend(results)
        return Operation(row, operands, tuple(attributes), results, regions, (), c.span(start, c.pos), location)

    def _result_types(self, row: Row, c: Bytes) -> list[Type]:
        tables = self.tables
        if not row.counted:
            return [tables.type(c) for _ in row.results]
        place = c.pos
        count = c.varint("the number of results", 1 << 16)
        types = [tables.type(c) for _ in range(count)]
        if row.name == "print_tko" and self.version < (13, 2):
            if count:
                c.fail("TB10", "print of version 13.1 has no results.", place)
            return [r.types.only for r in row.results if r.types.only is not None]
        if not any(r.any for r in row.results) and count != len(row.results):
            c.fail("TB10", f"{row.name} has {len(row.results)} results, and not {count}.", place)
        return types

    def _attribute(self, c: Bytes, attr: Attr, types: list[Type]) -> Attribute:
        start = c.pos
        match attr.kind:
            case "enum":
                assert attr.domain is not None
                return attr.domain.cases[c.varint(f"the {attr.name}", len(attr.domain.cases))]
            case "int32" | "int64":
                number = c.varint(f"the {attr.name}")
                number -= 1 << 64 if number >> 63 else 0
                if (attr.least is not None and number < attr.least) or (attr.kind == "int32" and number >> 31):
                    c.fail("TB10", f"'{attr.name}' is {number}.", start)
                return number
            case "bool":
                return bool(c.byte(f"the {attr.name}"))
            case "string" | "symbol" | "reference":
                return self.tables.string(c, f"the {attr.name}")
            case "dense":
                return self.tables.dense(c, types[0])
            case "int32_list":
                return c.list(4)
            case "numbers":
                count = c.varint("the length of an array", 1 << 16)
                return Array(tuple(read_tagged(c, self.tables) for _ in range(count)))
            case "hints":
                return read_hints(c, self.tables)
            case _:
                found: Any = read_tagged(c, self.tables)
                if not isinstance(found, DivBy | SameElements | Bounded):
                    c.fail("TB10", "this is no predicate.", start)
                return found

    def _operands(self, row: Row, c: Bytes, flags: int, bits: dict[str, int]) -> tuple[Slot, ...]:
        operands: list[Slot] = []
        loose = any(o.count == "any" for o in row.operands)
        left = -1
        if loose and not row.segments:
            place = c.pos
            fixed = sum(o.count == "one" for o in row.operands)
            left = c.varint("the number of operands", 1 << 16) - fixed
            if left < 0:
                c.fail("TB10", f"{row.name} has at least {fixed} operands.", place)
        for operand in row.operands:
            if operand.count == "one":
                operands.append(self._value(c))
            elif operand.count == "optional":
                present = operand.name in bits and flags >> bits[operand.name] & 1
                operands.append(self._value(c) if present else None)
            else:
                count = left if left >= 0 else c.varint("the number of operands", 1 << 16)
                operands.append(tuple([self._value(c) for _ in range(count)]))
        return tuple(operands)

    def _value(self, c: Bytes) -> Value:
        start = c.pos
        number = c.varint("a value")
        if number >= len(self.values):
            c.fail("TB08", f"there is no value {number} here: there are {len(self.values)}.", start)
        return self.values[number]

    def _regions(self, row: Row, c: Bytes) -> tuple[Region, ...]:
        place = c.pos
        count = c.varint("the number of regions", 1 << 8)
        least = 1 if row.name == "if" else len(row.regions)
        if not least <= count <= len(row.regions):
            c.fail("TB10", f"{row.name} has {len(row.regions)} regions, and not {count}.", place)
        if self.depth >= MAX_NESTING:
            c.fail("TB12", f"regions nest at most {MAX_NESTING} deep.", place)
        self.depth += 1
        regions: list[Region] = []
        for k in range(count):
            start = c.pos
            blocks = c.varint("the number of blocks", 2)
            if not blocks:
                if row.name != "if" or k != 1:
                    c.fail("TB10", f"a region of {row.name} has a block.", start)
                continue
            outer = len(self.values)
            types = [self.tables.type(c) for _ in range(c.varint("the number of arguments", 1 << 16))]
            arguments = tuple(Value(t) for t in types)
            self.values.extend(arguments)
            operations = [self._operation(c) for _ in range(c.varint("the number of operations", 1 << 31))]
            del self.values[outer:]
            regions.append(Region(arguments, tuple(operations), c.span(start, c.pos)))
        self.depth -= 1
        return tuple(regions)
