"""Calls that stand as statements, and buffers that get a name: parameters, allocations, views."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const, true
from tensorir.tir.dtypes import BOOL, INT32, VOID
from tensorir.tir.script.body import FunctionBody
from tensorir.tir.script.subscripts import point
from tensorir.tir.script.syntax import Failure, Located
from tensorir.tir.script.values import Broken, BufferSpec, Form, Value, describe, entries, members

# Buffers that get a name: parameters, allocations, views, matches, and memory behind pointers.


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


def _only(body: FunctionBody, form: Form, name: str) -> Value:
    """The one argument of a form."""
    found = named(body, form, (name,))
    if name not in found:
        body.text.fail(form.span, "TS24", f"T.{form.name} needs {name!r}.")
    return found[name]


# Calls that stand as statements: `T.reads(...)`, `T.func_attr(...)`, `T.attr(...)`, `T.evaluate(...)`, and others.

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
            regions = tuple(region_of(body, arg, node) for arg in _flat(form.args))
            if form.name == "reads":
                parts.reads = (*(parts.reads or ()), *regions)
            else:
                parts.writes = (*(parts.writes or ()), *regions)
        case "where":
            predicate = reader.as_expr(_only(body, form, "predicate"), node, BOOL)
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
            _evaluate(body, _only(body, form, "value"), node)
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


def region_of(body: FunctionBody, value: Value, node: Located) -> n.BufferRegion:
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


def let(body: FunctionBody, name: str, type_: n.Type | None, value: Value, node: ast.AnnAssign | Located) -> n.Var:
    if value is None:
        body.text.fail(node, "TS24", f"T.let needs a value for {name!r}.")
    if type_ is None:
        bound = body.reader.as_expr(value, node)
        type_ = bound.type if isinstance(bound, n.Var) else n.PrimType(bound.dtype)
    else:
        bound = body.reader.bound(name, type_, value, node)
    place = node.target if isinstance(node, ast.AnnAssign) else node
    var = n.Var(name, type_, body.text.span(place))
    body.emit(n.LetStmt(var, bound, body.text.span(node)))
    body.reader.scope.define(name, var)
    return var


def let_form(body: FunctionBody, form: Form, name: str, node: Located) -> None:
    given = named(body, form, ("value", "type_annotation", "var"))
    var, value = given.get("var"), given.get("value")
    located = node
    if isinstance(var, n.Var) and var.name:
        body.emit(n.LetStmt(var, body.reader.bound(var.name, var.type, value, node), form.span))
        return
    if isinstance(value, n.Var) and form.name == "let" and isinstance(given.get("type_annotation"), n.Expr):
        # The oldest form, T.let(var, value).
        bound = body.reader.bound(value.name, value.type, given["type_annotation"], node)
        body.emit(n.LetStmt(value, bound, form.span))
        return
    annotation = given.get("type_annotation")
    type_ = None if annotation is None else body.reader.type(annotation, located)
    let(body, name, type_, value, node)


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


def _prefetch(body: FunctionBody, form: Form, node: Located) -> None:
    given = named(body, form, ("buffer", "bounds"))
    buffer, bounds = given.get("buffer"), given.get("bounds")
    if isinstance(buffer, n.BufferRegion | n.BufferLoad):
        region = region_of(body, buffer, node)
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
