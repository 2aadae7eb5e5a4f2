"""Functions of Relax, from the same trees and under the same white list as TIR."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from tensorir.errors import Diagnostic, DiagnosticError, did_you_mean
from tensorir.source import Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import FLOAT32, INT32, INT64, DataType
from tensorir.tir.relax import nodes as r
from tensorir.tir.relax.infer import Contradiction, agree, infer, type_of
from tensorir.tir.relax.operators import OPERATORS, REQUIRED, Operator
from tensorir.tir.script.arithmetic import IllTyped, binary, compare, negate
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import Broken, DataTypeName, Metadata, ModuleRef, Name, TypeVariable, Value, members
from tensorir.tir.script.words import describe

__all__ = ["read_function"]


def read_function(
    outer: Evaluator, node: ast.FunctionDef, keywords: Mapping[str, Value]
) -> tuple[r.Function, list[Diagnostic]]:
    """The function, and what is wrong with it."""
    reader = _Reader(outer)
    outer.scope.push()
    try:
        for name in outer.scope.names():
            if isinstance(found := outer.scope.find(name), TypeVariable):
                outer.scope.define(name, n.Var(found.name, n.PrimType(INT64)))
        function = reader.function(node, keywords)
    finally:
        outer.scope.pop()
    return function, reader.problems


class _Blocks:
    """The bindings of a sequence, in blocks."""

    def __init__(self) -> None:
        self.blocks: list[r.BindingBlock | r.DataflowBlock] = []
        self.bindings: list[r.Binding] = []
        self.dataflow: set[str] | None = None
        self.outputs: list[r.RelaxVar] = []

    def close(self, span: Span) -> None:
        if self.dataflow is not None:
            self.blocks.append(r.DataflowBlock(tuple(self.bindings), tuple(self.outputs), span))
        elif self.bindings:
            self.blocks.append(r.BindingBlock(tuple(self.bindings), span))
        self.bindings, self.dataflow, self.outputs = [], None, []


class _Reader(Evaluator):
    """Expressions and statements of Relax; what is no Relax is read as in TIR."""

    def __init__(self, outer: Evaluator) -> None:
        super().__init__(outer.text, outer.scope, outer.old)
        self.symbol_dtype = INT64
        self.functions = outer.relax_types
        self.problems: list[Diagnostic] = []
        self._sequences: list[_Blocks] = []
        self._attrs: dict[str, n.Attribute] = {}
        self._result: r.RelaxExpr | None = None

    # -------------------------------------------------------------------------------------------- functions

    def function(self, node: ast.FunctionDef, keywords: Mapping[str, Value], inner: bool = False) -> r.Function:
        params: list[r.RelaxVar] = []
        for argument in node.args.args:
            if argument.annotation is None:
                self.fail(argument, "TS32", f"the parameter {argument.arg!r} has no type.")
            kind = self.relax_type(self.value(argument.annotation), argument.annotation)
            params.append(r.RelaxVar(argument.arg, kind, False, self.text.span(argument)))
        for param in params:
            self.scope.define(param.name, param)
        ret = None if node.returns is None else self.relax_type(self.value(node.returns), node.returns)
        if ret is not None and not inner:
            self.functions[node.name] = r.FuncType(
                tuple(p.type for p in params), ret, keywords.get("pure") is not False
            )
        saved = self._attrs, self._result, self._sequences
        self._attrs, self._result, self._sequences = {}, None, []
        span = self.text.span(node)
        blocks = self._sequence(node.body, span)
        body = r.SeqExpr(tuple(blocks.blocks), self._result or r.Tuple((), span), span)
        attrs, (self._attrs, self._result, self._sequences) = dict(self._attrs), saved
        if ret is not None:
            self._check(ret, body, node.returns or node, "the result")
        if keywords.get("private") is not True and not inner:
            attrs.setdefault("global_symbol", node.name)
        function = r.Function(node.name, tuple(params), body, ret, attrs, keywords.get("pure") is not False, None, span)
        if not inner:
            self.functions.setdefault(node.name, type_of(function, self.functions))
        return function

    def _sequence(self, statements: list[ast.stmt], span: Span) -> _Blocks:
        blocks = _Blocks()
        self._sequences.append(blocks)
        try:
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
        finally:
            self._sequences.pop()
        blocks.close(span)
        return blocks

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
                if len(self._sequences) > 1 or self._sequences[-1].dataflow is not None:
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
            case n.Var() if not value.name:
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
        kind = self._check(stated, expr, node, f"{name!r}")
        var = self._variable(name, kind, target)
        self._emit(r.VarBinding(var, expr, self.text.span(node)))
        return var

    def _check(self, stated: r.RelaxType | None, expr: n.Node, node: Located, what: str) -> r.RelaxType:
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
        outputs = self._sequences[-1].dataflow
        var = r.RelaxVar(name, kind, outputs is not None and name not in outputs, self.text.span(node))
        self.scope.define(name, var)
        return var

    def _emit(self, binding: r.Binding) -> None:
        self._sequences[-1].bindings.append(binding)

    def _dataflow(self, node: ast.With) -> None:
        form = self.value(node.items[0].context_expr) if len(node.items) == 1 else None
        if not isinstance(form, Name) or form.path != "dataflow()" or node.items[0].optional_vars is not None:
            self.fail(node.items[0].context_expr, "TS41", "'with' of Relax takes R.dataflow().")
        blocks = self._sequences[-1]
        if blocks.dataflow is not None:
            self.fail(node, "TS41", "dataflow blocks do not nest.")
        span = self.text.span(node)
        blocks.close(span)
        blocks.dataflow = set(_output_names(node))
        self.scope.push()
        try:
            for statement in node.body:
                self._statement(statement)
        finally:
            frame = self.scope.frames.pop()
        for var in blocks.outputs:
            for name, value in frame.items():
                if value is var:
                    self.scope.define(name, var)
        for name, value in frame.items():
            if isinstance(value, Broken):
                self.scope.define(name, value)
        blocks.close(span)

    def _branch(self, node: ast.If) -> None:
        if not node.orelse:
            self.fail(node, "TS42", "'if' of Relax needs an 'else'.")
        condition = self.relax(self.value(node.test), node.test)
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
        self.scope.push()
        try:
            if node.returns is not None:
                self.scope.define(node.name, r.RelaxVar(node.name, r.ObjectType(), False, self.text.span(node)))
            function = self.function(node, {"private": True}, inner=True)
        finally:
            self.scope.pop()
        var = self._variable(node.name, type_of(function, self.functions), node)
        self._emit(r.VarBinding(var, function, self.text.span(node)))

    # ---------------------------------------------------------------------------------------------- values

    def value(self, node: ast.expr) -> Value:
        rule = _RULES.get(type(node))
        return super().value(node) if rule is None else self._nested(rule, node)

    def _nested(self, rule: Callable[[_Reader, ast.expr], Value], node: ast.expr) -> Value:
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

    def relax_subscript(self, node: ast.Subscript) -> Value:
        target = self.value(node.value)
        match target:
            case Metadata(""):
                return Metadata(self.string(self.value(node.slice), node.slice, "the key"))
            case Metadata(key):
                return r.MetadataConstant(key, self.number(node.slice, "the index"), self.text.span(node))
            case r.RelaxExpr():
                return r.TupleGetItem(target, self.number(node.slice, "the index"), self.text.span(node))
            case _ if (items := members(target)) is not None:
                index = self.number(node.slice, "the index")
                if not -len(items) <= index < len(items):
                    self.fail(node.slice, "TS11", "there is no such member.")
                return items[index]
            case _:
                self.fail(node.value, "TS11", f"{describe(target)} cannot be indexed.")

    def relax_attribute_of(self, node: ast.Attribute) -> Value:
        if isinstance(node.value, ast.Name):
            found = self.scope.find(node.value.id)
            if isinstance(found, r.RelaxVar):
                self.fail(node, "TS11", f"a value of Relax has no attribute {node.attr!r}.")
        return Evaluator.attribute_of(self, node)

    # ----------------------------------------------------------------------------------------------- calls

    def relax_call(self, node: ast.Call) -> Value:
        target = self.value(node.func)
        match target:
            case Name("R", path):
                args = [self.value(arg) for arg in self._plain(node)]
                return self._named(path, args, self._keywords(node), node)
            case Name("I", path) if path.endswith("Type") and not node.args:
                return target
            case n.GlobalVar(name):
                args = tuple(self.relax(self.value(arg), arg) for arg in self._plain(node))
                return r.Call(r.FunctionRef(name, self.text.span(node.func)), args, span=self.text.span(node))
            case r.RelaxExpr():
                args = tuple(self.relax(self.value(arg), arg) for arg in self._plain(node))
                return r.Call(target, args, span=self.text.span(node))
            case _:
                return Evaluator.call(self, node)

    def _plain(self, node: ast.Call) -> list[ast.expr]:
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                self.fail(arg, "TS07", "'*' is no part of a call of Relax.")
        return node.args

    def _keywords(self, node: ast.Call) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.fail(keyword.value, "TS07", "'**' is no part of TVMScript.")
            found[keyword.arg] = self.value(keyword.value)
        return found

    def _named(self, path: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
        maker = _MAKERS.get(path)
        if maker is not None:
            return maker(self, args, kwargs, node)
        if path in _TYPED_CALLS:
            return self._typed_call(path, args, kwargs, node)
        row = OPERATORS.get(path)
        if row is None:
            hint = did_you_mean(path, [*OPERATORS, *_MAKERS, *_TYPED_CALLS])
            self.fail(node.func, "TS12", f"R.{path} is not known.", hint)
        return self._operator(row, args, kwargs, node)

    def _operator(self, row: Operator, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> r.Call:
        """An operator with its values in order and all of its attributes by name."""
        names = (*row.values, *row.attributes)
        if row.variadic:
            values: list[r.RelaxExpr] = []
            for arg in args:
                items = members(arg)
                values += [self.relax(item, node) for item in ([arg] if items is None else items)]
            given: dict[str, Value] = dict(kwargs)
        else:
            if len(args) > len(names):
                self.fail(node, "TS24", f"R.{row.name} takes {len(names)} arguments, and this gives {len(args)}.")
            given = dict(zip(names, args, strict=False))
            for key, value in kwargs.items():
                if key in given:
                    self.fail(node, "TS24", f"R.{row.name} is given {key!r} twice.")
                given[key] = value
            needed = row.values[: len(row.values) - row.optional]
            for name in needed:
                if given.get(name) is None:
                    self.fail(node, "TS24", f"R.{row.name} needs {name!r}.")
            values = []
            for place, name in enumerate(row.values):
                value = given.pop(name, None)
                if value is None and any(given.get(later) is not None for later in row.values[place:]):
                    value = row.defaults.get(name)
                if value is None:
                    break
                values.append(self.relax(value, node, shape=name in ("shape", "size")))
        attrs: dict[str, n.Attribute] = {}
        for key, default in row.attributes.items():
            if key in given:
                value = given.pop(key)
                attrs[key] = str(value.dtype) if isinstance(value, DataTypeName) else self.attribute(value, node)
            elif default is REQUIRED:
                self.fail(node, "TS24", f"R.{row.name} needs {key!r}.")
            else:
                attrs[key] = default  # type: ignore[assignment]
        for key in given:
            self.fail(node, "TS24", f"R.{row.name} has no parameter {key!r}.", did_you_mean(key, names))
        call = r.Call(row.name, tuple(values), attrs, (), self.text.span(node))
        try:
            infer(call, self.functions)
        except Contradiction as error:
            self.fail(node, "TS40", str(error))
        return call

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

    def _typed_call(self, path: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> r.Call:
        """`R.call_tir`, `R.call_packed` and their kin, whose text states the type of the result."""
        given = dict(kwargs)
        named = _TYPED_CALLS[path]
        stated = next(
            (given.pop(key) for key in ("out_ty", "out_sinfo", "ty_args", "sinfo_args") if key in given), None
        )
        plain = list(args)
        if stated is None and named and len(plain) > len(named):
            stated = plain.pop(len(named))
        for name in named[len(plain) :]:
            if name not in given:
                self.fail(node, "TS24", f"R.{path} needs {name!r}.")
            plain.append(given.pop(name))
        if not plain:
            self.fail(node, "TS24", f"R.{path} needs a function.")
        values = [self._callee(plain[0], node), *(self.relax(arg, node) for arg in plain[1:])]
        if named and path.startswith(("call_tir", "call_dps")) and not isinstance(values[1], r.Tuple):
            known = type_of(values[1], self.functions)
            if not isinstance(known, r.TupleType):
                values[1] = r.Tuple((values[1],), self.text.span(node))
        if "tir_vars" in given:
            values.append(self.relax(given.pop("tir_vars"), node, shape=True))
        items = members(stated) or ([] if stated is None or members(stated) is not None else [stated])
        types = tuple(self.relax_type(item, node) for item in items)
        attrs = {key: self.attribute(value, node) for key, value in given.items()}
        return r.Call(path, tuple(values), attrs, types, self.text.span(node))

    def _callee(self, value: Value, node: ast.Call) -> r.RelaxExpr:
        if isinstance(value, str):
            return r.ExternFunc(value, self.text.span(node.args[0] if node.args else node))
        return self.relax(value, node)


_TYPED_CALLS: dict[str, tuple[str, ...]] = {
    "call_tir": ("gvar", "args"),
    "call_tir_inplace": ("gvar", "args"),
    "call_tir_with_grad": ("gvar", "args"),
    "call_dps_packed": ("func", "args"),
    "call_packed": (),
    "call_pure_packed": (),
    "call_inplace_packed": (),
    "call_builtin_with_ctx": ("func", "args"),
    "call_py_func": (),
    "invoke_closure": ("closure", "args"),
    "invoke_pure_closure": ("closure", "args"),
    "make_closure": ("func", "args"),
    "vm.call_tir_dyn": ("func", "args"),
    "vm.alloc_storage": (),
    "vm.alloc_tensor": (),
    "vm.kill_object": (),
    "memory.alloc_storage": (),
    "memory.alloc_tensor": (),
    "memory.kill_storage": (),
    "memory.kill_tensor": (),
    "builtin.alloc_tensor": (),
    "builtin.stop_lift_params": (),
}
"""Calls whose types the text states, with the names of their leading arguments."""

_Maker = Callable[[_Reader, list[Value], dict[str, Value], ast.Call], Value]
_MAKERS: dict[str, _Maker] = {}


def _makes(name: str, *params: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register a maker with named parameters; what is left out is None."""

    def register(make: Callable[..., Value]) -> Callable[..., Value]:
        def maker(reader: _Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
            if len(args) > len(params):
                reader.fail(node, "TS24", f"R.{name} takes {len(params)} arguments, and this gives {len(args)}.")
            found = dict(zip(params, args, strict=False))
            for key, value in kwargs.items():
                if key not in params or key in found:
                    reader.fail(node, "TS24", f"R.{name} has no use for {key!r} here.", did_you_mean(key, params))
                found[key] = value
            return make(reader, node, *(found.get(param) for param in params))

        _MAKERS[name] = maker
        return make

    return register


@_makes("Tensor", "shape", "dtype", "vdevice", "ndim")
def _tensor(reader: _Reader, node: ast.Call, shape: Value, dtype: Value, vdevice: Value, ndim: Value) -> Value:
    if isinstance(shape, str):
        shape, dtype = None, shape if dtype is None else dtype
    if isinstance(shape, r.ShapeExpr):
        sizes: tuple[n.Expr, ...] | None = shape.values
    else:
        sizes = None if shape is None else reader.exprs(shape, node, INT64)
    element = None if dtype in (None, "") else reader.dtype(dtype, node)
    count = -1 if ndim is None else reader.as_number(ndim, node, "the number of dimensions")
    if sizes is not None and count >= 0 and count != len(sizes):
        reader.fail(node, "TS24", f"a shape of {len(sizes)} sizes has no {count} dimensions.")
    device = None if vdevice is None else reader.string(vdevice, node, "a device")
    return r.TensorType(sizes, element, count, device)


@_makes("Shape", "values", "ndim")
def _shape_type(reader: _Reader, node: ast.Call, values: Value, ndim: Value) -> Value:
    sizes = None if values is None else reader.exprs(values, node, INT64)
    return r.ShapeType(sizes, -1 if ndim is None else reader.as_number(ndim, node, "the number of dimensions"))


def _tuple_type(reader: _Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    fields = members(args[0]) if len(args) == 1 else None
    fields = args if fields is None else fields
    return r.TupleType(tuple(reader.relax_type(item, node) for item in fields))


def _tuple_value(reader: _Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    return r.Tuple(tuple(reader.relax(item, node) for item in args), reader.text.span(node))


def _output(reader: _Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    blocks = reader._sequences[-1]  # pyright: ignore[reportPrivateUsage]
    if blocks.dataflow is None:
        reader.fail(node, "TS41", "R.output stands inside of R.dataflow() only.")
    for arg in args:
        if not isinstance(arg, r.RelaxVar):
            reader.fail(node, "TS41", f"R.output takes variables of the block, and this is {describe(arg)}.")
        blocks.outputs.append(arg)
    return None


def _emit_call(reader: _Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    if len(args) != 1:
        reader.fail(node, "TS24", "R.emit takes one value.")
    return args[0]


_MAKERS.update({"Tuple": _tuple_type, "tuple": _tuple_value, "output": _output, "emit": _emit_call})


@_makes("Object")
@_makes("Any")
def _object(reader: _Reader, node: ast.Call) -> Value:
    return r.ObjectType()


@_makes("Prim", "dtype", "value")
def _prim(reader: _Reader, node: ast.Call, dtype: Value, value: Value) -> Value:
    if dtype is None and isinstance(value, n.Expr):
        return r.PrimValueType(value.dtype)
    return r.PrimValueType(reader.dtype(dtype, node))


@_makes("Callable", "params", "ret", "purity", "derive_func")
def _callable(reader: _Reader, node: ast.Call, params: Value, ret: Value, purity: Value, derive: Value) -> Value:
    items = members(params) if params is None or members(params) is not None else [params]
    kinds = None if items is None else tuple(reader.relax_type(item, node) for item in items)
    return r.FuncType(kinds, None if ret is None else reader.relax_type(ret, node), purity is not False)


@_makes("const", "value", "dtype")
def _const(reader: _Reader, node: ast.Call, value: Value, dtype: Value) -> Value:
    data = _data(reader, value, node)
    first = data
    while isinstance(first, tuple) and first:
        first = first[0]
    default = DataType("uint", 1) if isinstance(first, bool) else INT32 if isinstance(first, int) else FLOAT32
    element = default if dtype is None else reader.dtype(dtype, node)
    return r.Constant(_typed(data, element), element, reader.text.span(node))


def _data(reader: _Reader, value: Value, node: ast.Call) -> r.Data:
    if (items := members(value)) is not None:
        rows = tuple(_data(reader, item, node) for item in items)
        if len({len(row) if isinstance(row, tuple) else -1 for row in rows}) > 1:
            reader.fail(node, "TS24", "the rows of a constant have one length.")
        return rows
    match value:
        case bool() | int() | float():
            return value
        case n.IntImm(number) | n.FloatImm(number):
            return number
        case _:
            reader.fail(node, "TS21", f"a constant holds numbers, and this is {describe(value)}.")


def _typed(data: r.Data, dtype: DataType) -> r.Data:
    if isinstance(data, tuple):
        return tuple(_typed(item, dtype) for item in data)
    return float(data) if dtype.is_float else bool(data) if dtype.is_bool else int(data)


@_makes("shape", "value")
def _shape(reader: _Reader, node: ast.Call, value: Value) -> Value:
    return reader.relax(value, node, shape=True)


@_makes("prim_value", "value")
def _prim_value(reader: _Reader, node: ast.Call, value: Value) -> Value:
    return reader.relax(value, node)


@_makes("str", "value")
def _str(reader: _Reader, node: ast.Call, value: Value) -> Value:
    return r.StringValue(reader.string(value, node, "the value"), reader.text.span(node))


@_makes("dtype", "value")
def _dtype(reader: _Reader, node: ast.Call, value: Value) -> Value:
    return r.DataTypeValue(reader.dtype(value, node), reader.text.span(node))


@_makes("ExternFunc", "name")
def _extern(reader: _Reader, node: ast.Call, name: Value) -> Value:
    return r.ExternFunc(reader.string(name, node, "the name"), reader.text.span(node))


@_makes("dataflow")
def _dataflow(reader: _Reader, node: ast.Call) -> Value:
    return Name("R", "dataflow()")


@_makes("match_cast", "value", "ty")
@_makes("emit_match_cast", "value", "ty")
def _match_cast(reader: _Reader, node: ast.Call, value: Value, ty: Value) -> Value:
    kind = reader.relax_type(ty, node)
    expr = reader.relax(value, node)
    known = type_of(expr, reader.functions)
    if isinstance(known, r.TensorType) and isinstance(kind, r.TensorType):
        reader._check(r.TensorType(None, kind.dtype, kind.ndim), expr, node, "the value")  # pyright: ignore[reportPrivateUsage]
    return r.MatchCast(r.RelaxVar("", kind), expr, kind, reader.text.span(node))


@_makes("func_attr", "attrs")
def _func_attr(reader: _Reader, node: ast.Call, attrs: Value) -> Value:
    found = reader.attribute(attrs, node)
    if not isinstance(found, Mapping):
        reader.fail(node, "TS21", "attributes are a mapping.")
    reader._attrs.update(found)  # pyright: ignore[reportPrivateUsage]
    return None


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
_RULES: dict[type[ast.expr], Callable[[_Reader, ast.expr], Value]] = {
    ast.Call: _Reader.relax_call,
    ast.BinOp: _Reader.relax_binary,
    ast.Compare: _Reader.relax_comparison,
    ast.UnaryOp: _Reader.relax_unary,
    ast.Subscript: _Reader.relax_subscript,
    ast.Attribute: _Reader.relax_attribute_of,
}  # type: ignore[dict-item]
