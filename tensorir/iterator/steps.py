"""Computations in steps: recursion that no depth of an expression ends.

>>> def depth(n):
...     return 0 if n == 0 else 1 + (yield depth(n - 1))
>>> run(depth(20_000))
20000
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from tensorir.iterator.refusals import refused

__all__ = ["Steps", "run"]

DEEPEST = 300_000
"""How many computations may wait for one another: more are a function that is applied to itself."""

Steps = Generator[Any, Any, Any]
"""A computation in steps: it yields computations whose results it needs, so that no depth is too deep for Python."""


def run(steps: Steps) -> Any:
    """The result of a computation in steps."""
    stack = [steps]
    sent: Any = None
    while stack:
        try:
            asked = stack[-1].send(sent)
        except StopIteration as done:
            stack.pop()
            sent = done.value
        else:
            if len(stack) == DEEPEST:
                raise refused("TI04", "a function is applied to itself without end.", help="use scan or reduce.")
            stack.append(asked)
            sent = None
    return sent
