"""The decorator of functions on fields; what it is told of the function's result is what calls are said to give.

A function without annotations returns what no type checker knows, which is taken as a field: an operator returns
fields and numbers, which become fields, and tuples of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from tensorir.fieldview.array_types import Named, Result
from tensorir.fieldview.operator import FieldOperator

if TYPE_CHECKING:
    from tensorir import Field

__all__ = ["field_operator"]


@overload
def field_operator(function: Callable[..., Field | float]) -> FieldOperator[Field]: ...
@overload
def field_operator(function: Callable[..., Named]) -> FieldOperator[Named]: ...
@overload
def field_operator(
    function: Callable[..., tuple[Field | float, Field | float]],
) -> FieldOperator[tuple[Field, Field]]: ...
@overload
def field_operator(
    function: Callable[..., tuple[Field | float, Field | float, Field | float]],
) -> FieldOperator[tuple[Field, Field, Field]]: ...
@overload
def field_operator(function: Callable[..., tuple[Field | float, ...]]) -> FieldOperator[tuple[Field, ...]]: ...
@overload
def field_operator(function: Callable[..., Result]) -> FieldOperator[Result]: ...
def field_operator(function: Callable[..., Any]) -> FieldOperator[Any]:
    """A function on fields, traced when it is called (GT4Py's decorator of this name).

    What it gives is called on DataArrays and Fields, whose dims go by name; on arrays of NumPy and JAX where parameters
    are annotated, `h: ti.Field[[I, J], ti.float64]`, which says the dims of axes and the element type; and on Datasets.
    It gives the kind that comes in, on the largest intervals on which all is there that it reads, or on `domain=`, with
    the labels and units that follow (A32 where units differ). Tables come in `offset_provider=`, and `out=` is written.

    >>> from tensorir.ir.dimensions import dims
    >>> from tensorir.ir.types import tensor
    >>> (I,) = dims("I")
    >>> @field_operator
    ... def rise(h):
    ...     return h(I + 1) - h
    >>> print(rise.fencil(h=tensor("float", I=(0, 5))))
    rise(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) {
      out ← ⟪I, 1⟫(h) - h;
    }
    """
    return FieldOperator(function, function)
