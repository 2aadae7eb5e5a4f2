"""Types: elements, tensors and functions, and how they broadcast (`docs/language.md`, "Types").

A tensor type is an element type and a *set* of named integer intervals. Two types are equal when element and set are;
the order in which the dims were written is kept, since it is the order of the axes of an array.

>>> x = tensor(FLOAT64, I=(-3, 5))
>>> y = tensor(FLOAT64, I=(1, 9), J=(5, 8))
>>> print(bcast([x, y]))
I[1:5], J[5:8]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tensorir.integers.dims import Dims, Interval
from tensorir.runtime.errors import Displayed, did_you_mean, refuse

__all__ = [
    "BOOL", "DTYPES", "FLOAT32", "FLOAT64", "INT32", "INT64", "NEIGHBOUR", "SCALARS", "Dims", "Element",
    "FunctionType", "Interval", "Scalar", "TensorType", "TupleElement", "Type", "bcast", "dtype_of", "leaves",
    "neighbour_counter", "scalar_of", "tensor",
]  # fmt: skip

NEIGHBOUR = "_NB_"
"""The prefix of neighbour dims: `_NB_Edge` in a table whose entries are edges, `_NB_0` in a tensor after a shift."""


def neighbour_counter(dim: str) -> int | None:
    """The counter of a neighbour dim created by a partial shift ("_NB_2"), None for other dims.

    >>> neighbour_counter("_NB_2"), neighbour_counter("_NB_Edge"), neighbour_counter("I")
    (2, None, None)
    """
    digits = dim.removeprefix(NEIGHBOUR)
    return int(digits) if digits != dim and digits.isdecimal() and digits.isascii() and len(digits) < 10 else None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar element type: its name, kind ("bool", "int", "uint", "float") and width in bits."""

    name: str
    kind: str
    bits: int

    def __call__(self, value: Any) -> Any:
        """A NumPy scalar of this type, as GT4Py writes it: `float32(0.5)`; raises ValueError if it cannot hold the
        value.

        >>> FLOAT32(0.5).dtype, INT32(7).dtype
        (dtype('float32'), dtype('int32'))
        """
        if not self.holds(value):
            raise ValueError(f"{self} cannot hold {value}")
        return DTYPES[self].type(value)

    def holds(self, number: Any) -> bool:
        """True if a Python number fits: integers in range, floats that stay finite when rounded.

        >>> INT32.holds(2**31), FLOAT32.holds(0.1), FLOAT32.holds(1e39), FLOAT32.holds(float("inf"))
        (False, True, False, True)
        """
        if self.is_integer:
            return self.range.start <= number < self.range.stop and int(number) == number
        if not self.is_float or (self.bits == 64 and isinstance(number, float)):
            return True
        try:
            as_float = float(number)
        except OverflowError:
            return False
        if math.isnan(as_float):
            return True
        with np.errstate(over="ignore"):
            rounded = float(DTYPES[self].type(as_float))
        return not math.isnan(rounded) and math.isinf(rounded) == math.isinf(as_float)

    @property
    def is_number(self) -> bool:
        return self.kind != "bool"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def range(self) -> Interval:
        """The integers that an integer type holds."""
        assert self.is_integer
        low = -(1 << (self.bits - 1)) if self.kind == "int" else 0
        return Interval(low, low + (1 << self.bits))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TupleElement:
    """A tuple of elements, as one element of a tensor."""

    members: tuple[Element, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.members))}{',' if len(self.members) == 1 else ''})"

    __repr__ = __str__


_NUMPY = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
_DTYPE_OF_NAME: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NUMPY.split()} | {
    name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")
}
Element = Scalar | TupleElement

_KIND = {"b": "bool", "i": "int", "u": "uint", "f": "float", "V": "float"}
SCALARS: dict[str, Scalar] = {
    name: Scalar(name, _KIND[dtype.kind], 1 if name == "bool" else 8 * dtype.itemsize)
    for name, dtype in _DTYPE_OF_NAME.items()
}
"""Every scalar element type by its name."""

DTYPES: dict[Scalar, np.dtype[Any]] = {SCALARS[name]: dtype for name, dtype in _DTYPE_OF_NAME.items()}
"""The NumPy type of every scalar element type."""

BOOL, INT32, INT64 = SCALARS["bool"], SCALARS["int32"], SCALARS["int64"]
FLOAT32, FLOAT64 = SCALARS["float32"], SCALARS["float64"]
_BY_DTYPE = {dtype: scalar for scalar, dtype in DTYPES.items()}


def dtype_of(scalar: Scalar) -> np.dtype[Any]:
    return DTYPES[scalar]


def scalar_of(dtype: Any) -> Scalar | None:
    """The scalar type of a NumPy type in any byte order, None where there is none.

    >>> scalar_of(np.dtype(">f8")), scalar_of(np.dtype("U3"))
    (float64, None)
    """
    return _BY_DTYPE.get(np.dtype(dtype).newbyteorder("="))


def leaves(element: Element) -> tuple[Scalar, ...]:
    """The scalars of an element in order, nested tuples flattened.

    >>> leaves(TupleElement((FLOAT64, TupleElement((BOOL, INT32)))))
    (float64, bool, int32)
    """
    scalars: list[Scalar] = []
    stack: list[Element] = [element]
    while stack:
        match stack.pop():
            case Scalar() as scalar:
                scalars.append(scalar)
            case TupleElement(members):
                stack.extend(reversed(members))
    return tuple(scalars)


@dataclass(frozen=True, slots=True)
class TensorType(Displayed):
    """An element type on a set of named intervals.

    >>> print(TensorType(FLOAT64, Dims.of(I=(0, 5))))
    tensor<float, I[0:5]>
    """

    element: Element
    dims: Dims = Dims()

    @property
    def leaves(self) -> tuple[Scalar, ...]:
        return leaves(self.element)

    def on(self, dims: Dims) -> TensorType:
        """The same element on other dims."""
        return TensorType(self.element, dims)

    def of(self, element: Element) -> TensorType:
        """Another element on the same dims."""
        return TensorType(element, self.dims)

    def __str__(self) -> str:
        return f"tensor<{', '.join([_spelled(self.element), *(f'{n}{i}' for n, i in self.dims.items)])}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class FunctionType(Displayed):
    """The type of a function: tensors to one tensor, or to several (for loops and conditionals)."""

    params: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    @property
    def result(self) -> TensorType:
        """The only one."""
        (only,) = self.results
        return only

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        return f"({', '.join(map(str, self.params))}) → {results if len(self.results) == 1 else f'{{{results}}}'}"

    __repr__ = __str__


Type = TensorType | FunctionType

_SPELLING = {"float64": "float", "int32": "int"}


def _spelled(element: Element) -> str:
    """The element as programs write it: `float` is float64 and `int` is int32."""
    match element:
        case Scalar(name):
            return _SPELLING.get(name, name)
        case TupleElement(members):
            return f"({', '.join(map(_spelled, members))}{',' if len(members) == 1 else ''})"


def tensor(element: Element | str, dims: Mapping[Any, Any] | None = None, /, **more: Any) -> TensorType:
    """A tensor type from an element type or its name, and intervals by name of dim.

    >>> tensor("float32", I=(0, 5), K=(-1, 2))
    tensor<float32, I[0:5], K[-1:2]>
    """
    if isinstance(element, str):
        name = {"float": "float64", "int": "int32"}.get(element, element)
        if name not in SCALARS:
            raise refuse("A02", f"there is no element type {element}.", did_you_mean(element, SCALARS))
        element = SCALARS[name]
    # users who check no types give those of NumPy
    if not isinstance(element, (Scalar, TupleElement)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise refuse("A02", f"{element!r} is no element type.", 'write ti.float32, or "float32".')
    intervals = Dims.of(dims, **more)
    for dim, interval in intervals.items:
        if interval.stop < interval.start:
            raise refuse("T31", f"{dim}{interval} stops before it starts.", "the smaller bound comes first.")
    return TensorType(element, intervals)


def bcast(types: Iterable[TensorType | Dims]) -> Dims:
    """The dims of an elementwise result: the union of names, the intersection of intervals (`docs/language.md`,
    "Broadcasting").

    Raises T02 if non-empty operands have no common point, T03 if neighbour dims of one name have different extents
    (neighbours correspond slot by slot and are never cut).

    >>> bcast([tensor(BOOL, I=(0, 5)), tensor(BOOL, I=(5, 9))])
    Traceback (most recent call last):
    tensorir.runtime.errors.DiagnosticError: error[T02]: the operands have no point of I in common: I[0:5] and I[5:9].
    help: shift or subset one of them so that their intervals of I overlap.
    """
    merged: dict[str, Interval] = {}
    for index, operand in enumerate(types):
        for name, interval in (operand.dims if isinstance(operand, TensorType) else operand).items:
            known = merged.setdefault(name, interval)
            if known == interval:
                continue
            if name.startswith(NEIGHBOUR):
                message = f"the operands have different numbers of neighbours along {name}: {known} and {interval}."
                help = "neighbours correspond slot by slot; use tables with the same number of neighbours."
                raise refuse("T03", message, help, at=index)
            common = known & interval
            if not common and known and interval:
                message = f"the operands have no point of {name} in common: {name}{known} and {name}{interval}."
                help = f"shift or subset one of them so that their intervals of {name} overlap."
                raise refuse("T02", message, help, at=index)
            merged[name] = common
    return Dims(tuple(merged.items()))
