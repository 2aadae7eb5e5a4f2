"""Whether what assume says of a value is so, for the watch of checked mode."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.tile.attributes import Bounded, DivBy, SameElements
from tensorir.tile.interpret.integers import Watch, signed
from tensorir.tile.interpret.meanings import element_of
from tensorir.tile.interpret.places import Tensor
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Pointer

__all__ = ["check_assumption"]


def check_assumption(watch: Watch, op: Operation, value: Any) -> None:
    """Tell the watch of elements that a predicate does not hold of."""
    predicate = op.attribute("predicate")
    said = f"says {predicate} of a value, which is not so,"
    match predicate:
        case Bounded(lower, upper):
            numbers = signed(np.asarray(value)).astype(object)
            outside = np.zeros(np.shape(value), bool)
            if lower is not None:
                outside |= np.asarray(numbers < lower, bool)
            if upper is not None:
                outside |= np.asarray(numbers > upper, bool)
            watch.undefined(op, outside, said)
        case SameElements(extents):
            array = np.asarray(value)
            watch.undefined(op, array != _groups(array, extents), said)
        case DivBy(divisor, every, along):
            if isinstance(value, Tensor):
                watch.undefined(op, np.array((value.base >> 1) % divisor != 0), said)
                return
            watch.undefined(op, _indivisible(op, np.asarray(value), divisor, every, along), said)
        case _:
            raise AssertionError(predicate)


def _groups(array: Any, extents: tuple[int, ...]) -> Any:
    """The first element of each element's block."""
    for axis, extent in enumerate(extents):
        if extent > 1:
            array = np.take(array, np.arange(array.shape[axis]) // extent * extent, axis)
    return array


def _indivisible(op: Operation, array: Any, divisor: int, every: int | None, along: int | None) -> Any:
    element = element_of(op.results[0])
    is_pointer = isinstance(element, Pointer)
    numbers = (array >> 1 if is_pointer else signed(array)).astype(object)
    if not every or along is None:
        return np.asarray(numbers % divisor != 0, bool)
    step = element.pointee.bytes if is_pointer else 1
    places = np.arange(array.shape[along]) % every
    shape = [1] * array.ndim
    shape[along] = -1
    firsts = numbers - (places * step).reshape(shape)
    counted = _groups(numbers, tuple(every if k == along else 1 for k in range(array.ndim)))
    return np.asarray((firsts != counted) | (counted % divisor != 0), bool)
