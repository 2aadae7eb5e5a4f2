"""Functions of Relax, from the same trees and under the same white list as TIR."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from tensorir.relax import calls
from tensorir.relax import calls as parts
from tensorir.relax import nodes as r
from tensorir.relax.infer import agree, type_of
from tensorir.relax.operators import Operator
from tensorir.relax.rules_of_elements import Contradiction, say
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64, DataType
from tensorir.tir.script.arithmetic import IllTyped, binary, compare, negate
from tensorir.tir.script.evaluate import Evaluator
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


class Blocks:
    """The bindings of a sequence, in blocks; `dataflow` counts how often each output is still to be bound."""

    def __init__(self) -> None:
        self.blocks: list[r.BindingBlock | r.DataflowBlock] = []
        self.bindings: list[r.Binding] = []
        self.dataflow: dict[str, int] | None = None
        self.outputs: list[r.RelaxVar] = []

    def close(self, span: Span) -> None:
        if self.dataflow is not None:
            self.blocks.append(r.DataflowBlock(tuple(self.bindings), tuple(self.outputs), span))
        elif self.bindings:
            self.blocks.append(r.BindingBlock(tuple(self.bindings), span))
        self.bindings, self.dataflow, self.outputs = [], None, []


class Reader(Evaluator):
    """Expressions and statements of Relax; what is no Relax is read as in TIR."""

    relax_call: ClassVar[Callable[[Reader, ast.Call], Value]] = calls.relax_call
    operator: ClassVar[Callable[[Reader, Operator, list[Value], dict[str, Value], ast.Call], r.Call]] = calls.operator
    typed_call: ClassVar[Callable[[Reader, str, list[Value], dict[str, Value], ast.Call], r.Call]] = calls.typed_call
    member: ClassVar[Callable[[Reader, ast.Subscript], Value]] = parts.member
    field: ClassVar[Callable[[Reader, ast.Attribute], Value]] = parts.field

    def __init__(self, outer: Evaluator) -> None:
        super().__init__(outer.text, outer.scope, outer.old)
        self.symbol_dtype = INT64
        self.functions: dict[str, Any] = outer.graph_types
        self.problems: list[Diagnostic] = []
        self.sequences: list[Blocks] = []
        self.numbers: dict[n.Var, r.RelaxVar] = {}
        self.attrs: dict[str, n.Attribute] = {}
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

    def check(self, stated: r.RelaxType | None, expr: n.Node, node: Located, what: str) -> r.RelaxType:
        """The type of the expression, held against the one that the text states."""
        try:
            found = type_of(expr, self.functions)
            if stated is not None:
                agree(stated, found, what)
        except Contradiction as error:
            self.fail(node, "TS40", str(error))
        except IllTyped as error:
            self.fail(node, "TS20", str(error))
        return found if stated is None else stated

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

    # ---------------------------------------------------------------------------------------------- values

    def value(self, node: ast.expr) -> Value:
        rule = _RULES.get(type(node))
        return super().value(node) if rule is None else self._nested(rule, node)

    def _nested(self, rule: Callable[[Reader, ast.expr], Value], node: ast.expr) -> Value:
        self.enter(node)
        try:
            result = rule(self, node)
        except IllTyped as error:
            self.fail(node, "TS20", str(error))
        except Contradiction as error:
            self.fail(node, "TS40", str(error))
        self.leave()
        return result

    def relax(self, value: Value, node: Located, shape: bool = False) -> r.RelaxExpr:
        """A value as an expression of Relax; a list of sizes is a shape where one is expected."""
        span = self.text.span(node)
        items = members(value)
        if items is not None and shape and not any(isinstance(item, r.RelaxExpr) for item in items):
            return r.ShapeExpr(self.exprs(items, node, INT64), span)
        if items is not None:
            return r.Tuple(tuple(self.relax(item, node) for item in items), span)
        match value:
            case r.RelaxExpr():
                return value
            case n.GlobalVar(name):
                return r.FunctionRef(name, span)
            case bool():
                return r.PrimValue(const(value, None, span), span)
            case int():
                return r.PrimValue(const(value, INT64, span), span)
            case float():
                return r.PrimValue(const(value, DataType("float", 64), span), span)
            case str():
                return r.StringValue(value, span)
            case DataTypeName(dtype):
                return r.DataTypeValue(dtype, span)
            case n.Expr():
                return r.PrimValue(value, span)
            case _:
                self.fail(node, "TS21", f"a value stands here, and this is {describe(value)}.")

    def relax_type(self, value: Value, node: Located) -> r.RelaxType:
        match value:
            case r.RelaxType():
                return value
            case Name("R", "Tensor"):
                return r.TensorType(None, None)
            case Name("R", "Object" | "Any") | Name("I", _):
                return r.ObjectType()
            case Name("R", "Shape"):
                return r.ShapeType(None)
            case Name("R", "Tuple") | None:
                return r.TupleType(())
            case Name("R", "Callable"):
                return r.FuncType(None, None)
            case DataTypeName(dtype):
                return r.PrimValueType(dtype)
            case n.Var(name=""):
                return r.PrimValueType(value.dtype)
            case _:
                self.fail(node, "TS22", f"a type of Relax stands here, and this is {describe(value)}.")

    def relax_binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, r.RelaxExpr) or isinstance(right, r.RelaxExpr):
            op = _ARITHMETIC.get(type(node.op))
            if op is None:
                self.fail(node, "TS07", "this operator is no part of Relax.")
            return r.Call(op, (self.relax(left, node), self.relax(right, node)), span=self.text.span(node))
        symbol = _SYMBOLS.get(type(node.op))
        if symbol is None:
            self.fail(node, "TS07", "this operator is no part of TVMScript.")
        return binary(symbol, left, right, self.text.span(node))

    def relax_comparison(self, node: ast.Compare) -> Value:
        left = self.value(node.left)
        right = self.value(node.comparators[0])
        names = {ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal"}
        symbols = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
        kind = type(node.ops[0])
        if len(node.ops) == 1 and (isinstance(left, r.RelaxExpr) or isinstance(right, r.RelaxExpr)) and kind in names:
            return r.Call(names[kind], (self.relax(left, node), self.relax(right, node)), span=self.text.span(node))
        if len(node.ops) != 1 or kind not in symbols:
            self.fail(node, "TS07", "this comparison is no part of Relax.")
        return compare(symbols[kind], left, right, self.text.span(node))

    def relax_unary(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(value, r.RelaxExpr):
            if isinstance(node.op, ast.USub):
                return r.Call("negative", (value,), span=self.text.span(node))
            self.fail(node, "TS07", "this operator is no part of Relax.")
        if isinstance(node.op, ast.USub) and isinstance(value, bool | int | float | n.Expr):
            return negate(value, self.text.span(node))
        if isinstance(node.op, ast.Not) and isinstance(value, bool):
            return not value
        self.fail(node, "TS07", "this operator is no part of Relax.")

    # ----------------------------------------------------------------------------------------------- calls

    def attribute(self, value: Value, node: Located) -> n.Attribute:
        match value:
            case r.StringValue(text):
                return text
            case r.PrimValue(number):
                return self.attribute(number, node)
            case n.IntImm(number, dtype) if dtype == INT64:
                return number
            case r.RelaxExpr() | r.RelaxType():
                self.fail(node, "TS21", "an attribute is a constant, and this is a value of Relax.")
            case _:
                return super().attribute(value, node)


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


_SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "mod",
    ast.Pow: "power",
}
_RULES: dict[type[ast.expr], Callable[[Reader, ast.expr], Value]] = {
    ast.Call: Reader.relax_call,
    ast.BinOp: Reader.relax_binary,
    ast.Compare: Reader.relax_comparison,
    ast.UnaryOp: Reader.relax_unary,
    ast.Subscript: Reader.member,
    ast.Attribute: Reader.field,
}  # type: ignore[dict-item]
