"""Windows times weights, summed over the window and over channels, as convolutions.

The window is a gather at `stride × outer + dilation × inner + constant` (`windows`), whose slots are dropped before
anything is compiled. Zeros around what it reads become the padding of the convolution: an array of their own costs a
quarter of the time. Groups are convolutions side by side: XLA's grouped one takes 2 to 8 times as long. Below
`FEWEST_CHANNELS` a stacked window that is contracted (`contractions`), or in groups a sum of shifted slices, takes a
third to all of the time of a convolution, and for integers a fifth; depthwise, a twentieth.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from jax import lax

from lowering.array_provenance import ArrayProvenance, Sum, Window
from lowering.context import Context
from lowering.raising.contractions import PRECISION, needed, product_of_two
from lowering.values import Dense, Leaf, Value, aligned, cut, dense, select_slot
from tensorir.ir.nodes import Call
from tensorir.ir.types import Dims, Interval

__all__ = ["convolution"]


def convolution(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    def convolved(x: Leaf, w: Leaf, total: Sum) -> Dense | None:
        known = context.provenance.window(x)
        return None if known is None or not isinstance(w, Dense) else _in_groups(*known, w, total, context.provenance)

    return product_of_two(context, node, args, lambda a, b, total: convolved(a, b, total) or convolved(b, a, total))


FEWEST_CHANNELS = 16
"""Windows of fewer channels are faster as what they are."""
MOST_GROUPS = 32
"""More convolutions side by side than these would cost compile time."""


def _in_groups(
    source: Dense, windows: tuple[Window, ...], w: Dense, total: Sum, known: ArrayProvenance
) -> Dense | None:
    """Convolutions side by side, for the dims that the window, the weights and the sum have."""
    moving = {v.source for v in windows}
    groups = [d for d in source.dims if d not in moving and d in w.dims and d not in total.over]
    if not groups:
        return _convolution(source, windows, w, total, known)
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
        found = _in_groups(one, windows, weights, total, known)
        if found is None:
            return None
        parts.append(found)
    data = lax.concatenate([lax.expand_dims(p.data, (0,)) for p in parts], 0)
    return Dense(data, Dims(((name, total.dims[name]), *parts[0].dims.items)))


def _convolution(
    source: Dense, windows: tuple[Window, ...], w: Dense, total: Sum, known: ArrayProvenance
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
    data = lax.conv_general_dilated(
        lhs, rhs, [v.stride for v in windows], padding, lhs_dilation=[steps.get(v.source, 1) for v in windows],
        rhs_dilation=[v.dilation for v in windows],
        precision=PRECISION,
    )  # fmt: skip
    dims = Dims(tuple((d, total.dims[d]) for d in (*batch, *filters, *outer)))
    return Dense(lax.reshape(data, dims.shape), dims)


def _part(
    source: Dense, total: Sum, plain: Sequence[str], known: ArrayProvenance
) -> tuple[Dense, dict[str, int]] | None:
    """What lies between zeros along the dims that windows read, where the source is whole along the others."""
    part, steps = known.unpadded(source) or (None, {})
    if part is None or any(n in steps or not part.dims[n].covers(total.dims[n]) for n in plain):
        return None
    return needed(part, total, plain), steps
