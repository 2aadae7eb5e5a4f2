"""Types of the operators of networks: convolutions, pooling, normalisation, attention, losses."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64
from tensorir.tir.relax import nodes as r
from tensorir.tir.relax.padding import sides_of
from tensorir.tir.relax.rules.operands import (
    Contradiction,
    Rule,
    TypeOf,
    combine,
    count_of,
    differ,
    dtype_or,
    int_of,
    ints_of,
    say,
    tensor_of,
)

__all__ = ["NETWORKS", "layout_sizes"]


def layout_sizes(call: r.Call, x: r.TensorType, key: str) -> tuple[dict[str, n.Expr], str] | None:
    """The sizes of a tensor by the letters of its layout; None for layouts that pack dimensions."""
    text = str(call.attrs.get(key))
    if not text.isalpha() or not text.isupper():
        return None
    if x.ndim >= 0 and x.ndim != len(text):
        raise Contradiction(f"R.{call.op} takes a tensor of the layout {text}, and this has {x.ndim} dimensions.")
    if x.shape is None:
        return None
    return dict(zip(text, x.shape, strict=True)), text


def _needs(call: r.Call, layout: str, letters: str) -> None:
    """Raise where a layout lacks a letter, or has one twice."""
    if len(set(layout)) != len(layout) or not set(letters) <= set(layout):
        wanted = ", ".join(letters)
        raise Contradiction(f"R.{call.op} takes a layout with the letters {wanted}, and this is {layout!r}.")


def _ordered(call: r.Call, sizes: Mapping[str, n.Expr], letters: str) -> tuple[n.Expr, ...]:
    """The sizes of a result in the order of its layout, which is that of the data where no other is stated."""
    order = str(call.attrs.get("out_layout") or letters)
    if sorted(order) != sorted(letters):
        raise Contradiction(f"R.{call.op} gives a layout with the letters {', '.join(letters)}, and not {order!r}.")
    return tuple(sizes[letter] for letter in order)


def _window(size: n.Expr, window: n.Expr | int, stride: int, pad: tuple[int, int], dilation: int, up: bool) -> n.Expr:
    """How many windows fit."""
    reach = combine("+", combine("*", combine("-", window, 1), dilation), 1)
    room = combine("-", combine("+", size, sum(pad)), reach)
    if up:
        room = combine("+", room, stride - 1)
    return combine("+", combine("//", room, stride), 1)


def _conv(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, w = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), x.dtype)
    data = layout_sizes(call, x, "data_layout")
    kernel = layout_sizes(call, w, "kernel_layout")
    if data is None or kernel is None:
        return r.TensorType(None, dtype, x.ndim)
    (sizes, letters), (weights, others) = data, kernel
    space = [letter for letter in letters if letter not in "NC"]
    _needs(call, letters, "NC")
    _needs(call, others, "".join(("O", "I", *space)))
    groups = count_of(call, "groups")
    if differ(sizes["C"], combine("*", weights["I"], groups)):
        expected = combine("*", weights["I"], groups)
        raise Contradiction(
            f"R.{call.op} has {say(sizes['C'])} channels of data, and its weights take {say(expected)}."
        )
    strides, dilation = (ints_of(call, key, len(space), least=1) for key in ("strides", "dilation"))
    pads = sides_of(ints_of(call, "padding", len(space), sides=2), len(space))
    out = {"N": sizes["N"], "C": weights["O"]}
    for letter, stride, pad, by in zip(space, strides, pads, dilation, strict=True):
        out[letter] = _window(sizes[letter], weights[letter], stride, pad, by, False)
    return r.TensorType(_ordered(call, out, letters), dtype)


def _conv_transpose(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, w = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), x.dtype)
    data = layout_sizes(call, x, "data_layout")
    kernel = layout_sizes(call, w, "kernel_layout")
    if data is None or kernel is None:
        return r.TensorType(None, dtype, x.ndim)
    (sizes, letters), (weights, others) = data, kernel
    space = [letter for letter in letters if letter not in "NC"]
    _needs(call, letters, "NC")
    _needs(call, others, "".join(("O", "I", *space)))
    strides, dilation = (ints_of(call, key, len(space), least=1) for key in ("strides", "dilation"))
    extra = ints_of(call, "output_padding", len(space))
    pads = sides_of(ints_of(call, "padding", len(space), sides=2), len(space))
    groups = count_of(call, "groups")
    out = {"N": sizes["N"], "C": combine("*", weights["O"], groups)}
    for letter, stride, pad, by, more in zip(space, strides, pads, dilation, extra, strict=True):
        reach = combine("*", combine("-", weights[letter], 1), by)
        total = combine("+", combine("*", combine("-", sizes[letter], 1), stride), reach)
        out[letter] = combine("+", combine("-", total, sum(pad)), more + 1)
    return r.TensorType(_ordered(call, out, letters), dtype)


def _pool(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    data = layout_sizes(call, x, "layout")
    if data is None:
        return r.TensorType(None, x.dtype, x.ndim)
    sizes, letters = data
    _needs(call, letters, "NC")
    space = [letter for letter in letters if letter not in "NC"]
    keys = ("pool_size", "strides", "dilation")
    window, strides, dilation = (ints_of(call, key, len(space), least=1) for key in keys)
    pads = sides_of(ints_of(call, "padding", len(space), sides=2), len(space))
    up = call.attrs.get("ceil_mode") is True
    out = dict(sizes)
    for letter, size, stride, pad, by in zip(space, window, strides, pads, dilation, strict=True):
        count = _window(sizes[letter], const(size, INT64), stride, pad, by, up)
        known, extent = int_of(count), int_of(sizes[letter])
        if up and known is not None and extent is not None and (known - 1) * stride >= extent + pad[0]:
            count = const(known - 1, INT64)  # the last window would start behind the data
        out[letter] = count
    return r.TensorType(_ordered(call, out, letters), x.dtype)


def _adaptive(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, size = tensor_of(call, 0, type_of), call.attrs.get("output_size")
    data = layout_sizes(call, x, "layout")
    if data is None or size is None:
        return x
    sizes, letters = data
    _needs(call, letters, "NC")
    space = [letter for letter in letters if letter not in "NC"]
    wanted = ints_of(call, "output_size", len(space), least=1)
    out = {**sizes, **{k: const(s, INT64) for k, s in zip(space, wanted, strict=True)}}
    return r.TensorType(_ordered(call, out, letters), x.dtype)


def _batch_norm(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    return r.TupleType((tensor_of(call, 0, type_of), tensor_of(call, 3, type_of), tensor_of(call, 4, type_of)))


def _dropout(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TupleType((x, x))


def _nll(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, y = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    return (
        r.TensorType(y.shape, x.dtype, y.ndim) if call.attrs.get("reduction") == "none" else r.TensorType((), x.dtype)
    )


def _attention(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    q, k, v = (tensor_of(call, i, type_of) for i in range(3))
    if q.shape is None or k.shape is None or v.shape is None:
        return r.TensorType(None, q.dtype, q.ndim)
    if len(q.shape) != 4 or len(k.shape) != 4 or len(v.shape) != 4:
        raise Contradiction(f"R.{call.op} takes tensors of four dimensions.")
    if differ(q.shape[3], k.shape[3]):
        raise Contradiction(
            f"R.{call.op} compares queries of size {say(q.shape[3])} with keys of size {say(k.shape[3])}."
        )
    return r.TensorType((*q.shape[:3], v.shape[3]), q.dtype)


def _pad(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, width = tensor_of(call, 0, type_of), call.attrs.get("pad_width")
    flat = (
        [w for part in width for w in (part if isinstance(part, tuple) else (part,))]
        if isinstance(width, tuple)
        else []
    )
    if x.shape is None or len(flat) != 2 * len(x.shape):
        return r.TensorType(None, x.dtype, x.ndim)
    sums = [a + b for a, b in zip(flat[::2], flat[1::2], strict=True) if isinstance(a, int) and isinstance(b, int)]
    return r.TensorType(tuple(combine("+", s, w) for s, w in zip(x.shape, sums, strict=True)), x.dtype)


def _pixel_shuffle(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, by = tensor_of(call, 0, type_of), call.attrs.get("upscale_factor")
    if x.shape is None or len(x.shape) < 3 or not isinstance(by, int):
        return r.TensorType(None, x.dtype, x.ndim)
    *batch, channels, height, width = x.shape
    sizes = (*batch, combine("//", channels, by * by), combine("*", height, by), combine("*", width, by))
    return r.TensorType(sizes, x.dtype)


NETWORKS: dict[str, Rule] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "pool": _pool,
    "adaptive": _adaptive,
    "batch_norm": _batch_norm,
    "dropout": _dropout,
    "cross_entropy": lambda call, type_of: r.TensorType((), tensor_of(call, 0, type_of).dtype),
    "nll": _nll,
    "attention": _attention,
    "pad": _pad,
    "pixel_shuffle": _pixel_shuffle,
}
"""The rules, by the word of the table of operators."""
