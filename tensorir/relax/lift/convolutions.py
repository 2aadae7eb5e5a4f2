"""Convolutions and pooling: folds over windows, which the lowering makes convolutions and window reductions of."""

# Attributes hold values of any type here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorir.ir.types import BOOL, FLOAT64, INT32, INT64, SCALARS, dtype_of
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.lift.elementwise import converted, element, total, whole, widened
from tensorir.relax.lift.indexing import picked
from tensorir.relax.lift.reductions import computed_in
from tensorir.relax.lift.reshaping import padded, permuted, reshaped
from tensorir.relax.lift.values import Value, apply, constant, fold, number
from tensorir.relax.operators import reordered, sides_of, with_last_windows
from tensorir.tir.lift.intrinsics import op

Array = Any
_WINDOW: tuple[str, ...] = ("u", "v", "w")


def _many(value: Any, count: int) -> list[int]:
    if not isinstance(value, tuple | list):
        return [whole(value)] * count
    return [whole(v) for v in value] * (count if len(value) == 1 else 1)


def _ordered(x: Value, layout: str, wanted: str) -> Value:
    return reordered(x, layout, wanted, permuted, reshaped)


def _place(i: Term, step: int, inner: Term, gap: int) -> Term:
    return op("plus", op("multiplies", i, Number(step, INT32)), op("multiplies", inner, Number(gap, INT32)))


def _places(size: Sequence[int], window: Sequence[int], steps: Sequence[int], gaps: Sequence[int]) -> list[int]:
    """The number of windows along each axis."""
    return [(n - g * (k - 1) - 1) // s + 1 for n, k, s, g in zip(size, window, steps, gaps, strict=True)]


def _conv(count: int) -> Callable[..., Value]:
    spatial = "DHW"[3 - count :]

    def compute(
        data: Value, weight: Value, strides: Any, padding: Any, dilation: Any, groups: Any, data_layout: str,
        kernel_layout: str, out_layout: Any = None, out_dtype: Any = None,
    ) -> Value:  # fmt: skip
        kind = element(out_dtype, data.element)
        inner = computed_in(kind)
        x = converted(_ordered(data, data_layout, f"NC{spatial}"), inner)
        w = converted(_ordered(weight, kernel_layout, f"OI{spatial}"), inner)
        x = padded(x, [(0, 0), (0, 0), *sides_of(_many(padding, count), count)], 0)
        found = convolved(x, w, _many(strides, count), _many(dilation, count), whole(groups))
        return _ordered(converted(found, kind), f"NC{spatial}", out_layout or data_layout)

    return compute


def convolved(x: Value, w: Value, steps: Sequence[int], gaps: Sequence[int], groups: int) -> Value:
    """Batch, channels, places; the kernel has outputs, inputs of one group, window."""
    count = len(steps)
    places = _places(x.shape[2:], w.shape[2:], steps, gaps)
    outputs, channels = w.shape[0] // groups, w.shape[1]
    over = {"k": channels, **dict(zip(_WINDOW, w.shape[2:], strict=False))}

    def term(ix: Any, further: Any, data: Any, kernel: Any) -> Term:
        k, *window = further
        at = [_place(*p) for p in zip(ix[-count:], steps, window, gaps, strict=True)]
        if groups == 1:
            return op("multiplies", data(ix[0], k, *at), kernel(ix[1], k, *window))
        return op("multiplies", data(ix[0], ix[1], k, *at), kernel(ix[1], ix[2], k, *window))

    if groups == 1:
        return fold("plus", 0, (x.shape[0], outputs, *places), over, term, x, w)
    parts = reshaped(x, (x.shape[0], groups, channels, *x.shape[2:]))
    kernels = reshaped(w, (groups, outputs, channels, *w.shape[2:]))
    found = fold("plus", 0, (x.shape[0], groups, outputs, *places), over, term, parts, kernels)
    return reshaped(found, (x.shape[0], groups * outputs, *places))


def _conv_transpose(count: int) -> Callable[..., Value]:
    """The data spread out by the strides, convolved with the kernel turned around."""
    spatial = "DHW"[3 - count :]

    def compute(
        data: Value, weight: Value, strides: Any, padding: Any, output_padding: Any, dilation: Any, groups: Any,
        data_layout: str, kernel_layout: str, out_layout: Any = None, out_dtype: Any = None,
    ) -> Value:  # fmt: skip
        kind, groups = element(out_dtype, data.element), whole(groups)
        inner = computed_in(kind)
        x = converted(_ordered(data, data_layout, f"NC{spatial}"), inner)
        w = converted(_ordered(weight, kernel_layout, f"IO{spatial}"), inner)
        steps, gaps, extra = (_many(v, count) for v in (strides, dilation, output_padding))
        sides = sides_of(_many(padding, count), count)
        size = w.shape[2:]
        if any(s > 1 for s in steps):
            apart = reshaped(x, [*x.shape[:2], *(n for s in x.shape[2:] for n in (s, 1))])
            apart = padded(apart, [(0, 0), (0, 0), *(p for s in steps for p in ((0, 0), (0, s - 1)))], 0)
            x = reshaped(apart, [*x.shape[:2], *(n * s for n, s in zip(x.shape[2:], steps, strict=True))])
        reach = [g * (k - 1) for k, g in zip(size, gaps, strict=True)]
        around = [(r - a, r - b + e - (s - 1)) for r, (a, b), e, s in zip(reach, sides, extra, steps, strict=True)]
        x = padded(x, [(0, 0), (0, 0), *around], 0)
        channels = w.shape[0] // groups
        turned = _turned(w)
        kernels = reshaped(turned, (groups, channels, *w.shape[1:]))
        kernels = permuted(kernels, (0, 2, 1, *range(3, 3 + count)))
        kernels = reshaped(kernels, (groups * w.shape[1], channels, *size))
        found = convolved(x, kernels, [1] * count, gaps, groups)
        return _ordered(converted(found, kind), f"NC{spatial}", out_layout or data_layout)

    return compute


def _turned(w: Value) -> Value:
    from tensorir.relax.lift.reshaping import RESHAPING

    return RESHAPING["flip"](w, tuple(range(2, w.rank)))


def _pool(count: int, average: bool) -> Callable[..., Value]:
    spatial = "DHW"[3 - count :]

    def compute(
        data: Value, pool_size: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: Any,
        count_include_pad: Any, layout: str, out_layout: Any = None,
    ) -> Value:  # fmt: skip
        if data.element == BOOL:
            raise NotImplementedError("truth values have no sums and no largest one")
        x = widened(_ordered(data, layout, f"NC{spatial}"))
        size, steps, gaps = (_many(v, count) for v in (pool_size, strides, dilation))
        sides = sides_of(_many(padding, count), count)
        more = with_last_windows(sides, x.shape[2:], size, steps, gaps) if ceil_mode else sides
        if average and not x.element.is_float:  # the sum of a window has room
            x = converted(x, SCALARS["uint64"] if x.element == SCALARS["uint64"] else INT64)
        limits = np.finfo if x.element.is_float else np.iinfo
        low = 0 if average else limits(dtype_of(x.element)).min
        over = dict(zip(_WINDOW, size, strict=False))

        def term(ix: Any, further: Any, read: Any) -> Term:
            return read(*ix[:2], *(_place(*p) for p in zip(ix[2:], steps, further, gaps, strict=True)))

        wide = padded(x, [(0, 0), (0, 0), *more], low)
        places = _places(wide.shape[2:], size, steps, gaps)
        found = fold("plus" if average else "max", low, (*x.shape[:2], *places), over, term, wide)
        if average:
            found = apply("divides", found, _counts(x, sides, more, size, steps, gaps, bool(count_include_pad)))
        return _ordered(converted(found, data.element), f"NC{spatial}", out_layout or layout)

    return compute


def _counts(
    x: Value, sides: Sequence[tuple[int, int]], more: Sequence[tuple[int, int]], size: Sequence[int],
    steps: Sequence[int], gaps: Sequence[int], padding: bool,
) -> Value:  # fmt: skip
    """The number of elements of each window: a product of those along each axis."""
    found = np.ones((), dtype_of(x.element))
    for k in range(len(size)):
        length = x.shape[2 + k]
        (a, b), (_, c) = sides[k], more[k]
        low, high = (0, a + length + b) if padding else (a, a + length)
        starts = range(0, a + length + c - gaps[k] * (size[k] - 1), steps[k])
        line = [sum(low <= start + u * gaps[k] < high for u in range(size[k])) for start in starts]
        found = np.multiply.outer(found, np.asarray(line, found.dtype))
    return constant(found, "count")


def _adaptive(count: int) -> Callable[..., Value]:
    """Means of parts that cover an axis, of which neighbours may share an element."""
    spatial = "DHW"[3 - count :]

    def compute(data: Value, output_size: Any = None, layout: str = "", out_layout: Any = None) -> Value:
        x = widened(_ordered(data, layout, f"NC{spatial}"))
        x = x if x.element.is_float else converted(x, FLOAT64)
        sizes = x.shape[2:] if output_size is None else _many(output_size, count)
        for k, size in enumerate(sizes):
            along, length = 2 + k, x.shape[2 + k]
            starts = [i * length // size for i in range(size)]
            widths = [-(-(i + 1) * length // size) - start for i, start in enumerate(starts)]
            width = max(widths)
            every: Array = np.add.outer(starts, np.arange(width))
            if length != size * width:
                x = picked(x, along, every.clip(0, length - 1).reshape(-1))
            x = reshaped(x, (*x.shape[:along], size, width, *x.shape[along + 1 :]))
            wide = (size, width, *(1 for _ in x.shape[along + 2 :]))
            if min(widths) < width:  # what lies in no part may be infinite
                inside = np.arange(width) < np.array(widths)[:, None]
                x = apply("if", constant(inside.reshape(wide), "inside"), x, number(0, x.element))
            table: Array = np.array(widths, dtype_of(x.element)).reshape(size, *wide[2:])
            x = apply("divides", total(x, (along + 1,), False), constant(table, "count"))
        return _ordered(converted(x, data.element), f"NC{spatial}", out_layout or layout)

    return compute


CONVOLUTIONS: dict[str, Callable[..., Any]] = {
    **{f"nn.conv{k}d": _conv(k) for k in (1, 2, 3)},
    **{f"nn.conv{k}d_transpose": _conv_transpose(k) for k in (1, 2, 3)},
    **{f"nn.max_pool{k}d": _pool(k, False) for k in (1, 2, 3)},
    **{f"nn.avg_pool{k}d": _pool(k, True) for k in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{k}d": _adaptive(k) for k in (1, 2, 3)},
}
"""Windows that move over the last axes."""
