"""The grammar of constructors: calls with named arguments, lists, mappings, numbers, names, and what is left out.

Statements of a body follow each other without commas. A comment that counts entries stands for these.

>>> from tensorir.runtime.errors import Source
>>> parse_terms(Source("t", "For(min=0, body=A(1) B(...))"))[0].arguments["body"]
(Term(name='A', ...), Term(name='B', ...))
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source, Span

__all__ = ["Elided", "Term", "Tree", "fail", "is_constructed", "parse_terms"]

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 200
MAX_COMMENTS = 10_000
"""Characters of comments that a text may begin with, to be known as one in constructors."""

_BEGIN = re.compile(r"(?:\s++|#[^\n]*+\n)*+PrimFunc\s*\(")
_TOKEN = re.compile(
    r"\s+|(?P<more>\#[^\n]*?\.\.\.\s*\d+\s+more\b[^\n]*)|\#[^\n]*"
    r"|(?P<dots>\.\.\.)|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*)"
    r"|(?P<string>\"[^\"\n]*\")|(?P<mark>//|[()\[\]{},:=*+\-])|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Elided:
    """What the text leaves out."""

    span: Span


@dataclass(frozen=True, slots=True, repr=False)
class Term:
    """A name, or a call of it: arguments by position and by name. Operators are calls by their signs."""

    name: str
    span: Span
    given: tuple[Tree, ...] = ()
    arguments: dict[str, Tree] = field(default_factory=dict[str, "Tree"])
    called: bool = False

    def __repr__(self) -> str:
        return f"Term(name={self.name!r}, ...)"


Tree: TypeAlias = "Term | Elided | int | float | str | list[Tree] | dict[str, Tree] | tuple[Tree, ...]"
"""A list is one in brackets, a tuple statements in a row."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    span: Span


def is_constructed(text: str) -> bool:
    """Whether a text is written in constructors: what it begins with, comments aside, is `PrimFunc(`."""
    return _BEGIN.match(text, 0, MAX_COMMENTS) is not None


def fail(span: Span, message: str, help: str = "") -> NoReturn:
    raise DiagnosticError(Diagnostic("TS50", message, span, help=help))


def parse_terms(source: Source) -> list[Term]:
    """The calls that a text consists of; raises TS50 at what is none."""
    if len(source.text) > MAX_CHARACTERS:
        fail(Span(source, 0, 1), f"the text has more than {MAX_CHARACTERS:,} characters.")
    reader = _Reader(source)
    found: list[Term] = []
    while reader.peek().kind != "end":
        made = reader.value(0)
        if not isinstance(made, Term) or not made.called:
            fail(reader.last, "a function is written here, PrimFunc(params=[...], body=...).")
        found.append(made)
    return found


class _Reader:
    """The tokens of a text."""

    def __init__(self, source: Source) -> None:
        self.tokens: list[_Token] = []
        for m in _TOKEN.finditer(source.text):
            kind = m.lastgroup
            if kind is not None:
                self.tokens.append(_Token(kind, m[0], Span(source, m.start(), m.end())))
        end = len(source.text)
        self.tokens.append(_Token("end", "", Span(source, end, end)))
        self.at = 0

    @property
    def last(self) -> Span:
        return self.tokens[max(0, self.at - 1)].span

    def peek(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        if self.peek().kind == "mark" and self.peek().text == text:
            self.take()
            return True
        return False

    def expect(self, text: str) -> Span:
        if not self.accept(text):
            found = self.peek().text or "the end"
            fail(self.peek().span, f"{text!r} is needed here, and this is {found!r}.")
        return self.last

    def value(self, depth: int) -> Tree:
        """A sum of products."""
        if depth > MAX_DEPTH:
            fail(self.peek().span, f"calls are nested more than {MAX_DEPTH} deep here.")
        left = self.product(depth)
        while self.peek().text in ("+", "-") and self.peek().kind == "mark":
            sign = self.take()
            left = Term(sign.text, sign.span, (left, self.product(depth)), called=True)
        return left

    def product(self, depth: int) -> Tree:
        left = self.atom(depth)
        while self.peek().text in ("*", "//") and self.peek().kind == "mark":
            sign = self.take()
            left = Term(sign.text, sign.span, (left, self.atom(depth)), called=True)
        return left

    def atom(self, depth: int) -> Tree:
        token = self.take()
        match token.kind, token.text:
            case "number", text:
                return int(text) if text.isdecimal() else float(text)
            case "string", text:
                return text[1:-1]
            case "dots", _:
                return Elided(token.span)
            case "mark", "-":
                inner = self.atom(depth)
                return -inner if isinstance(inner, int | float) else Term("-", token.span, (0, inner), called=True)
            case "mark", "(":
                inner = self.value(depth + 1)
                self.expect(")")
                return inner
            case "mark", "[":
                return self.listed(depth)
            case "mark", "{":
                return self.mapping(depth)
            case "name", name:
                return self.call(name, token.span, depth) if self.accept("(") else Term(name, token.span)
            case _:
                fail(token.span, f"a value is needed here, and this is {token.text or 'the end'!r}.")

    def listed(self, depth: int) -> list[Tree]:
        found: list[Tree] = []
        while not self.accept("]"):
            if self.peek().kind == "more":
                found.append(Elided(self.take().span))
                continue
            found.append(self.value(depth + 1))
            if not self.accept(",") and self.peek().text != "]" and self.peek().kind != "more":
                self.expect("]")
        return found

    def mapping(self, depth: int) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        while not self.accept("}"):
            key = self.take()
            if key.kind in ("dots", "more"):
                found["..."] = Elided(key.span)
            elif key.kind in ("string", "name"):
                self.expect(":")
                found[key.text.strip('"')] = self.value(depth + 1)
            else:
                fail(key.span, f"a key is needed here, and this is {key.text or 'the end'!r}.")
            self.accept(",")
        return found

    def call(self, name: str, span: Span, depth: int) -> Term:
        given: list[Tree] = []
        arguments: dict[str, Tree] = {}
        while not self.accept(")"):
            if self.peek().kind == "end":
                self.expect(")")
            ahead = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
            if self.peek().kind == "name" and ahead.kind == "mark" and ahead.text == "=":
                key = self.take().text
                self.take()
                if self.peek().kind == "mark" and self.peek().text in (",", ")"):
                    arguments[key] = Elided(self.last)  # a comment says what would be here
                    self.accept(",")
                    continue
                parts = [self.value(depth + 1)]
                while self.peek().kind in ("name", "dots") and not self._names_argument():
                    parts.append(self.value(depth + 1))
                arguments[key] = parts[0] if len(parts) == 1 else tuple(parts)
            else:
                given.append(self.value(depth + 1))
            self.accept(",")
        return Term(name, span.to(self.last), tuple(given), arguments, True)

    def _names_argument(self) -> bool:
        ahead = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        return ahead.kind == "mark" and ahead.text == "="
