"""Lowering of reduce, scan, loop and sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Check, Context, conjunction, first_failures, first_of, masks_of, no_failures
from lowering.contractions import Sum
from lowering.indirect import combiner
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
from tensorir.evaluate import Bound
from tensorir.ir import Call, Expr, Lambda, Literal
from tensorir.types import BOOL, Dims, Interval, TensorType

__all__ = ["FOLDS"]

MOST_UNROLLED = 32
"""Longer folds run as XLA reductions or loops: unrolling costs compile time."""


# Levels: the points of one dim, taken apart


@dataclass(frozen=True, slots=True)
class Levels:
    """Values taken apart along a dim: the arrays that have it, its axis in each, and how to put one level together."""

    arrays: list[jax.Array]
    axes: list[int]
    rebuild: Callable[[Sequence[jax.Array]], list[Value]]

    def leading(self) -> list[jax.Array]:
        """The arrays with the dim as their first axis."""
        return [
            lax.transpose(a, [x, *(i for i in range(a.ndim) if i != x)]) if x else a
            for a, x in zip(self.arrays, self.axes, strict=True)
        ]


def _levels(values: Sequence[Value], dim: str, interval: Interval) -> Levels:
    arrays: list[jax.Array] = []
    axes: list[int] = []
    only = Dims(((dim, interval),))

    def take(leaf: Leaf) -> Callable[[Sequence[jax.Array]], Leaf]:
        if isinstance(leaf, Slots):
            inner = [take(x) for x in leaf.leaves]
            return lambda level: replace(leaf, leaves=tuple(x(level) for x in inner))
        mask = None if leaf.present is None else take(leaf.present)
        if dim not in leaf.dims:
            return lambda level: replace(leaf, present=None if mask is None else dense(mask(level)))
        part = dense(cut(Dense(leaf.data, leaf.dims), only))
        number = len(arrays)
        arrays.append(part.data)
        axes.append(part.dims.names.index(dim))
        rest = part.dims.without(dim)
        return lambda level: Dense(level[number], rest, None if mask is None else dense(mask(level)))

    makers = [[take(leaf) for leaf in value] for value in values]
    return Levels(arrays, axes, lambda level: [tuple(make(level) for make in value) for value in makers])


# State that is carried: dense on the declared dims, with a mask where it may be absent


def _settled(value: Value, place: TensorType, masked: Sequence[bool]) -> Value:
    """The value as carried state: every leaf dense on the dims of its place, masked where asked."""
    settled: list[Leaf] = []
    for leaf, mask in zip(value, masked, strict=True):
        d = dense(leaf)
        present = Dense(aligned(d.present or everywhere(), place.dims), place.dims) if mask else None
        settled.append(Dense(aligned(d, place.dims), place.dims, present))
    return tuple(settled)


def _masked(value: Value) -> list[bool]:
    return [presence(leaf) is not None for leaf in value]


def _survey(
    context: Context, start: list[list[bool]], step: Callable[[Context, list[list[bool]]], list[list[bool]]]
) -> tuple[list[list[bool]], list[Check]]:
    """Which leaves of carried tensors may be absent, by abstract steps until nothing is added; the checks of a step."""
    masked = start
    while True:
        inner = context.inner()
        found: list[list[bool]] = []

        def trace(inner: Context = inner, masked: list[list[bool]] = masked, found: Any = found) -> None:
            found.extend(step(inner, masked))

        jax.eval_shape(trace)
        joined = [[a or b for a, b in zip(m, f, strict=True)] for m, f in zip(masked, found, strict=True)]
        if joined == masked:
            return masked, inner.checks
        masked = joined


# reduce


def reduce(context: Context, node: Call, args: Sequence[Any]) -> Value:
    f, init, *values = args
    (dim,) = node.static
    state, need = f.function.type.params[0], node.type.dims
    types = [a.type.dims for a in node.args[2:]]
    interval = next(t[dim] for t in types if dim in t)
    having = [dim in t for t in types]
    total = None if context.exact or len(values) != 1 else _summed(context, f.function, init, values[0], dim)
    from_zero = _is_zero(node.args[1])
    if total is not None and (contracted := context.products.contracted(total)) is not None:
        if not from_zero:
            return (elementwise(lax.add, [init[0], contracted], need),)
        context.products.remember(contracted, total)
        return (cut(contracted, need),)
    outside = [m for v, has in zip(values, having, strict=True) if not has for m in masks_of(v)]
    if len(interval) <= MOST_UNROLLED:
        result = init
        for point in interval:
            at = [tuple(select_slot(leaf, dim, point) for leaf in v) for v in values]
            result = _step(context, f, result, at, having, state)
    else:
        fold = _monoid(f.function, len(values)) if not context.exact and len(init) == 1 else None
        plain = _along_axis(fold, init, values, dim, interval, state)
        if plain is not None:
            if total is not None and from_zero:
                context.products.remember(plain[0], total)
            return tuple(cut(leaf, need) for leaf in plain)
        levels = _levels(values, dim, interval)
        result = (
            _looped(context, f, init, levels, having, state, len(interval))
            if fold is None
            else _at_once(context, f, init, levels, having, fold, state, len(interval))
        )
    if total is not None and from_zero:
        context.products.remember(result[0], total)
    for mask in outside:
        result = tuple(with_present(leaf, _within_state(mask, state.dims), need) for leaf in result)
    return tuple(cut(leaf, need) for leaf in result)


def _summed(context: Context, function: Any, init: Value, value: Value, dim: str) -> Sum | None:
    """The sum of products that a fold from zero is, where it is one."""
    if combiner(function) != "plus" or len(init) != 1 or len(value) != 1 or presence(init[0]) is not None:
        return None
    return context.products.summed(value[0], dim)


def _is_zero(e: Expr) -> bool:
    """Whether an expression is zero everywhere, as a fold starts from."""
    while isinstance(e, Call) and e.op == "add_dim":
        e = e.args[0]
    return isinstance(e, Literal) and e.value == 0


def _step(
    context: Context,
    f: Bound[Value],
    accumulator: Value,
    at: Sequence[Value],
    having: Sequence[bool],
    state: TensorType,
) -> Value:
    """One step of the fold, skipped where an argument that has the dim is absent."""
    keep = _keep(at, having)
    if keep is None:
        return context.apply(f, accumulator, *at)
    keep = _within_state(keep, state.dims)
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
    mask = _along(keep, place, lax.bitwise_or)
    return with_present(_unmasked(leaf), mask, _all_dims([leaf, mask]))


def _within_state(mask: Leaf, state: Dims) -> Leaf:
    """A mask along the dims of the state: along others, all must be present."""
    return _along(mask, state, lax.bitwise_and)


def _along(mask: Leaf, place: Dims, combine: Callable[..., jax.Array]) -> Leaf:
    """A mask along the dims of a place, folded along others."""
    apart = [n for n in mask.dims.names if n not in place]
    if not apart:
        return mask
    whole = dense(mask)
    neutral = combine is lax.bitwise_and
    data = lax.reduce(whole.data, neutral, combine, tuple(whole.dims.names.index(n) for n in apart))
    return Dense(data, whole.dims.without(*apart))


def _keep(at: Sequence[Value], having: Sequence[bool]) -> Leaf | None:
    """Where a slot counts: every leaf of every argument that has the dim is present."""
    masks = [m for a, has in zip(at, having, strict=True) if has for m in masks_of(a)]
    return conjunction(masks, _all_dims(masks))


def _all_dims(leaves: Sequence[Leaf]) -> Dims:
    merged: dict[str, Interval] = {}
    for leaf in leaves:
        for n, i in leaf.dims.items:
            merged[n] = merged.get(n, i) & i
    return Dims(tuple(merged.items()))


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


MONOIDS: dict[str, tuple[Callable[..., jax.Array], Callable[[np.dtype[Any]], Any]]] = {
    "plus": (lax.add, lambda t: t.type(0)),
    "multiplies": (lax.mul, lambda t: t.type(1)),
    "min": (lax.min, lambda t: np.array(np.inf, t) if t.kind in "fV" else np.iinfo(t).max),
    "max": (lax.max, lambda t: np.array(-np.inf, t) if t.kind in "fV" else np.iinfo(t).min),
    "and": (lax.bitwise_and, lambda t: True),
    "or": (lax.bitwise_or, lambda t: False),
    "bit_and": (lax.bitwise_and, lambda t: np.array(-1).astype(t)),
    "bit_or": (lax.bitwise_or, lambda t: t.type(0)),
    "bit_xor": (lax.bitwise_xor, lambda t: t.type(0)),
}
"""Builtins that may be folded in any order, and their neutral elements."""


def _monoid(function: Any, count: int) -> tuple[str, Expr | None] | None:
    """The operation and the mapped expression of a fold λ(a, x...) → a ⊕ e(x...), None for any other."""
    match function:
        case Lambda((a, *_), Call(op, (x, e))) if op in MONOIDS and x == a and a not in e.free:
            return op, e
        case Lambda((a, *_), Call(op, (e, x))) if op in MONOIDS and x == a and a not in e.free:
            return op, e
        case _:
            op = combiner(function) if count == 1 else None
            return (op, None) if op in MONOIDS else None


def _along_axis(
    fold: tuple[str, Expr | None] | None, init: Value, values: Sequence[Value], dim: str, interval: Interval,
    state: TensorType,
) -> Value | None:  # fmt: skip
    """A fold of one array by one operation, as a reduction of the axis where it stands: moving it costs a copy."""
    if fold is None or fold[1] is not None or len(values) != 1 or presence(init[0]) is not None:
        return None
    (leaf,) = values[0]
    if not isinstance(leaf, Dense) or leaf.present is not None or dim not in leaf.dims:
        return None
    combine, neutral = MONOIDS[fold[0]]
    part = dense(cut(leaf, Dims(((dim, interval), *((n, state.dims[n]) for n in leaf.dims.names if n != dim)))))
    start = np.array(neutral(part.data.dtype), part.data.dtype)
    folded = lax.reduce(part.data, start, combine, (part.dims.names.index(dim),))
    return (elementwise(combine, [init[0], Dense(folded, part.dims.without(dim))], state.dims),)


def _at_once(
    context: Context, f: Bound[Value], init: Value, levels: Levels, having: Sequence[bool],
    fold: tuple[str, Expr | None], state: TensorType, count: int,
) -> Value:  # fmt: skip
    """A fold whose order is free, as one XLA reduction of what is folded."""
    op, mapped = fold
    combine, neutral = MONOIDS[op]
    inner = context.inner()

    def one(arrays: list[jax.Array]) -> tuple[Dense, list[jax.Array]]:
        values = levels.rebuild(arrays)
        keep = _keep(values, having)
        if mapped is None:
            (item,) = values[0]
        else:
            function = Lambda(f.function.params[1:], mapped)
            (item,) = inner.apply(Bound(function, f.env), *values)
        item = dense(item)
        data, dims = item.data, item.dims
        if keep is not None:
            dims = Dims(tuple((n, state.dims[n]) for n in dict.fromkeys([*item.dims.names, *dense(keep).dims.names])))
            data = aligned(Dense(item.data, item.dims), dims)
            data = lax.select(aligned(dense(keep), dims), data, lax.full_like(data, neutral(data.dtype)))
        elif item.present is not None:
            raise AssertionError("an item is absent only where its slot is")
        return Dense(data, dims), inner.failures

    items, failures = jax.vmap(one, in_axes=(levels.axes,), axis_size=count)(levels.arrays)
    for check, failed in zip(inner.checks, failures, strict=True):
        context.checks.append(check)
        context.failures.append(first_of(failed))
    folded = lax.reduce(items.data, np.array(neutral(items.data.dtype), items.data.dtype), combine, (0,))
    return (elementwise(combine, [init[0], Dense(folded, items.dims)], state.dims),)


def _looped(
    context: Context, f: Bound[Value], init: Value, levels: Levels, having: Sequence[bool], state: TensorType,
    count: int,
) -> Value:  # fmt: skip
    arrays = levels.leading()
    first = [lax.index_in_dim(a, 0, keepdims=False) for a in arrays]

    def step(inner: Context, carried: Value, level: Sequence[jax.Array]) -> Value:
        return _step(inner, f, carried, levels.rebuild(level), having, state)

    def survey(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        return [_masked(step(inner, _settled(init, state, masked[0]), first))]

    (masked,), checks = _survey(context, [_masked(init)], survey)

    def body(carry: Any, level: Sequence[jax.Array]) -> Any:
        carried, failed = carry
        inner = context.inner()
        new = _settled(step(inner, carried, level), state, masked)
        return (new, first_failures(failed, inner.failures)), None

    start = (_settled(init, state, masked), no_failures(checks))
    (result, failed), _ = lax.scan(body, start, arrays, length=count)
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
    # the scanned dim outermost: innermost is twice as slow (lowering notes, "Scans")
    levels = _levels(values, dim, interval)
    arrays = levels.leading()
    first = [lax.index_in_dim(a, 0, keepdims=False) for a in arrays]

    def survey(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        return [_masked(inner.apply(f, _settled(init, state, masked[0]), *levels.rebuild(first)))]

    (masked,), checks = _survey(context, [_masked(init)], survey)

    def body(carry: Any, level: Sequence[jax.Array]) -> Any:
        carried, failed = carry
        inner = context.inner()
        new = _settled(inner.apply(f, carried, *levels.rebuild(level)), state, masked)
        return (new, first_failures(failed, inner.failures)), new

    start = (_settled(init, state, masked), no_failures(checks))
    (_, failed), states = lax.scan(body, start, arrays, length=len(interval), reverse=not forward)
    context.checks += checks
    context.failures += failed
    return tuple(Dense(s.data, dims, None if s.present is None else Dense(s.present.data, dims)) for s in states)


# loop


def loop(context: Context, node: Call, args: Sequence[Any]) -> Value:
    index, limit = node.static
    count = (len(args) - 1) // 2
    key = (limit or -1, *map(id, args))
    if key in context.loops:
        return context.loops[key][1][index]
    condition, functions, start = args[0], args[1 : 1 + count], args[1 + count :]
    places = [a.type for a in node.args[1 + count :]]

    def number(i: jax.Array) -> Value:
        return (Dense(i, Dims()),)

    def settle(values: Sequence[Value], masked: list[list[bool]]) -> list[Value]:
        return [_settled(v, p, m) for v, p, m in zip(values, places, masked, strict=True)]

    def survey(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        carried = settle(start, masked)
        return [_masked(inner.apply(g, number(lax.full((), 0, "int32")), *carried)) for g in functions]

    masked, checks = _survey(context, [_masked(v) for v in start], survey)

    def body(carry: Any) -> Any:
        i, carried, failed = carry
        inner = context.inner()
        new = settle([inner.apply(g, number(i), *carried) for g in functions], masked)
        return lax.add(i, lax.full_like(i, 1)), new, first_failures(failed, inner.failures)

    def going(carry: Any) -> jax.Array:
        i, carried, _ = carry
        (more,) = context.inner().apply(condition, number(i), *carried)
        more = dense(more).data
        return more if limit is None else lax.bitwise_and(more, lax.lt(i, lax.full_like(i, limit)))

    first = (lax.full((), 0, "int32"), settle(start, masked), no_failures(checks))
    always = isinstance(condition.function, Lambda) and condition.function.body == Literal(True, BOOL)
    if always and limit is not None:
        # a known number of rounds: reverse mode works
        _, result, failed = lax.fori_loop(0, limit, lambda _, carry: body(carry), first)
    else:
        _, result, failed = lax.while_loop(going, body, first)
    context.checks += checks
    context.failures += failed
    context.loops[key] = args, result
    return result[index]


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
