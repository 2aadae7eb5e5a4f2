"""The arguments of a launch: what each parameter of an entry is given, by the shapes and numbers of a call."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.lifting.program import Argument
from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tile.lift.translation import Given
from tensorir.tile.lift.values import refused
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Element, Pointer, Tile

__all__ = ["Key", "Signature", "signature"]

Key = tuple[tuple[int, ...] | int | None, ...]
"""What a program is made for: the shapes of arrays, and the integers among the arguments."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How arguments become parameters: one by one, or each array as pointer, extents and strides."""

    entry: Operation
    raw: bool
    arguments: tuple[Argument, ...]
    elements: tuple[Element, ...]

    def key(self, values: Sequence[Any]) -> Key:
        """What a program is made for, of the values of a call."""
        found: list[tuple[int, ...] | int | None] = []
        for a, v in zip(self.arguments, values, strict=True):
            if not a.scalar:
                found.append(None if v is None else tuple(int(n) for n in v.shape))
            else:
                found.append(int(v) if a.static else None)
        return tuple(found)

    def given(self, key: Key) -> list[Given]:
        """What each parameter is given."""
        params = self.entry.regions[0].arguments
        found: list[Given] = []
        for a, e, k in zip(self.arguments, self.elements, key, strict=True):
            if a.scalar:
                found.append(Given(a.name, e, value=k if isinstance(k, int) else None))
                continue
            assert isinstance(k, tuple)
            strides = row_major(k)
            found.append(Given(a.name, e, k, strides))
            for n in () if self.raw else (*k, *strides):
                type: Any = params[len(found)].type
                found.append(Given(f"{a.name}.{len(found)}", type.element, value=n))
        return found


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements that lie row by row.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    found: list[int] = []
    step = 1
    for n in reversed(shape):
        found.append(step)
        step *= max(n, 1)
    return tuple(reversed(found))


def signature(entry: Operation, args: Sequence[Any]) -> Signature:
    """How arguments like these become parameters. Raises TK02 to TK04 for those that do not."""
    params, name = entry.regions[0].arguments, str(entry.attribute("sym_name"))
    raw = len(args) == len(params)
    needed = sum(1 + 2 * len(a.shape) if _is_array(a) else 1 for a in args)
    if not raw and needed != len(params):
        message = f"'{name}' takes {len(params)} parameters, and these {len(args)} arguments are {needed}."
        help = "pass one argument for each parameter, or arrays and numbers as cuTile takes them."
        raise DiagnosticError(Diagnostic("TK02", message, entry.span, help=help))
    arguments: list[Argument] = []
    elements: list[Element] = []
    at = 0
    for value in args:
        param = params[at]
        title = param.name if param.name.isidentifier() else f"arg{at}"
        if not isinstance(param.type, Tile) or param.type.shape:
            message = f"the parameter %{title} of '{name}' is of type {param.type}, which a launch cannot pass."
            raise DiagnosticError(Diagnostic("TK03", message, entry.span))
        element = param.type.element
        if _is_array(value) != isinstance(element, Pointer):
            what = "an array" if _is_array(value) else "a number"
            message = f"the parameter %{title} of '{name}' is of type {element}, and {what} is passed."
            raise DiagnosticError(Diagnostic("TK03", message, entry.span))
        if isinstance(element, Pointer):
            element = element.pointee
            arguments.append(Argument(title, _dtype(entry, title, element, value), False, False))
            _check_layout(entry, title, value, raw)
            at += 1 if raw else 1 + 2 * len(value.shape)
        else:
            arguments.append(Argument(title, element.numpy, True, False, static=element.is_integer))
            at += 1
        elements.append(element)
    return Signature(entry, raw, tuple(arguments), tuple(elements))


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and len(value.shape) > 0


def _dtype(entry: Operation, title: str, element: Element, value: Any) -> np.dtype[Any]:
    """The type of an array's elements: that of memory, or another one as wide without a sign."""
    dtype, wanted = np.dtype(value.dtype), element.numpy
    same_width = dtype.kind in "iub" and dtype.itemsize == wanted.itemsize
    if dtype == wanted or (same_width and (element.is_integer or (dtype.kind == "u" and element.bits <= 16))):
        return dtype
    message = f"the parameter %{title} points to {element}, and the array holds {dtype}."
    raise DiagnosticError(Diagnostic("TK04", message, entry.span))


def _check_layout(entry: Operation, title: str, value: Any, raw: bool) -> None:
    """Arguments one by one say how an array lies in memory, which tensors do not."""
    if raw and isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        message = f"the array for %{title} does not lie row by row, as its strides would be taken."
        raise refused(message, entry.span, "pass numpy.ascontiguousarray(...) and its strides.")
