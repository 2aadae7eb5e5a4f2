"""The nodes of Tile IR: values, operations, regions and modules.

An operation is a row of the table (`tensorir.tile.operations`) with what fills it: one slot for each operand of the row
(a value, None where an optional one is left out, a tuple of values where there may be any number), one for each
attribute, then results and regions. Values are known by identity; their names only serve to print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tensorir.runtime.assembly import equal_tile, print_tile
from tensorir.runtime.errors import NOWHERE, Displayed, Span
from tensorir.tile.attributes import Attribute
from tensorir.tile.locations import Location
from tensorir.tile.types import Type

if TYPE_CHECKING:
    from tensorir.tile.operations.rows import Row

__all__ = ["Module", "Operation", "Region", "Slot", "Value", "flat", "operations_of"]


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
    stack = [iter(root.operations)]
    while stack:
        for op in stack[-1]:
            yield op
            if op.regions:
                stack.append(iter([inner for region in op.regions for inner in region.operations]))
                break
        else:
            stack.pop()
