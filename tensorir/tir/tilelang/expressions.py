"""Expressions of TileLang: constants are computed as Python does, what a kernel computes becomes nodes of TIR."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from tensorir.tir import nodes as n
from tensorir.tir.dtypes import BOOL, DataType
from tensorir.tir.script import rules, subscripts
from tensorir.tir.script.arithmetic import SYMBOLS, IllTyped, as_expr, binary, compare, match
from tensorir.tir.script.assignments import unpack_values
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.subscripts import access
from tensorir.tir.script.values import DataTypeName, Name, Value, members
from tensorir.tir.tilelang import context
from tensorir.tir.tilelang.context import Context, Function, Unknown, is_host, unknown

_POLICIES = {"Square": 0, "FullRow": 1, "FullCol": 2}
_TENSORS = ("Buffer", "Tensor", "StridedTensor", "FragmentBuffer", "SharedBuffer", "LocalBuffer")


def name(it: Context, node: ast.Name) -> Value:
    found = it.reader.scope.find(node.id)
    if isinstance(found, Unknown):
        if (value := it.given(node.id)) is not None:
            return value
        if found.problem is not None:
            it.fail(node, found.problem.code, found.problem.message, found.problem.help)
        if it.staged:
            it.needs(node, found, node.id)
        return found
    if found is None and not any(node.id in frame for frame in it.reader.scope.frames):
        if (value := it.given(node.id)) is not None:
            return value
        if node.id in context.NAMES:
            return Name("python", node.id)
    elif found is None:
        return None
    return Evaluator.name(it.reader, node)


def attribute(it: Context, node: ast.Attribute) -> Value:
    target = it.reader.value(node.value)
    match target:
        case Unknown(text):
            return Unknown(f"{text}.{node.attr}")
        case Name("host", path):
            full = f"{path}.{node.attr}"
            if full.endswith(("tilelang.language", "tvm.tir", "tvm.tirx")):
                return Name("T", "")
            return value if (value := context.library_value(full)) is not None else Name("host", full)
        case Name("T", "GemmWarpPolicy") if node.attr in _POLICIES:
            return _POLICIES[node.attr]
        case Name("T", "") if node.attr != "handle" and (dtype := context.data_type(node.attr)) is not None:
            return dtype
        case Name("T", "") if node.attr == "WSID":
            return "tl.ws_op_id"
        case DataTypeName(dtype) | (DataType() as dtype) if node.attr in ("bits", "lanes", "itemsize"):
            return dtype.bits // 8 if node.attr == "itemsize" else getattr(dtype, node.attr)
        case DataTypeName() | DataType() if (made := context.method(context.plain(target), node.attr)) is not None:
            return made
        case Function():
            return Unknown(f"{target.name}.{node.attr}")
        case str() | list() | tuple() | dict() | set():
            made = context.method(cast("Value", target), node.attr)
            if made is None and isinstance(target, list | dict | set):
                it.needs(node, Unknown(ast.unparse(node)))  # it may change what it belongs to
            return Unknown(ast.unparse(node)) if made is None else made
        case _:
            return Evaluator.attribute_of(it.reader, node)


def constant(it: Context, node: ast.Constant) -> Value:
    return node.value


def truth(it: Context, value: Value, node: ast.expr) -> bool | n.Expr:
    """True if a condition holds: Python decides about constants, the kernel about what it computes."""
    match value:
        case n.IntImm(v):
            return bool(v)
        case _ if (part := unknown(value)) is not None:
            it.needs(node, part)
        case _ if is_host(value):
            return bool(value)
        case _:
            return it.reader.condition(value, node)


def binary_operation(it: Context, node: ast.BinOp) -> Value:
    """A left-deep chain is read in a loop: long sums do not nest."""
    spine: list[ast.BinOp] = [node]
    while isinstance(left := spine[-1].left, ast.BinOp):
        spine.append(left)
    result = it.reader.value(spine[-1].left)
    for part in reversed(spine):
        result = combined(it, part.op, result, it.reader.value(part.right), part)
    return result


def combined(it: Context, op: ast.operator, left: Value, right: Value, node: ast.AugAssign | ast.BinOp) -> Value:
    """`left op right`."""
    if unknown(left) or unknown(right, isinstance(left, str)):
        return Unknown(ast.unparse(node))
    symbol = SYMBOLS.get(type(op))
    if symbol is None:
        it.fail(node, "TS07", "'@' is no part of TileLang.")
    a, b = _operand(it, left, node), _operand(it, right, node)
    if symbol == "%" and isinstance(a, str):
        try:
            return str(operator.mod(a, b))
        except (TypeError, ValueError, LookupError) as error:
            it.fail(node, "TS20", f"this is not computed: {error}.")
    if symbol == "**" and (isinstance(a, n.Expr) or isinstance(b, n.Expr)):
        it.fail(node, "TS20", "'**' is no operator of TIR.", help="write T.pow(a, b).")
    try:
        return binary(symbol, a, b, it.reader.text.span(node))
    except IllTyped as error:
        it.fail(node, "TS20", str(error))


def beside(*values: Value) -> list[Value]:
    """Numbers beside an expression have a type of their own, int32 or float32: bits alone take the other's.

    >>> x = n.Var("x", n.PrimType(DataType.parse("float16")))
    >>> [str(v.dtype) for v in beside(x, 0.5)], beside(1, 2)
    (['float16', 'float32'], [1, 2])
    """
    if not any(isinstance(v, n.Expr) for v in values):
        return list(values)
    return [as_expr(v) if isinstance(v, int | float) else v for v in values]


def _operand(it: Context, value: Value, node: ast.AST) -> Value:
    if isinstance(value, DataType | DataTypeName):
        return context.plain(value)
    if isinstance(value, bool | int | float | str | tuple | list | n.Expr) and not isinstance(value, n.Var):
        return cast("Value", value)
    return it.reader.as_expr(value, cast("ast.expr", node))


def unary(it: Context, node: ast.UnaryOp) -> Value:
    if not isinstance(node.op, ast.Not):
        return rules.unary(it.reader, node)
    value = it.reader.value(node.operand)
    if unknown(value):
        return Unknown(ast.unparse(node))
    held = truth(it, value, node.operand)
    return n.Not(held, it.reader.text.span(node)) if isinstance(held, n.Expr) else not held


def connective(it: Context, node: ast.BoolOp) -> Value:
    """Python decides as long as constants do; the rest is a condition of the kernel."""
    stops = isinstance(node.op, ast.Or)
    kind = n.Or if stops else n.And
    result: n.Expr | None = None
    for part in node.values:
        value = it.reader.value(part)
        if result is None and unknown(value):
            return Unknown(ast.unparse(node))
        held = truth(it, value, part)
        if result is None and isinstance(held, bool):
            if held == stops or part is node.values[-1]:
                return value
            continue
        right = held if isinstance(held, n.Expr) else n.IntImm(int(held), BOOL, it.reader.text.span(part))
        result = right if result is None else kind(result, right, it.reader.text.span(node))
    return result


_SAME: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b, ast.Is: lambda a, b: a is b or a == b,
    ast.IsNot: lambda a, b: not (a is b or a == b),
}  # fmt: skip


def comparison(it: Context, node: ast.Compare) -> Value:
    result: Value = None
    left = it.reader.value(node.left)
    for op, part in zip(node.ops, node.comparators, strict=True):
        right = it.reader.value(part)
        items = not isinstance(op, ast.Is | ast.IsNot) and left is not None and right is not None
        same = isinstance(left, Name) and left == right
        if not same and (unknown(left, items) or unknown(right, items)):
            return Unknown(ast.unparse(node))
        found = _compared(it, op, left, right, node)
        if result is None or isinstance(result, bool):
            result = found if result is not False else False
        else:
            result = n.And(cast("n.Expr", result), it.reader.as_expr(found, node, BOOL), it.reader.text.span(node))
        left = right
    return result


def _compared(it: Context, op: ast.cmpop, left: Value, right: Value, node: ast.Compare) -> Value:
    symbol = SYMBOLS.get(type(op))
    if type(op) in _SAME and not (is_host(left) and is_host(right)):
        if isinstance(op, ast.Is | ast.IsNot):
            return isinstance(op, ast.IsNot)
        it.fail(node, "TS07", "'in' asks for a constant in a sequence of constants.")
    if is_host(left) and is_host(right):
        a, b = context.plain(left), context.plain(right)
        try:
            test = _SAME.get(type(op))
            return test(a, b) if test is not None else compare(str(symbol), a, b)
        except TypeError as error:
            it.fail(node, "TS20", f"these constants do not compare: {error}.")
    if left is None or right is None:
        return isinstance(op, ast.NotEq)
    a, b = beside(_operand(it, left, node), _operand(it, right, node))
    first = it.reader.as_expr(a, node, b.dtype if isinstance(b, n.Expr) else None)
    second = it.reader.as_expr(b, node, first.dtype)
    if "handle" not in (first.dtype.code, second.dtype.code):
        first, second = match(first, second)
    return compare(str(symbol), first, second, it.reader.text.span(node))


def conditional(it: Context, node: ast.IfExp) -> Value:
    test = it.reader.value(node.test)
    if unknown(test) and not it.staged:
        return Unknown(ast.unparse(node))
    held = truth(it, test, node.test)
    if isinstance(held, bool):
        return it.reader.value(node.body if held else node.orelse)
    a, b = beside(it.reader.operand(node.body), it.reader.operand(node.orelse))
    first = it.reader.as_expr(a, node.body, b.dtype if isinstance(b, n.Expr) else None)
    first, second = match(first, it.reader.as_expr(b, node.orelse, first.dtype))
    return n.Call(first.dtype, "if_then_else", (held, first, second), span=it.reader.text.span(node))


def formatted(it: Context, node: ast.JoinedStr) -> Value:
    """An f-string of constants."""
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
            continue
        assert isinstance(part, ast.FormattedValue)
        value = context.plain(it.reader.value(part.value))
        form = "" if part.format_spec is None else str(it.reader.value(part.format_spec))
        if isinstance(value, n.Node) or unknown(value, items=True):
            return Unknown(ast.unparse(node))
        if any(len(digits) > 3 for digits in re.findall(r"\d+", form)):
            it.fail(part, "TS04", "this is formatted with more than 999 characters.")
        shown = repr(value) if part.conversion == ord("r") else value
        try:
            parts.append(format(cast("Any", shown), form))
        except (TypeError, ValueError) as error:
            it.fail(part, "TS20", f"this is not formatted so: {error}.")
    if sum(map(len, parts)) > context.MAX_ITEMS:
        it.fail(node, "TS04", f"this string has more than {context.MAX_ITEMS:,} characters.")
    return "".join(parts)


def items(it: Context, value: Value, node: ast.expr) -> list[Value]:
    """The items of a sequence of constants; refuses anything else."""
    found = context.items_of(context.plain(value))
    if found is None:
        if isinstance(value, Unknown):
            it.needs(node, value)
        it.fail(node, "TS21", "a sequence of constants stands here: a list, a tuple, or range(n).")
    if len(found) > context.MAX_ITEMS:
        it.fail(node, "TS04", f"this sequence has more than {context.MAX_ITEMS:,} items.")
    return found


def comprehension(it: Context, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    """A sequence made item by item; ranges in it are Python's."""
    it.reader.scope.push()
    staged, it.staged = it.staged, False
    try:
        if isinstance(node, ast.DictComp):
            return {
                cast("Any", it.reader.value(node.key)): it.reader.value(node.value) for _ in _loops(it, node.generators)
            }
        found = [it.reader.value(node.elt) for _ in _loops(it, node.generators)]
    finally:
        it.staged = staged
        it.reader.scope.pop()
    return set(found) if isinstance(node, ast.SetComp) else found


def _loops(it: Context, generators: list[ast.comprehension]) -> Iterator[None]:
    if not generators:
        yield
        return
    first, *rest = generators
    for item in items(it, it.reader.value(first.iter), first.iter):
        _bound(it, first.target, item)
        if all(truth(it, it.reader.value(test), test) is True for test in first.ifs):
            yield from _loops(it, rest)


def _bound(it: Context, target: ast.expr, value: Value) -> None:
    if isinstance(target, ast.Name):
        it.reader.scope.define(target.id, value)
    elif isinstance(target, ast.Tuple | ast.List) and (parts := members(value)) is not None:
        for part, item in unpack_values(it.body, target.elts, parts, target):
            _bound(it, part, item)
    else:
        it.fail(target, "TS24", "this cannot be unpacked.")


def subscript(it: Context, node: ast.Subscript) -> Value:
    target = it.reader.value(node.value)
    match target:
        case Unknown(text):
            return Unknown(f"{text}[...]")
        case Name("T", path) if path in _TENSORS:
            return it.reader.value(_tensor(node))
        case Name():  # `list[int]`, `Optional[int]`: a type of Python
            return target
        case range() | dict() | list() | tuple() | str() if not isinstance(node.slice, ast.Slice):
            key = context.plain(it.reader.value(node.slice))
            key = key.value if isinstance(key, n.IntImm) else key
            if unknown(key, items=True):
                return Unknown(ast.unparse(node))
            try:
                return cast("Any", target)[key]
            except (IndexError, KeyError, TypeError):
                it.fail(node.slice, "TS11", "there is no such member.")
        case n.Buffer():
            return access(it.reader, target, _whole(target, node.slice), node)
        case _:
            return subscripts.subscript(it.reader, node)


def _whole(buffer: n.Buffer, index: ast.expr) -> ast.expr:
    """An index with `...` written out as whole dims."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    places = [k for k, p in enumerate(parts) if isinstance(p, ast.Constant) and p.value is Ellipsis]
    if not places:
        return index
    left_out = len(buffer.shape) - len(parts) + 1
    spread = [ast.copy_location(ast.Slice(None, None, None), parts[places[0]]) for _ in range(left_out)]
    whole: list[ast.expr] = [*parts[: places[0]], *spread, *parts[places[0] + 1 :]]
    return ast.copy_location(ast.Tuple(whole, ast.Load()), index)


def _tensor(node: ast.Subscript) -> ast.Call:
    """`T.Tensor[(M, K), dtype]`, `T.Tensor[M, K]`: as a call."""
    keys: list[ast.expr] = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    stated = any(
        isinstance(k, ast.Tuple | ast.List) or (isinstance(k, ast.Constant) and isinstance(k.value, str)) for k in keys
    )
    arguments: list[ast.expr] = (
        keys if stated or len(keys) == 1 else [ast.copy_location(ast.Tuple(keys, ast.Load()), node.slice)]
    )
    return ast.copy_location(ast.Call(node.value, arguments, []), node)


def mapping(it: Context, node: ast.Dict) -> Value:
    found: dict[Any, Value] = {}
    for key, part in zip(node.keys, node.values, strict=True):
        value = it.reader.value(part)
        if key is None:
            if not isinstance(value, dict):
                it.fail(part, "TS21", "'**' spreads a mapping of constants.")
            found |= cast("dict[Any, Value]", value)
            continue
        name = context.plain(it.reader.value(key))
        if isinstance(name, list | dict | set):
            it.fail(key, "TS21", "a key is a constant, or a buffer.")
        found[name] = value
    return found


def closure(it: Context, node: ast.Lambda) -> Value:
    return Function(node, "python", tuple(it.reader.scope.frames), defaults_of(it, node.args))


def defaults_of(it: Context, stated: ast.arguments) -> dict[str, Value]:
    """The defaults of parameters, by name."""
    positional = [*stated.posonlyargs, *stated.args]
    pairs = list(zip(positional[len(positional) - len(stated.defaults) :], stated.defaults, strict=True))
    pairs += [(p, d) for p, d in zip(stated.kwonlyargs, stated.kw_defaults, strict=True) if d is not None]
    return {parameter.arg: it.reader.value(default) for parameter, default in pairs}


RULES: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Name: name, ast.Attribute: attribute, ast.Constant: constant, ast.BinOp: binary_operation, ast.UnaryOp: unary,
    ast.BoolOp: connective, ast.Compare: comparison, ast.IfExp: conditional, ast.JoinedStr: formatted,
    ast.ListComp: comprehension, ast.SetComp: comprehension, ast.GeneratorExp: comprehension,
    ast.DictComp: comprehension, ast.Subscript: subscript, ast.Lambda: closure,
    ast.Dict: mapping,
}  # fmt: skip
