"""The equations that a kernel computes: of each primitive what it costs, for which elements, and what it reads where.

Triton has other operations than XLA under some names. What differs is not in the table for GPUs, and stays with XLA:
casts of floats to integers (which saturate there), shifts of bits by as many as there are, remainders of floats.
Kernels for CPUs (`vectors.py`) have those, and no floats of 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn

from lowering.kernels.positions import Box, Entry, Index, Position, cut, is_empty
from lowering.kernels.program import element_of, shape_of

FLOATS = frozenset(["float16", "bfloat16", "float32", "float64"])
WIDE = frozenset(["float32", "float64"])
# Pallas has no constants of 64 bits without a sign (JAX 0.10.2)
INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)) - {"uint64"}
BOOL = frozenset(["bool"])
NUMBERS = FLOATS | INTEGERS
ELEMENTS = NUMBERS | BOOL
"""The elements that a kernel has."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A function of elements."""

    elements: frozenset[str]
    """Those of its operands."""
    weight: int = 1
    """Its time, in additions."""
    compute: Callable[..., Any] | None = None
    """Its computation on GPUs, if Triton's operation of the name is another one."""


def _negated(x: Any) -> Any:
    """-x; of floats as a product, since Triton's is 0 - x, which is 0.0 of 0.0."""
    return lax.neg(x) if x.dtype.kind in "iub" else lax.mul(x, lax.full_like(x, -1))


def _extreme(prefers: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The minimum (`prefers` is `lax.le`) or maximum (`lax.ge`) of two elements, which keeps a NaN as XLA does, and
    takes -0.0 for less than 0.0.
    """
    is_min = prefers is lax.le

    def compute(x: Any, y: Any) -> Any:
        """The preferred of two elements, or a NaN among them."""
        # Triton's drops a NaN
        if x.dtype.kind in "iub":
            return lax.min(x, y) if is_min else lax.max(x, y)
        is_first = lax.bitwise_or(prefers(x, y), lax.ne(x, x))
        chosen, other = lax.select(is_first, x, y), lax.select(is_first, y, x)
        # equal numbers differ in the sign of zero alone: a minimum has the sign of either, a maximum that of both
        bits = [lax.bitcast_convert_type(z, f"uint{8 * z.dtype.itemsize}") for z in (chosen, other)]
        joined = lax.bitwise_or(*bits) if is_min else lax.bitwise_and(*bits)
        return lax.select(lax.eq(x, y), lax.bitcast_convert_type(joined, x.dtype), chosen)

    return compute


def _divided(x: Any, y: Any) -> Any:
    """x / y; 16-bit floats, which Triton does not divide, are divided in float32, which rounds to the same quotient."""
    # Triton divides no floats of 16 bits; rounded from float32 the quotient is the same
    if x.dtype.name not in FLOATS - WIDE:
        return lax.div(x, y)
    wide = lax.div(lax.convert_element_type(x, "float32"), lax.convert_element_type(y, "float32"))
    return lax.convert_element_type(wide, x.dtype)


_DEAR, _DEARER = 8, 30

POINTWISE: Mapping[str, Pointwise] = {
    **{name: Pointwise(NUMBERS) for name in ("add", "sub", "mul", "add_any")},
    "neg": Pointwise(FLOATS | frozenset(["int8", "int16", "int32", "int64"]), compute=_negated),
    "abs": Pointwise(FLOATS | frozenset(["int32", "int64"])),
    "square": Pointwise(WIDE),
    "integer_pow": Pointwise(WIDE, 2),
    "div": Pointwise(NUMBERS, _DEAR, _divided),
    "rem": Pointwise(INTEGERS, _DEAR),
    "min": Pointwise(NUMBERS, 2, _extreme(lax.le)),
    "max": Pointwise(NUMBERS, 2, _extreme(lax.ge)),
    **{name: Pointwise(INTEGERS | BOOL) for name in ("and", "or", "xor", "not")},
    **{name: Pointwise(ELEMENTS) for name in ("eq", "ne")},
    **{name: Pointwise(NUMBERS) for name in ("lt", "le", "gt", "ge")},
    "select_n": Pointwise(ELEMENTS),
    "convert_element_type": Pointwise(ELEMENTS),
    "bitcast_convert_type": Pointwise(NUMBERS, 0),
    "is_finite": Pointwise(WIDE, 2),
    "stop_gradient": Pointwise(ELEMENTS, 0),
    **{name: Pointwise(ELEMENTS, 0, lambda x: x) for name in ("copy", "copy_p", "pvary")},
    **{name: Pointwise(WIDE) for name in ("floor", "ceil")},
    **{name: Pointwise(WIDE, _DEAR) for name in ("sqrt", "rsqrt")},
    **{
        name: Pointwise(WIDE, _DEARER)
        for name in (
            "exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh",
            "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "pow",
        )
    },
}  # fmt: skip
"""By the name of the primitive."""

_INTEGERS = INTEGERS | {"uint64"}
_NUMBERS = WIDE | _INTEGERS
NATIVE_ELEMENTS = _NUMBERS | BOOL
"""Those of a kernel for CPUs."""
NATIVE: Mapping[str, Pointwise] = {
    **{name: replace(row, elements=row.elements & (WIDE | _INTEGERS | BOOL)) for name, row in POINTWISE.items()},
    **{name: Pointwise(_NUMBERS) for name in ("add", "sub", "mul", "add_any", "neg", "lt", "le", "gt", "ge", "sign")},
    "square": Pointwise(_NUMBERS),
    **{name: Pointwise(_NUMBERS, 2) for name in ("min", "max", "clamp", "integer_pow")},
    **{name: Pointwise(_NUMBERS, _DEAR) for name in ("div", "rem")},
    **{name: Pointwise(_INTEGERS | BOOL) for name in ("and", "or", "xor", "not")},
    **{name: Pointwise(_NUMBERS | BOOL) for name in ("eq", "ne", "select_n", "convert_element_type", "stop_gradient")},
    **{name: Pointwise(_INTEGERS, 2) for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")},
    **{name: Pointwise(_INTEGERS, 2) for name in ("population_count", "clz")},
    "abs": Pointwise(_NUMBERS),
    "round": Pointwise(WIDE, 2),
    "logistic": Pointwise(WIDE, _DEARER),
}
"""Those of kernels for CPUs."""

MOVING = frozenset([
    "slice", "squeeze", "broadcast_in_dim", "reshape", "transpose", "rev", "concatenate", "pad", "iota",
])  # fmt: skip
"""Primitives that move elements, or count them."""
FOLDING: Mapping[str, Callable[[Any, Any], Any]] = {
    "reduce_sum": lax.add, "reduce_prod": lax.mul, "reduce_max": _extreme(lax.ge), "reduce_min": _extreme(lax.le),
    "reduce_or": lax.bitwise_or, "reduce_and": lax.bitwise_and,
}  # fmt: skip
LONGEST_FOLD = 32
"""Longer folds are reductions of XLA."""
MOST_ELEMENTS = 2**31 - 1
"""Positions have 32 bits."""


class Operand(NamedTuple):
    """An access of an equation for one of its elements: an operand at a position, for the points of a box."""

    value: Any
    position: Position
    box: Box


class Unplaced(Exception):
    """No box of points has the elements of a variable that are read: it has to be stored."""

    def __init__(self, variable: Any) -> None:
        super().__init__(variable)
        self.variable = variable


def is_fusible(e: JaxprEqn, native: bool = False) -> bool:
    """True if a kernel can compute an equation; `native`: a kernel for CPUs.

    Elementwise operations of `POINTWISE` or `NATIVE`, short folds, gathers along one axis, and moves of elements, on
    GPUs without those that change the innermost axis.
    """
    primitive_name, elements = e.primitive.name, NATIVE_ELEMENTS if native else ELEMENTS
    if any(element_of(v).name not in elements or prod(shape_of(v)) > MOST_ELEMENTS for v in (*e.invars, *e.outvars)):
        return False
    if (row := (NATIVE if native else POINTWISE).get(primitive_name)) is not None:
        return _is_pointwise(e, row, native)
    if primitive_name in FOLDING:
        return 0 < folded(e) <= LONGEST_FOLD and (native or element_of(e.invars[0]).name in WIDE | INTEGERS | BOOL)
    match primitive_name:
        case "gather":
            return gathered(e) is not None
        case "pad":
            return all(interior == 0 for _, _, interior in e.params["padding_config"])
        case "transpose":
            # the last axis is what lies side by side in memory: XLA turns arrays tile by tile
            last_axis = len(e.params["permutation"]) - 1
            return native or last_axis < 0 or e.params["permutation"][last_axis] == last_axis
        case "reshape":
            before, after = ([n for n in shape_of(v) if n != 1] for v in (e.invars[0], e.outvars[0]))
            return before == after and len(e.invars) == 1
        case "broadcast_in_dim" | "iota":
            return len(e.invars) <= 1
        case _:
            return primitive_name in MOVING


def _is_pointwise(e: JaxprEqn, row: Pointwise, native: bool) -> bool:
    """True if the elements of an equation's operands are those of its row in the table, and no special case of it
    excludes it.
    """
    elements = [element_of(v).name for v in e.invars]
    if not all(name in row.elements for name in elements):
        return False
    match e.primitive.name:
        case "select_n":
            return len(e.invars) == 3 and elements[0] == "bool"
        case "convert_element_type":
            old, new = element_of(e.invars[0]), element_of(e.outvars[0])
            wide = old.kind not in "fV" or (new.kind in "fV" and old.itemsize <= new.itemsize * 2)
            return native or (new.kind != "b" and wide)
        case "bitcast_convert_type":
            return element_of(e.invars[0]).itemsize == element_of(e.outvars[0]).itemsize
        case _:
            return True


def gathered(e: JaxprEqn) -> tuple[int, int] | None:
    """The axis of the operand along which a gather reads, and the axis of its result that has the indices' points.

    None for a gather at more than one index, of partial slices, at indices of other types, or with another mode than in
    bounds.
    """
    x, indices = e.invars
    numbers, shape = e.params["dimension_numbers"], shape_of(x)
    if len(numbers.start_index_map) != 1 or numbers.collapsed_slice_dims != numbers.start_index_map:
        return None
    (axis,) = numbers.start_index_map
    is_along_one_axis = (
        e.params["mode"] == lax.GatherScatterMode.PROMISE_IN_BOUNDS
        and tuple(e.params["slice_sizes"]) == (*shape[:axis], 1, *shape[axis + 1 :])
        and len(numbers.offset_dims) == len(shape) - 1
        and not numbers.operand_batching_dims
        and len(shape_of(indices)) == 2
        and element_of(indices).name in ("int32", "uint8", "int8", "int16", "uint16")
    )
    return (axis, next(k for k in range(len(shape)) if k not in numbers.offset_dims)) if is_along_one_axis else None


def folded(e: JaxprEqn) -> int:
    """The number of operand elements that an equation reads for one result element: 1 unless it is a fold."""
    return prod(shape_of(e.invars[0])[k] for k in e.params["axes"]) if e.primitive.name in FOLDING else 1


def weight_of(e: JaxprEqn) -> int:
    """The time of an equation for one element, in additions."""
    name = e.primitive.name
    if name in FOLDING:
        return folded(e)
    return NATIVE[name].weight if name in NATIVE else int(name in ("concatenate", "pad", "iota"))


def operands_of(e: JaxprEqn, position: Position, box: Box) -> list[Operand]:
    """The accesses of an equation for its element at a position, at the points of a box.

    Raises Unplaced if no box of points has the elements that a part of a concatenation or padding reads. A gather
    accesses the index, then its operand at that `Entry`.
    """
    name = e.primitive.name
    if name in NATIVE:
        return [Operand(v, position if shape_of(v) else (), box) for v in e.invars]
    if name in FOLDING:
        return _fold_operands(e, position, box)
    if name == "gather":
        (x, indices), axes = e.invars, gathered(e)
        assert axes is not None
        row = (position[axes[1]], Index(None, 0, 0))
        at = list(position[: axes[1]] + position[axes[1] + 1 :])
        at.insert(axes[0], Index(Entry(indices, row), 1, 0))
        return [Operand(indices, row, box), Operand(x, tuple(at), box)]
    if name == "concatenate":
        return [o for o in _concatenated_operands(e, position, box) if not is_empty(o.box)]
    if name == "pad":
        x, padding_value = e.invars
        unpadded_box = _unpadded_box(e, position, box)
        at = tuple(i.moved(-low) for i, (low, _, _) in zip(position, e.params["padding_config"], strict=True))
        return (
            [Operand(x, at, unpadded_box), Operand(padding_value, (), box)]
            if not is_empty(unpadded_box)
            else [Operand(padding_value, (), box)]
        )
    if name == "iota":
        return []
    return [Operand(e.invars[0], _operand_position(e, position), box)]


def _operand_position(e: JaxprEqn, position: Position) -> Position:
    """The position in its operand of the element that an equation, which moves elements, has at `position`."""
    (x, *_), p = e.invars, e.params
    shape, start = shape_of(x), Index(None, 0, 0)
    match e.primitive.name:
        case "slice":
            strides = p["strides"] or (1,) * len(shape)
            return tuple(i.moved(a, s) for i, a, s in zip(position, p["start_indices"], strides, strict=True))
        case "squeeze":
            result_indices = iter(position)
            squeezed = {k % len(shape) for k in p["dimensions"]}
            return tuple(start if k in squeezed else next(result_indices) for k in range(len(shape)))
        case "broadcast_in_dim":
            pairs = zip(p["broadcast_dimensions"], shape, strict=True)
            return tuple(start if n == 1 and p["shape"][k] != 1 else position[k] for k, n in pairs)
        case "reshape":
            result_indices = iter([i for i, n in zip(position, shape_of(e.outvars[0]), strict=True) if n != 1])
            return tuple(start if n == 1 else next(result_indices) for n in shape)
        case "transpose":
            return tuple(position[p["permutation"].index(k)] for k in range(len(shape)))
        case "rev":
            turned = p["dimensions"]
            return tuple(i.moved(shape[k] - 1, -1) if k in turned else i for k, i in enumerate(position))
        case name:
            raise AssertionError(name)


def _concatenated_operands(e: JaxprEqn, position: Position, box: Box) -> list[Operand]:
    """The accesses of all operands of a concatenation, each with the points of the box that read it, which may be
    none.

    Raises Unplaced if these are no box.
    """
    dim, operands, start = e.params["dimension"], list[Operand](), 0
    for x in e.invars:
        stop = start + shape_of(x)[dim]
        operand_box = cut(box, position[dim], start, stop)
        if operand_box is None:
            raise Unplaced(e.outvars[0])
        operands.append(Operand(x, (*position[:dim], position[dim].moved(-start), *position[dim + 1 :]), operand_box))
        start = stop
    return operands


def _unpadded_box(e: JaxprEqn, position: Position, box: Box) -> Box:
    """The points of the box at which a padded array reads its operand; raises Unplaced if they are no box."""
    for index, n, (low, _, _) in zip(position, shape_of(e.invars[0]), e.params["padding_config"], strict=True):
        read_box = cut(box, index, low, low + n)
        if read_box is None:
            raise Unplaced(e.outvars[0])
        box = read_box
    return box


def _fold_operands(e: JaxprEqn, position: Position, box: Box) -> list[Operand]:
    """The accesses of all elements that a fold reads for its element at a position."""
    (x,), axes = e.invars, e.params["axes"]
    operands: list[Operand] = []
    for point in np.ndindex(*(shape_of(x)[k] for k in axes)):
        result_indices, fixed = iter(position), dict(zip(axes, point, strict=True))
        at = tuple(Index(None, 0, fixed[k]) if k in fixed else next(result_indices) for k in range(len(shape_of(x))))
        operands.append(Operand(x, at, box))
    return operands


class Places:
    """The operations of a kernel on the values of its points."""

    def number(self, index: Index) -> Any:
        """An index at all points."""
        raise NotImplementedError

    def below(self, index: Index, limit: int) -> Any:
        """True at points whose index is smaller than a limit."""
        raise NotImplementedError

    def pointwise(self, e: JaxprEqn, values: Sequence[Any]) -> Any:
        """The value of an equation of the table."""
        raise NotImplementedError

    def fold(self, e: JaxprEqn, a: Any, b: Any) -> Any:
        """Two elements that are folded."""
        raise NotImplementedError

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def cast(self, number: Any, element: Any) -> Any:
        """A number of `number` as an element."""
        raise NotImplementedError


def combined(e: JaxprEqn, position: Position, box: Box, values: Sequence[Any], places: Places) -> Any:
    """The value of an equation at a position, from `values`, those of the accesses `operands_of(e, position, box)`.

    `places` has the operations; elements of a concatenation or a padding are selected by the position, unless all
    points of the box agree.
    """
    name = e.primitive.name

    def chosen(condition: Any, a: Any, b: Any) -> Any:
        """The selection, or the value itself if both are the same."""
        return a if a is b else places.select(condition, a, b)

    if name in NATIVE:
        return places.pointwise(e, values)
    if name in FOLDING:
        return reduce(partial(places.fold, e), values)
    if name == "iota":
        return places.cast(places.number(position[e.params["dimension"]]), e.params["dtype"])
    if name == "gather":
        return values[1]
    if name == "concatenate":
        dim, operands = e.params["dimension"], _concatenated_operands(e, position, box)
        stops, remaining = np.cumsum([shape_of(x)[dim] for x in e.invars]).tolist(), iter(values)
        read = [(next(remaining), n) for (_, _, b), n in zip(operands, stops, strict=True) if not is_empty(b)]
        value = read[-1][0]
        for part, stop in reversed(read[:-1]):
            value = chosen(places.below(position[dim], stop), part, value)
        return value
    if name == "pad":
        if len(values) == 1:
            return values[0]
        unpadded_box, (x, padding_value) = _unpadded_box(e, position, box), values
        for index, n, (low, _, _) in zip(position, shape_of(e.invars[0]), e.params["padding_config"], strict=True):
            axis = index.symbol
            if isinstance(axis, int) and unpadded_box[axis] != box[axis]:
                if cut(box, index, -MOST_ELEMENTS, low + n) != box:
                    x = chosen(places.below(index, low + n), x, padding_value)
                if cut(box, index, low, MOST_ELEMENTS) != box:
                    x = chosen(places.below(index, low), padding_value, x)
        return x
    return values[0]


def alike(values: Sequence[Any]) -> list[Any]:
    """The values broadcast to one shape: a value that is constant along a dim of the block has extent 1 there."""
    shape = np.broadcast_shapes(*(np.shape(v) for v in values))
    return [v if np.shape(v) == shape else jax.numpy.broadcast_to(v, shape) for v in values]
