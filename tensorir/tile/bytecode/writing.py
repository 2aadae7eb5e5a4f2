"""A module as bytecode: sections, functions, regions and operations, in the order that the table's rows say."""

from __future__ import annotations

from typing import Any

from tensorir.tile.bytecode.bytes import MAGIC, PADDING, SECTIONS, Output, Tables, Version, version_of
from tensorir.tile.bytecode.tables import flag_bits
from tensorir.tile.bytecode.tagged import DebugTable, write_dictionary, write_table, write_tagged
from tensorir.tile.nodes import Array, Attribute, Hints, Module, Operation, Region, Typed, Value, operations_of
from tensorir.tile.operations import Attr

_NUMBER = {name: number for number, name in SECTIONS.items()}


def to_bytecode(module: Module, version: str = "13.3", debug: bool = True) -> bytes:
    """The bytecode of a module, of version 13.1, 13.2 or 13.3.

    `debug=False` drops where operations come from. Raises TB07 for what the version lacks, with the name of the first
    version that has it. Names of values, and attributes that the dialect does not know, are not kept.

    >>> from tensorir.tile import parse
    >>> to_bytecode(parse("entry @f() {}"), version="13.1")[:10]
    b'\\x7fTileIR\\x00\\r\\x01'
    """
    return _Writing(module, version_of(version), debug).file()


class _Writing:
    """The writing of one file."""

    def __init__(self, module: Module, version: Version, debug: bool) -> None:
        self.module, self.version, self.tables = module, version, Tables(version)
        self.numbers: dict[int, int] = {}
        self.next: int = 0
        self.located = debug and any(op.location is not None for op in (*module.operations, *operations_of(module)))

    def file(self) -> bytes:
        tables = self.tables
        functions = [op for op in self.module.operations if op.name != "global"]
        code = Output(tables)
        self.debug = DebugTable(code)
        code.varint(len(functions))
        for op in functions:
            self._function(code, op)
        globals_ = Output(tables)
        found = [op for op in self.module.operations if op.name == "global"]
        globals_.varint(len(found))
        for op in found:
            self._global(globals_, op)
        producer = Output(tables)
        if self.module.producer is not None and self.version >= (13, 3):
            producer.string(self.module.producer)
        debug = self.debug.section() if self.located else Output(tables)
        constants, types, strings = Output(tables), Output(tables), Output(tables)
        write_table(constants, [_sized(raw) for raw in tables.constants], 8)
        write_table(types, tables.type_bytes, 4)
        write_table(strings, list(tables.strings), 4)
        file = bytearray(MAGIC + bytes(self.version) + b"\x00\x00")
        for name, part, alignment in (
            ("Func", code, 8), ("Global", globals_ if found else None, 1), ("Constant", constants, 8),
            ("Debug", debug if self.located else None, 8), ("Type", types, 4),
            ("Producer", producer if producer.buffer else None, 1), ("String", strings, 4),
        ):  # fmt: skip
            if part is not None:
                _section(file, _NUMBER[name], bytes(part.buffer), alignment)
        return bytes(file + b"\x00")

    def _function(self, out: Output, op: Operation) -> None:
        out.at = op.span
        if op.row.opcode is None or op.name != "entry":
            out.refuse(op.name)
        out.string(op.attribute("sym_name"))
        signature = op.attribute("function_type")
        assert isinstance(signature, Typed)
        out.type(signature.type)
        hints = op.attribute("optimization_hints")
        out.raw(bytes([2 | (4 if hints is not None else 0)]))
        located: list[int] = []
        if self.located:
            self.debug.functions.append(located)
        out.varint(len(self.debug.functions))
        if isinstance(hints, Hints):
            write_tagged(out, hints)
        self.numbers, self.next = {}, 0
        body = op.regions[0]
        self._number(body.arguments)
        located.append(self.debug.number(op.location) if self.located else 0)
        code = Output(self.tables)
        self._operations(code, body, located)
        out.varint(len(code.buffer))
        out.raw(bytes(code.buffer))

    def _global(self, out: Output, op: Operation) -> None:
        out.at = op.span
        out.string(op.attribute("sym_name"))
        value: Any = op.attribute("value")
        out.type(value.type)
        out.constant(value)
        out.varint(op.attribute("alignment"))
        constant, visibility = bool(op.attribute("constant")), op.attribute("symbol_visibility")
        if self.version >= (13, 3):
            out.varint(0 if visibility == "public" else 1)
            out.varint(int(constant))
        elif constant or visibility != "public":
            out.refuse("a constant or private global", (13, 3))

    def _number(self, values: tuple[Value, ...]) -> None:
        for value in values:
            self.numbers[id(value)] = self.next
            self.next += 1

    def _operations(self, out: Output, region: Region, located: list[int]) -> None:
        for op in region.operations:
            out.at = op.span
            self._operation(out, op, located)

    def _operation(self, out: Output, op: Operation, located: list[int]) -> None:
        row, version = op.row, self.version
        if row.opcode is None or row.name in ("module", "entry", "global"):
            out.refuse(row.name)
        if row.since > version:
            out.refuse(row.name, row.since)
        located.append(self.debug.number(op.location) if self.located else 0)
        out.varint(row.opcode)
        unnumbered = row.name == "print_tko" and version < (13, 2)
        if row.counted:
            out.varint(0 if unnumbered else len(op.results))
        if not unnumbered:
            for value in op.results:
                out.type(value.type)
        bits = flag_bits(row, version)
        if bits:
            flags = 0
            for name, bit in bits.items():
                present = op.attribute(name) if name in row.attribute_index else op.operand(name)
                flags |= (present is not None and present is not False) << bit
            out.varint(flags)
        for attr, value in zip(row.attributes, op.attributes, strict=True):
            if attr.since > version:
                if value != attr.default:
                    out.refuse(f"the attribute '{attr.name}' of {row.name}", attr.since)
            elif value is not None and attr.kind != "flag":
                self._attribute(out, attr, value)
        if any(o.count == "any" for o in row.operands) and not row.segments:
            out.varint(len(op.values))
        for operand, slot in zip(row.operands, op.operands, strict=True):
            if operand.since > version and slot is not None:
                out.refuse(f"the operand '{operand.name}' of {row.name}", operand.since)
            if isinstance(slot, tuple):
                if row.segments:
                    out.varint(len(slot))
                for value in slot:
                    self._value(out, value)
            elif slot is not None:
                self._value(out, slot)
        if row.regions:
            self._regions(out, op, located)
        if not unnumbered:
            self._number(op.results)

    def _value(self, out: Output, value: Value) -> None:
        number = self.numbers.get(id(value))
        if number is None:
            out.refuse("a value that is not defined before, or whose version has no number for it,")
        out.varint(number)

    def _regions(self, out: Output, op: Operation, located: list[int]) -> None:
        out.varint(len(op.row.regions))
        for region in op.regions:
            out.varint(1)
            out.varint(len(region.arguments))
            for value in region.arguments:
                out.type(value.type)
            outer, known = self.next, len(self.numbers)
            self._number(region.arguments)
            out.varint(len(region.operations))
            self._operations(out, region, located)
            while len(self.numbers) > known:  # what a region defines is numbered last, and ends with it
                self.numbers.popitem()
            self.next = outer
        for _ in range(len(op.row.regions) - len(op.regions)):
            out.varint(0)

    def _attribute(self, out: Output, attr: Attr, value: Attribute) -> None:
        match attr.kind, value:
            case "enum", str():
                assert attr.domain is not None
                out.varint(attr.domain.number(value))
            case "int32" | "int64", int():
                out.varint(value & 0xFFFFFFFFFFFFFFFF)
            case "bool", bool():
                out.raw(bytes([value]))
            case "string" | "symbol" | "reference", str():
                out.string(value)
            case "int32_list", tuple():
                out.list(value, 4)
            case "numbers", Array(items):
                out.varint(len(items))
                for item in items:
                    write_tagged(out, item)
            case "hints", Hints(entries):
                write_dictionary(out, entries)
            case "dense", _:
                out.constant(value)  # type: ignore[arg-type]
            case _:
                write_tagged(out, value)


def _sized(raw: bytes) -> bytes:
    out = Output(Tables((13, 3)))
    out.varint(len(raw))
    return bytes(out.buffer) + raw


def _section(file: bytearray, number: int, payload: bytes, alignment: int) -> None:
    head = Output(Tables((13, 3)))
    head.raw(bytes([number | (0x80 if alignment > 1 else 0)]))
    head.varint(len(payload))
    if alignment > 1:
        head.varint(alignment)
    file += head.buffer
    file += bytes([PADDING]) * (-len(file) % alignment)
    file += payload
