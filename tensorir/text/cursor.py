"""A place in a list of tokens, and readers of the small parts of the notation: names, bounds, intervals, types.

A reader that finds something else raises a diagnostic at the guilty token.

>>> from tensorir.runtime.errors import Source
>>> from tensorir.text.lexer import tokenize
>>> tensor_type(Cursor(tokenize(Source("p", "tensor<(float, int), I[-1:2*n+1]>")))).ranges[0].stop
Affine(constant=1, terms=(('n', 2),))
"""

from __future__ import annotations

from typing import NoReturn

from tensorir.ir.types import Element, TupleElement
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span, did_you_mean
from tensorir.text.affine import Affine
from tensorir.text.lexer import Token, Tokens
from tensorir.text.limits import MAX_BOUND, MAX_NESTING, MAX_TUPLE_NESTING
from tensorir.text.spelling import ELEMENTS, KEYWORDS, OFFSET, unquoted
from tensorir.text.syntax import Range, TensorType

__all__ = ["Cursor", "affine", "element", "ranges", "tensor_type"]


class Cursor:
    """The next token, and what may be asked of it."""

    __slots__ = ("depth", "position", "tokens")

    tokens: Tokens
    position: int

    def __init__(self, tokens: Tokens, position: int = 0) -> None:
        self.tokens, self.position = tokens, position
        self.depth: int = 0
        """Expressions that are being read, one inside of the other."""

    @property
    def token(self) -> Token:
        return self.tokens.tokens[self.position]

    def ahead(self, distance: int = 1) -> Token:
        tokens = self.tokens.tokens
        return tokens[min(self.position + distance, len(tokens) - 1)]

    def advance(self) -> Token:
        token = self.tokens.tokens[self.position]
        if token.kind != "end":
            self.position += 1
        return token

    def at(self, *texts: str) -> bool:
        token = self.tokens.tokens[self.position]
        return token.text in texts and token.kind in ("glyph", "name")

    def accept(self, *texts: str) -> Token | None:
        return self.advance() if self.at(*texts) else None

    def expect(self, *texts: str, help: str = "") -> Token:
        """The next token, which must be one of the given ones."""
        if not self.at(*texts):
            self.missing(f"'{texts[0]}'", help)
        return self.advance()

    def at_word(self, distance: int = 0) -> bool:
        token = self.ahead(distance)
        return token.kind == "quoted" or (token.kind == "name" and token.text not in KEYWORDS)

    def word(self, what: str, help: str = "") -> tuple[str, Span]:
        """A name, and where it stands."""
        if not self.at_word():
            token = self.token
            if token.kind == "name":
                help = f"'{token.text}' means something else; write `{token.text}` to use it as a name."
            self.missing(what, help)
        token = self.advance()
        if token.kind == "name":
            return token.text, self.span(token)
        name = unquoted(token.text)
        if name is None:
            self.fail("S03", "there is a wrong escape in this name.", token, "escapes are those of JSON: \\u00e9.")
        return name, self.span(token)

    def span(self, token: Token) -> Span:
        return Span(self.tokens.source, token.start, token.stop)

    def since(self, first: int) -> Span:
        """From the token at an index to the last one that was read."""
        tokens = self.tokens.tokens
        return Span(self.tokens.source, tokens[first].start, tokens[max(first, self.position - 1)].stop)

    def deeper(self) -> None:
        """One more expression inside of those that are being read."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(
                "S05",
                f"expressions are nested more than {MAX_NESTING} deep, which is the limit.",
                self.token,
                "name parts of the expression with let.",
            )

    def fail(self, code: str, message: str, where: Token | Span, help: str = "") -> NoReturn:
        span = where if isinstance(where, Span) else self.span(where)
        raise DiagnosticError(Diagnostic(code, message, span, help=help))

    def missing(self, what: str, help: str = "") -> NoReturn:
        """Something else stands where `what` is needed."""
        found = "the end of the text" if self.token.kind == "end" else f"'{_short(self.token.text)}'"
        self.fail("S01", f"{what} is needed here, and this is {found}.", self.token, help)


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:30]}…"


def affine(c: Cursor, offset: bool = False) -> Affine:
    """A bound such as `2*n-1`; `offset` allows the mark of abstract offsets, `1ₒ`."""
    first = c.position
    constant, factors = 0, dict[str, int]()
    sign = 1
    while True:
        while c.at("+", "-"):
            sign = -sign if c.advance().text == "-" else sign
        term = _term(c, offset)
        constant += sign * term.constant
        for name, factor in term.terms:
            factors[name] = factors.get(name, 0) + sign * factor
        if not c.at("+", "-"):
            break
        sign = 1
    if c.at("*", "×", "/", "%", "**"):
        c.fail("S09", "this is not affine in the sizes.", c.token, "a bound is made of terms such as n, 2*n and 3.")
    result = Affine(constant, tuple(sorted((n, f) for n, f in factors.items() if f)))
    if max(abs(result.constant), *(abs(f) for _, f in result.terms), 0) > MAX_BOUND:
        c.fail("S10", "this number is too large for a bound.", c.since(first), "bounds lie between -2^62 and 2^62.")
    return result


def _term(c: Cursor, offset: bool) -> Affine:
    if c.token.kind == "number":
        factor = _whole(c, offset)
        return Affine.of(c.word("a size")[0], factor) if c.accept("*", "×") else Affine(factor)
    if not c.at_word():
        c.missing("a whole number or a size", "bounds are written 0, n, n+1, 2*n-1.")
    name, _ = c.word("a size")
    if c.at("*", "×") and c.ahead().kind == "number":
        c.advance()
        return Affine.of(name, _whole(c, offset))
    return Affine.of(name)


def _whole(c: Cursor, offset: bool) -> int:
    token = c.advance()
    digits = token.text.removesuffix(OFFSET) if offset else token.text
    if not digits.isdecimal():
        if digits.endswith(OFFSET):
            c.fail(
                "S11", f"'{token.text}' is an offset, and stands between ⟪ and ⟫ only.", token, f"drop the {OFFSET}."
            )
        c.fail("S09", f"{token.text} is not a whole number.", token, "write it without point, exponent and suffix.")
    return int(digits)


def ranges(c: Cursor) -> tuple[Range, ...]:
    """`I[0:n], J[1:3]`, as long as names with brackets follow."""
    found = [_range(c)]
    while c.at(",") and c.at_word(1) and c.ahead(2).text == "[":
        c.advance()
        found.append(_range(c))
    _check_distinct(c, found)
    return tuple(found)


def _range(c: Cursor) -> Range:
    first = c.position
    dim, _ = c.word("the name of a dim", "intervals are written I[0:5].")
    c.expect("[", help=f"give its interval: {dim}[0:5].")
    start = affine(c)
    c.expect(":", help="an interval has a start and a stop: I[0:5].")
    stop = affine(c)
    c.expect("]", help="an interval has a start and a stop: I[0:5].")
    return Range(dim, start, stop, c.since(first))


def _check_distinct(c: Cursor, found: list[Range]) -> None:
    seen: set[str] = set()
    for r in found:
        if r.dim in seen:
            c.fail("N02", f"the dim '{r.dim}' is written twice.", r.span, "write each dim once.")
        seen.add(r.dim)


def element(c: Cursor, depth: int = 0) -> Element:
    """`float`, or a tuple of elements, `(float, int32)`."""
    if not c.at("("):
        token = c.token
        name, span = c.word("an element type", "such as float, int32 or (float, bool).")
        if name not in ELEMENTS:
            c.fail("N09", f"there is no element type '{name}'.", span, did_you_mean(name, ELEMENTS))
        assert token.kind in ("name", "quoted")
        return ELEMENTS[name]
    opening = c.advance()
    if depth == MAX_TUPLE_NESTING:
        c.fail(
            "S05",
            f"tuples are nested more than {MAX_TUPLE_NESTING} deep, which is the limit.",
            opening,
            "use fewer levels.",
        )
    members = [element(c, depth + 1)]
    comma = False
    while c.accept(","):
        comma = True
        if c.at(")"):
            break
        members.append(element(c, depth + 1))
    c.expect(")", help="the members of a tuple are separated by commas.")
    return TupleElement(tuple(members)) if comma else members[0]


def tensor_type(c: Cursor) -> TensorType:
    """`tensor<float, I[0:n]>`; an element alone is a tensor without dims."""
    first = c.position
    if not (c.at("tensor") and c.ahead().text == "<"):
        return TensorType(element(c), (), c.since(first))
    c.advance()
    c.advance()
    of = element(c)
    found: tuple[Range, ...] = ()
    if c.accept(","):
        found = ranges(c)
    c.expect(">", help="a type is written tensor<float, I[0:5], J[0:7]>.")
    return TensorType(of, found, c.since(first))
