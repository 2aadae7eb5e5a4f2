"""Tokens to syntax trees: fencils, closures, and expressions by operator precedence, from the table of builtins.

Rules that nest are generators run by `tensorir.nodes`, so that depth is no concern. An error in a closure is noted and
reading goes on at the next closure or fencil.

>>> from tensorir.runtime.errors import Source
>>> print(parse_expression(Source("p", "a - b × c")).args[1])
Call(op='multiplies', args=(Name(name='b'), Name(name='c')), static=())
>>> parse_programs(Source("p", "double(out: tensor<float>, x: tensor<float>) { out ← x + x }"))[0].closures[0].value
Call(op='plus', args=(Name(name='x'), Name(name='x')), static=())
"""

from __future__ import annotations

import math

from tensorir.ir.builtins import BY_GLYPH, COMPARE, POWER, TABLE, Builtin
from tensorir.ir.types import BOOL, FLOAT32, FLOAT64, INT32, Scalar
from tensorir.nodes import Rule, run
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source, Span
from tensorir.text.cursor import SLOTS, Cursor, affine, ranges, tensor_type
from tensorir.text.lexer import ELEMENTS, KEYWORDS, MAX_FINDINGS, OFFSET, RESERVED, Token, tokenize, usage
from tensorir.text.syntax import (
    Apply,
    Binding,
    Call,
    Closure,
    Expression,
    Lambda,
    Let,
    Name,
    Number,
    Offset,
    Operator,
    Param,
    Program,
    Range,
    Results,
    Shift,
    TensorType,
)


def parse_expression(source: Source) -> Expression:
    """Parses a text that is one expression."""
    c = Cursor(tokenize(source))
    result = run(expression(c))
    if c.token.kind != "end":
        c.missing("an operator or the end", missing_operator(c))
    return result


def expression(c: Cursor) -> Rule[Expression]:
    """Parses an expression by operator precedence; λ, let and if extend as far to the right as possible.

    `pending` holds operators whose right operand is not complete yet.
    """
    operands: list[tuple[Expression, int]] = []
    pending: list[tuple[Builtin, Token]] = []
    outer_depth = c.depth
    c.deeper()
    while True:
        while (row := _prefix(c)) is not None:
            c.deeper()
            pending.append((row, c.advance()))
        first_token = c.position
        value: Expression = yield _operand(c)
        operands.append((value, c.tokens.tokens[first_token].start))
        stop = c.tokens.tokens[c.position - 1].stop
        next_operator = _infix(c)
        if next_operator is None:
            break
        _fold(c, operands, pending, stop, *next_operator)
        pending.append(next_operator)
    _fold(c, operands, pending, stop)
    c.depth = outer_depth
    return operands[0][0]


def _fold(
    c: Cursor, operands: list[tuple[Expression, int]], pending: list[tuple[Builtin, Token]], stop: int,
    next_operator: Builtin | None = None, sign: Token | None = None,
) -> None:  # fmt: skip
    """Reduces pending operators that bind more tightly than the next one; all of them at the end (None).

    Comparisons do not chain (S13), powers associate to the right. `stop` is the end of the last operand.
    """
    precedence = 0 if next_operator is None else next_operator.precedence
    while pending:
        row, operator_token = pending[-1]
        if row.precedence < precedence or (row.precedence == precedence == POWER):
            return
        if row.precedence == precedence == COMPARE:
            assert sign is not None
            c.fail("S13", "comparisons do not chain.", sign, "write a < b ∧ b < c, or put one between parentheses.")
        pending.pop()
        right, start = operands.pop()
        args: tuple[Expression, ...] = (right,)
        if row.is_prefix:
            start = operator_token.start
        else:
            left, start = operands.pop()
            args = (left, right)
        operands.append((Call(row.name, args, (), Span(c.tokens.source, start, stop)), start))


def _stands_for_function(c: Cursor) -> bool:
    """True if a glyph is an argument by itself, as in `reduce(+, 0.0)`."""
    return c.ahead().text in (",", ")") and c.ahead().kind == "glyph"


def _prefix(c: Cursor) -> Builtin | None:
    """The prefix operator at the cursor, None if there is none; a minus before a number belongs to the literal."""
    token = c.token
    if token.kind not in ("glyph", "name") or _stands_for_function(c):
        return None
    row = BY_GLYPH.get((token.text, 1))
    if row is None or (token.text == "-" and _is_number(c.ahead()) and c.ahead(2).text != "**"):
        return None
    return row


def _infix(c: Cursor) -> tuple[Builtin, Token] | None:
    """Consumes the infix operator at the cursor, None if there is none; `<-` is read as `<` and `-` here."""
    token = c.token
    if token.kind not in ("glyph", "name"):
        return None
    if token.text == "<-":  # after an operand this is `a < -b`; the arrow of a closure stands after its output
        c.tokens.tokens[c.position] = Token("glyph", "-", token.start + 1, token.stop)
        return BY_GLYPH["<", 2], Token("glyph", "<", token.start, token.start + 1)
    row = BY_GLYPH.get((token.text, 2))
    return None if row is None else (row, c.advance())


def _is_number(token: Token) -> bool:
    return token.kind == "number" or (token.kind == "name" and token.text in ("inf", "nan"))


def _operand(c: Cursor) -> Rule[Expression]:
    """Parses an operand: literal, name, call, parentheses, shift, λ, let, if, {...}; then calls and brackets after
    it.
    """
    first_token, token = c.position, c.token
    result: Expression
    if _is_number(token) or (token.text == "-" and _is_number(c.ahead())):
        result = _number(c)
    elif c.at("true", "false", "True", "False"):
        c.advance()
        result = Number(token.text in ("true", "True"), BOOL, c.span(token))
    elif c.at("let"):
        return (yield _let(c))
    elif c.at("λ", "\\"):
        return (yield _lambda(c))
    elif c.at("if") and not (c.ahead().text == "(" and c.tokens.commas.get(c.position + 1)):
        return (yield _conditional(c))
    elif c.at("{"):
        return (yield _results(c))
    elif c.at("("):
        result = yield _parentheses(c)
    elif c.at("⟪"):
        result = yield _shift(c, "⟫")
    elif token.kind == "name" and c.ahead().text == "(":
        result = yield _call(c)
    elif token.kind in ("glyph", "name") and _stands_for_function(c) and (row := _row_of_glyph(token.text)):
        c.advance()
        return Operator(row.name, None, c.span(token))
    elif token.kind == "string":
        c.fail("S01", "a text stands only in assert_ and print.", token, 'write assert_(x, c, "text").')
    else:
        name, span = c.word("an expression", "write a name, a number, or something between parentheses.")
        result = Name(name, span)
    while c.at("(", "["):
        result = yield _postfix(c, result, first_token)
    return result


def _row_of_glyph(text: str) -> Builtin | None:
    return BY_GLYPH.get((text, 2)) or BY_GLYPH.get((text, 1))


def _postfix(c: Cursor, value: Expression, first_token: int) -> Rule[Expression]:
    """Parses what follows an operand: arguments `f(x)`, a member `x[0]`, or a part `x[I[0:5]]`."""
    if c.accept("("):
        args: tuple[Expression, ...] = yield _arguments(c)
        return Apply(value, args, c.since(first_token))
    c.advance()
    if c.at_word() and c.ahead().text == "[":
        intervals = ranges(c)
        c.expect("]", help="a part of a tensor is written x[I[0:5], J[1:3]].")
        return Call("subset", (value,), (intervals,), c.since(first_token))
    index = affine(c)
    c.expect("]", help="a member of a tuple is written x[0], a part of a tensor x[I[0:5]].")
    return Call("tuple_get", (value,), (index,), c.since(first_token))


def _arguments(c: Cursor, closer: str = ")") -> Rule[tuple[Expression, ...]]:
    """Parses expressions between commas, and consumes the closing bracket."""
    arguments: list[Expression] = []
    while not c.at(closer):
        value: Expression = yield expression(c)
        arguments.append(value)
        if not c.accept(","):
            break
    noun = "arguments" if closer == ")" else "results"
    c.expect(closer, help=missing_operator(c) or f"{noun} are separated by commas.")
    return tuple(arguments)


def missing_operator(c: Cursor) -> str:
    """A hint for two expressions without an operator between them, empty if none applies."""
    if c.at("←", "<-"):
        return "one closure stores into one parameter; comparisons are written =."
    if c.token.kind == "number" or c.at_word():
        return "a product needs its sign: 2.0 × x."
    return ""


def _parentheses(c: Cursor) -> Rule[Expression]:
    """Parses `(e)`, or a tuple if there is a comma: `(a, b)`, `(a,)`."""
    first_token = c.position
    is_tuple = bool(c.tokens.commas.get(first_token))
    c.advance()
    if c.at(")"):
        c.missing("an expression", "a tuple has at least one member: (x,).")
    members: tuple[Expression, ...] = yield _arguments(c)
    return Call("make_tuple", members, (), c.since(first_token)) if is_tuple else members[0]


def _number(c: Cursor) -> Number:
    """Parses a number with optional minus and suffix `f` (float32)."""
    first_token = c.position
    sign = -1 if c.accept("-") else 1
    token = c.advance()
    text, element = token.text, None
    if text.endswith("f") and token.kind == "number":
        text, element = text[:-1], FLOAT32
    if text.endswith(OFFSET):
        c.fail("S11", f"'{text}' is an offset, and stands between ⟪ and ⟫ only.", token, f"drop the {OFFSET}.")
    return _literal(c, text, sign, element, c.since(first_token))


def _literal(c: Cursor, text: str, sign: int, kind: Scalar | None, span: Span) -> Number:
    """The literal of an element type; by default int32 for whole numbers and float64 for others.

    Raises S12 for a fraction of an integer type, and a number beyond the range of floats.
    """
    is_whole = text.isdecimal()
    kind = kind or (INT32 if is_whole else FLOAT64)
    if kind.is_integer:
        if not is_whole:
            c.fail("S12", f"{text} is not an {kind}.", span, f"write it without a point, or cast({text}, {kind}).")
        return Number(sign * int(text), kind, span)
    value = float(text)
    if math.isinf(value) and text != "inf":
        c.fail("S12", f"{text} is larger than every {kind}.", span, "write inf if that is meant.")
    return Number(sign * value, kind, span)


def _let(c: Cursor) -> Rule[Expression]:
    """Parses `let a = e; let b = e; body`."""
    bound: list[tuple[str, Expression, Span]] = []
    while c.at("let"):
        parsed: tuple[str, Expression, Span] = yield binding(c)
        bound.append(parsed)
    body: Expression = yield expression(c)
    for name, value, span in reversed(bound):
        body = Let(name, value, body, span)
    return body


def binding(c: Cursor) -> Rule[tuple[str, Expression, Span]]:
    """Parses `let a = e;` into name, value and the name's span; raises N07 for a builtin's name."""
    c.advance()
    name, span = c.word("a name", "a binding is written let t = x + y; t × t.")
    if name in RESERVED and c.tokens.source.text[span.start] != "`":
        c.fail("N07", f"'{name}' is a builtin, and let cannot give it another meaning.", span, f"call it {name}_.")
    c.expect("=", help="a binding is written let t = x + y; t × t.")
    value: Expression = yield expression(c)
    c.expect(";", help=missing_operator(c) or "a binding ends with ; and what it is used in follows.")
    if c.at("}"):
        c.fail("S01", f"'{name}' is bound and then used in nothing.", span, "the result follows: let t = e; t + t")
    return name, value, span


def parameters(c: Cursor, typed: bool) -> tuple[Param, ...]:
    """Parses parameters between parentheses; with `typed`, each must have a type."""
    c.expect("(", help="parameters stand between parentheses.")
    params: list[Param] = []
    while not c.at(")"):
        name, span = c.word("the name of a parameter")
        param_type: TensorType | None = None
        if c.accept(":"):
            param_type = tensor_type(c)
        elif typed:
            c.missing("':'", f"a parameter has a type: {name}: tensor<float, I[0:5]>.")
        params.append(Param(name, param_type, span))
        if not c.accept(","):
            break
    c.expect(")", help="parameters are separated by commas.")
    return tuple(params)


def _lambda(c: Cursor) -> Rule[Expression]:
    """Parses `λ(x: T, y) → e`."""
    first_token = c.position
    c.advance()
    params = parameters(c, typed=False)
    c.expect("→", "->", help="a function is written λ(x: tensor<float, I[0:5]>) → e.")
    body: Expression = yield expression(c)
    return Lambda(params, body, c.since(first_token))


def _results(c: Cursor) -> Rule[Expression]:
    """Parses `{a, b}`, the results of a function."""
    first_token = c.position
    c.advance()
    values: tuple[Expression, ...] = yield _arguments(c, "}")
    if not values:
        c.fail("S01", "this function returns nothing.", c.since(first_token), "its results are written {a + 1, b}.")
    return Results(values, c.since(first_token))


def _conditional(c: Cursor) -> Rule[Expression]:
    """Parses `if c then a else b`."""
    first_token = c.position
    usage_ = "a choice is written if c then a else b, or if(c, a, b)."
    c.advance()
    condition: Expression = yield expression(c)
    c.expect("then", help=usage_)
    then_value: Expression = yield expression(c)
    c.expect("else", help=usage_)
    else_value: Expression = yield expression(c)
    return Call("if", (condition, then_value, else_value), (), c.since(first_token))


# Calls of builtins


def _call(c: Cursor) -> Rule[Expression]:
    """Parses a word before a parenthesis: builtin, `shift`, `operator`, element type, or the name of a function."""
    token = c.token
    word = token.text.removeprefix("__")
    if word in TABLE:
        return (yield _builtin(c, TABLE[word]))
    if word == "shift":
        return (yield _shift(c, ")"))
    if word == "operator":
        return _operator(c)
    if word in ELEMENTS:
        return (yield _conversion(c, ELEMENTS[word]))
    if word in KEYWORDS:
        c.word("an expression")
    c.advance()
    return Name(token.text, c.span(token))


def _builtin(c: Cursor, builtin: Builtin) -> Rule[Expression]:
    """Parses a call by the form of its builtin; static slots are read by their kind, optional ones get their
    default.
    """
    first_token = c.position
    help_ = f"it is written {usage(builtin)}."
    args: list[Expression] = []
    static: list[object] = []
    c.advance()
    for group in builtin.form:
        c.expect("(", help=help_)
        if set(group) <= {"x", "xs"}:
            arguments: tuple[Expression, ...] = yield _arguments(c)
            args += arguments
            continue
        for index, slot in enumerate(group):
            if slot.endswith("?") and c.at(")"):
                static.append(SLOTS[slot].default)
                continue
            if index:
                c.expect(",", help=help_)
            if slot in ("x", "f"):
                value: Expression = yield expression(c)
                args.append(value)
            else:
                static.append(SLOTS[slot].read(c))
        c.expect(")", help=help_)
    return Call(builtin.name, tuple(args), tuple(static), c.since(first_token))


def _conversion(c: Cursor, element: Scalar) -> Rule[Expression]:
    """Parses `int64(3)` as a literal, `int64(x)` as a cast."""
    first_token = c.position
    c.advance()
    c.advance()
    minus = 1 if c.at("-") else 0
    number = c.ahead(minus)
    is_literal = number.text == "inf" or (_is_number(number) and not number.text.endswith(("f", OFFSET)))
    if element != BOOL and is_literal and c.ahead(minus + 1).text == ")":
        c.position += minus + 2
        return _literal(c, number.text, -1 if minus else 1, element, c.since(first_token))
    args: tuple[Expression, ...] = yield _arguments(c)
    if len(args) != 1:
        c.fail("S01", f"{element}(...) converts one value.", c.since(first_token), f"it is written {element}(x).")
    return Call("cast", args, (element,), c.since(first_token))


def _operator(c: Cursor) -> Operator:
    """Parses `operator(+, tensor<float>, tensor<float>)`: an elementwise builtin as a function of these types."""
    first_token = c.position
    c.advance()
    c.advance()
    token = c.advance()
    types: list[TensorType] = []
    while c.accept(","):
        types.append(tensor_type(c))
    c.expect(")", help="it is written operator(+, tensor<float>, tensor<float>).")
    builtin = BY_GLYPH.get((token.text, len(types))) or _row_of_glyph(token.text)
    builtin = builtin or TABLE.get(token.text.removeprefix("__"))
    if builtin is None or not builtin.elementwise or builtin.static_slots:
        c.fail("N03", f"there is no elementwise builtin '{token.text}'.", token, "such as +, min or exp.")
    return Operator(builtin.name, tuple(types), c.since(first_token))


def _shift(c: Cursor, closer: str) -> Rule[Expression]:
    """Parses `⟪I, 1⟫(x)`, or `shift(I, 1)(x)` with `closer` ")"."""
    first_token = c.position
    usage_ = "a shift is written ⟪I, 1⟫(x), ⟪V2E, 0⟫(x) or ⟪V2E⟫(x)."
    c.position += 1 if closer == "⟫" else 2
    offsets: list[Offset] = []
    while not c.at(closer):
        offset_token = c.position
        if c.at_word() and c.ahead().text in (",", closer):
            name, span = c.word("a dim or a table")
            offsets.append(Offset(name, None, span))
        else:
            distance = affine(c, offset=True)
            if not offsets or offsets[-1].distance is not None:
                c.fail("S14", "this distance has no dim or table before it.", c.since(offset_token), usage_)
            offsets[-1] = Offset(offsets[-1].name, distance, offsets[-1].span)
        if not c.accept(","):
            break
    c.expect(closer, help=usage_)
    if not offsets:
        c.fail("S14", "this shift names no dim and no table.", c.since(first_token), usage_)
    c.expect("(", help="a shift needs its operand: ⟪I, 1⟫(x).")
    args: tuple[Expression, ...] = yield _arguments(c)
    if len(args) != 1:
        c.fail("S14", f"a shift has one operand, and here are {len(args)}.", c.since(first_token), usage_)
    return Shift(tuple(offsets), args[0], c.since(first_token))


def parse_programs(source: Source) -> tuple[Program, ...]:
    """Parses all fencils of a text; `offsets {...}` holds for those after it.

    After an error parsing continues with the next closure or fencil, and all diagnostics are raised at once.
    """
    c = Cursor(tokenize(source))
    findings: list[Diagnostic] = []
    programs: list[Program] = []
    offsets: dict[str, str] = {}
    while c.token.kind != "end" and len(findings) < MAX_FINDINGS:
        first_token = c.position
        try:
            if c.at("offsets") and c.ahead().text == "{":
                offsets.update(_offsets(c))
            else:
                programs.append(_program(c, offsets, findings))
        except DiagnosticError as error:
            findings += error.diagnostics
            _skip_fencil(c, first_token)
    if findings:
        raise DiagnosticError(findings[:MAX_FINDINGS])
    return tuple(programs)


# Fencils


def _offsets(c: Cursor) -> dict[str, str]:
    """Parses the header `offsets { i: IDim, V2E: V2E }`."""
    c.advance()
    c.expect("{")
    offsets: dict[str, str] = {}
    while not c.at("}"):
        name, span = c.word("the name of an offset", "a header is written offsets { i: IDim, V2E: V2E }.")
        name = name.removesuffix(OFFSET)
        if name in offsets:
            c.fail("N02", f"the offset '{name}' is declared twice.", span, "declare it once.")
        c.expect(":", help="a header is written offsets { i: IDim, V2E: V2E }.")
        offsets[name], _ = c.word("the name of a dim or of a table")
        if not c.accept(",", ";"):
            break
    c.expect("}", help="a header is written offsets { i: IDim, V2E: V2E }.")
    return offsets


def _program(c: Cursor, offsets: dict[str, str], findings: list[Diagnostic]) -> Program:
    """Parses one fencil; errors in closures are added to `findings`, and parsing continues after the closure."""
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
    bindings: list[Binding] = []
    while c.position < block_end:
        first_token, c.depth = c.position, 0
        try:
            if c.at("let"):
                bindings.append(Binding(*run(binding(c))))
                continue
            closures.append(run(_closure(c, tuple(bindings))))
            bindings.clear()
            if not c.accept(";") and not c.at("}", "let") and not _at_closure(c):
                c.missing("an operator or ';'", missing_operator(c))
        except DiagnosticError as error:
            findings += error.diagnostics
            if len(findings) >= MAX_FINDINGS:
                raise DiagnosticError(()) from None
            _skip_closure(c, first_token, block_end)
    c.expect("}")
    return Program(name, params, tuple(closures), tuple(offsets.items()), span)


def _closure(c: Cursor, bindings: tuple[Binding, ...]) -> Rule[Closure]:
    """Parses `out ← e`, `out[I[0:3]] ← e` or `subset(out, I[0:3]) ← e`; `bindings` are the lets in front of it."""
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
    return Closure(output, region, value, span, bindings)


def _at_closure(c: Cursor) -> bool:
    return c.at_word() and (
        c.ahead().text in ("←", "<-", "[") or (c.at("subset", "__subset") and c.ahead().text == "(")
    )


def _skip_closure(c: Cursor, first: int, block_end: int) -> None:
    """Moves the cursor to the next closure after an error in the one that began at token `first`."""
    error_position, c.position = c.position, first
    while c.position < block_end:
        after_semicolon = c.token.text == ";"
        c.position = c.tokens.closing.get(c.position, c.position) + 1
        at_next = c.position >= block_end or (_at_closure(c) and (after_semicolon or c.ahead().text != "["))
        if c.position > error_position and at_next:
            return
    c.position = block_end


def _skip_fencil(c: Cursor, first: int) -> None:
    """Moves the cursor behind the closures of a fencil with an error, which began at token `first`."""
    error_position, c.position = c.position, first
    while c.token.kind != "end":
        is_block = c.token.text == "{"
        c.position = c.tokens.closing.get(c.position, c.position) + 1
        if is_block and c.position > error_position:
            return
