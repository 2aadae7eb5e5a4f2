"""Windows times weights, summed over the window and over channels, as convolutions.

The window is a gather at `stride × outer + dilation × inner + constant` (`windows`), whose slots are dropped before
anything is compiled. One filter per channel (depthwise) stays a sum of shifted slices, which is faster on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from jax import lax

from lowering.context import Context
from lowering.products import Sum, Window
from lowering.raising.contractions import PRECISION, needed, product_of_two
from lowering.values import Dense, Leaf, Value, aligned, cut
from tensorir.ir import Call
from tensorir.types import Dims, Interval

__all__ = ["convolution"]


def convolution(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    def convolved(x: Leaf, w: Leaf, total: Sum) -> Dense | None:
        known = context.products.window(x)
        return None if known is None or not isinstance(w, Dense) else _convolution(*known, w, total)

    return product_of_two(context, node, args, lambda a, b, total: convolved(a, b, total) or convolved(b, a, total))


def _convolution(source: Dense, windows: tuple[Window, ...], w: Dense, total: Sum) -> Dense | None:
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
    batch = [d for d in plain if d not in w.dims]
    if any(d in w.dims and d not in channels for d in plain):
        return None  # one filter per channel: shifted slices are faster
    filters = [d for d in w.dims if d not in inner and d not in channels]
    if not filters or prod(len(total.dims[d]) for d in filters) < 2:
        return None
    for v in windows:
        points, taps = total.dims[v.outer], total.dims[v.inner]
        first = v.stride * points.start + v.dilation * taps.start + v.constant
        last = v.stride * (points.stop - 1) + v.dilation * (taps.stop - 1) + v.constant
        found = cut(source, Dims(((v.source, Interval(first, last + 1)),)))
        assert isinstance(found, Dense)
        source = found
    source = needed(source, total, plain)
    sizes = [len(source.dims[v.source]) for v in windows]

    def flat(names: Sequence[str]) -> int:
        return prod(len(total.dims[d]) for d in names)

    lhs_dims = Dims(tuple((n, source.dims[n]) for n in (*batch, *channels, *(v.source for v in windows))))
    lhs = lax.reshape(aligned(source, lhs_dims), (flat(batch), flat(channels), *sizes))
    rhs_dims = Dims(tuple((n, total.dims[n]) for n in (*filters, *channels, *inner)))
    rhs = lax.reshape(aligned(w, rhs_dims), (flat(filters), flat(channels), *(len(total.dims[d]) for d in inner)))
    data = lax.conv_general_dilated(
        lhs, rhs, [v.stride for v in windows], [(0, 0)] * len(windows), rhs_dilation=[v.dilation for v in windows],
        precision=PRECISION,
    )  # fmt: skip
    dims = Dims(tuple((d, total.dims[d]) for d in (*batch, *filters, *outer)))
    return Dense(lax.reshape(data, dims.shape), dims)
