"""Statements of TVMScript: the rule of each kind of Python's grammar."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.build import true
from tensorir.tir.dtypes import BOOL
from tensorir.tir.nodes import ForKind, IterKind
from tensorir.tir.script.arithmetic import convert
from tensorir.tir.script.assignments import annotated, assign, augmented, bind
from tensorir.tir.script.body import MAX_WRAPS, BlockParts, Body, FunctionBody, Rules
from tensorir.tir.script.forms import attribute, form, named, region_of
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import (
    Axis,
    BlockForm,
    BufferSpec,
    Form,
    InitForm,
    LoopForm,
    ModuleRef,
    Name,
    ThreadVar,
    describe,
)


def for_(body: FunctionBody, node: ast.For) -> None:
    form = body.reader.value(node.iter)
    if node.orelse:
        body.text.fail(node.orelse[0], "TS07", "loops of TVMScript have no 'else'.")
    if not isinstance(form, LoopForm):
        body.text.fail(node.iter, "TS21", f"a loop runs over T.grid, T.serial, ..., and this is {describe(form)}.")
    loop(body, node, form)


def loop(body: FunctionBody, node: ast.For, form: LoopForm, named: Callable[[n.Var], None] | None = None) -> None:
    """The loops of a form around the statements; `named` says otherwise what the target stands for."""
    loops: list[tuple[n.Var, n.Expr, n.Expr]] = []
    for low, length in form.ranges:
        dtype = length.dtype if length.dtype.bits >= low.dtype.bits else low.dtype
        loops.append((n.Var("", n.PrimType(dtype)), low, length))
    names = _unpack(body, node.target, len(loops))
    body.reader.scope.push()
    try:
        made = [
            n.Var(name, var.type, body.text.span(place))
            for (name, place), (var, _, _) in zip(names, loops, strict=True)
        ]
        if named is None:
            _define_unpacked(body, node.target, made)
        for var, (_, low, length) in zip(made, loops, strict=True):
            body.reader.loops[var] = n.Range(low, length, length.span)
        before = None if named is None else partial(named, made[0])
        statement = body.suite(node.body, body.text.span(node), before=before)
    finally:
        body.reader.scope.pop()
    span = body.text.span(node)
    for depth, var, (_, low, length) in zip(reversed(range(len(made))), reversed(made), reversed(loops), strict=True):
        notes = form.annotations if depth == 0 else dict[str, n.Attribute]()
        thread = None
        if form.kind is ForKind.THREAD_BINDING:
            thread = n.IterVar(None, var, IterKind.THREAD_INDEX, form.thread, span)
        statement = n.For(var, low, length, form.kind, statement, thread, notes, form.step, span)
    body.emit(statement)


def _unpack(body: FunctionBody, target: ast.expr, count: int) -> list[tuple[str, Located]]:
    """The names of `count` variables that `target` binds."""
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if isinstance(target, ast.Starred):
        body.text.fail(target, "TS07", "a name with '*' stands in a tuple or a list.", "write (*names,).")
    if len(parts) == 1 and isinstance(parts[0], ast.Name) and not isinstance(target, ast.Tuple | ast.List):
        if count == 1:
            return [(parts[0].id, parts[0])]
        return [(f"{parts[0].id}_{k}", parts[0]) for k in range(count)]
    names: list[tuple[str, Located]] = []
    starred = sum(isinstance(part, ast.Starred) for part in parts)
    plain = len(parts) - starred
    if starred > 1 or (plain != count if not starred else plain > count):
        body.text.fail(target, "TS24", f"there are {count} values for {len(parts)} names.")
    for part in parts:
        inner = part.value if isinstance(part, ast.Starred) else part
        if not isinstance(inner, ast.Name):
            body.text.fail(part, "TS07", "a name stands here.")
        if isinstance(part, ast.Starred):
            names += [(f"{inner.id}_{k}", part) for k in range(count - plain)]
        else:
            names.append((inner.id, part))
    return names


def _define_unpacked(body: FunctionBody, target: ast.expr, values: list[n.Var]) -> None:
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else None
    if parts is None:
        assert isinstance(target, ast.Name)
        body.reader.scope.define(target.id, values[0] if len(values) == 1 else tuple(values))
        return
    rest = list(values)
    for position, part in enumerate(parts):
        if isinstance(part, ast.Starred):
            assert isinstance(part.value, ast.Name)
            count = len(values) - (len(parts) - 1)
            body.reader.scope.define(part.value.id, tuple(values[position : position + count]))
            rest = rest[count:]
        else:
            assert isinstance(part, ast.Name)
            body.reader.scope.define(part.id, rest.pop(0))


def while_(body: FunctionBody, node: ast.While) -> None:
    if node.orelse:
        body.text.fail(node.orelse[0], "TS07", "loops of TVMScript have no 'else'.")
    condition = body.reader.condition(body.reader.value(node.test), node.test)
    body.emit(n.While(condition, body.suite(node.body, body.text.span(node)), body.text.span(node)))


def if_(body: FunctionBody, node: ast.If) -> None:
    """A condition of TIR makes a branch; one that Python can decide selects."""
    chain: list[tuple[n.Expr, n.Stmt, Span]] = []
    last: n.Stmt | None = None
    current: ast.If | None = node
    while current is not None:
        test = body.reader.value(current.test)
        if isinstance(test, bool | int | str | None):
            chosen = current.body if test else current.orelse
            if not chain:
                for statement in chosen:
                    body.statement(statement)
                return
            last = body.suite(chosen, body.text.span(current)) if chosen else None
            break
        condition = body.reader.condition(test, current.test)
        chain.append((condition, body.suite(current.body, body.text.span(current)), body.text.span(current)))
        match current.orelse:
            case [ast.If() as other]:
                current = other
            case []:
                current = None
            case statements:
                last = body.suite(statements, body.text.span(statements[0]).to(body.text.span(statements[-1])))
                current = None
        if len(chain) > MAX_WRAPS:
            body.text.fail(node, "TS03", f"more than {MAX_WRAPS} 'elif' follow each other here.")
    for condition, then, span in reversed(chain):
        last = n.IfThenElse(condition, then, last, span)
    assert last is not None
    body.emit(last)


def assert_(body: FunctionBody, node: ast.Assert) -> None:
    condition = body.reader.condition(body.reader.value(node.test), node.test)
    message = () if node.msg is None else body.reader.value(node.msg)
    body.emit(body.assertion(condition, message, node))


def return_(body: FunctionBody, node: ast.Return) -> None:
    if node.value is None:
        body.text.fail(node, "TS24", "'return' of TVMScript needs a value.")
    value = body.reader.expr(node.value)
    if isinstance(body.ret_type, n.PrimType) and isinstance(value, n.IntImm):
        value = convert(value, body.ret_type.dtype, value.span)
    span = body.text.span(node)
    body.emit(n.Evaluate(n.Call(value.dtype, "ret", (value,), span=span), span))


def break_(body: FunctionBody, node: ast.Break) -> None:
    body.emit(n.Break(body.text.span(node)))


def continue_(body: FunctionBody, node: ast.Continue) -> None:
    body.emit(n.Continue(body.text.span(node)))


def expression(body: FunctionBody, node: ast.Expr) -> None:
    value = body.reader.value(node.value)
    span = body.text.span(node)
    match value:
        case None | str():
            pass
        case n.Stmt():
            body.emit(value)
        case Form():
            form(body, value, node)
        case BufferSpec() | Axis():
            bind(body, "", value, node)
        case ThreadVar():
            body.launch(value, "", node)
        case n.Call(op="break_loop"):
            body.emit(n.Break(span))
        case n.Call(op="continue_loop"):
            body.emit(n.Continue(span))
        case n.GlobalVar() | Name() | ModuleRef():
            body.text.fail(node, "TS21", f"{describe(value)} is no statement.")
        case _:
            body.emit(n.Evaluate(body.reader.as_expr(value, node), span))


def with_(body: FunctionBody, node: ast.With) -> None:
    body.reader.scope.push()
    try:
        _with_items(body, node, node.items)
    finally:
        body.reader.scope.pop()


def _with_items(body: FunctionBody, node: ast.With, items: list[ast.withitem]) -> None:
    if not items:
        body.emit(body.suite(node.body, body.text.span(node)))
        return
    item, rest = items[0], items[1:]
    form = body.reader.value(item.context_expr)
    span = body.text.span(node)
    name = item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else ""
    place = item.optional_vars or item.context_expr
    if item.optional_vars is not None and not name:
        body.text.fail(item.optional_vars, "TS07", "a name stands after 'as'.")
    match form:
        case BlockForm():
            _block(body, form, node, rest)
        case InitForm():
            if len(body.blocks) == 1:
                body.text.fail(item.context_expr, "TS26", "T.init stands inside of a block.")
            if body.blocks[-1].init is not None:
                body.text.fail(item.context_expr, "TS26", "this block has a T.init already.")
            body.blocks[-1].init = inner(body, node, rest)
        case ThreadVar():
            if form.extent is None:
                body.text.fail(item.context_expr, "TS24", "T.env_thread has no extent; use T.launch_thread.")
            launch = body.launcher(form, name, place)
            body.emit(launch(inner(body, node, rest)))
        case Form("attr"):
            make = attribute(body, form)
            body.emit(make(inner(body, node, rest)))
        case Form("Assert"):
            given = named(body, form, ("condition", "message", "error_kind"))
            condition = body.reader.as_expr(given.get("condition"), item.context_expr, BOOL)
            body.emit(body.assertion(condition, given.get("message"), item.context_expr))
            body.emit(inner(body, node, rest))
        case Form("realize"):
            body.emit(_realization(body, form, node, rest))
        case Form("allocate" | "allocate_const" | "LetStmt" | "let" | "Bind" | "bind") | BufferSpec():
            body.bodies.append(suite := Body())
            try:
                bind(body, name, form, place)
                _with_items(body, node, rest)
            finally:
                body.bodies.pop()
            body.emit(suite.close(span))
        case _:
            body.text.fail(item.context_expr, "TS21", f"'with' takes a block, T.attr, ..., not {describe(form)}.")


def inner(body: FunctionBody, node: ast.With, rest: list[ast.withitem]) -> n.Stmt:
    body.bodies.append(suite := Body())
    try:
        _with_items(body, node, rest)
    finally:
        body.bodies.pop()
    return suite.close(body.text.span(node))


def _block(body: FunctionBody, form: BlockForm, node: ast.With, rest: list[ast.withitem]) -> None:
    span = body.text.span(node)
    for outer in body.blocks:
        outer.has_blocks = True
    parts = BlockParts()
    body.blocks.append(parts)
    try:
        within = inner(body, node, rest)
    finally:
        body.blocks.pop()
    realized = body.realize(form.name, parts, within, span, complete=True)
    body.emit(realized if form.realize else realized.block)


def _realization(body: FunctionBody, form: Form, node: ast.With, rest: list[ast.withitem]) -> n.Stmt:
    """`with T.realize(A[0:4], scope, condition):`"""
    given = named(body, form, ("buffer_slice", "storage_scope", "condition"))
    region = region_of(body, given.get("buffer_slice"), node)
    mask = given.get("condition")
    condition = true() if mask is None else body.reader.as_expr(mask, node, BOOL)
    return n.BufferRealize(region.buffer, region.region, condition, inner(body, node, rest), form.span)


RULES: Rules = {
    ast.For: for_,
    ast.While: while_,
    ast.If: if_,
    ast.With: with_,
    ast.Assert: assert_,
    ast.Return: return_,
    ast.Pass: lambda body, node: None,
    ast.Break: break_,
    ast.Continue: continue_,
    ast.Expr: expression,
    ast.Assign: assign,
    ast.AugAssign: augmented,
    ast.AnnAssign: annotated,
}
