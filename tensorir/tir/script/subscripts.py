"""Subscripts: elements and regions of buffers, slices as vectors, items of sequences."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT32
from tensorir.tir.script.extents import extent
from tensorir.tir.script.syntax import Failure, Located
from tensorir.tir.script.values import (
    Broken,
    DataTypeName,
    LetType,
    LocalVector,
    Metadata,
    Name,
    Value,
    entries,
    members,
)
from tensorir.tir.script.words import count, describe, sizes_of

if TYPE_CHECKING:
    from tensorir.tir.script.evaluate import Evaluator

__all__ = ["access", "is_one_element", "operand_of", "point", "subscript", "vector_indices", "vector_load"]


class _Stride:
    """A slice with a step: lanes from `start`, `step` apart, as many as fit into `length`."""

    def __init__(self, start: n.Expr, length: n.Expr, step: n.Expr, node: ast.Slice) -> None:
        self.start, self.length, self.step, self.node = start, length, step, node

    def ramp(self, reader: Evaluator) -> n.Expr:
        match self.length, self.step:
            case n.IntImm(length), n.IntImm(step) if step > 0 and length > step:
                return n.Ramp(self.start, self.step, -(-length // step), reader.text.span(self.node))
            case _:
                reader.fail(self.node, "TS23", "a slice with a step has a constant length of several steps.")


def point(index: n.Expr) -> n.Range:
    """The range of one index; a vector's spans from its first element to its last."""
    match index:
        case n.Ramp(base, n.IntImm(step), int(lanes)):
            return n.Range(base, const(step * (lanes - 1) + 1, base.dtype), index.span)
        case _:
            return n.Range(index, const(1, index.dtype if index.dtype.is_integer else INT32), index.span)


def is_one_element(buffer: n.Buffer) -> bool:
    return len(buffer.shape) == 1 and isinstance(buffer.shape[0], n.IntImm) and buffer.shape[0].value == 1


def subscript(reader: Evaluator, node: ast.Subscript) -> Value:
    target = reader.value(node.value)
    if (items := members(target)) is not None:
        return _item(reader, items, node)
    if (found := entries(target)) is not None:
        return _item(reader, found, node)
    match target:
        case n.Buffer():
            return reader.access(target, node.slice, node)
        case n.BufferLoad(n.Buffer() as buffer, (n.IntImm(0),)) if is_one_element(buffer):
            return reader.access(buffer, node.slice, node)
        case LetType():
            return LetType(reader.type(reader.value(node.slice), node.slice))
        case DataTypeName(dtype):
            return LocalVector(dtype, reader.exprs(reader.value(node.slice), node.slice))
        case Metadata(""):
            return Metadata(reader.string(reader.value(node.slice), node.slice, "the key"))
        case Metadata(key):
            index = reader.number(node.slice, "the index")
            return n.Opaque(f'metadata["{key}"][{index}]', reader.text.span(node))
        case Name("T", "Buffer"):  # as it was written before 0.10: T.Buffer[(8,), "float32"]
            given = node.slice
            arguments = given.elts if isinstance(given, ast.Tuple) else [given]
            made = ast.copy_location(ast.Call(node.value, arguments, []), node)
            return reader.value(made)
        case Name("T", "Tuple"):
            return n.TupleType()
        case str():
            return _item(reader, target, node)
        case n.Expr() if target.dtype.lanes > 1:
            index = reader.expr(node.slice)
            return n.Shuffle((target,), (index,), reader.text.span(node))
        case Broken():
            raise Failure(())
        case _:
            reader.fail(node.value, "TS11", f"{describe(target)} cannot be indexed.")


def _item(reader: Evaluator, target: list[Value] | str | dict[Value, Value], node: ast.Subscript) -> Value:
    if isinstance(node.slice, ast.Slice):
        bounds = (node.slice.lower, node.slice.upper, node.slice.step)
        parts = [None if part is None else reader.number(part, "a bound") for part in bounds]
        if isinstance(target, dict) or parts[2] == 0:
            reader.fail(node, "TS11", "this cannot be sliced.")
        return target[slice(*parts)]
    key = reader.value(node.slice)
    key = key.value if isinstance(key, n.IntImm) else key
    try:
        return target[key]  # type: ignore[index]
    except (IndexError, KeyError, TypeError):
        reader.fail(node.slice, "TS11", "there is no such member.")


def access(reader: Evaluator, buffer: n.Buffer, slice_: ast.expr, node: Located) -> Value:
    """An element of a buffer, or a region where an index is a slice."""
    parts = slice_.elts if isinstance(slice_, ast.Tuple) else [slice_]
    indices: list[n.Expr | n.Range | _Stride] = []
    for part in parts:
        if isinstance(part, ast.Slice):
            indices.append(_slice(reader, buffer, part, len(indices)))
        elif isinstance(part, ast.Starred):
            spread = reader.value(part.value)
            indices += [_index(reader, item, part) for item in reader.spread(spread, part)]
        else:
            indices.append(_index(reader, reader.value(part), part))
    if len(indices) != len(buffer.shape):
        reader.fail(
            node,
            "TS23",
            f"{buffer.name!r} has the shape {sizes_of(buffer)}, "
            f"and this gives {count(len(indices), 'index', 'indices')}.",
        )
    span = reader.text.span(node)
    plain = tuple(index for index in indices if isinstance(index, n.Expr))
    if len(plain) == len(indices):
        return n.BufferLoad(buffer, plain, span=span)
    if isinstance(stride := indices[-1], _Stride) and len(plain) == len(indices) - 1:
        return n.BufferLoad(buffer, (*plain, stride.ramp(reader)), span=span)
    for index in indices:
        if isinstance(index, _Stride):
            reader.fail(index.node, "TS23", "only the last index of a load or store may have a step.")
    ranges = tuple(point(i) if isinstance(i, n.Expr) else i for i in indices if not isinstance(i, _Stride))
    return n.BufferRegion(buffer, ranges, span)


def _index(reader: Evaluator, value: Value, node: Located) -> n.Expr | n.Range:
    if isinstance(value, float):
        reader.fail(node, "TS21", "an index is an integer, and this is a float.")
    if isinstance(value, str | n.StringImm):
        reader.fail(node, "TS21", "an index is an integer, and this is a string.")
    found = value if isinstance(value, n.Range) else reader.as_expr(value, node)
    if isinstance(found, n.Expr) and found.dtype.is_float:
        reader.fail(node, "TS21", f"an index is an integer, and this is {found.dtype}.")
    return found


def _slice(reader: Evaluator, buffer: n.Buffer, node: ast.Slice, position: int) -> n.Range | _Stride:
    if position >= len(buffer.shape):
        reader.fail(node, "TS23", f"{buffer.name!r} has the shape {sizes_of(buffer)}, and this gives more indices.")
    size = buffer.shape[position]
    stop = size if node.upper is None else reader.operand_of(node.upper)
    other = stop.dtype if isinstance(stop, n.Expr) else None
    start = reader.as_expr(0 if node.lower is None else reader.operand_of(node.lower), node.lower or node, other)
    end = reader.as_expr(stop, node.upper or node, start.dtype)
    span = reader.text.span(node)
    length = extent(start, end, span)
    if node.step is not None:
        step = reader.expr(node.step, start.dtype)
        if not (isinstance(step, n.IntImm) and step.value == 1):
            return _Stride(start, length, step, node)
    if isinstance(start, n.IntImm) and start.value == 0 and start.dtype != length.dtype:
        start = n.IntImm(0, length.dtype, start.span)
    return n.Range(start, length, span)


def operand_of(reader: Evaluator, node: ast.expr) -> int | n.Expr:
    value = reader.value(node)
    return value if isinstance(value, int) else reader.as_expr(value, node)


def vector_load(reader: Evaluator, region: n.BufferRegion, node: Located) -> n.Expr:
    """A slice on the right-hand side: the elements as a vector."""
    indices = reader.vector_indices(region, node)
    return n.BufferLoad(region.buffer, indices, span=reader.text.span(node))


def vector_indices(reader: Evaluator, region: n.BufferRegion, node: Located) -> tuple[n.Expr, ...]:
    """The indices of the elements of a region whose last dimension alone is longer than one."""
    indices: list[n.Expr] = []
    for position, part in enumerate(region.region):
        match part.extent:
            case n.IntImm(1):
                indices.append(part.min)
            case n.IntImm(lanes) if position == len(region.region) - 1 and lanes > 1:
                indices.append(n.Ramp(part.min, const(1, part.min.dtype), lanes, part.span))
            case n.Mul() | n.Call() if position == len(region.region) - 1:
                indices.append(n.Ramp(part.min, const(1, part.min.dtype), part.extent, part.span))
            case _:
                message = "a slice is a vector only along the last dimension, with a constant length above 0."
                reader.fail(node, "TS23", message)
    return tuple(indices)
