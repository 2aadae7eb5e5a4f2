"""Text of iterator IR as nodes, with a span on each: programs, statements and expressions.

Text has no types: a number with a point or an exponent is a float64, another an int32.

>>> parse("λ(x) → ·⟪Iₒ, 1ₒ⟫(x) - 2.0").body.function
Ref(name='minus')
>>> parse("f(x, y) { y @ c⟨ Iₕ: [0, 9[ ⟩ ← (⇑(λ(a) → ·a + 1.0))(x); }").name
'f'
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from tensorir.ir.types import BOOL, FLOAT64, INT32
from tensorir.iterator.nodes import (
    ARITHMETIC,
    CASTS,
    Axis,
    Call,
    CartesianOffset,
    Expr,
    FieldType,
    FunctionDefinition,
    If,
    Infinity,
    Lambda,
    Literal,
    NoValue,
    Offset,
    Param,
    Program,
    Ref,
    SetAt,
    Statement,
    Temporary,
    run,
)
from tensorir.iterator.text.printer import KINDS, PRECEDENCE
from tensorir.runtime.errors import Source, Span, refuse

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[^\W\d]\w*|∞|//|==|.)|$)", re.DOTALL)
_INFIX = {row.glyph: name for name, row in ARITHMETIC.items() if name in PRECEDENCE}
_AXES = {glyph: kind for kind, glyph in KINDS.items()}
_PREFIXES = {"·": "deref", "⇑": "as_fieldop", "↑": "lift", "¬": "not_"}
_DOMAINS = {"c": "cartesian_domain", "u": "unstructured_domain"}

Parsed = Generator[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    span: Span


def parse(text: str, name: str = "<text>") -> Any:
    """A program, or an expression where the text is none; raises TI13 at what cannot be read."""
    reader = _Reader(Source(name, text))
    tree = run(reader.program()) if reader.is_program() else run(reader.expression(0))
    reader.expect("")
    return tree


class _Reader:
    """Recursive descent over the tokens of a text; rules yield other rules and get their nodes
    (`tensorir.iterator.nodes.run`).

    Each rule begins at the next token and leaves the one behind its text as the next. All raise TI13 at a token that
    does not fit.
    """

    def __init__(self, source: Source) -> None:
        """The tokens of a source, with an empty one at its end."""
        self.tokens: list[_Token] = []
        at = 0
        while (m := _TOKEN.match(source.text, at)) is not None and m.group(1) is not None:
            self.tokens.append(_Token(m.group(1), Span(source, m.start(1), m.end(1))))
            at = m.end()
        self.tokens.append(_Token("", Span(source, len(source.text), len(source.text))))
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        """The text of the next token, or of one `ahead` tokens behind it; "" at the end."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)].text

    @property
    def span(self) -> Span:
        return self.tokens[self.at].span

    def take(self) -> _Token:
        """Consume the next token; the one at the end stays."""
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        """Consume the next token and give True, if it has this text."""
        if self.peek() != text:
            return False
        self.take()
        return True

    def expect(self, text: str) -> Span:
        """Consume the next token, which must have this text ("": the end), and give its span."""
        if self.peek() != text:
            wanted, here = (repr(t) if t else "the end" for t in (text, self.peek()))
            raise refuse("TI13", f"{wanted} is needed here, and this is {here}.", at=self.span)
        return self.take().span

    def name(self) -> str:
        """Consume an identifier."""
        if not self.peek().isidentifier():
            raise refuse("TI13", f"a name is needed here, and this is {self.peek() or 'the end'!r}.", at=self.span)
        return self.take().text

    def is_program(self) -> bool:
        """True if the text begins as `name(...) {`, a program and no expression."""
        depth, k = 0, 1
        if not self.peek().isidentifier() or self.peek(1) != "(":
            return False
        while k < len(self.tokens):
            depth += {"(": 1, ")": -1}.get(self.tokens[k].text, 0)
            k += 1
            if depth == 0:
                break
        return k < len(self.tokens) and self.tokens[k].text == "{"

    def names(self) -> tuple[tuple[str, Span], ...]:
        """Names between parentheses."""
        self.expect("(")
        names: list[tuple[str, Span]] = []
        while self.peek() != ")":
            names.append((self.name(), self.tokens[self.at - 1].span))
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(names)

    # Programs

    def program(self) -> Parsed:
        """`name(a, b) { f = λ(...) → ...; t = temporary(...); target @ domain ← value; ... }`"""
        start = self.span
        name = self.name()
        params = tuple(Param(n, None, span) for n, span in self.names())
        self.expect("{")
        functions: list[FunctionDefinition] = []
        temporaries: list[Temporary] = []
        while self.peek(1) == "=" and self.peek(2) in ("λ", "temporary"):
            (functions if self.peek(2) == "λ" else temporaries).append((yield self.definition()))
        body: list[Statement] = []
        while self.peek() not in ("}", ""):
            body.append((yield self.statement()))
        stop = self.expect("}")
        return Program(name, tuple(functions), params, tuple(temporaries), tuple(body), start.to(stop))

    def definition(self) -> Parsed:
        """A function `f = λ(x) → e;`, or a temporary `t = temporary(domain=d, dtype=float64);` of which None means
        unknown.
        """
        start, name = self.span, self.name()
        self.expect("=")
        if self.accept("temporary"):
            self.expect("(")
            domain = None
            kind = None
            while self.peek() != ")":
                key = self.name()
                self.expect("=")
                value = yield self.expression(0)
                domain = value if key == "domain" else domain
                kind = FieldType((), CASTS[value.name]) if key == "dtype" and isinstance(value, Ref) else kind
                if not self.accept(","):
                    break
            self.expect(")")
            return Temporary(name, domain, kind, start.to(self.expect(";")))
        value = yield self.expression(0)
        return FunctionDefinition(name, value.params, value.body, start.to(self.expect(";")))

    def statement(self) -> Parsed:
        """`target @ domain ← value;`, or `if (condition) { ... } else { ... }`."""
        start = self.span
        if self.peek() == "if" and self.peek(1) == "(":
            self.take()
            condition = yield self.expression(0)
            then = yield self.block()
            otherwise = (yield self.block()) if self.accept("else") else ()
            return If(condition, then, otherwise, start)
        target = yield self.expression(0)
        self.expect("@")
        domain = yield self.expression(0)
        self.expect("←")
        value = yield self.expression(0)
        return SetAt(value, domain, target, start.to(self.expect(";")))

    def block(self) -> Parsed:
        """Statements between braces."""
        self.expect("{")
        statements: list[Statement] = []
        while self.peek() not in ("}", ""):
            statements.append((yield self.statement()))
        self.expect("}")
        return tuple(statements)

    # Expressions

    def expression(self, least: int) -> Parsed:
        """A lambda, a conditional, or infix operators of at least the precedence `least` (0: all), left to right."""
        start = self.span
        if self.accept("λ"):
            params = tuple(n for n, _ in self.names())
            self.expect("→")
            body = yield self.expression(0)
            return Lambda(params, body, start.to(body.span))
        if self.accept("if"):
            c = yield self.expression(1)
            self.expect("then")
            a = yield self.expression(1)
            self.expect("else")
            b = yield self.expression(1)
            return Call(Ref("if_", start), (c, a, b), start.to(b.span))
        left = yield self.prefixed()
        while (name := _INFIX.get(self.peek())) is not None and PRECEDENCE[name] >= max(least, 1):
            glyph = self.take().span
            right = yield self.expression(PRECEDENCE[name] + 1)
            left = Call(Ref(name, glyph), (left, right), left.span.to(right.span))
        return left

    def prefixed(self) -> Parsed:
        """An operand: prefix operators, then an atom with arguments and members, `·f(x)[1]`. A minus before a number is
        part of it.
        """
        start = self.span
        if (name := _PREFIXES.get(self.peek())) is not None:
            self.take()
            x = yield self.prefixed()
            return Call(Ref(name, start), (x,), start.to(x.span))
        if self.peek() == "-":
            self.take()
            x = yield self.prefixed()
            match x:
                case Literal(value, element):
                    return Literal(f"-{value}", element, start.to(x.span))
                case Offset(int(value)):
                    return Offset(-value, start.to(x.span))
                case Infinity():
                    return Infinity(False, start.to(x.span))
                case _:
                    return Call(Ref("neg", start), (x,), start.to(x.span))
        x = yield self.atom()
        while self.peek() == "(" or (self.peek() == "[" and self.peek(1).isdecimal() and self.peek(2) == "]"):
            if self.accept("("):
                args = yield self.listed(")")
                x = Call(x, args, x.span.to(self.tokens[self.at - 1].span))
            else:
                self.take()
                k = self.take()
                stop = self.expect("]")
                x = Call(Ref("tuple_get", k.span), (Literal(k.text, INT32, k.span), x), x.span.to(stop))
        return x

    def listed(self, stop: str) -> Parsed:
        """Expressions between commas, up to the closing token `stop`."""
        items: list[Expr] = []
        while self.peek() != stop:
            items.append((yield self.expression(0)))
            if not self.accept(","):
                break
        self.expect(stop)
        return tuple(items)

    def atom(self) -> Parsed:
        """A parenthesis, tuple, shift, domain, constant or name."""
        token = self.take()
        text, span = token.text, token.span
        if text == "(":
            x = yield self.expression(0)
            self.expect(")")
            return x
        if text == "{":
            return Call(Ref("make_tuple", span), (yield self.listed("}")), span)
        if text == "⟪":
            return Call(Ref("shift", span), (yield self.listed("⟫")), span)
        if text in _DOMAINS and self.peek() == "⟨":
            self.take()
            ranges: list[Expr] = []
            while self.peek() != "⟩":
                ranges.append((yield self.named_range()))
                if not self.accept(","):
                    break
            return Call(Ref(_DOMAINS[text], span), tuple(ranges), span.to(self.expect("⟩")))
        if text == "∞":
            return Infinity(True, span)
        if text in ("True", "False"):
            return Literal(text, BOOL, span)
        if text == "None":
            return NoValue(span)
        if text[:1].isdecimal():
            if self.accept("ₒ"):
                return Offset(int(text), span)
            return Literal(text, FLOAT64 if any(c in text for c in ".eE") else INT32, span)
        if text.isidentifier():
            return self.named(text, span)
        raise refuse("TI13", f"an expression is needed here, and this is {text or 'the end'!r}.", at=span)

    def named(self, text: str, span: Span) -> Expr:
        """A name by its last sign: an offset (Iₒ), an axis (Iₕ), two axes (Iₕ→Kᵥ), or a reference.

        `text` is consumed already.
        """
        if text.endswith("ₒ"):
            return Offset(text[:-1], span)
        kind = _AXES.get(text[-1]) if len(text) > 1 else None
        if kind is None:
            return Ref(text, span)
        axis = Axis(text[:-1], kind, span)
        if self.peek() == "→" and self.peek(1)[-1:] in _AXES:
            self.take()
            other = self.take()
            return CartesianOffset(axis, Axis(other.text[:-1], _AXES[other.text[-1]], other.span), span.to(other.span))
        return axis

    def named_range(self) -> Parsed:
        """`Iₕ: [0, 9[`, one axis of a domain."""
        axis = yield self.atom()
        self.expect(":")
        self.expect("[")
        start = yield self.expression(1)
        self.expect(",")
        stop = yield self.expression(1)
        return Call(Ref("named_range", axis.span), (axis, start, stop), axis.span.to(self.expect("[")))
