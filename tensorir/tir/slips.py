"""Errors of Python in ill-formed functions, told as what the checker says of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import nodes as n

check_again = ExtensionPoint("what is wrong with a function that is run or lifted", "tensorir.tir.check", "check")

_SLIPS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


@contextmanager
def telling(func: n.PrimFunc) -> Generator[None]:
    """Errors of Python that a function ends in because it is ill-formed are what the checker says of it."""
    try:
        yield
    except DiagnosticError:
        raise
    except _SLIPS:
        try:
            check_again(func)
        except DiagnosticError as wrong:
            raise wrong from None
        raise
