"""Modules as pages: the printed text, folded at its regions, what touches memory and what branches in colour."""

from __future__ import annotations

import re

from tensorir.inspect.pages import Fold, Markup, markup, page, pre
from tensorir.tile.nodes import Module
from tensorir.tile.operations import TABLE
from tensorir.tile.picture import picture
from tensorir.tile.types import TileView

__all__ = ["page_of", "view_of"]

LONG = 60
"""Lines from which on regions inside of an entry are folded."""
_OPERATION = re.compile(r"((?:%[^=]*= )?)((?:cuda_tile\.)?[a-z_0-9$]+)(.*)", re.DOTALL)
_STYLE = """<style>
.tensorir .tile{font-family:monospace;white-space:pre-wrap}
.tensorir .op{color:hsl(var(--hue) 75% var(--light));font-weight:600}
</style>"""


def page_of(module: Module) -> str:
    """A module as a piece of HTML; everything in it is escaped, and nothing is loaded from elsewhere.

    >>> from tensorir.tile import parse
    >>> "@f" in page_of(parse("entry @f() {}"))
    True
    """
    lines = str(module).splitlines()
    return page(Markup(_STYLE), *_folds(lines, len(lines) >= LONG))


def view_of(view: TileView) -> str:
    """A view as its picture, or as its text where it has no extents to draw, or more than two dims."""
    if len(view.tile) > 2 or None in view.tensor.shape:
        return page(pre(str(view)))
    return picture(view)._repr_html_()  # pyright: ignore[reportPrivateUsage]


def _folds(lines: list[str], long: bool) -> list[Fold]:
    """A tree of lines: one that ends in `{` holds those up to its closing brace."""
    stack: list[tuple[str, list[Fold]]] = [("", [])]
    for line in lines:
        text = line.strip()
        if text.startswith("}"):
            head, below = stack.pop()
            stack[-1][1].append(Fold(_coloured(head), tuple(below), not long or len(stack) < 3))
            text = text[1:].strip()
        if text.endswith("{"):
            stack.append((text, []))
        elif text:
            stack[-1][1].append(Fold(_coloured(text)))
    return stack[0][1]


def _coloured(text: str) -> Markup:
    found = _OPERATION.fullmatch(text)
    row = TABLE.get(found[2].removeprefix("cuda_tile.")) if found else None
    if found is None or row is None:
        return markup('<span class="tile">{}</span>', text)
    hue = 25 if row.name.endswith(("_tko", "alloca")) else 285 if row.regions or row.ends else 210 if row.pure else 60
    return markup(
        '<span class="tile">{}<span class="op" style="--hue:{}">{}</span>{}</span>', found[1], hue, found[2], found[3]
    )
