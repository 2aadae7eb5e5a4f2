"""Python's grammar, for text that passed the pre-scan: a tree of `ast`, and spans of its nodes.

`compile` is called with the flag that stops after the tree: no code is made, nothing runs.
"""

from __future__ import annotations

import ast
import warnings
from array import array
from typing import NoReturn, Protocol, TypeAlias

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Source, Span
from tensorir.tir.script.prescan import prescan

__all__ = ["Failure", "Located", "Text", "parse_expression"]


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
        raise DiagnosticError(Diagnostic("TS05", _sentence(error), _place(source, error))) from None
    except (RecursionError, MemoryError, ValueError, OverflowError):
        whole = Span(source, 0, min(1, len(source.text)))
        raise DiagnosticError(Diagnostic("TS03", "the text is nested too deeply to be read.", whole)) from None


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
