"""Assignments: stores, lets, and what a name is bound to."""

from __future__ import annotations

import ast
from dataclasses import replace

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import HANDLE, INT32, DataType
from tensorir.tir.nodes import IterKind
from tensorir.tir.script.arithmetic import IllTyped, binary, convert
from tensorir.tir.script.body import FunctionBody
from tensorir.tir.script.forms import allocate, declare, let, let_form, make_buffer
from tensorir.tir.script.syntax import Failure, Located
from tensorir.tir.script.values import (
    Axis,
    Broken,
    BufferSpec,
    DataTypeName,
    Form,
    LetType,
    LocalVector,
    Metadata,
    ModuleRef,
    Name,
    Scalar,
    ThreadVar,
    TypeVariable,
    Value,
    describe,
    members,
)


def assign(body: FunctionBody, node: ast.Assign) -> None:
    if len(node.targets) != 1:
        body.text.fail(node, "TS07", "an assignment of TVMScript has one target.")
    target = node.targets[0]
    value = body.reader.value(node.value)
    if isinstance(target, ast.Subscript):
        store(body, target, value, node)
    else:
        _assign(body, target, value, node)


def _assign(body: FunctionBody, target: ast.expr, value: Value, node: Located) -> None:
    match target:
        case ast.Name(name):
            if not _store_scalar(body, name, value, node):
                bind(body, name, value, target)
        case ast.Tuple(parts) | ast.List(parts):
            values = members(value)
            if values is None:
                body.text.fail(target, "TS24", f"{describe(value)} cannot be unpacked.")
            names = unpack_values(body, parts, values, target)
            for part, item in names:
                _assign(body, part, item, node)
        case ast.Subscript():
            store(body, target, value, node)
        case _:
            body.text.fail(target, "TS07", "this cannot be assigned to.")


def unpack_values(
    body: FunctionBody, parts: list[ast.expr], values: list[Value], target: ast.expr
) -> list[tuple[ast.expr, Value]]:
    star = next((k for k, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
    if star is None:
        if len(parts) != len(values):
            body.text.fail(target, "TS24", f"there are {len(values)} values for {len(parts)} names.")
        return list(zip(parts, values, strict=True))
    after = len(parts) - star - 1
    if len(values) < star + after:
        body.text.fail(target, "TS24", f"there are {len(values)} values for {len(parts)} names.")
    starred = parts[star]
    assert isinstance(starred, ast.Starred)
    middle = values[star : len(values) - after]
    tail = values[len(values) - after :]
    return [
        *zip(parts[:star], values[:star], strict=True),
        (starred.value, middle),
        *zip(parts[star + 1 :], tail, strict=True),
    ]


def _store_scalar(body: FunctionBody, name: str, value: Value, node: Located) -> bool:
    """`x = e`, where x is a buffer of one element already (0.27's mutable scalars)."""
    current = body.reader.scope.find(name)
    buffer = current.buffer if isinstance(current, Scalar) else current
    if not isinstance(buffer, n.Buffer) or body.reader.old:
        return False
    if not isinstance(value, n.Expr | bool | int | float):
        return False
    match buffer.shape:
        case (n.IntImm(1),):
            emit_store(body, buffer, value, (const(0, INT32),), node)
            return True
        case _:
            return False


def store(body: FunctionBody, target: ast.Subscript, value: Value, node: Located) -> None:
    place = body.reader.value(target)
    match place:
        case n.BufferLoad(buffer, indices):
            emit_store(body, buffer, value, indices, node)
        case n.BufferRegion(buffer):
            emit_store(body, buffer, value, body.reader.vector_indices(place, target), node)
        case _:
            body.text.fail(target, "TS21", f"{describe(place)} cannot be stored to.")


def emit_store(body: FunctionBody, buffer: n.Buffer, value: Value, indices: tuple[n.Expr, ...], node: Located) -> None:
    """The value takes the type of the buffer: constants, casts, and scalars stored to several lanes."""
    stored = body.reader.as_expr(value, node, buffer.dtype)
    if isinstance(stored, n.StringImm) and buffer.dtype.code != "handle":
        place = node.value if isinstance(node, ast.Assign) else node
        body.text.fail(place, "TS20", f"{buffer.name!r} holds {buffer.dtype}, and this is a string.")
    lanes = (indices[-1].dtype.lanes if indices else 1) * buffer.dtype.lanes
    span = body.text.span(node)
    if stored.dtype.lanes == 1 and lanes != 1 and not isinstance(stored, n.StringImm):
        stored = n.Broadcast(stored, lanes, stored.span)
    wanted = buffer.dtype.with_lanes(lanes)
    plain = "handle" not in (stored.dtype.code, wanted.code)
    if stored.dtype != wanted and stored.dtype.lanes == lanes and plain:
        stored = convert(stored, wanted, stored.span)
    body.emit(n.BufferStore(buffer, stored, indices, None, span))


def augmented(body: FunctionBody, node: ast.AugAssign) -> None:
    symbols: dict[type[ast.operator], str] = {
        ast.Add: "+",
        ast.Sub: "-",
        ast.Mult: "*",
        ast.Div: "/",
        ast.FloorDiv: "//",
        ast.Mod: "%",
        ast.BitAnd: "&",
        ast.BitOr: "|",
        ast.BitXor: "^",
        ast.LShift: "<<",
        ast.RShift: ">>",
    }
    symbol = symbols.get(type(node.op))
    if symbol is None or not isinstance(node.target, ast.Name | ast.Subscript):
        body.text.fail(node, "TS07", "this assignment is no part of TVMScript.")
    current = body.reader.as_expr(body.reader.value(node.target), node.target)
    try:
        value = binary(symbol, current, body.reader.operand(node.value), body.text.span(node))
    except IllTyped as error:
        body.text.fail(node, "TS20", str(error))
    if isinstance(node.target, ast.Subscript):
        store(body, node.target, value, node)
    elif not _store_scalar(body, node.target.id, value, node):
        bind(body, node.target.id, value, node.target)


def annotated(body: FunctionBody, node: ast.AnnAssign) -> None:
    if not isinstance(node.target, ast.Name):
        body.text.fail(node.target, "TS07", "a name stands before an annotation.")
    value = None if node.value is None else body.reader.value(node.value)
    kind = body.reader.value(node.annotation)
    name = node.target.id
    match kind:
        case LetType(type_):
            let(body, name, type_, value, node)
        case LocalVector(dtype, shape):
            spec = BufferSpec(shape, dtype, (), None, "local", 0, 0, (), "", None, purpose="alloc")
            bind(body, name, spec, node.target)
        case DataTypeName(dtype) if not body.reader.old and dtype.code != "handle":
            buffer = scalar(body, name, dtype, node.target)
            if value is not None:
                emit_store(body, buffer, value, (const(0, INT32),), node)
        case DataTypeName() | n.Var():
            type_ = body.reader.type(kind, node.annotation)
            if value is None:
                body.reader.scope.define(name, n.Var(name, type_, body.text.span(node.target)))
            elif isinstance(value, n.Var) and not value.name:
                bind(body, name, value, node.target)
            else:
                let(body, name, type_, value, node)
        case BufferSpec():
            bind(body, name, value if isinstance(value, BufferSpec) else kind, node.target)
        case Name("T", "handle"):
            let(body, name, n.PrimType(HANDLE), value, node)
        case _:
            body.text.fail(node.annotation, "TS22", f"a type stands here, and this is {describe(kind)}.")


def scalar(body: FunctionBody, name: str, dtype: DataType, node: Located) -> n.Buffer:
    span = body.text.span(node)
    data = n.Var(name, n.PointerType(n.PrimType(dtype), "local"), span)
    buffer = n.Buffer(data, dtype, (const(1, INT32),), name=name, layout="scalar", span=span)
    body.emit(n.AllocBuffer(buffer, {}, span))
    body.reader.scope.define(name, Scalar(buffer))
    return buffer


def bind(body: FunctionBody, name: str, value: Value, node: Located) -> None:
    """`name = value`: what the value is decides which statement that makes, if any."""
    span = body.text.span(node)
    define = body.reader.scope.define
    match value:
        case BufferSpec(purpose="scalar"):
            buffer = replace(make_buffer(body, value, name, span), layout="scalar")
            body.emit(n.AllocBuffer(buffer, {}, value.span))
            define(name, Scalar(buffer))
        case BufferSpec():
            define(name, declare(body, value, name, node))
        case (Axis() as axis) | (Axis() as axis,):  # `T.axis.remap("S", [i])` gives a single one by itself
            define(name, body.axis(axis, name, node))
        case ThreadVar(extent=None):
            var = n.Var(name, n.PrimType(INT32), span)
            define(name, n.IterVar(None, var, IterKind.THREAD_INDEX, value.tag, span))
        case ThreadVar():
            body.launch(value, name, node)
        case Form("allocate" | "allocate_const"):
            statement = allocate(body, value, name, span)
            body.emit(statement)
            define(name, statement.buffer_var)
        case Form("LetStmt" | "Bind" | "bind" | "let"):
            let_form(body, value, name, node)
        case Form():
            body.text.fail(node, "TS21", f"T.{value.name} has no value.")
        case n.Var(name="") if name:
            define(name, symbol(body, name, value, span))
        case TypeVariable():
            define(name, n.Var(name, n.PrimType(DataType("int", 64)), span))
        case _ if (items := members(value)) is not None:
            define(name, tuple(_bind_item(body, f"{name}_{k}", item, node) for k, item in enumerate(items)))
        case n.Buffer() | n.BufferRegion() | n.IterVar() | n.IndexMap() | n.CommReducer() | n.Opaque() | n.Target():
            define(name, value)
        case ModuleRef() | DataTypeName() | DataType() | Metadata() | Name() | n.GlobalVar() | n.Range():
            define(name, value)
        case n.Expr() | bool() | int() | float() | str():
            expr = body.reader.as_expr(value, node)
            lasting = isinstance(expr, n.StringImm) or expr.dtype.code == "handle"
            if body.reader.old or lasting:
                let(body, name, None, expr, node)
            else:
                buffer = scalar(body, name, expr.dtype, node)
                emit_store(body, buffer, expr, (const(0, INT32),), node)
        case Broken():
            raise Failure(())
        case _:
            body.text.fail(node, "TS21", f"{describe(value)} cannot be given a name.")


def _bind_item(body: FunctionBody, name: str, value: Value, node: Located) -> Value:
    """A member of a sequence: what must be made is made, numbers stay numbers."""
    if isinstance(value, BufferSpec | Axis | ThreadVar):
        bind(body, name, value, node)
        return body.reader.scope.find(name)
    return value


def symbol(body: FunctionBody, name: str, fresh: n.Var, span: Span) -> n.Var:
    """`n = T.int32()`: the size that the signature named already, or a new variable."""
    known = body.symbols.get(name) or body.reader.scope.find(name)
    if isinstance(known, n.Var) and known.dtype == fresh.dtype and known.name == name:
        return known
    return n.Var(name, fresh.type, span)
