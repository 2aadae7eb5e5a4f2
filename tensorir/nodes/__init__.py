"""Traversal for all families of nodes, at any depth, by the children that a caller names, and recursive rules.

It imports nothing of the package. Begin with `postorder`. A rule that recurses without Python's stack is a generator
that yields the rules whose results it needs; `run` has its result.

>>> halves = lambda k: [k // 2, k // 2] if k > 1 else []
>>> list(postorder([4], halves)), list(preorder([4], halves))
([1, 2, 4], [4, 2, 1])
>>> folded([4], halves, lambda k, below: 1 + sum(below))[id(4)]
7
>>> def depth(n):
...     return 0 if n == 0 else 1 + (yield depth(n - 1))
>>> run(depth(100_000))
100000
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
V = TypeVar("V")
Below = Callable[[T], Iterable[T]]
"""The nodes directly below one, in order."""


def postorder(roots: Iterable[T], below: Below[T], key: Callable[[T], Hashable] = id) -> Iterator[T]:
    """Every distinct node at and below the roots, after those below it; `key` says which nodes are one."""
    done: set[Hashable] = set()
    stack: list[tuple[T, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif key(node) not in done:
            done.add(key(node))
            stack.append((node, True))
            stack.extend([(child, False) for child in below(node)][::-1])


def preorder(roots: Iterable[T], below: Below[T], key: Callable[[T], Hashable] = id) -> Iterator[T]:
    """Every distinct node at and below the roots, before those below it; `key` says which nodes are one."""
    done: set[Hashable] = set()
    stack = list(roots)[::-1]
    while stack:
        node = stack.pop()
        if key(node) not in done:
            done.add(key(node))
            yield node
            stack.extend(list(below(node))[::-1])


def occurrences(roots: Iterable[T], below: Below[T]) -> Iterator[T]:
    """Every node of trees as often as it occurs, before those below it."""
    stack = list(roots)[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(list(below(node))[::-1])


def folded(
    roots: Iterable[T], below: Below[T], rule: Callable[[T, Sequence[V]], V], key: Callable[[T], Hashable] = id
) -> dict[Hashable, V]:
    """The value by a rule of every distinct node from the values of those below it, by `key`."""
    values: dict[Hashable, V] = {}
    for node in postorder(roots, below, key):
        values[key(node)] = rule(node, [values[key(child)] for child in below(node)])
    return values


Rule = Generator[Any, Any, T]


def each(rules: Iterable[Rule[V]]) -> Rule[list[V]]:
    """The results of several rules, in order: `yield from each(...)`."""
    results: list[V] = []
    for rule in rules:
        results.append((yield rule))
    return results


def run(rule: Rule[T], deepest: int | None = None) -> T:
    """The result of a rule. Raises RecursionError where more rules than `deepest` wait for one another."""
    stack: list[Rule[Any]] = [rule]
    value: Any = None
    while stack:
        try:
            asked = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
        else:
            if len(stack) == deepest:
                raise RecursionError
            stack.append(asked)
            value = None
    return value
