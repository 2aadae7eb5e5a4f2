"""Functions of Relax, from the same trees and under the same white list as TIR."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from tensorir.relax import calls
from tensorir.relax import nodes as r
from tensorir.relax.evaluate import Blocks, Values
from tensorir.relax.infer import type_of
from tensorir.relax.rules_of_elements import say
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT64, DataType
from tensorir.tir.script.evaluate import Evaluator, Rules
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import (
    Broken,
    DataTypeName,
    Metadata,
    ModuleRef,
    Name,
    TypeVariable,
    Value,
    describe,
    members,
)


def read_function(
    outer: Evaluator, node: ast.FunctionDef, keywords: Mapping[str, Value]
) -> tuple[r.Function, list[Diagnostic]]:
    """The function, and what is wrong with it."""
    reader = Reader(outer)
    outer.scope.push()
    try:
        for name in outer.scope.names():
            if isinstance(found := outer.scope.find(name), TypeVariable):
                outer.scope.define(name, n.Var(found.name, n.PrimType(INT64)))
        function = reader.function(node, keywords)
    finally:
        outer.scope.pop()
    return function, reader.problems


class Reader(Values):
    """Statements of Relax, and the expressions in them."""

    def __init__(self, outer: Evaluator) -> None:
        super().__init__(outer, {**outer.rules, **RULES})
        self._result: r.RelaxExpr | None = None

    # -------------------------------------------------------------------------------------------- functions

    def function(
        self, node: ast.FunctionDef, keywords: Mapping[str, Value], announce: Callable[[r.FuncType], None] | None = None
    ) -> r.Function:
        """A function of the module; one inside of another function announces its type to its own body."""
        inner = announce is not None
        params: list[r.RelaxVar] = []
        for argument in node.args.args:
            if argument.annotation is None:
                self.fail(argument, "TS32", f"the parameter {argument.arg!r} has no type.")
            kind = self.relax_type(self.value(argument.annotation), argument.annotation)
            kind = _with_name(kind, argument.arg, self.text.span(argument))
            params.append(r.RelaxVar(argument.arg, kind, False, self.text.span(argument)))
        for param in params:
            self._name(param)
        ret = None if node.returns is None else self.relax_type(self.value(node.returns), node.returns)
        if ret is not None:
            kind = r.FuncType(tuple(p.type for p in params), ret, keywords.get("pure") is not False)
            if announce is None:
                self.functions[node.name] = kind
            else:
                announce(kind)
        saved = self.attrs, self._result, self.sequences
        self.attrs, self._result, self.sequences = {}, None, []
        span = self.text.span(node)
        blocks = self._sequence(node.body, span)
        if self._result is None and isinstance(ret, r.TensorType) and not self.problems:
            self.fail(node, "TS42", f"{node.name!r} returns nothing, and a tensor is stated.", "end it with 'return'.")
        body = r.SeqExpr(tuple(blocks.blocks), self._result or r.Tuple((), span), span)
        attrs, (self.attrs, self._result, self.sequences) = dict(self.attrs), saved
        if ret is not None and not self.problems:
            self.check(ret, body, node.returns or node, "the result")
        if keywords.get("private") is not True and not inner:
            attrs.setdefault("global_symbol", node.name)
        function = r.Function(node.name, tuple(params), body, ret, attrs, keywords.get("pure") is not False, None, span)
        if not inner:
            self.functions.setdefault(node.name, type_of(function, self.functions))
        return function

    def _sequence(self, statements: list[ast.stmt], span: Span) -> Blocks:
        blocks = Blocks()
        self.sequences.append(blocks)
        try:
            self._statements(statements)
        finally:
            self.sequences.pop()
        blocks.close(span)
        return blocks

    def _statements(self, statements: list[ast.stmt]) -> None:
        """Read statements; one that is wrong is told, and the names that it binds are, from then on."""
        for statement in statements:
            depth = len(self.scope.frames)
            try:
                self._statement(statement)
            except DiagnosticError as error:
                self.reset()
                del self.scope.frames[depth:]
                self.problems.extend(error.diagnostics)
                for name in _targets(statement):
                    self.scope.define(name, Broken())

    # ------------------------------------------------------------------------------------------- statements

    def _statement(self, node: ast.stmt) -> None:
        if self._result is not None:
            self.fail(node, "TS42", "nothing can follow 'return'.")
        match node:
            case ast.Assign(targets=[target]):
                self._assign(target, self.value(node.value), None, node)
            case ast.AnnAssign(target=ast.Name()) if node.value is not None:
                value = self.value(node.value)
                self._assign(node.target, value, self.relax_type(self.value(node.annotation), node.annotation), node)
            case ast.With():
                self._dataflow(node)
            case ast.If():
                self._branch(node)
            case ast.Return():
                if node.value is None:
                    self.fail(node, "TS42", "'return' needs a value.")
                if len(self.sequences) > 1 or self.sequences[-1].dataflow is not None:
                    self.fail(node, "TS42", "'return' stands at the end of the function only.")
                self._result = self.relax(self.value(node.value), node.value)
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Expr():
                self._bare(node)
            case ast.FunctionDef():
                self._inner(node)
            case ast.Pass():
                pass
            case _:
                self.fail(node, "TS07", "this is no part of a function of Relax.")

    def _assign(self, target: ast.expr, value: Value, stated: r.RelaxType | None, node: Located) -> None:
        items = members(value) or ()
        if isinstance(target, ast.Tuple) and len(items) == len(target.elts) and all(map(_is_fresh, items)):
            for part, item in zip(target.elts, items, strict=True):
                self._assign(part, item, None, node)
            return
        if isinstance(target, ast.Tuple):
            whole = self.relax(value, node)
            for k, part in enumerate(target.elts):
                self._assign(part, r.TupleGetItem(whole, k, self.text.span(part)), None, node)
            return
        if not isinstance(target, ast.Name):
            self.fail(target, "TS07", "a name stands here.")
        name = target.id
        match value:
            case ModuleRef() | Metadata() | Name() | TypeVariable() | DataTypeName():
                self.scope.define(name, value)
            case n.Var() if _is_fresh(value):
                known = self.scope.find(name)
                if not (isinstance(known, n.Var) and known.dtype == value.dtype):
                    self.scope.define(name, n.Var(name, value.type, self.text.span(target)))
            case r.MatchCast():
                var = self._variable(name, stated or value.type, target)
                self._emit(r.MatchCast(var, value.value, value.type, self.text.span(node)))
            case _:
                self._bind(name, self.relax(value, node), stated, target, node)

    def _bind(
        self, name: str, expr: r.RelaxExpr, stated: r.RelaxType | None, target: Located, node: Located
    ) -> r.RelaxVar:
        expr = _as_stated(expr, stated)
        kind = self.check(stated, expr, node, f"{name!r}")
        var = self._variable(name, kind, target)
        self._emit(r.VarBinding(var, expr, self.text.span(node)))
        return var

    def _variable(self, name: str, kind: r.RelaxType, node: Located) -> r.RelaxVar:
        outputs, span = self.sequences[-1].dataflow, self.text.span(node)
        inside = outputs is not None and outputs.get(name) != 1
        if outputs and outputs.get(name, 1) > 1:
            outputs[name] -= 1  # of what is bound again, the last is the output
        var = r.RelaxVar(name, _with_name(kind, name, span), inside, span)
        self._name(var)
        return var

    def _name(self, var: r.RelaxVar) -> None:
        """The name stands for the variable; that of a number is one in expressions of TIR, too."""
        known = r.known_as(var)
        if isinstance(known, n.Var):
            self.numbers[known] = var
        self.scope.define(var.name, known)

    def _emit(self, binding: r.Binding) -> None:
        self.sequences[-1].bindings.append(binding)

    def _dataflow(self, node: ast.With) -> None:
        form = self.value(node.items[0].context_expr) if len(node.items) == 1 else None
        if not isinstance(form, Name) or form.path != "dataflow()" or node.items[0].optional_vars is not None:
            self.fail(node.items[0].context_expr, "TS41", "'with' of Relax takes R.dataflow().")
        blocks = self.sequences[-1]
        if blocks.dataflow is not None:
            self.fail(node, "TS41", "dataflow blocks do not nest.")
        span = self.text.span(node)
        blocks.close(span)
        bound = Counter(name for statement in node.body for name in _bound_names(statement))
        blocks.dataflow = {name: max(bound[name], 1) for name in _output_names(node)}
        self.scope.push()
        self._statements(node.body)
        frame = self.scope.frames.pop()
        for var in blocks.outputs:
            for name, value in frame.items():
                if value is r.known_as(var):
                    self.scope.define(name, value)
        for name, value in frame.items():
            if isinstance(value, Broken):
                self.scope.define(name, value)
        blocks.close(span)

    def _branch(self, node: ast.If) -> None:
        if not node.orelse:
            self.fail(node, "TS42", "'if' of Relax needs an 'else'.")
        condition = self.relax(self.value(node.test), node.test)
        kind = self.check(None, condition, node.test, "the condition")
        sizes = kind.shape or () if isinstance(kind, r.TensorType) else ()
        if any(isinstance(size, n.IntImm) and size.value != 1 for size in sizes):
            shown = ", ".join(map(say, sizes)) + ("," if len(sizes) == 1 else "")
            message = f"the condition has the shape ({shown}), and one truth value decides."
            self.fail(node.test, "TS40", message, "reduce it first, with R.max or R.min, or choose with R.where.")
        branches: list[r.SeqExpr] = []
        name = ""
        for statements in (node.body, node.orelse):
            self.scope.push()
            try:
                blocks = self._sequence(statements, self.text.span(node))
            finally:
                self.scope.pop()
            last = blocks.blocks[-1].bindings[-1:] if blocks.blocks else ()
            if not last:
                self.fail(node, "TS42", "each branch of 'if' binds a value.")
            if name and name != last[0].var.name:
                self.fail(node, "TS42", "both branches of 'if' bind the same name last.")
            name = last[0].var.name
            branches.append(r.SeqExpr(tuple(blocks.blocks), last[0].var, self.text.span(node)))
        self._bind(name, r.If(condition, branches[0], branches[1], self.text.span(node)), None, node, node)

    def _bare(self, node: ast.Expr) -> None:
        value = self.value(node.value)
        match value:
            case None:
                return
            case r.RelaxExpr():
                self._bind("_", value, None, node, node)
            case _:
                self.fail(node, "TS21", f"{describe(value)} is no statement.")

    def _inner(self, node: ast.FunctionDef) -> None:
        announced: list[r.RelaxVar] = []

        def announce(kind: r.FuncType) -> None:
            if all(node.name != argument.arg for argument in node.args.args):
                announced.append(self._variable(node.name, kind, node))

        self.scope.push()
        try:
            function = self.function(node, {"private": True}, announce)
        finally:
            self.scope.pop()
        var = announced[0] if announced else self._variable(node.name, type_of(function, self.functions), node)
        self._name(var)
        self._emit(r.VarBinding(var, function, self.text.span(node)))


"""Calls whose types the text states, with the names of their leading arguments."""


def _as_stated(expr: r.RelaxExpr, stated: r.RelaxType | None) -> r.RelaxExpr:
    """TVM prints the two values of a one_hot without their type, and states only that of the result."""
    match expr, stated:
        case (
            r.Call("one_hot", (indices, r.PrimValue(n.IntImm() as on), r.PrimValue(n.IntImm() as off))),
            r.TensorType(_, DataType() as dtype),
        ) if dtype.is_integer and on.dtype == off.dtype == INT64:
            values = (r.PrimValue(replace(value, dtype=dtype), value.span) for value in (on, off))
            return replace(expr, args=(indices, *values))
        case _:
            return expr


def _is_fresh(value: Value) -> bool:
    """`T.int64()`: a size that has no name yet."""
    return isinstance(value, n.Var) and not value.name


def _output_names(node: ast.With) -> list[str]:
    """The names that `R.output` lists: variables of the block that stay known."""
    names: list[str] = []
    for statement in node.body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="output"), args=args)):
                names += [arg.id for arg in args if isinstance(arg, ast.Name)]
            case _:
                continue
    return names


def _bound_names(statement: ast.stmt) -> list[str]:
    """The names that a statement of a dataflow block binds, each as often as it does."""
    match statement:
        case ast.Assign(targets=targets):
            parts = [part for t in targets for part in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
            return [part.id for part in parts if isinstance(part, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name):
            return [name]
        case ast.If(body=[*_, last]):
            return _bound_names(last)
        case _:
            return []


def _with_name(kind: r.RelaxType, name: str, span: Span) -> r.RelaxType:
    """The type of a variable: that of a number has the variable's name."""
    if not isinstance(kind, r.PrimValueType):
        return kind
    return r.PrimValueType(kind.dtype, n.Var(name, n.PrimType(kind.dtype), span))


def _targets(node: ast.stmt) -> list[str]:
    match node:
        case ast.Assign(targets=targets):
            found: list[ast.expr] = targets
        case ast.AnnAssign(target=target):
            found = [target]
        case _:
            return []
    return [part.id for target in found for part in ast.walk(target) if isinstance(part, ast.Name)]


RULES: Rules = {
    ast.Call: calls.relax_call,
    ast.BinOp: Values.relax_binary,
    ast.Compare: Values.relax_comparison,
    ast.UnaryOp: Values.relax_unary,
    ast.Subscript: calls.member,
    ast.Attribute: calls.field,
}
