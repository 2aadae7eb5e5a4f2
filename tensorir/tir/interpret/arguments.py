"""Arguments of a call: checked against the parameters, copied into memory, and given back as arrays."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import ml_dtypes
import numpy as np

from tensorir.ir.types import scalar_of
from tensorir.runtime.errors import NOWHERE, refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.interpret.machine import held_type
from tensorir.tir.interpret.memory import Memory, Pointer, View, row_major, strided, strides_of
from tensorir.tir.interpret.values import Value


def take(func: n.PrimFunc, arrays: Sequence[object]) -> list[Value]:
    """One pointer or scalar per parameter; the first argument that does not fit is named."""
    if len(arrays) != len(func.params):
        names = ", ".join(_name(func, p) for p in func.params)
        message = f"{func.name!r} takes {len(func.params)} arguments ({names}), but got {len(arrays)}."
        raise refuse("TA02", message, at=func.span)
    return [_take(func, param, value) for param, value in zip(func.params, arrays, strict=True)]


def _name(func: n.PrimFunc, param: n.Var) -> str:
    buffer = func.buffer_map.get(param)
    return param.name if buffer is None else buffer.name


def _take(func: n.PrimFunc, param: n.Var, value: object) -> Value:
    buffer = func.buffer_map.get(param)
    if buffer is not None:
        return _buffer(func, buffer, value)
    if param.dtype.code == "handle":
        array = np.asarray(value)
        memory = Memory.of(np.ascontiguousarray(array), param.name)
        return Pointer(memory, 0, View(memory, array.dtype, 1, array.shape, row_major(array.shape), 0))
    return scalar(value, param.dtype, param.name, func)


def scalar(value: object, dtype: DataType, name: str, func: n.Node) -> Value:
    """A number that fits the type of a parameter."""
    span = getattr(func, "span", None) or NOWHERE
    array = np.asarray(value)
    if array.ndim or not (isinstance(value, Number) or hasattr(value, "dtype")) or array.dtype.kind in "OSUc":
        message = f"{name!r} needs one number of type {dtype}, and this is of type {type(value).__name__}."
        raise refuse("TA04", message, at=span)
    number, element = array.item(), scalar_of(dtype.numpy)
    if dtype.is_float and (element is None or element.holds(number)):
        return array.astype(dtype.numpy)[()]
    low, high = (0, 1) if dtype.bits == 1 or dtype.is_float else dtype.range
    if dtype.is_float or not low <= number <= high or number != int(number):
        message = f"{name!r} is of type {dtype}, which {number} does not fit."
        raise refuse("TA04", message, at=span)
    return dtype.numpy.type(int(number))


def _buffer(func: n.PrimFunc, buffer: n.Buffer, value: object) -> Pointer:
    wanted = held_type(buffer.dtype, buffer.span)
    array = _as_array(func, buffer, value)
    if array.dtype != wanted:
        message = f"{buffer.name!r} holds {buffer.dtype}, but the array holds {array.dtype}."
        raise refuse("TA05", message, at=buffer.span)
    shape = array.shape
    if buffer.dtype.lanes != 1:
        if not shape or shape[-1] != buffer.dtype.lanes:
            message = f"{buffer.name!r} holds {buffer.dtype}: its array ends in an axis of {buffer.dtype.lanes}."
            raise refuse("TA05", message, at=buffer.span)
        shape = shape[:-1]
    if len(shape) != len(buffer.shape):
        message = f"{buffer.name!r} has {len(buffer.shape)} dimensions, but the array has {len(shape)}."
        raise refuse("TA03", message, at=buffer.span)
    for place, (declared, extent) in enumerate(zip(buffer.shape, shape, strict=True)):
        if isinstance(declared, n.IntImm) and declared.value != extent:
            message = f"dimension {place} of {buffer.name!r} has {declared.value} elements, but the array has {extent}."
            raise refuse("TA03", message, at=buffer.span)
    if buffer.strides and buffer.dtype.lanes == 1:
        return _strided(buffer, array)
    memory = Memory.of(np.ascontiguousarray(array).reshape(-1), buffer.name)
    return Pointer(memory, 0, View(memory, wanted, buffer.dtype.lanes, shape, row_major(shape), 0))


def _strided(buffer: n.Buffer, array: np.ndarray[Any, Any]) -> Pointer:
    """Memory that is laid out as the array is, with gaps where it has gaps."""
    itemsize = array.dtype.itemsize
    steps = strides_of(array)
    length = 1 + sum((extent - 1) * step for extent, step in zip(array.shape, steps, strict=True)) if array.size else 0
    flat = np.zeros(max(length, 0), array.dtype)
    if array.size:
        strided(flat, array.shape, tuple(s * itemsize for s in steps))[...] = array
    memory = Memory.of(flat, buffer.name)
    return Pointer(memory, 0, View(memory, array.dtype, 1, array.shape, steps, 0))


_CARRIERS = {1: np.uint8, 2: np.uint16}


def _as_array(func: n.PrimFunc, buffer: n.Buffer, value: object) -> np.ndarray[Any, Any]:
    """The argument as a NumPy array; narrow floats may come as unsigned integers of their width."""
    if value is None or isinstance(value, str | bytes | dict | set):
        message = f"{buffer.name!r} of {func.name!r} needs an array, and this is of type {type(value).__name__}."
        raise refuse("TA04", message, at=buffer.span)
    if not hasattr(value, "dtype") and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)  # type: ignore[arg-type]
    array = np.asarray(value)
    if array.dtype.kind == "O":
        raise refuse("TA04", f"{buffer.name!r} of {func.name!r} needs an array of numbers.", at=buffer.span)
    wanted = buffer.dtype.element.numpy
    narrow = hasattr(ml_dtypes, wanted.name) and wanted.itemsize in _CARRIERS
    if narrow and array.dtype == _CARRIERS[wanted.itemsize]:
        array = array.view(wanted)
    return array


def give(view: View | None) -> np.ndarray[Any, Any]:
    """A copy of a buffer as an array; of memory with one copy per lane, the first copy."""
    assert view is not None
    elements = view.memory.typed(view.dtype)
    lanes = view.lanes
    shape = tuple(int(np.max(extent)) for extent in view.shape)
    start = int(np.max(view.offset)) * lanes
    strides = tuple(int(np.max(s)) * view.dtype.itemsize * lanes for s in view.strides)
    if lanes != 1:
        shape, strides = (*shape, lanes), (*strides, view.dtype.itemsize)
    return strided(elements[start:], shape, strides).copy()
