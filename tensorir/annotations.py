"""What stands in annotations: `ti.Field[[I, J], ti.float64]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.arrays import refuse
from tensorir.types import Scalar

__all__ = ["FieldType"]


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field on dims, in the order of the axes of a bare array, with an element type; intervals come per call."""

    dims: tuple[str, ...]
    element: Scalar

    @staticmethod
    def of(parameters: Any) -> FieldType:
        """From the parameters of `Field[[I, J], float64]`.

        >>> from tensorir.types import FLOAT64, Dimension
        >>> print(FieldType.of(([Dimension("I"), Dimension("J")], FLOAT64)))
        Field[[I, J], float64]
        """
        match parameters:
            case (list() | tuple() as dims, Scalar() as element) if isinstance(dims, Sequence):
                return FieldType(tuple(map(str, dims)), element)
            case _:
                raise refuse(
                    "V01", "a field is annotated by its dims and its element.", "write Field[[I, J], float64]."
                )

    def __str__(self) -> str:
        return f"Field[[{', '.join(self.dims)}], {self.element}]"
