"""A colour per dim, the same in every page and picture, readable on light and on dark paper.

>>> hue("I") != hue("J"), hue("Edge") == hue("_NB_Edge")
(True, True)
>>> middle(210)
'#2b7fd4'
"""

from __future__ import annotations

import colorsys
import zlib

from tensorir.ir.types import NEIGHBOUR

__all__ = ["hue", "middle"]

_USUAL = {"I": 210, "J": 25, "K": 140, "Vertex": 280, "Edge": 345, "Cell": 175}
"""Far apart for the dims that programs usually have together."""


def hue(dim: str) -> int:
    """The angle of a dim's colour on the wheel, in degrees; neighbour dims have that of what they lead to."""
    name = dim.removeprefix(NEIGHBOUR)
    return _USUAL.get(name, zlib.crc32(name.encode()) % 360)


def middle(hue: int, lightness: float = 0.5) -> str:
    """A colour that stands out from white and from black."""
    red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness, 0.66)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
