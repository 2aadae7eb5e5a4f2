"""Functions of a text: which are kernels, which make kernels, and the kernel that one is for given constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import HANDLE
from tensorir.tir.script.declarations import make_buffer
from tensorir.tir.script.statements import Body, FunctionBody
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import BufferSpec, DataTypeName, Name, Value, members
from tensorir.tir.tilelang.context import Context, Function, Kind, Returned

__all__ = ["define_function", "instance", "kernels_of", "wanted"]

_JIT = frozenset(("jit", "lazy_jit", "eager_jit"))


def _marks(node: ast.FunctionDef) -> list[str]:
    """The last names of the decorators: `tilelang.jit(out_idx=[-1])` is `jit`."""
    targets = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return [t.attr if isinstance(t, ast.Attribute) else t.id if isinstance(t, ast.Name) else "" for t in targets]


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, functions within it left out."""
    for part in ast.iter_child_nodes(node):
        yield part
        if not isinstance(part, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own(part)


def _kind(node: ast.FunctionDef) -> Kind:
    marks = _marks(node)
    if "prim_func" in marks:
        return "kernel"
    if "macro" in marks or "inline" in marks:
        return "macro"
    functions = [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef) and part is not node]
    if any(_kind(f) in ("kernel", "factory") for f in functions):
        return "factory"
    if _JIT.intersection(marks):
        launches = (isinstance(p, ast.Attribute) and p.attr in ("Kernel", "ClusterKernel") for p in _own(node))
        return "kernel" if any(launches) else "factory"
    return "python"


def define_function(it: Context, node: ast.FunctionDef) -> None:
    """A name for a function; one under @T.prim_func within another function is a kernel at once."""
    stated = node.args
    positional = [*stated.posonlyargs, *stated.args]
    pairs = list(zip(positional[len(positional) - len(stated.defaults) :], stated.defaults, strict=True))
    pairs += [(p, d) for p, d in zip(stated.kwonlyargs, stated.kw_defaults, strict=True) if d is not None]
    defaults = {parameter.arg: it.reader.value(default) for parameter, default in pairs}
    function = Function(node, _kind(node), tuple(it.reader.scope.frames), defaults)
    it.reader.scope.define(node.name, function)
    if it.depth and function.kind == "kernel" and "prim_func" in _marks(node):
        it.reader.scope.define(node.name, instance(it, function, {}, node))


def wanted(it: Context, function: Function) -> tuple[dict[str, Value], list[str]]:
    """The constants of a kernel or factory that are known, and the names of those that are not."""
    assert isinstance(function.node, ast.FunctionDef)
    stated, found, missing = function.node.args, dict[str, Value](), list[str]()
    if "prim_func" in _marks(function.node):
        return {}, []
    tensors = _tensors_in_body(function.node)
    before, it.function = it.function, function.name
    for parameter in (*stated.posonlyargs, *stated.args, *stated.kwonlyargs):
        if parameter.arg in tensors:
            continue
        value = it.given(parameter.arg)
        if value is not None:
            found[parameter.arg] = value
        elif parameter.arg in function.defaults:
            found[parameter.arg] = function.defaults[parameter.arg]
        elif function.kind == "factory" or not _is_type_of_kernel(parameter.annotation):
            missing.append(parameter.arg)
    it.function = before
    return found, missing


def _tensors_in_body(node: ast.FunctionDef) -> set[str]:
    """Names that a statement of their own states the types of: `A: T.Tensor((M, K), dtype)`."""
    return {
        part.target.id
        for part in _own(node)
        if isinstance(part, ast.AnnAssign) and part.value is None and isinstance(part.target, ast.Name)
    }


def _is_type_of_kernel(annotation: ast.expr | None) -> bool:
    """Whether an annotation states a tensor or a scalar that a kernel takes, and no constant of Python."""
    shown = "" if annotation is None else ast.unparse(annotation)
    first, _, name = shown.partition("(")[0].partition("[")[0].rpartition(".")
    return bool(first) and name != "dtype"


def instance(it: Context, function: Function, given: Mapping[str, Value], node: Located) -> Value:
    """What a kernel or factory is for constants: a function of TIR, or whatever a factory gives."""
    assert isinstance(function.node, ast.FunctionDef)
    if function.kind == "kernel":
        made = _kernel(it, function, given, node)
        it.made.append((function, made))
        return made
    with it.within(function.frames, node) as own:
        own |= given
        it.staged, it.function = False, function.name
        before, it.body = it.body, FunctionBody(it.reader)
        try:
            result: Value = None
            for statement in function.node.body:
                it.body.statement(statement)
        except Returned as returned:
            result = returned.value
        finally:
            problems, it.body = it.body.problems, before
        if problems:
            raise DiagnosticError(problems)
    return result


def _kernel(it: Context, function: Function, given: Mapping[str, Value], node: Located) -> n.PrimFunc:
    assert isinstance(function.node, ast.FunctionDef)
    before = (it.body, it.waiting, it.outputs, it.launch, it.threads, it.blocks)
    body = it.body = FunctionBody(it.reader)
    it.waiting, it.outputs, it.launch, it.threads, it.blocks = {}, [], None, (), ()
    span = it.reader.text.span(function.node)
    try:
        with it.within(function.frames, node) as own:
            it.staged, it.function = True, function.name
            _parameters(it, function, given, own)
            params = dict(body.params)
            body.bodies.append(statements := Body())
            returned: Value = None
            try:
                for statement in function.node.body:
                    body.statement(statement)
            except Returned as value:
                returned = value.value
            if body.problems:
                raise DiagnosticError(_once(body.problems))
            for name, var in it.waiting.items():
                message = f"nothing says what the parameter {name!r} is."
                it.fail(var.span, "TS32", message, f"write {name}: T.Tensor((M, N), dtype), or give its value.")
            attrs: dict[str, n.Attribute] = {"global_symbol": function.name}
            if it.outputs:
                chosen = members(returned) or [returned]
                places = [k for value in chosen for k, made in enumerate(it.outputs) if made is value]
                attrs["tilelang_out_idx"] = tuple(k - len(it.outputs) for k in places)
            whole = body.rooted(statements.close(span), span)
            order = tuple({**params, **body.params})
            return n.PrimFunc(function.name, order, body.buffers, whole, None, attrs, False, None, span)
    finally:
        it.body, it.waiting, it.outputs, it.launch, it.threads, it.blocks = before


def _once(problems: list[Diagnostic]) -> list[Diagnostic]:
    """A macro that is wrong is wrong wherever it is used: it is told once."""
    return list({(p.code, p.message, p.span): p for p in problems}.values())


def _parameters(it: Context, function: Function, given: Mapping[str, Value], own: dict[str, Value]) -> None:
    """Constants are names of the body; tensors and scalars are parameters of the function of TIR."""
    assert isinstance(function.node, ast.FunctionDef)
    stated, body = function.node.args, it.body
    tensors = _tensors_in_body(function.node)
    for parameter in (*stated.posonlyargs, *stated.args, *stated.kwonlyargs):
        name, span = parameter.arg, it.reader.text.span(parameter)
        if name in given:
            own[name] = given[name]
        elif parameter.annotation is not None and name not in tensors:
            kind = it.reader.value(parameter.annotation)
            var = n.Var(name, n.PrimType(HANDLE), span)
            if isinstance(kind, BufferSpec):
                body.buffers[var] = make_buffer(body, replace(kind, purpose="param"), name, span)
            else:
                var = _scalar(it, name, kind, parameter)
            body.params[var] = None
            own[name] = body.buffers.get(var, var)
        elif name in tensors:
            it.waiting[name] = var = n.Var(name, n.PrimType(HANDLE), span)
            body.params[var] = None
        else:
            message = f"the parameter {name!r} has no type and no value."
            it.fail(parameter, "TS32", message, f"write {name}: T.Tensor((M, N), dtype), or give its value.")


def _scalar(it: Context, name: str, kind: Value, parameter: ast.arg) -> n.Var:
    """The variable of a parameter that is a number or a pointer."""
    span = it.reader.text.span(parameter)
    match kind:
        case n.Var(name=""):
            return n.Var(name, kind.type, span)
        case n.Var():
            return kind
        case DataTypeName(dtype):
            return n.Var(name, n.PrimType(dtype), span)
        case Name("T", "handle" | "ptr"):
            return n.Var(name, n.PrimType(HANDLE), span)
        case str():
            return n.Var(name, n.PrimType(it.reader.dtype(kind, parameter)), span)
        case _:
            it.fail(
                parameter, "TS32", f"this is no type of the parameter {name!r}.", "give its value, or write T.int32."
            )


def kernels_of(it: Context, function: Function, node: Located) -> list[n.PrimFunc]:
    """The functions of TIR that a kernel or factory comes to with what is given; refuses one that wants more."""
    start = len(it.made)
    pending: list[Value] = [function]
    found: list[n.PrimFunc] = []
    while pending:
        value = pending.pop(0)
        if isinstance(value, n.PrimFunc):
            found.append(value)
        elif isinstance(value, Function) and value.kind in ("kernel", "factory"):
            given, missing = wanted(it, value)
            if missing:
                message = f"{value.name!r} is a kernel for given {', '.join(missing)}."
                names = ", ".join(f"{m!r}: ..." for m in missing)
                assert isinstance(value.node, ast.FunctionDef)
                it.fail(_head(value.node), "TS37", message, f"give their values: parse(text, names={{{names}}}).")
            pending.append(instance(it, value, given, node))
        else:
            pending += members(value) or []
    # a factory may compile its kernel, or run it, where only Python could follow
    return found or [made for _, made in it.made[start:]]


def _head(node: ast.FunctionDef) -> Located:
    """The word that a function is called by is no node of its own: its first parameter stands for it."""
    parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return parameters[0] if parameters else node
