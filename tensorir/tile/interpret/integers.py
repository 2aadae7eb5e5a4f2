"""Integers, element by element: they wrap around, i1 included; what is undefined is 0, and told to the watch."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tensorir.tile.elements import Element
from tensorir.tile.interpret.rounding import Array
from tensorir.tile.nodes import Operation

__all__ = ["BINARY", "Watch", "fit", "overflows", "signed", "unsigned"]

_UNSIGNED = {1: np.uint8, 4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Watch(Protocol):
    """What is told of undefined results, in checked mode."""

    def undefined(self, op: Operation, lanes: Any, said: str) -> None: ...


def signed(a: Array) -> Array:
    """The elements as signed numbers; a set bit of i1 is -1."""
    return -a.astype(np.int8) if a.dtype == np.bool_ else a


def unsigned(a: Array, element: Element) -> Array:
    """The elements as unsigned numbers."""
    if a.dtype == np.bool_:
        return a.astype(np.uint8)
    if element.bits == 4:
        return (a & 15).astype(np.uint8)
    return a.view(_UNSIGNED[element.bits])


def fit(a: Array, element: Element) -> Array:
    """The low bits of numbers, as elements."""
    if element.bits == 1:
        return (a & 1).astype(np.bool_)
    if element.bits == 4:
        return ((a.astype(np.int8) & 15) ^ 8) - np.int8(8)
    return a.astype(element.numpy) if a.dtype.kind != "u" else a.astype(_UNSIGNED[element.bits]).view(element.numpy)


def _divi(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    is_signed, mode = op.attribute("signedness") == "signed", op.attribute("rounding")
    x, y = (signed(a), signed(b)) if is_signed else (unsigned(a, element), unsigned(b, element))
    bad = y == 0
    if is_signed:
        bad = bad | ((x == np.array(element.range[0], x.dtype)) & (y == -1))
    if w is not None:
        w.undefined(op, bad, "divides by zero, or the least number by -1")
    safe = np.where(bad, np.array(1, y.dtype), y)
    quotient = x // safe
    if mode != "negative_inf":
        rest = x - quotient * safe
        upward = (rest != 0) if mode == "positive_inf" else (rest != 0) & ((x < 0) != (safe < 0))
        quotient = quotient + upward.astype(x.dtype)
    return fit(np.where(bad, np.array(0, quotient.dtype), quotient), element)


def _remi(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    is_signed = op.attribute("signedness") == "signed"
    x, y = (signed(a), signed(b)) if is_signed else (unsigned(a, element), unsigned(b, element))
    bad = y == 0
    if w is not None:
        w.undefined(op, bad, "divides by zero")
    safe = np.where(bad | ((y == -1) & is_signed), np.array(1, y.dtype), y)
    return fit(np.where(bad, np.array(0, x.dtype), np.fmod(x, safe)), element)


def _shifted(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    amount = unsigned(b, element).astype(np.uint64)
    bad = amount >= element.bits
    if w is not None:
        w.undefined(op, bad, f"shifts by {element.bits} bits or more")
    steps = np.where(bad, np.uint64(0), amount)
    if op.name == "shli":
        result = unsigned(a, element).astype(np.uint64) << steps
    elif op.attribute("signedness") == "unsigned":
        result = unsigned(a, element).astype(np.uint64) >> steps
    else:
        result = (signed(a).astype(np.int64) >> steps.astype(np.int64)).view(np.uint64)
    return fit(np.where(bad, np.uint64(0), result), element)


def _mulhii(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    x, y = (unsigned(v, element).astype(np.uint64) for v in (a, b))
    if element.bits < 64:
        return fit((x * y) >> np.uint64(element.bits), element)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    xh, xl, yh, yl = x >> half, x & low, y >> half, y & low
    middle = xh * yl + ((xl * yl) >> half)
    other = xl * yh + (middle & low)
    return fit(xh * yh + (middle >> half) + (other >> half), element)


def _extreme(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    is_signed = op.attribute("signedness") == "signed"
    x, y = (signed(a), signed(b)) if is_signed else (unsigned(a, element), unsigned(b, element))
    return fit(np.maximum(x, y) if op.name == "maxi" else np.minimum(x, y), element)


def _wrapping(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    x, y = signed(a), signed(b)
    with np.errstate(all="ignore"):
        result = x + y if op.name == "addi" else x - y if op.name == "subi" else x * y
    if w is not None:
        overflows(op, w, element, a, b)
    return fit(result, element)


def _shift_left(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    if w is not None:
        overflows(op, w, element, a, b)
    return _shifted(op, w, element, a, b)


BINARY: dict[str, Any] = {
    "addi": _wrapping,
    "subi": _wrapping,
    "muli": _wrapping,
    "divi": _divi,
    "remi": _remi,
    "maxi": _extreme,
    "mini": _extreme,
    "mulhii": _mulhii,
    "shli": _shift_left,
    "shri": _shifted,
    "andi": lambda op, w, e, a, b: a & b,
    "ori": lambda op, w, e, a, b: a | b,
    "xori": lambda op, w, e, a, b: a ^ b,
}
"""By name: the operation, the watch, the element type, and the operands."""


def overflows(op: Operation, w: Watch, element: Element, *operands: Array) -> None:
    """Tell the watch of lanes that break the promise of an overflow attribute."""
    promise = op.attribute("overflow")
    if promise == "none":
        return
    functions: dict[str, Any] = {
        "addi": lambda x, y: x + y, "subi": lambda x, y: x - y, "muli": lambda x, y: x * y, "negi": lambda x: -x,
        "shli": lambda x, y: x * np.power(np.array(2, object), y),
    }  # fmt: skip
    low, high = element.range
    for kind, view, least, most in (
        ("no_signed_wrap", lambda v: signed(v), low, high),
        ("no_unsigned_wrap", lambda v: unsigned(v, element), 0, (1 << element.bits) - 1),
    ):
        if promise not in (kind, "no_wrap") or (kind == "no_unsigned_wrap" and op.name == "negi"):
            continue
        numbers = [view(v).astype(object) for v in operands]
        if op.name == "shli":
            numbers[1] = np.minimum(unsigned(operands[1], element).astype(np.int64), 64).astype(object)
        exact = functions[op.name](*numbers)
        broken = np.asarray((exact < least) | (exact > most), bool)
        w.undefined(op, broken, f"wraps around, against its promise '{promise}'")
