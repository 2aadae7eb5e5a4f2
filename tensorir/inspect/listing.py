"""The text of a program as a page shows it: what each name and each piece is appears on hover, dims have their colour.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(x) - x; }")
>>> '<span title="tensor&lt;float, I[-1:4]&gt;">⟪' in listing(f)
True
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from tensorir.inspect.colours import hue
from tensorir.inspect.page import MAX_NODES, Markup, markup, pre
from tensorir.ir.nodes import Fencil, Literal, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import Source
from tensorir.text import parse
from tensorir.text.lexer import tokenize

__all__ = ["listing", "plain_listing"]

MAX_CHARACTERS = 20_000
"""Of a program's text on a page."""
MAX_MARKS = 4 * MAX_NODES
"""Pieces of a text that say on hover what they are."""


class _Mark(NamedTuple):
    """A piece of the text, and the tag that it is put into."""

    start: int
    stop: int
    tag: Markup


def listing(fencil: Fencil) -> Markup:
    """The text of a program; hovering over a name or an expression shows its type with the intervals."""
    text = str(fencil)
    if len(text) > MAX_CHARACTERS:
        return plain_listing(text)
    # the text parses back to the same program, whose spans are places of this text
    read: Fencil = parse(text)
    marks = {(m.start, m.stop): m for m in (*_expressions(read), *_names(read, text))}
    ordered = sorted(marks.values(), key=lambda m: (m.start, -m.stop))
    return Markup(f'<pre class="text">{"".join(_nested(text, ordered[:MAX_MARKS]))}</pre>')


def plain_listing(text: str) -> Markup:
    """A text without its types, of which what is beyond the limit is counted."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}\n… {len(text) - MAX_CHARACTERS:,} more characters are not shown"
    return pre(text)


def _expressions(fencil: Fencil) -> Iterator[_Mark]:
    """Everything that is computed. A later mark of one piece of text stands for it: a node comes after its operands."""
    for node in postorder(*(c.value for c in fencil.closures)):
        # a variable's span is where it was declared
        if not isinstance(node, (Var, Literal)) and node.span.source is fencil.span.source:
            yield _Mark(node.span.start, node.span.stop, markup('<span title="{}">', node.type))


def _names(fencil: Fencil, text: str) -> Iterator[_Mark]:
    """Variables with their types, bold where a line gives them a value, and dims in their colours."""
    nodes = [*fencil.params, *postorder(*(c.value for c in fencil.closures))]
    # closures may give one name to several things: it is what was declared last
    declared: dict[str, dict[int, Any]] = defaultdict(dict)
    for node in nodes:
        if isinstance(node, Var) or node.label:
            declared[node.name if isinstance(node, Var) else node.label][node.span.start] = node.type
    dims = {name for node in nodes if isinstance(node.type, TensorType) for name in node.type.dims.names}
    targets = {c.span.start: c.target for c in fencil.closures}
    tokens = tokenize(Source("", text)).tokens
    for (before, token), (_, after) in pairwise(pairwise(tokens)):
        name = token.text.strip("`")
        if token.kind not in ("name", "quoted"):
            continue
        if name in dims and (before.text in ("⟪", ",") or after.text == "["):
            yield _Mark(token.start, token.stop, markup('<span class="dim" style="--hue:{}">', hue(name)))
        elif token.start in targets:
            yield _Mark(token.start, token.stop, markup('<span class="name" title="{}">', targets[token.start]))
        elif places := declared.get(name):
            # the value of a let stands after its name
            bound = before.text == "let"
            known = [place for place in places if (place > token.start) == bound]
            given = Markup(' class="name"' if bound or after.text == ":" else "")
            if known:
                kind = places[min(known) if bound else max(known)]
                yield _Mark(token.start, token.stop, markup('<span{} title="{}">', given, kind))


def _nested(text: str, marks: list[_Mark]) -> Iterator[str]:
    """The text with its marks inside of each other; one that begins in another and ends outside is left out."""
    place, open_ = 0, list[int]()
    for mark in marks:
        while open_ and open_[-1] <= mark.start:
            yield html.escape(text[place : open_[-1]]) + "</span>"
            place = open_.pop()
        if open_ and mark.stop > open_[-1]:
            continue
        yield html.escape(text[place : mark.start]) + mark.tag
        place = mark.start
        open_.append(mark.stop)
    for stop in reversed(open_):
        yield html.escape(text[place:stop]) + "</span>"
        place = stop
    yield html.escape(text[place:])
