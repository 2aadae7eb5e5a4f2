"""Text that breaks where a line is full: documents of strings, breaks and groups, and their rendering.

A group stands on one line if it fits; otherwise all of its own breaks become new lines. Rendering takes linear time
at any depth. Indentation stops growing at a limit, so that deep nesting leaves room for text.

>>> print(render(group("f(", nested(EMPTY, "first,", SPACE, "second"), EMPTY, ")"), width=12))
f(
  first,
  second
)
"""

from __future__ import annotations

from dataclasses import dataclass

_MAX_INDENT = 40
_ENDLESS = 10**9


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a line may end; on one line it is `flat`."""

    flat: str
    width: int


SPACE = Break(" ", 1)
EMPTY = Break("", 0)
LINE = Break("", _ENDLESS)
"""A line ends here in any case."""


@dataclass(frozen=True, slots=True)
class Block:
    """A sequence of parts (strings, breaks, blocks).

    A block that is `alone` is put on one line if it fits; others break when the enclosing block does. `width` is the
    length on one line, `lead` that up to the first break, `indent` the levels that lines in it are indented by.
    """

    parts: tuple[Document, ...]
    width: int
    lead: int
    """Up to the first break."""
    has_break: bool
    alone: bool
    indent: int


Document = str | Break | Block


def _block(parts: tuple[Document, ...], alone: bool, indent: int) -> Block:
    """A block with its width, lead and breaks computed from its parts."""
    width, lead, has_break = 0, 0, False
    for part in parts:
        width += len(part) if isinstance(part, str) else part.width
        if not has_break:
            match part:
                case str():
                    lead += len(part)
                case Break():
                    has_break = True
                case Block():
                    lead, has_break = lead + part.lead, part.has_break
    return Block(parts, min(width, _ENDLESS), lead, has_break, alone, indent)


def group(*parts: Document) -> Block:
    """On one line if it fits."""
    return _block(parts, True, 0)


def nested(*parts: Document) -> Block:
    """Lines that begin in it are indented."""
    return _block(parts, False, 1)


def together(*parts: Document) -> Block:
    """Parts in a row, broken as what they are in."""
    return _block(parts, False, 0)


def joined(documents: list[Document], *separators: Document) -> list[Document]:
    """The documents with separators between them."""
    result: list[Document] = []
    for index, document in enumerate(documents):
        if index:
            result.extend(separators)
        result.append(document)
    return result


def render(document: Document, width: int) -> str:
    """The text of a document, with groups on one line where they fit into `width` (Wadler's pretty printer)."""
    pieces: list[str] = []
    column = 0
    stack: list[tuple[int, bool, Document]] = [(0, False, document)]
    while stack:
        indent_level, flat, part = stack.pop()
        match part:
            case str():
                pieces.append(part)
                column += len(part)
            case Break() if flat:
                pieces.append(part.flat)
                column += part.width
            case Break():
                column = min(2 * indent_level, _MAX_INDENT)
                pieces.append("\n" + " " * column)
            case Block():
                if part.alone:
                    flat = flat or part.width + _trailing(stack, width) <= width - column
                indent_level += part.indent
                stack.extend((indent_level, flat, inner) for inner in reversed(part.parts))
    return "\n".join(line.rstrip() for line in "".join(pieces).split("\n"))


def _trailing(stack: list[tuple[int, bool, Document]], limit: int) -> int:
    """The length of the text that follows on the same line, up to the first break that ends it or `limit`."""
    length = 0
    for _, flat, part in reversed(stack):
        match part:
            case str():
                length += len(part)
            case Break():
                if not flat:
                    break
                length += part.width
            case Block():
                length += part.width if flat else part.lead
                if part.has_break and not flat:
                    break
        if length > limit:
            break
    return length
