"""Lists of arrays in a kernel of cuTile: taken apart, so that each array is a parameter of its own.

cuTile passes a list as a pointer to a table in memory, a row of words for each array (its pointer, its extents, its
strides), and a length. No tensor program reads arrays through a table, and a launch knows the length: loops whose
counter chooses an array are unrolled, rows at constant indices become parameters, and no table is left.
"""

# Constants are folded by the interpreter's meanings, whose arrays hold elements of any type.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tile.attributes import Typed, dense
from tensorir.tile.interpret.meanings import MEANINGS
from tensorir.tile.nodes import Module, Operation, Region, Slot, Value, operations_of
from tensorir.tile.operations import TABLE
from tensorir.tile.types import Function, Tile, Type

__all__ = ["ArrayList", "without_lists"]

LARGEST = 20_000
"""How many operations a kernel may have once its loops over lists are unrolled."""

INDEX = "index a list by a constant or the counter of a loop with constant bounds, as in for n in range(len(xs))."


@dataclass(frozen=True, slots=True)
class ArrayList:
    """A list among the parameters: its name, how many arrays it has, and the types of the words of each."""

    name: str
    length: int
    words: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """What has been read of a row: all of its words, or the one at `word`."""

    of: tuple[Value, ...]
    word: int | None = None


def without_lists(module: Module, lists: Mapping[int, ArrayList]) -> Module:
    """The module of one entry with the words of each array in place of its lists, by the place of the list's pointer.

    Raises TK11 for an index that is no constant, TK12 for one outside of the list, TK13 where a loop is not unrolled.
    """
    (entry,) = module.operations
    (body,) = entry.regions
    taking = _Taking()
    params: list[Value] = []
    at = 0
    while at < len(body.arguments):
        if at in lists:
            params += taking.list(lists[at], *body.arguments[at : at + 2])
        else:
            params.append(taking.fresh(body.arguments[at]))
        at += 2 if at in lists else 1
    taking.operations(body.operations)
    attributes = list(entry.attributes)
    index = entry.row.attribute_index["function_type"]
    attributes[index] = Typed(Function(tuple(p.type for p in params), ()))
    region = Region(tuple(params), tuple(taking.made), body.span)
    return replace(module, operations=(replace(entry, attributes=tuple(attributes), regions=(region,)),))


class _Taking:
    """One entry on its way: what stands for each value, and what is known of it."""

    def __init__(self) -> None:
        self.known: dict[Value, Value] = {}
        self.numbers: dict[Value, np.ndarray[Any, Any]] = {}
        self.tables: dict[Value, tuple[ArrayList, tuple[tuple[Value, ...], ...]]] = {}
        self.items: dict[Value, Item] = {}
        self.made: list[Operation] = []
        self.count = 0
        self.unrolling = False
        """Whether the innermost loop around is one that is unrolled."""

    def list(self, xs: ArrayList, pointer: Value, length: Value) -> Sequence[Value]:
        """The parameters that a list becomes; its length is a constant."""
        rows = tuple(tuple(map(Value, xs.words)) for _ in range(xs.length))
        self.tables[pointer] = xs, rows
        self.number(length, np.array(xs.length, np.int32))
        return [word for row in rows for word in row]

    def fresh(self, v: Value) -> Value:
        self.known[v] = made = replace(v)
        self.numbers.pop(v, None)
        return made

    def number(self, v: Value, number: np.ndarray[Any, Any]) -> None:
        """A value that is a constant."""
        assert isinstance(v.type, Tile)
        made = self.fresh(v)
        self.emit(Operation(TABLE["constant"], (), (dense(v.type, number.tobytes()),), (made,)))
        self.numbers[v] = number

    def slot(self, slot: Slot) -> Slot:
        if slot is None:
            return None
        return tuple(self.known[v] for v in slot) if isinstance(slot, tuple) else self.known[slot]

    def bind(self, names: Sequence[Value], values: Sequence[Value]) -> None:
        """Names for values; all are read before one is set, since a loop may carry its names on in another order."""
        found = [(self.known[v], self.numbers.get(v)) for v in values]
        for name, (value, number) in zip(names, found, strict=True):
            self.known[name] = value
            self.numbers.pop(name, None)
            if number is not None:
                self.numbers[name] = number

    def emit(self, op: Operation) -> None:
        self.count += 1
        if self.count > LARGEST:
            message = f"the loops that choose an array of a list come to more than {LARGEST:,} operations unrolled."
            raise _refused("TK13", message, op, "pass shorter lists, in several launches.")
        self.made.append(op)

    def operations(self, found: Sequence[Operation], ends: bool = True) -> Operation | None:
        """The operations of a region; what ends it is emitted where `ends`, and given."""
        for op in found:
            if op.row.ends:
                if ends:
                    self.plain(op)
                return op
            end = self.operation(op)
            if end is not None:
                if ends:
                    self.plain(end)
                return end
        return None

    def operation(self, op: Operation) -> Operation | None:
        """One operation; the end of the region where a branch that is known to be taken has it."""
        first = op.values[0] if op.values else None
        if first in self.tables:
            self.table(op, first)
        elif first in self.items and self.word(op, self.items[first]):
            pass
        elif op.name == "if" and op.operand("condition") in self.numbers:
            return self.branch(op)
        elif op.name == "for" and self.chooses(op):
            return self.unrolled(op)
        elif op.name == "if" and self.unrolling and (leaves := _leaving(op)):
            message = "a loop that chooses an array of a list goes on to its next iteration from within a branch."
            raise _refused("TK13", message, leaves, "put the rest of its body under the opposite condition.")
        else:
            self.plain(op)
            self.fold(op)
        return None

    def table(self, op: Operation, first: Value) -> None:
        """A view of a table of pointers, or a row of one."""
        xs, rows = self.tables[first]
        if op.name != "load_view_tko":
            self.tables[op.results[0]] = xs, rows
            return
        index = self.numbers.get(op.operand("index")[0])
        if index is None:
            message = f"which array of the list '{xs.name}' is meant depends on the block or on data."
            raise _refused("TK11", message, op, INDEX)
        if not 0 <= int(index) < xs.length:
            message = f"the list '{xs.name}' has {xs.length} arrays, and the array at {int(index)} is read."
            raise _refused("TK12", message, op, f"use indices from 0 to {xs.length - 1}.")
        self.items[op.results[0]] = Item(rows[int(index)])

    def word(self, op: Operation, item: Item) -> bool:
        """What takes a row apart; False for what uses a word that has its type already."""
        if item.word is None:
            item = Item(item.of, int(self.numbers[op.operand("indices")[1]]))
        assert item.word is not None
        word, result = item.of[item.word], op.results[0]
        if op.values[0] in self.known:
            return False
        if word.type == result.type:
            self.known[result] = word
        self.items[result] = item
        return True

    def branch(self, op: Operation) -> Operation | None:
        taken = 0 if self.numbers[op.operand("condition")] else 1
        end = self.operations(op.regions[taken].operations, ends=False) if taken < len(op.regions) else None
        if end is not None and end.name != "yield":
            return end
        self.bind(op.results, end.values if end is not None else ())
        return None

    def chooses(self, op: Operation) -> bool:
        """Whether what a loop counts or carries is the index of a list."""
        depends = set(op.regions[0].arguments)
        views = set(self.tables)
        for inner in operations_of(op.regions[0]):
            if inner.values and inner.values[0] in views:
                views |= set(inner.results)
                if inner.name == "load_view_tko" and inner.operand("index")[0] in depends:
                    return True
            if inner.regions or not depends.isdisjoint(inner.values):
                depends |= {*inner.results, *(v for region in inner.regions for v in region.arguments)}
        return False

    def unrolled(self, op: Operation) -> Operation | None:
        """A loop iteration by iteration; one whose bounds data tell stays, and its index is refused where it is met."""
        bounds = [self.numbers.get(op.operand(name)) for name in ("lowerBound", "upperBound", "step")]
        index, *names = op.regions[0].arguments
        found = [int(b) for b in bounds if b is not None]
        if len(found) < 3 or found[2] <= 0 or (op.attribute("unsignedCmp") and min(found) < 0):
            self.plain(op)
            return None
        first, stop, step = found
        outer, self.unrolling = self.unrolling, True
        assert isinstance(index.type, Tile)
        carried: Sequence[Value] = op.operand("initValues")
        self.bind(names, carried)
        element: Any = index.type.element
        for n in range(first, stop, step):
            self.number(index, np.array(n, element.numpy))
            end = self.operations(op.regions[0].operations, ends=False)
            assert end is not None
            if end.name == "return":
                return end
            self.bind(names, end.values)
        self.unrolling = outer
        self.bind(op.results, names)
        return None

    def plain(self, op: Operation) -> None:
        """An operation as it is, on what stands for its operands."""
        operands = tuple(map(self.slot, op.operands))
        outer, self.unrolling = self.unrolling, self.unrolling and op.name == "if"
        regions = tuple(map(self.region, op.regions))
        self.unrolling = outer
        results = tuple(map(self.fresh, op.results))
        self.emit(replace(op, operands=operands, results=results, regions=regions))

    def region(self, region: Region) -> Region:
        outer, self.made = self.made, []
        arguments = tuple(map(self.fresh, region.arguments))
        self.operations(region.operations)
        inner, self.made = self.made, outer
        return Region(arguments, tuple(inner), region.span)

    def fold(self, op: Operation) -> None:
        """What an operation on constants gives, where it is one integer."""
        if len(op.results) != 1 or not all(v in self.numbers for v in op.values):
            return
        (result,) = op.results
        if not (
            isinstance(result.type, Tile)
            and result.type.shape == ()
            and getattr(result.type.element, "is_integer", False)
        ):
            return
        numbers = [self.numbers[v] for v in op.values]
        if op.name == "assume":
            self.numbers[result] = numbers[0]
        elif op.name in MEANINGS:
            self.numbers[result] = np.asarray(MEANINGS[op.name](op, None, *numbers))


def _leaving(op: Operation) -> Operation | None:
    """What ends a branch, at any depth, by going on with the loop around."""
    for branch in op.regions:
        for inner in branch.operations:
            if inner.name == "continue":
                return inner
            if inner.name == "if" and (found := _leaving(inner)):
                return found
    return None


def _refused(code: str, message: str, op: Operation, help: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, op.span, help=help))
