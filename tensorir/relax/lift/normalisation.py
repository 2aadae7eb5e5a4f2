"""Normalisations: what networks compose of means and deviations."""

# Attributes hold values of any type here.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorir.relax.lift.axes import axes_of
from tensorir.relax.lift.elementwise import converted, widened
from tensorir.relax.lift.reductions import mean, variance
from tensorir.relax.lift.reshaping import reshaped
from tensorir.relax.lift.values import Value, apply, filled, number

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


NORMALISATION: dict[str, Callable[..., Any]] = {
    "nn.rms_norm": _rms_norm,
    "nn.layer_norm": _layer_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.batch_norm": _batch_norm,
    "nn.dropout": lambda x, rate=0.5: (x, filled(number(1, x.element), x.shape)),
}
"""Means and deviations taken out."""
