"""Timing two or more ways of computing the same thing against each other on a shared, noisy machine.

The ways take turns in every order, so that what else the machine does touches all of them alike; the minimum over the
rounds is what each can do, and only ratios are reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import permutations

__all__ = ["compare", "report", "turns"]


def turns(ways: Mapping[str, Callable[[], object]], rounds: int = 30, warm: int = 3) -> dict[str, list[float]]:
    """The seconds that each way took, round by round; every way must wait for its own result."""
    for _ in range(warm):
        for way in ways.values():
            way()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    orders = list(permutations(ways.items()))
    for k in range(rounds):
        # what runs after one that gave much memory back waits for the memory
        for name, way in orders[k % len(orders)]:
            begin = time.perf_counter()
            way()
            taken[name].append(time.perf_counter() - begin)
    return taken


def compare(ways: Mapping[str, Callable[[], object]], rounds: int = 30, warm: int = 3) -> dict[str, float]:
    """The least seconds of each way."""
    return {name: min(taken) for name, taken in turns(ways, rounds, warm).items()}


def report(title: str, seconds: Mapping[str, float], peer: str) -> str:
    """One line: every way's time and its ratio to the peer's."""
    parts = [f"{name} {1e3 * s:.3f} ms ({s / seconds[peer]:.2f})" for name, s in seconds.items()]
    return f"{title}: {', '.join(parts)}"
