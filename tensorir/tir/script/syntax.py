"""Python's grammar for TVMScript, and what is refused before Python's parser sees a text.

What is refused before Python's parser sees a text: size, nesting, long literals, long chains, odd characters.

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

import ast
import re
import warnings
from array import array
from typing import NoReturn, Protocol, TypeAlias

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Source, Span, refuse

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
    raise refuse(code, message, help, at=Span(source, start, start + 1 if stop is None else stop))


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


# Python's grammar, for text that passed the pre-scan: a tree of `ast`, and spans of its nodes.
#
# `compile` is called with the flag that stops after the tree: no code is made, nothing runs.


class _Node(Protocol):
    """A node of `ast` that knows its place."""

    lineno: int
    col_offset: int
    end_lineno: int | None
    end_col_offset: int | None


Located: TypeAlias = "_Node | Span"
"""What a message can point at."""


class Failure(DiagnosticError):
    """A piece of a text is wrong; carries no diagnostic where an earlier one already says why."""


class Text:
    """A source with its tree; turns nodes into spans and complaints about them into diagnostics."""

    def __init__(self, source: Source, python: bool = False) -> None:
        self.source = source
        prescan(source, python)
        self.tree: ast.Module = _tree(source)
        self._lines = _split(source.text)
        self._ascii = source.text.isascii()
        self._columns: dict[int, array[int]] = {}
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: Located) -> Span:
        """The characters of a node."""
        if isinstance(node, Span):
            return node
        last, column = node.end_lineno, node.end_col_offset
        if last is None or column is None:
            return NOWHERE
        if self._ascii:
            starts = self._starts
            return Span(self.source, starts[node.lineno - 1] + node.col_offset, starts[last - 1] + column)
        return Span(self.source, self._offset(node.lineno, node.col_offset), self._offset(last, column))

    def _offset(self, line: int, column: int) -> int:
        """Columns of `ast` count bytes of UTF-8."""
        if self._lines[line - 1].isascii():
            return self._starts[line - 1] + column
        if line not in self._columns:
            self._columns[line] = _columns(self._lines[line - 1])
        return self._starts[line - 1] + self._columns[line][column]

    def fail(self, node: Located, code: str, message: str, help: str = "") -> NoReturn:
        """Raise one diagnostic about a node."""
        raise Failure(Diagnostic(code, message, self.span(node), help=help))


def parse_expression(text: str, source: Source, span: Span) -> ast.expr:
    """The tree of an expression in quotes (`T.Buffer(("n", 4))`); its nodes take the place of the string."""
    if len(text) > 200:
        raise Failure(Diagnostic("TS04", "an expression in quotes may have 200 characters.", span))
    try:
        inner = Source(source.name, text)
        prescan(inner)
        module = _tree(inner)
    except DiagnosticError as error:
        raise Failure(Diagnostic("TS05", f"{text!r} is no expression.", span)) from error
    if len(module.body) != 1 or not isinstance(module.body[0], ast.Expr):
        raise Failure(Diagnostic("TS05", f"{text!r} is no expression.", span))
    return module.body[0].value


def _columns(line: str) -> array[int]:
    """For each byte of a line in UTF-8, and its end, the character that it belongs to.

    >>> list(_columns("aéb"))
    [0, 1, 1, 2, 3]
    """
    found = array("L")
    for place, character in enumerate(line):
        found.extend([place] * len(character.encode()))
    found.append(len(line))
    return found


_NO_FILE = "\ud800"
"""Where a text is wrong, Python's parser opens the file of its name to quote a line; no file can have this name."""


def _split(text: str) -> list[str]:
    """Lines as Python's tokenizer counts them: form feeds and other separators of Unicode do not end one."""
    return [piece + "\n" for piece in text.replace("\r\n", " \n").replace("\r", "\n").split("\n")]


def _tree(source: Source) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.text, filename=_NO_FILE)
    except SyntaxError as error:
        raise refuse("TS05", _sentence(error), at=_place(source, error)) from None
    except (RecursionError, MemoryError, ValueError, OverflowError):
        whole = Span(source, 0, min(1, len(source.text)))
        raise refuse("TS03", "the text is nested too deeply to be read.", at=whole) from None


def _sentence(error: SyntaxError) -> str:
    message = (error.msg or "invalid syntax").split("(<")[0].strip().rstrip(".")
    return f"this is no Python: {message}."


def _place(source: Source, error: SyntaxError) -> Span:
    lines = source.text.split("\n")
    line = max(1, min(error.lineno or 1, len(lines)))
    start = sum(len(text) + 1 for text in lines[: line - 1])
    column = max(0, min((error.offset or 1) - 1, len(lines[line - 1])))
    stop = start + column + 1
    if error.end_lineno == line and error.end_offset and error.end_offset - 1 > column:
        stop = start + min(error.end_offset - 1, len(lines[line - 1]))
    return Span(source, start + column, max(stop, start + column + 1))
