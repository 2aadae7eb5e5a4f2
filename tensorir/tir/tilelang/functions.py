"""Functions of a text of TileLang, the kernels that they make, and calls of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, cast

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import HANDLE, INT32, DataType
from tensorir.tir.script.arithmetic import IllTyped, binary
from tensorir.tir.script.assignments import scalar
from tensorir.tir.script.body import Body, FunctionBody
from tensorir.tir.script.calls_of_buffers import call as dispatched
from tensorir.tir.script.forms import make_buffer
from tensorir.tir.script.statements import RULES as STATEMENTS
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import BufferSpec, Closure, DataTypeName, Name, Value, entries, members
from tensorir.tir.tilelang import context as host
from tensorir.tir.tilelang.context import Context, Function, Kind, Returned, Unknown, unknown
from tensorir.tir.tilelang.expressions import defaults_of
from tensorir.tir.tilelang.expressions import items as items_of

# Functions of a text: which are kernels, which make kernels, and the kernel that one is for given constants.

_JIT = frozenset(("jit", "lazy_jit", "eager_jit"))


def _marks(node: ast.FunctionDef) -> list[str]:
    """The last names of the decorators: `tilelang.jit(out_idx=[-1])` is `jit`."""
    targets = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return [t.attr if isinstance(t, ast.Attribute) else t.id if isinstance(t, ast.Name) else "" for t in targets]


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a function, without those of functions within it."""
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


def is_kernel(node: ast.FunctionDef) -> bool:
    """True for a kernel, or a function that makes kernels."""
    return _kind(node) in ("kernel", "factory")


def define_function(it: Context, node: ast.FunctionDef) -> None:
    """A name for a function; one under @T.prim_func within another function is a kernel at once."""
    function = Function(node, _kind(node), tuple(it.reader.scope.frames), defaults_of(it, node.args))
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
    """True if an annotation states a tensor or a scalar that a kernel takes, and no constant of Python."""
    shown = "" if annotation is None else ast.unparse(annotation)
    first, _, name = shown.partition("(")[0].partition("[")[0].rpartition(".")
    return bool(first) and name != "dtype"


def instance(it: Context, function: Function, given: Mapping[str, Value], node: Located) -> Value:
    """A kernel or factory for constants: a function of TIR, or the value that a factory gives."""
    assert isinstance(function.node, ast.FunctionDef)
    if function.kind == "kernel":
        made = _kernel(it, function, given, node)
        it.made.append((function, made))
        return made
    with it.within(function.frames, node) as own:
        own |= given
        it.staged, it.function = False, function.name
        before, it.body = it.body, FunctionBody(it.reader, STATEMENTS)
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
    body = it.body = FunctionBody(it.reader, STATEMENTS)
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


# Calls: of what TileLang has, of functions of the text, which are followed, and of Python's functions of constants.


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
            return _method_call(it, cast("Callable[..., Any]", target), args, kwargs, node)
        case _:
            return dispatched(it.reader, node, target, args, kwargs)


def _constant_call(it: Context, path: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    """A call of a function of Python or of a library: computed where it is one of constants."""
    match path, args:
        case "range", _ if any(unknown(a) for a in args):
            return Unknown(ast.unparse(node))
        case "range", _ if not all(isinstance(a, int) for a in args):
            return dispatched(it.reader, node, Name("python", path), args, kwargs)
        case "len", [n.Buffer() as buffer]:
            return len(buffer.shape)
        case "min" | "max" | "sum", [*_] if any(isinstance(v, n.Expr) for v in _spread(args)):
            return _folded(it, path, _spread(args), node)
        case "isinstance", [value, kind]:
            return Unknown(ast.unparse(node)) if unknown(value) else _is_instance(value, kind)
        case "print", _:
            return None
        case _ if path.rsplit(".", 1)[-1] == "DataType" and len(args) == 1:
            return DataTypeName(it.reader.dtype(args[0], node))
        case _ if path.rsplit(".", 1)[-1] in ("ceildiv", "cdiv") and any(isinstance(a, n.Expr) for a in args):
            return dispatched(it.reader, node, Name("T", "ceildiv"), args, kwargs)
        case _:
            pass
    function = constant_function(path)
    given = args if path == "dict" else (*args, *kwargs.values())
    if function is None or any(unknown(a, path not in _PARTS) for a in given):
        return Unknown(ast.unparse(node))
    if any(isinstance(a, n.Node) for a in args):
        return dispatched(it.reader, node, Name("python", path), args, kwargs)
    if path == "reversed" or path == "enumerate" or path == "zip":
        count = len(args) if path == "zip" else 1
        places = _argument_places(node)
        args = [items_of(it, a, next(places)) if k < count else a for k, a in enumerate(args)]
        return list(cast("Iterable[Value]", _python(it, function, args, kwargs, node)))
    return _python(it, function, args, kwargs, node)


def _argument_places(node: ast.Call) -> Iterator[ast.expr]:
    """The places of arguments; the call's for those that are spread."""
    spread = any(isinstance(part, ast.Starred) for part in node.args)
    return repeat(node) if spread else chain(node.args, repeat(node))


_PARTS = frozenset(("dict", "enumerate", "len", "list", "reversed", "tuple", "zip"))
"""Functions that put items elsewhere, and do not ask what these are."""
_READS = frozenset(("copy", "count", "get", "index", "items", "keys", "values"))
"""Methods that change nothing."""
_SEARCHES = frozenset(("count", "index", "join", "remove", "sort"))
"""Methods that ask what the items are."""
_STORED = {"append": 0, "get": 1, "insert": 1, "setdefault": 1}
"""Methods that keep an argument as it is, by its place."""


def _method_call(
    it: Context, method: Callable[..., Any], args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of a constant; one that would change a list by what only Python knows is refused."""
    name, owner = getattr(method, "__name__", ""), getattr(method, "__self__", None)
    asked = [a for k, a in enumerate(args) if k != _STORED.get(name)]
    items = name not in ("extend", "update")
    if any(unknown(a, items) for a in asked) or (name in _SEARCHES and unknown(owner, items=True)):
        result = Unknown(ast.unparse(node))
        if isinstance(owner, list | dict | set) and name not in _READS:
            it.needs(node, result)
        return result
    return _python(it, method, args, kwargs, node)


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
        found = function(*given, **kwargs)
        return list(cast("Iterable[Value]", found)) if isinstance(found, KeysView | ValuesView | ItemsView) else found
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
    """An argument of a macro that is computed has a name of its own there."""
    if isinstance(value, n.Expr) and not isinstance(value, n.Var | n.IntImm):
        it.reader.scope.define(name, let(it, name, value, node))


def let(it: Context, name: str, value: n.Expr, node: Located) -> n.Expr:
    """A name for a value of the kernel: a scalar of its own, as printed TileLang has it."""
    if isinstance(value, n.BufferLoad) and value.buffer.layout == "scalar":
        return value  # a name for a name
    span = it.reader.text.span(node)
    buffer = scalar(it.body, "_tmp" if name == "_" else name, value.dtype, node)
    zero = const(0, INT32)
    it.lets[buffer] = value
    it.body.emit(n.BufferStore(buffer, value, (zero,), None, span))
    return n.BufferLoad(buffer, (zero,), span=span)
