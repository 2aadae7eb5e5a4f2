"""Operations that move elements: axes get other names, are merged and split, or are put side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr
from tensorir.ir.types import BOOL, SCALARS, Interval, Scalar
from tensorir.lifting.emission.tensors import renamed, shifted, spread
from tensorir.runtime.errors import NOWHERE
from tensorir.tile.lift.arithmetic import same_bits, signless, unsigned
from tensorir.tile.lift.values import Axes, Number, axis, refused

__all__ = ["at_index", "constant", "extract", "joined", "packed", "permuted", "reshaped", "reshaped_names", "unpacked"]


def constant(values: np.ndarray, scalar: Scalar) -> Expr:
    """Numbers that a program states: a literal where they are equal, else one after the other."""
    flat = values.reshape(-1)
    if all(v == flat[0] or (v != v and flat[0] != flat[0]) for v in flat):
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
            raise refused("fewer elements than a byte has make no byte.", NOWHERE)
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
