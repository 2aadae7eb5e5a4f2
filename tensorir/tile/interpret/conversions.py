"""Elements of one type as another: rounded, extended, cut off, or their bits as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.tile.elements import Element
from tensorir.tile.interpret.integers import Watch, fit, signed, unsigned
from tensorir.tile.interpret.rounding import Array, odd_of_integers, round_to
from tensorir.tile.nodes import Operation

__all__ = ["CONVERSIONS", "pack", "unpack"]


def _ftof(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    with np.errstate(all="ignore"):  # a signalling NaN is no error here
        return round_to(a.astype(np.float64), target, op.attribute("rounding_mode"))


def _itof(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    numbers = signed(a) if op.attribute("signedness") == "signed" else unsigned(a, source)
    if source.bits == 64:
        if target.name == "f64":
            return numbers.astype(np.float64)
        return round_to(odd_of_integers(numbers), target)
    return round_to(numbers.astype(np.float64), target)


def _ftoi(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    with np.errstate(all="ignore"):
        numbers = np.trunc(a.astype(np.float64))
    is_signed = op.attribute("signedness") == "signed"
    low, high = (float(target.range[0]), float(1 << (target.bits - 1))) if is_signed else (0.0, float(1 << target.bits))
    bad = ~((numbers >= low) & (numbers < high))
    if w is not None:
        w.undefined(op, bad, f"converts a number that {target} does not hold")
    safe = np.where(bad, 0.0, numbers)
    return fit(safe.astype(np.int64) if is_signed else safe.astype(np.uint64), target)


def _exti(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    numbers = signed(a) if op.attribute("signedness") == "signed" else unsigned(a, source)
    return fit(numbers.astype(target.numpy), target)


def _trunci(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    result = fit(a, target)
    promise = op.attribute("overflow")
    if w is not None and promise != "none":
        if promise in ("no_signed_wrap", "no_wrap"):
            w.undefined(
                op, signed(result).astype(np.int64) != signed(a), f"drops bits, against its promise '{promise}'"
            )
        if promise in ("no_unsigned_wrap", "no_wrap"):
            kept = unsigned(result, target).astype(np.uint64)
            w.undefined(op, kept != unsigned(a, source), f"drops bits, against its promise '{promise}'")
    return result


def _bitcast(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    if source == target:
        return a
    if source.bits == 4:
        return a
    return np.ascontiguousarray(a).reshape(a.shape).view(target.numpy)


CONVERSIONS: dict[str, Any] = {
    "ftof": _ftof,
    "itof": _itof,
    "ftoi": _ftoi,
    "exti": _exti,
    "trunci": _trunci,
    "bitcast": _bitcast,
}
"""By name: the operation, the watch, both element types, and the operand."""


def pack(a: Array, source: Element) -> Array:
    """Elements in a row as bytes, the first in the low bits.

    >>> import ml_dtypes
    >>> from tensorir.tile.elements import ELEMENTS
    >>> pack(np.array([0.5, 1.5], ml_dtypes.float4_e2m1fn), ELEMENTS["f4E2M1FN"])
    array([49], dtype=int8)
    """
    if source.bits == 1:
        return np.packbits(a, bitorder="little").view(np.int8)
    if source.bits == 4:
        nibbles = (a.view(np.uint8) & 15).reshape(-1, 2)
        return (nibbles[:, 0] | nibbles[:, 1] << 4).view(np.int8)
    return np.ascontiguousarray(a).view(np.int8)


def unpack(a: Array, target: Element) -> Array:
    """Bytes as elements in a row, the low bits first."""
    raw = np.ascontiguousarray(a).view(np.uint8)
    if target.bits == 1:
        return np.unpackbits(raw, bitorder="little").astype(np.bool_)
    if target.bits == 4:
        nibbles = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)
        return ((nibbles.view(np.int8) ^ 8) - np.int8(8)) if target.is_integer else nibbles.view(target.numpy)
    if target.name == "tf32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return raw.view(target.numpy)
