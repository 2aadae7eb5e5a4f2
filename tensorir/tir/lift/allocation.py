"""Buffers of TIR that come to be while a function is read: allocations, constants, views, pointers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorir.ir.types import INT32, INT64, SCALARS
from tensorir.lifting.nests.bounded import extremes
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.terms import Number, Term
from tensorir.runtime.errors import Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.lift.expressions import element_of, recast, row_major_only
from tensorir.tir.lift.intrinsics import cast
from tensorir.tir.lift.memory import View, address_of, compact, linear_view, plus, row_major
from tensorir.tir.lift.reader import Reader


def match(reader: Reader, node: n.MatchBufferRegion) -> None:
    """The buffer as another name for a region."""
    buffer, source = node.buffer, reader.scope.view(node.source.buffer, node.span)
    lows = [reader.term(r.min) for r in node.source.region]
    extents = [reader.term(r.extent) for r in node.source.region]
    left_out = len(lows) - len(buffer.shape)
    if left_out < 0:
        raise refuse("TL01", f"{buffer.name!r} has more dimensions than the region that it matches.", at=node.span)
    offset = address_of(source, lows)

    def place_in_source(indices: tuple[Term, ...]) -> tuple[Term, ...]:
        own, lane = indices[: len(buffer.shape)], indices[len(buffer.shape) :]
        moved = [plus(low, own[k - left_out]) if k >= left_out else low for k, low in enumerate(lows)]
        return source.place((*moved, *lane))

    scope = reader.scope
    for what, declared, value in [
        *(("extent", *pair) for pair in zip(buffer.shape, extents[left_out:], strict=True)),
        *(("stride", *pair) for pair in zip(buffer.strides, source.strides[left_out:], strict=False)),
        *([] if buffer.elem_offset is None else [("offset", buffer.elem_offset, offset)]),
    ]:
        if isinstance(declared, n.Var):
            if declared not in scope.values:
                kept = cast(value, element_of(declared.dtype))
                scope.values[declared] = lambda lane, kept=kept: kept
        elif what != "offset":
            _agree(buffer, what, settled(reader.term(declared), reader.known), settled(value, reader.known), node.span)
    view = View(
        source.buffer, tuple(extents[left_out:]), source.strides[left_out:], offset, source.lanes, place_in_source, True
    )
    scope.views[buffer] = view
    scope.pointers[buffer.data] = view


def _agree(buffer: n.Buffer, what: str, declared: Term, value: Term, span: Span) -> None:
    """Declarations of a matched buffer equal those of its region, as far as both are numbers."""
    if isinstance(declared, Number) and isinstance(value, Number) and declared.value != value.value:
        message = f"{buffer.name!r} declares the {what} {declared.value}, but the region has {value.value}."
        raise refuse("TL01", message, at=span)


def allocate(reader: Reader, buffer: n.Buffer, span: Span) -> None:
    """A buffer with memory of its own."""
    row_major_only(buffer)
    shape: list[int] = []
    for extent in buffer.shape:
        value = reader.term(extent)
        found = extremes(value, dict(reader.ranges))
        if found is None:
            raise refuse("TL01", f"the shape of {buffer.name!r} depends on data.", at=span)
        shape.append(max(found[1], 0))
    lanes = buffer.dtype.lanes
    sizes = [Number(e, INT32) for e in shape]
    packed = row_major(sizes)
    steps = _strides(reader, buffer, packed, span)
    held = tuple(shape) if steps is None else (1 + sum((e - 1) * s for e, s in zip(shape, steps, strict=True)),)
    made = reader.buffer(buffer.name, element_of(buffer.dtype, span), held + ((lanes,) if lanes != 1 else ()), span)
    made.private, made.apart = _private(reader, buffer), reader.loops  # each iteration allocates anew
    made.declared = True
    if steps is None:
        view = compact(made, sizes, lanes)
    else:
        view = linear_view(made, sizes, [Number(s, INT64) for s in steps], Number(0, INT64), lanes)
    reader.scope.views[buffer] = view
    reader.scope.pointers[buffer.data] = view
    for stride, value in zip(buffer.strides, packed, strict=False):
        if isinstance(stride, n.Var) and stride not in reader.scope.values:
            reader.scope.values[stride] = lambda lane, value=value: value
    if isinstance(buffer.elem_offset, n.Var):
        reader.scope.values[buffer.elem_offset] = lambda lane: Number(0, INT32)


def _strides(reader: Reader, buffer: n.Buffer, packed: Sequence[Term], span: Span) -> tuple[int, ...] | None:
    """The strides that an allocated buffer declares; None where its elements lie row by row, one after the other."""
    found: list[int] = []
    for declared, usual in zip(buffer.strides, packed, strict=False):
        open_ = isinstance(declared, n.Var) and declared not in reader.scope.values
        step = settled(usual if open_ else reader.term(declared), reader.known)
        if not isinstance(step, Number) or step.value < 0:
            raise refuse("TL01", f"a stride of {buffer.name!r} depends on data, or is negative.", at=span)
        found.append(int(step.value))
    usual = [settled(step, reader.known) for step in packed]
    same = len(found) != len(packed) or all(
        isinstance(u, Number) and u.value == s for u, s in zip(usual, found, strict=True)
    )
    return None if same else tuple(found)


def _private(reader: Reader, buffer: n.Buffer) -> tuple[str, ...]:
    """The parallel loops around, and the indices of the kernel, of which every value has a copy of the buffer."""
    around = tuple(name for name in reader.loops if name in reader.parallel)
    if reader.threads is None:
        return around
    shared = buffer.scope.startswith(("shared", "wmma.accumulator.shared"))
    return around + reader.apart(buffer, shared)


def constant(reader: Reader, node: n.AllocateConst) -> None:
    if not isinstance(node.data, tuple):
        raise refuse("TL01", "the contents of this constant are not in the text.", at=node.span)
    shape = tuple(int(e.value) for e in (reader.term(x) for x in node.extents) if isinstance(e, Number))
    made = reader.buffer(node.buffer_var.name, element_of(node.dtype, node.span), shape, node.span)
    made.value = node.data
    reader.scope.pointers[node.buffer_var] = compact(made, tuple(Number(e, INT32) for e in shape), 1)


def declare(reader: Reader, node: n.DeclBuffer) -> None:
    buffer, scope = node.buffer, reader.scope
    if node.data is None:
        if buffer.data not in scope.pointers:
            allocate(reader, buffer, node.span)
            return
        base = scope.pointers[buffer.data]
    else:
        base = pointer(reader, node.data, node.span)
        if node.data is not buffer.data:
            scope.pointers[buffer.data] = base
    points = isinstance(node.data, n.Call) and node.data.op == "address_of"
    scope.views[buffer] = replace(scope.alias(base, buffer), bound=points)


def pointer(reader: Reader, node: n.Expr | n.Argument, span: Span) -> View:
    """The memory that an expression of type handle points to, from that point on."""
    scope = reader.scope
    match node:
        case n.Var() if node in scope.pointers:
            return scope.pointers[node]
        case n.Buffer():
            return scope.view(node, span)
        case n.Call(op="buffer_data" | "address_of" | "access_ptr", args=(n.Buffer() as buffer, *_)):
            return scope.view(buffer, span)
        case n.Call(op="address_of", args=(n.BufferLoad(buffer, indices), *_)) | n.BufferLoad(buffer, indices):
            view = scope.view(buffer, span)
            offset = address_of(view, [reader.term(i) for i in indices])
            return View(view.buffer, view.shape, view.strides, offset, view.lanes, view.place)
        case n.BufferRegion(buffer, region):
            return pointer(reader, n.BufferLoad(buffer, tuple(r.min for r in region)), span)
        case n.Call(op="tvm_access_ptr", args=(n.Expr() as kind, n.Expr() as data, n.Expr() as offset, *_)):
            view = pointer(reader, data, span)
            if kind.dtype.code != "handle":
                element, lanes = element_of(kind.dtype, span), abs(kind.dtype.lanes)
                if (element, lanes) != (view.buffer.element, view.lanes):
                    view = recast(view, element, lanes, view.buffer.name, span)
            start = plus(view.offset, reader.term(offset))
            return View(view.buffer, view.shape, view.strides, start, view.lanes, view.place)
        case n.Call(op="handle_add_byte_offset" | "ptr_byte_offset", args=(n.Expr() as data, n.Expr() as offset, *_)):
            view = pointer(reader, data, span)
            view = recast(view, SCALARS["uint8"], 1, view.buffer.name, span)
            return View(view.buffer, view.shape, view.strides, plus(view.offset, reader.term(offset)), 1, view.place)
        case n.Cast(value, _):
            return pointer(reader, value, span)
        case _:
            message = "this pointer leaves what can be followed."
            raise refuse("TL01", message, "declare the buffer that it points to.", at=span)
