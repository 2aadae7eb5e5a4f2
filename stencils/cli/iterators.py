"""`tensorir lift --from gt4py module:program`: programs of GT4Py, found by the name of their module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import tensorir as ti
from tensorir.arrays import refuse
from tensorir.errors import did_you_mean

__all__ = ["lift"]


def lift(where: str, settings: tuple[str, ...], report: bool, say: Callable[[str], None]) -> None:
    """Print a program of GT4Py as a pure tensor program."""
    lifted = ti.lift(ti.iterator.from_gt4py(_found(where), sizes=dict(_size(s) for s in settings)))
    say(str(lifted))
    if report:
        say(f"\n{lifted.report}")


def _size(text: str) -> tuple[str, Any]:
    """A dim and its extent, `K=65`, or its interval, `K=-1:66`."""
    name, _, value = text.partition("=")
    try:
        first, colon, second = value.partition(":")
        return name, (int(first), int(second)) if colon else int(first)
    except ValueError:
        raise refuse("C04", f"the size '{name}' is {value or 'not given'}.", "write K=65, or K=0:65.") from None


def _found(where: str) -> Any:
    module, _, name = where.partition(":")
    if not name:
        raise refuse("C11", f"'{where}' names no program.", "write module:program.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise refuse("C11", f"there is no module '{error.name}'.", "run where it can be imported.") from None
    if not hasattr(found, name):
        raise refuse("C11", f"'{module}' has no program '{name}'.", did_you_mean(name, vars(found)))
    return getattr(found, name)
