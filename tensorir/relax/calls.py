"""Calls in a function of Relax: operators, functions of the module, calls whose types the text states."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tensorir.relax import nodes as r
from tensorir.relax.infer import Contradiction, infer, type_of
from tensorir.relax.makers import MAKERS
from tensorir.relax.operators import OPERATORS, REQUIRED, Operator
from tensorir.runtime.errors import did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.values import DataTypeName, Name, Value, members

if TYPE_CHECKING:
    from tensorir.relax.parse import Reader

__all__ = ["operator", "relax_call", "typed_call"]


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


_STATED = ("call_tir", "call_tir_inplace", "call_tir_with_grad", "call_dps_packed")
"""Those that make their results themselves, and so must be told the types."""


def relax_call(reader: Reader, node: ast.Call) -> Value:
    target = reader.value(node.func)
    match target:
        case Name("R", path):
            args = [reader.value(arg) for arg in _plain(reader, node)]
            return _named(reader, path, args, _keywords(reader, node), node)
        case Name("I", path) if path.endswith("Type") and not node.args:
            return target
        case n.GlobalVar(name):
            args = tuple(reader.relax(reader.value(arg), arg) for arg in _plain(reader, node))
            return r.Call(r.FunctionRef(name, reader.text.span(node.func)), args, span=reader.text.span(node))
        case r.RelaxExpr():
            args = tuple(reader.relax(reader.value(arg), arg) for arg in _plain(reader, node))
            return r.Call(target, args, span=reader.text.span(node))
        case _:
            return Evaluator.call(reader, node)


def _plain(reader: Reader, node: ast.Call) -> list[ast.expr]:
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            reader.fail(arg, "TS07", "'*' is no part of a call of Relax.")
    return node.args


def _keywords(reader: Reader, node: ast.Call) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            reader.fail(keyword.value, "TS07", "'**' is no part of TVMScript.")
        found[keyword.arg] = reader.value(keyword.value)
    return found


def _named(reader: Reader, path: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    path = path.removeprefix("op.")  # the operators' own home: R.op.nn.relu
    maker = MAKERS.get(path)
    if maker is not None:
        return maker(reader, args, kwargs, node)
    if path in _TYPED_CALLS:
        return reader.typed_call(path, args, kwargs, node)
    row = OPERATORS.get(path)
    if row is None:
        hint = did_you_mean(path, [*OPERATORS, *MAKERS, *_TYPED_CALLS])
        reader.fail(node.func, "TS12", f"R.{path} is not known.", hint)
    return reader.operator(row, args, kwargs, node)


def operator(reader: Reader, row: Operator, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> r.Call:
    """An operator with its values in order and all of its attributes by name."""
    names = (*row.values, *row.attributes)
    if row.variadic:
        values: list[r.RelaxExpr] = []
        for arg in args:
            items = members(arg)
            values += [reader.relax(item, node) for item in ([arg] if items is None else items)]
        given: dict[str, Value] = dict(kwargs)
    else:
        if len(args) > len(names):
            reader.fail(node, "TS24", f"R.{row.name} takes {len(names)} arguments, and this gives {len(args)}.")
        given = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key in given:
                reader.fail(node, "TS24", f"R.{row.name} is given {key!r} twice.")
            given[key] = value
        needed = row.values[: len(row.values) - row.optional]
        for name in needed:
            if given.get(name) is None:
                reader.fail(node, "TS24", f"R.{row.name} needs {name!r}.")
        values = []
        for place, name in enumerate(row.values):
            value = given.pop(name, None)
            default = row.defaults.get(name)
            later = next((key for key in row.values[place + 1 :] if given.get(key) is not None), None)
            if value is None and default == ():
                values.append(r.Tuple((), reader.text.span(node)))
            elif value is None and later is not None and isinstance(default, str):
                values.append(values[row.values.index(default)])
            elif value is not None:
                values.append(_operand(reader, name, value, node))
            elif later is not None and isinstance(default, bool):
                values.append(reader.relax(default, node))
            elif later is not None:
                reader.fail(node, "TS24", f"R.{row.name} needs {name!r} where {later!r} is given.")
            else:
                break
    attrs: dict[str, n.Attribute] = {}
    for key, default in row.attributes.items():
        if key in given:
            value = given.pop(key)
            attrs[key] = str(value.dtype) if isinstance(value, DataTypeName) else reader.attribute(value, node)
        elif default is REQUIRED:
            reader.fail(node, "TS24", f"R.{row.name} needs {key!r}.")
        else:
            attrs[key] = default  # type: ignore[assignment]
    for key in given:
        reader.fail(node, "TS24", f"R.{row.name} has no parameter {key!r}.", did_you_mean(key, names))
    call = r.Call(row.name, tuple(values), attrs, (), reader.text.span(node))
    try:
        infer(call, reader.functions)
    except Contradiction as error:
        reader.fail(node, "TS40", str(error))
    return call


def _operand(reader: Reader, name: str, value: Value, node: ast.Call) -> r.RelaxExpr:
    """A value that an operator takes; lists of sizes are shapes, and a text is a data type, where one is wanted."""
    if name == "dtype" and isinstance(value, str):
        return r.DataTypeValue(reader.dtype(value, node), reader.text.span(node))
    return reader.relax(value, node, shape=name in ("shape", "size"))


def typed_call(reader: Reader, path: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> r.Call:
    """`R.call_tir`, `R.call_packed` and their kin, whose text states the type of the result."""
    given = dict(kwargs)
    named = _TYPED_CALLS[path]
    stated = next((given.pop(key) for key in ("out_ty", "out_sinfo", "ty_args", "sinfo_args") if key in given), None)
    plain = list(args)
    if stated is None and named and len(plain) > len(named):
        stated = plain.pop(len(named))
    for name in named[len(plain) :]:
        if name not in given:
            reader.fail(node, "TS24", f"R.{path} needs {name!r}.")
        plain.append(given.pop(name))
    if not plain:
        reader.fail(node, "TS24", f"R.{path} needs a function.")
    if stated is None and path in _STATED:
        reader.fail(node, "TS24", f"R.{path} needs 'out_ty', the type of its result.")
    values = [_callee(reader, plain[0], node), *(reader.relax(arg, node) for arg in plain[1:])]
    if named and path.startswith(("call_tir", "call_dps")) and not isinstance(values[1], r.Tuple):
        known = type_of(values[1], reader.functions)
        if not isinstance(known, r.TupleType):
            values[1] = r.Tuple((values[1],), reader.text.span(node))
    if "tir_vars" in given:
        values.append(reader.relax(given.pop("tir_vars"), node, shape=True))
    items = members(stated) or ([] if stated is None or members(stated) is not None else [stated])
    types = tuple(reader.relax_type(item, node) for item in items)
    attrs = {key: reader.attribute(value, node) for key, value in given.items()}
    return r.Call(path, tuple(values), attrs, types, reader.text.span(node))


def _callee(reader: Reader, value: Value, node: ast.Call) -> r.RelaxExpr:
    if isinstance(value, str):
        return r.ExternFunc(value, reader.text.span(node.args[0] if node.args else node))
    return reader.relax(value, node)
