"""Values of Relax while they are read: expressions, their types, operators between them, attributes."""

from __future__ import annotations

import ast
from typing import Any

from tensorir.relax import nodes as r
from tensorir.relax.infer import agree, type_of
from tensorir.relax.rules_of_elements import Contradiction
from tensorir.runtime.errors import Diagnostic, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64, DataType
from tensorir.tir.script.arithmetic import IllTyped, binary, compare, negate
from tensorir.tir.script.evaluate import Evaluator, Rules
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import DataTypeName, Name, Value, describe, members


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


class Values(Evaluator):
    """Expressions of Relax; what is no Relax is read as in TIR."""

    def __init__(self, outer: Evaluator, rules: Rules) -> None:
        super().__init__(outer.text, outer.scope, outer.old, rules)
        self.symbol_dtype = INT64
        self.functions: dict[str, Any] = outer.graph_types
        self.problems: list[Diagnostic] = []
        self.sequences: list[Blocks] = []
        self.numbers: dict[n.Var, r.RelaxVar] = {}
        self.attrs: dict[str, n.Attribute] = {}

    def value(self, node: ast.expr) -> Value:
        try:
            return super().value(node)
        except Contradiction as error:
            self.fail(node, "TS40", str(error))

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
