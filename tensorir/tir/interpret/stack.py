"""Room for deep expressions: compiled functions call one another as deeply as the text nests."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["deep"]

T = TypeVar("T")

FRAMES = 60_000


class _Room:
    """The limit of the process, raised as long as any thread is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 0

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(FRAMES, self._before))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setrecursionlimit(self._before)


_ROOM = _Room()


def deep(run: Callable[[], T]) -> T:
    """The result of `run`, which may recurse deeply; of threads that do so at once the last one gives the room back."""
    _ROOM.enter()
    try:
        return run()
    finally:
        _ROOM.leave()
