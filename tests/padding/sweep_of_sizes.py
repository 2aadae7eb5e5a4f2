"""Programs that are compiled once, at a hundred sizes each: `python -m tests.padding.sweep_of_sizes [programs]`.

A line for each program: at how many sizes it has the bits of the oracle, how often XLA compiled, and how long the first
call took, a call at a size of its own, and a call of a program that is compiled for its size. It ends with 1 where one
differs, or is compiled twice.
"""

from __future__ import annotations

import sys
import time
from random import Random
from typing import Any

import numpy as np

import tensorir as ti
from stencils import library
from tests.effort import device_work
from tests.padding.programs import PROGRAMS, copied, drawn

SIZES = 100
SWEPT: dict[str, tuple[str, tuple[int, ...]]] = {
    **{
        name: (library.text(name), most)
        for name, most in {
            "hdiff": (24, 24, 6),
            "tridiagonal": (12, 12, 24),
            "vertical_advection": (10, 10, 20),
            "shallow_water": (30, 30),
            "neighbour_max": (64, 6),
        }.items()
    },
    **{name: (PROGRAMS[name], (96,)) for name in ("periodic smoothing", "a sum of products", "running sums")},
}
FIXED = {"neighbour_max": {"d": 6}}
"""Sizes that are the same in all calls."""
LEAST = 5


def leaves(value: Any) -> list[np.ndarray]:
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


def swept(name: str) -> bool:
    """Whether a program has the bits of the oracle at all sizes, and is compiled once."""
    text, extents = SWEPT[name]
    template, random = ti.parse(text), Random(name)
    fixed = FIXED.get(name, {})
    most = {n: m for n, m in zip(template.sizes, extents, strict=True) if n not in fixed}
    c = ti.compile(template, at_most=most, numerics="exact")
    every = [{n: random.randint(LEAST, m) for n, m in most.items()} for _ in range(SIZES)]
    calls = [drawn(template.specialise(**sizes, **fixed), k) for k, sizes in enumerate(every)]
    results: list[Any] = []
    taken: list[float] = []

    def run() -> None:
        for given in calls:
            begin = time.perf_counter()
            results.append(c(**copied(given)))
            taken.append(time.perf_counter() - begin)

    compiled = device_work(run).compiled
    right = 0
    for given, found in zip(calls, results, strict=True):
        expected = ti.reference.run(template, **copied(given))
        pairs = [(a, b) for n in expected for a, b in zip(leaves(found[n]), leaves(expected[n]), strict=True)]
        right += all(a.tobytes() == b.tobytes() for a, b in pairs)
    begin = time.perf_counter()
    ti.compile(template, numerics="exact")(**calls[-1])
    exact = time.perf_counter() - begin
    times = f"{1e3 * taken[0]:.0f} ms, then {1e3 * sorted(taken)[SIZES // 2]:.1f} ms, and {1e3 * exact:.0f} ms exactly"
    print(f"{name}: {right} of {SIZES} sizes, {compiled} compiled, {times}", flush=True)
    return right == SIZES and compiled == 1


if __name__ == "__main__":
    fine = [swept(name) for name in sys.argv[1:] or SWEPT]
    sys.exit(not all(fine))
