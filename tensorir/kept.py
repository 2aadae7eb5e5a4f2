"""What is remembered of a program for as long as it lives: caches that can be named, inspected and emptied.

>>> class Program: ...
>>> p, kept = Program(), Kept()
>>> kept.of(p, lambda p: 7), kept.of(p, lambda p: 8), len(kept)
(7, 7, 1)
>>> del p
>>> len(kept)
0
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Kept"]

V = TypeVar("V")


class Kept(Generic[V]):
    """Values by the identity of a program; each is dropped with its program."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], V]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, program: Any, make: Callable[[Any], V]) -> V:
        """The value of a program, made when it is first asked for."""
        key = id(program)
        entry = self._known.get(key)
        if entry is None or entry[0]() is not program:
            value = make(program)
            self._known[key] = weakref.ref(program, lambda _: self._known.pop(key, None)), value
            return value
        return entry[1]

    def clear(self) -> None:
        self._known.clear()
