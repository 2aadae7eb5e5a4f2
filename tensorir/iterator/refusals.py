"""What is said of iterator IR that cannot be read or lifted."""

from __future__ import annotations

from tensorir.errors import Diagnostic, DiagnosticError
from tensorir.source import NOWHERE, Span

__all__ = ["refused"]


def refused(code: str, message: str, span: Span = NOWHERE, help: str = "", *notes: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, span, notes, help))
