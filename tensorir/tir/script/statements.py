"""Statements of TVMScript, and the body of one function.

A `Body` collects the statements of one suite. Forms whose scope is the rest of the suite but which are nodes with a
body (`T.attr(...)`, `T.launch_thread(...)` without `with`) wait in it until the suite ends.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const, seq, true
from tensorir.tir.dtypes import BOOL, DataType
from tensorir.tir.nodes import ForKind, IterKind
from tensorir.tir.script import assignments
from tensorir.tir.script.arithmetic import convert
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.forms import attribute, form, named, realization
from tensorir.tir.script.regions import accessed
from tensorir.tir.script.syntax import Located, Text
from tensorir.tir.script.values import (
    Axis,
    BlockForm,
    Broken,
    BufferSpec,
    Form,
    InitForm,
    LoopForm,
    ModuleRef,
    Name,
    ThreadVar,
    Value,
    describe,
    describe_statement,
    members,
)

_MAX_WRAPS = 100


@dataclass
class Body:
    """The statements of a suite, and the wrappers that enclose all statements from a position on."""

    statements: list[n.Stmt] = field(default_factory=list[n.Stmt])
    wrappers: list[tuple[int, Callable[[n.Stmt], n.Stmt]]] = field(
        default_factory=list[tuple[int, Callable[[n.Stmt], n.Stmt]]]
    )

    def close(self, span: Span) -> n.Stmt:
        for position, wrap in reversed(self.wrappers):
            self.statements[position:] = [wrap(seq(self.statements[position:], span))]
        return seq(self.statements, span)


@dataclass
class BlockParts:
    """The declarations among the statements of a block."""

    iter_vars: list[n.IterVar] = field(default_factory=list[n.IterVar])
    values: list[n.Expr] = field(default_factory=list[n.Expr])
    reads: tuple[n.BufferRegion, ...] | None = None
    writes: tuple[n.BufferRegion, ...] | None = None
    predicate: n.Expr | None = None
    annotations: dict[str, n.Attribute] = field(default_factory=dict[str, n.Attribute])
    allocs: list[n.Buffer] = field(default_factory=list[n.Buffer])
    matches: list[n.MatchBufferRegion] = field(default_factory=list[n.MatchBufferRegion])
    init: n.Stmt | None = None
    has_blocks: bool = False


class FunctionBody:
    """Reads the statements of one function; `buffers`, `attrs` and `ret_type` hold what they say about it."""

    assign: ClassVar[Callable[[FunctionBody, ast.Assign], None]] = assignments.assign
    unpack_values: ClassVar[
        Callable[[FunctionBody, list[ast.expr], list[Value], ast.expr], list[tuple[ast.expr, Value]]]
    ] = assignments.unpack_values
    store: ClassVar[Callable[[FunctionBody, ast.Subscript, Value, Located], None]] = assignments.store
    emit_store: ClassVar[Callable[[FunctionBody, n.Buffer, Value, tuple[n.Expr, ...], Located], None]] = (
        assignments.emit_store
    )
    augmented: ClassVar[Callable[[FunctionBody, ast.AugAssign], None]] = assignments.augmented
    annotated: ClassVar[Callable[[FunctionBody, ast.AnnAssign], None]] = assignments.annotated
    let: ClassVar[Callable[[FunctionBody, str, n.Type | None, Value, Located | ast.AnnAssign], n.Var]] = assignments.let
    scalar: ClassVar[Callable[[FunctionBody, str, DataType, Located], n.Buffer]] = assignments.scalar
    bind: ClassVar[Callable[[FunctionBody, str, Value, Located], None]] = assignments.bind
    symbol: ClassVar[Callable[[FunctionBody, str, n.Var, Span], n.Var]] = assignments.symbol

    def __init__(self, reader: Evaluator) -> None:
        self.reader = reader
        self.text: Text = reader.text
        self.buffers: dict[n.Var, n.Buffer] = {}
        self.params: dict[n.Var, None] = {}
        self.attrs: dict[str, n.Attribute] = {}
        self.ret_type: n.Type | None = None
        self.problems: list[Diagnostic] = []
        self.symbols: dict[str, n.Var] = {}
        self.blocks: list[BlockParts] = [BlockParts()]
        self.bodies: list[Body] = []

    # -------------------------------------------------------------------------------------------- suites

    def function(self, statements: list[ast.stmt], span: Span) -> n.Stmt:
        """The body of the function, in a root block where it has blocks or allocates as a block does."""
        return self.rooted(self.suite(statements, span, scoped=False), span)

    def rooted(self, body: n.Stmt, span: Span) -> n.Stmt:
        """The statements of a function, in the root block where there is one."""
        root = self.blocks[0]
        if not (root.has_blocks or root.allocs or root.annotations or root.matches or root.iter_vars):
            return body
        bare = not (root.allocs or root.annotations or root.matches or root.iter_vars)
        if bare and isinstance(body, n.BlockRealize) and not body.block.iter_vars:
            return body
        return self.realize("root", root, body, span, complete=False)

    def suite(
        self, statements: list[ast.stmt], span: Span, scoped: bool = True, before: Callable[[], None] | None = None
    ) -> n.Stmt:
        """The statements one after the other, behind those of `before`; a wrong one is reported, the next one read."""
        body = Body()
        self.bodies.append(body)
        if scoped:
            self.reader.scope.push()
        try:
            if before is not None:
                before()
            for statement in statements:
                self.statement(statement)
        finally:
            self.bodies.pop()
            if scoped:
                self.reader.scope.pop()
        return body.close(span)

    def statement(self, node: ast.stmt) -> None:
        language = self.reader.language
        rule = language.statements.get(type(node)) or _RULES.get(type(node))
        depth = len(self.reader.scope.frames)
        try:
            if rule is None:
                what = describe_statement(node)
                self.text.fail(node, "TS07", f"{what} is no part of a function of {language.title}.")
            rule(self, node)
        except DiagnosticError as error:
            self.reader.reset()
            del self.reader.scope.frames[depth:]
            self.problems.extend(error.diagnostics)
            if len(self.problems) > 50:
                raise DiagnosticError(self.problems) from None
            for name in _targets(node):
                self.reader.scope.define(name, Broken())

    def emit(self, statement: n.Stmt) -> None:
        self.bodies[-1].statements.append(statement)

    def wrap(self, make: Callable[[n.Stmt], n.Stmt], node: Located) -> None:
        """Everything that follows in this suite is the body of what `make` makes."""
        body = self.bodies[-1]
        if len(body.wrappers) >= _MAX_WRAPS:
            self.text.fail(node, "TS03", f"more than {_MAX_WRAPS} attributes are nested here.")
        body.wrappers.append((len(body.statements), make))

    # ---------------------------------------------------------------------------------------- statements

    def for_(self, node: ast.For) -> None:
        form = self.reader.value(node.iter)
        if node.orelse:
            self.text.fail(node.orelse[0], "TS07", "loops of TVMScript have no 'else'.")
        if not isinstance(form, LoopForm):
            self.text.fail(node.iter, "TS21", f"a loop runs over T.grid, T.serial, ..., and this is {describe(form)}.")
        self.loop(node, form)

    def loop(self, node: ast.For, form: LoopForm, named: Callable[[n.Var], None] | None = None) -> None:
        """The loops of a form around the statements; `named` says otherwise what the target stands for."""
        loops: list[tuple[n.Var, n.Expr, n.Expr]] = []
        for low, length in form.ranges:
            dtype = length.dtype if length.dtype.bits >= low.dtype.bits else low.dtype
            loops.append((n.Var("", n.PrimType(dtype)), low, length))
        names = self._unpack(node.target, len(loops))
        self.reader.scope.push()
        try:
            made = [
                n.Var(name, var.type, self.text.span(place))
                for (name, place), (var, _, _) in zip(names, loops, strict=True)
            ]
            if named is None:
                self._define_unpacked(node.target, made)
            for var, (_, low, length) in zip(made, loops, strict=True):
                self.reader.loops[var] = n.Range(low, length, length.span)
            before = None if named is None else partial(named, made[0])
            statement = self.suite(node.body, self.text.span(node), before=before)
        finally:
            self.reader.scope.pop()
        span = self.text.span(node)
        for depth, var, (_, low, length) in zip(
            reversed(range(len(made))), reversed(made), reversed(loops), strict=True
        ):
            notes = form.annotations if depth == 0 else dict[str, n.Attribute]()
            thread = None
            if form.kind is ForKind.THREAD_BINDING:
                thread = n.IterVar(None, var, IterKind.THREAD_INDEX, form.thread, span)
            statement = n.For(var, low, length, form.kind, statement, thread, notes, form.step, span)
        self.emit(statement)

    def _unpack(self, target: ast.expr, count: int) -> list[tuple[str, Located]]:
        """The names of `count` variables that `target` binds."""
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if len(parts) == 1 and isinstance(parts[0], ast.Name) and not isinstance(target, ast.Tuple | ast.List):
            if count == 1:
                return [(parts[0].id, parts[0])]
            return [(f"{parts[0].id}_{k}", parts[0]) for k in range(count)]
        names: list[tuple[str, Located]] = []
        starred = sum(isinstance(part, ast.Starred) for part in parts)
        plain = len(parts) - starred
        if starred > 1 or (plain != count if not starred else plain > count):
            self.text.fail(target, "TS24", f"there are {count} values for {len(parts)} names.")
        for part in parts:
            inner = part.value if isinstance(part, ast.Starred) else part
            if not isinstance(inner, ast.Name):
                self.text.fail(part, "TS07", "a name stands here.")
            if isinstance(part, ast.Starred):
                names += [(f"{inner.id}_{k}", part) for k in range(count - plain)]
            else:
                names.append((inner.id, part))
        return names

    def _define_unpacked(self, target: ast.expr, values: list[n.Var]) -> None:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else None
        if parts is None:
            assert isinstance(target, ast.Name)
            self.reader.scope.define(target.id, values[0] if len(values) == 1 else tuple(values))
            return
        rest = list(values)
        for position, part in enumerate(parts):
            if isinstance(part, ast.Starred):
                assert isinstance(part.value, ast.Name)
                count = len(values) - (len(parts) - 1)
                self.reader.scope.define(part.value.id, tuple(values[position : position + count]))
                rest = rest[count:]
            else:
                assert isinstance(part, ast.Name)
                self.reader.scope.define(part.id, rest.pop(0))

    def while_(self, node: ast.While) -> None:
        if node.orelse:
            self.text.fail(node.orelse[0], "TS07", "loops of TVMScript have no 'else'.")
        condition = self.reader.condition(self.reader.value(node.test), node.test)
        self.emit(n.While(condition, self.suite(node.body, self.text.span(node)), self.text.span(node)))

    def if_(self, node: ast.If) -> None:
        """A condition of TIR makes a branch; one that Python can decide selects."""
        chain: list[tuple[n.Expr, n.Stmt, Span]] = []
        last: n.Stmt | None = None
        current: ast.If | None = node
        while current is not None:
            test = self.reader.value(current.test)
            if isinstance(test, bool | int | str | None):
                chosen = current.body if test else current.orelse
                if not chain:
                    for statement in chosen:
                        self.statement(statement)
                    return
                last = self.suite(chosen, self.text.span(current)) if chosen else None
                break
            condition = self.reader.condition(test, current.test)
            chain.append((condition, self.suite(current.body, self.text.span(current)), self.text.span(current)))
            match current.orelse:
                case [ast.If() as other]:
                    current = other
                case []:
                    current = None
                case statements:
                    last = self.suite(statements, self.text.span(statements[0]).to(self.text.span(statements[-1])))
                    current = None
            if len(chain) > _MAX_WRAPS:
                self.text.fail(node, "TS03", f"more than {_MAX_WRAPS} 'elif' follow each other here.")
        for condition, then, span in reversed(chain):
            last = n.IfThenElse(condition, then, last, span)
        assert last is not None
        self.emit(last)

    def assert_(self, node: ast.Assert) -> None:
        condition = self.reader.condition(self.reader.value(node.test), node.test)
        message = () if node.msg is None else self.reader.value(node.msg)
        self.emit(self.assertion(condition, message, node))

    def assertion(self, condition: n.Expr, message: Value, node: Located) -> n.Stmt:
        kind, parts = "RuntimeError", message
        pair = members(message)
        if pair is not None and len(pair) == 2 and isinstance(message, tuple):
            kind = self.reader.string(pair[0], node, "the kind of an error")
            parts = pair[1]
        elif isinstance(message, n.IntImm | int):
            parts = str(message.value if isinstance(message, n.IntImm) else message)
        items = members(parts)
        items = [parts] if items is None else items
        texts = tuple(self._message(item, node) for item in items)
        return n.AssertStmt(condition, texts, kind, self.text.span(node))

    def _message(self, part: Value, node: Located) -> str:
        if isinstance(part, n.Opaque):
            return n.MetadataText(part.text)
        return self.reader.string(part, node, "a message")

    def return_(self, node: ast.Return) -> None:
        if node.value is None:
            self.text.fail(node, "TS24", "'return' of TVMScript needs a value.")
        value = self.reader.expr(node.value)
        if isinstance(self.ret_type, n.PrimType) and isinstance(value, n.IntImm):
            value = convert(value, self.ret_type.dtype, value.span)
        span = self.text.span(node)
        self.emit(n.Evaluate(n.Call(value.dtype, "ret", (value,), span=span), span))

    def pass_(self, node: ast.Pass) -> None:
        pass

    def break_(self, node: ast.Break) -> None:
        self.emit(n.Break(self.text.span(node)))

    def continue_(self, node: ast.Continue) -> None:
        self.emit(n.Continue(self.text.span(node)))

    def expression(self, node: ast.Expr) -> None:
        value = self.reader.value(node.value)
        span = self.text.span(node)
        match value:
            case None | str():
                pass
            case n.Stmt():
                self.emit(value)
            case Form():
                form(self, value, node)
            case BufferSpec() | Axis():
                self.bind("", value, node)
            case ThreadVar():
                self.launch(value, "", node)
            case n.Call(op="break_loop"):
                self.emit(n.Break(span))
            case n.Call(op="continue_loop"):
                self.emit(n.Continue(span))
            case n.GlobalVar() | Name() | ModuleRef():
                self.text.fail(node, "TS21", f"{describe(value)} is no statement.")
            case _:
                self.emit(n.Evaluate(self.reader.as_expr(value, node), span))

    # --------------------------------------------------------------------------------------- assignments

    # ------------------------------------------------------------------------------------ blocks, threads

    def axis(self, axis: Axis, name: str, node: Located) -> n.Var:
        if len(self.blocks) == 1:
            self.text.fail(node, "TS26", "an axis stands inside of a block.")
        span = self.text.span(node)
        dom, value = axis.dom, axis.value
        var = n.Var(name, n.PrimType(axis.dtype), span)
        if isinstance(value, n.IntImm) and value.dtype != axis.dtype:
            value = n.IntImm(value.value, axis.dtype, value.span)
        parts = self.blocks[-1]
        parts.iter_vars.append(n.IterVar(dom, var, axis.kind, "", span))
        parts.values.append(value)
        return var

    def launch(self, thread: ThreadVar, name: str, node: Located) -> None:
        self.wrap(self.launcher(thread, name, node), node)

    def launcher(self, thread: ThreadVar, name: str, node: Located) -> Callable[[n.Stmt], n.Stmt]:
        """`thread_extent` over what follows; the thread's variable is in scope there."""
        assert thread.extent is not None
        span, size = self.text.span(node), thread.extent
        known = thread.iter_var
        var = n.Var(name, n.PrimType(size.dtype), span) if known is None else known.var
        dom = n.Range(const(0, size.dtype), size, size.span)
        iter_var = n.IterVar(dom, var, IterKind.THREAD_INDEX, thread.tag, span)
        key = "virtual_thread" if thread.tag.startswith("vthread") else "thread_extent"
        if name:
            self.reader.scope.define(name, var)
        return lambda body: n.AttrStmt(iter_var, key, size, body, span)

    def with_(self, node: ast.With) -> None:
        self.reader.scope.push()
        try:
            self._with_items(node, node.items)
        finally:
            self.reader.scope.pop()

    def _with_items(self, node: ast.With, items: list[ast.withitem]) -> None:
        if not items:
            self.emit(self.suite(node.body, self.text.span(node)))
            return
        item, rest = items[0], items[1:]
        form = self.reader.value(item.context_expr)
        span = self.text.span(node)
        name = item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else ""
        place = item.optional_vars or item.context_expr
        if item.optional_vars is not None and not name:
            self.text.fail(item.optional_vars, "TS07", "a name stands after 'as'.")
        match form:
            case BlockForm():
                self._block(form, node, rest)
            case InitForm():
                if len(self.blocks) == 1:
                    self.text.fail(item.context_expr, "TS26", "T.init stands inside of a block.")
                if self.blocks[-1].init is not None:
                    self.text.fail(item.context_expr, "TS26", "this block has a T.init already.")
                self.blocks[-1].init = self.inner(node, rest)
            case ThreadVar():
                if form.extent is None:
                    self.text.fail(item.context_expr, "TS24", "T.env_thread has no extent; use T.launch_thread.")
                launch = self.launcher(form, name, place)
                self.emit(launch(self.inner(node, rest)))
            case Form("attr"):
                make = attribute(self, form)
                self.emit(make(self.inner(node, rest)))
            case Form("Assert"):
                given = named(self, form, ("condition", "message", "error_kind"))
                condition = self.reader.as_expr(given.get("condition"), item.context_expr, BOOL)
                self.emit(self.assertion(condition, given.get("message"), item.context_expr))
                self.emit(self.inner(node, rest))
            case Form("realize"):
                self.emit(realization(self, form, node, rest))
            case Form("allocate" | "allocate_const" | "LetStmt" | "let" | "Bind" | "bind") | BufferSpec():
                self.bodies.append(body := Body())
                try:
                    self.bind(name, form, place)
                    self._with_items(node, rest)
                finally:
                    self.bodies.pop()
                self.emit(body.close(span))
            case _:
                self.text.fail(item.context_expr, "TS21", f"'with' takes a block, T.attr, ..., not {describe(form)}.")

    def inner(self, node: ast.With, rest: list[ast.withitem]) -> n.Stmt:
        self.bodies.append(body := Body())
        try:
            self._with_items(node, rest)
        finally:
            self.bodies.pop()
        return body.close(self.text.span(node))

    def _block(self, form: BlockForm, node: ast.With, rest: list[ast.withitem]) -> None:
        span = self.text.span(node)
        for outer in self.blocks:
            outer.has_blocks = True
        parts = BlockParts()
        self.blocks.append(parts)
        try:
            body = self.inner(node, rest)
        finally:
            self.blocks.pop()
        realized = self.realize(form.name, parts, body, span, complete=True)
        self.emit(realized if form.realize else realized.block)

    def realize(self, name: str, parts: BlockParts, body: n.Stmt, span: Span, complete: bool) -> n.BlockRealize:
        block = n.Block(
            tuple(parts.iter_vars),
            parts.reads or (),
            parts.writes or (),
            name,
            body,
            parts.init,
            tuple(parts.allocs),
            tuple(parts.matches),
            parts.annotations,
            span,
        )
        if complete and (parts.reads is None or parts.writes is None):
            known = (
                value for frame in self.reader.scope.frames for value in frame.values() if isinstance(value, n.Buffer)
            )
            reads, writes = accessed(block, known)
            block = replace(
                block,
                reads=reads if parts.reads is None else parts.reads,
                writes=writes if parts.writes is None else parts.writes,
            )
        return n.BlockRealize(tuple(parts.values), parts.predicate or true(), block, span)


def _targets(node: ast.stmt) -> list[str]:
    """The names that a statement would have bound."""
    targets: list[ast.expr] = []
    match node:
        case ast.Assign():
            targets = node.targets
        case ast.AnnAssign():
            targets = [node.target]
        case _:
            return []
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


_RULES: dict[type[ast.stmt], Callable[[FunctionBody, ast.stmt], None]] = {
    ast.For: FunctionBody.for_,
    ast.While: FunctionBody.while_,
    ast.If: FunctionBody.if_,
    ast.With: FunctionBody.with_,
    ast.Assert: FunctionBody.assert_,
    ast.Return: FunctionBody.return_,
    ast.Pass: FunctionBody.pass_,
    ast.Break: FunctionBody.break_,
    ast.Continue: FunctionBody.continue_,
    ast.Expr: FunctionBody.expression,
    ast.Assign: FunctionBody.assign,
    ast.AugAssign: FunctionBody.augmented,
    ast.AnnAssign: FunctionBody.annotated,
}  # type: ignore[dict-item]
