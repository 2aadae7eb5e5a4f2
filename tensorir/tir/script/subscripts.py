"""Subscripts: elements and regions of buffers, slices as vectors, extents of slices, layouts.

The extent between two index expressions: `b:b + 16` holds 16 elements, whatever b is.

>>> from tensorir.tir.dtypes import INT32
>>> from tensorir.tir.nodes import Add, IntImm, Mul, PrimType, Var
>>> v, c = Var("v", PrimType(INT32)), lambda k: IntImm(k, INT32)
>>> extent(Mul(v, c(16)), Add(Mul(v, c(16)), c(16))), extent(Add(v, c(1)), Add(c(5), v)), extent(c(0), v)
(16, 4, v)
"""

from __future__ import annotations

import ast

from tensorir.nodes import occurrences
from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT32, DataType
from tensorir.tir.ranges import linear
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.script.evaluate import Evaluator, is_one_element
from tensorir.tir.script.syntax import Failure, Located
from tensorir.tir.script.values import (
    Broken,
    DataTypeName,
    LetType,
    LocalVector,
    Metadata,
    Name,
    Value,
    count,
    describe,
    entries,
    members,
    sizes_of,
)


def extent(start: n.Expr, stop: n.Expr, span: Span = NOWHERE) -> n.Expr:
    """stop - start, as simple as terms that cancel make it."""
    match start, stop:
        case n.IntImm(a), n.IntImm(b):
            return n.IntImm(b - a, _wider(start.dtype, stop.dtype), span)
        case n.IntImm(0), _:
            return stop
        case _, n.Add(a, rest) if a == start:
            return rest
        case _:
            pass
    left = linear((stop, 1), (start, -1))
    dtype = _wider(start.dtype, stop.dtype)
    if not left or set(left) == {None}:
        return n.IntImm(left.get(None, 0), dtype, span)
    if len(left) == 1 and (term := next(iter(left.items())))[1] == 1 and term[0] is not None:
        return term[0]
    result = binary("-", stop, start, span)
    assert isinstance(result, n.Expr)
    return result


def _wider(a: DataType, b: DataType) -> DataType:
    return a if a.bits >= b.bits else b


# Subscripts: elements and regions of buffers, slices as vectors, items of sequences.


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


def subscript(reader: Evaluator, node: ast.Subscript) -> Value:
    target = reader.value(node.value)
    if (items := members(target)) is not None:
        return _item(reader, items, node)
    if (found := entries(target)) is not None:
        return _item(reader, found, node)
    match target:
        case n.Buffer():
            return access(reader, target, node.slice, node)
        case n.BufferLoad(n.Buffer() as buffer, (n.IntImm(0),)) if is_one_element(buffer):
            return access(reader, buffer, node.slice, node)
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
            index = _index(reader, reader.value(node.slice), node.slice)
            if isinstance(index, n.Range):
                reader.fail(node.slice, "TS21", "a lane has one index, and this is a range.")
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
    if isinstance(found, n.Expr) and not found.dtype.is_integer:
        reader.fail(node, "TS21", f"an index is an integer, and this is {found.dtype}.")
    return found


def _slice(reader: Evaluator, buffer: n.Buffer, node: ast.Slice, position: int) -> n.Range | _Stride:
    if position >= len(buffer.shape):
        reader.fail(node, "TS23", f"{buffer.name!r} has the shape {sizes_of(buffer)}, and this gives more indices.")
    size = buffer.shape[position]
    stop = size if node.upper is None else operand_of(reader, node.upper)
    other = stop.dtype if isinstance(stop, n.Expr) else None
    start = reader.as_expr(0 if node.lower is None else operand_of(reader, node.lower), node.lower or node, other)
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


# `T.TileLayout(T.S[shape:strides] + T.R[shape:strides] + offset)`: `:` and `@` have meanings of their own in it.

LAYOUTS = ("TileLayout", "ComposeLayout")
_AXES = "Axis."


def layout(reader: Evaluator, node: ast.Call, name: str) -> n.TileLayout | n.ComposeLayout:
    """The layout that a call of this name writes."""
    return _tile(reader, node) if name == "TileLayout" else _compose(reader, node)


def _compose(reader: Evaluator, node: ast.Call) -> n.ComposeLayout:
    given = {key.arg: key.value for key in node.keywords}
    inner = given.pop("swizzle_inner", node.args[4] if len(node.args) == 5 else None)
    if given or len(node.args) not in (4, 5):
        reader.fail(node, "TS24", "T.ComposeLayout takes three lengths, a T.TileLayout, and swizzle_inner.")
    per_element, swizzle, atom = (reader.number(part, "a length") for part in node.args[:3])
    tile = reader.value(node.args[3])
    if not isinstance(tile, n.TileLayout):
        reader.fail(node.args[3], "TS21", "a T.TileLayout stands here.")
    flag = True if inner is None else bool(reader.number(inner, "a flag"))
    return n.ComposeLayout(per_element, swizzle, atom, tile, flag, reader.text.span(node))


def _tile(reader: Evaluator, node: ast.Call) -> n.TileLayout:
    if len(node.args) != 1 or node.keywords:
        reader.fail(node, "TS24", "T.TileLayout takes T.S[shape:strides], with + T.R[...] and + an offset after it.")
    parts: dict[str, tuple[n.LayoutIter, ...]] = {}
    offset: list[n.OnAxis] = []
    for term in _terms(node.args[0]):
        target = reader.value(term.value) if isinstance(term, ast.Subscript) else None
        if isinstance(term, ast.Subscript) and isinstance(target, Name) and target.path in ("S", "R"):
            if target.path in parts:
                reader.fail(term, "TS24", f"T.{target.path} stands here twice.")
            parts[target.path] = _iterators(reader, term)
        else:
            offset.append(_on_axis(reader, term))
    return n.TileLayout(parts.get("S", ()), parts.get("R", ()), tuple(offset), reader.text.span(node))


def _terms(node: ast.expr) -> list[ast.expr]:
    """The operands of a chain of sums, from left to right."""

    def below(part: ast.expr) -> tuple[ast.expr, ...]:
        return (part.left, part.right) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add) else ()

    return [part for part in occurrences([node], below) if not below(part)]


def _iterators(reader: Evaluator, node: ast.Subscript) -> tuple[n.LayoutIter, ...]:
    pair = node.slice
    if isinstance(pair, ast.Slice):
        if pair.lower is None or pair.upper is None or pair.step is not None:
            reader.fail(node, "TS24", "a shape and its strides stand here, as in T.S[(2, 3):(3, 1)].")
        extents = [reader.expr(part) for part in _listed(pair.lower)]
        strides = [_on_axis(reader, part) for part in _listed(pair.upper)]
        if len(extents) != len(strides):
            reader.fail(node, "TS24", f"there are {len(extents)} extents, but {len(strides)} strides.")
    else:
        extents = [reader.expr(part) for part in _listed(pair)]
        strides = _default_strides(reader, extents, node)
    span = reader.text.span(node)
    return tuple(n.LayoutIter(e, s, span) for e, s in zip(extents, strides, strict=True))


def _default_strides(reader: Evaluator, extents: list[n.Expr], node: ast.expr) -> list[n.OnAxis]:
    found: list[n.OnAxis] = []
    step: n.Expr = const(1, extents[-1].dtype) if extents else const(1)
    for extent in reversed(extents):
        found.append(n.OnAxis(step))
        step = reader.as_expr(binary("*", step, extent), node, extent.dtype)
    return found[::-1]


def _listed(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple | ast.List) else [node]


def _on_axis(reader: Evaluator, node: ast.expr) -> n.OnAxis:
    span = reader.text.span(node)
    match node:
        case ast.BinOp(value, ast.MatMult(), axis):
            name = ast.unparse(axis)
            name = name[name.rfind(_AXES) + len(_AXES) :] if _AXES in name else name
            if not name.isidentifier():
                reader.fail(axis, "TS21", "an axis stands here, as in 4 @ Axis.laneid.")
            return n.OnAxis(reader.expr(value), name, span)
        case _:
            return n.OnAxis(reader.expr(node), span=span)
