"""Recursive rules without Python's stack: a rule is a generator that yields the rules whose results it needs.

>>> def depth(n):
...     return 0 if n == 0 else 1 + (yield depth(n - 1))
>>> run(depth(100_000))
100000
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

__all__ = ["Rule", "run"]

T = TypeVar("T")
Rule = Generator[Any, Any, T]


def run(rule: Rule[T]) -> T:
    """The result of a rule."""
    stack: list[Rule[Any]] = [rule]
    value: Any = None
    while stack:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as stop:
            stack.pop()
            value = stop.value
    return value
