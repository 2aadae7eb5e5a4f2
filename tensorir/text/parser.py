"""Tokens to syntax trees: fencils, closures, and expressions by operator precedence.

Rules that nest are generators run by `tensorir.text.trampoline`, so that depth is no concern. An error in a closure
is noted and reading goes on at the next closure or fencil.

>>> parse_programs(Source("p", "double(out: tensor<float>, x: tensor<float>) { out ← x + x }"))[0].closures[0].value
Call(op='plus', args=(Name(name='x'), Name(name='x')), static=())
"""

from __future__ import annotations

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source
from tensorir.text.cursor import Cursor, ranges
from tensorir.text.expressions import binding, expression, missing_operator, parameters
from tensorir.text.lexer import tokenize
from tensorir.text.limits import MAX_FINDINGS
from tensorir.text.spelling import OFFSET
from tensorir.text.syntax import (
    Binding,
    Closure,
    Expression,
    Program,
    Range,
)
from tensorir.text.trampoline import Rule, run

__all__ = ["parse_programs"]


def parse_programs(source: Source) -> tuple[Program, ...]:
    """Every fencil of a text. Raises all diagnostics of its syntax at once."""
    c = Cursor(tokenize(source))
    found: list[Diagnostic] = []
    programs: list[Program] = []
    offsets: dict[str, str] = {}
    while c.token.kind != "end" and len(found) < MAX_FINDINGS:
        first = c.position
        try:
            if c.at("offsets") and c.ahead().text == "{":
                offsets.update(_offsets(c))
            else:
                programs.append(_program(c, offsets, found))
        except DiagnosticError as error:
            found += error.diagnostics
            _skip_fencil(c, first)
    if found:
        raise DiagnosticError(found[:MAX_FINDINGS])
    return tuple(programs)


# Fencils


def _offsets(c: Cursor) -> dict[str, str]:
    """`offsets { i: IDim, V2E: V2E }`"""
    c.advance()
    c.expect("{")
    found: dict[str, str] = {}
    while not c.at("}"):
        name, span = c.word("the name of an offset", "a header is written offsets { i: IDim, V2E: V2E }.")
        name = name.removesuffix(OFFSET)
        if name in found:
            c.fail("N02", f"the offset '{name}' is declared twice.", span, "declare it once.")
        c.expect(":", help="a header is written offsets { i: IDim, V2E: V2E }.")
        found[name], _ = c.word("the name of a dim or of a table")
        if not c.accept(",", ";"):
            break
    c.expect("}", help="a header is written offsets { i: IDim, V2E: V2E }.")
    return found


def _program(c: Cursor, offsets: dict[str, str], found: list[Diagnostic]) -> Program:
    start = c.position
    if c.at("fencil") and (c.ahead().text == "(" or c.at_word(1)):
        c.advance()
    if c.at("("):
        name, span = "fencil", c.since(start)
    else:
        name, span = c.word("a fencil", "it is written name(out: tensor<float, I[0:5]>, ...) { out ← e; }.")
    params = parameters(c, typed=True)
    opening = c.position
    c.expect("{", help="the closures of a fencil stand between { and }.")
    block_end = c.tokens.closing[opening]
    closures: list[Closure] = []
    before: list[Binding] = []
    while c.position < block_end:
        first, c.depth = c.position, 0
        try:
            if c.at("let"):
                before.append(Binding(*run(binding(c))))
                continue
            closures.append(run(_closure(c, tuple(before))))
            before.clear()
            if not c.accept(";") and not c.at("}", "let") and not _at_closure(c):
                c.missing("an operator or ';'", missing_operator(c))
        except DiagnosticError as error:
            found += error.diagnostics
            if len(found) >= MAX_FINDINGS:
                raise DiagnosticError(()) from None
            _skip_closure(c, first, block_end)
    c.expect("}")
    return Program(name, params, tuple(closures), tuple(offsets.items()), span)


def _closure(c: Cursor, before: tuple[Binding, ...]) -> Rule[Closure]:
    """Behind what is bound for it, `out ← e`, `out[I[0:3]] ← e` or `subset(out, I[0:3]) ← e`."""
    start = c.position
    region: tuple[Range, ...] | None = None
    if c.at("subset", "__subset") and c.ahead().text == "(":
        c.advance()
        c.advance()
        output, _ = c.word("the name of an output")
        c.expect(",", help="write subset(out, I[0:5]) ← e.")
        region = ranges(c)
        c.expect(")", help="write subset(out, I[0:5]) ← e.")
    else:
        output, _ = c.word("a closure", "closures are written out ← e;.")
        if c.accept("["):
            region = ranges(c)
            c.expect("]", help="a part of an output is written out[I[0:5]].")
    span = c.since(start)
    if c.at("=", ":"):
        c.missing("'←'", "a closure stores with ← or <-.")
    c.expect("←", "<-", help="closures are written out ← e;.")
    value: Expression = yield expression(c)
    return Closure(output, region, value, span, before)


def _at_closure(c: Cursor) -> bool:
    return c.at_word() and (
        c.ahead().text in ("←", "<-", "[") or (c.at("subset", "__subset") and c.ahead().text == "(")
    )


def _skip_closure(c: Cursor, first: int, block_end: int) -> None:
    """To the next closure after an error; a `;` of a `let` is none."""
    failed, c.position = c.position, first
    while c.position < block_end:
        separated = c.token.text == ";"
        c.position = c.tokens.closing.get(c.position, c.position) + 1
        begins = c.position >= block_end or (_at_closure(c) and (separated or c.ahead().text != "["))
        if c.position > failed and begins:
            return
    c.position = block_end


def _skip_fencil(c: Cursor, first: int) -> None:
    """Behind the closures of a fencil whose head is wrong."""
    failed, c.position = c.position, first
    while c.token.kind != "end":
        block = c.token.text == "{"
        c.position = c.tokens.closing.get(c.position, c.position) + 1
        if block and c.position > failed:
            return
