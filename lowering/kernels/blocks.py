"""The points of a block: numbers, elements of arrays, operations, as vectors of LLVM.

A block is as many points along one axis, the lane, as a vector has elements; along the other axes it is at one number.
Loads follow the access map: a vector where the lanes lie side by side, one element where all lanes read the same, and
element by element elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn

from lowering.kernels.instances import Points
from lowering.kernels.positions import Entry, Index, Position, symbols_of
from lowering.kernels.program import Program, Variable, element_of, shape_of
from lowering.kernels.vectors import Lanes, Vectors, kind_of, memory_of


@dataclass(frozen=True, slots=True)
class Number:
    """A number of 64 bits: one for the block, or one for each of its columns."""

    name: str
    wide: bool = False


class Block(Points):
    """The points of a block while the text of their computation is made."""

    program: Program
    lanes: int
    text: Vectors
    axes: list[str]
    """The number of the block along each axis; of its first point along that of the lanes."""
    lane: int | None
    """The axis along which the points of the block lie."""
    arrays: tuple[Variable, ...]
    """The parameters of the function."""

    # Numbers

    def _number(self, index: Index) -> Number:
        """The name of an index as a 64-bit integer: one for the block, or a vector if it differs from lane to lane.

        `Index.symbol`: None for a constant, an `Entry` for a number read from a table, else an axis.
        """
        match index.symbol:
            case None:
                return Number(str(index.offset))
            case Entry(of, at):
                entry = self.entries[of, at]
                kind, sign = kind_of(entry.element), "z" if entry.element.startswith("u") else "s"
                vector_type = self.text.vector("i64")
                name = (
                    entry.name
                    if kind == "i64"
                    else self.text.put(f"{sign}ext {self.text.vector(kind)} {entry.name} to {vector_type}")
                )
                if self.lane is None or self.lane not in symbols_of(at):
                    # one number for all lanes
                    number = Number(self.text.put(f"extractelement {vector_type} {name}, i64 0"))
                else:
                    number = Number(name, True)
            case axis if axis == self.lane:
                base = self.text.splat("i64", self.axes[axis])
                steps = f"<{', '.join(f'i64 {k}' for k in range(self.lanes))}>"
                number = Number(self.text.put(f"add {self.text.vector('i64')} {base}, {steps}"), True)
            case axis:
                number = Number(self.axes[axis])
        return self._linear([(number, index.factor)], index.offset)

    def _linear(self, terms: Iterable[tuple[Number, int]], offset: int) -> Number:
        """The sum of numbers times factors, and an offset; a vector if one of the numbers is."""
        total = Number(str(offset))
        for number, factor in terms:
            is_vector = number.wide or total.wide
            kind = self.text.vector("i64") if is_vector else "i64"
            term = self._widened(number, is_vector)
            if factor != 1:
                term = self.text.put(f"mul {kind} {term}, {self._widened(Number(str(factor)), is_vector)}")
            if total != Number("0"):
                term = self.text.put(f"add {kind} {term}, {self._widened(total, is_vector)}")
            total = Number(term, is_vector)
        return total

    def _widened(self, number: Number, is_vector: bool = True) -> str:
        return self.text.splat("i64", number.name) if is_vector and not number.wide else number.name

    def number(self, index: Index) -> Lanes:
        return Lanes(self._widened(self._number(index)), "int64")

    def below(self, index: Index, limit: int) -> Lanes:
        """True in lanes whose index is below a limit."""
        number = self._number(index)
        if number.wide:
            kind = self.text.vector("i64")
            return Lanes(self.text.put(f"icmp slt {kind} {number.name}, {self.text.splat('i64', str(limit))}"), "bool")
        return Lanes(self.text.splat("i1", self.text.put(f"icmp slt i64 {number.name}, {limit}")), "bool")

    # Memory

    def _pointer(self, v: Variable) -> str:
        return f"%a{self.arrays.index(v)}"

    def _row(self, v: Variable, number: Number) -> Number:
        """The place of a row of an array."""
        return number

    def _at(self, pointer: str, element: str, number: str) -> str:
        return self.text.put(f"getelementptr {memory_of(element)}, ptr {pointer}, i64 {number}")

    def _as_value(self, name: str, element: str) -> Lanes:
        if element != "bool":
            return Lanes(name, element)
        return Lanes(self.text.put(f"icmp ne {self.text.vector('i8')} {name}, zeroinitializer"), element)

    def _as_stored(self, value: Lanes) -> str:
        if value.element != "bool":
            return value.name
        return self.text.put(f"zext {self.text.vector('i1')} {value.name} to {self.text.vector('i8')}")

    def loaded(self, v: Variable, position: Position, clamped: Sequence[bool], clamped_by_lane: bool = False) -> Lanes:
        """The elements of v at a position; `clamped` says along which axes it may be out of range and is clamped.

        `clamped_by_lane`: the lanes are clamped each by itself, and loaded one by one. Positions read of tables are
        always clamped, as XLA does it, since a promise that they are in bounds may be wrong.
        """
        element = element_of(v).name
        numbers = [
            self._in_range(self._number(i), n, c or isinstance(i.symbol, Entry))
            for i, n, c in zip(position, shape_of(v), clamped, strict=True)
        ]
        if numbers:
            numbers[0] = self._row(v, numbers[0])
        strides = strides_of(v)
        step = self.step(v, position)
        other_numbers = (n for n, i in zip(numbers, position, strict=True) if i.symbol != self.lane)
        lanes_are_loaded_singly = any(n.wide for n in other_numbers) or (step != 0 and clamped_by_lane)
        pointer = self._pointer(v)
        if not lanes_are_loaded_singly:
            first = self._linear(zip(self._first_lane(position, numbers), strides, strict=True), 0)
            pointer = self._at(pointer, element, first.name)
            return self.lanes_at(pointer, step, element)
        offsets = self._widened(self._linear(zip(numbers, strides, strict=True), 0))
        each = [
            self.text.put(f"extractelement {self.text.vector('i64')} {offsets}, i64 {k}") for k in range(self.lanes)
        ]
        return self._gathered([self._at(pointer, element, one) for one in each], element)

    def step(self, v: Variable, position: Position) -> int:
        """The distance, in elements of v, of two neighbouring lanes."""
        strides = strides_of(v)
        return sum(s * i.factor for s, i in zip(strides, position, strict=True) if i.symbol == self.lane)

    def lanes_at(self, pointer: str, step: int, element: str) -> Lanes:
        """The elements of all lanes from a pointer to that of the first, `step` elements apart: a vector, a splat,
        or single loads.
        """
        memory = memory_of(element)
        if step == 1 or self.lanes == 1:
            return self._as_value(self.text.loaded(self.text.vector(memory), pointer, element), element)
        if step == 0:
            return self._as_value(self.text.splat(memory, self.text.loaded(memory, pointer, element)), element)
        return self._gathered([self._at(pointer, element, str(step * k)) for k in range(self.lanes)], element)

    def _gathered(self, places: Sequence[str], element: str) -> Lanes:
        """The elements at one pointer per lane, as a vector."""
        memory = memory_of(element)
        return self._as_value(
            self.text.gathered([self.text.loaded(memory, p, element) for p in places], memory), element
        )

    def _first_lane(self, position: Position, numbers: Sequence[Number]) -> list[Number]:
        """The numbers of the position at the first lane of the block."""
        numbers_of_first_lane = list(numbers)
        for k, index in enumerate(position):
            if self.lane is not None and index.symbol == self.lane:
                numbers_of_first_lane[k] = self._linear([(Number(self.axes[self.lane]), index.factor)], index.offset)
        return numbers_of_first_lane

    def _in_range(self, number: Number, extent: int, clamped: bool) -> Number:
        """The number clamped to 0 … extent - 1 if `clamped`; out-of-range points are masked by their readers."""
        if not clamped:
            return number
        kind, mangled = (self.text.vector("i64"), f"v{self.lanes}i64") if number.wide else ("i64", "i64")
        low, high = (self._widened(Number(str(n)), number.wide) for n in (0, extent - 1))
        least = self.text.call(kind, f"llvm.smin.{mangled}", f"{kind} {number.name}", f"{kind} {high}")
        return Number(self.text.call(kind, f"llvm.smax.{mangled}", f"{kind} {least}", f"{kind} {low}"), number.wide)

    # Operations

    def constant(self, value: Any, element: Any) -> Lanes:
        return self.text.constant(value, np.dtype(element).name)

    def select(self, condition: Lanes, a: Lanes, b: Lanes) -> Lanes:
        return self.text.select(condition, a, b)

    def fold(self, e: JaxprEqn, a: Lanes, b: Lanes) -> Lanes:
        """The result of the operation of a reduction on two elements."""
        name = e.primitive.name.removeprefix("reduce_")
        return self.text.operation({"sum": "add", "prod": "mul"}.get(name, name), [a, b], a.element, {})

    def cast(self, number: Lanes, element: Any) -> Lanes:
        return self.text.converted(number, np.dtype(element).name)

    def pointwise(self, e: JaxprEqn, values: Sequence[Lanes]) -> Lanes:
        return self.text.operation(e.primitive.name, values, element_of(e.outvars[0]).name, e.params)


def strides_of(v: Variable) -> list[int]:
    shape = shape_of(v)
    return [prod(shape[k + 1 :]) for k in range(len(shape))]
