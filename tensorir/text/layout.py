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
    """Parts in a row. Blocks `alone` are laid out on one line by themselves if they fit, others as what they are in."""

    parts: tuple[Document, ...]
    width: int
    lead: int
    """Up to the first break."""
    has_break: bool
    alone: bool
    indent: int


Document = str | Break | Block


def _block(parts: tuple[Document, ...], alone: bool, indent: int) -> Block:
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
    """The text of a document."""
    out: list[str] = []
    column = 0
    stack: list[tuple[int, bool, Document]] = [(0, False, document)]
    while stack:
        level, flat, part = stack.pop()
        match part:
            case str():
                out.append(part)
                column += len(part)
            case Break() if flat:
                out.append(part.flat)
                column += part.width
            case Break():
                column = min(2 * level, _MAX_INDENT)
                out.append("\n" + " " * column)
            case Block():
                if part.alone:
                    flat = flat or part.width + _trailing(stack, width) <= width - column
                level += part.indent
                stack.extend((level, flat, inner) for inner in reversed(part.parts))
    return "\n".join(line.rstrip() for line in "".join(out).split("\n"))


def _trailing(stack: list[tuple[int, bool, Document]], enough: int) -> int:
    """The width of what follows on the same line."""
    total = 0
    for _, flat, part in reversed(stack):
        match part:
            case str():
                total += len(part)
            case Break():
                if not flat:
                    break
                total += part.width
            case Block():
                total += part.width if flat else part.lead
                if part.has_break and not flat:
                    break
        if total > enough:
            break
    return total
