"""Timing two or more ways of computing the same thing against each other on a shared, noisy machine.

The ways take turns in every order, so that what else the machine does touches all of them alike; the minimum over the
rounds is what each can do, and only ratios are reported.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

__all__ = ["Timing", "compare", "report", "turns"]

SHORT = 0.02
"""Seconds. What takes less is called before its turn too: behind one that takes long, its threads went to sleep."""


@dataclass(frozen=True)
class Timing:
    """The seconds of one way: its median, the least, and the quartiles between which half of the rounds lie."""

    median: float
    least: float
    lower: float
    upper: float
    rounds: int

    @classmethod
    def of(cls, taken: Sequence[float]) -> Timing:
        """
        >>> Timing.of([3.0, 1.0, 2.0])
        Timing(median=2.0, least=1.0, lower=1.5, upper=2.5, rounds=3)
        """
        cut = quantiles(taken, n=4, method="inclusive") if len(taken) > 1 else [taken[0]] * 3
        return cls(median(taken), min(taken), cut[0], cut[2], len(taken))


def turns(ways: Mapping[str, Callable[[], object]], rounds: int = 30, warm: int = 3) -> dict[str, list[float]]:
    """The seconds that each way took, round by round; every way must wait for its own result."""
    lasted = dict.fromkeys(ways, 0.0)
    for _ in range(warm):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            lasted[name] = time.perf_counter() - begin
    taken: dict[str, list[float]] = {name: [] for name in ways}
    orders, order = random.Random(0), list(ways)
    for k in range(rounds):
        # an order and its reverse, then another: what runs after one that gave much memory back waits for the memory
        if k % 2:
            order.reverse()
        else:
            orders.shuffle(order)
        for name in order:
            way = ways[name]
            if len(ways) > 2 and lasted[name] < SHORT:
                way()
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
