"""What is said of iterator IR that cannot be read or lifted."""

from __future__ import annotations

from tensorir.errors import Diagnostic, DiagnosticError
from tensorir.source import NOWHERE, Span

__all__ = ["refused"]


def refused(code: str, message: str, span: Span = NOWHERE, help: str = "", *notes: str) -> DiagnosticError:
    # a program that went through a pickle has the span of no text as a copy
    return DiagnosticError(Diagnostic(code, message, span if span.source.text else NOWHERE, notes, help))
