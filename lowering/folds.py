"""Lowering of reduce, scan and sort, step by step; `raising` has the forms that are faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax import lax

from lowering.context import Context, conjunction, first_failures, masks_of, no_failures
from lowering.loops import loop
from lowering.manual_axes import scanned
from lowering.reduction import identity_of
from lowering.scan_carry import (
    Levels,
    all_dims,
    along,
    counted,
    levels_of,
    masked_leaves,
    settled,
    survey,
    within_state,
)
from lowering.values import (
    Dense,
    Leaf,
    Slots,
    Value,
    aligned,
    cut,
    dense,
    elementwise,
    everywhere,
    presence,
    select_slot,
    with_present,
)
from tensorir.ir.nodes import Call, Literal, Operator
from tensorir.ir.rewrite import Bound
from tensorir.ir.types import DTYPES, Dims, Scalar, TensorType

__all__ = ["FOLDS", "unrolls"]

MOST_UNROLLED = 32
"""Longer folds run as XLA reductions or loops: unrolling costs compile time."""


def unrolls(context: Context, node: Call, levels: int) -> bool:
    """Whether the steps of a fold are written out."""
    return levels <= 1 or context.chooses("unrolled_folds", node, levels <= MOST_UNROLLED, levels)


# reduce


def reduce(context: Context, node: Call, args: Sequence[Any]) -> Value:
    f, init, *values = args
    (dim,) = node.static
    state, need = f.function.type.params[0], node.type.dims
    types = [a.tensor.dims for a in node.args[2:]]
    interval = next(t[dim] for t in types if dim in t)
    having = [dim in t for t in types]
    outside = [m for v, has in zip(values, having, strict=True) if not has for m in masks_of(v)]
    if unrolls(context, node, len(interval)):
        result = init
        for point in interval:
            at = [tuple(select_slot(leaf, dim, point) for leaf in v) for v in values]
            if result is init and _adds_nothing(node) and _is_whole(at, state):
                (result,) = at
            else:
                result = _step(context, f, result, at, having, state)
    else:
        result = _looped(context, f, init, levels_of(values, dim, interval), having, state, len(interval))
    for mask in outside:
        result = tuple(with_present(leaf, within_state(mask, state.dims), need) for leaf in result)
    return tuple(cut(leaf, need) for leaf in result)


def _adds_nothing(node: Call) -> bool:
    """Whether a fold by max or min starts from what is no larger, or no smaller, than anything."""
    match node.args:
        case (Operator("max" | "min" as op), Literal(value), _):
            element = node.tensor.element
            if not isinstance(element, Scalar) or not (element.is_float or element.is_integer):
                return False
            return identity_of(op, DTYPES[element]).item() == value
        case _:
            return False


def _is_whole(at: Sequence[Value], state: TensorType) -> bool:
    """Whether what a fold meets first is there at every point of its result."""
    leaves = [leaf for v in at for leaf in v]
    return all(
        isinstance(x, Dense) and x.present is None and set(x.dims.names) == set(state.dims.names) for x in leaves
    )


def _step(
    context: Context,
    f: Bound[Value],
    accumulator: Value,
    at: Sequence[Value],
    having: Sequence[bool],
    state: TensorType,
) -> Value:
    """One step of the fold, skipped where an argument that has the dim is absent."""
    keep = counted(at, having)
    if keep is None:
        return context.apply(f, accumulator, *at)
    keep = within_state(keep, state.dims)
    # arguments keep the slot's mask, which guards gradients all through the body, and is used up at its end
    places = [p.dims for p in f.function.type.params[1:]]
    shielded = [
        tuple(_shielded(leaf, keep, place) for leaf in a) if has else a
        for a, has, place in zip(at, having, places, strict=True)
    ]
    new = context.apply(f, accumulator, *shielded)
    return tuple(_kept(keep, n, old, state.dims) for n, old in zip(new, accumulator, strict=True))


def _shielded(leaf: Leaf, keep: Leaf, place: Dims) -> Leaf:
    """The leaf under the slot's mask; under its own where it has more points, which the body may read.

    Along dims that the argument's type lacks, one point that counts is enough for the value to be needed.
    """
    if any(n in keep.dims and not keep.dims[n].covers(i) for n, i in leaf.dims.items):
        return leaf
    mask = along(keep, place, lax.bitwise_or)
    return with_present(_unmasked(leaf), mask, all_dims([leaf, mask]))


def _kept(keep: Leaf, new: Leaf, old: Leaf, need: Dims) -> Leaf:
    """`new` where the slot counts, `old` elsewhere."""
    chosen = elementwise(lax.select, [keep, _unmasked(new), _unmasked(old)], need)
    before, after = presence(old), presence(new)
    if after is not None and _same(after, keep):
        after = None
    if before is None and after is None:
        return chosen
    mask = elementwise(lax.select, [keep, after or everywhere(), before or everywhere()], need)
    return with_present(chosen, mask, need)


def _same(a: Leaf, b: Leaf) -> bool:
    if isinstance(a, Slots) and isinstance(b, Slots):
        return len(a.leaves) == len(b.leaves) and all(_same(x, y) for x, y in zip(a.leaves, b.leaves, strict=True))
    return isinstance(a, Dense) and isinstance(b, Dense) and a.data is b.data


def _unmasked(leaf: Leaf) -> Leaf:
    if isinstance(leaf, Dense):
        return replace(leaf, present=None)
    return replace(leaf, leaves=tuple(_unmasked(x) for x in leaf.leaves))


def _looped(
    context: Context, f: Bound[Value], init: Value, levels: Levels, having: Sequence[bool], state: TensorType,
    count: int,
) -> Value:  # fmt: skip
    arrays = levels.leading()
    first = [lax.index_in_dim(a, 0, keepdims=False) for a in arrays]

    def step(inner: Context, carried: Value, level: Sequence[jax.Array]) -> Value:
        return _step(inner, f, carried, levels.rebuild(level), having, state)

    def step_masks(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        return [masked_leaves(step(inner, settled(init, state, masked[0]), first))]

    (masked,), checks = survey(context, [masked_leaves(init)], step_masks)

    def body(carry: Any, level: Sequence[jax.Array]) -> Any:
        carried, failed = carry
        inner = context.inner()
        new = settled(step(inner, carried, level), state, masked)
        return (new, first_failures(failed, inner.found(checks))), None

    start = (settled(init, state, masked), no_failures(checks))
    (result, failed), _ = scanned(body, start, arrays, count)
    context.checks += checks
    context.failures += failed
    return result


# scan


def scan(context: Context, node: Call, args: Sequence[Any]) -> Value:
    f, init, *values = args
    forward, dim = node.static
    state = f.function.type.params[0]
    interval = node.type.dims[dim]
    dims = Dims(((dim, interval), *state.dims.items))
    if not len(interval):
        return tuple(Dense(lax.full(dims.shape, 0, dense(leaf).data.dtype), dims) for leaf in init)
    # the scanned dim outermost: innermost is twice as slow (docs/lowering.md, "Scans")
    levels = levels_of(values, dim, interval)
    copied = sum(a.nbytes for a, axis in zip(levels.arrays, levels.axes, strict=True) if axis)
    outermost = context.chooses("scans_outermost", node, True, copied, copied)
    first = [lax.index_in_dim(a, 0, x, keepdims=False) for a, x in zip(levels.arrays, levels.axes, strict=True)]

    def step_masks(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        return [masked_leaves(inner.apply(f, settled(init, state, masked[0]), *levels.rebuild(first)))]

    (masked,), checks = survey(context, [masked_leaves(init)], step_masks)

    def body(carry: Any, level: Any) -> Any:
        carried, failed = carry
        inner = context.inner()
        at = level if outermost else levels.at(level)
        new = settled(inner.apply(f, carried, *levels.rebuild(at)), state, masked)
        return (new, first_failures(failed, inner.found(checks))), new

    start = (settled(init, state, masked), no_failures(checks))
    xs = levels.leading() if outermost else lax.iota("int32", len(interval))
    (_, failed), states = scanned(body, start, xs, len(interval), not forward)
    context.checks += checks
    context.failures += failed
    return tuple(Dense(s.data, dims, None if s.present is None else Dense(s.present.data, dims)) for s in states)


# sort


def sort(context: Context, node: Call, values: Sequence[Value]) -> Value:
    dim, keys, descending = node.static
    dims = node.type.dims
    order = Dims((*dims.without(dim).items, (dim, dims[dim])))
    arrays = [aligned(dense(v[0]), order) for v in values]
    if descending:
        leading = [_reversed(a) for a in arrays[:keys]]
        ordered = lax.sort([*leading, *arrays], dimension=len(order) - 1, is_stable=True, num_keys=keys)[keys:]
    else:
        ordered = lax.sort(arrays, dimension=len(order) - 1, is_stable=True, num_keys=keys)
    mask = conjunction([m for v in values for m in masks_of(v)], order)
    present = None
    if mask is not None:
        # which elements were absent is lost in the order: the whole row is
        whole = aligned(dense(mask), order)
        row = lax.reduce(whole, True, lax.bitwise_and, (len(order) - 1,))
        present = Dense(row, order.without(dim))
    return tuple(Dense(a, order, present) for a in ordered)


def _reversed(key: jax.Array) -> jax.Array:
    """A key whose ascending order is the descending order of the given one; NaN stays last."""
    return lax.neg(key) if key.dtype.kind in "fV" else lax.bitwise_not(key)


FOLDS: dict[str, Callable[[Context, Call, Sequence[Any]], Value]] = {
    "reduce": reduce,
    "scan": scan,
    "loop": loop,
    "sort": sort,
}
