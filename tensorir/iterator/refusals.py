"""What is said of iterator IR that cannot be read or lifted."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span

__all__ = ["located", "refused"]


def refused(code: str, message: str, span: Span = NOWHERE, help: str = "", *notes: str) -> DiagnosticError:
    # a program that went through a pickle has the span of no text as a copy
    return DiagnosticError(Diagnostic(code, message, span if span.source.text else NOWHERE, notes, help))


OURS = ("tensorir", "lowering", "gt4py")
"""The packages between a caller's line and what runs."""


def located(problem: DiagnosticError, program: str) -> DiagnosticError:
    """What is said of a call of a program, with the caller's line."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in OURS:
        frame = frame.f_back
    at = f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame is not None else ""
    note = f"in the call of '{program}'{at}."
    return DiagnosticError([replace(d, notes=(*d.notes, note)) for d in problem.diagnostics])
