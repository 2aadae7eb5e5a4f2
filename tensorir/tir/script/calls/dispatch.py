"""What a call stands for: by the kind of what is called, and by the table of makers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tensorir.tir import nodes as n
from tensorir.tir.nodes import ForKind
from tensorir.tir.script.calls.buffers import buffer_method, expr_method
from tensorir.tir.script.calls.builtins import builtin, global_call
from tensorir.tir.script.calls.constants import constant
from tensorir.tir.script.calls.control import loop
from tensorir.tir.script.calls.form import MAKERS, Call
from tensorir.tir.script.calls.operators import extreme
from tensorir.tir.script.syntax import Failure
from tensorir.tir.script.values import (
    BoundMethod,
    Broken,
    Closure,
    DataTypeName,
    Form,
    LetType,
    Name,
    TypeVariable,
    Value,
    members,
)
from tensorir.tir.script.words import describe

if TYPE_CHECKING:
    from tensorir.tir.script.evaluate import Evaluator

__all__ = ["call"]

def call(reader: Evaluator, node: ast.Call, target: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a call stands for."""
    if any(isinstance(arg, Broken) for arg in (*args, *kwargs.values())):
        raise Failure(())
    match target:
        case Name("T", path):
            maker = reader.language.makers.get(path) or MAKERS.get(path)
            it = Call(reader, node, path, args, kwargs)
            return maker(it) if maker is not None else builtin(it)
        case DataTypeName(dtype):
            return constant(Call(reader, node, str(dtype), args, kwargs), dtype)
        case n.GlobalVar(name):
            return global_call(Call(reader, node, name, args, kwargs), target)
        case BoundMethod(n.Buffer() as buffer, name):
            return buffer_method(Call(reader, node, name, args, kwargs), buffer)
        case BoundMethod(n.Expr() as value, name):
            return expr_method(Call(reader, node, name, args, kwargs), value)
        case LetType():
            return Form("let", tuple(args), kwargs, reader.text.span(node))
        case Name("python", name):
            return _python_call(Call(reader, node, name, args, kwargs))
        case Name("I", "meta_var") if len(args) == 1:
            return args[0]
        case Name("tvm", path) if path.rsplit(".", 1)[-1] == "TypeVar":
            return _python_call(Call(reader, node, "TypeVar", args, kwargs))
        case Name("tvm", path):
            return n.Opaque(ast.unparse(node), reader.text.span(node))
        case Closure():
            reader.fail(node, "TS07", "a lambda cannot be called here.")
        case _:
            reader.fail(node.func, "TS11", f"{describe(target)} cannot be called.")


def _python_call(it: Call) -> Value:
    """The few functions of Python that fold."""
    items = members(it.args[0]) if len(it.args) == 1 else None
    match it.name, it.args:
        case "tuple", _ if items is not None:
            return tuple(items)
        case "list", _ if items is not None:
            return items
        case "len", _ if items is not None:
            return len(items)
        case "range", _:
            return loop(it, ForKind.SERIAL)
        case "TypeVar", [str(name)]:
            return TypeVariable(name)
        case "float", [int() | float() | str() as value]:
            try:
                return float(value)
            except ValueError:
                it.fail("TS21", "this is no number.")
        case "int", [int() | float() as value]:
            if value != value or value in (float("inf"), float("-inf")):
                it.fail("TS21", "this is no integer.")
            return int(value)
        case "bool", [bool() | int() | float() as value]:
            return bool(value)
        case "len", [str() as value]:
            return len(value)
        case "len", [n.Buffer() as buffer]:
            return len(buffer.shape)
        case "abs", [int() | float() as value]:
            return abs(value)
        case (("min" | "max"), [_, _]):
            return extreme(it)
        case _:
            hint = _IN_TIR.get(it.name, "") if any(isinstance(a, n.Node) for a in it.args) else ""
            it.fail("TS07", f"{it.name!r} with these arguments is no part of TVMScript.", hint)


_IN_TIR = {
    "abs": "write T.abs(x).",
    "round": "write T.round(x).",
    "int": "write T.Cast('int32', x).",
    "float": "write T.Cast('float32', x).",
    "bool": "write T.Cast('bool', x).",
}
