"""Normalisations and attention: what networks compose of means, products and exponentials."""

# Attributes hold values of any type here.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import Any

from tensorir.lift.terms import Number
from tensorir.tir.lift.intrinsics import choice, op, truth
from tensorir.tir.lift.intrinsics import number as numbered
from tensorir.tir.lift.relax.elementwise import converted, widened
from tensorir.tir.lift.relax.products import matmul
from tensorir.tir.lift.relax.reductions import axes_of, mean, softmax, variance
from tensorir.tir.lift.relax.reshaping import permuted, reshaped
from tensorir.tir.lift.relax.values import Value, apply, filled, made, number
from tensorir.types import INT32

__all__ = ["NORMALISATION"]


def _along(weight: Value, axes: Sequence[int], x: Value) -> Value:
    """A weight with an axis for each axis of a tensor."""
    return widened(reshaped(weight, [s if k in axes else 1 for k, s in enumerate(x.shape)]))


def _normal(x: Value, over: Sequence[int], epsilon: float) -> Value:
    away = apply("minus", x, mean(x, over))
    spread = mean(apply("multiplies", away, away), over)
    return apply("divides", away, apply("sqrt", apply("plus", spread, float(epsilon))))


def _scaled(x: Value, like: Value, gamma: Value, beta: Value, axes: Sequence[int]) -> Value:
    found = apply("plus", apply("multiplies", x, _along(gamma, axes, like)), _along(beta, axes, like))
    return converted(found, like.element)


def _rms_norm(x: Value, weight: Value, axes: Any = -1, epsilon: float = 1e-5) -> Value:
    wide, over = widened(x), axes_of(axes, x.rank)
    squares = apply("plus", mean(apply("multiplies", wide, wide), over), float(epsilon))
    scale = apply("divides", filled(number(1, wide.element), ()), apply("sqrt", squares))
    return converted(apply("multiplies", apply("multiplies", scale, wide), _along(weight, over, x)), x.element)


def _layer_norm(x: Value, gamma: Value, beta: Value, axes: Any, epsilon: float = 1e-5, **_: Any) -> Value:
    over = axes_of(axes, x.rank)
    return _scaled(_normal(widened(x), over, epsilon), x, gamma, beta, over)


def _instance_norm(
    x: Value, gamma: Value, beta: Value, channel_axis: int, axes: Any, epsilon: float = 1e-5, **_: Any
) -> Value:
    return _scaled(_normal(widened(x), axes_of(axes, x.rank), epsilon), x, gamma, beta, [x.axis(channel_axis)])


def _group_norm(
    x: Value, gamma: Value, beta: Value, num_groups: int, channel_axis: int, axes: Any, epsilon: float = 1e-5, **_: Any
) -> Value:
    channel = x.axis(channel_axis)
    size = x.shape[channel] // num_groups
    apart = reshaped(widened(x), [*x.shape[:channel], num_groups, size, *x.shape[channel + 1 :]])
    others = [a for a in axes_of(axes, x.rank) if a != channel]
    over = sorted({channel + 1, *(a if a < channel else a + 1 for a in others)})
    return _scaled(reshaped(_normal(apart, over, epsilon), x.shape), x, gamma, beta, [channel])


def _batch_norm(
    x: Value, gamma: Value, beta: Value, moving_mean: Value, moving_var: Value, axis: int, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True, momentum: float = 0.1, training: bool = True,
) -> tuple[Value, Value, Value]:  # fmt: skip
    channel = x.axis(axis)
    others = [k for k in range(x.rank) if k != channel]
    wide = widened(x)
    average, spread = moving_mean, moving_var
    if training:
        average, spread = mean(wide, others, False), variance(wide, others, False)
    deviation = apply("sqrt", apply("plus", _along(spread, [channel], x), float(epsilon)))
    found = apply("divides", apply("minus", wide, _along(average, [channel], x)), deviation)
    found = apply("multiplies", found, _along(gamma, [channel], x)) if scale else found
    found = apply("plus", found, _along(beta, [channel], x)) if center else found
    if training:
        moving_mean = _moved(moving_mean, average, momentum)
        moving_var = _moved(moving_var, spread, momentum)
    return converted(found, x.element), moving_mean, moving_var


def _moved(old: Value, new: Value, momentum: float) -> Value:
    kept = apply("multiplies", widened(old), 1 - momentum)
    return converted(apply("plus", kept, apply("multiplies", new, momentum)), old.element)


def _attention(
    query: Value, key: Value, value: Value, bias: Value | None = None, scale: Any = None, causal_mask: Any = None,
    window_size: Any = None,
) -> Value:  # fmt: skip
    """Batch, sequence, heads, features; the scores in float32 at least."""
    if window_size is not None:
        raise NotImplementedError("a window of attention")
    q, k, v = (permuted(widened(a), (0, 2, 1, 3)) for a in (query, key, value))
    factor = 1 / sqrt(q.shape[-1]) if scale is None else float(scale)
    scores = apply("multiplies", matmul(q, k, transposed=True), factor)
    if bias is not None:
        scores = apply("plus", scores, widened(bias))
    if causal_mask is not None:
        rows, columns = scores.shape[-2:]
        ahead = Number(0 if str(causal_mask) == "TopLeft" else columns - rows, INT32)
        masked = scores
        scores = made(
            masked.shape,
            lambda ix, read: choice(
                truth("less_equal", ix[-1], op("plus", ix[-2], ahead)), read(*ix), numbered(-inf, masked.element)
            ),
            masked,
        )
    found = matmul(softmax(scores, 3), v)
    return converted(permuted(found, (0, 2, 1, 3)), query.element)


NORMALISATION: dict[str, Callable[..., Any]] = {
    "nn.rms_norm": _rms_norm,
    "nn.layer_norm": _layer_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.batch_norm": _batch_norm,
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
    "nn.dropout": lambda x, rate=0.5: (x, filled(number(1, x.element), x.shape)),
}
"""Means and deviations taken out; scores that weigh values."""
