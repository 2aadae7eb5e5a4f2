"""Fragments of TVMScript: statements without the function around them, or imports alone."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from tensorir.runtime.errors import DiagnosticError, Source
from tensorir.tir import nodes as n
from tensorir.tir.script.modules import module_of
from tensorir.tir.script.syntax import Text, parse_expression

__all__ = ["read_fragment"]


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
            _place(node, body)
    return function


def _place(node: ast.AST, body: list[ast.stmt]) -> None:
    """What the text does not write stands where the statements are."""
    first, last = body[0], body[-1]
    for name, value in (
        ("lineno", first.lineno),
        ("col_offset", first.col_offset),
        ("end_lineno", last.end_lineno),
        ("end_col_offset", last.end_col_offset),
    ):
        setattr(node, name, value)
