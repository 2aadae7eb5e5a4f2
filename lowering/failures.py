"""What run-time checks found: per check a position and a value, the position -1 where all is well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from lowering.context import Check
from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = ["checked", "raise_failures"]


def raise_failures(failures: Sequence[Any], checks: Sequence[Check]) -> None:
    """Raise the diagnostics of the checks that failed, with the point at which each did."""
    found: list[Diagnostic] = []
    for failure, check in zip(failures, checks, strict=True):
        position, value = np.asarray(failure).tolist()
        if position >= 0:
            found.append(_witness(check, position, value))
    if found:
        raise DiagnosticError(found)


def checked(outputs: Any, failures: Sequence[Any], checks: Sequence[Check]) -> Any:
    """Inside of a trace nothing can raise: checks travel with the outputs as `equinox.error_if`."""
    for failure, check in zip(failures, checks, strict=True):
        outputs = eqx.error_if(outputs, failure[0] >= 0, str(check.diagnostic))
    return outputs


def _witness(check: Check, position: int, value: int) -> Diagnostic:
    """The check's diagnostic with the point at which it failed."""
    point = np.unravel_index(position, check.dims.shape) if check.dims.shape else ()
    at = ", ".join(f"{n} = {int(k) + i.start}" for k, (n, i) in zip(point, check.dims.items, strict=True))
    d = check.diagnostic
    note = f"at {at}" if at else "here"
    # a check hands on what int32 holds
    limits = {2**31 - 1: f"{value} or more", -(2**31): f"{value} or less"}
    shown = f"{note} it is {limits.get(value, value)}." if d.code == "R01" else f"it fails first {note}."
    return Diagnostic(d.code, d.message, d.span, (*d.notes, shown), d.help)
