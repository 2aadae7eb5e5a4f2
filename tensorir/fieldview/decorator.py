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
    """A function on fields, traced when it is called (GT4Py's decorator of this name)."""
    return FieldOperator(function, function)
