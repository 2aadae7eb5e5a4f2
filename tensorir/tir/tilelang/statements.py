"""Statements of TileLang: names for values, loops, branches, kernels, and functions within functions."""

# Sequences of constants hold values of any type.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from tensorir.runtime.errors import DiagnosticError, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import HANDLE, INT32, INT64
from tensorir.tir.nodes import ForKind
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.script.assignments import bind as plain_bind
from tensorir.tir.script.assignments import emit_store, store, symbol, unpack_values
from tensorir.tir.script.forms import declare, make_buffer
from tensorir.tir.script.statements import expression as plain_expression
from tensorir.tir.script.statements import loop
from tensorir.tir.script.statements import with_ as plain_with
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import (
    BufferSpec,
    Form,
    LoopForm,
    Name,
    Scalar,
    ThreadVar,
    Value,
    describe,
)
from tensorir.tir.tilelang.context import (
    NAMES,
    Context,
    Function,
    Launch,
    Output,
    PersistentLoop,
    Returned,
    Unknown,
    Warps,
    constant_function,
    is_host,
    unknown,
)
from tensorir.tir.tilelang.expressions import combined, items, truth
from tensorir.tir.tilelang.functions import define_function, let
from tensorir.tir.tilelang.kernels import kernel, persistent
from tensorir.tir.tilelang.memory import compact


class _Leave(Exception):
    """`break` or `continue` of a loop over constants."""

    def __init__(self, stops: bool) -> None:
        super().__init__()
        self.stops = stops


# Names


def assign(it: Context, node: ast.Assign) -> None:
    value = _asked(it, node)
    for target in node.targets:
        _assigned(it, target, value, node)


def _asked(it: Context, node: ast.Assign) -> Value:
    """The value of an assignment; of one that only Python knows, what is given for its name."""
    try:
        return it.reader.value(node.value)
    except DiagnosticError as error:
        target = node.targets[0]
        if [d.code for d in error.diagnostics] != ["TS35"] or not isinstance(target, ast.Name):
            raise
        found = it.given(target.id)
        if found is None:
            help = f"give the value of {target.id!r}: parse(text, names={{{target.id!r}: ...}})."
            raise DiagnosticError(replace(error.diagnostics[0], help=help)) from None
        return found


def _assigned(it: Context, target: ast.expr, value: Value, node: ast.Assign | ast.AnnAssign) -> None:
    match target:
        case ast.Name(name):
            bind(it, name, value, target)
        case ast.Tuple(parts) | ast.List(parts):
            if isinstance(value, Unknown):
                for part in parts:
                    _assigned(it, part, value, node)
                return
            values = items(it, value, node.value or target)
            for part, item in unpack_values(it.body, parts, values, target):
                _assigned(it, part, item, node)
        case ast.Subscript():
            _store(it, target, value, node)
        case ast.Attribute():
            it.fail(target, "TS07", "attributes are not assigned to in TileLang.")
        case _:
            it.fail(target, "TS07", "this cannot be assigned to.")


def _store(it: Context, target: ast.Subscript, value: Value, node: Located) -> None:
    place = it.reader.value(target.value)
    if isinstance(place, list | dict):
        key = _key(it, target)
        with _members(it, target):
            cast("Any", place)[key] = value
        return
    if isinstance(value, Unknown):
        it.needs(node, value)
    store(it.body, target, value, node)


def _key(it: Context, target: ast.Subscript) -> Value:
    """The key of a member that is read, stored or deleted."""
    key = it.reader.value(target.slice)
    if (part := unknown(key, items=True)) is not None:
        it.needs(target.slice, part)
    return key


@contextmanager
def _members(it: Context, target: ast.Subscript) -> Generator[None]:
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError):
        it.fail(target.slice, "TS11", "there is no such member.")


def bind(it: Context, name: str, value: Value, node: Located) -> None:
    """`name = value`: a store where the name is a variable of the kernel, a name for the value elsewhere."""
    scope = it.reader.scope
    current = scope.find(name)
    if isinstance(current, Scalar) and isinstance(value, bool | int | float | n.Expr):
        emit_store(it.body, current.buffer, value, (const(0, INT32),), node)
        return
    match value:
        case Unknown() | Name("host"):
            found = it.given(name)
            scope.define(name, value if found is None else found)
        case BufferSpec():
            made = declare(it.body, value, name, node)
            scope.define(name, Scalar(made) if made.scope == "local.var" else made)
            if "init" in value.annotations:
                emit_store(it.body, made, value.annotations["init"], (const(0, INT32),), node)
        case Output(shape, dtype):
            scope.define(name, _output(it, name, shape, dtype, node))
        case n.Var(name=""):
            scope.define(name, symbol(it.body, name, value, it.reader.text.span(node)))
        case n.IntImm(number, dtype=dtype) if dtype == INT32:
            scope.define(name, number)
        case ThreadVar():
            plain_bind(it.body, name, value, node)
        case LoopForm(ranges=((low, length),)):
            _around_the_rest(it, name, value, low, length, node)
        case n.Expr() if it.staged and it.launch is not None and not isinstance(value, n.Var):
            scope.define(name, let(it, name, value, node))
        case Form():
            it.fail(node, "TS21", f"T.{value.name} has no value.")
        case _:
            scope.define(name, value)


def _around_the_rest(it: Context, name: str, form: LoopForm, low: n.Expr, length: n.Expr, node: Located) -> None:
    """`tx = T.thread_binding(0, 128, thread="threadIdx.x")`: a loop around all that follows in the suite."""
    span = it.reader.text.span(node)
    var = n.Var(name, n.PrimType(length.dtype), span)
    it.reader.scope.define(name, var)
    thread = None
    if form.kind is ForKind.THREAD_BINDING:
        thread = n.IterVar(None, var, n.IterKind.THREAD_INDEX, form.thread, span)
    it.body.wrap(lambda rest: n.For(var, low, length, form.kind, rest, thread, form.annotations, None, span), node)


def _output(it: Context, name: str, shape: tuple[n.Expr, ...], dtype: Any, node: Located) -> n.Buffer:
    """A parameter behind those of the signature."""
    span = it.reader.text.span(node)
    spec = BufferSpec(shape, dtype, compact(shape), None, "global", 0, 0, (), "", None, purpose="param", span=span)
    var = n.Var(name, n.PrimType(HANDLE), span)
    it.body.params[var] = None
    it.body.buffers[var] = made = make_buffer(it.body, spec, name, span)
    it.outputs.append(made)
    return made


def augmented(it: Context, node: ast.AugAssign) -> None:
    added = it.reader.value(node.value)
    if isinstance(node.target, ast.Subscript):
        place = it.reader.value(node.target.value)
        if isinstance(place, list | dict):
            key = _key(it, node.target)
            with _members(it, node.target):
                current: Value = cast("Any", place)[key]
        else:
            current = it.reader.value(node.target)
        _store(it, node.target, _changed(it, current, added, node), node)
    elif isinstance(node.target, ast.Name):
        current = it.reader.value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        bind(it, node.target.id, _changed(it, current, added, node), node.target)
    else:
        it.fail(node.target, "TS07", "this cannot be assigned to.")


def _changed(it: Context, current: Value, added: Value, node: ast.AugAssign) -> Value:
    """`current op= added`; a sequence is changed in its place, whatever other names it has."""
    if isinstance(current, list) and isinstance(node.op, ast.Add):
        current += items(it, added, node.value)
        return current
    merged = isinstance(current, set) or isinstance(node.op, ast.BitOr)
    if isinstance(current, dict | set) and type(added) is type(current) and merged and type(node.op) in _IN_PLACE:
        return _IN_PLACE[type(node.op)](current, added)
    found = combined(it, node.op, current, added, node)
    if isinstance(current, list | dict | set) and isinstance(found, Unknown):
        it.needs(node, found)
    if not (isinstance(current, list) and isinstance(found, list)):
        return found
    current[:] = found
    return current


_IN_PLACE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.BitOr: operator.ior, ast.BitAnd: operator.iand, ast.BitXor: operator.ixor, ast.Sub: operator.isub,
}  # fmt: skip


def annotated(it: Context, node: ast.AnnAssign) -> None:
    """`A: T.Tensor((M, K), dtype)` states a parameter; an annotation beside a value says nothing."""
    if node.value is not None:
        _assigned(it, node.target, it.reader.value(node.value), node)
        return
    if not isinstance(node.target, ast.Name):
        it.fail(node.target, "TS07", "a name stands before an annotation.")
    name = node.target.id
    found = it.reader.value(node.annotation)
    var = it.waiting.pop(name, None)
    if not isinstance(found, BufferSpec) or var is None:
        return
    span = it.reader.text.span(node.target)
    it.body.params[var] = None
    it.body.buffers[var] = make_buffer(it.body, replace(found, purpose="param"), name, span)
    it.reader.scope.define(name, it.body.buffers[var])


# Control


def for_(it: Context, node: ast.For) -> None:
    form = it.reader.value(node.iter)
    if isinstance(form, range) and it.staged:
        ends = (form.start, form.stop, form.stop - form.start, form.step)
        kind = INT32 if all(INT32.range[0] <= end <= INT32.range[1] for end in ends) else INT64
        step = const(form.step, kind) if form.step != 1 else None
        form = LoopForm(((const(form.start, kind), const(form.stop - form.start, kind)),), ForKind.SERIAL, step=step)
    match form:
        case LoopForm(step=n.Expr() as step) if not (isinstance(step, n.IntImm) and step.value == 1):
            _stepped(it, node, form)
        case LoopForm():
            if node.orelse:
                it.fail(node.orelse[0], "TS07", "loops of TileLang have no 'else'.")
            with it.looping():
                loop(it.body, node, replace(form, step=None))
        case PersistentLoop():
            with it.looping():
                persistent(it, node, form)
        case n.Expr() | n.Buffer():
            it.fail(
                node.iter, "TS21", f"a loop runs over T.serial, T.Parallel, range, ..., and this is {describe(form)}."
            )
        case _:
            _unrolled(it, node, form)


def _unrolled(it: Context, node: ast.For, form: Value) -> None:
    """A loop over constants: its statements once for each."""
    for item in items(it, form, node.iter):
        _assigned(it, node.target, item, ast.copy_location(ast.Assign([node.target], node.iter), node))
        if not _round(it, node):
            return
    for statement in node.orelse:
        it.body.statement(statement)


def _round(it: Context, node: ast.For | ast.While) -> bool:
    """The statements of a loop over constants, once; whether it goes on."""
    try:
        with it.looping(len(it.body.bodies) + 1):
            for statement in node.body:
                it.body.statement(statement)
    except _Leave as leave:
        return not leave.stops
    return True


def _stepped(it: Context, node: ast.For, form: LoopForm) -> None:
    """`range(0, 10, 2)`: a loop over the number of the step, by which the variable is computed."""
    ((low, length),) = form.ranges
    step = cast("n.Expr", form.step)
    span = it.reader.text.span(node.iter)
    if isinstance(step, n.IntImm) and step.value == 0:
        it.fail(node.iter, "TS21", "a step of zero never ends.")
    down = isinstance(step, n.IntImm) and step.value < 0
    size, by = (binary("-", 0, length, span), -cast("n.IntImm", step).value) if down else (length, step)
    count = binary("//", binary("-", binary("+", size, by, span), 1, span), by, span)
    if not isinstance(node.target, ast.Name):
        it.fail(node.target, "TS24", "there is 1 value for several names.")
    name = node.target.id

    def before(var: n.Var) -> None:
        value = binary("+", low, binary("*", var, step, span), span)
        it.reader.scope.define(name, let(it, name, it.reader.as_expr(value, node), node.target))

    counted = LoopForm(((const(0, INT32), it.reader.as_expr(count, node)),), form.kind, "", form.annotations)
    with it.looping():
        loop(it.body, node, counted, before)


def while_(it: Context, node: ast.While) -> None:
    for _ in range(10_000):
        held = truth(it, it.reader.value(node.test), node.test)
        if isinstance(held, n.Expr):
            span = it.reader.text.span(node)
            with it.looping():
                it.body.emit(n.While(held, it.body.suite(node.body, span), span))
            return
        if not held:
            return
        if not _round(it, node):
            return
    it.fail(node.test, "TS04", "this loop over constants runs more than 10,000 times.")


def leave(it: Context, node: ast.Break | ast.Continue) -> None:
    if it.unrolling:
        if it.unrolling != len(it.body.bodies) + 1:
            it.fail(node, "TS36", "what a kernel computes does not end a loop over constants.", "loop over T.serial.")
        raise _Leave(isinstance(node, ast.Break))
    span = it.reader.text.span(node)
    it.body.emit(n.Break(span) if isinstance(node, ast.Break) else n.Continue(span))


def if_(it: Context, node: ast.If) -> None:
    """A condition of the kernel makes a branch; one of constants selects."""
    held = truth(it, it.reader.value(node.test), node.test)
    if isinstance(held, bool):
        for statement in node.body if held else node.orelse:
            it.body.statement(statement)
        return
    span = it.reader.text.span(node)
    then = it.body.suite(node.body, span)
    other = it.body.suite(node.orelse, _over(it, node.orelse)) if node.orelse else None
    it.body.emit(n.IfThenElse(held, then, other, span))


def _over(it: Context, statements: list[ast.stmt]) -> Span:
    return it.reader.text.span(statements[0]).to(it.reader.text.span(statements[-1]))


def with_(it: Context, node: ast.With) -> None:
    item, rest = node.items[0], node.items[1:]
    form = it.reader.value(item.context_expr)
    match form:
        case Launch():
            kernel(it, node, item, rest, form)
        case Warps(condition):
            span = it.reader.text.span(node)
            inside = it.body.suite(node.body, span)
            marked = n.AttrStmt(const(0, INT32), "warp_specialize", const(1, INT32), inside, span)
            it.body.emit(n.IfThenElse(condition, marked, None, span))
        case Form("hint"):
            it.body.emit(it.body.suite(node.body, it.reader.text.span(node), scoped=False))
        case Unknown():
            it.needs(item.context_expr, form)
        case _:
            plain_with(it.body, node)


def assert_(it: Context, node: ast.Assert) -> None:
    """An assertion about constants must hold; one about what only Python knows is not asked."""
    value = it.reader.value(node.test)
    if unknown(value):
        return
    held = truth(it, value, node.test)
    if isinstance(held, n.Expr):
        message = "Assertion failed" if node.msg is None else it.reader.value(node.msg)
        it.body.emit(it.body.assertion(held, message, node))
    elif not held:
        said = None if node.msg is None else it.reader.value(node.msg)
        more = f": {said}" if isinstance(said, str) else ""
        it.fail(node.test, "TS25", f"a static assertion fails{more}.")


def raise_(it: Context, node: ast.Raise) -> None:
    said = "" if node.exc is None else f": {ast.unparse(node.exc)}"
    it.fail(node, "TS25", f"the text refuses these constants{said}.", "give other values by names=.")


def return_(it: Context, node: ast.Return) -> None:
    raise Returned(None if node.value is None else it.reader.value(node.value))


def expression(it: Context, node: ast.Expr) -> None:
    value = it.reader.value(node.value)
    match value:
        case Unknown() if it.staged:
            it.needs(node.value, value)
        case Unknown() | Launch() | Function() | n.Buffer() | n.PrimFunc():
            pass
        case Form("hint"):
            pass
        case _ if is_host(value) or callable(value):
            pass
        case _:
            plain_expression(it.body, node)


def nested(it: Context, node: ast.FunctionDef) -> None:
    define_function(it, node)


def class_(it: Context, node: ast.ClassDef) -> None:
    it.reader.scope.define(node.name, Unknown(f"the class {node.name}"))


def try_(it: Context, node: ast.Try) -> None:
    """Statements that come to their end; where one does not, which handler runs is Python's to say.

    What follows from whether a statement raises that only Python can run has no value that is known.
    """
    before, held = len(it.body.problems), set(it.reader.scope.frames[-1])
    caught = [h for h in node.handlers if not isinstance(h.body[-1], ast.Raise)]
    doubt: ast.stmt | None = None
    left: list[ast.stmt] = []
    for k, statement in enumerate(node.body):
        if doubt is None and caught and _may_raise(it, statement):
            doubt, left = statement, [*node.body[k:], *node.orelse]
            _goes_on(it, [*left, *caught], _by_whether(it, doubt))
        it.body.statement(statement)
    for statement in node.orelse:
        it.body.statement(statement)
    if doubt is not None:
        _in_doubt(it, left, caught, held, _by_whether(it, doubt))
    for statement in node.finalbody:
        it.body.statement(statement)
    problems = it.body.problems[before:]
    if node.handlers and any(problem.code == "TS25" for problem in problems):
        del it.body.problems[before:]
        it.needs(node.handlers[0], Unknown("this follows what is raised before"))


def _by_whether(it: Context, node: ast.stmt) -> Unknown:
    return Unknown(f"what follows from whether line {it.reader.text.span(node).line} raises")


def _may_raise(it: Context, node: ast.stmt) -> bool:
    """True for an import of what need not be installed, and for a call of what only Python knows."""
    pending: list[ast.AST] = [node]
    while pending:
        match part := pending.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Import(aliases) if any(not _is_installed(alias.name) for alias in aliases):
                return True
            case ast.ImportFrom(module, level=level) if level or not _is_installed(module or ""):
                return True
            case ast.Call(function) if _is_unknown(it, function):
                return True
            case _:
                pending += ast.iter_child_nodes(part)
    return False


def _is_installed(module: str) -> bool:
    library = module.partition(".")[0]
    return library in _LIBRARIES or library in sys.stdlib_module_names


def _is_unknown(it: Context, function: ast.expr) -> bool:
    root: ast.expr = function
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    match it.reader.scope.find(root.id):
        case Unknown():
            return True
        case Name("host"):
            called = it.reader.value(function)
            return isinstance(called, Name) and called.dialect == "host" and constant_function(called.path) is None
        case _:
            return False


def _goes_on(it: Context, nodes: Iterable[ast.AST], value: Unknown, loops: bool = False) -> None:
    """Refuse statements that may run or not, and leave a function, or a loop around."""
    for part in nodes:
        match part:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                pass
            case ast.Return():
                it.needs(part, value)
            case ast.Break() | ast.Continue() if not loops:
                it.needs(part, value)
            case _:
                _goes_on(it, ast.iter_child_nodes(part), value, loops or isinstance(part, ast.For | ast.While))


def _in_doubt(
    it: Context, left: Sequence[ast.stmt], caught: Sequence[ast.ExceptHandler], held: set[str], value: Unknown
) -> None:
    """Names that were bound otherwise if a statement raised, and what was changed, have no value that is known."""
    scope, names, changed = it.reader.scope, set[str](), set[str]()
    for part in (*left, *caught):
        bound, altered = effects(part)
        names |= bound if isinstance(part, ast.ExceptHandler) else bound & held
        changed |= altered
    values = [scope.find(name) for name in changed]
    places = {id(v) for v in values if type(v) in (list, dict, set)}
    for frame in scope.frames:
        frame |= {name: value for name, kept in frame.items() if id(kept) in places}
    scope.frames[-1].update(dict.fromkeys(names, value))


def effects(node: ast.AST) -> tuple[set[str], set[str]]:
    """The names that a statement may bind, and those of what it may change: by a store, by a call of or with it."""
    bound, changed = set[str](), set[str]()
    parts = [node]
    for part in parts:
        match part:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(part.name)
                continue
            case ast.Name(name, ast.Store() | ast.Del()):
                bound.add(name)
            case ast.Import() | ast.ImportFrom():
                bound.update(alias.asname or alias.name.partition(".")[0] for alias in part.names)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case ast.AugAssign(ast.Name(name)):
                changed.add(name)
            case ast.Subscript(value, ctx=ast.Store() | ast.Del()):
                changed.update(leaf.id for leaf in ast.walk(value) if isinstance(leaf, ast.Name))
            case ast.Call(ast.Name(name)) if name in NAMES:
                pass  # functions of Python change nothing
            case ast.Call(function, args, keywords):
                owners = [function.value] if isinstance(function, ast.Attribute) else []
                leaves = (*owners, *args, *(keyword.value for keyword in keywords))
                changed.update(leaf.id for leaf in leaves if isinstance(leaf, ast.Name))
            case _:
                pass
        # the names of a comprehension and of a lambda are its own
        parts += [p for p in ast.iter_child_nodes(part) if not isinstance(p, ast.comprehension | ast.arguments)]
    return bound, changed


def delete(it: Context, node: ast.Delete) -> None:
    for target in node.targets:
        place = it.reader.value(target.value) if isinstance(target, ast.Subscript) else None
        if isinstance(target, ast.Subscript) and isinstance(place, list | dict):
            key = _key(it, target)
            with _members(it, target):
                del cast("Any", place)[key]
        elif isinstance(target, ast.Name) and not it.staged:
            it.reader.scope.frames[-1].pop(target.id, None)


def global_(it: Context, node: ast.Global | ast.Nonlocal) -> None:
    """Functions bind names of their own only."""
    if it.depth:
        it.fail(node, "TS07", "names around a function are read in it, not set.", "return the value.")


def nothing(it: Context, node: ast.stmt) -> None:
    pass


def imported(it: Context, node: ast.Import | ast.ImportFrom) -> None:
    """An import brings no code in: it only says what a name stands for."""
    for alias in node.names:
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        full = f"{module}.{alias.name}" if module else alias.name
        path = full if alias.asname or module else alias.name.split(".")[0]
        name = alias.asname or alias.name.split(".")[0]
        if full.endswith(("tilelang.language", "tl.language", "tvm.tir", "tvm.tirx")) and (alias.asname or module):
            it.reader.scope.define(name, Name("T", ""))
        elif full.startswith("tilelang.language."):
            it.reader.scope.define(name, Name("T", full.removeprefix("tilelang.language.")))
        elif module and path.partition(".")[0] not in _LIBRARIES:
            it.reader.scope.define(name, Unknown(f"{alias.name!r} of {module}"))
        elif name != "*":
            it.reader.scope.define(name, Name("host", path))


_LIBRARIES = frozenset((
    "tilelang", "tvm", "math", "torch", "numpy", "typing", "functools", "itertools", "collections", "dataclasses",
    "enum",
))  # fmt: skip
"""Libraries of which a text may use what is known here; others are modules beside it, which are not read."""

RULES: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Assign: assign, ast.AugAssign: augmented, ast.AnnAssign: annotated, ast.For: for_, ast.While: while_,
    ast.Break: leave, ast.Continue: leave, ast.If: if_, ast.With: with_, ast.Assert: assert_, ast.Raise: raise_,
    ast.Return: return_, ast.Expr: expression, ast.FunctionDef: nested, ast.ClassDef: class_, ast.Try: try_,
    ast.Import: imported, ast.ImportFrom: imported, ast.Pass: nothing, ast.Global: global_, ast.Nonlocal: global_,
    ast.Delete: delete,
}  # fmt: skip
