"""Types of what operators are called on and give, for editors and type checkers, and annotations of fields.

`lap(h)` has the type of `h`: a DataArray for a DataArray, a Field for a Field; the function needs no annotations.
Where these, or its body, tell that it returns a tuple of fields, a call gives a tuple of as many of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from tensorir.binding.arrays import is_tuple, refuse_repeated
from tensorir.ir.types import Scalar
from tensorir.runtime.errors import refuse

if TYPE_CHECKING:
    import jax
    import xarray as xr
    from typing_extensions import TypeVar

    from tensorir import Field
    from tensorir.ir.dimensions import Dimension

    Array = TypeVar("Array", bound="Field | xr.DataArray | xr.Dataset | np.ndarray[Any, Any] | jax.Array")
    """What an operator is called on, and gives."""
    Value = TypeVar("Value")
    """A field inside of an operator, and what a function of fields gives for it."""

    class _NamedTuple(Protocol):
        def _asdict(self) -> dict[str, Any]: ...

    Named = TypeVar("Named", bound=_NamedTuple)
    """A tuple with names of its members, whose class no call changes."""
    Result = TypeVar("Result", default=Any)
    """What the function of an operator returns."""
    Plain: TypeAlias = float | complex | str | np.generic | None
    """An argument that is no array."""
    Places: TypeAlias = Mapping[Dimension, tuple[int, int]] | Mapping[str, tuple[int, int]]
    """A domain: `{I: (1, 9)}`."""
    Widths: TypeAlias = Mapping[Dimension, int | tuple[int, int]] | Mapping[str, int | tuple[int, int]]
    """Points before and after, by dim: `{I: (2, 2), J: 1}`."""
else:
    from typing import TypeVar

    Array, Value, Named, Result = TypeVar("Array"), TypeVar("Value"), TypeVar("Named"), TypeVar("Result")
    Plain = Places = Widths = Any


@dataclass(frozen=True, slots=True, repr=False)
class FieldType:
    """A field on dims, in the order of the axes of a bare array, with an element type; intervals come per call."""

    dims: tuple[str, ...]
    element: Scalar

    @staticmethod
    def of(parameters: Any) -> FieldType:
        """The type for the subscript of `Field[[I, J], float64]`; raises V01 for any other subscript, A03 for a dim
        that is named twice.

        >>> from tensorir.ir.dimensions import Dimension
        >>> from tensorir.ir.types import FLOAT64
        >>> print(FieldType.of(([Dimension("I"), Dimension("J")], FLOAT64)))
        Field[[I, J], float64]
        """
        if is_tuple(parameters) and len(parameters) == 2:
            dims, element = parameters
            if is_tuple(dims) and isinstance(element, Scalar):
                refuse_repeated(map(str, dims))
                return FieldType(tuple(map(str, dims)), element)
        raise refuse("V01", "a field is annotated by its dims and its element.", "write Field[[I, J], float64].")

    def __str__(self) -> str:
        return f"Field[[{', '.join(self.dims)}], {self.element}]"

    __repr__ = __str__
