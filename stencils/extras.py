"""Libraries that only parts of this package need, and that an installation may lack.

>>> needed("numpy", "cli", "arrays")
>>> needed("no_such_library", "plot", "pictures")
Traceback (most recent call last):
tensorir.runtime.errors.DiagnosticError: error[C12]: pictures need no_such_library, which is not installed.
help: pip install 'tensorir[plot]'
"""

from __future__ import annotations

from importlib.util import find_spec

from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = ["needed"]


def needed(module: str, extra: str, purpose: str) -> None:
    """Raise C12 where a library is missing: what it is for, and the extra of the package that has it."""
    if find_spec(module) is None:
        told = f"{purpose} need {module}, which is not installed."
        raise DiagnosticError(Diagnostic("C12", told, help=f"pip install 'tensorir[{extra}]'"))
