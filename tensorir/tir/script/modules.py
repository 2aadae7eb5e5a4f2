"""Modules, functions and fragments of TVMScript: headers, decorators, signatures, who may call whom."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace

from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source, did_you_mean, refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import HANDLE, VOID, DataType
from tensorir.tir.script.body import FunctionBody
from tensorir.tir.script.evaluate import DIALECTS, Evaluator
from tensorir.tir.script.forms import make_buffer
from tensorir.tir.script.rules import RULES
from tensorir.tir.script.statements import RULES as STATEMENTS
from tensorir.tir.script.syntax import Failure, Text, parse_expression
from tensorir.tir.script.values import (
    Broken,
    BufferSpec,
    DataTypeName,
    Metadata,
    ModuleRef,
    Name,
    Scope,
    TypeVariable,
    Value,
    describe,
)

read_graph_function = ExtensionPoint(
    "a function of Relax from its syntax tree", "tensorir.relax.parse", "read_function"
)

# Modules and functions of TVMScript: headers, decorators, signatures, and who may call whom.

_NEW = re.compile(r"\bs_tir\s*=\s*True|\bT\.sblock|\bT\.let\b(?!\()|\btirx\b")
_OLD = re.compile(
    r"tvm\.script(?:\.parser)?(?:\.| import [^\n]*\b)tir\b"
    r"|\b(?:T|tir)\.(?:block|block_attr|LetStmt|allocate|allocate_const|preflattened_buffer|buffer_decl)\b"
)


_FRAGMENT = "put it into a function, or read it as a fragment, with ti.tir.parse_fragment."


def read_module(
    source: Source, metadata: Mapping[str, object] | None = None, constants: Mapping[str, object] | None = None
) -> n.IRModule:
    """The module that the text writes: a class under `@I.ir_module`, or functions that stand alone."""
    return module_of(Text(source), metadata, constants)


def module_of(
    text: Text,
    metadata: Mapping[str, object] | None = None,
    constants: Mapping[str, object] | None = None,
    fragment: bool = False,
) -> n.IRModule:
    """The module of a tree; that of a fragment may be empty."""
    written = text.source.text
    old = _OLD.search(written) is not None and _NEW.search(written) is None
    return _ModuleReader(text, old, constants or {}).module(metadata, fragment)


class _ModuleReader:
    def __init__(self, text: Text, old: bool, constants: Mapping[str, object]) -> None:
        self.text = text
        self.old = old
        self.reader = Evaluator(text, Scope({**constants, "metadata": Metadata(), "cls": ModuleRef()}), old, RULES)
        self.problems: list[Diagnostic] = []
        self.functions: dict[str, n.PrimFunc | object] = {}
        self.attrs: dict[str, n.Attribute] = {}
        self.infos: dict[str, n.Attribute] = {}
        self.name = ""

    def module(self, metadata: Mapping[str, object] | None, fragment: bool) -> n.IRModule:
        self._suite(self.text.tree.body, top=True)
        if self.problems:
            raise DiagnosticError(self.problems)
        if not self.functions and not self.name and not fragment:
            whole = self.text.source
            from tensorir.runtime.errors import Span

            raise refuse(
                "TS30",
                "the text holds no function and no module.",
                "a function stands under @T.prim_func or @R.function, a module under @I.ir_module; imports"
                " alone are a fragment, which ti.tir.parse_fragment reads.",
                at=Span(whole, 0, min(1, len(whole.text))),
            )
        functions: dict[str, n.PrimFunc] = dict(self.functions)  # type: ignore[arg-type]
        return n.IRModule(functions, self.attrs, self.infos, metadata, self.name or "Module")

    def _suite(self, statements: list[ast.stmt], top: bool) -> None:
        definitions = [s for s in statements if isinstance(s, ast.FunctionDef)]
        if not top:
            for definition in definitions:
                self._declare(definition)
        for statement in statements:
            depth = len(self.reader.scope.frames)
            try:
                self._statement(statement, top)
            except DiagnosticError as error:
                self.reader.reset()
                del self.reader.scope.frames[depth:]
                self.problems.extend(error.diagnostics)
                if len(self.problems) > 50:
                    raise DiagnosticError(self.problems) from None
                if isinstance(statement, ast.Assign):
                    for target in statement.targets:
                        if isinstance(target, ast.Name):
                            self.reader.scope.define(target.id, Broken())

    def _statement(self, node: ast.stmt, top: bool) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    self._imported("", alias)
            case ast.ImportFrom(names=names):
                for alias in names:
                    self._imported(node.module or "", alias)
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Expr(value=ast.Call() as call):
                self._directive(call)
            case ast.Assign(targets=[ast.Name(name)]):
                if name != "metadata":
                    value = self.reader.value(node.value)
                    self.reader.scope.define(name, TypeVariable(name) if isinstance(value, TypeVariable) else value)
            case ast.ClassDef() if top:
                self._class(node)
            case ast.FunctionDef():
                self._function(node)
            case ast.Pass():
                pass
            case _:
                self.text.fail(node, "TS07", "only functions, modules and constants stand at this level.", _FRAGMENT)

    def _imported(self, module: str, alias: ast.alias) -> None:
        """An import brings no code in: it only says which dialect a name stands for."""
        name, last = alias.asname or alias.name.split(".")[0], alias.name.split(".")[-1]
        if alias.name == "*":
            self.text.fail(alias, "TS07", "'import *' is no part of TVMScript.")
        if last in DIALECTS and ("tvm" in module or alias.name.startswith("tvm")):
            dialect = DIALECTS[last] if (alias.asname or module) else "tvm"
            self.reader.scope.define(name, Name(dialect, ""))
        elif alias.name == "TypeVar":
            self.reader.scope.define(name, Name("python", "TypeVar"))
        elif module.startswith("tilelang") or alias.name.startswith("tilelang"):
            self.reader.scope.define(name, Name("T" if last == "language" else "tvm", ""))
        elif "prim_func" in (last, alias.name) or last in ("ir_module",):
            self.reader.scope.define(name, Name("I" if last == "ir_module" else "T", last))

    def _directive(self, call: ast.Call) -> None:
        """`I.module_attrs({...})`, `I.module_global_infos({...})`"""
        target = self.reader.value(call.func)
        if isinstance(target, Name) and target.dialect == "I" and len(call.args) == 1:
            if target.path == "module_attrs":
                value = self.reader.attribute(self.reader.value(call.args[0]), call)
                if isinstance(value, Mapping):
                    self.attrs.update(value)
                    return
            if target.path == "module_global_infos":
                infos = call.args[0]
                if isinstance(infos, ast.Dict) and all(infos.keys):
                    entries = sorted(
                        zip(infos.keys, infos.values, strict=True), key=lambda e: ast.unparse(e[0] or e[1])
                    )
                    infos = ast.Dict([key for key, _ in entries], [value for _, value in entries])
                self.infos["global_infos"] = n.Opaque(ast.unparse(infos), self.text.span(call))
                return
        self.text.fail(call, "TS07", "this call cannot stand here.")

    def _class(self, node: ast.ClassDef) -> None:
        decorators = [self._decorator(d) for d in node.decorator_list]
        if [d[0] for d in decorators] != [("I", "ir_module")]:
            self.text.fail(node, "TS31", f"the class {node.name!r} is no module.", help="write @I.ir_module above it.")
        if node.bases or node.keywords:
            self.text.fail(node, "TS31", "a module has no bases.")
        if self.name:
            self.text.fail(node, "TS31", "a text holds one module.")
        self.name = node.name
        self.reader.scope.define(node.name, ModuleRef())
        self._suite(node.body, top=False)

    def _decorator(self, node: ast.expr) -> tuple[tuple[str, str], dict[str, Value]]:
        """The dialect and name of a decorator, and its keywords."""
        keywords: dict[str, Value] = {}
        target = node
        if isinstance(node, ast.Call):
            target = node.func
            if node.args:
                self.text.fail(node, "TS31", "a decorator has keywords only.")
            for keyword in node.keywords:
                if keyword.arg is None or not isinstance(keyword.value, ast.Constant):
                    self.text.fail(keyword.value, "TS31", "a keyword of a decorator is a constant.")
                keywords[keyword.arg] = keyword.value.value
        if not isinstance(target, ast.Attribute | ast.Name):
            self.text.fail(node, "TS31", "a decorator is a name such as T.prim_func.")
        found = self.reader.value(target)
        if found == Name("tvm", "prim_func"):
            found = Name("T", "prim_func")
        if not isinstance(found, Name):
            self.text.fail(node, "TS31", f"{describe(found)} is no decorator.")
        return (found.dialect, found.path), keywords

    def _kind(self, node: ast.FunctionDef) -> tuple[tuple[str, str], dict[str, Value]]:
        if len(node.decorator_list) != 1:
            self.text.fail(
                node,
                "TS31",
                f"the function {node.name!r} has {len(node.decorator_list) or 'no'} decorators.",
                help="write one: @T.prim_func or @R.function.",
            )
        kind, keywords = self._decorator(node.decorator_list[0])
        kinds = {
            ("T", "prim_func"): ("private", "s_tir", "check_well_formed", "persistent"),
            ("R", "function"): ("private", "pure", "check_well_formed"),
        }
        if kind not in kinds:
            hint = did_you_mean(".".join(kind), [".".join(k) for k in kinds])
            self.text.fail(node.decorator_list[0], "TS31", f"{'.'.join(kind)} marks no function.", help=hint)
        for key, value in keywords.items():
            if key not in kinds[kind] or not isinstance(value, bool):
                hint = did_you_mean(key, kinds[kind])
                self.text.fail(
                    node.decorator_list[0], "TS31", f"{'.'.join(kind)} has no use for {key!r} here.", help=hint
                )
        return kind, keywords

    def _declare(self, node: ast.FunctionDef) -> None:
        """The type of the function's calls, as far as its signature says."""
        dtype = VOID
        match node.returns:
            case ast.Attribute(value=ast.Name("T" | "tir" | "tirx"), attr=name):
                try:
                    dtype = DataType.parse(name)
                except ValueError:
                    dtype = VOID
            case _:
                pass
        self.reader.results[node.name] = dtype

    def _function(self, node: ast.FunctionDef) -> None:
        kind, keywords = self._kind(node)
        if node.name in self.functions:
            self.text.fail(node, "TS31", f"there are two functions {node.name!r}.")
        self._plain_signature(node)
        if kind == ("R", "function"):
            function, problems = read_graph_function(self.reader, node, keywords)
            self.problems.extend(problems)
            self.functions[node.name] = function
            return
        self.reader.scope.push()
        self.reader.scope.define(node.name, n.GlobalVar(node.name))
        if not self.old:
            # Sizes of the module get a variable of their own in every function.
            for name in self.reader.scope.names():
                if isinstance(found := self.reader.scope.find(name), TypeVariable):
                    var = n.Var(found.name, n.PrimType(DataType("int", 64)))
                    self.reader.scope.define(name, var)
        try:
            self.functions[node.name] = self._prim_func(node, keywords)
        finally:
            self.reader.scope.pop()

    def _plain_signature(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        odd = arguments.vararg or arguments.kwarg or next(iter(arguments.kwonlyargs + arguments.posonlyargs), None)
        if odd is not None:
            self.text.fail(odd, "TS32", "parameters of TVMScript are plain.")
        if arguments.defaults:
            self.text.fail(arguments.defaults[0], "TS32", "parameters of TVMScript have no defaults.")
        names = [argument.arg for argument in arguments.args]
        for position, argument in enumerate(arguments.args):
            if argument.arg in names[:position]:
                self.text.fail(argument, "TS32", f"there are two parameters {argument.arg!r}.")

    def _prim_func(self, node: ast.FunctionDef, keywords: dict[str, Value]) -> n.PrimFunc:
        body = FunctionBody(self.reader, STATEMENTS)
        reader = self.reader
        reader.loops.clear()
        reader.signature = _symbols_of_body(node) | _scalar_parameters(node)
        for size, place in _quoted_sizes(node):
            reader.quoted(size, place)
        params = [self._param(argument, body) for argument in node.args.args]
        for name, value in reader.scope.frames[-1].items():
            if isinstance(value, n.Var) and value not in body.params:
                body.symbols[name] = value
        if node.returns is not None:
            returned = reader.value(node.returns)
            body.ret_type = n.TupleType() if returned is None else reader.type(returned, node.returns)
        span = self.text.span(node)
        statement = body.function(node.body, span)
        self.problems.extend(body.problems)
        attrs = dict(body.attrs)
        if keywords.get("private") is not True:
            attrs.setdefault("global_symbol", node.name)
        ret_type = None if body.ret_type == n.TupleType() else body.ret_type
        s_tir = keywords.get("s_tir", self.old) is True
        return n.PrimFunc(node.name, tuple(params), body.buffers, statement, ret_type, attrs, s_tir, None, span)

    def _param(self, argument: ast.arg, body: FunctionBody) -> n.Var:
        reader, span = self.reader, self.text.span(argument)
        if argument.annotation is None:
            self.text.fail(argument, "TS32", f"the parameter {argument.arg!r} has no type.")
        name = argument.arg
        value = reader.value(argument.annotation)
        match value:
            case BufferSpec():
                var = n.Var(name, n.PrimType(HANDLE), span)
                body.params[var] = None
                body.buffers[var] = make_buffer(body, replace(value, purpose="param"), name, span)
                reader.scope.define(name, body.buffers[var])
                return var
            case n.Var(name=""):
                var = n.Var(name, value.type, span)
            case Name("T", "handle"):
                var = n.Var(name, n.PrimType(HANDLE), span)
            case DataTypeName(dtype):
                known = reader.scope.frames[-1].get(name)
                if isinstance(known, n.Var) and known.dtype == dtype:
                    body.params[known] = None
                    return known
                var = n.Var(name, n.PrimType(dtype), span)
            case str():
                var = n.Var(name, n.PrimType(reader.dtype(value, argument.annotation)), span)
            case Broken():
                raise Failure(())
            case _:
                self.text.fail(argument.annotation, "TS32", f"{describe(value)} is no type of a parameter.")
        body.params[var] = None
        reader.scope.define(name, var)
        return var


def _scalar_parameters(node: ast.FunctionDef) -> dict[str, DataType]:
    found: dict[str, DataType] = {}
    for argument in node.args.args:
        if isinstance(argument.annotation, ast.Attribute):
            try:
                found[argument.arg] = DataType.parse(argument.annotation.attr)
            except ValueError:
                continue
    return found


def _symbols_of_body(node: ast.FunctionDef) -> dict[str, DataType]:
    """The types of `n = T.int32()`, by which TVM 0.27 says what the sizes of the signature are."""
    found: dict[str, DataType] = {}
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Call(ast.Attribute(ast.Name("T"), kind), [], [])):
                try:
                    found[name] = DataType.parse(kind)
                except ValueError:
                    continue
            case _:
                pass
    return found


def _quoted_sizes(node: ast.FunctionDef) -> list[tuple[str, ast.Constant]]:
    """The sizes in quotes of a signature: `T.Buffer(("n", n))` uses beside it what it binds in quotes."""
    found: list[tuple[str, ast.Constant]] = []
    for argument in node.args.args:
        if isinstance(call := argument.annotation, ast.Call):
            strides = [keyword.value for keyword in call.keywords if keyword.arg in ("shape", "strides")]
            for sizes in (*call.args[:1], *strides):
                if isinstance(sizes, ast.Tuple | ast.List):
                    constants = [size for size in sizes.elts if isinstance(size, ast.Constant)]
                    found += [(size.value, size) for size in constants if isinstance(size.value, str) and size.value]
    return found


# Fragments of TVMScript: statements without the function around them, or imports alone.


def read_fragment(source: Source, around: Mapping[str, str]) -> n.IRModule:
    """The module whose only function has the statements for its body, and `around` for its parameters."""
    text = Text(source)
    outside = [s for s in text.tree.body if isinstance(s, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)]
    inside = [s for s in text.tree.body if s not in outside]
    if inside:
        text.tree.body = [*outside, _function(text, inside, around)]
    try:
        return module_of(text, fragment=True)
    except DiagnosticError as error:
        help = "state what it is: parse_fragment(text, {'A': 'T.Buffer((8,), \"float32\")'})."
        stated = [replace(d, help=help) if d.code == "TS10" else d for d in error.diagnostics]
        raise DiagnosticError(stated) from None


def _function(text: Text, body: list[ast.stmt], around: Mapping[str, str]) -> ast.FunctionDef:
    """The statements as a function of TIR; of Relax, where they or their parameters use its dialect."""
    span = text.span(body[0]).to(text.span(body[-1]))
    types = {name: parse_expression(kind, Source(text.source.name, kind), span) for name, kind in around.items()}
    relax = any(isinstance(part, ast.Name) and part.id == "R" for s in (*body, *types.values()) for part in ast.walk(s))
    mark = "R.function(private=True)" if relax else "T.prim_func(private=True, s_tir=True)"
    function = ast.FunctionDef(
        name="main",
        args=ast.arguments([], [ast.arg(name, kind) for name, kind in types.items()], None, [], [], None, []),
        body=body,
        decorator_list=[ast.parse(mark, mode="eval").body],
    )
    placed = [function, *ast.walk(function.args), *ast.walk(function.decorator_list[0])]
    for node in placed:
        if not isinstance(node, ast.arguments | ast.expr_context):
            _place_in_fragment(node, body)
    return function


def _place_in_fragment(node: ast.AST, body: list[ast.stmt]) -> None:
    """The place of a fault in a fragment: text that is not written stands where the statements are."""
    first, last = body[0], body[-1]
    for name, value in (
        ("lineno", first.lineno),
        ("col_offset", first.col_offset),
        ("end_lineno", last.end_lineno),
        ("end_col_offset", last.end_col_offset),
    ):
        setattr(node, name, value)
