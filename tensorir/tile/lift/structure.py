"""Operations that move elements, fold them, and multiply matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, function, literal, operator, reduce, scan
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, FLOAT32, INT32, SCALARS, Scalar, TensorType, TupleElement
from tensorir.lifting.emission.tensors import converted, renamed, shifted, spread
from tensorir.runtime.errors import refuse
from tensorir.tile.lift.arithmetic import same_bits, signless, unsigned
from tensorir.tile.lift.values import Axes, Context, Number, Translate, axis, boolean, element_of
from tensorir.tile.nodes import Number as Stated
from tensorir.tile.nodes import Operation, Region
from tensorir.tile.types import Element

# Operations that move elements: axes get other names, are merged and split, or are put side by side.


def constant(values: np.ndarray, scalar: Scalar) -> Expr:
    """Numbers that a program states: a literal where they are equal, signs of zeros included, else one after the other.

    >>> from tensorir.ir.types import FLOAT32
    >>> [str(constant(np.array(x), FLOAT32).type) for x in ([2.0, 2.0], [0.0, -0.0], [-0.0, -0.0])]
    ['tensor<float32>', 'tensor<float32, x0[0:2]>', 'tensor<float32>']
    """
    flat = values.reshape(-1)
    signs = np.signbit(flat) if scalar.is_float else np.zeros(flat.shape, bool)
    same = (v == flat[0] or (v != v and flat[0] != flat[0]) for v in flat)
    if all(same) and (signs == signs[0]).all():
        return literal(flat[0].item() if scalar != BOOL else bool(flat[0]), scalar)
    return _listed(values, scalar, 0)


def _listed(values: np.ndarray, scalar: Scalar, first: int) -> Expr:
    if values.ndim == 0:
        return literal(values.item(), scalar)
    name = axis(first)
    if values.shape[0] == 1:
        return _listed(values[0], scalar, first + 1)
    parts = [call("add_dim", _listed(v, scalar, first + 1), static=(name, k, k + 1)) for k, v in enumerate(values)]
    whole = {axis(first + 1 + k): Interval(0, n) for k, n in enumerate(values.shape[1:]) if n > 1}
    return call("concat", *(spread(p, whole) for p in parts))


def permuted(permutation: Sequence[int]) -> dict[str, str]:
    """The names that axes get: axis k of the result is axis `permutation[k]`."""
    return {axis(p): axis(k) for k, p in enumerate(permutation)}


def reshaped_names(old: Axes, new: Axes) -> dict[str, str] | None:
    """The names that axes get where a reshape only adds and removes axes of extent 1; None of any other.

    >>> reshaped_names((4, 1, 8), (4, 8)), reshaped_names((4, 8), (32,))
    ({'x0': 'x0', 'x2': 'x1'}, None)
    """
    a, b = [k for k, n in enumerate(old) if n > 1], [k for k, n in enumerate(new) if n > 1]
    if [old[k] for k in a] != [new[k] for k in b]:
        return None
    return {axis(p): axis(q) for p, q in zip(a, b, strict=True)}


def reshaped(x: Expr, old: Axes, new: Axes) -> Expr:
    """The elements in row-major order on other axes: groups of axes with equal products are merged, and split."""
    x = spread(x, {axis(k): Interval(0, n) for k, n in enumerate(old) if n > 1})
    before, after = [(k, n) for k, n in enumerate(old) if n > 1], [(k, n) for k, n in enumerate(new) if n > 1]
    x = renamed(x, {axis(k): f"from{k}" for k, _ in before})
    while before or after:
        left, right = [before.pop(0)], [after.pop(0)]
        while (a := prod(n for _, n in left)) != (b := prod(n for _, n in right)):
            if a < b:
                left.append(before.pop(0))
            else:
                right.append(after.pop(0))
        one = f"from{left[0][0]}"
        for k, _ in left[1:]:
            x = call("merge_dims", x, static=(one, f"from{k}", f"{one}_{k}"))
            one = f"{one}_{k}"
        for position, (k, _) in enumerate(right[:-1]):
            inner = prod(n for _, n in right[position + 1 :])
            x = call("split_dim", x, static=(one, axis(k), f"to{k}", inner))
            one = f"to{k}"
        x = renamed(x, {one: axis(right[-1][0])})
    return x


def joined(a: Expr, b: Expr, left: Axes, right: Axes, k: int) -> Expr:
    """Two tiles side by side."""
    first, second = left[k], right[k]
    parts: list[Expr] = []
    for x, axes, start in ((a, left, 0), (b, right, first)):
        x = spread(x, {axis(n): Interval(0, e) for n, e in enumerate(axes) if e > 1 or n == k})
        parts.append(shifted(x, axis(k), -start))
    assert first and second
    return call("concat", *parts)


def at_index(x: Expr, name: str, k: int) -> Expr:
    """The points of a tensor at one place of a dim, which goes away."""
    if name not in x.tensor.dims:
        return x
    return call("gather", x, literal(k), static=((name,), "clamp"))


def extract(source: Number, indices: Sequence[Number], axes: Axes) -> Expr:
    """The slice of the result's extents at an index that counts such slices; zeros where there is none."""
    x = source.expr
    inside: Expr | None = None
    for k, (index, extent) in enumerate(zip(indices, axes, strict=True)):
        name, whole = axis(k), source.axes[k]
        count = whole // extent
        if index.known is not None and not 0 <= index.known < count:
            return literal(False if source.scalar == BOOL else 0, source.scalar)
        if name not in x.tensor.dims or count == 1:
            if index.known is None:
                at = unsigned(index.expr, index.element)
                here = call("less", at, literal(count, at.tensor.leaves[0]))
                inside = here if inside is None else call("and", inside, here)
            continue
        if extent > 1:
            x = call("split_dim", x, static=(name, f"at{k}", "rest", extent))
            x = renamed(x, {"rest": name})
        else:
            x = renamed(x, {name: f"at{k}"})
        if index.known is not None:
            x = at_index(x, f"at{k}", index.known)
        else:
            x = call("gather", x, index.expr, static=((f"at{k}",), "zero"))
    if inside is None:
        return x
    return call("if", inside, x, literal(False if source.scalar == BOOL else 0, source.scalar))


def packed(x: Expr, source: Number, element_bits: int) -> Expr:
    """Elements in a row as bytes, the first in the low bits."""
    (count,) = source.axes
    x = spread(x, {axis(0): Interval(0, count)}) if count > 1 else x
    uint8 = _uint(8)
    if element_bits < 8:
        per = 8 // element_bits
        if count < per:
            raise refuse("TL40", "fewer elements than a byte has make no byte.")
        low = call("bit_and", unsigned(x, source.element), literal((1 << element_bits) - 1, uint8))
        parts = call("split_dim", spread(low, {axis(0): Interval(0, count)}), static=(axis(0), "byte", "bit", per))
        total: Expr | None = None
        for k in range(per):
            piece = call("shift_left", at_index(parts, "bit", k), literal(k * element_bits, uint8))
            total = piece if total is None else call("bit_or", total, piece)
        assert total is not None
        return same_bits(renamed(total, {"byte": axis(0)}), SCALARS["int8"])
    per = element_bits // 8
    wide = same_bits(x, _uint(element_bits))
    bytes_ = [
        call("cast", call("shift_right", wide, literal(8 * k, _uint(element_bits))), static=(uint8,))
        for k in range(per)
    ]
    parts = [call("add_dim", b, static=("byte", k, k + 1)) for k, b in enumerate(bytes_)]
    row = call("concat", *parts)
    return same_bits(_merged(row, count, per), SCALARS["int8"])


def _merged(row: Expr, count: int, per: int) -> Expr:
    if count == 1:
        return renamed(row, {"byte": axis(0)})
    return renamed(call("merge_dims", row, static=(axis(0), "byte", "both")), {"both": axis(0)})


def unpacked(x: Expr, source: Number, result: Number) -> Expr:
    """Bytes as elements in a row, the low bits first."""
    (count,), bits = source.axes, result.element.bits if result.element.name != "tf32" else 32
    x = unsigned(spread(x, {axis(0): Interval(0, count)}), source.element) if count > 1 else unsigned(x, source.element)
    uint8 = _uint(8)
    if bits < 8:
        per = 8 // bits
        parts = [
            call("bit_and", call("shift_right", x, literal(k * bits, uint8)), literal((1 << bits) - 1, uint8))
            for k in range(per)
        ]
        row = call("concat", *(call("add_dim", p, static=("byte", k, k + 1)) for k, p in enumerate(parts)))
        return signless(_merged(row, count, per), result.element)
    per, wide = bits // 8, _uint(bits)
    if count == per:
        parts = [at_index(x, axis(0), k) for k in range(per)]
    else:
        split = call("split_dim", x, static=(axis(0), "element", "byte", per))
        parts = [renamed(at_index(split, "byte", k), {"element": axis(0)}) for k in range(per)]
    total: Expr | None = None
    for k, p in enumerate(parts):
        piece = call("shift_left", call("cast", p, static=(wide,)), literal(8 * k, wide))
        total = piece if total is None else call("bit_or", total, piece)
    assert total is not None
    if result.element.name == "tf32":
        total = call("bit_and", total, literal(0xFFFFE000, wide))
    return same_bits(total, result.scalar)


def _uint(bits: int) -> Scalar:
    return SCALARS[f"uint{bits}"]


# reduce and scan: a body that is one operation becomes the fold of a builtin, any other one a function of states.


@dataclass(frozen=True, slots=True)
class Single:
    """A body that is one operation on accumulator and element."""

    builtin: str
    unsigned: bool = False
    drops_nan: bool = False


_PLAIN = {"addi": "plus", "muli": "multiplies", "addf": "plus", "mulf": "multiplies"}
_LOGIC = {"andi": ("bit_and", "and"), "ori": ("bit_or", "or"), "xori": ("bit_xor", "xor")}
_EXTREME = {"maxi": "max", "mini": "min", "maxf": "max", "minf": "min"}


def single(body: Region, element: Element) -> Single | None:
    """The operation that a body is, None where it is more than one."""
    if len(body.operations) != 2:
        return None
    op, end = body.operations
    if tuple(end.values) != op.results or set(op.values) != set(body.arguments) or len(op.values) != 2:
        return None
    named = op.row.attribute_index
    if "rounding_mode" in named and op.attribute("rounding_mode") != "nearest_even":
        return None
    if "flush_to_zero" in named and op.attribute("flush_to_zero"):
        return None
    if op.name in _LOGIC:
        return Single(_LOGIC[op.name][element.bits == 1])
    if element.bits in (1, 4):
        return None
    if op.name in _PLAIN:
        return Single(_PLAIN[op.name])
    if op.name in ("maxi", "mini"):
        return Single(_EXTREME[op.name], op.attribute("signedness") == "unsigned")
    if op.name in ("maxf", "minf"):
        return Single(_EXTREME[op.name], drops_nan=not op.attribute("propagate_nan"))
    return None


def identity_of(item: Any, scalar: Scalar) -> Expr:
    """The identity of a fold."""
    if isinstance(item, bool):
        return literal(item, BOOL)
    assert isinstance(item, Stated)
    if scalar == BOOL:
        return literal(bool(item.bits & 1), BOOL)
    if item.element.name == "i4":
        return literal(item.value, scalar)
    raw = np.frombuffer(item.bits.to_bytes(item.element.bytes, "little"), item.element.numpy)[0]
    return literal(raw.item() if scalar.is_integer else float(raw), scalar)


def fold(translate: Translate) -> Translate:
    """reduce and scan, with the translation of the operations of a body."""

    def make(t: Context, op: Operation) -> None:
        operands = t.numbers(op.operand("operands"))
        dim, body = op.attribute("dim"), op.regions[0]
        inits = [identity_of(i, o.scalar) for i, o in zip(op.attribute("identities").items, operands, strict=True)]
        axes = operands[0].axes
        only = single(body, operands[0].element) if len(operands) == 1 else None
        if axes[dim] == 1:
            found = _once(t, translate, body, operands, inits)
        elif only is not None:
            found = [_with_builtin(op, only, operands[0], inits[0], axis(dim))]
        else:
            found = _with_function(t, translate, op, operands, inits, axis(dim))
        results: list[Number] = []
        for e, o in zip(found, operands, strict=True):
            if op.name == "reduce":
                names = {axis(k): axis(k - 1) for k in range(dim + 1, len(axes))}
                e, axes_ = renamed(e, names), (*axes[:dim], *axes[dim + 1 :])
            else:
                axes_ = axes
            results.append(t.made(e, axes_, o.element, op.span))
        t.define(op, *results)

    return make


def _with_builtin(op: Operation, only: Single, x: Number, init: Expr, dim: str) -> Expr:
    values = spread(x.expr, {dim: x.dims[dim]})
    if only.unsigned:
        values, init = unsigned(values, x.element), unsigned(init, x.element)
    if only.drops_nan:
        # a number and NaN give the number, so that NaN counts as what the fold begins with
        values = call("if", call("isnan", values), init, values)
    scalar, whole = values.tensor.element, values.tensor
    state = TensorType(scalar, whole.dims.without(dim))
    if op.name == "reduce":
        found = reduce(operator(only.builtin, state, state), init, values, dim=dim, span=op.span)
    else:
        forward = not op.attribute("reverse")
        found = scan(operator(only.builtin, state, state), forward, init, values, dim=dim, span=op.span)
    return same_bits(found, x.scalar)


def _body(
    t: Context, translate: Translate, body: Region, left: Sequence[Number], right: Sequence[Number]
) -> list[Expr]:
    """The results of a body for accumulators and elements, as expressions of their own."""
    for k, (a, b) in enumerate(zip(left, right, strict=True)):
        t.values[body.arguments[2 * k]], t.values[body.arguments[2 * k + 1]] = a, b
    before, t.inline = t.inline, True
    try:
        for inner in body.operations[:-1]:
            translate(t, inner)
        return [t.number(v).expr for v in body.operations[-1].values]
    finally:
        t.inline = before


def _once(
    t: Context, translate: Translate, body: Region, operands: Sequence[Number], inits: Sequence[Expr]
) -> list[Expr]:
    """A fold of one element."""
    first = [_scalar_number(i, o) for i, o in zip(inits, operands, strict=True)]
    return _body(t, translate, body, first, [_scalar_number(o.expr, o) for o in operands])


def _scalar_number(e: Expr, like: Number) -> Number:
    return boolean(e, (), like.element) if like.scalar == BOOL else Number((), like.element, like.scalar, e)


def _with_function(
    t: Context, translate: Translate, op: Operation, operands: Sequence[Number], inits: Sequence[Expr], dim: str
) -> list[Expr]:
    whole = operands[0].dims
    rest = Dims(tuple((n, i) for n, i in whole.items() if n != dim))
    scalars = [o.scalar for o in operands]
    several = len(operands) > 1
    state = Var(t.fresh("s"), TensorType(TupleElement(tuple(scalars)) if several else scalars[0], rest))
    elements = [Var(t.fresh("e"), TensorType(s, rest)) for s in scalars]
    parts: list[Expr] = [call("tuple_get", state, static=(k,)) for k in range(len(operands))] if several else [state]
    made = _body(
        t, translate, op.regions[0],
        [_scalar_number(p, o) for p, o in zip(parts, operands, strict=True)],
        [_scalar_number(e, o) for e, o in zip(elements, operands, strict=True)],
    )  # fmt: skip
    made = [spread(m, dict(rest.items)) for m in made]
    body = function([state, *elements], call("make_tuple", *made) if several else made[0])
    init = call("make_tuple", *inits) if several else inits[0]
    values = [spread(o.expr, whole) for o in operands]
    if op.name == "reduce":
        found = reduce(body, init, *values, dim=dim, span=op.span)
    else:
        found = scan(body, not op.attribute("reverse"), init, *values, dim=dim, span=op.span)
    return [call("tuple_get", found, static=(k,)) for k in range(len(operands))] if several else [found]


# Products of matrices: the accumulator and a sum of products over the axis in which the factors meet.

MEETING = "k"
"""The dim that is summed over."""


def _factors(lhs: Number, rhs: Number) -> tuple[Expr, Expr, bool]:
    """The factors under the names of the result's axes, and whether there is a dim to sum over."""
    rank = len(lhs.axes)
    a = renamed(lhs.expr, {axis(rank - 1): MEETING})
    b = renamed(rhs.expr, {axis(rank - 2): MEETING})
    extent = lhs.axes[-1]
    if extent > 1 and MEETING not in a.tensor.dims and MEETING not in b.tensor.dims:
        a = spread(a, {MEETING: Interval(0, extent)})
    return a, b, extent > 1


def _product(a: Expr, b: Expr, sums: bool, element: Scalar) -> Expr:
    if sums:
        return call("contract", a, b, static=(element, (MEETING,)))
    return call("multiplies", converted(a, element), converted(b, element))


def mmaf(t: Context, op: Operation) -> None:
    lhs, rhs, acc = t.numbers([op.operand(n) for n in ("lhs", "rhs", "acc")])
    a, b, sums = _factors(lhs, rhs)
    element = acc.scalar if acc.scalar.bits == 64 else FLOAT32
    total = call("plus", converted(acc.expr, element), _product(a, b, sums, element))
    t.define(op, t.made(converted(total, acc.scalar), acc.axes, acc.element, op.span))


def mmai(t: Context, op: Operation) -> None:
    lhs, rhs, acc = t.numbers([op.operand(n) for n in ("lhs", "rhs", "acc")])
    a, b, sums = _factors(lhs, rhs)
    signs = [op.attribute(name) for name in ("signedness_lhs", "signedness_rhs")]
    parts = [x if s == "signed" else unsigned(x, n.element) for x, s, n in zip((a, b), signs, (lhs, rhs), strict=True)]
    total = call("plus", acc.expr, _product(parts[0], parts[1], sums, INT32))
    t.define(op, t.made(total, acc.axes, element_of(op.results[0].type), op.span))


def mmaf_scaled(t: Context, op: Operation) -> None:
    raise refuse("TL40", "products with scaled blocks have elements that tensors do not hold.", at=op.span)


PRODUCTS = {"mmaf": mmaf, "mmai": mmai, "mmaf_scaled": mmaf_scaled}
