"""`T.Buffer`, `T.match_buffer`, `T.alloc_buffer`, and the methods of buffers."""

from __future__ import annotations

from tensorir.runtime.errors import Span, did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import HANDLE, INT32
from tensorir.tir.script import arithmetic
from tensorir.tir.script.arithmetic import as_expr, binary, convert
from tensorir.tir.script.calls.form import Call, makes
from tensorir.tir.script.subscripts import point
from tensorir.tir.script.values import (
    BufferSpec,
    DataTypeName,
    Value,
    members,
)
from tensorir.tir.script.words import describe

FIELDS = ("data", "strides", "elem_offset", "byte_offset", "scope", "align", "offset_factor")


@makes("Buffer", "buffer", "buffer_decl", "Tensor", "StridedTensor")
def _buffer(it: Call) -> Value:
    return spec(it, ("shape", "dtype", *FIELDS), "type")


@makes("match_buffer")
def _match_buffer(it: Call) -> Value:
    return spec(it, ("param", "shape", "dtype", *FIELDS), "match")


@makes("alloc_buffer")
def _alloc_buffer(it: Call) -> Value:
    return spec(it, ("shape", "dtype", *FIELDS), "block" if it.reader.old else "alloc")


@makes("alloc_local", "alloc_shared", "smem")
def _alloc_scoped(it: Call) -> Value:
    it.kwargs.setdefault("scope", "local" if it.name == "alloc_local" else "shared")
    return spec(it, ("shape", "dtype", *FIELDS), "alloc")


@makes("sblock_alloc_buffer")
def _block_alloc(it: Call) -> Value:
    return spec(it, ("shape", "dtype", *FIELDS), "block")


@makes("decl_buffer")
def _decl_buffer(it: Call) -> Value:
    return spec(it, ("shape", "dtype", *FIELDS), "declare")


@makes("alloc_scalar", "local_scalar", "shared_scalar")
def _alloc_scalar(it: Call) -> Value:
    dtype, scope = it.take("dtype", "scope")
    default = {"alloc_scalar": "global", "local_scalar": "local", "shared_scalar": "shared"}[it.name]
    place = default if scope is None else it.string(scope, "the scope")
    return BufferSpec((const(1, INT32),), it.dtype(dtype), (), None, place, 0, 0, (), "", None, purpose="scalar")


_EXTRA_FIELDS = (
    "buffer_type",
    "axis_separators",
    "layout",
    "allocated_addr",
    "annotations",
    "buffer_name",
    "logical_scope",
)


def spec(it: Call, names: tuple[str, ...], purpose: str) -> BufferSpec:
    found = dict(zip((*names, *_EXTRA_FIELDS), it.take(*names, *_EXTRA_FIELDS), strict=True))
    source = found.get("param")
    shape = found.get("shape")
    if purpose == "match" and not isinstance(source, n.Var | n.Buffer | n.BufferRegion | n.BufferLoad):
        it.fail("TS21", f"T.match_buffer takes a parameter or a region, and this is {describe(source)}.")
    if isinstance(source, n.BufferLoad):
        source = n.BufferRegion(source.buffer, tuple(map(point, source.indices)), source.span)
    if shape is None:
        if not isinstance(source, n.BufferRegion):
            it.fail("TS24", f"T.{it.name} needs 'shape'.")
        shape = tuple(part.extent for part in source.region)
    dtype = it.dtype(found["dtype"])
    if found["dtype"] is None and isinstance(source, n.BufferRegion):
        dtype = source.buffer.dtype
    if dtype.is_void or dtype.lanes == 0:
        it.fail("TS22", "a buffer has no elements of type void.")
    strides = found["strides"]
    offset = found["elem_offset"]
    if found["byte_offset"] is not None and offset is None:
        offset = binary("//", found["byte_offset"], max(1, dtype.bits * dtype.lanes // 8))
    separators = members(found["axis_separators"] or ())
    if separators is None:
        it.fail("TS21", "axis separators are a list.")
    data = found["data"]
    return BufferSpec(
        it.reader.exprs(shape, it.node),
        dtype,
        () if strides is None else it.reader.exprs(strides, it.node),
        None if offset is None else _offset(it, offset),
        "global" if found["scope"] is None else it.string(found["scope"], "the scope"),
        0 if found["align"] is None else it.number(found["align"], "the alignment"),
        0 if found["offset_factor"] is None else it.number(found["offset_factor"], "the offset factor"),
        tuple(it.number(s, "an axis separator") for s in separators),
        "" if found["buffer_type"] is None else it.string(found["buffer_type"], "the buffer's type"),
        None if found["layout"] is None else it.reader.attribute(found["layout"], it.node),
        None if data is None else it.expr(data),
        it.annotations(found["annotations"]),
        source if isinstance(source, n.Var | n.Buffer | n.BufferRegion) else None,
        purpose,
        it.span,
    )


def _offset(it: Call, value: Value) -> n.Expr:
    return it.reader.size(value, it.node)


def buffer_method(it: Call, buffer: n.Buffer) -> Value:
    match it.name:
        case "scope":
            return buffer.scope
        case "view":
            return _view(it, buffer)
        case "access_ptr":
            return _access_ptr(it, buffer)
        case "vload":
            begin, dtype = it.take("begin", "dtype", required=1)
            return n.BufferLoad(buffer, _vector(it, buffer, begin, dtype), span=it.span)
        case "vstore":
            begin, value = it.take("begin", "value", required=2)
            stored = it.expr(value)
            return n.BufferStore(buffer, stored, _vector(it, buffer, begin, str(stored.dtype)), span=it.span)
        case "ptr_to":
            (indices,) = it.take("indices", required=1)
            load = n.BufferLoad(buffer, it.reader.exprs(indices, it.node), span=it.span)
            return n.Call(HANDLE, "address_of", (load,), span=it.span)
        case "offset_of":
            (indices,) = it.take("indices", required=1)
            return [_flat_index(buffer, it.reader.exprs(indices, it.node), it.span)]
        case _:
            methods = ("view", "access_ptr", "vload", "vstore", "scope", "ptr_to", "offset_of")
            it.fail("TS11", f"buffers have no method {it.name!r}.", did_you_mean(it.name, methods))


def _view(it: Call, buffer: n.Buffer) -> BufferSpec:
    """Another shape or another element type for the same memory."""
    dtype, args = buffer.dtype, list(it.args)
    if "dtype" in it.kwargs or (len(args) == 1 and isinstance(args[0], str | DataTypeName)):
        dtype = it.dtype(
            it.kwargs.pop("dtype", args.pop() if args and isinstance(args[-1], str | DataTypeName) else None)
        )
    if "shape" in it.kwargs:
        args = [it.kwargs.pop("shape")]
    layout = it.kwargs.pop("layout", None)
    if it.kwargs:
        it.fail("TS24", f"view has no parameter {next(iter(it.kwargs))!r}.")
    if len(args) == 1 and (listed := members(args[0])) is not None:
        args = listed
    shape = it.reader.exprs(args, it.node) if args else buffer.shape
    if not args and dtype.bits != buffer.dtype.bits and shape:
        last = binary("//", binary("*", shape[-1], buffer.dtype.bits), dtype.bits)
        shape = (*shape[:-1], it.expr(last, shape[-1].dtype))
    kept = None if layout is None else it.reader.attribute(layout, it.node)
    return BufferSpec(
        shape,
        dtype,
        buffer.strides if len(shape) == len(buffer.strides) else (),
        buffer.elem_offset,
        buffer.scope,
        buffer.data_alignment,
        buffer.offset_factor,
        (),
        "",
        kept,
        data=buffer.data,
        source=buffer,
        purpose="view",
        span=it.span,
    )


def _access_ptr(it: Call, buffer: n.Buffer) -> Value:
    names = ("access_mask", "ptr_type", "content_lanes", "offset", "extent")
    mask, _, _, offset, length = it.take(*names, required=1)
    bits = {"r": 1, "w": 2}
    if isinstance(mask, str):
        if set(mask) - set(bits):
            it.fail("TS21", f"{mask!r} is no access; write 'r', 'w' or 'rw'.")
        mask = sum(bits[letter] for letter in sorted(set(mask)))
    size: Value = 1
    for part in buffer.shape:
        size = binary("*", size, part)
    start = 0 if offset is None else offset
    if length is None:
        length = binary("-", size, start)
    annotation = n.Call(buffer.dtype, "type_annotation", (), span=it.span)
    base: Value = start if buffer.elem_offset is None else binary("+", buffer.elem_offset, start)
    args = (annotation, buffer.data, it.expr(base), it.expr(length), it.expr(mask))
    return n.Call(HANDLE, "tvm_access_ptr", args, span=it.span)


def _vector(it: Call, buffer: n.Buffer, begin: Value, dtype: Value) -> tuple[n.Expr, ...]:
    indices = it.reader.exprs(begin, it.node)
    lanes = 1 if dtype is None else it.dtype(dtype).lanes // buffer.dtype.lanes
    if lanes > 1:
        last = indices[-1]
        indices = (*indices[:-1], n.Ramp(last, const(1, last.dtype), lanes, it.span))
    return indices


def _flat_index(buffer: n.Buffer, indices: tuple[n.Expr, ...], span: Span) -> n.Expr:
    total: Value = 0
    for position, index in enumerate(indices):
        if buffer.strides:
            total = binary("+", total, binary("*", index, buffer.strides[position]), span)
        else:
            total = binary("+", binary("*", total, buffer.shape[position]), index, span)
    result = as_expr(total)
    assert result is not None
    return result


def expr_method(it: Call, value: n.Expr) -> Value:
    match it.name:
        case "astype":
            dtype = it.dtype(it.take("dtype", "span", required=1)[0])
            return convert(value, dtype, it.span)
        case "equal":
            other = it.expr(it.take("other", required=1)[0], value.dtype)
            return arithmetic.compare("==", value, other, it.span)
        case _:
            it.fail("TS11", f"expressions have no method {it.name!r}.", did_you_mean(it.name, ("astype", "equal")))
