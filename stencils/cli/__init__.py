"""The command line, `tensorir`: run, check, print, lower, info (and what the wings add).

Exit codes: 0 done, 1 the program ran and failed, 2 bad input, with a located diagnostic on standard error.
"""

from __future__ import annotations

from stencils.cli.app import main

__all__ = ["main"]
