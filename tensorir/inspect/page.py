"""Pieces of HTML: a foldable tree, one style for light and dark, and the only place where text becomes markup.

`Markup` is HTML that is safe to put on a page; everything else is escaped on its way there. Nothing is loaded from
elsewhere and nothing runs: folding is HTML's own `<details>`.

>>> markup("<b>{}</b>{}", "<script>", Markup("<i>kept</i>"))
'<b>&lt;script&gt;</b><i>kept</i>'
>>> "<summary>f</summary>" in page(Fold(markup("f"), (Fold(markup("x")),)))
True
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tensorir.binding.arrays import Array
from tensorir.inspect.colours import hue
from tensorir.inspect.theme import themed
from tensorir.ir.types import Dims, FunctionType, Interval, TensorType, Type

__all__ = ["Fold", "Markup", "coloured", "joined", "markup", "page", "pre", "range_of", "table"]

MAX_DEPTH = 32
"""Levels of a tree that are shown."""
MAX_NODES = 400
"""Nodes of a tree that are shown."""
MAX_TEXT = 400
"""Characters of a name, a unit or a label that are shown."""


class Markup(str):
    """HTML that was made here, of text that was escaped."""

    __slots__ = ()


def markup(template: str, *parts: object) -> Markup:
    """The template, which is HTML, with every part in its place; what is no Markup is escaped."""
    return Markup(template.format(*map(_safe, parts)))


def _safe(part: object) -> str:
    if isinstance(part, Markup):
        return part
    text = str(part)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
    # a character that no page can hold is shown as its replacement
    return html.escape("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text))


def joined(parts: Iterable[Markup], between: str = "") -> Markup:
    """Pieces one after the other; `between` is HTML."""
    return Markup(between.join(parts))


def pre(text: str) -> Markup:
    """A text as it is, however long."""
    return Markup(f"<pre>{html.escape(text)}</pre>")


@dataclass(frozen=True, slots=True)
class Fold:
    """One node of a foldable tree: a line, and what unfolds under it."""

    head: Markup
    children: tuple[Fold, ...] = ()
    open: bool = True


def page(*roots: Fold | Markup) -> str:
    """Trees and other pieces as one piece of HTML with its style; what is beyond the limits is counted, not shown."""
    return f'<div class="tensorir"><style>{STYLE}</style>{"".join(map(_rendered, roots))}</div>'


def _rendered(root: Fold | Markup) -> str:
    if isinstance(root, Markup):
        return root
    parts: list[str] = []
    shown = 0
    stack: list[tuple[Fold, int] | str] = [(root, 0)]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        node, depth = item
        if shown >= MAX_NODES:
            stack = [s for s in stack if isinstance(s, str)]
            parts.append('<div class="more">… more is not shown</div>')
            continue
        shown += 1
        if not node.children:
            parts.append(f'<div class="leaf">{node.head}</div>')
        elif depth >= MAX_DEPTH:
            parts.append(f'<div class="leaf">{node.head} <span class="more">… more below is not shown</span></div>')
        else:
            parts.append(f"<details{' open' if node.open else ''}><summary>{node.head}</summary>")
            stack.append("</details>")
            stack.extend((child, depth + 1) for child in reversed(node.children))
    return "".join(parts)


def range_of(values: Array) -> Markup:
    """The least and the largest number, and how many are none."""
    if not values.size or values.dtype.kind not in "iuf":
        return Markup("")
    kept = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not kept.size:
        return markup(' <span class="where">{}</span>', "no finite number")
    missing = values.size - kept.size
    lost = f", {missing:,} not finite" if missing else ""
    return markup(' <span class="where">{:} to {:}{}</span>', f"{kept.min():.6g}", f"{kept.max():.6g}", lost)


def coloured(thing: Dims | Interval | Type) -> Markup:
    """A type, or dims, or an interval, each dim in its colour."""
    match thing:
        case Interval():
            return markup('<code class="interval">{}</code>', thing)
        case Dims():
            dims = [markup('<span class="dim" style="--hue:{}">{}{}</span>', hue(n), n, i) for n, i in thing.items]
            return joined(dims, " ") if dims else markup('<span class="none">{}</span>', "no dims")
        case TensorType():
            element = str(TensorType(thing.element)).removeprefix("tensor<").removesuffix(">")
            inner = markup(" {}", coloured(thing.dims)) if thing.dims.items else Markup("")
            return markup('<code class="type"><span class="element">{}</span>{}</code>', element, inner)
        case FunctionType():
            made = joined((coloured(r) for r in thing.results), ", ")
            shown = made if len(thing.results) == 1 else markup("{{{}}}", made)
            return markup("({}) → {}", joined((coloured(p) for p in thing.params), ", "), shown)


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Markup:
    """A table; cells that are no Markup are escaped."""
    titles = joined(markup("<th>{}</th>", h) for h in head)
    body = joined(markup("<tr>{}</tr>", joined(markup("<td>{}</td>", c) for c in row)) for row in rows)
    return markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", titles, body)


LIGHT = "--ink:#222;--pale:#777;--line:#ccc;--light:34%;--error:#b00020;--old:#fbe3e3;--new:#ddf3e1;--mark:#e3eafc"
DARK = "--ink:#ddd;--pale:#999;--line:#555;--light:74%;--error:#ff8a80;--old:#5a2a2a;--new:#22482c;--mark:#2f3f63"
STYLE = f"""
.tensorir{{{LIGHT};color:var(--ink);font-size:13px;line-height:1.5}}
{themed({".tensorir": LIGHT}, {".tensorir": DARK})}
.tensorir details>details,.tensorir details>.leaf,.tensorir details>.more{{margin-left:1.2em}}
.tensorir .leaf{{padding-left:1em}}
.tensorir summary{{cursor:pointer}}
.tensorir code,.tensorir pre{{font-family:monospace;background:none;color:inherit;margin:0}}
.tensorir .dim{{color:hsl(var(--hue) 75% var(--light));font-weight:600}}
.tensorir .element,.tensorir .none,.tensorir .more,.tensorir .where{{color:var(--pale)}}
.tensorir .name{{font-weight:700}}
.tensorir .op{{font-family:monospace}}
.tensorir .type{{margin-left:.7em}}
.tensorir .error{{color:var(--error);font-weight:700}}
.tensorir .old{{background:var(--old)}}
.tensorir .new{{background:var(--new)}}
.tensorir pre{{white-space:pre-wrap}}
.tensorir .text [title]:hover:not(:has([title]:hover)){{background:var(--mark)}}
.tensorir table{{border-collapse:collapse;margin:.4em 0;font-size:inherit;color:inherit}}
.tensorir th,.tensorir td{{text-align:left;padding:.1em .8em .1em 0;border-bottom:1px solid var(--line)}}
.tensorir svg{{max-width:100%;height:auto}}
"""
