"""Operations without memory: element by element and products, and their unspecified values."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorir.tile.interpret import elements as f
from tensorir.tile.interpret import elements as i
from tensorir.tile.interpret.elements import CONVERSIONS, Array, pack, round_to, unpack
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Element, Pointer, Tile

# Products of matrices: for k ascending, each product added to the accumulator in turn.
#
# Products of 8- and 16-bit floats and of tf32 are exact in float32, in which they are added up; float32 and float64
# add in their own precision. An accumulator of float16 is rounded once, at the end. Integers are exact, and wrap at
# the end.


def product(lhs: Array, rhs: Array, acc: Array, element: Element) -> Array:
    """acc + sum over k of lhs[.., i, k] * rhs[.., k, j]."""
    inner = np.float64 if element.name == "f64" else np.float32
    a, b = lhs.astype(inner), rhs.astype(inner)
    total = acc.astype(inner)
    with np.errstate(all="ignore"):
        for k in range(a.shape[-1]):
            total += a[..., :, k, None] * b[..., k, None, :]
    return round_to(total.astype(np.float64), element) if element.name == "f16" else total


def whole_product(lhs: Array, rhs: Array, acc: Array, lhs_signed: bool, rhs_signed: bool) -> Array:
    """acc + sum over k of products of 8-bit integers, in 32 bits; sums are exact in float64."""
    a = (lhs if lhs_signed else lhs.view(np.uint8)).astype(np.float64)
    b = (rhs if rhs_signed else rhs.view(np.uint8)).astype(np.float64)
    return (np.matmul(a, b).astype(np.int64) + acc).astype(np.int32)


def scaled_product(lhs: Array, rhs: Array, acc: Array, lhs_scale: Array, rhs_scale: Array) -> Array:
    """acc + sum over k of (lhs * its scale) * (rhs * its scale), with a scale for each block of k."""
    a, b = lhs.astype(np.float32), rhs.astype(np.float32)
    block = a.shape[-1] // lhs_scale.shape[-1]
    with np.errstate(all="ignore"):
        a = a * np.repeat(lhs_scale.astype(np.float32), block, axis=-1)
        b = b * np.repeat(rhs_scale.astype(np.float32), block, axis=-2)
        total = acc.astype(np.float32)
        for k in range(a.shape[-1]):
            total += a[..., :, k, None] * b[..., k, None, :]
    return total


# What operations without memory compute: by name, from the operation, the watch, and arrays to an array.
#
# Elementwise ones do not look at the shape of their types, so that the body of a fold runs on many elements at once.


def element_of(value: Any) -> Any:
    """The element type of a value that is a tile."""
    assert isinstance(value.type, Tile)
    return value.type.element


def _rounded(function: Any) -> Any:
    def run(op: Operation, w: Any, *operands: Array) -> Array:
        return function(
            *operands, element_of(op.results[0]), op.attribute("rounding_mode"), bool(op.attribute("flush_to_zero"))
        )

    return run


def _function(function: Any, ftz: bool = False) -> Any:
    def run(op: Operation, w: Any, *operands: Array) -> Array:
        element = element_of(op.results[0])
        if ftz:
            return f.apply(element, function, operands[0], bool(op.attribute("flush_to_zero")))
        return f.through(element, function, *operands)

    return run


def _extreme(function: Any) -> Any:
    def run(op: Operation, w: Any, a: Array, b: Array) -> Array:
        nan, ftz = bool(op.attribute("propagate_nan")), bool(op.attribute("flush_to_zero"))
        return function(a, b, element_of(op.results[0]), nan, ftz)

    return run


def _integer(name: str) -> Any:
    function = i.BINARY[name]

    def run(op: Operation, w: Any, a: Array, b: Array) -> Array:
        return function(op, w, element_of(op.results[0]), a, b)

    return run


def _converted(name: str) -> Any:
    function = CONVERSIONS[name]

    def run(op: Operation, w: Any, a: Array) -> Array:
        return function(op, w, element_of(op.values[0]), element_of(op.results[0]), a)

    return run


def _negi(op: Operation, w: Any, a: Array) -> Array:
    element: Element = element_of(op.results[0])
    if w is not None:
        i.overflows(op, w, element, a)
    with np.errstate(all="ignore"):
        return i.fit(-i.signed(a), element)


def _absi(op: Operation, w: Any, a: Array) -> Array:
    with np.errstate(all="ignore"):
        return i.fit(np.abs(i.signed(a)), element_of(op.results[0]))


_COMPARE: dict[str, Any] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


def _cmpf(op: Operation, w: Any, a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        result = _COMPARE[op.attribute("comparison_predicate")](a, b)
        no_number = np.isnan(a) | np.isnan(b)
    return result | no_number if op.attribute("comparison_ordering") == "unordered" else result & ~no_number


def _cmpi(op: Operation, w: Any, a: Array, b: Array) -> Array:
    if op.attribute("signedness") == "signed":
        a, b = i.signed(a), i.signed(b)
    else:
        element = element_of(op.values[0])
        a, b = i.unsigned(a, element), i.unsigned(b, element)
    return _COMPARE[op.attribute("comparison_predicate")](a, b)


def _floor(function: Any) -> Any:
    return lambda op, w, a: function(a) if a.dtype.itemsize > 2 else function(a.astype(np.float32)).astype(a.dtype)


def _constant(op: Operation, w: Any) -> Array:
    return op.attribute("value").values


def _iota(op: Operation, w: Any) -> Array:
    type: Any = op.results[0].type
    return i.fit(np.arange(type.shape[0], dtype=np.int64), type.element)


def _shape(op: Operation) -> tuple[int, ...]:
    type = op.results[0].type
    assert isinstance(type, Tile)
    return type.shape


def _extract(op: Operation, w: Any, a: Array, indices: tuple[Array, ...]) -> Array:
    extents = _shape(op)
    starts = [int(np.uint32(k)) * n for k, n in zip(indices, extents, strict=True)]
    outside = [s + n > whole for s, n, whole in zip(starts, extents, a.shape, strict=True)]
    if any(outside):
        if w is not None:
            w.undefined(op, np.array(True), "extracts a slice outside of its tile")
        return np.zeros(extents, a.dtype)
    return a[tuple(slice(s, s + n) for s, n in zip(starts, extents, strict=True))]


def _offset(op: Operation, w: Any, pointers: Array, steps: Array) -> Array:
    pointee = element_of(op.results[0])
    assert isinstance(pointee, Pointer)
    with np.errstate(all="ignore"):
        return pointers + i.signed(steps).astype(np.int64) * (pointee.pointee.width // 4)


def _ptr_to_int(op: Operation, w: Any, a: Array) -> Array:
    return a >> 1  # pointers count half bytes


def _int_to_ptr(op: Operation, w: Any, a: Array) -> Array:
    with np.errstate(all="ignore"):
        return a << 1


def _mmaf(op: Operation, w: Any, lhs: Array, rhs: Array, acc: Array) -> Array:
    return product(lhs, rhs, acc, element_of(op.results[0]))


def _mmai(op: Operation, w: Any, lhs: Array, rhs: Array, acc: Array) -> Array:
    signs = [op.attribute(name) == "signed" for name in ("signedness_lhs", "signedness_rhs")]
    return whole_product(lhs, rhs, acc, *signs)


def _rsqrt(a: Array) -> Array:
    return 1.0 / np.sqrt(a)


MEANINGS: dict[str, Callable[..., Any]] = {
    "absf": lambda op, w, a: np.abs(a),
    "negf": lambda op, w, a: -a,
    "addf": _rounded(f.add),
    "subf": _rounded(f.subtract),
    "mulf": _rounded(f.multiply),
    "divf": _rounded(f.divide),
    "fma": _rounded(f.fma),
    "sqrt": _rounded(f.root),
    "maxf": _extreme(f.larger),
    "minf": _extreme(f.smaller),
    "remf": lambda op, w, a, b: f.remainder(a, b),
    "floor": _floor(np.floor),
    "ceil": _floor(np.ceil),
    "rsqrt": _function(_rsqrt, ftz=True),
    "exp2": _function(np.exp2, ftz=True),
    "pow": _function(np.power),
    "atan2": _function(np.arctan2),
    **{
        name: _function(getattr(np, name))
        for name in ("cos", "cosh", "exp", "log", "log2", "sin", "sinh", "tan", "tanh")
    },
    **{name: _integer(name) for name in i.BINARY},
    **{name: _converted(name) for name in CONVERSIONS},
    "absi": _absi,
    "negi": _negi,
    "cmpf": _cmpf,
    "cmpi": _cmpi,
    "select": lambda op, w, c, a, b: np.where(c, a, b),
    "ptr_to_ptr": lambda op, w, a: a,
    "ptr_to_int": _ptr_to_int,
    "int_to_ptr": _int_to_ptr,
    "offset": _offset,
    "constant": _constant,
    "iota": _iota,
    "broadcast": lambda op, w, a: np.broadcast_to(a, _shape(op)),
    "reshape": lambda op, w, a: a.reshape(_shape(op)),
    "permute": lambda op, w, a: np.transpose(a, op.attribute("permutation")),
    "cat": lambda op, w, a, b: np.concatenate([a, b], axis=op.attribute("dim")),
    "extract": _extract,
    "pack": lambda op, w, a: pack(a, element_of(op.values[0])),
    "unpack": lambda op, w, a: unpack(a, element_of(op.results[0])),
    "mmaf": _mmaf,
    "mmai": _mmai,
    "mmaf_scaled": lambda op, w, *operands: scaled_product(*operands),
}

# Which elements of a result are unspecified, given which of its operands' elements are.


_MOVING = {"broadcast", "reshape", "permute", "cat"}
"""Operations that move elements as they are, whatever they hold."""


def taints_of(op: Operation, taints: Sequence[Any], values: Sequence[Any], result: Any) -> Any:
    """The elements of a result that are unspecified; None where none is."""
    if all(t is None for t in taints):
        return None
    shapes = [np.shape(v) for v in values]
    full: list[Any] = [np.zeros(s, bool) if t is None else t for t, s in zip(taints, shapes, strict=True)]
    found: Any
    if op.name == "select":
        # what is not chosen does not matter
        found = full[0] | np.where(values[0], full[1], full[2])
    elif op.name in _MOVING:
        found = MEANINGS[op.name](op, None, *full)
    elif op.name == "extract" and taints[0] is not None and all(t is None for t in taints[1:]):
        found = MEANINGS[op.name](op, None, full[0], tuple(values[1:]))
    elif op.name in ("mmaf", "mmai"):
        rows = full[0].any(axis=-1)[..., :, None] | full[1].any(axis=-2)[..., None, :]
        found = rows | full[2]
    elif op.name in ("andi", "muli"):
        # a zero that is known decides the result
        known = [(~t) & (np.asarray(v) == 0) for t, v in zip(full, values, strict=True)]
        found = (full[0] | full[1]) & ~(known[0] | known[1])
    elif op.row.elementwise:
        found = np.logical_or.reduce([np.broadcast_to(t, np.shape(result)) for t in full])
    else:
        found = np.full(np.shape(result), any(np.any(t) for t in full))
    return found if np.any(found) else None
