"""The command line, `tensorir`: run, check, print, lower, info (and what the wings add).

Exit codes: 0 done, 1 the program ran and failed, 2 bad input, with a located diagnostic on standard error.
"""

from __future__ import annotations

import sys

from stencils.cli.terminal import needed
from tensorir.runtime.errors import DiagnosticError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """The entry point; where the libraries of the command line are not installed it says so, with exit code 2."""
    try:
        for library in ("typer", "rich"):
            needed(library, "cli", "commands")
    except DiagnosticError as missing:
        sys.stderr.write(f"{missing}\n")
        raise SystemExit(2) from None
    from stencils.cli import app

    app.main(arguments)
