"""The types of an operator's arguments: from what they carry, or from the annotations."""

from __future__ import annotations

import inspect
import numbers
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import numpy as np

from tensorir.binding.angles import in_degrees
from tensorir.binding.arrays import fixed_shape, is_tuple, kind_of, narrow_hint, refuse_packed, type_of_named
from tensorir.fieldview.array_types import FieldType
from tensorir.fieldview.trace import current
from tensorir.fieldview.traced import Traced, tuple_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, FLOAT64, INT32, INT64, Scalar, TensorType, TupleElement, scalar_of
from tensorir.runtime.errors import DiagnosticError, refuse


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function that are FieldTypes, element types, or tuples of these, by parameter.

    Others are left out.
    """
    try:
        hints = inspect.get_annotations(function, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError):
        # an annotation that cannot be evaluated says nothing of fields
        return {}
    return {n: a for n, a in hints.items() if _is_ours(a)}


def _is_ours(annotation: Any) -> bool:
    if isinstance(annotation, (FieldType, Scalar)):
        return True
    return typing.get_origin(annotation) is tuple and all(map(_is_ours, typing.get_args(annotation)))


def argument_type(
    name: str, value: Any, annotation: Any, where: str, placed: Mapping[int, Dims] | None = None
) -> TensorType | None:
    """The tensor type of one argument; None for a Python value that is passed to the function unchanged.

    A tuple on common dims has a tuple element; on different dims it gives None, and its members are looked at one by
    one. `where` is the operator in messages, `placed` has the dims of DataArrays by `id(array)` after alignment. Raises
    V12 for a Dataset or a bare array without annotation, V13 for one that contradicts its annotation, A02 for a dtype.
    """
    if isinstance(value, TensorType):
        return value
    if kind_of(value) == "xarray" and scalar_of(value.dtype) is None:
        raise _no_element(name, value, where)
    refuse_packed(value, name)
    if _is_listed(value):
        return _list(name, value, annotation, where)
    if is_tuple(value) and value and not isinstance(value[0], str):
        parts = [
            argument_type(f"{name}[{k}]", v, a, where, placed)
            for k, (v, a) in enumerate(zip(value, members_of_annotation(annotation, len(value)), strict=True))
        ]
        if any(p is None for p in parts):
            return None
        types = [p for p in parts if p is not None]
        if any(t.dims != types[0].dims for t in types):
            return None
        return TensorType(TupleElement(tuple(t.element for t in types)), types[0].dims)
    kind = type_of_named(value, placed)
    if kind is None and _is_number(value):
        return _number(value, annotation)
    if kind is None and hasattr(value, "shape") and hasattr(value, "dtype"):
        kind = _bare(name, value, annotation, where)
    if hasattr(value, "data_vars"):
        raise refuse("V12", f"'{name}' of {where} is a Dataset.", f"pass one of its variables: {name}=dataset['name'].")
    if kind is not None and isinstance(annotation, Scalar) and kind.element != annotation:
        hint = narrow_hint(value, annotation) or f"convert it, {name}.astype('{annotation}'), or change the annotation."
        raise refuse("V13", f"'{name}' of {where} is annotated {annotation}, and this is {kind.element}.", hint)
    if kind is None or not isinstance(annotation, FieldType):
        return kind
    if set(kind.dims.names) != set(annotation.dims) or kind.element != annotation.element:
        message = f"'{name}' of {where} is annotated {annotation}, and this is {kind}."
        hint = narrow_hint(value, annotation.element) or "pass such a field, or change the annotation."
        raise refuse("V13", message, hint)
    return kind


def members_of_annotation(annotation: Any, count: int) -> tuple[Any, ...]:
    """The annotations of the `count` members of a tuple, a None for each unless the annotation has as many members."""
    members = typing.get_args(annotation)
    return members if len(members) == count else (None,) * count


def _number(value: Any, annotation: Any) -> TensorType | None:
    """The scalar type of a Python number, which is a parameter of the program: other values need no new trace."""
    if isinstance(annotation, Scalar):
        return TensorType(annotation)
    if isinstance(value, bool):
        return TensorType(BOOL)
    if isinstance(value, numbers.Integral):
        return TensorType(INT32 if int(value) in INT32.range else INT64)
    return TensorType(FLOAT64) if isinstance(value, numbers.Real) else None


def _is_listed(value: Any) -> TypeGuard[list[Any]]:
    """True if a value is a list of numbers, or of such lists."""
    held: Any = value
    return isinstance(value, list) and len(held) > 0 and all(_is_number(v) or _is_listed(v) for v in held)


def _list(name: str, value: list[Any], annotation: Any, where: str) -> TensorType:
    """The type of a nested list of numbers: its shape by the annotated dims, with the annotated element type."""
    try:
        array = np.asarray(value)
    except ValueError:
        message = f"'{name}' of {where} is a list that is no array."
        raise refuse("A01", message, "its rows have different lengths.") from None
    if not isinstance(annotation, FieldType):
        raise refuse(
            "V12", f"'{name}' of {where} is a list, whose axes have no names.",
            f"annotate the operator, {name}: ti.Field[[I, J], ti.{scalar_of(array.dtype)}], or pass a DataArray or a "
            "ti.Field; numbers one by one are a tuple.",
        )  # fmt: skip
    return TensorType(annotation.element, _bare(name, array, annotation, where).dims)


def _no_element(name: str, value: Any, where: str) -> DiagnosticError:
    message = f"'{name}' of {where} holds {value.dtype}, which is no element type."
    return refuse("A02", message, "convert it, for example to float64.")


def _bare(name: str, value: Any, annotation: Any, where: str) -> TensorType:
    """The type of an array without dims by name: on the annotated dims, each from 0, with its own element type."""
    element = scalar_of(value.dtype)
    if element is None:
        raise _no_element(name, value, where)
    if not len(value.shape):
        return TensorType(element)
    if not isinstance(annotation, FieldType):
        help = f"annotate the operator, {name}: ti.Field[[I, J], ti.{element}], or pass a DataArray or a ti.Field."
        raise refuse("V12", f"'{name}' of {where} is a bare array, whose axes have no names.", help)
    if len(value.shape) != len(annotation.dims):
        message = f"'{name}' of {where} is annotated {annotation}, and the array has {len(value.shape)} axes."
        raise refuse("V13", message, "pass one axis per dim, in the order of the annotation.")
    extents = zip(annotation.dims, fixed_shape(value.shape, name), strict=True)
    return TensorType(element, Dims(tuple((d, Interval(0, n)) for d, n in extents)))


def symbol(name: str, kind: TensorType, value: Any) -> tuple[Var, Any]:
    """The parameter for an argument, and the traced field (or nested tuple of fields) that the function gets for it.

    Records in the current trace which members are in degrees, and the array of each field.
    """
    variable = Var(name, kind)
    stand_in = tuple_of(Traced(variable))
    current().degrees.update(in_degrees(name, value))
    current().arguments.update(_stands_for(stand_in, value))
    return variable, like(value, _weakened(value, stand_in))


def _stands_for(stand_in: Any, value: Any) -> dict[int, tuple[Expr, Any]]:
    """By `id(expression)` of each traced field: the expression, kept alive thereby, and the array it stands for."""
    if not is_tuple(stand_in):
        return {id(stand_in.expr): (stand_in.expr, value)}
    members = zip(stand_in, value if is_tuple(value) else [value] * len(stand_in), strict=True)
    return {at: pair for m, v in members for at, pair in _stands_for(m, v).items()}


def _weakened(value: Any, stand_in: Any) -> Any:
    """The traced fields, weak where the value is a Python number: these take the element type of other operands."""
    if is_tuple(stand_in):
        return tuple(map(_weakened, value, stand_in)) if is_tuple(value) else stand_in
    return Traced(stand_in.expr, _is_number(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, numbers.Number)) and not isinstance(value, np.generic)


def like(model: Any, value: Any) -> Any:
    """The nested tuples of `value` with the classes of those of `model`: NamedTuples stay NamedTuples."""
    if is_tuple(model) and is_tuple(value):
        parts = [like(m, v) for m, v in zip(model, value, strict=True)]
        return type(model)(*parts) if hasattr(model, "_fields") else tuple(parts)
    return value


def structure(value: Any) -> Any:
    """The structure of a function's result for `restored`: (NamedTuple class or None, structure of members).

    The structure of a leaf is None.
    """
    if is_tuple(value):
        make = type(value) if hasattr(value, "_fields") else None
        return make, tuple(structure(v) for v in value)
    return None


def restored(shape: Any, value: Any) -> Any:
    """The nested tuples of `value` with the NamedTuple classes of a `structure`."""
    if shape is None or not is_tuple(value):
        return value
    make, inner = shape
    parts = [restored(s, v) for s, v in zip(inner, value, strict=True)]
    return make(*parts) if make is not None else tuple(parts)
