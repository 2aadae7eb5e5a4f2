"""The command line in this process."""

from __future__ import annotations

from typing import Any

from stencils.cli import main


def run(capsys: Any, *arguments: str) -> tuple[Any, str, str]:
    """Exit code, standard output, standard error."""
    code: Any = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = end.code or 0
    shown = capsys.readouterr()
    return code, shown.out, shown.err
