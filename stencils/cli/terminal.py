"""What goes to a terminal: control characters of names are shown, and never obeyed.

>>> printable("a name with \\x1b[31m in it\\n")
'a name with \\\\x1b[31m in it\\n'
"""

from __future__ import annotations

import re

import typer

__all__ = ["ask", "printable", "say"]

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """A text with its control characters, but for ends of lines and tabs, as escapes."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def say(text: str) -> None:
    """A line on standard output."""
    typer.echo(printable(text))


def ask(question: str) -> bool:
    """A question on the terminal that is answered with yes or no; no where nothing is answered."""
    return typer.confirm(printable(question), err=True)
