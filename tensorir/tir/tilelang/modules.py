"""A text of TileLang: its statements one after the other, then the kernels that its functions are."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source, Span, did_you_mean, refuse
from tensorir.tir import nodes as n
from tensorir.tir.script.body import FunctionBody
from tensorir.tir.script.calls import Call
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.rules import RULES
from tensorir.tir.script.statements import RULES as STATEMENTS
from tensorir.tir.script.syntax import Text
from tensorir.tir.script.values import Broken, Language, Scope, Value
from tensorir.tir.tilelang import expressions, functions, kernels, memory, statements, tiles
from tensorir.tir.tilelang.context import Context, Function, Returned, Unknown
from tensorir.tir.tilelang.functions import is_kernel, kernels_of
from tensorir.tir.tilelang.statements import effects

_SIGNS = re.compile(r"^\s*with\s+\w+\.(?:Cluster)?Kernel\s*\(|^\s*(?:import|from)\s+tilelang\b", re.MULTILINE)


def is_tilelang(text: str) -> bool:
    """True if a text is TileLang's source, by what only that has; its printed form is TVMScript."""
    return _SIGNS.search(text) is not None


def read_tilelang(source: Source, names: Mapping[str, object]) -> n.IRModule:
    """The module of the kernels of a text, for the values that are given for names.

    A function that makes kernels is followed with these values, and the defaults that it states. Raises
    DiagnosticError: TS35 for what only Python could tell, TS37 where a constant has no value, TS38 for a name that
    nothing asks for.
    """
    it = _context(Text(source, python=True), names)
    wanting = _read(it, it.reader.text.tree.body)
    problems: list[Diagnostic] = []
    found: list[tuple[str, n.PrimFunc]] = []
    for function in _functions(it.reader.scope.frames[-1], names):
        if function.kind not in ("kernel", "factory"):
            continue
        try:
            made = kernels_of(it, function, function.node)
        except DiagnosticError as error:
            made = [kernel for of, kernel in it.made if of is function]
            if not made:
                if [d.code for d in error.diagnostics] == ["TS37"]:
                    wanting[function.name] = error.diagnostics[0]
                else:
                    problems += error.diagnostics
        found += [(function.name, kernel) for kernel in made]
    if problems or (wanting and not found):
        raise DiagnosticError(problems or list(wanting.values()))
    _all_asked_for(it, source)
    if not found:
        whole = Span(source, 0, min(1, len(source.text)))
        help = "a kernel stands under @T.prim_func, or under @tilelang.jit around a T.Kernel."
        raise refuse("TS30", "the text holds no kernel.", help, at=whole)
    return n.IRModule(_named(found), wanting=wanting)


def _functions(defined: Mapping[str, Value], names: Mapping[str, object]) -> list[Function]:
    """The functions of a text in order, and its further names for them that constants are given for.

    Where constants are given for such names alone, the function is wanted under these alone.
    """
    asked = {name.partition(".")[0] for name in names if "." in name}
    found = {name: value for name, value in defined.items() if isinstance(value, Function)}
    aliases = {name: f for name, f in found.items() if name != f.name and name in asked}
    only = {f for f in aliases.values() if f.name not in asked}
    plain = [f for f in dict.fromkeys(found.values()) if f not in only]
    return [*plain, *(replace(f, alias=name) for name, f in aliases.items())]


def _context(text: Text, names: Mapping[str, object]) -> Context:
    """A reader whose rules know what is read."""
    makers: dict[str, Callable[..., Value]] = {}
    of_expressions: dict[type[ast.expr], Callable[..., Value]] = {}
    of_statements: dict[type[ast.stmt], Callable[..., None]] = {}
    language = Language("TileLang", of_expressions, of_statements, makers)
    reader = Evaluator(text, Scope({}), False, RULES, language)
    it = Context(reader, FunctionBody(reader, STATEMENTS), names)

    def about(rule: Callable[..., Value]) -> Callable[..., Value]:
        def read(_: Evaluator, node: ast.expr) -> Value:
            return rule(it, node)

        return read

    def about_statement(rule: Callable[..., None]) -> Callable[..., None]:
        def read(_: FunctionBody, node: ast.stmt) -> None:
            rule(it, node)

        return read

    def about_call(rule: Callable[..., Value]) -> Callable[..., Value]:
        def read(call: Call) -> Value:
            return rule(it, call)

        return read

    rules = {**expressions.RULES, ast.Call: functions.call}
    of_expressions |= {kind: about(rule) for kind, rule in rules.items()}
    of_statements |= {kind: about_statement(rule) for kind, rule in statements.RULES.items()}
    makers |= {name: about_call(rule) for name, rule in {**memory.MAKERS, **kernels.MAKERS, **tiles.MAKERS}.items()}
    return it


def _read(it: Context, nodes: list[ast.stmt]) -> dict[str, Diagnostic]:
    """Statements around kernels: what cannot be followed is wrong only where a kernel asks for it.

    Gives the problems of kernels that stand in such statements, by name.
    """
    [frame] = it.reader.scope.frames
    lost: dict[str, Diagnostic] = {}
    for node in nodes:
        before, values = len(it.body.problems), dict(frame)
        try:
            it.body.statement(node)
        except Returned:
            it.fail(node, "TS07", "'return' stands in a function.")
        problems, it.body.problems = it.body.problems[before:], it.body.problems[:before]
        if raised := [problem for problem in problems if problem.code == "TS25"]:
            raise DiagnosticError(raised)
        if problems:
            frame |= {name: values.get(name, Broken()) for name, value in frame.items() if isinstance(value, Broken)}
            for part in _failing(it, node, problems[0].span):
                _forget(it, part, frame, problems[0])
            kernels = (part for part in ast.walk(node) if isinstance(part, ast.FunctionDef) and is_kernel(part))
            lost |= {kernel.name: problems[0] for kernel in kernels}
    return {name: problem for name, problem in lost.items() if isinstance(frame.get(name), Unknown)}


def _failing(it: Context, node: ast.stmt, place: Span) -> list[ast.stmt]:
    """The statements from the one at a problem on: those of a branch or a suite, or the whole."""
    if isinstance(node, ast.If) or (isinstance(node, ast.Try) and not node.handlers):
        suite = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt)]
        for k, part in enumerate(suite):
            span = it.reader.text.span(part)
            if span.start <= place.start and place.stop <= span.stop:
                return [*_failing(it, part, place), *suite[k + 1 :]]
    return [node]


def _forget(it: Context, node: ast.stmt, frame: dict[str, Value], problem: Diagnostic) -> None:
    """A statement was not followed to its end: what it may have bound or changed has no value that is known."""
    bound, changed = effects(node)
    called: list[ast.AST] = [node]
    for part in called:  # functions of the text that may have run, and those that they call
        for name in {leaf.id for leaf in ast.walk(part) if isinstance(leaf, ast.Name)}:
            function = frame.get(name)
            if isinstance(function, Function) and function.node not in called:
                called.append(function.node)
    for statement in (leaf for part in called[1:] for leaf in ast.iter_child_nodes(part)):
        changed |= effects(statement)[1]
        bound.update(name for leaf in ast.walk(statement) if isinstance(leaf, ast.Global) for name in leaf.names)
    places = {id(frame[name]) for name in changed & frame.keys() if isinstance(frame[name], list | dict | set)}
    bound.update(name for name, value in frame.items() if id(value) in places)
    line = Unknown(f"what line {it.reader.text.span(node).line} computes")
    simple = isinstance(node, ast.Assign | ast.AnnAssign | ast.FunctionDef)
    frame |= {name: Unknown(name, problem) if simple else line for name in bound}


def _all_asked_for(it: Context, source: Source) -> None:
    """Refuse names that no kernel asks for: a name with a mistake in it would give its value to nothing."""
    parameters = {
        parameter.arg
        for node in ast.walk(it.reader.text.tree)
        if isinstance(node, ast.FunctionDef)
        for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    }
    for name in sorted(set(it.names) - it.used - parameters):
        help = did_you_mean(name, sorted(parameters))
        raise refuse("TS38", f"nothing in {source.name} asks for the name {name!r}.", help)


def _named(found: list[tuple[str, n.PrimFunc]]) -> dict[str, n.PrimFunc]:
    """Kernels by name; where several have the same one, by the function that made each."""
    names = [kernel.name for _, kernel in found]
    named: dict[str, n.PrimFunc] = {}
    for of, kernel in found:
        name = kernel.name if names.count(kernel.name) == 1 else of
        while name in named:
            name += "_"
        attrs = {**kernel.attrs, "global_symbol": name}
        named[name] = kernel if name == kernel.name else replace(kernel, name=name, attrs=attrs)
    return named
