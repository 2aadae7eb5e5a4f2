"""How much work a call does, counted and not timed: a busy machine does not change it."""

from __future__ import annotations

import sys
from collections.abc import Callable


def count_calls(run: Callable[[], object]) -> int:
    """
    The functions that ``run`` calls, those of Python and those of C.

    >>> count_calls(lambda: [abs(k) for k in range(100)]) >= 100
    True
    """
    count = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
