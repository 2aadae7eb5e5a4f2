"""What this machine can do, measured in the same run as the cases: bytes per second, and operations per second.

The bandwidth is that of `a = b + s × c` over arrays that no cache holds, counted as three arrays; the rate that of
products of matrices. A row of the table reaches the share of whichever of the two limits it is nearer to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.benchmarks.by_jax import by_hand
from tests.benchmarks.case import Absent, Problem, Run
from tests.benchmarks.interleaved import compare
from tests.benchmarks.loops import CLoops

__all__ = ["Machine", "measured"]

TRIAD = """
void run(double *restrict a, const double *restrict b, const double *restrict c) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < N; i++) a[i] = b[i] + 3.0 * c[i];
}
"""


@dataclass(frozen=True)
class Machine:
    """The limits of a machine."""

    bandwidth: float
    """Bytes per second."""
    rates: Mapping[str, float]
    """Operations per second by element type: f4 and f8."""
    threads: int
    load: float = 0.0
    """How many programs ran at once in the minute before, ours included: above the threads, figures are noisy."""

    def least(self, moved: int, operations: float, element: str) -> float:
        """The least seconds for so many bytes moved and operations done."""
        return max(moved / self.bandwidth, operations / self.rates.get(element, self.rates["f4"]))

    def or_better(self, other: Machine) -> Machine:
        """The higher of the limits that were measured twice, since other programs run beside."""
        rates = {e: max(rate, other.rates[e]) for e, rate in self.rates.items()}
        return Machine(max(self.bandwidth, other.bandwidth), rates, self.threads, max(self.load, other.load))

    def __str__(self) -> str:
        rates = ", ".join(f"{rate / 1e9:.0f} GFLOP/s of products in {e}" for e, rate in self.rates.items())
        return f"{self.threads} threads, {self.bandwidth / 1e9:.1f} GB/s, {rates}, at a load of {self.load:.0f}"


def measured(n: int = 1 << 24, side: int = 1024, rounds: int = 8) -> Machine:
    """This machine; `n` numbers are streamed, and matrices of `side` rows multiplied."""
    problem = Problem({"n": n}, {"b": np.ones(n), "c": np.ones(n)})
    ways: dict[str, Run] = {"JAX": by_hand(lambda b, c: b + 3.0 * c, "b", "c")(problem)}
    with suppress(Absent):
        ways["C"] = CLoops(TRIAD, lambda p: [np.zeros(n)], ("b", "c"))(problem)
    bandwidth = 24 * n / min(compare(ways, rounds).values())
    return Machine(
        bandwidth, {e: _rate(e, side, rounds) for e in ("f4", "f8")}, len(os.sched_getaffinity(0)), os.getloadavg()[0]
    )


def _rate(element: str, side: int, rounds: int) -> float:
    a: Any = np.ones((side, side), element)
    x, product = jnp.asarray(a), jax.jit(jnp.matmul)
    ways = {"JAX": lambda: product(x, x).block_until_ready(), "NumPy": lambda: a @ a}
    return 2 * side**3 / min(compare(ways, rounds).values())
