"""Room for deep expressions: compiled functions call one another as deeply as the text nests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

__all__ = ["deep"]

T = TypeVar("T")

FRAMES = 60_000


def deep(run: Callable[[], T]) -> T:
    """The result of `run`, which may recurse deeply."""
    before = sys.getrecursionlimit()
    if before >= FRAMES:
        return run()
    sys.setrecursionlimit(FRAMES)
    try:
        return run()
    finally:
        sys.setrecursionlimit(before)
