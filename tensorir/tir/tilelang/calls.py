"""Calls: of what TileLang has, of functions of the text, which are followed, and of Python's functions of constants."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, cast

from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT32, DataType
from tensorir.tir.script.arithmetic import IllTyped, binary
from tensorir.tir.script.calls.dispatch import call as dispatched
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import Closure, DataTypeName, Name, Value, entries, members
from tensorir.tir.tilelang import host
from tensorir.tir.tilelang.context import Context, Function, Returned, Unknown

__all__ = ["arguments_of", "call", "called", "let"]


def call(it: Context, node: ast.Call) -> Value:
    target = it.reader.value(node.func)
    args: list[Value] = []
    for part in node.args:
        if isinstance(part, ast.Starred):
            spread = it.reader.value(part.value)
            args += it.reader.spread(list(host.items_of(spread) or []) or spread, part)
        else:
            args.append(it.reader.value(part))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = it.reader.value(keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, Unknown):
            return Unknown(ast.unparse(node))
        elif (found := entries(value)) is not None:
            kwargs |= {str(key): item for key, item in found.items()}
    match target:
        case Function():
            return called(it, target, args, kwargs, node)
        case Unknown(text):
            return Unknown(f"{text}(...)")
        case Name("python" | "host", path):
            return _constant_call(it, path, args, kwargs, node)
        case Name() | DataTypeName() | n.Node() | Closure():
            said = isinstance(target, Name) and target.path.startswith(("annotate_", "print", "Layout"))
            for value, place in zip(args, node.args, strict=False):
                if isinstance(value, Unknown) and not said:
                    it.needs(place, value)
            return dispatched(it.reader, node, target, args, kwargs)
        case _ if callable(target):
            return _python(it, cast("Callable[..., Any]", target), args, kwargs, node)
        case _:
            return dispatched(it.reader, node, target, args, kwargs)


def _constant_call(it: Context, path: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    """A call of a function of Python or of a library: computed where it is one of constants."""
    match path, args:
        case "range", _ if it.staged or not all(isinstance(a, int) for a in args):
            return dispatched(it.reader, node, Name("python", path), args, kwargs)
        case "len", [n.Buffer() as buffer]:
            return len(buffer.shape)
        case "min" | "max" | "sum", [*_] if any(isinstance(v, n.Expr) for v in _spread(args)):
            return _folded(it, path, _spread(args), node)
        case "isinstance", [value, kind]:
            return _is_instance(value, kind)
        case "print", _:
            return None
        case _ if path.rsplit(".", 1)[-1] == "DataType" and len(args) == 1:
            return DataTypeName(it.reader.dtype(args[0], node))
        case _ if path.rsplit(".", 1)[-1] in ("ceildiv", "cdiv") and any(isinstance(a, n.Expr) for a in args):
            return dispatched(it.reader, node, Name("T", "ceildiv"), args, kwargs)
        case _:
            pass
    function = constant_function(path)
    if function is None or any(isinstance(a, Unknown) for a in (*args, *kwargs.values())):
        return Unknown(ast.unparse(node))
    if any(isinstance(a, n.Node) for a in args):
        return dispatched(it.reader, node, Name("python", path), args, kwargs)
    if path == "reversed" or path == "enumerate" or path == "zip":
        return list(function(*(host.items_of(a) or [] for a in args), **kwargs))
    return _python(it, function, args, kwargs, node)


constant_function: Callable[[str], Callable[..., Any] | None] = host.constant_function


def _spread(args: list[Value]) -> list[Value]:
    items = members(args[0]) if len(args) == 1 else None
    return args if items is None else items


def _folded(it: Context, kind: str, values: list[Value], node: ast.Call) -> Value:
    """`min`, `max` and `sum` of what a kernel computes."""
    result = values[0]
    try:
        for value in values[1:]:
            result = binary("+" if kind == "sum" else kind, result, value, it.reader.text.span(node))
    except IllTyped as error:
        it.fail(node, "TS20", str(error))
    return result


_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "dict": dict,
}  # fmt: skip


def _is_instance(value: Value, kind: Value) -> bool:
    kinds = members(kind) or [kind]
    return any(isinstance(k, Name) and isinstance(value, _TYPES.get(k.path, ())) for k in kinds)


def _python(
    it: Context, function: Callable[..., Any], args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A function of constants is computed; sequences of other things are only put together."""
    try:
        given = [host.plain(a) if isinstance(a, DataType | DataTypeName) else a for a in args]
        return function(*given, **kwargs)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        it.fail(node, "TS20", f"this is not computed: {error}.")


def arguments_of(
    it: Context, function: Function, args: list[Value], kwargs: Mapping[str, Value], node: Located
) -> dict[str, Value]:
    """The values of a function's parameters, by name; refuses what does not fit."""
    stated = function.node.args
    plain = [p.arg for p in (*stated.posonlyargs, *stated.args)]
    found: dict[str, Value] = dict(zip(plain, args, strict=False))
    if len(args) > len(plain):
        if stated.vararg is None:
            it.fail(node, "TS24", f"{function.name} takes {len(plain)} arguments, and this gives {len(args)}.")
        found[stated.vararg.arg] = tuple(args[len(plain) :])
    elif stated.vararg is not None:
        found[stated.vararg.arg] = ()
    further: dict[str, Value] = {}
    known = {*plain, *(p.arg for p in stated.kwonlyargs)}
    for key, value in kwargs.items():
        if key not in known and stated.kwarg is None:
            it.fail(node, "TS24", f"{function.name} has no parameter {key!r}.")
        (found if key in known else further)[key] = value
    if stated.kwarg is not None:
        found[stated.kwarg.arg] = further
    missing = [p for p in (*plain, *(p.arg for p in stated.kwonlyargs)) if p not in found]
    for name in missing:
        if name not in function.defaults:
            it.fail(node, "TS24", f"{function.name} needs {name!r}.")
        found[name] = function.defaults[name]
    return found


def called(it: Context, function: Function, args: list[Value], kwargs: Mapping[str, Value], node: Located) -> Value:
    """The value of a call of a function of the text: its statements stand where the call stands."""
    if function.kind in ("kernel", "factory"):
        from tensorir.tir.tilelang.functions import instance

        return instance(it, function, arguments_of(it, function, args, kwargs, node), node)
    given = arguments_of(it, function, args, kwargs, node)
    if isinstance(function.node, ast.Lambda):
        with it.within(function.frames, node) as own:
            own |= given
            return it.reader.value(function.node.body)
    with it.within(function.frames, node) as own:
        it.staged = function.kind == "macro"
        references = _references(function.node)
        for name, value in given.items():
            own[name] = value
            if function.kind == "macro" and name not in references:
                _bind_argument(it, name, value, node)
        depth = len(it.body.bodies)
        try:
            for statement in function.node.body:
                before = len(it.body.problems)
                it.body.statement(statement)
                if function.kind == "python" and (problems := it.body.problems[before:]):
                    del it.body.problems[before:]
                    raise DiagnosticError(problems)
        except Returned as returned:
            if len(it.body.bodies) != depth:
                help = "allocate a variable before, T.alloc_var, store to it, and return it at the end."
                it.fail(node, "TS36", f"{function.name} returns from within a loop or a branch.", help)
            return returned.value
        return None


def _references(node: ast.FunctionDef) -> set[str]:
    """Parameters that are stored to in a macro: `x: T.Ref`."""
    return {a.arg for a in node.args.args if a.annotation is not None and "Ref" in ast.unparse(a.annotation)}


def _bind_argument(it: Context, name: str, value: Value, node: Located) -> None:
    """What is computed for an argument of a macro has a name of its own there."""
    if isinstance(value, n.Expr) and not isinstance(value, n.Var | n.IntImm):
        it.reader.scope.define(name, let(it, name, value, node))


def let(it: Context, name: str, value: n.Expr, node: Located) -> n.Expr:
    """A name for a value of the kernel: a scalar of its own, as printed TileLang has it."""
    if isinstance(value, n.BufferLoad) and value.buffer.layout == "scalar":
        return value  # a name for a name
    span = it.reader.text.span(node)
    buffer = it.body.scalar("_tmp" if name == "_" else name, value.dtype, node)
    zero = const(0, INT32)
    it.lets[buffer] = value
    it.body.emit(n.BufferStore(buffer, value, (zero,), None, span))
    return n.BufferLoad(buffer, (zero,), span=span)
