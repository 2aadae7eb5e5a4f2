"""Exceptions of Python that ill-formed functions end in, as diagnostics of the checker."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import nodes as n

check_again = ExtensionPoint("what is wrong with a function that is run or lifted", "tensorir.tir.check", "check")

_EXCEPTIONS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


@contextmanager
def diagnosed(func: n.PrimFunc) -> Generator[None]:
    """Within the context, exceptions of Python become the checker's diagnostics of a function, if it has any."""
    try:
        yield
    except DiagnosticError:
        raise
    except _EXCEPTIONS:
        try:
            check_again(func)
        except DiagnosticError as wrong:
            raise wrong from None
        raise
