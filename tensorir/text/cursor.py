"""A place in a list of tokens, and readers of the small parts of the notation: names, bounds, intervals, types, slots.

A reader that finds something else raises a diagnostic at the guilty token. Static slots of builtins are what stands in
a call and is no operand: the forms in `tensorir.ir.builtins` name them, and parser, printer and elaborator look up here
how each kind is read and spelled.

>>> from tensorir.runtime.errors import Source
>>> from tensorir.text.lexer import tokenize
>>> print(tensor_type(Cursor(tokenize(Source("p", "tensor<(float, int), I[-1:2*n+1]>")))).ranges[0].stop)
n*2 + 1
>>> pairs = SLOTS["pairs"]
>>> value = pairs.read(Cursor(tokenize(Source("p", "I -> J, J -> I"))))
>>> value, pairs.spell(value, False)
((('I', 'J'), ('J', 'I')), 'I → J, J → I')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.builtins import Builtin
from tensorir.ir.types import Element, TupleElement
from tensorir.ir.typing_rules import MODES
from tensorir.runtime.errors import Span, did_you_mean, refuse
from tensorir.text.lexer import (
    ELEMENTS,
    KEYWORDS,
    MAX_BOUND,
    MAX_NESTING,
    MAX_TUPLE_NESTING,
    OFFSET,
    Token,
    Tokens,
    affine_text,
    quoted_name,
    quoted_string,
    unquoted,
)
from tensorir.text.syntax import Range, TensorType


class Cursor:
    """A position in a list of tokens, with lookahead, and the nesting depth of expressions being parsed."""

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
        """Consumes the next token; at the end of the text it stays."""
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
        """Consumes the next token, which must be one of `texts`; raises S01 with `help` for another one."""
        if not self.at(*texts):
            self.missing(f"'{texts[0]}'", help)
        return self.advance()

    def at_word(self, distance: int = 0) -> bool:
        token = self.ahead(distance)
        return token.kind == "quoted" or (token.kind == "name" and token.text not in KEYWORDS)

    def word(self, what: str, help: str = "") -> tuple[str, Span]:
        """Consumes a name and gives it with its span; a name between backticks is unescaped.

        Raises S01 if there is none (`what` says what is needed), S03 for a wrong escape.
        """
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
        """Counts one more nested expression; raises S05 beyond the limit."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            message = f"expressions are nested more than {MAX_NESTING} deep, which is the limit."
            self.fail("S05", message, self.token, "name parts of the expression with let.")

    def fail(self, code: str, message: str, where: Token | Span, help: str = "") -> NoReturn:
        raise refuse(code, message, help, at=where if isinstance(where, Span) else self.span(where))

    def missing(self, what: str, help: str = "") -> NoReturn:
        """Raises S01: `what` is needed, and the next token is something else."""
        text = self.token.text
        actual = "the end of the text" if self.token.kind == "end" else f"'{text[:30]}{'…' * (len(text) > 30)}'"
        self.fail("S01", f"{what} is needed here, and this is {actual}.", self.token, help)


def affine(c: Cursor, offset: bool = False) -> Affine:
    """Parses a bound that is affine in the sizes, such as `2*n-1`; with `offset`, numbers may have the mark `1ₒ`.

    Raises S09 for other arithmetic, S10 for numbers beyond `MAX_BOUND`.
    """
    first = c.position
    # summed in a dict: a sum of Affine objects would take quadratic time
    constant, terms, sign_of_term = 0, dict[str, int](), 1
    while True:
        while c.at("+", "-"):
            sign_of_term = -sign_of_term if c.advance().text == "-" else sign_of_term
        term = _term(c, offset)
        constant += sign_of_term * term.constant
        for name, factor in term.coefficients.items():
            terms[name] = terms.get(name, 0) + sign_of_term * factor
        if not c.at("+", "-"):
            break
        sign_of_term = 1
    if c.at("*", "×", "/", "%", "**"):
        c.fail("S09", "this is not affine in the sizes.", c.token, "a bound is made of terms such as n, 2*n and 3.")
    result = Affine(tuple((n, f) for n, f in terms.items() if f), constant)
    if max(abs(result.constant), *(abs(f) for _, f in result.terms), 0) > MAX_BOUND:
        c.fail("S10", "this number is too large for a bound.", c.since(first), "bounds lie between -2^62 and 2^62.")
    return result


def _term(c: Cursor, offset: bool) -> Affine:
    """Parses a term of a bound: a number, a size, or a product of both in either order."""
    if c.token.kind == "number":
        factor = _whole(c, offset)
        return variable(c.word("a size")[0]).times(factor) if c.accept("*", "×") else number(factor)
    if not c.at_word():
        c.missing("a whole number or a size", "bounds are written 0, n, n+1, 2*n-1.")
    name, _ = c.word("a size")
    if c.at("*", "×") and c.ahead().kind == "number":
        c.advance()
        return variable(name).times(_whole(c, offset))
    return variable(name)


def _whole(c: Cursor, offset: bool) -> int:
    """Parses a whole number; `offset` allows the suffix `ₒ`. Raises S11 for the suffix elsewhere, S09 for other
    numbers.
    """
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
    """Parses intervals, `I[0:n], J[1:3]`, as long as `name[` follows a comma; raises N02 for a repeated dim."""
    written = [_range(c)]
    while c.at(",") and c.at_word(1) and c.ahead(2).text == "[":
        c.advance()
        written.append(_range(c))
    dims = set[str]()
    for r in written:
        if r.dim in dims:
            c.fail("N02", f"the dim '{r.dim}' is written twice.", r.span, "write each dim once.")
        dims.add(r.dim)
    return tuple(written)


def _range(c: Cursor) -> Range:
    """Parses one interval, `I[0:n]`."""
    first_token = c.position
    dim, _ = c.word("the name of a dim", "intervals are written I[0:5].")
    c.expect("[", help=f"give its interval: {dim}[0:5].")
    start = affine(c)
    c.expect(":", help="an interval has a start and a stop: I[0:5].")
    stop = affine(c)
    c.expect("]", help="an interval has a start and a stop: I[0:5].")
    return Range(dim, start, stop, c.since(first_token))


def element(c: Cursor, depth: int = 0) -> Element:
    """Parses an element type: `float`, or a tuple of elements, `(float, int32)`; parentheses without comma only group.

    `depth` counts the enclosing tuples; raises S05 beyond the limit.
    """
    if not c.at("("):
        token = c.token
        name, span = c.word("an element type", "such as float, int32 or (float, bool).")
        if name not in ELEMENTS:
            c.fail("N09", f"there is no element type '{name}'.", span, did_you_mean(name, ELEMENTS))
        assert token.kind in ("name", "quoted")
        return ELEMENTS[name]
    opening = c.advance()
    if depth == MAX_TUPLE_NESTING:
        message = f"tuples are nested more than {MAX_TUPLE_NESTING} deep, which is the limit."
        c.fail("S05", message, opening, "use fewer levels.")
    members = [element(c, depth + 1)]
    has_comma = False
    while c.accept(","):
        has_comma = True
        if c.at(")"):
            break
        members.append(element(c, depth + 1))
    c.expect(")", help="the members of a tuple are separated by commas.")
    return TupleElement(tuple(members)) if has_comma else members[0]


def tensor_type(c: Cursor) -> TensorType:
    """Parses `tensor<float, I[0:n]>`; an element alone is a tensor without dims."""
    first_token = c.position
    if not (c.at("tensor") and c.ahead().text == "<"):
        return TensorType(element(c), (), c.since(first_token))
    c.advance()
    c.advance()
    scalar = element(c)
    intervals = ranges(c) if c.accept(",") else ()
    c.expect(">", help="a type is written tensor<float, I[0:5], J[0:7]>.")
    return TensorType(scalar, intervals, c.since(first_token))


Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Slot:
    """One kind of slot."""

    read: Callable[[Cursor], Any]
    spell: Callable[[Any, bool], str]
    """The text of a value, in Unicode or ASCII."""
    fix: Callable[[Any, Sizes], Any] = lambda value, sizes: value
    """From what is written to what the node holds, for given sizes."""
    lift: Callable[[Any], Any] = lambda value: value
    """The other way round."""
    default: Any = None
    """What an optional slot (`dim?`) holds when it is left out."""


def fix(row: Builtin, static: tuple[Any, ...], sizes: Sizes) -> tuple[Any, ...]:
    """The static parameters of a node from those of the text: bounds that depend on sizes get their values."""
    return tuple(SLOTS[slot].fix(value, sizes) for slot, value in zip(row.static_slots, static, strict=True))


def lift(row: Builtin, static: tuple[Any, ...]) -> tuple[Any, ...]:
    """The static parameters for a text from those of a node, the inverse of `fix`."""
    return tuple(SLOTS[slot].lift(value) for slot, value in zip(row.static_slots, static, strict=True))


def spell_affine(value: Affine, ascii: bool) -> str:
    return affine_text(value, partial(quoted_name, ascii=ascii))


def spell_element(value: Element, ascii: bool) -> str:
    from tensorir.ir.types import TensorType

    return str(TensorType(value)).removeprefix("tensor<").removesuffix(">")


def spell_ranges(value: tuple[Range, ...], ascii: bool) -> str:
    return ", ".join(
        f"{quoted_name(r.dim, ascii)}[{spell_affine(r.start, ascii)}:{spell_affine(r.stop, ascii)}]" for r in value
    )


def _dim(c: Cursor) -> str:
    return c.word("the name of a dim")[0]


def _truth(c: Cursor) -> bool:
    return c.expect("true", "false", "True", "False", help="write true or false.").text in ("true", "True")


def _dims(c: Cursor) -> tuple[str, ...]:
    """Parses names of dims between commas, up to a rule for indices (`clamp`) or `over:`, which are no dims."""
    dims = [_dim(c)]
    while c.at(",") and c.at_word(1):
        word, behind = c.ahead(1), c.ahead(2).text
        if (word.kind == "name" and word.text in MODES and behind == ")") or (word.text, behind) == ("over", ":"):
            break
        c.advance()
        dims.append(_dim(c))
    return tuple(dims)


def _over(c: Cursor) -> tuple[str, ...]:
    """Parses `over: (p, q)`."""
    usage = "name the dims that the updates run over: over: (p, q)."
    c.expect("over", help=usage)
    c.expect(":", help=usage)
    c.expect("(", help=usage)
    dims: list[str] = []
    while not c.at(")"):
        dims.append(_dim(c))
        if not c.accept(","):
            break
    c.expect(")", help=usage)
    return tuple(dims)


def _pairs(c: Cursor) -> tuple[tuple[str, str], ...]:
    """Parses renamings `I → J, K → L`."""
    pairs: list[tuple[str, str]] = []
    while not pairs or c.accept(","):
        old = _dim(c)
        c.expect("→", "->", help="a renaming is written rename(I → J)(x).")
        pairs.append((old, _dim(c)))
    return tuple(pairs)


def _string(c: Cursor) -> str:
    """Parses a text between double quotes, with the escapes of JSON."""
    if c.token.kind != "string":
        c.missing("a text", 'texts stand between double quotes: "text".')
    token = c.advance()
    text = unquoted(token.text)
    if text is None:
        c.fail("S03", "there is a wrong escape in this text.", token, "escapes are those of JSON: \\n, \\u00e9.")
    return text


def _spell_dims(names: tuple[str, ...], ascii: bool) -> str:
    # a dim that is named like a mode would be read as one
    return ", ".join(f"`{name}`" if name in (*MODES, "over") else quoted_name(name, ascii) for name in names)


def _spell_pairs(pairs: tuple[tuple[str, str], ...], ascii: bool) -> str:
    arrow = "->" if ascii else "→"
    return ", ".join(f"{quoted_name(old, ascii)} {arrow} {quoted_name(new, ascii)}" for old, new in pairs)


def _truth_text(value: bool, ascii: bool) -> str:
    return "true" if value else "false"


def _at(value: Affine | None, sizes: Sizes) -> int | None:
    return None if value is None else value.at(sizes)


def _constant(value: int | None) -> Affine | None:
    return None if value is None else number(value)


SLOTS: dict[str, Slot] = {
    "dim": Slot(_dim, quoted_name),
    "dim?": Slot(_dim, quoted_name),
    "int": Slot(affine, spell_affine, _at, _constant),
    "int?": Slot(
        lambda c: None if c.accept("none", "None") else affine(c),
        lambda v, ascii: "none" if v is None else spell_affine(v, ascii),
        _at,
        _constant,
    ),
    "bool": Slot(_truth, _truth_text),
    "bool?": Slot(_truth, _truth_text, default=False),
    "element": Slot(element, spell_element),
    "dims": Slot(_dims, _spell_dims),
    "over": Slot(_over, lambda v, ascii: f"over: ({', '.join(quoted_name(name, ascii) for name in v)})"),
    "intervals": Slot(
        ranges,
        spell_ranges,
        lambda v, sizes: Dims(tuple((r.dim, Interval(r.start.at(sizes), r.stop.at(sizes))) for r in v)),
        lambda v: tuple(Range(dim, number(i.start), number(i.stop)) for dim, i in v.items),
    ),
    "pairs": Slot(_pairs, _spell_pairs),
    "mode?": Slot(lambda c: c.word("a rule for indices")[0], quoted_name, default="checked"),
    "string": Slot(_string, quoted_string),
}
"""A reader and a spelling for each static slot that a form can have."""
