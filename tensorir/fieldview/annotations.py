"""What stands in annotations: `ti.Field[[I, J], ti.float64]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorir.binding.arrays import is_tuple, refuse
from tensorir.ir.types import Scalar

__all__ = ["FieldType"]


@dataclass(frozen=True, slots=True, repr=False)
class FieldType:
    """A field on dims, in the order of the axes of a bare array, with an element type; intervals come per call."""

    dims: tuple[str, ...]
    element: Scalar

    @staticmethod
    def of(parameters: Any) -> FieldType:
        """From the parameters of `Field[[I, J], float64]`.

        >>> from tensorir.ir.dimensions import Dimension
        >>> from tensorir.ir.types import FLOAT64
        >>> print(FieldType.of(([Dimension("I"), Dimension("J")], FLOAT64)))
        Field[[I, J], float64]
        """
        if is_tuple(parameters) and len(parameters) == 2:
            dims, element = parameters
            if is_tuple(dims) and isinstance(element, Scalar):
                return FieldType(tuple(map(str, dims)), element)
        raise refuse("V01", "a field is annotated by its dims and its element.", "write Field[[I, J], float64].")

    def __str__(self) -> str:
        return f"Field[[{', '.join(self.dims)}], {self.element}]"

    __repr__ = __str__
