"""The body of a function of TVMScript: its suites, its blocks, and what its statements said of it.

A `Body` collects the statements of one suite. Forms whose scope is the rest of the suite but which are nodes with a
body (`T.attr(...)`, `T.launch_thread(...)` without `with`) wait in it until the suite ends.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const, seq, true
from tensorir.tir.nodes import IterKind
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.regions import accessed
from tensorir.tir.script.syntax import Located, Text
from tensorir.tir.script.values import (
    Axis,
    Broken,
    ThreadVar,
    Value,
    describe_statement,
    members,
)

MAX_WRAPS = 100


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
    """Reads the statements of one function by the rules of their kinds; `buffers`, `attrs` and `ret_type` say of it."""

    def __init__(self, reader: Evaluator, rules: Rules) -> None:
        self.reader, self.rules = reader, rules
        self.text: Text = reader.text
        self.buffers: dict[n.Var, n.Buffer] = {}
        self.params: dict[n.Var, None] = {}
        self.attrs: dict[str, n.Attribute] = {}
        self.ret_type: n.Type | None = None
        self.problems: list[Diagnostic] = []
        self.symbols: dict[str, n.Var] = {}
        self.blocks: list[BlockParts] = [BlockParts()]
        self.bodies: list[Body] = []

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
        rule = language.statements.get(type(node)) or self.rules.get(type(node))
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
        self._suite(statement.span).statements.append(statement)

    def _suite(self, node: Located) -> Body:
        if not self.bodies:
            self.text.fail(node, "TS26", "this is computed by a kernel, and stands outside of one.")
        return self.bodies[-1]

    def wrap(self, make: Callable[[n.Stmt], n.Stmt], node: Located) -> None:
        """Everything that follows in this suite is the body of what `make` makes."""
        body = self._suite(node)
        if len(body.wrappers) >= MAX_WRAPS:
            self.text.fail(node, "TS03", f"more than {MAX_WRAPS} attributes are nested here.")
        body.wrappers.append((len(body.statements), make))

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
        if thread.extent is None:
            self.text.fail(node, "TS24", "T.env_thread has no extent; use T.launch_thread.")
        span, size = self.text.span(node), thread.extent
        known = thread.iter_var
        var = n.Var(name, n.PrimType(size.dtype), span) if known is None else known.var
        dom = n.Range(const(0, size.dtype), size, size.span)
        iter_var = n.IterVar(dom, var, IterKind.THREAD_INDEX, thread.tag, span)
        key = "virtual_thread" if thread.tag.startswith("vthread") else "thread_extent"
        if name:
            self.reader.scope.define(name, var)
        return lambda body: n.AttrStmt(iter_var, key, size, body, span)

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


Rules = Mapping[type[ast.stmt], Callable[[FunctionBody, Any], None]]
"""What reads each kind of statement."""


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
