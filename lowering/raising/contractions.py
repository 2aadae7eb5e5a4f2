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


def contraction(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: a `contract` call of two factors as one `lax.dot_general`; None where `product_of_two` or `dot`
    declines.
    """
    return product_of_two(
        context, node, lowered, partial(dot, provenance=context.provenance, careful=_careful(context, node))
    )


def _careful(context: Context, node: Call) -> bool:
    """True if a node's result may go unused, so that its derivatives take 0 × inf and 0 × NaN for 0 (`bilinear`)."""
    return id(node) not in context.known.finite


def product_of_two(
    context: Context, node: Call, lowered: Sequence[Any], make: Callable[[Leaf, Leaf, Sum], Dense | None]
) -> Value | None:
    """Value of a `contract` call: two factors, summed over their common dims, times the factors without these dims.

    `make(a, b, total)` builds the sum of the two factors that have dims of `total.over`; the others are multiplied on
    afterwards. None if a factor is masked, if not exactly two factors have such dims, if a remaining factor is a
    `Slots`, or if `make` returns None.
    """
    total = contracted(context, node, lowered)
    if any(presence(f) is not None for f in total.factors):
        return None
    summed_factors = [f for f in total.factors if any(d in f.dims for d in total.over)]
    other_factors = [f for f in total.factors if not any(d in f.dims for d in total.over)]
    if len(summed_factors) != 2 or any(isinstance(f, Slots) for f in other_factors):
        return None
    if any(all(d not in f.dims for f in summed_factors) for d in total.over):
        return None
    product = make(summed_factors[0], summed_factors[1], total)
    if product is None:
        return None
    multiply = SCALAR["multiplies"] if _careful(context, node) else lax.mul
    for f in other_factors:
        assert isinstance(f, Dense)
        union_dims = Dims(tuple((n, total.dims[n]) for n in dict.fromkeys((*product.dims.names, *f.dims.names))))
        product = Dense(multiply(aligned(product, union_dims), aligned(f, union_dims)), union_dims)
    return (cut(product, node.tensor.dims),)


def contracted(context: Context, node: Call, lowered: Sequence[Any]) -> Sum:
    """The call's operands, factored and converted to its element type, as a `Sum` of products over its static dims.

    An operand that is itself a product counts as its factors (`ArrayProvenance.factors`); conversions are recorded in
    `context.provenance`.
    """
    element = node.static.element
    factors: list[Leaf] = []
    for (leaf,), arg in zip(lowered, node.args, strict=True):
        if arg.tensor.element != element:
            converted = elementwise(convert(element), [leaf], arg.tensor.dims)
            context.provenance.convert(converted, leaf)
            leaf = converted
        factors.append(leaf)
    dims = bcast([a.tensor for a in node.args])
    return Sum(tuple(f for leaf in factors for f in context.provenance.factors(leaf)), dims, node.static.dims)


NARROW = {("int8", "int32"), ("bfloat16", "float32")}
"""Types whose products XLA adds up in a wider type 1.8 to 11 times as fast as those of converted factors."""


def dot(x: Leaf, y: Leaf, total: Sum, provenance: ArrayProvenance, careful: bool) -> Dense | None:
    """The contraction of two factors over `total.over` by `lax.dot_general`; None where the plain sum of products is
    better.

    `careful`: take derivatives by `bilinear`, in which 0 times a value that is not finite is 0. `provenance` gives the
    narrower arrays that factors were converted from: types of `NARROW` are multiplied as such and added up in the wide
    type. None, too, if a dim summed over is not in both factors, if types differ, or for slots that are not summed
    over.
    """
    over = [d for d in total.over if d in x.dims and d in y.dims]
    if set(over) != set(total.over):
        return None
    batch = [d for d in x.dims if d in y.dims and d not in over]
    free = [[d for d in z.dims if d not in over and d not in batch] for z in (x, y)]
    both_have_free_dims = all(prod(len(total.dims[d]) for d in f) > 1 for f in free)
    if not both_have_free_dims and prod(len(total.dims[d]) for d in over) < SHORTEST:
        return None
    if isinstance(x, Slots):
        # a window is stacked along its first axes, and taken as the right factor
        x, y = y, x
    if isinstance(x, Slots) or (
        isinstance(y, Slots) and (batch or not both_have_free_dims or not _slots_of(y) <= set(over))
    ):
        return None
    dtype = _data_type(x)
    if dtype != _data_type(y) or dtype.kind not in "fiuV":
        return None
    narrow_x, narrow_y = provenance.before(x), provenance.before(y)
    if narrow_x is not None and narrow_y is not None:
        narrow_dtype = _data_type(narrow_x)
        if narrow_dtype == _data_type(narrow_y) and (narrow_dtype.name, dtype.name) in NARROW:
            x, y = narrow_x, narrow_y
    a, b = _stacked(x, total, over, batch), _stacked(y, total, over, batch)
    contracting_axes, batch_axes = (
        tuple(tuple(z.dims.names.index(d) for d in names) for z in (a, b)) for names in (over, batch)
    )
    product = _dot_general((contracting_axes, batch_axes), dtype)
    data = (bilinear(product) if careful and dtype.kind in "fV" else product)(a.data, b.data)
    free_dims = [d for z in (a, b) for d in z.dims if d not in over and d not in batch]
    return Dense(data, Dims(tuple((d, total.dims[d]) for d in (*batch, *free_dims))))


@cache
def _dot_general(numbers: Any, kind: Any) -> Callable[..., jax.Array]:
    return partial(lax.dot_general, dimension_numbers=numbers, precision=PRECISION, preferred_element_type=kind)


def _slots_of(x: Leaf) -> set[str]:
    """Names of the dims that are represented as `Slots`, through all nesting levels."""
    return {x.dim} | _slots_of(x.leaves[0]) if isinstance(x, Slots) else set()


def _data_type(x: Leaf) -> Any:
    return _data_type(x.leaves[0]) if isinstance(x, Slots) else x.data.dtype


def _stacked(x: Leaf, total: Sum, over: Sequence[str], batch: Sequence[str]) -> Dense:
    """A factor as one dense array cut to the intervals of the sum; slots are concatenated along new leading axes.

    Other axes: those of `over` and `batch` first, then the remaining ones, as a matrix product reads them.
    """
    if isinstance(x, Dense):
        return needed(x, total, x.dims.names)
    slots = cut(x, Dims(((x.dim, total.dims[x.dim]),)))
    assert isinstance(slots, Slots)
    points = [_stacked(leaf, total, over, batch) for leaf in slots.leaves]
    names = points[0].dims.names
    free = [n for n in names if n not in over and n not in batch]
    order = Dims(tuple((n, total.dims[n]) for n in (*(n for n in names if n not in free), *free)))
    data = lax.concatenate([lax.expand_dims(aligned(point, order), (0,)) for point in points], 0)
    return Dense(data, Dims(((x.dim, total.dims[x.dim]), *order.items)))


def needed(x: Dense, total: Sum, names: Sequence[str]) -> Dense:
    """The factor cut, in the dims `names`, to the intervals that the sum has."""
    restricted = cut(x, Dims(tuple((n, total.dims[n]) for n in names)))
    assert isinstance(restricted, Dense)
    return restricted


# Sums of products of which a guard leaves some out, as contractions of factors that are zero there.
#
# `reduce(+, 0, k)(if c then a × b else 0)` over all points first takes 20 to 70 times as long. Where the guard has
# dims of one factor alone, the other one is multiplied by zero: that is the same unless it is infinite or no number
# somewhere, which is looked up when the program runs.


def guarded(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: `reduce(+, init, k)(if guard then a × b else 0)` as one `dot_general`; None for any other fold.

    A guard without dims summed over is applied to the result, else to the one factor that has all its dims. Checks
    recorded for the guarded product are dropped with it (`Context.absorbed`).
    """
    total = guarded_sum(context, node, lowered)
    if total is None or total.guard is None or len(total.factors) != 2:
        return None
    match total.factors:
        case Dense(present=None) as a, Dense(present=None) as b:
            pass
        case _:
            return None
    if not set(total.guard.dims) & set(total.over):
        contraction = _guarded_after_sum(context, a, b, total, total.guard)
    else:
        if not set(total.guard.dims) <= set(a.dims):
            a, b = b, a
        if not set(total.guard.dims) <= set(a.dims):
            return None
        a, b = needed(a, total, a.dims.names), needed(b, total, b.dims.names)
        contraction = _guarded_in_factor(context, a, b, total, total.guard, _careful(context, node))
    if contraction is None:
        return None
    context.absorbed(total.inside)
    if literal_of(node.args[1]) != 0:
        return (elementwise(lax.add, [lowered[1][0], contraction], node.tensor.dims),)
    return (cut(contraction, node.tensor.dims),)


def guarded_sum(context: Context, node: Call, lowered: Sequence[Any]) -> Sum | None:
    """The `Sum` of guarded products behind a fold by + of one array; None for any other fold, or if no guard is
    known.
    """
    f, init, *values = lowered
    if len(init) != 1 or presence(init[0]) is not None or len(values) != 1 or len(values[0]) != 1:
        return None
    if combiner(f.function) != "plus":
        return None
    total = context.provenance.summed(values[0][0], node.static.dim)
    return total if total is not None and total.guard is not None else None


def _guarded_after_sum(context: Context, a: Dense, b: Dense, total: Sum, guard: Dense) -> Dense | None:
    """The unguarded contraction a · b, set to 0 where `guard`, which has no dim summed over, is false."""
    contraction = dot(a, b, total, context.provenance, careful=True)
    if contraction is None:
        return None
    dims = Dims(tuple((n, total.dims[n]) for n in dict.fromkeys((*contraction.dims.names, *guard.dims.names))))
    data = aligned(contraction, dims)
    return Dense(lax.select(aligned(guard, dims), data, lax.full_like(data, 0)), dims)


def _guarded_in_factor(context: Context, a: Dense, b: Dense, total: Sum, guard: Dense, careful: bool) -> Dense | None:
    """The contraction of b with the factor `a`, which has all dims of the guard, set to 0 where the guard is false.

    For floats that computes 0 × b where the guard is false, which is NaN if b is infinite or NaN: a `lax.cond` at run
    time then takes `plain`, the select over all products.
    """
    zeroed = _zeroed(a, guard)
    if set(guard.dims) <= set(b.dims):
        return dot(zeroed, _zeroed(b, guard), total, context.provenance, careful)
    contraction = dot(zeroed, b, total, context.provenance, careful)
    if contraction is None or b.data.dtype.kind in "iu":
        return contraction
    dims, b_dims = contraction.dims, b.dims

    def plain(_: jax.Array, a: jax.Array, b: jax.Array, guard_: jax.Array) -> jax.Array:
        """The sum over all products, selected by the guard."""
        all_dims = Dims(tuple((n, total.dims[n]) for n in (*dims.names, *total.over)))
        product = SCALAR["multiplies"](aligned(Dense(a, zeroed.dims), all_dims), aligned(Dense(b, b_dims), all_dims))
        guarded_product = lax.select(aligned(Dense(guard_, guard.dims), all_dims), product, lax.full_like(product, 0))
        return lax.reduce(
            guarded_product, guarded_product.dtype.type(0), lax.add, tuple(range(len(dims), len(all_dims)))
        )

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


def convolution(context: Context, node: Call, lowered: Sequence[Any]) -> Value | None:
    """Rule: a `contract` of a window and weights as `lax.conv_general_dilated`; None for any other contraction."""

    def convolved(x: Leaf, w: Leaf, total: Sum) -> Dense | None:
        """The convolution with x as the window and w as the weights; None if x is not known as a window
        (`ArrayProvenance.window`).
        """
        source_and_windows = context.provenance.window(x)
        if source_and_windows is None or not isinstance(w, Dense):
            return None
        return _in_groups(*source_and_windows, w, total, context.provenance, _careful(context, node))

    return product_of_two(context, node, lowered, lambda a, b, total: convolved(a, b, total) or convolved(b, a, total))


FEWEST_CHANNELS = 16
"""Windows of fewer channels are faster as what they are."""
MOST_GROUPS = 32
"""More convolutions side by side than these would cost compile time."""


def _in_groups(
    source: Dense, windows: tuple[Window, ...], w: Dense, total: Sum, provenance: ArrayProvenance, careful: bool
) -> Dense | None:
    """A grouped convolution as ungrouped ones side by side, joined along the group dim.

    A group dim is in source, weights and result, and no window moves along it; recurses until none is left, then calls
    `_convolution`. None if a group dim has more than `MOST_GROUPS` points or one of the convolutions does not fit.
    `w`: the weights. `careful`: see `dot`. Zeros known around `source` (`ArrayProvenance.unpadded`) are recorded for
    each group, too.
    """
    window_dims = {v.source for v in windows}
    groups = [d for d in source.dims if d not in window_dims and d in w.dims and d not in total.over]
    if not groups:
        return _convolution(source, windows, w, total, provenance, careful)
    name = groups[0]
    if len(total.dims[name]) > MOST_GROUPS:
        return None
    unpadded, steps = provenance.unpadded(source) or (None, {})
    convolutions: list[Dense] = []
    for point in total.dims[name]:
        group, weights = dense(select_slot(source, name, point)), dense(select_slot(w, name, point))
        if unpadded is not None and not steps and point in unpadded.dims[name]:
            unpadded_group = dense(select_slot(unpadded, name, point))
            provenance.pad(group, unpadded_group, unpadded_group.dims)
        convolution = _in_groups(group, windows, weights, total, provenance, careful)
        if convolution is None:
            return None
        convolutions.append(convolution)
    data = lax.concatenate([lax.expand_dims(c.data, (0,)) for c in convolutions], 0)
    return Dense(data, Dims(((name, total.dims[name]), *convolutions[0].dims.items)))


def _convolution(
    source: Dense, windows: tuple[Window, ...], w: Dense, total: Sum, provenance: ArrayProvenance, careful: bool
) -> Dense | None:
    """`lax.conv_general_dilated` of `source` by the weights `w`, summed over the window dims and the common
    channels.

    Dims of the operands: batch (source only), channels (summed, in both), filters (weights only), and per window its
    source dim, read at `stride × outer + dilation × inner + constant`. Zeros known around the source become padding,
    zeros between its elements `lhs_dilation`. None if a dim has no such role, data types differ, or channels or filters
    are too few to pay. The weights have no mask (`product_of_two` declines masked factors). Without known zeros every
    window lies in the source, and the padding is 0. `careful`: see `dot`.
    """
    if source.present is not None or source.data.dtype != w.data.dtype or w.data.dtype.kind not in "fV":
        return None
    inner, outer = [v.inner for v in windows], [v.outer for v in windows]
    if not windows or not set(inner) <= set(total.over) or any(v.stride < 1 or v.dilation < 1 for v in windows):
        return None
    if not set(inner) <= set(w.dims) or any(d in w.dims for d in outer) or any(d in total.over for d in outer):
        return None
    window_dims = {v.source for v in windows}
    other_dims = [d for d in source.dims if d not in window_dims]
    channels = [d for d in total.over if d not in inner]
    if any(d not in other_dims or d not in w.dims for d in channels):
        return None
    if prod(len(total.dims[d]) for d in channels) < FEWEST_CHANNELS:
        return None
    batch = [d for d in other_dims if d not in w.dims]
    filters = [d for d in w.dims if d not in inner and d not in channels]
    if not filters or prod(len(total.dims[d]) for d in filters) < 2:
        return None
    unpadded, steps = _unpadded_part(source, total, other_dims, provenance) or (needed(source, total, other_dims), {})
    padding: list[tuple[int, int]] = []
    for v in windows:
        points, taps, available = total.dims[v.outer], total.dims[v.inner], unpadded.dims[v.source]
        first = v.stride * points.start + v.dilation * taps.start + v.constant
        last = v.stride * (points.stop - 1) + v.dilation * (taps.stop - 1) + v.constant
        if v.source in steps:
            end = available.start + steps[v.source] * (len(available) - 1)
            padding.append((available.start - first, last - end))
            continue
        padding.append((max(0, available.start - first), max(0, last + 1 - available.stop)))
        read = Interval(first, last + 1) & available
        if not read:
            return None
        unpadded = dense(cut(unpadded, Dims(((v.source, read),))))
    source = unpadded
    sizes = [len(source.dims[v.source]) for v in windows]

    def flat(names: Sequence[str]) -> int:
        """The number of points of some dims of the sum."""
        return prod(len(total.dims[d]) for d in names)

    lhs_dims = Dims(tuple((n, source.dims[n]) for n in (*batch, *channels, *(v.source for v in windows))))
    lhs = lax.reshape(aligned(source, lhs_dims), (flat(batch), flat(channels), *sizes))
    rhs_dims = Dims(tuple((n, total.dims[n]) for n in (*filters, *channels, *inner)))
    rhs = lax.reshape(aligned(w, rhs_dims), (flat(filters), flat(channels), *(len(total.dims[d]) for d in inner)))
    window_parameters = ((v.stride, steps.get(v.source, 1), v.dilation) for v in windows)
    product = _conv_general_dilated(tuple(padding), *zip(*window_parameters, strict=True))
    data = (bilinear(product) if careful else product)(lhs, rhs)
    dims = Dims(tuple((d, total.dims[d]) for d in (*batch, *filters, *outer)))
    return Dense(lax.reshape(data, dims.shape), dims)


@cache
def _conv_general_dilated(padding: Any, strides: Any, lhs_dilation: Any, rhs_dilation: Any) -> Callable[..., jax.Array]:
    """`lax.conv_general_dilated` with these parameters; cached, so that equal ones are one function (`bilinear`)."""
    return partial(
        lax.conv_general_dilated, window_strides=strides, padding=padding, lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation, precision=PRECISION,
    )  # fmt: skip


def _unpadded_part(
    source: Dense, total: Sum, other_dims: Sequence[str], provenance: ArrayProvenance
) -> tuple[Dense, dict[str, int]] | None:
    """The source without the zeros around and between its elements, cut to the sum along dims that no window reads.

    With it, per dim, the distance of its elements where that is not 1. None if no zeros are known, or if they reach
    along one of the dims `plain`.
    """
    unpadded, steps = provenance.unpadded(source) or (None, {})
    if unpadded is None or any(n in steps or not unpadded.dims[n].covers(total.dims[n]) for n in other_dims):
        return None
    return needed(unpadded, total, other_dims), steps
