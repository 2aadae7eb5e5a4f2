"""Operators of Relax in NumPy: products, convolutions, pooling, normalisation, images; all by name.

Operators of Relax for networks: products, convolutions, pooling, normalisation, attention, losses.

>>> NETWORKS["nn.softmax"](np.zeros((1, 4), np.float32))
array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from tensorir.relax.interpret.elements import ELEMENTWISE, REDUCTIONS, SHAPES, typed
from tensorir.relax.operators import reordered, sides_of, with_last_windows

Array = Any


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind not in "iub" else x


def _matmul(x: Array, y: Array, out_dtype: Any = None) -> Array:
    kind = typed(out_dtype, x.dtype)
    wide = _summed_in(kind)
    return np.asarray(np.matmul(x.astype(wide), y.astype(wide))).astype(kind)


def _summed_in(kind: Any) -> Any:
    """The type in which products are summed: narrow floats in float32, integers in their own, where they wrap."""
    dtype = np.dtype(kind)
    return kind if dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize >= 4) else np.float32


def _linear(x: Array, weight: Array, bias: Array | None = None, out_dtype: Any = None) -> Array:
    found = _matmul(x, np.swapaxes(weight, -1, -2) if weight.ndim > 1 else weight, out_dtype)
    return found if bias is None else found + bias


def _einsum(operands: Any, subscripts: str) -> Array:
    return np.asarray(np.einsum(subscripts, *map(_wide, operands))).astype(operands[0].dtype)


# ------------------------------------------------------------------------------------------------------------- windows


def _many(value: Any, count: int) -> list[int]:
    return [int(value)] * count if np.ndim(value) == 0 else [int(v) for v in value] * (count if len(value) == 1 else 1)


def _ordered(x: Array, layout: str, wanted: str) -> Array:
    return reordered(x, layout, wanted, np.transpose, np.reshape)


def _windows(x: Array, size: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """All windows over the last dimensions: their places, then what is inside of each."""
    count = len(size)
    reach = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(-count, 0)))
    lead = (slice(None),) * (x.ndim - count)
    return views[(*lead, *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilation))]


def _conv(count: int) -> Callable[..., Array]:
    spatial = "DHW"[3 - count :]

    def compute(
        data: Array,
        weight: Array,
        strides: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        data_layout: str,
        kernel_layout: str,
        out_layout: Any = None,
        out_dtype: Any = None,
    ) -> Array:
        kind = typed(out_dtype, data.dtype)
        wide = _summed_in(kind)
        x = _ordered(data, data_layout, f"NC{spatial}").astype(wide)
        w = _ordered(weight, kernel_layout, f"OI{spatial}").astype(wide)
        x = np.pad(x, [(0, 0), (0, 0), *sides_of(_many(padding, count), count)])
        views = _windows(x, w.shape[2:], _many(strides, count), _many(dilation, count))
        batch, channels = views.shape[:2]
        places = views.shape[2 : 2 + count]
        parts = views.reshape(batch, groups, channels // groups, *places, -1)
        kernels = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
        letters = "xyz"[:count]
        found = np.einsum(f"ngc{letters}k,gock->ngo{letters}", parts, kernels)
        found = found.reshape(batch, w.shape[0], *places).astype(kind)
        return _ordered(found, f"NC{spatial}", out_layout or data_layout)

    return compute


def _conv_transpose(count: int) -> Callable[..., Array]:
    spatial = "DHW"[3 - count :]

    def compute(
        data: Array,
        weight: Array,
        strides: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
        data_layout: str,
        kernel_layout: str,
        out_layout: Any = None,
        out_dtype: Any = None,
    ) -> Array:
        kind = typed(out_dtype, data.dtype)
        wide = _summed_in(kind)
        x = _ordered(data, data_layout, f"NC{spatial}").astype(wide)
        w = _ordered(weight, kernel_layout, f"IO{spatial}").astype(wide)
        steps, gaps, extra = (_many(v, count) for v in (strides, dilation, output_padding))
        sides = sides_of(_many(padding, count), count)
        batch, channels = x.shape[:2]
        size = w.shape[2:]
        full = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(x.shape[2:], steps, gaps, size, strict=True)]
        whole = np.zeros((batch, groups, w.shape[1], *(n + e for n, e in zip(full, extra, strict=True))), x.dtype)
        grouped = x.reshape(batch, groups, channels // groups, *x.shape[2:])
        kernels = w.reshape(groups, channels // groups, w.shape[1], *size)
        letters = "xyz"[:count]
        for at in np.ndindex(*size):
            piece = np.einsum(f"ngc{letters},gco->ngo{letters}", grouped, kernels[(..., *at)])
            where = tuple(
                slice(k * d, k * d + (n - 1) * s + 1, s)
                for k, d, n, s in zip(at, gaps, x.shape[2:], steps, strict=True)
            )
            whole[(..., *where)] += piece
        whole = whole.reshape(batch, -1, *whole.shape[3:])
        cut = tuple(slice(a, n + e - b) for (a, b), n, e in zip(sides, full, extra, strict=True))
        return _ordered(whole[(..., *cut)].astype(kind), f"NC{spatial}", out_layout or data_layout)

    return compute


def _pool(count: int, average: bool) -> Callable[..., Array]:
    spatial = "DHW"[3 - count :]

    def compute(
        data: Array,
        pool_size: Any,
        strides: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: Any,
        count_include_pad: Any,
        layout: str,
        out_layout: Any = None,
    ) -> Array:
        if data.dtype == np.bool_:
            raise NotImplementedError("truth values have no sums and no largest one")
        x = _wide(_ordered(data, layout, f"NC{spatial}"))
        size, steps, gaps = (_many(v, count) for v in (pool_size, strides, dilation))
        sides = sides_of(_many(padding, count), count)
        more = with_last_windows(sides, x.shape[2:], size, steps, gaps) if ceil_mode else sides
        low = 0 if average else (np.finfo(x.dtype).min if x.dtype.kind == "f" else np.iinfo(x.dtype).min)
        views = _windows(_padded(x, more, low), size, steps, gaps)
        axes = tuple(range(-count, 0))
        if not average:
            found = views.max(axis=axes)
        else:
            present = np.pad(np.ones(x.shape[2:]), sides, constant_values=1 if count_include_pad else 0)
            present = _padded(present, [(0, b - d) for (_, b), (_, d) in zip(more, sides, strict=True)], 0)
            counts = _windows(present, size, steps, gaps).sum(axis=axes)
            found = views.sum(axis=axes) / counts.astype(x.dtype)
        return _ordered(found.astype(data.dtype), f"NC{spatial}", out_layout or layout)

    return compute


def _padded(x: Array, sides: Sequence[tuple[int, int]], value: Any) -> Array:
    """The array with more around its last dimensions, or with less behind where the width is negative."""
    cut = tuple(slice(None, min(b, 0) or None) for _, b in sides)
    wide = [(0, 0)] * (x.ndim - len(sides)) + [(a, max(b, 0)) for a, b in sides]
    return np.pad(x, wide, constant_values=value)[(..., *cut)]


def _adaptive(count: int) -> Callable[..., Array]:
    spatial = "DHW"[3 - count :]

    def compute(data: Array, output_size: Any = None, layout: str = "", out_layout: Any = None) -> Array:
        x = _wide(_ordered(data, layout, f"NC{spatial}"))
        sizes = x.shape[2:] if output_size is None else _many(output_size, count)
        for k, size in enumerate(sizes):
            length = x.shape[2 + k]
            pieces = [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]
            parts = [np.take(x, range(a, b), 2 + k).mean(axis=2 + k, keepdims=True) for a, b in pieces]
            x = np.concatenate(parts, 2 + k)
        return _ordered(x.astype(data.dtype), f"NC{spatial}", out_layout or layout)

    return compute


# ------------------------------------------------------------------------------------------------------ normalisation


def _softmax(x: Array, axis: int = -1) -> Array:
    wide = _wide(x)
    powers = np.exp(wide - wide.max(axis=axis, keepdims=True))
    return (powers / powers.sum(axis=axis, keepdims=True)).astype(x.dtype)


def _log_softmax(x: Array, axis: int = -1) -> Array:
    wide = _wide(x)
    shifted = wide - wide.max(axis=axis, keepdims=True)
    return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(x.dtype)


def _axes(axes: Any, ndim: int) -> tuple[int, ...]:
    return tuple(int(a) % ndim for a in ((axes,) if isinstance(axes, int) else axes))


def _along(weight: Array, axes: Sequence[int], ndim: int, shape: Sequence[int]) -> Array:
    wanted = [shape[k] if k in axes else 1 for k in range(ndim)]
    return weight.reshape(wanted).astype(np.float32) if weight.dtype.itemsize < 4 else weight.reshape(wanted)


def _rms_norm(x: Array, weight: Array, axes: Any = -1, epsilon: float = 1e-5) -> Array:
    wide, over = _wide(x), _axes(axes, x.ndim)
    scale = 1 / np.sqrt(np.mean(wide * wide, axis=over, keepdims=True) + np.asarray(epsilon, wide.dtype))
    return (scale * wide * _along(weight, over, x.ndim, x.shape)).astype(x.dtype)


def _normal(wide: Array, over: tuple[int, ...], epsilon: float) -> Array:
    mean = wide.mean(axis=over, keepdims=True)
    variance = np.mean((wide - mean) ** 2, axis=over, keepdims=True)
    return (wide - mean) / np.sqrt(variance + np.asarray(epsilon, wide.dtype))


def _layer_norm(
    x: Array, gamma: Array, beta: Array, axes: Any, epsilon: float = 1e-5, center: bool = True, scale: bool = True
) -> Array:
    over = _axes(axes, x.ndim)
    del center, scale  # TVM applies both, whatever they say
    found = _normal(_wide(x), over, epsilon)
    return (found * _along(gamma, over, x.ndim, x.shape) + _along(beta, over, x.ndim, x.shape)).astype(x.dtype)


def _group_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Array:
    del center, scale  # TVM applies both, whatever they say
    channel = channel_axis % x.ndim
    shape = [*x.shape[:channel], num_groups, x.shape[channel] // num_groups, *x.shape[channel + 1 :]]
    over = tuple(a if a < channel else a + 1 for a in (channel, *_axes(axes, x.ndim)))
    over = tuple(sorted({channel + 1, *(a for a in over if a != channel)}))
    found = _normal(_wide(x).reshape(shape), over, epsilon).reshape(x.shape)
    found = found * _along(gamma, [channel], x.ndim, x.shape)
    found = found + _along(beta, [channel], x.ndim, x.shape)
    return found.astype(x.dtype)


def _instance_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    channel_axis: int,
    axes: Any,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Array:
    del center, scale  # TVM applies both, whatever they say
    channel = [channel_axis % x.ndim]
    found = _normal(_wide(x), _axes(axes, x.ndim), epsilon)
    found = found * _along(gamma, channel, x.ndim, x.shape)
    found = found + _along(beta, channel, x.ndim, x.shape)
    return found.astype(x.dtype)


def _batch_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    moving_mean: Array,
    moving_var: Array,
    axis: int,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = True,
) -> tuple[Array, Array, Array]:
    channel = axis % x.ndim
    others = tuple(k for k in range(x.ndim) if k != channel)
    wide = _wide(x)
    mean, variance = (wide.mean(axis=others), wide.var(axis=others)) if training else (moving_mean, moving_var)
    shape = [x.shape[k] if k == channel else 1 for k in range(x.ndim)]
    found = (wide - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + np.asarray(epsilon, wide.dtype))
    found = found * gamma.reshape(shape) if scale else found
    found = found + beta.reshape(shape) if center else found
    if training:
        moving_mean = ((1 - momentum) * moving_mean + momentum * mean).astype(moving_mean.dtype)
        moving_var = ((1 - momentum) * moving_var + momentum * variance).astype(moving_var.dtype)
    return found.astype(x.dtype), moving_mean, moving_var


def _attention(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None = None,
    scale: Any = None,
    causal_mask: Any = None,
    window_size: Any = None,
) -> Array:
    """Batch, sequence, heads, features."""
    # TVM's mask is as far from the diagonal where there are more queries than keys as where there are fewer
    ahead = abs(key.shape[1] - query.shape[1])
    return _attended(query, key, value, bias, scale, causal_mask, window_size, ahead)


def _attended(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None,
    scale: Any,
    causal_mask: Any,
    window_size: Any,
    ahead: int,
) -> Array:
    """The scores in float32; a mask that ends at the bottom right shows a query as many keys ahead of its own."""
    if window_size is not None:
        raise NotImplementedError("a window of attention is not run")
    q, k, v = (np.moveaxis(_wide(a), 2, 1) for a in (query, key, value))
    if q.shape[1] != k.shape[1] or q.shape[1] != v.shape[1]:
        raise ValueError(f"there are {q.shape[1]} heads of queries, {k.shape[1]} of keys and {v.shape[1]} of values")
    factor = 1 / np.sqrt(q.shape[-1]) if scale is None else float(scale)
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * np.asarray(factor, q.dtype)
    if bias is not None:
        scores = scores + _wide(bias)
    if causal_mask is not None:
        rows, columns = scores.shape[-2:]
        shift = 0 if str(causal_mask) == "TopLeft" else ahead
        scores = np.where(np.tri(rows, columns, shift, dtype=bool), scores, -np.inf)
    return np.moveaxis(np.matmul(_softmax(scores), v), 1, 2).astype(query.dtype)


def _attention_of_several(
    query: Array,
    key: Array,
    value: Array,
    starts_q: Array,
    longest_q: Array,
    starts_k: Array | None = None,
    longest_k: Array | None = None,
    scale: Any = None,
    causal_mask: Any = None,
    window_size: Any = None,
) -> Array:
    """Attention of sequences that lie one behind the other in the second dimension, from `starts_q` on."""
    del longest_q, longest_k
    others = starts_q if starts_k is None else starts_k
    parts: list[Array] = []
    for (a, b), (c, d) in zip(pairwise(map(int, starts_q)), pairwise(map(int, others)), strict=True):
        own = query[:, a:b], key[:, c:d], value[:, c:d]
        parts.append(_attended(*own, None, scale, causal_mask, window_size, (d - c) - (b - a)))
    return np.concatenate(parts, axis=1)


def _pad(x: Array, pad_width: Any, pad_mode: str = "constant", pad_value: float = 0.0) -> Array:
    numbers = [int(v) for v in pad_width]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[pad_mode]
    if mode == "constant":
        return np.pad(x, pairs, constant_values=np.asarray(pad_value).astype(x.dtype))
    return np.pad(x, pairs, mode=mode)  # type: ignore[call-overload]


def _pixel_shuffle(x: Array, upscale_factor: int) -> Array:
    *lead, c, h, w = x.shape
    r = int(upscale_factor)
    parts = x.reshape(*lead, c // (r * r), r, r, h, w)
    n = len(lead)
    return parts.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(*lead, c // (r * r), h * r, w * r)


def _nll(
    predictions: Array, targets: Array, weights: Array | None = None, reduction: str = "mean", ignore_index: int = -100
) -> Array:
    classes = predictions.shape[0 if predictions.ndim == 1 else 1]
    scale: Array = np.ones(classes, predictions.dtype) if weights is None else weights
    kept = targets != ignore_index
    safe = np.where(kept, targets, 0)
    if predictions.ndim == 1:
        chosen = predictions[safe]
    else:
        chosen = np.take_along_axis(predictions, np.expand_dims(safe, 1), 1).squeeze(1)
    share = np.where(kept, scale[safe], 0).astype(predictions.dtype)
    loss = np.where(kept, -chosen * share, 0).astype(predictions.dtype)
    match reduction:
        case "none":
            return loss
        case "sum":
            return np.asarray(loss.sum(dtype=predictions.dtype))
        case _:
            return np.asarray(loss.sum(dtype=predictions.dtype) / share.sum(dtype=predictions.dtype))


def _cross_entropy(predictions: Array, labels: Array) -> Array:
    batch: Any = predictions.shape[0] if predictions.ndim > 1 else 1
    return np.asarray(-(predictions * labels).sum(dtype=predictions.dtype) / batch).astype(predictions.dtype)


def _dropout(x: Array, rate: float = 0.5) -> tuple[Array, Array]:
    """Nothing is dropped when a network is only run."""
    del rate
    return x, np.ones_like(x)


NETWORKS: dict[str, Callable[..., Any]] = {
    "matmul": _matmul,
    "linear": _linear,
    "outer": np.multiply.outer,
    "einsum": _einsum,
    **{f"nn.conv{k}d": _conv(k) for k in (1, 2, 3)},
    **{f"nn.conv{k}d_transpose": _conv_transpose(k) for k in (1, 2, 3)},
    **{f"nn.max_pool{k}d": _pool(k, False) for k in (1, 2, 3)},
    **{f"nn.avg_pool{k}d": _pool(k, True) for k in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{k}d": _adaptive(k) for k in (1, 2, 3)},
    "nn.softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    "nn.rms_norm": _rms_norm,
    "nn.layer_norm": _layer_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.batch_norm": _batch_norm,
    "nn.dropout": _dropout,
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
    "nn.attention_var_len": _attention_of_several,
    "nn.pad": _pad,
    "nn.pixel_shuffle": _pixel_shuffle,
    "nn.cross_entropy_with_logits": _cross_entropy,
    "nn.nll_loss": _nll,
}

# Operators of Relax on images: resizing and sampling, by nearest neighbours, linearly or cubically.


def source_places(places: Array, old: int, new: int, mode: str, box: tuple[float, float]) -> Array:
    """The place along the old axis of each new element; `box` is the part of it that is cropped."""
    scale = np.float32(old / new)
    half = np.float32(0.5)
    match mode:
        case "half_pixel":
            return (places + half) * scale - half
        case "pytorch_half_pixel":
            return (places + half) * scale - half if new > 1 else np.zeros_like(places)
        case "tf_half_pixel_for_nn":
            return (places + half) * scale
        case "align_corners":
            return places * np.float32((old - 1) / (new - 1) if new > 1 else 0.0)
        case "asymmetric":
            return places * scale
        case "tf_crop_and_resize":
            low, high = map(np.float32, box)
            if new > 1:
                return low * np.float32(old - 1) + places * (high - low) * np.float32(old - 1) / np.float32(new - 1)
            return np.full_like(places, half * (low + high) * np.float32(old - 1))
        case _:
            raise NotImplementedError(f"the coordinates {mode!r} are not run")


def nearest(where: Array, rounding: str) -> Array:
    match rounding:
        case "floor":
            return np.floor(where + np.float32(1e-5))
        case "ceil":
            return np.ceil(where - np.float32(1e-5))
        case "round_prefer_floor":
            return np.ceil(where - np.float32(0.5))
        case "round_prefer_ceil":
            return np.floor(where + np.float32(0.5))
        case _:
            return np.rint(where) if rounding == "round" else np.floor(where + np.float32(1e-5))


def weights_of(part: Array, method: str, alpha: float) -> dict[int, Array]:
    """Weights of the elements around a place, by their distance from the one before it."""
    if method == "linear":
        return {0: 1 - part, 1: part}
    a = np.float32(alpha)
    return {
        -1: ((part - 2) * part + 1) * part * a,
        0: ((a + 2) * part - (a + 3)) * part * part + 1,
        1: ((-(a + 2) * part + (2 * a + 3)) * part - a) * part,
        2: (1 - part) * part * part * a,
    }


def _along_axis(x: Array, axis: int, where: Array, method: str, rounding: str, alpha: float, exclude: bool) -> Array:
    """The elements at places between those of an axis."""
    old = x.shape[axis]
    if method == "nearest_neighbor":
        return np.take(x, np.clip(nearest(where, rounding).astype(int), 0, old - 1), axis)
    low = np.floor(where).astype(int)
    weights = weights_of((where - low).astype(np.float32), method, alpha)
    if exclude and method == "cubic":
        inside = {k: np.where((low + k < 0) | (low + k >= old), np.float32(0), w) for k, w in weights.items()}
        total = sum(inside.values())
        weights = {k: w / total for k, w in inside.items()}
    shape = [1] * x.ndim
    shape[axis] = len(where)
    found = np.zeros((), x.dtype)
    for offset, weight in weights.items():
        found = found + np.take(x, np.clip(low + offset, 0, old - 1), axis) * weight.reshape(shape)
    return found


def _resize(
    data: Array,
    size: Any,
    layout: str,
    roi: Any = None,
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: Any = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
) -> Array:
    mode = coordinate_transformation_mode
    if method == "nearest_neighbor" and not rounding_method:
        rounding_method = "round" if mode == "align_corners" else "floor"
    axes = [layout.index(letter) for letter in "DHW" if letter in layout]
    sizes = [int(size)] * len(axes) if np.ndim(size) == 0 else [int(s) for s in size]
    corners = [float(v) for v in roi] if roi is not None else [0.0] * len(axes) + [1.0] * len(axes)
    found = data.astype(np.float32) if data.dtype.itemsize < 4 or data.dtype.kind in "iu" else data
    outside = np.zeros((), bool)
    for k in reversed(range(len(axes))):
        axis, old = axes[k], data.shape[axes[k]]
        where = source_places(
            np.arange(sizes[k], dtype=np.float32), old, sizes[k], mode, (corners[k], corners[len(axes) + k])
        )
        found = _along_axis(found, axis, where, method, rounding_method, cubic_alpha, bool(cubic_exclude))
        shape = [1] * data.ndim
        shape[axis] = sizes[k]
        outside = outside | ((where < 0) | (where > old - 1)).reshape(shape)
    if mode == "tf_crop_and_resize":
        found = np.where(outside, np.float32(extrapolation_value), found)
    kind = typed(out_dtype, data.dtype)
    return found.astype(kind)


# ---------------------------------------------------------------------------------------------------------------- grids


def _affine_grid(theta: Array, size: Any, align_corners: bool = True) -> Array:
    """An affine map of the places of an image; coordinates run from -1 to 1, the last axis first."""
    sizes = [int(s) for s in size]
    if align_corners and 1 in sizes:
        raise ValueError("an axis of one element has no two corners")
    lines: list[Array] = []
    for extent in sizes:
        places = np.arange(extent, dtype=theta.dtype)
        if align_corners:
            lines.append(theta.dtype.type(-1) + places * theta.dtype.type((2 - 1e-7) / (extent - 1)))
        else:
            lines.append(theta.dtype.type(-1 + 1 / extent) + places * theta.dtype.type(2 / extent))
    mesh = np.meshgrid(*lines, indexing="ij")[::-1]
    batch = (theta.shape[0], len(sizes)) + (1,) * len(sizes)
    found = theta[:, :, -1].reshape(batch)
    for column, coordinates in enumerate(mesh):
        found = found + theta[:, :, column].reshape(batch) * coordinates
    return np.broadcast_to(found, (theta.shape[0], len(sizes), *sizes)).astype(theta.dtype)


def _reflected(x: Array, size: int, align_corners: bool) -> Array:
    """Coordinates folded back at the borders as often as they leave them."""
    reach, start = (size - 1, 0.0) if align_corners else (size, -0.5)
    if not reach:
        return np.zeros_like(x)
    far = np.abs(start - x)
    times = (_places(far) // reach).astype(np.int32)
    extra = far - times * reach
    folded: Array = np.where(times % 2 == 0, extra + start, reach - extra + start)
    found: Array = np.where((x >= start) & (x <= reach + start), x, folded)
    return found.astype(x.dtype)


def _grid_sample(
    data: Array,
    grid: Array,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """The data at the places that the grid names: coordinates from -1 to 1, the last axis first."""
    if layout not in ("NCHW", "NCDHW"):
        raise NotImplementedError(f"the layout {layout!r} is not run")
    sizes = data.shape[2:]
    half = grid.dtype.type(0.5)
    places: list[Array] = []
    for k, size in enumerate(sizes):
        x = grid[:, len(sizes) - 1 - k]
        if align_corners:
            x = (x + 1) * grid.dtype.type(size - 1) * half
        else:
            x = -half + (x + 1) * grid.dtype.type(size) * half
        places.append(x)
    cubic = method == "bicubic"
    reach = 2 if cubic else 1
    if not cubic:
        places = [_kept(x, size, padding_mode, align_corners, reach) for x, size in zip(places, sizes, strict=True)]
    if method == "nearest":
        return _pixels(data, [_places(np.rint(x)) for x in places])
    lows = [np.floor(x) for x in places]
    parts = [(x - low).astype(grid.dtype) for x, low in zip(places, lows, strict=True)]
    weights = [weights_of(part, "cubic" if cubic else "linear", -0.75) for part in parts]
    found = np.zeros((), data.dtype)
    for corner in product(*(range(-1, 3) if cubic else range(2) for _ in sizes)):
        at = [(low + k).astype(grid.dtype) for low, k in zip(lows, corner, strict=True)]
        if cubic:
            at = [_kept(x, size, padding_mode, align_corners, reach) for x, size in zip(at, sizes, strict=True)]
        share: Array = np.ones((), data.dtype)
        for weight, k in zip(weights, corner, strict=True):
            share = share * weight[k]
        found = found + _pixels(data, [_places(x) for x in at]) * share[:, None]
    return found.astype(data.dtype)


def _places(x: Array) -> Array:
    """Whole coordinates; what no int32 is near to, NaN too, is 0, as any float that becomes an integer."""
    return np.where(np.abs(x) < 2.0**31, x, 0).astype(np.int32)


def _kept(x: Array, size: int, padding_mode: str, align_corners: bool, reach: int) -> Array:
    """Coordinates brought inside, or without padding to where all that a method reads lies outside."""
    if padding_mode == "reflection":
        x = _reflected(x, size, align_corners)
    low, high = (-reach - 1, size + reach) if padding_mode == "zeros" else (0, size - 1)
    return np.clip(x, low, high).astype(x.dtype)


def _pixels(data: Array, at: list[Array]) -> Array:
    """The elements at whole places, zero outside; channels in the second dimension."""
    inside: Array = np.ones((), bool)
    for x, size in zip(at, data.shape[2:], strict=True):
        inside = inside & (x >= 0) & (x < size)
    safe = [np.where(inside, x, 0) for x in at]
    batch: Array = np.arange(data.shape[0]).reshape(-1, *([1] * len(at)))
    found = data[(batch, slice(None), *safe)]
    kept: Array = np.where(inside[:, None], np.moveaxis(found, -1, 1), data.dtype.type(0))
    return kept


IMAGES: dict[str, Callable[..., Any]] = {
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "image.grid_sample": _grid_sample,
    "image.affine_grid": _affine_grid,
}

# The operators of Relax in NumPy, by name: one table that joins those of the files beside this one.

MEANINGS: dict[str, Callable[..., Any]] = {**ELEMENTWISE, **REDUCTIONS, **SHAPES, **NETWORKS, **IMAGES}
"""Takes the values of an operator's arguments, and its attributes by name."""
