"""Types of operators that move elements, and of those of networks and images."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tensorir.relax import nodes as r
from tensorir.relax.operators import is_left_out, letters_of, sides_of
from tensorir.relax.rules_of_elements import (
    Contradiction,
    Rule,
    TypeOf,
    axes_of,
    axis_of,
    broadcast,
    combine,
    count_of,
    differ,
    dtype_or,
    int_of,
    ints_of,
    members_of,
    product_of,
    say,
    shape_argument,
    sum_of,
    tensor_of,
)
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64, DataType
from tensorir.tir.ranges import interval
from tensorir.tir.script.values import members

# Types of the operators that move elements: reshape, transpose, join, split, take, slice.


def _reshape(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    shape = shape_argument(call, 1, type_of)
    if shape is None:
        return r.TensorType(None, x.dtype)
    if x.shape is not None:  # 0 keeps the size at its place
        kept = [k for k, size in enumerate(shape) if int_of(size) == 0 and k < len(x.shape)]
        shape = tuple(x.shape[k] if k in kept else size for k, size in enumerate(shape))
    unknown = [k for k, size in enumerate(shape) if int_of(size) == -1]
    if (x.shape is None and any(int_of(size) == 0 for size in shape)) or len(unknown) > 1:
        return r.TensorType(None, x.dtype, len(shape))
    if x.shape is not None:
        total, rest = product_of(x.shape), product_of(tuple(s for k, s in enumerate(shape) if k not in unknown))
        if unknown:
            shape = tuple(combine("//", total, rest) if k in unknown else s for k, s in enumerate(shape))
        elif differ(total, rest):
            raise Contradiction(f"R.reshape keeps the number of elements, and makes {say(rest)} of {say(total)}.")
    return r.TensorType(shape, x.dtype)


def _broadcast_to(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, shape = tensor_of(call, 0, type_of), shape_argument(call, 1, type_of)
    if x.shape is not None and shape is not None:
        if len(shape) < len(x.shape):
            raise Contradiction(f"R.broadcast_to cannot drop dimensions: {len(x.shape)} become {len(shape)}.")
        for a, b in zip(reversed(x.shape), reversed(shape), strict=False):
            if int_of(a) != 1 and differ(a, b):
                raise Contradiction(f"R.broadcast_to cannot make size {say(b)} of {say(a)}.")
    return r.TensorType(shape, x.dtype)


def _collapse(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    return r.TensorType(shape_argument(call, 1, type_of), tensor_of(call, 0, type_of).dtype)


def _like_second(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, y = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    return r.TensorType(y.shape, x.dtype, y.ndim)


def _permute(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, axes = tensor_of(call, 0, type_of), call.attrs.get("axes")
    if x.ndim < 0:
        return x
    order = list(reversed(range(x.ndim))) if axes is None else axes_of(axes, x.ndim, call.op)
    if len(order) != x.ndim:
        raise Contradiction(f"R.permute_dims names {len(order)} of {x.ndim} dimensions.")
    return r.TensorType(None if x.shape is None else tuple(x.shape[k] for k in order), x.dtype, x.ndim)


def _expand(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, axis = tensor_of(call, 0, type_of), call.attrs.get("axis")
    count = len(axis) if isinstance(axis, tuple) else 1
    if x.ndim < 0:
        return r.TensorType(None, x.dtype)
    new = set(axes_of(axis, x.ndim + count, call.op))
    if x.shape is None:
        return r.TensorType(None, x.dtype, x.ndim + count)
    rest = iter(x.shape)
    sizes = tuple(const(1, INT64) if k in new else next(rest) for k in range(x.ndim + count))
    return r.TensorType(sizes, x.dtype)


def _squeeze(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, axis = tensor_of(call, 0, type_of), call.attrs.get("axis")
    if x.shape is None:
        return r.TensorType(None, x.dtype)
    if axis is None:
        if any(int_of(size) is None for size in x.shape):
            return r.TensorType(None, x.dtype)
        return r.TensorType(tuple(size for size in x.shape if int_of(size) != 1), x.dtype)
    named = axes_of(axis, len(x.shape), call.op)
    dropped = {k for k in named if int_of(x.shape[k]) in (None, 1)}  # one of more elements stays, as in TVM
    return r.TensorType(tuple(s for k, s in enumerate(x.shape) if k not in dropped), x.dtype)


def _flatten(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TensorType(None if x.shape is None else (product_of(x.shape),), x.dtype, 1)


def _batch_flatten(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TensorType(None if not x.shape else (x.shape[0], product_of(x.shape[1:])), x.dtype, 2)


def _concat(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    fields = members_of(call, type_of)
    if not fields:
        return r.ObjectType()
    axis = call.attrs.get("axis")
    dtypes = {f.dtype for f in fields if f.dtype is not None}
    if len(dtypes) > 1:
        raise Contradiction(f"R.{call.op} joins tensors of one type, not {', '.join(sorted(map(str, dtypes)))}.")
    shapes = [f.shape for f in fields if f.shape is not None]
    dtype = fields[0].dtype
    if len(shapes) != len(fields):
        return r.TensorType(None, dtype, max(f.ndim for f in fields))
    if axis is None:
        return r.TensorType((sum_of([product_of(shape) for shape in shapes]),), dtype)
    ndim = len(shapes[0])
    position = axis_of(axis, ndim, call.op)
    for shape in shapes[1:]:
        if len(shape) != ndim:
            raise Contradiction(f"R.{call.op} joins tensors of as many dimensions, not {ndim} and {len(shape)}.")
        for k in range(ndim):
            if k != position and differ(shape[k], shapes[0][k]):
                raise Contradiction(
                    f"R.{call.op} joins sizes {say(shapes[0][k])} and {say(shape[k])} along dimension {k}."
                )
    total = sum_of([shape[position] for shape in shapes])
    return r.TensorType((*shapes[0][:position], total, *shapes[0][position + 1 :]), dtype)


def _stack(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    fields = members_of(call, type_of)
    if not fields or fields[0].shape is None:
        return r.ObjectType() if not fields else r.TensorType(None, fields[0].dtype)
    axis = call.attrs.get("axis") or 0
    shape = fields[0].shape
    position = axis_of(axis, len(shape) + 1, call.op)
    return r.TensorType((*shape[:position], const(len(fields), INT64), *shape[position:]), fields[0].dtype)


def _split(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    """The types of the parts; one part is no tuple."""
    x, parts = tensor_of(call, 0, type_of), call.attrs.get("indices_or_sections")
    if x.shape is None:
        return r.ObjectType()
    axis = axis_of(call.attrs.get("axis"), len(x.shape), call.op)
    size = x.shape[axis]

    def piece(length: n.Expr) -> r.TensorType:
        assert x.shape is not None
        return r.TensorType((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)

    parts = parts.value if isinstance(parts, n.IntImm) else parts
    if parts in (1, ()):
        return x
    if isinstance(parts, int):
        length = combine("//", combine("+", size, parts - 1), parts)
        last = combine("-", size, combine("*", length, parts - 1)) if int_of(size) is not None else length
        return r.TupleType((*[piece(length)] * (parts - 1), piece(last)))
    marks = [m.value if isinstance(m, n.IntImm) else m for m in parts] if isinstance(parts, tuple) else []
    bounds: list[n.Expr] = [const(0, INT64)]
    for mark in marks:
        if not isinstance(mark, int):
            return r.ObjectType()
        limit = int_of(size)
        bounds.append(const(min(mark, limit) if limit is not None else mark, INT64))
    bounds.append(size)
    pairs = pairwise(bounds)
    return r.TupleType(tuple(piece(combine("-", b, a)) for a, b in pairs))


def _tile(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, repeats = tensor_of(call, 0, type_of), call.attrs.get("repeats")
    if x.shape is None:
        return r.TensorType(None, x.dtype)
    counts = [c for c in members(repeats) or (repeats,) if isinstance(c, int)]
    ndim = max(len(counts), len(x.shape))
    sizes = (*[const(1, INT64)] * (ndim - len(x.shape)), *x.shape)
    counts = [1] * (ndim - len(counts)) + counts
    return r.TensorType(tuple(combine("*", s, c) for s, c in zip(sizes, counts, strict=True)), x.dtype)


def _repeat(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, repeats, axis = tensor_of(call, 0, type_of), call.attrs.get("repeats"), call.attrs.get("axis")
    if x.shape is None or not isinstance(repeats, int):
        return r.TensorType(None, x.dtype, x.ndim)
    if axis is None:
        return r.TensorType((combine("*", product_of(x.shape), repeats),), x.dtype)
    position = axis_of(axis, len(x.shape), call.op)
    longer = combine("*", x.shape[position], repeats)
    return r.TensorType((*x.shape[:position], longer, *x.shape[position + 1 :]), x.dtype)


def _take(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, i, axis = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of), call.attrs.get("axis")
    if x.shape is None or i.shape is None:
        return r.TensorType(None, x.dtype)
    if axis is None:
        if len(x.shape) != 1:
            raise Contradiction("R.take needs an axis, unless the tensor has one dimension.")
        axis = 0
    position = axis_of(axis, len(x.shape), call.op)
    return r.TensorType((*x.shape[:position], *i.shape, *x.shape[position + 1 :]), x.dtype)


def _gather_nd(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, i = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    batch = call.attrs.get("batch_dims")
    if x.shape is None or not i.shape or not isinstance(batch, int) or (depth := int_of(i.shape[-1])) is None:
        return r.TensorType(None, x.dtype)
    return r.TensorType((*i.shape[:-1], *x.shape[batch + depth :]), x.dtype)


def _index_tensor(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    known = type_of(call.args[1]) if len(call.args) > 1 else None
    if x.shape is None or not isinstance(known, r.TupleType):
        return r.TensorType(None, x.dtype)
    total = r.TensorType((), None)
    for item in known.fields:
        if not isinstance(item, r.TensorType):
            return r.TensorType(None, x.dtype)
        shape, ndim = broadcast(total, item, call.op)
        total = r.TensorType(shape, None, ndim)
    if total.shape is None:
        return r.TensorType(None, x.dtype)
    return r.TensorType((*total.shape, *x.shape[len(known.fields) :]), x.dtype)


def _strided_slice(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    parts = [shape_argument(call, k, type_of) for k in range(1, len(call.args))]
    if any(isinstance(type_of(a), r.PrimValueType) for a in call.args[1:]):
        raise Contradiction(f"R.{call.op} takes a number for each axis, in brackets.")
    if len({len(part) for part in parts if part is not None}) > 1:
        raise Contradiction(f"R.{call.op} takes as many numbers as axes.")
    if x.shape is None or len(parts) < 3 or any(part is None for part in parts[:3]):
        return r.TensorType(None, x.dtype, x.ndim)
    axes, begin, end = (part or () for part in parts[:3])
    strides = parts[3] if len(parts) > 3 and parts[3] is not None else tuple(const(1, INT64) for _ in axes)
    sizes = list(x.shape)
    for axis, first, last, step in zip(axes, begin, end, strides, strict=False):
        position = int_of(axis)
        if position is None:
            return r.TensorType(None, x.dtype, x.ndim)
        position = axis_of(position, len(sizes), call.op)
        numbers = (int_of(sizes[position]), int_of(first), int_of(last), int_of(step))
        if any(number is None for number in numbers) or numbers[3] == 0:
            return r.TensorType(None, x.dtype, x.ndim)
        size, start, stop, by = (number or 0 for number in numbers)
        sizes[position] = const(len(range(*slice(start, stop, by).indices(size))), INT64)
    return r.TensorType(tuple(sizes), x.dtype)


def _shape_of(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.ShapeType(x.shape, x.ndim)


def _layout(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    """The box of the indices that the map gives, where the sizes are numbers."""
    x, index_map = tensor_of(call, 0, type_of), call.attrs.get("index_map")
    if not isinstance(index_map, n.IndexMap):
        return r.TensorType(None, x.dtype)
    count = len(index_map.final_indices)
    extents = [int_of(size) for size in x.shape or ()]
    known = {var: (0, size - 1) for var, size in zip(index_map.initial_indices, extents, strict=False) if size}
    reach = [interval(index, known) for index in index_map.final_indices]
    if x.shape is None or len(known) != len(x.shape) or any(bounds is None for bounds in reach):
        return r.TensorType(None, x.dtype, count)
    return r.TensorType(tuple(const(bounds[1] + 1, INT64) for bounds in reach if bounds is not None), x.dtype)


def _view(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    dtypes = [arg.value for arg in call.args if isinstance(arg, r.DataTypeValue | r.StringValue)]
    dtype = dtype_or(dtypes[0], None) if dtypes else x.dtype
    if len(call.args) < 2 or is_left_out("memory.view", 1, call.args[1]):
        return r.TensorType(x.shape, dtype, x.ndim)
    return r.TensorType(shape_argument(call, 1, type_of), dtype)


SHAPES: dict[str, Rule] = {
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "collapse_to": _collapse,
    "like_second": _like_second,
    "second": _like_second,
    "permute_dims": _permute,
    "expand_dims": _expand,
    "squeeze": _squeeze,
    "flatten": _flatten,
    "batch_flatten": _batch_flatten,
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    "tile": _tile,
    "repeat": _repeat,
    "take": _take,
    "gather_nd": _gather_nd,
    "index_tensor": _index_tensor,
    "strided_slice": _strided_slice,
    "dynamic_slice": lambda call, type_of: r.TensorType(
        None, tensor_of(call, 0, type_of).dtype, tensor_of(call, 0, type_of).ndim
    ),
    "layout": _layout,
    "shape_of": _shape_of,
    "shape_to_tensor": lambda call, type_of: r.TensorType(None, INT64, 1),
    "tensor_to_shape": lambda call, type_of: r.ShapeType(None),
    "size": lambda call, type_of: r.TensorType((), INT64),
    "view": _view,
}
"""The rules, by the word of the table of operators."""

# Types of the operators of networks: convolutions, pooling, normalisation, attention, losses.


def layout_sizes(call: r.Call, x: r.TensorType, key: str) -> tuple[dict[str, n.Expr], str] | None:
    """The sizes of a tensor by the letters of its layout, with those in packs counted in, and these letters in order;
    None where the sizes are not known.
    """
    text = str(call.attrs.get(key))
    letters, packs = _layout_of_images(call, text)
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


def _layout_of_images(call: r.Call, text: str) -> tuple[list[str], dict[str, int]]:
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
    order, packs = _layout_of_images(call, _result_layout(call))
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
    return r.TensorType(None, dtype, len(_layout_of_images(call, _result_layout(call))[0]))


def _window(size: n.Expr, window: n.Expr | int, stride: int, pad: tuple[int, int], dilation: int, up: bool) -> n.Expr:
    """The number of windows that fit."""
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
    x, asked = tensor_of(call, 0, type_of), call.attrs.get("pad_width")
    widths = [w for w in asked if isinstance(w, int) and w >= 0] if isinstance(asked, tuple) else []
    if not isinstance(asked, tuple) or len(widths) < len(asked):
        raise Contradiction("R.nn.pad takes whole widths in one list, two of each axis: [before, behind, ...].")
    if x.shape is None or len(widths) != 2 * len(x.shape):
        return r.TensorType(None, x.dtype, x.ndim)
    sums = [a + b for a, b in zip(widths[::2], widths[1::2], strict=True)]
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

# Types of the operators on images.


def _resize(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, size = tensor_of(call, 0, type_of), shape_argument(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), x.dtype)
    data = layout_sizes(call, x, "layout")
    if data is None or size is None:
        return unknown_sizes(call, dtype)
    sizes, letters = data
    space = [letter for letter in letters if letter not in "NC"]
    if len(size) == 1:
        size = size * len(space)
    if len(size) != len(space):
        raise Contradiction(f"R.{call.op} takes {len(space)} sizes, and this gives {len(size)}.")
    return r.TensorType(ordered_sizes(call, {**sizes, **dict(zip(space, size, strict=True))}), dtype)


def _grid_sample(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, grid = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    data = layout_sizes(call, x, "layout")
    if data is None or grid.shape is None or len(data[1]) != len(grid.shape):
        return unknown_sizes(call, x.dtype)
    sizes, letters = data
    space = [letter for letter in letters if letter not in "NC"]
    return r.TensorType(ordered_sizes(call, {**sizes, **dict(zip(space, grid.shape[2:], strict=True))}), x.dtype)


def _affine_grid(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, size = tensor_of(call, 0, type_of), shape_argument(call, 1, type_of)
    if x.shape is None or size is None:
        return r.TensorType(None, x.dtype)
    return r.TensorType((x.shape[0], const(len(size), INT64), *size), x.dtype)


IMAGES: dict[str, Rule] = {
    "resize": _resize,
    "grid_sample": _grid_sample,
    "affine_grid": _affine_grid,
}
"""The rules, by the word of the table of operators."""
