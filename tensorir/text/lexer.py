"""Text to tokens, each with its span: limits and spelling.

What is no token is a diagnostic, and the rest is read all the same. A name that is not a plain word (a keyword, or one
with blanks in it) stands between backticks, with the escapes of JSON; so every name can be written, and in ASCII. What
the lexer reads is what the printer writes.

>>> [token.text for token in tokenize(Source("p", "out ← ⟪I, -1⟫(x) // left")).tokens]
['out', '←', '⟪', 'I', ',', '-', '1', '⟫', '(', 'x', ')', '']
>>> quoted_name("x"), quoted_name("if"), quoted_name("Δt", ascii=True)
('x', '`if`', '`\\\\u0394t`')
>>> print(number(0.1, FLOAT32), number(3, SCALARS["int64"]), number(-0.0, FLOAT64))
0.1f int64(3) -0.0
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tensorir.integers.affine import Affine
from tensorir.ir.builtins import TABLE, Builtin
from tensorir.ir.types import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, SCALARS, Scalar
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source, Span, refuse

# What the notation accepts at most. Text beyond a limit gets a diagnostic that states the limit.

MAX_TEXT = 64 * 2**20
"""Characters of a text, and bytes of a file."""

MAX_TOKENS = 500_000
"""Words, numbers and signs of a text."""

MAX_NESTING = 30_000
"""Brackets inside of brackets, and expressions inside of expressions."""

MAX_TUPLE_NESTING = 100
"""Tuples inside of tuples, in an element type."""

MAX_DIGITS = 1_000
"""Characters of one number."""

MAX_BOUND = 2**62
"""The magnitude of a bound of an interval, and of every other whole number that belongs to the program's form."""

MAX_POINTS = 2**40
"""Points of one tensor."""

MAX_FINDINGS = 20
"""Diagnostics that are shown at once."""

OFFSET = "ₒ"
"""The mark of abstract offsets: `⟪iₒ, 1ₒ⟫`."""

WORD = re.compile(r"[^\W\d]\w*")

WORD_GLYPHS = frozenset(g for row in TABLE.values() for g in row.glyphs if WORD.fullmatch(g))
KEYWORDS = frozenset({"λ", "let", "if", "then", "else", "true", "false", "True", "False", "inf", "nan"}) | WORD_GLYPHS
"""Words that are no names unless they stand between backticks."""

GLYPHS = frozenset(["(", ")", "[", "]", "{", "}", "⟪", "⟫", ",", ";", ":", "←", "<-", "→", "->", "\\", "<", ">"]) | {
    g for row in TABLE.values() for g in row.glyphs if g not in WORD_GLYPHS
}
"""Everything that is spelled with signs."""

ELEMENTS: dict[str, Scalar] = {
    **SCALARS,
    "float": FLOAT64,
    "int": INT32,
    "f16": SCALARS["float16"],
    "bf16": SCALARS["bfloat16"],
    "f32": FLOAT32,
    "f64": FLOAT64,
}
"""Element types by every name that they have."""

RESERVED = frozenset(TABLE) | frozenset(f"__{name}" for name in TABLE) | frozenset(ELEMENTS) | {"shift", "operator"}
"""Words that mean something before a parenthesis, so that `let` cannot bind them."""


def quoted_name(name: str, ascii: bool = False) -> str:
    """The name as the notation writes it: between backticks if it is no plain word, a keyword, or not ASCII if
    `ascii`.
    """
    if WORD.fullmatch(name) and name not in KEYWORDS and (not ascii or name.isascii()):
        return name
    escaped = json.dumps(name, ensure_ascii=ascii or not name.isprintable())[1:-1]
    return f"`{escaped.replace(chr(92) + chr(34), chr(34)).replace('`', chr(92) + 'u0060')}`"


def affine_text(value: Affine, name: Callable[[str], str] = quoted_name) -> str:
    """A bound as text; sizes are sorted and spelled by `name`.

    >>> from tensorir.integers.affine import number, variable
    >>> affine_text(variable("n").times(2).minus(number(1))), affine_text(number(3))
    ('2*n-1', '3')
    """
    text = ""
    for size, factor in value.coefficients.items():
        sign = "-" if factor < 0 else "+" if text else ""
        text += f"{sign}{'' if abs(factor) == 1 else f'{abs(factor)}*'}{name(size)}"
    if value.constant or not text:
        text += f"{'+' if text and value.constant > 0 else ''}{value.constant}"
    return text


def quoted_string(text: str, ascii: bool = False) -> str:
    """The text between double quotes."""
    return json.dumps(text, ensure_ascii=ascii or not text.isprintable())


def unquoted(token: str) -> str | None:
    """The contents of a string or backticked token with escapes resolved; None for a wrong escape."""
    # between backticks a quote needs no escape, and may have one
    body = token[1:-1] if token[0] == '"' else re.sub(r'(\\.)|"', lambda m: m[1] or r"\u0022", token[1:-1])
    try:
        return json.loads(f'"{body}"')
    except ValueError:
        return None


def glyph(row: Builtin, ascii: bool = False) -> str:
    """The first spelling of an infix or prefix builtin."""
    return next(g for g in row.glyphs if not ascii or g.isascii())


def number(value: bool | int | float, element: Scalar) -> str:
    """The shortest literal that reads back as exactly this value and type."""
    if element == BOOL:
        return "true" if value else "false"
    if element == INT32:
        return str(value)
    if element.is_integer:
        return f"{element}({value})"
    if element == FLOAT64:
        return repr(value)
    assert isinstance(value, float)
    shortest = str(np.float64(value).astype(DTYPES[element]))
    if not math.isfinite(value) or float(np.float64(float(shortest)).astype(DTYPES[element])) != value:
        shortest = repr(value)
    return f"{shortest}f" if element == FLOAT32 and math.isfinite(value) else f"{element}({shortest})"


def usage(row: Builtin) -> str:
    """The usage of a builtin for help texts.

    >>> usage(TABLE["reduce"])
    'reduce(f, x[, dim])(x, ...)'
    """
    groups: list[str] = []
    for group in row.form:
        text = ""
        for slot in group:
            slot_word = _SLOT_WORDS.get(slot, slot.rstrip("?"))
            text += f"[, {slot_word}]" if slot.endswith("?") else f"{', ' if text else ''}{slot_word}"
        groups.append(f"({text})")
    return row.name + "".join(groups)


_SLOT_WORDS = {
    "xs": "x, ...",
    "int": "number",
    "int?": "number",
    "bool": "true",
    "bool?": "true",
    "element": "type",
    "dims": "dim, ...",
    "over": "over: (dim, ...)",
    "intervals": "dim[start:stop], ...",
    "pairs": "old → new, ...",
    "string": '"text"',
}


class Token(NamedTuple):
    """A piece of text of one kind: name, quoted, number, string, glyph, or end."""

    kind: str
    text: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text, ended by one of kind `end`, and the matching of its brackets, by index of token."""

    source: Source
    tokens: list[Token]
    closing: dict[int, int] = field(default_factory=dict[int, int])
    """The index of the bracket that closes the one at an index."""
    commas: dict[int, int] = field(default_factory=dict[int, int])
    """How many commas stand directly inside of the bracket at an index."""

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.stop)


_SIGNS = "|".join(re.escape(g) for g in sorted(GLYPHS, key=len, reverse=True))
_TOKEN = re.compile(
    rf"""
    (?P<blank>   (?: [ \t\r\n\f\ufeff\xa0]++ | //[^\n]*+ | /\*(?s:.*?)\*/ )++ )
  | (?P<comment> /\* )
  | (?P<name>    [^\W\d]\w* )
  | (?P<number>  (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?:[eE][+-]?[0-9]+)? \w* )
  | (?P<string>  "(?: [^"\\\n\0]++ | \\[^\n\0] )*+ "? )
  | (?P<quoted>  `[^`\n\0]*+`? )
  | (?P<glyph>   {_SIGNS} )
    """,
    re.VERBOSE,
)
_STRANGE = re.compile(rf"""[^\w\s\ufeff"`./{re.escape("".join(sorted({g[0] for g in GLYPHS})))}]++""")
"""Characters that no token begins with."""
_NUMBER = re.compile(rf"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:f|{OFFSET})?")


def tokenize(source: Source) -> Tokens:
    """The tokens of a text with matched brackets.

    All faults of characters, quotes, numbers and brackets are raised at once, at most `MAX_FINDINGS`; S08 stops at a
    limit.
    """
    text = source.text
    findings: list[Diagnostic] = []
    if len(text) > MAX_TEXT:
        message = f"the text has {len(text)} characters, and {MAX_TEXT} is the limit."
        raise refuse("S08", message, "split it into several files.", at=Span(source, 0, 0))
    tokens: list[Token] = []
    match, place, end = _TOKEN.match, 0, len(text)
    while place < end:
        piece = match(text, place)
        if piece is None:
            findings.append(_strange_character(source, place))
            strange = _STRANGE.match(text, place)
            following = _TOKEN.search(text, place if strange is None else strange.end())  # a run of them is one finding
            place = end if following is None else following.start()
            if len(findings) == MAX_FINDINGS:
                break
            continue
        kind, start, place = piece.lastgroup, place, piece.end()
        assert kind is not None
        if kind == "blank":
            continue
        if kind == "comment":
            findings.append(
                Diagnostic("S03", "this comment never ends.", Span(source, start, place), help="end it with */.")
            )
            break
        token = Token(kind, piece.group(), start, place)
        if problem := _malformed(token, Span(source, start, place)):
            findings.append(problem)
        elif len(tokens) == MAX_TOKENS:
            findings.append(
                Diagnostic(
                    "S08",
                    f"the text has more than {MAX_TOKENS} words and signs, which is the limit.",
                    Span(source, start, place),
                    help="split it into several files.",
                )
            )
            break
        tokens.append(token)
    tokens.append(Token("end", "", end, end))
    result = Tokens(source, tokens)
    if len(findings) < MAX_FINDINGS and not any(d.code in ("S03", "S08") for d in findings):
        # what never ends, or was not read, hides brackets
        findings += _match_brackets(result)
    if findings:
        raise DiagnosticError(sorted(findings, key=lambda d: d.span.start)[:MAX_FINDINGS])
    return result


def _strange_character(source: Source, place: int) -> Diagnostic:
    """The diagnostic S02 for a character that no token begins with; common ones get a hint."""
    character = source.text[place]
    quoted = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
    hint = {
        "⟨": "shifts are written ⟪I, 1⟫ or shift(I, 1).",
        "«": "shifts are written ⟪I, 1⟫ or shift(I, 1).",
        "'": 'texts stand between double quotes: "text".',
        "#": "comments are written // to the end of the line, or /* ... */.",
        "?": "a choice is written: if c then a else b.",
        "·": "a product is written × or *.",
        "−": "a minus is written with the sign of the keyboard: -.",
        "\0": "this is no text file, or it is damaged.",
    }.get(character, "remove it; a name with such characters stands between backticks.")
    return Diagnostic("S02", f"the character {quoted} means nothing here.", Span(source, place, place + 1), help=hint)


def _malformed(token: Token, span: Span) -> Diagnostic | None:
    """The diagnostic of a number, string or name that is malformed; None for a good token."""
    text = token.text
    match token.kind:
        case "number" if len(text) > MAX_DIGITS:
            return Diagnostic(
                "S07",
                f"this number has {len(text)} characters, and {MAX_DIGITS} is the limit.",
                Span(span.source, span.start, span.start + 20),
                help="no element type holds so many digits.",
            )
        case "number" if not _NUMBER.fullmatch(text):
            return Diagnostic(
                "S06",
                f"'{text}' is not a number.",
                span,
                help="numbers are written 1, 1.0, 1.0e-3, 1.0f; names begin with a letter.",
            )
        case "string" if len(text) < 2 or not text.endswith('"'):
            return Diagnostic("S03", "this text never ends.", span, help='end it with " on the same line.')
        case "quoted" if len(text) < 2 or not text.endswith("`"):
            return Diagnostic("S03", "this name never ends.", span, help="end it with ` on the same line.")
        case _:
            return None


_CLOSER = {"(": ")", "[": "]", "{": "}", "⟪": "⟫"}


def _match_brackets(result: Tokens) -> list[Diagnostic]:
    """Fills in `closing` and `commas` of the tokens; the diagnostics of brackets that do not match."""
    findings: list[Diagnostic] = []
    open_brackets: list[int] = []
    open_count = dict.fromkeys(_CLOSER.values(), 0)
    tokens = result.tokens

    def never_closed(index: int) -> None:
        """Records that an opening bracket is not closed."""
        mark = tokens[index]
        findings.append(
            Diagnostic(
                "S04", f"this '{mark.text}' is never closed.", result.span(mark), help=f"add '{_CLOSER[mark.text]}'."
            )
        )

    for index, token in enumerate(tokens):
        if token.kind != "glyph":
            continue
        text = token.text
        if text == ",":
            if open_brackets:
                result.commas[open_brackets[-1]] = result.commas.get(open_brackets[-1], 0) + 1
        elif text in _CLOSER:
            open_brackets.append(index)
            open_count[_CLOSER[text]] += 1
            if len(open_brackets) > MAX_NESTING:
                findings.append(
                    Diagnostic(
                        "S05",
                        f"brackets are nested more than {MAX_NESTING} deep, which is the limit.",
                        result.span(token),
                        help="name parts of the expression with let.",
                    )
                )
                return findings
        elif text in open_count:
            if not open_count[text]:
                findings.append(
                    Diagnostic("S04", f"this '{text}' closes nothing.", result.span(token), help="remove it.")
                )
                continue
            while _CLOSER[tokens[open_brackets[-1]].text] != text:
                open_count[_CLOSER[tokens[open_brackets[-1]].text]] -= 1
                never_closed(open_brackets.pop())
            open_count[text] -= 1
            result.closing[open_brackets.pop()] = index
    for index in open_brackets:
        never_closed(index)
    return findings
