"""A picture as SVG: few shapes, a colour per dim, light or dark as the page has it.

Notebooks show it, and it is saved. It is light or dark as the page is in which it stands, and only where a page says
nothing as the system is: notebooks say it by an attribute (JupyterLab, VS Code), pages of documents by theirs (Sphinx,
mkdocs-material), and xarray's own pages follow the same ones. A dim has one colour in every page and picture.

>>> drawing = Drawing("one box", 40, 20)
>>> drawing.rect(1, 1, 38, 18, fill="none")
>>> drawing.text(20, 14, "<a>", anchor="middle")
>>> "&lt;a&gt;" in drawing.picture("a box").svg
True
>>> hue("I") != hue("J"), hue("Edge") == hue("_NB_Edge")
(True, True)
>>> print(themed({".a": "color:black"}, {".a": "color:white"}).splitlines()[0])
@media (prefers-color-scheme: dark){.a{color:white}}
"""

from __future__ import annotations

import colorsys
import html
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorir.ir.types import NEIGHBOUR
from tensorir.runtime.errors import refuse

DARK = (
    "html[theme=dark]", "html[data-theme=dark]", "body[data-theme=dark]", "body[data-jp-theme-light=false]",
    "body.vscode-dark", "[data-md-color-scheme=slate]",
)  # fmt: skip
LIGHT = (
    "html[theme=light]", "html[data-theme=light]", "body[data-theme=light]", "body[data-jp-theme-light=true]",
    "body.vscode-light", "[data-md-color-scheme=default]",
)  # fmt: skip
"""What is on pages that say which they are."""


def themed(light: Mapping[str, str], dark: Mapping[str, str]) -> str:
    """CSS rules for light and dark pages, by selector: by the system's preference, and by marks that known pages
    carry.
    """
    lines = [f"@media (prefers-color-scheme: dark){{{_rules('', dark)}}}"]
    lines += [_rules(f":is({','.join(pages)}) ", rules) for pages, rules in ((LIGHT, light), (DARK, dark))]
    return "\n".join(lines)


def _rules(before: str, rules: Mapping[str, str]) -> str:
    return "".join(f"{before}{selector}{{{declared}}}" for selector, declared in rules.items())


_USUAL = {"I": 210, "J": 25, "K": 140, "Vertex": 280, "Edge": 345, "Cell": 175}
"""Far apart for the dims that programs usually have together."""


def hue(dim: str) -> int:
    """The colour of a dim as an angle in degrees; neighbour dims have the colour of their source."""
    name = dim.removeprefix(NEIGHBOUR)
    return _USUAL.get(name, zlib.crc32(name.encode()) % 360)


def middle(hue: int, lightness: float = 0.5) -> str:
    """A colour of a hue, as a hex string, that is visible on white and on black."""
    red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness, 0.66)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


INK, PALE, LINE, PAPER = "#222222", "#777777", "#c4c4c4", "#ffffff"
"""What has no colour of its own; on dark paper it is turned around."""
FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_DARK = {INK: "#e2e2e2", PALE: "#a0a0a0", LINE: "#565656", PAPER: "#1e1e1e"}
_CLASSES = {INK: "ink", PALE: "pale", LINE: "line", PAPER: "paper"}
SIZE = 12
"""The height of letters in points."""
WIDTH_OF_A_LETTER = 0.61
"""Of their height, in the fixed-width fonts that are asked for."""


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A picture and what it says in words; notebooks show it, `save` writes it as .svg or .html."""

    svg: str
    words: str
    data: Any = field(default=None, compare=False)
    """What was drawn, to compute with."""

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        return f"<picture: {self.words.partition(chr(10))[0]}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}</div>"

    def save(self, path: str | Path) -> None:
        """Write the picture to a file; raises I04 for a kind of file that it is not."""
        path = Path(path)
        if path.suffix not in (".svg", ".html"):
            raise refuse("I04", f"a picture is not saved as '{path.suffix}'.", "use .svg or .html.")
        path.write_text(self.svg if path.suffix == ".svg" else self._repr_html_(), encoding="utf-8")


def width_of(text: str, size: float = SIZE) -> float:
    """The width of a text."""
    return len(text) * size * WIDTH_OF_A_LETTER


@dataclass(slots=True)
class Drawing:
    """An SVG drawing: shapes are appended to `parts`, later ones above earlier ones."""

    title: str
    width: float
    height: float
    parts: list[str] = field(default_factory=list[str])

    def rect(
        self, x: float, y: float, width: float, height: float, *, fill: str = PAPER, stroke: str = LINE,
        thick: float = 1.0, opacity: float = 1.0, round: float = 0.0, title: str = "",
    ) -> None:  # fmt: skip
        """Appends a rectangle; `round` is the radius of its corners, `title` is shown on hover."""
        self._add(
            "rect", f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round:g}"',
            fill, stroke, thick, opacity, title,
        )  # fmt: skip

    def circle(
        self, x: float, y: float, radius: float, *, fill: str = PAPER, stroke: str = LINE, thick: float = 1.0,
        title: str = "",
    ) -> None:  # fmt: skip
        """Appends a circle; `title` is shown on hover."""
        self._add("circle", f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"', fill, stroke, thick, 1.0, title)

    def path(
        self, d: str, *, stroke: str = LINE, thick: float = 1.0, fill: str = "none", opacity: float = 1.0,
        title: str = "",
    ) -> None:  # fmt: skip
        """Appends a path of SVG commands `d`; `title` is shown on hover."""
        self._add("path", f'd="{d}"', fill, stroke, thick, opacity, title)

    def line(self, x: float, y: float, x2: float, y2: float, *, stroke: str = LINE, thick: float = 1.0) -> None:
        self.path(f"M{x:.1f} {y:.1f}L{x2:.1f} {y2:.1f}", stroke=stroke, thick=thick)

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", colour: str = INK, size: float = SIZE,
        bold: bool = False,
    ) -> None:  # fmt: skip
        """Appends a text at its baseline, with room behind a "start"; `anchor` is "start", "middle" or "end"."""
        if anchor == "start":
            self.width = max(self.width, x + width_of(text, size) + 8)
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}"{weight} '
            f"{_paint('fill', colour)}>{_escaped(text)}</text>"
        )

    def picture(self, words: str, data: Any = None) -> Picture:
        """The drawing as a `Picture`, with `words` as its text and `data` for computing."""
        style = f"<style>{themed(_inks({c: c for c in _DARK}), _inks(_DARK))}</style>"
        return Picture(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" font-family="{FONT}" '
            f'style="max-width:100%;height:auto" role="img" aria-label="{_escaped(self.title)}">{style}'
            f'<rect width="100%" height="100%" {_paint("fill", PAPER)}/>{"".join(self.parts)}</svg>',
            words,
            data,
        )

    def _add(
        self, kind: str, geometry: str, fill: str, stroke: str, thick: float, opacity: float, title: str
    ) -> None:  # fmt: skip
        """Appends a shape; `title` is shown on hover."""
        opacity_text = f' opacity="{opacity:g}"' if opacity != 1.0 else ""
        title_text = f"<title>{_escaped(title)}</title>" if title else ""
        paint = _classes({"fill": fill, "stroke": stroke})
        self.parts.append(f'<{kind} {geometry} {paint} stroke-width="{thick:.2g}"{opacity_text}>{title_text}</{kind}>')


def _inks(shown: Mapping[str, str]) -> dict[str, str]:
    """Rules that show colours in others."""
    return {f".{_CLASSES[c]}-{p}": f"{p}:{d}" for c, d in shown.items() for p in ("fill", "stroke")}


def _paint(what: str, colour: str) -> str:
    return _classes({what: colour})


def _classes(paints: dict[str, str]) -> str:
    """Paints as SVG attributes, with classes for colours that are inverted on dark pages."""
    names = " ".join(f"{_CLASSES[c]}-{what}" for what, c in paints.items() if c in _CLASSES)
    attributes = " ".join(f'{what}="{colour}"' for what, colour in paints.items())
    return f'class="{names}" {attributes}' if names else attributes


def _escaped(text: str) -> str:
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in text))
