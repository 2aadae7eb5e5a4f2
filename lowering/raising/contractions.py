"""`contract` as one `dot_general`, with guards as zeros, and windows times weights as convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import prod
from typing import Any

import jax
from jax import lax

from lowering.context import Context
from lowering.gradients.safe_slopes import bilinear
from lowering.rules.elementwise import SCALAR, convert
from lowering.rules.indirect import combiner
from lowering.values import (
    ArrayProvenance,
    Dense,
    Leaf,
    Slots,
    Sum,
    Value,
    Window,
    aligned,
    cut,
    dense,
    elementwise,
    presence,
    select_slot,
)
from tensorir.analysis.uses import literal_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call
from tensorir.ir.types import bcast

# `contract` as one `dot_general`, 1.6 to 120 times as fast as the sum over all products.
#
# Figures in `docs/lowering.md`, "Contractions and other recognised forms". The factors are those of the operands
# where these are products (`lowering.values`); what is not used of the plain form is dropped before anything is
# compiled. Sums of products become `contract` in `tensorir.passes.reductions`.

SHORTEST = 16
"""Sums of fewer products are worth a contraction only if both factors have dims of their own."""

PRECISION = lax.Precision.HIGHEST


def contraction(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    return product_of_two(context, node, args, partial(dot, known=context.provenance, careful=_careful(context, node)))


def _careful(context: Context, node: Call) -> bool:
    """Some of the result may not be needed: in derivatives 0 times what is not finite there is 0."""
    return id(node) not in context.known.finite


def product_of_two(
    context: Context, node: Call, args: Sequence[Any], make: Callable[[Leaf, Leaf, Sum], Dense | None]
) -> Value | None:
    """The value of a sum as `make(a, b, total)` of the two factors that have the dims summed over, times the rest."""
    total = contracted(context, node, args)
    if any(presence(f) is not None for f in total.factors):
        return None
    apart = [f for f in total.factors if any(d in f.dims for d in total.over)]
    rest = [f for f in total.factors if not any(d in f.dims for d in total.over)]
    if len(apart) != 2 or any(isinstance(f, Slots) for f in rest):
        return None
    if any(all(d not in f.dims for f in apart) for d in total.over):
        return None
    result = make(apart[0], apart[1], total)
    if result is None:
        return None
    multiply = SCALAR["multiplies"] if _careful(context, node) else lax.mul
    for f in rest:
        assert isinstance(f, Dense)
        names = Dims(tuple((n, total.dims[n]) for n in dict.fromkeys((*result.dims.names, *f.dims.names))))
        result = Dense(multiply(aligned(result, names), aligned(f, names)), names)
    return (cut(result, node.tensor.dims),)


def contracted(context: Context, node: Call, args: Sequence[Any]) -> Sum:
    """The sum of products that a `contract` is, with the factors of its operands where they are products."""
    element = node.static.element
    factors: list[Leaf] = []
    for (leaf,), arg in zip(args, node.args, strict=True):
        if arg.tensor.element != element:
            wide = elementwise(convert(element), [leaf], arg.tensor.dims)
            context.provenance.convert(wide, leaf)
            leaf = wide
        factors.append(leaf)
    dims = bcast([a.tensor for a in node.args])
    return Sum(tuple(f for leaf in factors for f in context.provenance.factors(leaf)), dims, node.static.dims)


NARROW = {("int8", "int32"), ("bfloat16", "float32")}
"""Types whose products XLA adds up in a wider type 1.8 to 11 times as fast as those of converted factors."""


def dot(x: Leaf, y: Leaf, total: Sum, known: ArrayProvenance, careful: bool) -> Dense | None:
    """Two factors contracted over the dims that are summed over, None where that is not better than the plain form."""
    over = [d for d in total.over if d in x.dims and d in y.dims]
    if set(over) != set(total.over):
        return None
    batch = [d for d in x.dims if d in y.dims and d not in over]
    free = [[d for d in z.dims if d not in over and d not in batch] for z in (x, y)]
    many = all(prod(len(total.dims[d]) for d in f) > 1 for f in free)
    if not many and prod(len(total.dims[d]) for d in over) < SHORTEST:
        return None
    if isinstance(x, Slots):
        # a window is stacked along its first axes, and taken as the right factor
        x, y = y, x
    if isinstance(x, Slots) or (isinstance(y, Slots) and (batch or not many or not _slots_of(y) <= set(over))):
        return None
    kind = _data_type(x)
    if kind != _data_type(y) or kind.kind not in "fiuV":
        return None
    narrow_x, narrow_y = known.before(x), known.before(y)
    if narrow_x is not None and narrow_y is not None:
        before = _data_type(narrow_x)
        if before == _data_type(narrow_y) and (before.name, kind.name) in NARROW:
            x, y = narrow_x, narrow_y
    a, b = _stacked(x, total, over, batch), _stacked(y, total, over, batch)
    of_over, of_batch = (tuple(tuple(z.dims.names.index(d) for d in names) for z in (a, b)) for names in (over, batch))
    product = _dot_general((of_over, of_batch), kind)
    data = (bilinear(product) if careful and kind.kind in "fV" else product)(a.data, b.data)
    left = [d for z in (a, b) for d in z.dims if d not in over and d not in batch]
    return Dense(data, Dims(tuple((d, total.dims[d]) for d in (*batch, *left))))


@cache
def _dot_general(numbers: Any, kind: Any) -> Callable[..., jax.Array]:
    return partial(lax.dot_general, dimension_numbers=numbers, precision=PRECISION, preferred_element_type=kind)


def _slots_of(x: Leaf) -> set[str]:
    """The dims whose points are kept apart."""
    return {x.dim} | _slots_of(x.leaves[0]) if isinstance(x, Slots) else set()


def _data_type(x: Leaf) -> Any:
    return _data_type(x.leaves[0]) if isinstance(x, Slots) else x.data.dtype


def _stacked(x: Leaf, total: Sum, over: Sequence[str], batch: Sequence[str]) -> Dense:
    """A factor on the points that the sum has; slots along axes in front of the others."""
    if isinstance(x, Dense):
        return needed(x, total, x.dims.names)
    inside = cut(x, Dims(((x.dim, total.dims[x.dim]),)))
    assert isinstance(inside, Slots)
    parts = [_stacked(leaf, total, over, batch) for leaf in inside.leaves]
    first = parts[0].dims.names
    rest = [n for n in first if n not in over and n not in batch]
    order = Dims(tuple((n, total.dims[n]) for n in (*(n for n in first if n not in rest), *rest)))
    data = lax.concatenate([lax.expand_dims(aligned(p, order), (0,)) for p in parts], 0)
    return Dense(data, Dims(((x.dim, total.dims[x.dim]), *order.items)))


def needed(x: Dense, total: Sum, names: Sequence[str]) -> Dense:
    """A factor on the points of some dims that the sum has."""
    part = cut(x, Dims(tuple((n, total.dims[n]) for n in names)))
    assert isinstance(part, Dense)
    return part


# Sums of products of which a guard leaves some out, as contractions of factors that are zero there.
#
# `reduce(+, 0, k)(if c then a × b else 0)` over all points first takes 20 to 70 times as long. Where the guard has
# dims of one factor alone, the other one is multiplied by zero: that is the same unless it is infinite or no number
# somewhere, which is looked up when the program runs.


def guarded(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    total = guarded_sum(context, node, args)
    if total is None or total.guard is None or len(total.factors) != 2:
        return None
    match total.factors:
        case Dense(present=None) as a, Dense(present=None) as b:
            pass
        case _:
            return None
    if not set(total.guard.dims) & set(total.over):
        result = _outside(context, a, b, total, total.guard)
    else:
        if not set(total.guard.dims) <= set(a.dims):
            a, b = b, a
        if not set(total.guard.dims) <= set(a.dims):
            return None
        a, b = needed(a, total, a.dims.names), needed(b, total, b.dims.names)
        result = _inside(context, a, b, total, total.guard, _careful(context, node))
    if result is None:
        return None
    context.absorbed(total.inside)
    if literal_of(node.args[1]) != 0:
        return (elementwise(lax.add, [args[1][0], result], node.tensor.dims),)
    return (cut(result, node.tensor.dims),)


def guarded_sum(context: Context, node: Call, args: Sequence[Any]) -> Sum | None:
    """The sum of guarded products that a fold is, where it is one."""
    f, init, *values = args
    if len(init) != 1 or presence(init[0]) is not None or len(values) != 1 or len(values[0]) != 1:
        return None
    if combiner(f.function) != "plus":
        return None
    total = context.provenance.summed(values[0][0], node.static.dim)
    return total if total is not None and total.guard is not None else None


def _outside(context: Context, a: Dense, b: Dense, total: Sum, guard: Dense) -> Dense | None:
    """The sum where a guard without the dims summed over holds."""
    contraction = dot(a, b, total, context.provenance, careful=True)
    if contraction is None:
        return None
    dims = Dims(tuple((n, total.dims[n]) for n in dict.fromkeys((*contraction.dims.names, *guard.dims.names))))
    data = aligned(contraction, dims)
    return Dense(lax.select(aligned(guard, dims), data, lax.full_like(data, 0)), dims)


def _inside(context: Context, a: Dense, b: Dense, total: Sum, guard: Dense, careful: bool) -> Dense | None:
    """The sum of the products of a factor that is zero where the guard is false."""
    zeroed = _zeroed(a, guard)
    if set(guard.dims) <= set(b.dims):
        return dot(zeroed, _zeroed(b, guard), total, context.provenance, careful)
    contraction = dot(zeroed, b, total, context.provenance, careful)
    if contraction is None or b.data.dtype.kind in "iu":
        return contraction
    dims, b_dims = contraction.dims, b.dims

    def plain(_: jax.Array, a: jax.Array, b: jax.Array, guard_: jax.Array) -> jax.Array:
        whole = Dims(tuple((n, total.dims[n]) for n in (*dims.names, *total.over)))
        product = SCALAR["multiplies"](aligned(Dense(a, zeroed.dims), whole), aligned(Dense(b, b_dims), whole))
        kept = lax.select(aligned(Dense(guard_, guard.dims), whole), product, lax.full_like(product, 0))
        return lax.reduce(kept, kept.dtype.type(0), lax.add, tuple(range(len(dims), len(whole))))

    finite = lax.reduce(lax.is_finite(b.data), True, lax.bitwise_and, tuple(range(b.data.ndim)))
    return Dense(lax.cond(finite, lambda x, *_: x, plain, contraction.data, a.data, b.data, guard.data), dims)


def _zeroed(x: Dense, guard: Dense) -> Dense:
    return Dense(lax.select(aligned(guard, x.dims), x.data, lax.full_like(x.data, 0)), x.dims)


# Windows times weights, summed over the window and over channels, as convolutions.
#
# The window is a gather at `stride × outer + dilation × inner + constant` (`windows`), whose slots are dropped before
# anything is compiled. Zeros around what it reads become the padding of the convolution: an array of their own costs
# a quarter of the time. Groups are convolutions side by side: XLA's grouped one takes 2 to 8 times as long. Below
# `FEWEST_CHANNELS` a stacked window that is contracted (`contractions`), or in groups a sum of shifted slices, takes
# a third to all of the time of a convolution, and for integers a fifth; depthwise, a twentieth.


def convolution(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    def convolved(x: Leaf, w: Leaf, total: Sum) -> Dense | None:
        known = context.provenance.window(x)
        if known is None or not isinstance(w, Dense):
            return None
        return _in_groups(*known, w, total, context.provenance, _careful(context, node))

    return product_of_two(context, node, args, lambda a, b, total: convolved(a, b, total) or convolved(b, a, total))


FEWEST_CHANNELS = 16
"""Windows of fewer channels are faster as what they are."""
MOST_GROUPS = 32
"""More convolutions side by side than these would cost compile time."""


def _in_groups(
    source: Dense, windows: tuple[Window, ...], w: Dense, total: Sum, known: ArrayProvenance, careful: bool
) -> Dense | None:
    """Convolutions side by side, for the dims that the window, the weights and the sum have."""
    moving = {v.source for v in windows}
    groups = [d for d in source.dims if d not in moving and d in w.dims and d not in total.over]
    if not groups:
        return _convolution(source, windows, w, total, known, careful)
    name = groups[0]
    if len(total.dims[name]) > MOST_GROUPS:
        return None
    part, steps = known.unpadded(source) or (None, {})
    parts: list[Dense] = []
    for point in total.dims[name]:
        one, weights = dense(select_slot(source, name, point)), dense(select_slot(w, name, point))
        if part is not None and not steps and point in part.dims[name]:
            inner = dense(select_slot(part, name, point))
            known.pad(one, inner, inner.dims)
        convolution = _in_groups(one, windows, weights, total, known, careful)
        if convolution is None:
            return None
        parts.append(convolution)
    data = lax.concatenate([lax.expand_dims(p.data, (0,)) for p in parts], 0)
    return Dense(data, Dims(((name, total.dims[name]), *parts[0].dims.items)))


def _convolution(
    source: Dense, windows: tuple[Window, ...], w: Dense, total: Sum, known: ArrayProvenance, careful: bool
) -> Dense | None:
    """A window times weights, summed over the window and over what both have besides."""
    if source.present is not None or source.data.dtype != w.data.dtype or w.data.dtype.kind not in "fV":
        return None
    inner, outer = [v.inner for v in windows], [v.outer for v in windows]
    if not windows or not set(inner) <= set(total.over) or any(v.stride < 1 or v.dilation < 1 for v in windows):
        return None
    if not set(inner) <= set(w.dims) or any(d in w.dims for d in outer) or any(d in total.over for d in outer):
        return None
    moving = {v.source for v in windows}
    plain = [d for d in source.dims if d not in moving]
    channels = [d for d in total.over if d not in inner]
    if any(d not in plain or d not in w.dims for d in channels):
        return None
    if prod(len(total.dims[d]) for d in channels) < FEWEST_CHANNELS:
        return None
    batch = [d for d in plain if d not in w.dims]
    filters = [d for d in w.dims if d not in inner and d not in channels]
    if not filters or prod(len(total.dims[d]) for d in filters) < 2:
        return None
    part, steps = _part(source, total, plain, known) or (needed(source, total, plain), {})
    padding: list[tuple[int, int]] = []
    for v in windows:
        points, taps, inside = total.dims[v.outer], total.dims[v.inner], part.dims[v.source]
        first = v.stride * points.start + v.dilation * taps.start + v.constant
        last = v.stride * (points.stop - 1) + v.dilation * (taps.stop - 1) + v.constant
        if v.source in steps:
            end = inside.start + steps[v.source] * (len(inside) - 1)
            padding.append((inside.start - first, last - end))
            continue
        padding.append((max(0, inside.start - first), max(0, last + 1 - inside.stop)))
        read = Interval(first, last + 1) & inside
        if not read:
            return None
        part = dense(cut(part, Dims(((v.source, read),))))
    source = part
    sizes = [len(source.dims[v.source]) for v in windows]

    def flat(names: Sequence[str]) -> int:
        return prod(len(total.dims[d]) for d in names)

    lhs_dims = Dims(tuple((n, source.dims[n]) for n in (*batch, *channels, *(v.source for v in windows))))
    lhs = lax.reshape(aligned(source, lhs_dims), (flat(batch), flat(channels), *sizes))
    rhs_dims = Dims(tuple((n, total.dims[n]) for n in (*filters, *channels, *inner)))
    rhs = lax.reshape(aligned(w, rhs_dims), (flat(filters), flat(channels), *(len(total.dims[d]) for d in inner)))
    of_windows = ((v.stride, steps.get(v.source, 1), v.dilation) for v in windows)
    product = _conv_general_dilated(tuple(padding), *zip(*of_windows, strict=True))
    data = (bilinear(product) if careful else product)(lhs, rhs)
    dims = Dims(tuple((d, total.dims[d]) for d in (*batch, *filters, *outer)))
    return Dense(lax.reshape(data, dims.shape), dims)


@cache
def _conv_general_dilated(padding: Any, strides: Any, lhs_dilation: Any, rhs_dilation: Any) -> Callable[..., jax.Array]:
    return partial(
        lax.conv_general_dilated, window_strides=strides, padding=padding, lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation, precision=PRECISION,
    )  # fmt: skip


def _part(
    source: Dense, total: Sum, plain: Sequence[str], known: ArrayProvenance
) -> tuple[Dense, dict[str, int]] | None:
    """The part between zeros along the dims that windows read, where the source is whole along the others."""
    part, steps = known.unpadded(source) or (None, {})
    if part is None or any(n in steps or not part.dims[n].covers(total.dims[n]) for n in plain):
        return None
    return needed(part, total, plain), steps
