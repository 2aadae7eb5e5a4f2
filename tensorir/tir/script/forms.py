"""Calls that stand as statements: `T.reads(...)`, `T.func_attr(...)`, `T.attr(...)`, `T.evaluate(...)`, and others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tensorir.tir import nodes as n
from tensorir.tir.build import const, true
from tensorir.tir.dtypes import BOOL, VOID
from tensorir.tir.script.declarations import named
from tensorir.tir.script.subscripts import point
from tensorir.tir.script.syntax import Failure, Located
from tensorir.tir.script.values import (
    Broken,
    Form,
    Value,
    entries,
    members,
)
from tensorir.tir.script.words import describe

if TYPE_CHECKING:
    from tensorir.tir.script.statements import FunctionBody

__all__ = ["attribute", "form", "let_form", "realization"]

_ATTRIBUTE_KEYS = {"tir.": "tirx."}


def _renamed_keys(attrs: Mapping[str, n.Attribute]) -> dict[str, n.Attribute]:
    """Attributes under the names that TVM 0.27 gives them: `tir.noalias` is `tirx.noalias`."""
    renamed: dict[str, n.Attribute] = {}
    for key, value in attrs.items():
        old = next((prefix for prefix in _ATTRIBUTE_KEYS if key.startswith(prefix)), "")
        renamed[_ATTRIBUTE_KEYS[old] + key.removeprefix(old) if old else key] = value
    return renamed


def form(body: FunctionBody, form: Form, node: Located) -> None:
    """A call that stands alone."""
    reader = body.reader
    parts = body.blocks[-1]
    match form.name:
        case "reads" | "writes":
            regions = tuple(_region(body, arg, node) for arg in _flat(form.args))
            if form.name == "reads":
                parts.reads = (*(parts.reads or ()), *regions)
            else:
                parts.writes = (*(parts.writes or ()), *regions)
        case "where":
            (given,) = named(body, form, ("predicate",)).values()
            predicate = reader.as_expr(given, node, BOOL)
            parts.predicate = predicate if parts.predicate is None else n.And(parts.predicate, predicate)
        case "sblock_attr" | "block_attr" | "func_attr":
            attrs = [reader.attribute(value, node) for value in named(body, form, ("attrs",)).values()]
            for found in attrs:
                if not isinstance(found, Mapping):
                    body.text.fail(node, "TS21", "attributes are a mapping.")
                into = body.attrs if form.name == "func_attr" else parts.annotations
                into.update(_renamed_keys(found) if form.name == "func_attr" else found)
        case "func_ret":
            body.ret_type = reader.type(next(iter(form.args), None), node)
        case "attr":
            body.wrap(attribute(body, form), node)
        case "evaluate":
            (value,) = named(body, form, ("value",)).values()
            _evaluate(body, value, node)
        case "Assert":
            given = named(body, form, ("condition", "message", "error_kind"))
            condition = reader.as_expr(given.get("condition"), node, BOOL)
            body.emit(body.assertion(condition, given.get("message"), node))
        case "buffer_store":
            _store_form(body, form, node)
        case "store":
            given = named(body, form, ("var", "index", "value", "predicate"))
            var = given.get("var")
            if not isinstance(var, n.Var):
                body.text.fail(node, "TS21", f"T.store writes behind a pointer, and this is {describe(var)}.")
            mask = given.get("predicate")
            predicate = true() if mask is None else reader.as_expr(mask, node, BOOL)
            value = reader.as_expr(given.get("value"), node)
            index = reader.as_expr(given.get("index"), node)
            body.emit(n.Store(var, value, index, predicate, form.span))
        case "prefetch":
            _prefetch(body, form, node)
        case "LetStmt" | "Bind" | "bind" | "let":
            let_form(body, form, "", node)
        case "Return":
            value = reader.as_expr(next(iter(form.args), None), node)
            body.emit(n.Evaluate(n.Call(value.dtype, "ret", (value,), span=form.span), form.span))
        case "Break" | "Continue":
            body.emit(n.Break(form.span) if form.name == "Break" else n.Continue(form.span))
        case "func_name":
            pass
        case "device_entry":
            body.emit(n.Evaluate(n.Call(VOID, "device_entry", (), span=form.span), form.span))
        case "preflattened_buffer":
            pass
        case _:
            body.text.fail(node, "TS21", f"T.{form.name} cannot stand here.")


def _evaluate(body: FunctionBody, value: Value, node: Located) -> None:
    span = body.text.span(node)
    match value:
        case n.Call(op="break_loop"):
            body.emit(n.Break(span))
        case n.Call(op="continue_loop"):
            body.emit(n.Continue(span))
        case n.Stmt():
            body.emit(value)
        case _:
            body.emit(n.Evaluate(body.reader.as_expr(value, node), span))


def _region(body: FunctionBody, value: Value, node: Located) -> n.BufferRegion:
    match value:
        case n.BufferRegion():
            return value
        case n.BufferLoad(buffer, indices):
            return n.BufferRegion(buffer, tuple(map(point, indices)), value.span)
        case n.Buffer():
            ranges = tuple(n.Range(const(0, size.dtype), size) for size in value.shape)
            return n.BufferRegion(value, ranges, body.text.span(node))
        case Broken():
            raise Failure(())
        case _:
            body.text.fail(node, "TS21", f"a region of a buffer stands here, and this is {describe(value)}.")


def attribute(body: FunctionBody, form: Form) -> Callable[[n.Stmt], n.Stmt]:
    """`T.attr(node, key, value)`, or `T.attr({key: value})` for several on the node 0."""
    reader, span = body.reader, form.span
    located = span
    several = entries(form.args[0]) if len(form.args) == 1 and not form.kwargs else None
    if several is not None:
        facts: list[tuple[Value, str, Value]] = [
            (0, reader.string(key, located, "a key"), value) for key, value in several.items()
        ]
    else:
        given = named(body, form, ("node", "attr_key", "value"))
        if len(given) != 3:
            body.text.fail(span, "TS24", "T.attr needs a node, a key and a value.")
        facts = [(given["node"], reader.string(given["attr_key"], located, "a key"), given["value"])]
    made: list[tuple[n.Attribute, str, n.Attribute]] = []
    for target, key, value in facts:
        kept = value if not isinstance(value, bool | int | float | str) else reader.as_expr(value, span)
        about = target.value if isinstance(target, n.IntImm) else target
        made.append((reader.attribute(about, located), key, reader.attribute(kept, located)))

    def wrap(body: n.Stmt) -> n.Stmt:
        for target, key, value in reversed(made):
            body = n.AttrStmt(target, key, value, body, span)
        return body

    return wrap


def let_form(body: FunctionBody, form: Form, name: str, node: Located) -> None:
    given = named(body, form, ("value", "type_annotation", "var"))
    var, value = given.get("var"), given.get("value")
    located = node
    if isinstance(var, n.Var) and var.name:
        body.emit(n.LetStmt(var, body.reader.as_expr(value, node, var.dtype), form.span))
        return
    if isinstance(value, n.Var) and form.name == "let" and isinstance(given.get("type_annotation"), n.Expr):
        # The oldest form, T.let(var, value).
        bound = body.reader.as_expr(given["type_annotation"], node, value.dtype)
        body.emit(n.LetStmt(value, bound, form.span))
        return
    annotation = given.get("type_annotation")
    type_ = None if annotation is None else body.reader.type(annotation, located)
    body.let(name, type_, value, node)


def _store_form(body: FunctionBody, form: Form, node: Located) -> None:
    given = named(body, form, ("buffer", "value", "indices", "predicate"))
    buffer = given.get("buffer")
    if not isinstance(buffer, n.Buffer):
        body.text.fail(node, "TS21", f"T.buffer_store writes a buffer, and this is {describe(buffer)}.")
    items = given.get("indices", ())
    indices: list[n.Expr] = []
    for item in [items] if members(items) is None else members(items) or []:
        indices.append(body.reader.as_expr(item, node))
    value = body.reader.as_expr(given.get("value"), node, buffer.dtype)
    mask = given.get("predicate")
    predicate = None if mask is None else body.reader.as_expr(mask, node)
    body.emit(n.BufferStore(buffer, value, tuple(indices), predicate, form.span))


def realization(body: FunctionBody, form: Form, node: ast.With, rest: list[ast.withitem]) -> n.Stmt:
    """`with T.realize(A[0:4], scope, condition):`"""
    given = named(body, form, ("buffer_slice", "storage_scope", "condition"))
    region = _region(body, given.get("buffer_slice"), node)
    mask = given.get("condition")
    condition = true() if mask is None else body.reader.as_expr(mask, node, BOOL)
    return n.BufferRealize(region.buffer, region.region, condition, body.inner(node, rest), form.span)


def _prefetch(body: FunctionBody, form: Form, node: Located) -> None:
    given = named(body, form, ("buffer", "bounds"))
    buffer, bounds = given.get("buffer"), given.get("bounds")
    if isinstance(buffer, n.BufferRegion | n.BufferLoad):
        region = _region(body, buffer, node)
        body.emit(n.Prefetch(region.buffer, region.region, form.span))
        return
    ranges = members(bounds) or []
    if not isinstance(buffer, n.Buffer) or not all(isinstance(r, n.Range) for r in ranges):
        body.text.fail(node, "TS21", "T.prefetch takes a buffer and ranges.")
    body.emit(n.Prefetch(buffer, tuple(r for r in ranges if isinstance(r, n.Range)), form.span))


def _flat(args: tuple[Value, ...]) -> list[Value]:
    found: list[Value] = []
    for arg in args:
        inner = members(arg)
        found.extend([arg] if inner is None else inner)
    return found
