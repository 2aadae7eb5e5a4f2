"""What a function reads from outside of it: numbers and further functions, whose change makes a trace of it stale.

A trace has the values of the time when it was made. In a notebook `DT = 5.0` is run again, or an operator that others
call is written anew, and what was traced before would go on with what was.

>>> DT = 5.0
>>> def moved(x):
...     return x + DT
>>> before = surroundings(moved)
>>> DT = 6.0
>>> surroundings(moved) == before
False
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from tensorir.arrays import is_tuple

__all__ = ["surroundings"]

_INSTALLED = (sys.prefix + os.sep, sys.base_prefix + os.sep)


def surroundings(function: Callable[..., Any]) -> Hashable:
    """What a function, and those that it calls, have from global names, closures and the attributes of these.

    Numbers and texts by value, other objects by which they are.
    """
    seen: set[int] = set()
    return tuple(_outside(function, seen))


def _outside(function: Any, seen: set[int]) -> Iterator[Hashable]:
    inner: Any = getattr(function, "function", function)  # an operator is looked into, too
    if not isinstance(inner, FunctionType) or id(inner) in seen or inner.__code__.co_filename.startswith(_INSTALLED):
        return
    seen.add(id(inner))
    names = _names(inner.__code__)
    for value in (*_globals(inner, names), *_enclosed(inner)):
        yield _told(value)
        yield from _outside(value, seen)
        # `settings.dt`: the name after the point is a name of the code, too
        held: dict[str, Any] = getattr(value, "__dict__", {})
        for part in [held[name] for name in names if name in held]:
            yield _told(part)
            yield from _outside(part, seen)


def _globals(function: FunctionType, names: tuple[str, ...]) -> list[Any]:
    return [function.__globals__[name] for name in names if name in function.__globals__]


def _enclosed(function: FunctionType) -> Iterator[Any]:
    """The values of the variables of the functions around a function."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _told(value: Any) -> Hashable:
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return type(value), repr(value)  # a text, since NaN equals nothing
    if is_tuple(value):
        return tuple(map(_told, value))
    return id(value)


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[str, ...]:
    """The names that code and the code inside of it may look up outside."""
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    return tuple(dict.fromkeys((*code.co_names, *(n for c in inside for n in _names(c)))))
