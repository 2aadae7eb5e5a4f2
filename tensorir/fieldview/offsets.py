"""Offsets as GT4Py's users write them: `FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))`."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

from tensorir.binding.arrays import type_of_named
from tensorir.fieldview.trace import current, fail
from tensorir.fieldview.traced import Shifting, Traced, make, through
from tensorir.ir import build
from tensorir.ir.build import displaced
from tensorir.ir.dimensions import Dimension, Offset
from tensorir.ir.types import NEIGHBOUR, Dims, Interval, Scalar, TensorType, scalar_of

__all__ = ["Dynamic", "FieldOffset", "Slot", "as_offset", "table_type"]


@dataclass(frozen=True, slots=True)
class Slot(Shifting):
    """One neighbour of an offset: `V2E[0]`."""

    offset: FieldOffset
    index: int

    def shifted(self, x: Traced) -> Traced:
        current().named.add(str(self.offset.source))
        return make("unstructured_shift", self.offset.table(), x, static=(self.index,))


@dataclass(frozen=True, slots=True)
class Dynamic(Shifting):
    """An offset along a dim that differs from point to point."""

    dimension: Dimension
    distance: Traced

    def shifted(self, x: Traced) -> Traced:
        dim = str(self.dimension)
        current().named.add(dim)
        here_is = make("pos", self.distance if dim in self.distance.dims else x, static=(dim,))
        return make("gather", x, Traced(displaced(self.distance.expr, here_is.expr)), static=((dim,), "checked"))


@dataclass(frozen=True, slots=True)
class FieldOffset(Shifting):
    """A named offset: through a neighbour table, target = (destination, local dimension), or along one dimension.

    The table of an unstructured offset comes with a call, in `offset_provider`, under its name.

    >>> Vertex, Edge, V2EDim = Dimension("Vertex"), Dimension("Edge"), Dimension("V2E", kind="local")
    >>> V2E = FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
    >>> V2E[1].index
    1
    """

    value: str
    source: Dimension
    target: tuple[Dimension, ...]

    @property
    def is_cartesian(self) -> bool:
        return len(self.target) == 1

    def __getitem__(self, index: int) -> Any:
        if not isinstance(index, numbers.Integral):
            fail(
                "V10",
                f"which of {self.value} is meant is a whole number, and this is {_called(index)}.",
                f"write f({self.value}[1]); an argument of an operator is a field also where it is a number.",
            )
        return Offset(self.source, int(index)) if self.is_cartesian else Slot(self, int(index))

    def shifted(self, x: Traced) -> Traced:
        """All neighbours, along the local dimension."""
        if self.is_cartesian:
            fail(
                "V10",
                f"{self.value} is an offset along {self.source} and needs a distance.",
                f"write f({self.value}[1]).",
            )
        return through(x, self.table(), str(self.target[1]))

    def table(self) -> Traced:
        """The table as a parameter of the fencil that is being traced."""
        trace = current()
        if self.value not in trace.tables:
            provided = trace.offsets.get(self.value)
            if provided is None:
                known = ", ".join(trace.offsets) or "nothing"
                fail(
                    "V11", f"the offset_provider has no '{self.value}', only {known}.",
                    f"call with offset_provider={{'{self.value}': table}}.",
                )  # fmt: skip
            trace.names.add(self.value)
            trace.tables[self.value] = build.var(self.value, table_type(self, provided))
        return Traced(trace.tables[self.value])


def _called(value: Any) -> str:
    return "a field" if isinstance(value, Traced) else f"of type {type(value).__name__}"


def table_type(offset: FieldOffset, table: Any) -> TensorType:
    """The type of a table: its own dims if it has them, or those of the offset, from 0."""
    if isinstance(table, TensorType):
        return table
    named = type_of_named(table)
    if named is not None:
        local = f"{NEIGHBOUR}{offset.source}"
        dims = Dims(tuple((local if n == str(offset.target[1]) else n, i) for n, i in named.dims.items))
        return named.on(dims)
    shape = tuple(table.shape)
    if len(shape) != 2:
        fail(
            "V11",
            f"the table '{offset.value}' has {len(shape)} axes.",
            "it has two: destinations and their neighbours.",
        )
    element = scalar_of(table.dtype)
    if element is None or not element.is_integer:
        fail("V11", f"the table '{offset.value}' holds {table.dtype}.", "its entries are integers.")
    destination = (str(offset.target[0]), Interval(0, shape[0]))
    return TensorType(element, Dims((destination, (f"{NEIGHBOUR}{offset.source}", Interval(0, shape[1])))))


def as_offset(offset: FieldOffset | Dimension, distance: Any) -> Dynamic:
    """An offset whose distance is a field of integers: `f(as_offset(Koff, level))` (GT4Py, experimental).

    The result has the dims of both fields, and the element type and units of `f`.
    """
    dimension = offset if isinstance(offset, Dimension) else offset.source
    if not isinstance(distance, Traced):
        fail("V10", "the distance of as_offset is a field of integers.", f"for a number write f({dimension} + 1).")
    if not (isinstance(distance.element, Scalar) and distance.element.is_integer):
        told = f"the distance of as_offset is a field of integers, and this is {distance.element}."
        fail("V10", told, "convert it: ti.astype(x, ti.int32).")
    return Dynamic(dimension, distance)
