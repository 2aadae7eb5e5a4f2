"""The rules of expressions of TVMScript, by kind of node of Python's grammar: constants, operators, calls."""

from __future__ import annotations

import ast

from tensorir.tir import nodes as n
from tensorir.tir.script.arithmetic import SYMBOLS, IllTyped, binary, compare, logical, match, negate
from tensorir.tir.script.calls_of_buffers import call
from tensorir.tir.script.evaluate import Evaluator, Rules
from tensorir.tir.script.subscripts import LAYOUTS, layout, subscript
from tensorir.tir.script.values import Closure, Name, Value, describe


def constant(reader: Evaluator, node: ast.Constant) -> Value:
    if isinstance(node.value, bytes | complex) or node.value is Ellipsis:
        reader.fail(node, "TS07", f"{type(node.value).__name__} constants are no part of TVMScript.")
    return node.value


def sequence(reader: Evaluator, node: ast.List | ast.Tuple) -> Value:
    items: list[Value] = []
    for item in node.elts:
        if isinstance(item, ast.Starred):
            inner = reader.value(item.value)
            items.extend(reader.spread(inner, item))
        else:
            items.append(reader.value(item))
    return items if isinstance(node, ast.List) else tuple(items)


def mapping(reader: Evaluator, node: ast.Dict) -> Value:
    entries: dict[Value, Value] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        if key is None:
            reader.fail(item, "TS07", "'**' is no part of TVMScript.")
        found = reader.value(key)
        if not isinstance(found, str | int | n.Var):
            reader.fail(key, "TS21", f"a key is a string, and this is {describe(found)}.")
        entries[found] = reader.value(item)
    return entries


def binary_operation(reader: Evaluator, node: ast.BinOp) -> Value:
    """A left-deep chain is read in a loop: long sums do not nest."""
    spine: list[ast.BinOp] = [node]
    while isinstance(left := spine[-1].left, ast.BinOp):
        spine.append(left)
    result = reader.operand(spine[-1].left)
    for part in reversed(spine):
        symbol = SYMBOLS.get(type(part.op))
        if symbol is None:
            reader.fail(part, "TS07", "'@' is no part of TVMScript.")
        right = reader.operand(part.right)
        if symbol == "**" and (isinstance(result, n.Expr) or isinstance(right, n.Expr)):
            reader.fail(part, "TS20", "'**' is no operator of TIR.", help="write T.pow(a, b).")
        try:
            result = binary(symbol, result, right, reader.text.span(part))
        except IllTyped as error:
            reader.fail(part, "TS20", str(error))
    return result


def unary(reader: Evaluator, node: ast.UnaryOp) -> Value:
    value = reader.operand(node.operand)
    span = reader.text.span(node)
    match node.op:
        case ast.USub():
            return negate(value, span)
        case ast.UAdd():
            return value
        case ast.Not():
            if isinstance(value, bool | int | float | str | tuple | list):
                return not value
            return n.Not(reader.condition(value, node.operand), span)
        case ast.Invert():
            if isinstance(value, int):
                return ~value
            inner = reader.as_expr(value, node)
            if inner.dtype.is_float:
                raise IllTyped(f"'~' takes integers, and this is {inner.dtype}.")
            return n.Call(inner.dtype, "bitwise_not", (inner,), span=span)
        case _:
            reader.fail(node, "TS07", "this operator is no part of TVMScript.")


def connective(reader: Evaluator, node: ast.BoolOp) -> Value:
    word = SYMBOLS[type(node.op)]
    result = reader.operand(node.values[0])
    first = reader.text.span(node.values[0])
    for operand in node.values[1:]:
        right = reader.operand(operand)
        result = logical(
            word,
            _truth(reader, result, node.values[0]),
            _truth(reader, right, operand),
            first.to(reader.text.span(operand)),
        )
    return result


def _truth(reader: Evaluator, value: Value, node: ast.expr) -> Value:
    return reader.condition(value, node) if isinstance(value, n.Expr | str | float) else value


def comparison(reader: Evaluator, node: ast.Compare) -> Value:
    result: Value | None = None
    left = reader.operand(node.left)
    for op, operand in zip(node.ops, node.comparators, strict=True):
        symbol = SYMBOLS.get(type(op))
        if symbol is None:
            if isinstance(op, ast.Is | ast.IsNot) and isinstance(operand, ast.Constant) and operand.value is None:
                return (left is None) == isinstance(op, ast.Is)
            reader.fail(node, "TS07", f"{type(op).__name__.lower()!r} is no comparison of TVMScript.")
        right = reader.operand(operand)
        part = compare(symbol, left, right, reader.text.span(node))
        result = part if result is None else logical("and", result, part, reader.text.span(node))
        left = right
    return result


def conditional(reader: Evaluator, node: ast.IfExp) -> Value:
    test = reader.value(node.test)
    if isinstance(test, bool | int | float | str | tuple | list):
        return reader.value(node.body if test else node.orelse)
    a, b = reader.operand(node.body), reader.operand(node.orelse)
    first, second = match(reader.as_expr(a, node.body), reader.as_expr(b, node.orelse))
    condition = reader.condition(test, node.test)
    return n.Call(first.dtype, "if_then_else", (condition, first, second), span=reader.text.span(node))


def closure(reader: Evaluator, node: ast.Lambda) -> Value:
    return Closure(node)


def called(reader: Evaluator, node: ast.Call) -> Value:
    target = reader.value(node.func)
    if isinstance(target, Name) and target.dialect == "T" and target.path in LAYOUTS:
        return layout(reader, node, target.path)
    args: list[Value] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            spread = reader.value(arg.value)
            args.extend(reader.spread(spread, arg))
        else:
            args.append(reader.value(arg))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            reader.fail(keyword.value, "TS07", "'**' is no part of TVMScript.")
        if keyword.arg == "where" and isinstance(target, Name) and target.path == "Let":
            kwargs[keyword.arg] = _bindings(reader, keyword.value)
        else:
            kwargs[keyword.arg] = reader.value(keyword.value)
    return call(reader, node, target, args, kwargs)


def _bindings(reader: Evaluator, node: ast.expr) -> Value:
    if not isinstance(node, ast.Dict):
        reader.fail(node, "TS21", "'where' is a mapping of variables to values.")
    return mapping(reader, node)


RULES: Rules = {
    ast.Name: Evaluator.name,
    ast.Attribute: Evaluator.attribute_of,
    ast.Constant: constant,
    ast.List: sequence,
    ast.Tuple: sequence,
    ast.Dict: mapping,
    ast.BinOp: binary_operation,
    ast.UnaryOp: unary,
    ast.BoolOp: connective,
    ast.Compare: comparison,
    ast.IfExp: conditional,
    ast.Lambda: closure,
    ast.Subscript: subscript,
    ast.Call: called,
}
