"""What is refused before Python's parser sees a text: size, nesting, long literals, long chains, odd characters.

Python's parser is safe only within its own limits (it raises RecursionError and MemoryError beyond them, and builds
trees of any size below them). One pass of a regular expression holds a text to limits that leave room for every
module that TVM prints.

>>> from tensorir.runtime.errors import Source
>>> prescan(Source("ok.py", "x = (1 + 2)"))
>>> prescan(Source("deep.py", "x = " + "(" * 100))
Traceback (most recent call last):
tensorir.runtime.errors.DiagnosticError: deep.py:1:85: error[TS02]: brackets are nested more than 80 deep here.
...
"""

from __future__ import annotations

import re
from typing import NoReturn

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source, Span

__all__ = [
    "MAX_BRACKETS",
    "MAX_CHAIN",
    "MAX_CHARACTERS",
    "MAX_INDENTS",
    "MAX_NUMBER",
    "MAX_POSTFIX",
    "MAX_STRING",
    "MAX_TOKENS",
    "prescan",
]

MAX_CHARACTERS = 8_000_000
MAX_TOKENS = 400_000
MAX_BRACKETS = 80
MAX_INDENTS = 90
MAX_CHAIN = 1_000
MAX_POSTFIX = 100
MAX_NUMBER = 400
MAX_STRING = 100_000

_TOKEN = re.compile(
    r"""
      (?P<newline>\r\n|\r|\n)
    | (?P<space>[ \t\f]+|\\\r?\n)
    | (?P<comment>\#[^\r\n]*)
    | (?P<string>(?i:[rbuf]|br|rb|fr|rf)?(?:'''(?:[^\\']|\\.|'(?!''))*+'''|\"\"\"(?:[^\\"]|\\.|"(?!""))*+\"\"\"
                                      |'(?!'')(?:[^\\'\r\n]|\\(?s:.))*+'|"(?!"")(?:[^\\"\r\n]|\\(?s:.))*+"|''|""))
    | (?P<number>(?:[0-9]|\.[0-9])(?:[eE][+-]|[\w.])*+)
    | (?P<name>[^\W\d]\w*)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<comma>[,;])
    | (?P<operator>[-+*/%@&|^~<>=!:.]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_CHAINING = frozenset(["and", "or", "not", "if", "else", "lambda", "in", "is", "await", "yield"])
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def prescan(source: Source, python: bool = False) -> None:
    """Raise a located diagnostic unless `source` keeps to the limits; a whole file in `python` has f-strings, too."""
    text = source.text
    if len(text) > MAX_CHARACTERS:
        _refuse(source, MAX_CHARACTERS, "TS01", f"the text has more than {MAX_CHARACTERS:,} characters.")
    _characters(source)
    tokens = 0
    chain = 0  # operators since the last comma, at this level and the enclosing ones: bounds the depth of the tree
    postfix = 0  # calls and subscripts in a row: `f(x)(y)[z]`
    levels: list[tuple[str, int, int, int]] = []
    indents = [0]
    line_start = 0
    fresh = True
    position, end = 0, len(text)
    match_token = _TOKEN.match
    while position < end:
        match = match_token(text, position)
        if match is None:
            _unknown(source, position)
        kind = match.lastgroup
        start, position = position, match.end()
        if kind == "space":
            continue
        if kind == "newline":
            if not levels:
                chain = postfix = 0
                fresh = True
            line_start = position
            continue
        if kind == "comment":
            continue
        tokens += 1
        if tokens > MAX_TOKENS:
            _refuse(source, start, "TS01", f"the text has more than {MAX_TOKENS:,} tokens.")
        if fresh:
            fresh = False
            _indent(source, indents, start - line_start, start)
        if kind == "operator" or (kind == "name" and match.group() in _CHAINING):
            # `- - - x` without the blanks is one match of several operators.
            chain += 1 if position - start <= 3 else position - start
            postfix = 0
            if chain > MAX_CHAIN:
                _refuse(source, start, "TS03", f"more than {MAX_CHAIN:,} operators are chained here.")
        elif kind == "open":
            if len(levels) >= MAX_BRACKETS:
                _refuse(source, start, "TS02", f"brackets are nested more than {MAX_BRACKETS} deep here.")
            levels.append((match.group(), chain, start, postfix))
            chain += 1
            postfix = 0
        elif kind == "close":
            if not levels or _PAIRS[levels[-1][0]] != match.group():
                _refuse(source, start, "TS05", f"this {match.group()!r} closes no bracket.")
            _, chain, _, postfix = levels.pop()
            postfix += 1
            if postfix > MAX_POSTFIX:
                _refuse(source, start, "TS03", f"more than {MAX_POSTFIX} calls or subscripts follow each other here.")
        elif kind == "comma":
            chain = levels[-1][1] + 1 if levels else 0
            postfix = 0
        elif kind == "number" and position - start > MAX_NUMBER:
            _refuse(source, start, "TS04", f"this number has more than {MAX_NUMBER} characters.", position)
        elif kind == "string":
            _string(source, match.group(), start, python)
    if levels:
        _refuse(source, levels[-1][2], "TS05", f"this {levels[-1][0]!r} is never closed.")


def _refuse(source: Source, start: int, code: str, message: str, stop: int | None = None, help: str = "") -> NoReturn:
    raise DiagnosticError(
        Diagnostic(code, message, Span(source, start, start + 1 if stop is None else stop), help=help)
    )


def _characters(source: Source) -> None:
    """No characters that Python's parser chokes on: null, and halves of surrogate pairs."""
    text = source.text
    if text.isascii():
        at = text.find("\0")
    else:
        found = re.search("[\0\ud800-\udfff]", text)
        at = -1 if found is None else found.start()
    if at >= 0:
        _refuse(source, at, "TS05", f"the character U+{ord(text[at]):04X} cannot stand in a text.")


def _indent(source: Source, indents: list[int], column: int, start: int) -> None:
    while indents[-1] > column:
        indents.pop()
    if indents[-1] < column:
        indents.append(column)
        if len(indents) > MAX_INDENTS:
            _refuse(source, start, "TS02", f"statements are nested more than {MAX_INDENTS} deep here.")


def _string(source: Source, token: str, start: int, python: bool) -> None:
    prefix = token[: min(i for i in (token.find("'"), token.find('"')) if i >= 0)].lower()
    if "f" in prefix and not python:
        _refuse(source, start, "TS07", "f-strings are no part of TVMScript.", start + len(token))
    if "b" in prefix and not python:
        _refuse(source, start, "TS07", "bytes are no part of TVMScript.", start + len(token))
    if len(token) > MAX_STRING:
        _refuse(source, start, "TS04", f"this string has more than {MAX_STRING:,} characters.")


def _unknown(source: Source, position: int) -> NoReturn:
    character = source.text[position]
    if character in "'\"":
        _refuse(source, position, "TS05", "this string is never closed.")
    _refuse(source, position, "TS05", f"the character {character!r} has no meaning here.")
