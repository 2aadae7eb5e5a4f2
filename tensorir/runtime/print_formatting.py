"""Formats of `print`: a text with a place, `{}`, for each value; a text without places is a label before all of them.

>>> said("sum {} of {} in all", ["3.0", "[0. 1. 2.]"])
'sum 3.0 of [0. 1. 2.] in all'
>>> said("x", ["3.0"])
'x: 3.0'
>>> said("{a}", ["1", "2"])
'{a}: 1, 2'
"""

from __future__ import annotations

from collections.abc import Sequence

PLACE = "{}"


def said(text: str, words: Sequence[str]) -> str:
    """The line that is shown for values in words: one for each scalar of each operand, from left to right."""
    if PLACE not in text:
        return f"{text}: {', '.join(words)}"
    pieces = text.split(PLACE)
    return "".join(piece + word for piece, word in zip(pieces, [*words, ""], strict=True))
