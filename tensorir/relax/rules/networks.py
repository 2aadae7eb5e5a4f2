"""Types of the operators of networks: convolutions, pooling, normalisation, attention, losses."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.relax import nodes as r
from tensorir.relax.layouts import letters_of
from tensorir.relax.padding import sides_of
from tensorir.relax.rules.operands import (
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
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64, DataType

__all__ = ["NETWORKS", "layout_sizes", "ordered_sizes", "unknown_sizes"]


def layout_sizes(call: r.Call, x: r.TensorType, key: str) -> tuple[dict[str, n.Expr], str] | None:
    """The sizes of a tensor by the letters of its layout, with those in packs counted in, and these letters in order;
    None where the sizes are not known.
    """
    text = str(call.attrs.get(key))
    letters, packs = _layout(call, text)
    if x.ndim >= 0 and x.ndim != len(letters):
        raise Contradiction(f"R.{call.op} takes a tensor of the layout {text}, and this has {x.ndim} dimensions.")
    if x.shape is None:
        return None
    extent = dict(zip(letters, x.shape, strict=True))
    for letter, pack in packs.items():
        if differ(extent[letter], const(pack, INT64)):
            message = f"R.{call.op} takes packs of {pack} in the layout {text}, and this has {say(extent[letter])}."
            raise Contradiction(message)
    plain = "".join(letter for letter in letters if letter.isupper())
    return {d: combine("*", extent[d], packs.get(d.lower(), 1)) for d in plain}, plain


def _layout(call: r.Call, text: str) -> tuple[list[str], dict[str, int]]:
    """The letters of a layout in order, and the sizes of its packs; each pack is of a dimension that it has."""
    letters, packs = letters_of(text)
    whole = "".join(f"{packs.get(letter, '')}{letter}" for letter in letters) == text
    if not whole or {c for c in letters if c.islower()} != set(packs) or not {c.upper() for c in packs} <= set(letters):
        raise Contradiction(f"R.{call.op} takes a layout such as NCHW or NCHW4c, and this is {text!r}.")
    return letters, packs


def _needs(call: r.Call, layout: str, letters: str) -> None:
    """Raise where a layout lacks a letter, or has one twice."""
    if len(set(layout)) != len(layout) or not set(letters) <= set(layout):
        wanted = ", ".join(letters)
        raise Contradiction(f"R.{call.op} takes a layout with the letters {wanted}, and this is {layout!r}.")


def ordered_sizes(call: r.Call, sizes: Mapping[str, n.Expr]) -> tuple[n.Expr, ...]:
    """The sizes of a result in the order of its layout, which is that of the data where no other is stated."""
    order, packs = _layout(call, _result_layout(call))
    if sorted(letter for letter in order if letter.isupper()) != sorted(sizes):
        wanted = f"a layout with the letters {', '.join(sizes)}, and not {_result_layout(call)!r}"
        raise Contradiction(f"R.{call.op} gives {wanted}.")
    found: list[n.Expr] = []
    for letter in order:
        if letter.islower():
            found.append(const(packs[letter], INT64))
            continue
        size, pack = sizes[letter], packs.get(letter.lower(), 1)
        found.append(size if pack == 1 else combine("//", combine("+", size, pack - 1), pack))
    return tuple(found)


def _result_layout(call: r.Call) -> str:
    return str(call.attrs.get("out_layout") or call.attrs.get("layout") or call.attrs.get("data_layout"))


def unknown_sizes(call: r.Call, dtype: DataType | None) -> r.TensorType:
    """A result of which only the layout is known."""
    return r.TensorType(None, dtype, len(_layout(call, _result_layout(call))[0]))


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
        return unknown_sizes(call, dtype)
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
    return r.TensorType(ordered_sizes(call, out), dtype)


def _conv_transpose(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, w = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), x.dtype)
    data = layout_sizes(call, x, "data_layout")
    kernel = layout_sizes(call, w, "kernel_layout")
    if data is None or kernel is None:
        return unknown_sizes(call, dtype)
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
    return r.TensorType(ordered_sizes(call, out), dtype)


def _pool(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    data = layout_sizes(call, x, "layout")
    if data is None:
        return unknown_sizes(call, x.dtype)
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
    return r.TensorType(ordered_sizes(call, out), x.dtype)


def _adaptive(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    data = layout_sizes(call, x, "layout")
    if data is None:
        return unknown_sizes(call, x.dtype)
    sizes, letters = data
    _needs(call, letters, "NC")
    if call.attrs.get("output_size") is None:
        return r.TensorType(ordered_sizes(call, sizes), x.dtype)
    space = [letter for letter in letters if letter not in "NC"]
    wanted = ints_of(call, "output_size", len(space), least=1)
    return r.TensorType(
        ordered_sizes(call, {**sizes, **{k: const(s, INT64) for k, s in zip(space, wanted, strict=True)}}), x.dtype
    )


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
