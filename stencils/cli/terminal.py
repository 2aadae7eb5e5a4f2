"""Output to a terminal, and the libraries that only parts of this package need.

Control characters of names are shown, and never obeyed; a library that an installation lacks is named with the extra
that has it.

>>> printable("a name with \\x1b[31m in it\\n")
'a name with \\\\x1b[31m in it\\n'
>>> needed("numpy", "cli", "arrays")
>>> needed("no_such_library", "plot", "pictures")
Traceback (most recent call last):
tensorir.runtime.errors.DiagnosticError: error[C12]: pictures need no_such_library, which is not installed.
help: pip install 'tensorir[plot]'
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from importlib.util import find_spec
from typing import TextIO

from tensorir.runtime.errors import refuse


def needed(module: str, extra: str, purpose: str) -> None:
    """Raise C12 where a library is missing: what it is for, and the extra of the package that has it."""
    if find_spec(module) is None:
        message = f"{purpose} need {module}, which is not installed."
        raise refuse("C12", message, f"pip install 'tensorir[{extra}]'")


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """A text with its control characters, but for ends of lines and tabs, as escapes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


_MARKS = (
    (re.compile(r"^(.*?)\b(error\[\w+\]:)", re.MULTILINE), r"\1\033[1;31m\2\033[0m"),
    (re.compile(r"^(.*?)\b(warning\[\w+\]:)", re.MULTILINE), r"\1\033[1;33m\2\033[0m"),
    (re.compile(r"^(help:)", re.MULTILINE), r"\033[1;36m\1\033[0m"),
    (re.compile(r"^( *)(\^+)$", re.MULTILINE), r"\1\033[1;31m\2\033[0m"),
)


def coloured(text: str) -> str:
    """Diagnostics with the kind, the help and the place that is meant in colours."""
    for pattern, put in _MARKS:
        text = pattern.sub(put, text)
    return text


def takes_colours(stream: TextIO) -> bool:
    """True if a stream may have colours: NO_COLOR and FORCE_COLOR decide, else whether it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def say(text: str) -> None:
    """A line on standard output."""
    import_module("typer").echo(printable(text))


def aside(text: str) -> None:
    """A line on standard error."""
    import_module("typer").echo(printable(text), err=True)


def ask(question: str) -> bool:
    """A question on the terminal that is answered with yes or no; no where nothing is answered."""
    return import_module("typer").confirm(printable(question), err=True)
