"""Buffers that get a name: parameters, allocations, views, matches, and memory behind pointers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const, true
from tensorir.tir.dtypes import BOOL, INT32
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import (
    BufferSpec,
    Form,
    Value,
)

if TYPE_CHECKING:
    from tensorir.tir.script.statements import FunctionBody

__all__ = ["allocate", "declare", "make_buffer", "named"]


def make_buffer(body: FunctionBody, spec: BufferSpec, name: str, span: Span, data: n.Var | None = None) -> n.Buffer:
    """The buffer of a specification; where none is given, its memory gets a variable."""
    if data is None:
        data = n.Var(name, n.PointerType(n.PrimType(spec.dtype), spec.scope), span)
    offset = spec.elem_offset
    if isinstance(offset, n.Var) and not offset.name:
        offset = n.Var(f"{name}_elem_offset", offset.type, span)
    if offset is None and spec.offset_factor > 0 and spec.purpose != "view":
        dtype = spec.shape[0].dtype if spec.shape else INT32
        offset = n.Var(f"{name}_elem_offset", n.PrimType(dtype), span)
    strides = tuple(
        n.Var(f"{name}_s{k}", s.type, span) if isinstance(s, n.Var) and not s.name else s
        for k, s in enumerate(spec.strides)
    )
    return n.Buffer(
        data,
        spec.dtype,
        spec.shape,
        strides,
        offset,
        spec.axis_separators,
        name,
        spec.align if spec.align > 0 else 64,
        max(1, spec.offset_factor),
        n.BufferType.AUTO_BROADCAST if spec.buffer_type.startswith("auto") else n.BufferType.DEFAULT,
        spec.layout,
        span,
    )


def declare(body: FunctionBody, spec: BufferSpec, name: str, node: Located) -> n.Buffer:
    span = body.text.span(node)
    match spec:
        case BufferSpec(purpose="match", source=n.Var() as param):
            if param not in body.params:
                body.text.fail(spec.span, "TS26", f"{param.name!r} is no parameter of this function.")
            if param in body.buffers:
                body.text.fail(spec.span, "TS26", f"{param.name!r} is matched to a buffer already.")
            buffer = make_buffer(body, spec, name, span)
            body.buffers[param] = buffer
            return buffer
        case BufferSpec(purpose="match", source=source):
            if isinstance(source, n.Buffer):
                zero = const(0, INT32)
                source = n.BufferRegion(source, tuple(n.Range(zero, size) for size in source.shape), spec.span)
            assert isinstance(source, n.BufferRegion)
            buffer = make_buffer(body, spec, name, span)
            if len(body.blocks) == 1:
                body.text.fail(spec.span, "TS26", "a region can be matched inside of a block only.")
            body.blocks[-1].matches.append(n.MatchBufferRegion(buffer, source, spec.span))
            return buffer
        case BufferSpec(purpose="block"):
            # attributes of the block may have named the memory before it is allocated
            known = spec.data if isinstance(spec.data, n.Var) else None
            buffer = make_buffer(body, spec, name, span, known)
            body.blocks[-1].allocs.append(buffer)
            return buffer
        case BufferSpec(purpose="type", data=None):
            return make_buffer(body, spec, name, span)
        case BufferSpec(data=None):
            buffer = make_buffer(body, spec, name, span)
            body.emit(n.AllocBuffer(buffer, spec.annotations, spec.span))
            return buffer
        case BufferSpec(data=n.Var() | n.Call(op="buffer_data") as pointer):
            data = pointer if isinstance(pointer, n.Var) else _viewed(pointer)
            buffer = make_buffer(body, spec, name, span, data)
            body.reader.views.add(buffer)
            body.emit(n.DeclBuffer(buffer, data, spec.span))
            return buffer
        case _:
            buffer = make_buffer(body, spec, name, span)
            body.emit(n.DeclBuffer(buffer, spec.data, spec.span))
            return buffer


def _viewed(pointer: n.Call) -> n.Var:
    """The memory behind `A_1.data`, where A_1 is a view."""
    (view,) = pointer.args
    assert isinstance(view, n.Buffer)
    return view.data


def allocate(body: FunctionBody, form: Form, name: str, span: Span) -> n.Allocate | n.AllocateConst:
    reader = body.reader
    keys = ("extents", "dtype", "scope", "condition", "annotations")
    if form.name == "allocate_const":
        keys = ("data", "dtype", "extents", "annotations")
    given = named(body, form, keys)
    place = span if span is not NOWHERE else form.span
    located = place
    dtype = reader.dtype(given.get("dtype", "float32"), located)
    extents = reader.exprs(given.get("extents", ()), located)
    annotations = reader.attribute(given.get("annotations") or {}, located)
    assert isinstance(annotations, Mapping)
    if form.name == "allocate_const":
        var = n.Var(name, n.PointerType(n.PrimType(dtype), "global"), span)
        data = reader.attribute(given.get("data"), located)
        return n.AllocateConst(var, dtype, extents, data, annotations, form.span)
    scope = reader.string(given.get("scope") or "global", located, "the scope")
    var = n.Var(name, n.PointerType(n.PrimType(dtype), scope), span)
    given_condition = given.get("condition")
    condition = true() if given_condition is None else reader.as_expr(given_condition, located, BOOL)
    return n.Allocate(var, dtype, extents, condition, annotations, form.span)


def named(body: FunctionBody, form: Form, names: tuple[str, ...]) -> dict[str, Value]:
    if len(form.args) > len(names):
        body.text.fail(form.span, "TS24", f"T.{form.name} takes {len(names)} arguments.")
    found: dict[str, Value] = dict(zip(names, form.args, strict=False))
    for key, value in form.kwargs.items():
        if key not in names or key in found:
            body.text.fail(form.span, "TS24", f"T.{form.name} has no use for {key!r} here.")
        found[key] = value
    return found
