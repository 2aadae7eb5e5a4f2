"""How names, glyphs and numbers are spelled: what the lexer reads is what the printer writes.

A name that is not a plain word (a keyword, or one with blanks in it) stands between backticks, with the escapes of
JSON; so every name can be written, and in ASCII.

>>> quoted_name("x"), quoted_name("if"), quoted_name("Δt", ascii=True)
('x', '`if`', '`\\\\u0394t`')
>>> print(number(0.1, FLOAT32), number(3, SCALARS["int64"]), number(-0.0, FLOAT64))
0.1f int64(3) -0.0
"""

from __future__ import annotations

import json
import math
import re

import numpy as np

from tensorir.ir.builtins import TABLE, Builtin
from tensorir.ir.types import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, SCALARS, Scalar

__all__ = [
    "ELEMENTS",
    "GLYPHS",
    "KEYWORDS",
    "OFFSET",
    "RESERVED",
    "WORD_GLYPHS",
    "glyph",
    "number",
    "quoted_name",
    "quoted_string",
    "unquoted",
    "usage",
]

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
    """The name as programs write it."""
    if WORD.fullmatch(name) and name not in KEYWORDS and (not ascii or name.isascii()):
        return name
    escaped = json.dumps(name, ensure_ascii=ascii or not name.isprintable())[1:-1]
    return f"`{escaped.replace(chr(92) + chr(34), chr(34)).replace('`', chr(92) + 'u0060')}`"


def quoted_string(text: str, ascii: bool = False) -> str:
    """The text between double quotes."""
    return json.dumps(text, ensure_ascii=ascii or not text.isprintable())


def unquoted(token: str) -> str | None:
    """What stands between the quotes or backticks of a token, None where an escape is wrong."""
    body = token[1:-1] if token[0] == '"' else re.sub(r'"', r"\\u0022", token[1:-1])
    try:
        return json.loads(f'"{body}"')
    except ValueError:
        return None


def glyph(row: Builtin, ascii: bool = False) -> str:
    """The first spelling of an infix or prefix builtin."""
    return next(g for g in row.glyphs if not ascii or g.isascii())


def number(value: bool | int | float, element: Scalar) -> str:
    """The shortest literal that has exactly this value and this type."""
    if element == BOOL:
        return "true" if value else "false"
    if element == INT32:
        return str(value)
    if element.is_integer:
        return f"{element}({value})"
    if element == FLOAT64:
        return repr(value)
    assert isinstance(value, float)
    short = str(np.float64(value).astype(DTYPES[element]))
    if not math.isfinite(value) or float(np.float64(float(short)).astype(DTYPES[element])) != value:
        short = repr(value)
    return f"{short}f" if element == FLOAT32 and math.isfinite(value) else f"{element}({short})"


def usage(row: Builtin) -> str:
    """How a builtin is called: `pos(dim, x)`.

    >>> usage(TABLE["reduce"])
    'reduce(f, x[, dim])(x, ...)'
    """
    groups: list[str] = []
    for group in row.form:
        text = ""
        for slot in group:
            word = _SLOT_WORDS.get(slot, slot.rstrip("?"))
            text += f"[, {word}]" if slot.endswith("?") else f"{', ' if text else ''}{word}"
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
