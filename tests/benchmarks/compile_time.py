"""What compiling takes, lifted TIR beside hand-written JAX: `python -m tests.benchmarks.compile_time [rounds] [names]`.

The first call of a fresh program with empty caches, in turns with the first call of a fresh `jax.jit` of the peer; the
lift itself is timed apart (`lift_time`). The ratio is the lifted program's time to the hand-written one's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import tensorir as ti
from tests.benchmarks.interleaved import report
from tests.benchmarks.lift import Case, cases


def first_call(make: Callable[[], Callable[..., Any]], given: list[Any]) -> float:
    """Seconds of the first call of what is made anew."""
    run = make()
    jax.clear_caches()
    begin = time.perf_counter()
    jax.block_until_ready(run(*given))
    return time.perf_counter() - begin


def measure(name: str, case: Case, rounds: int) -> str:
    text, arrays, hand = case
    function = ti.tir.parse(text)["main"]
    given = [jnp.asarray(a) for a in arrays]
    ways: dict[str, Callable[[], Callable[..., Any]]] = {
        "lifted": lambda: ti.lift(function),
        "by hand": lambda: jax.jit(lambda *xs: hand(*xs)),
    }
    best = dict.fromkeys(ways, float("inf"))
    for k in range(rounds + 1):
        for way in list(ways)[:: -1 if k % 2 else 1]:
            # the first round also loads what either of them needs
            seconds = first_call(ways[way], given)
            best[way] = min(best[way], seconds) if k else float("inf")
    return report(name, best, "by hand")


if __name__ == "__main__":
    chosen = [a for a in sys.argv[1:] if not a.isdigit()]
    often = next((int(a) for a in sys.argv[1:] if a.isdigit()), 5)
    for title, one in cases().items():
        if not chosen or title.split()[0] in chosen:
            print(measure(title, one, often), flush=True)
