"""What operations without memory compute: by name, from the operation, the watch, and arrays to an array.

Elementwise ones do not look at the shape of their types, so that the body of a fold runs on many elements at once.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.tile.elements import Element
from tensorir.tile.interpret import floats as f
from tensorir.tile.interpret import integers as i
from tensorir.tile.interpret.conversions import CONVERSIONS, pack, unpack
from tensorir.tile.interpret.products import product, scaled_product, whole_product
from tensorir.tile.interpret.rounding import Array
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Pointer, Tile

__all__ = ["MEANINGS", "element_of"]


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
