"""Specialised programs, compiled with their neighbour tables."""

from __future__ import annotations

from typing import Any

from tensorir.backends import compile
from tensorir.binding.calls import bind
from tensorir.iterator.lift.program import Specialised

__all__ = ["compiled"]


def compiled(special: Specialised, **options: Any) -> Any:
    """The program with its tables, on the default backend."""
    assert special.fencil is not None
    program: Any = special.fencil
    if special.tables:
        program = bind(program, special.arrays)
    return compile(program, **options)
