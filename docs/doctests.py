"""Examples of docstrings as blocks of code: an extension of griffe, which reads the sources for the API's pages.

>>> fenced("A sum.\\n\\n>>> 1 + 1\\n2\\n\\nMore.").split("\\n")
['A sum.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'More.']
"""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["Doctests", "fenced"]

EXAMPLE = re.compile(r"^>>>(?:.+\n?)+(?:\n>>>(?:.+\n?)+)*", re.MULTILINE)
"""Lines from a prompt to a blank line, and those after it that begin with a prompt again."""


def fenced(text: str) -> str:
    """A docstring whose examples are fenced, which Markdown takes for quotations otherwise."""
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text).rstrip()


class Doctests(griffe.Extension):
    """Fences the examples of everything that is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
