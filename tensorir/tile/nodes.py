"""The nodes of Tile IR: values, operations, regions, modules; attributes and locations; equality up to names."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorir.nodes import occurrences
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import NOWHERE, Displayed, Span
from tensorir.tile.types import ELEMENTS, Element, Tile, Type

if TYPE_CHECKING:
    from tensorir.tile.operations.rows import Row

print_tile = ExtensionPoint("the text of a module of Tile IR", "tensorir.tile.text.printing", "print_module")
equal_tile = ExtensionPoint("whether two modules of Tile IR say the same", "tensorir.tile.equality", "same_modules")

# The values of attributes: numbers with a type, dense elements, predicates of assume, hints, and what MLIR adds.
#
# Enumerations are their words, flags are bools, integers, strings and lists of integers are Python's own.


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or a float with its type; `bits` is its pattern, without sign.

    >>> from tensorir.tile.types import ELEMENTS
    >>> Number(ELEMENTS["f32"], 0x3F800000).value
    1.0
    """

    element: Element
    bits: int

    @property
    def value(self) -> Any:
        """The number that the bits stand for; integers are signed."""
        return number_of(self.element, self.bits)


@dataclass(frozen=True, slots=True)
class Unit:
    """An attribute that is there, and says nothing more."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word of the dialect or of another one, as written: `#cuda_tile.rounding<zero>`."""

    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A reference to a symbol by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A type as an attribute."""

    type: Type


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Attributes by name, in the order of the names, as MLIR keeps them."""

    entries: tuple[tuple[str, Attribute], ...]

    def get(self, name: str) -> Attribute | None:
        return next((value for key, value in self.entries if key == name), None)


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints of optimization_hints for each architecture; without effect on results."""

    entries: tuple[tuple[str, Dictionary], ...]


@dataclass(frozen=True, slots=True)
class DivBy:
    """assume: values are divisible, in groups of `every` along `along` in which they count up."""

    divisor: int
    every: int | None = None
    along: int | None = None

    def __str__(self) -> str:
        groups = "" if self.every is None else f", every {self.every}"
        groups += "" if self.along is None else f"{'' if groups else ','} along {self.along}"
        return f"div_by<{self.divisor}{groups}>"


@dataclass(frozen=True, slots=True)
class SameElements:
    """assume: blocks of these extents hold equal values."""

    extents: tuple[int, ...]

    def __str__(self) -> str:
        return f"same_elements<[{', '.join(map(str, self.extents))}]>"


@dataclass(frozen=True, slots=True)
class Bounded:
    """assume: values are between two bounds, both included."""

    lower: int | None
    upper: int | None

    def __str__(self) -> str:
        lower, upper = ("?" if n is None else n for n in (self.lower, self.upper))
        return f"bounded<{lower}, {upper}>"


@dataclass(frozen=True, slots=True)
class Dense:
    """The elements of a constant: one that fills the tile, or all in row-major order; `data` has their storage.

    The storage of an element is little-endian, of at least a byte. Equal elements are kept once.
    """

    type: Tile
    data: bytes

    @property
    def is_splat(self) -> bool:
        assert isinstance(self.type.element, Element)
        return len(self.data) == self.type.element.bytes

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """The elements as an array of the tile's shape, of the element's NumPy type."""
        element = self.type.element
        assert isinstance(element, Element)
        raw = np.frombuffer(self.data, np.uint8) != 0 if element.bits == 1 else np.frombuffer(self.data, element.numpy)
        return np.broadcast_to(raw.reshape(()), self.type.shape) if self.is_splat else raw.reshape(self.type.shape)


def hints_of(entries: Iterable[tuple[str, Dictionary]]) -> Hints:
    """Hints as they are compared: by name, their integers of 32 bits, of which text does not say the type."""
    return Hints(tuple((name, Dictionary(tuple((k, _plain(v)) for k, v in d.entries))) for name, d in sorted(entries)))


def _plain(value: Attribute) -> Attribute:
    if isinstance(value, Number) and value.element.is_integer and -(1 << 31) <= value.value < 1 << 31:
        return Number(ELEMENTS["i32"], value.value & 0xFFFFFFFF)
    return value


Attribute = (
    str | bool | int | tuple[int, ...] | Number | Unit | Keyword | Symbol | Typed | Array | Dictionary | Hints | DivBy
    | SameElements | Bounded | Dense
)  # fmt: skip


def dense(type: Tile, data: bytes) -> Dense:
    """Dense elements, of which equal ones are kept once."""
    element = type.element
    assert isinstance(element, Element)
    size = element.bytes
    return Dense(type, data[:size] if len(data) > size and data == data[:size] * (len(data) // size) else data)


_PLAIN = {"f16": "<e", "f32": "<f", "tf32": "<f", "f64": "<d"}


def number_of(element: Element, bits: int) -> Any:
    """The number that a pattern of bits stands for; integers are signed, i1 is 0 or 1."""
    if element.is_integer:
        return bits if element.bits == 1 or bits >> (element.bits - 1) == 0 else bits - (1 << element.bits)
    if element.name in _PLAIN:
        return struct.unpack(_PLAIN[element.name], bits.to_bytes(element.bytes, "little"))[0]
    return float(np.frombuffer(bits.to_bytes(element.bytes, "little"), element.numpy)[0])


def bits_of(element: Element, value: int) -> int:
    """The pattern of bits of an integer."""
    return value & ((1 << element.bits) - 1)


# Where an operation comes from, as a producer says it: debug information, which has no meaning for a run.
#
# A location is a place in a file, perhaps with the scope of a debugger, a call, a name, or several of them.


@dataclass(frozen=True, slots=True)
class File:
    name: str
    directory: str = ""


@dataclass(frozen=True, slots=True)
class CompileUnit:
    file: File


@dataclass(frozen=True, slots=True)
class Subprogram:
    """A function of the source language."""

    file: File
    line: int
    name: str
    linkage_name: str
    unit: CompileUnit
    scope_line: int = 0


@dataclass(frozen=True, slots=True)
class LexicalBlock:
    """A block inside of a function of the source language."""

    scope: Scope
    file: File
    line: int
    column: int = 0


Scope = File | CompileUnit | Subprogram | LexicalBlock


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column of a file."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scoped:
    """A place in the scope of a function."""

    place: Place
    scope: Scope


@dataclass(frozen=True, slots=True)
class CallSite:
    callee: Location
    caller: Location


@dataclass(frozen=True, slots=True)
class Named:
    name: str
    at: Location | None = None


@dataclass(frozen=True, slots=True)
class Fused:
    parts: tuple[Location, ...]


Location = Place | Scoped | CallSite | Named | Fused

# The nodes of Tile IR: values, operations, regions and modules.
#
# An operation is a row of the table (`tensorir.tile.operations`) with what fills it: one slot for each operand of the
# row (a value, None where an optional one is left out, a tuple of values where there may be any number), one for each
# attribute, then results and regions. Values are known by identity; their names only serve to print.


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """The result of an operation, or the argument of a region."""

    type: Type
    name: str = ""
    """What the text called it, without the percent sign."""

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


Slot = Value | tuple[Value, ...] | None
"""What stands for one operand of a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation; `operands` and `attributes` have a slot for each of the row's, absent ones are None."""

    row: Row
    operands: tuple[Slot, ...] = ()
    attributes: tuple[Attribute | None, ...] = ()
    results: tuple[Value, ...] = ()
    regions: tuple[Region, ...] = ()
    further: tuple[tuple[str, Attribute], ...] = ()
    """Attributes that the row does not know, in the order of their names."""
    span: Span = field(default=NOWHERE)
    location: Location | None = None
    """Where the operation comes from, if the producer kept that: debug information, without meaning."""

    @property
    def name(self) -> str:
        return self.row.name

    def operand(self, name: str) -> Any:
        """The value, or values, in the slot of an operand."""
        return self.operands[self.row.operand_index[name]]

    def attribute(self, name: str) -> Any:
        """The value of an attribute, or None."""
        return self.attributes[self.row.attribute_index[name]]

    @property
    def values(self) -> tuple[Value, ...]:
        """All operands one after the other."""
        return flat(self.operands)

    def __repr__(self) -> str:
        return f"<{self.name}>"


def flat(slots: Sequence[Slot]) -> tuple[Value, ...]:
    """The values of slots one after the other."""
    found: list[Value] = []
    for slot in slots:
        if isinstance(slot, tuple):
            found.extend(slot)
        elif slot is not None:
            found.append(slot)
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """One block: its arguments, then operations of which the last ends it."""

    arguments: tuple[Value, ...] = ()
    operations: tuple[Operation, ...] = ()
    span: Span = field(default=NOWHERE)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Module(Displayed):
    """Entries and globals. Modules are equal where they say the same, whatever their values are called.

    `str` prints the assembly that `ti.tile.parse` reads; a function that stands alone has no wrapper.
    """

    _drawn_by: ClassVar[str] = "tensorir.tile.pictures:page_of"

    operations: tuple[Operation, ...]
    name: str = "kernels"
    producer: str | None = None
    further: tuple[tuple[str, Attribute], ...] = ()
    span: Span = field(default=NOWHERE)
    location: Location | None = None

    @property
    def entries(self) -> dict[str, Operation]:
        """The entries by name."""
        return {op.attribute("sym_name"): op for op in self.operations if op.name == "entry"}

    @property
    def globals(self) -> dict[str, Operation]:
        return {op.attribute("sym_name"): op for op in self.operations if op.name == "global"}

    def __eq__(self, other: object) -> bool:
        return equal_tile(self, other) if isinstance(other, Module) else NotImplemented

    def __hash__(self) -> int:
        return hash((len(self.operations), *(op.name for op in self.operations)))

    def __str__(self) -> str:
        return print_tile(self)

    def __repr__(self) -> str:
        names = ", ".join(f"@{op.attribute('sym_name')}" for op in self.operations[:8])
        return f"<tile module @{self.name}: {names}{' ...' if len(self.operations) > 8 else ''}>"


def operations_of(root: Module | Region) -> Iterator[Operation]:
    """Every operation under a node, each before those in its regions."""
    return occurrences(root.operations, lambda op: [inner for region in op.regions for inner in region.operations])
