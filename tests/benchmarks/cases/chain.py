"""Twelve smoothing stencils one after another: what is stored between, and what is computed again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.by_jax import by_hand, ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

STAGES = 12
STAGE = "0.125 × (⟪I, 1⟫({0}) + ⟪I, -1⟫({0}) + ⟪J, 1⟫({0}) + ⟪J, -1⟫({0})) + 0.5 × {0}"


def text() -> str:
    names = ["x", *(f"t{k}" for k in range(1, STAGES))]
    lets = "\n".join(f"let {new} = {STAGE.format(old)};" for old, new in pairwise(names))
    size = f"I[{STAGES}:n-{STAGES}], J[{STAGES}:m-{STAGES}]"
    last = STAGE.format(names[-1])
    return f"f(out: tensor<float, {size}>, x: tensor<float, I[0:n], J[0:m]>) {{ out ← {lets} {last}; }}"


def inputs(rng: Any, n: int, m: int) -> dict[str, np.ndarray]:
    return {"x": rng.normal(size=(n, m))}


def stage(x: Any) -> Any:
    return 0.125 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]) + 0.5 * x[1:-1, 1:-1]


def stored(keep: bool) -> Any:
    """Stored after every second stage."""

    def run(x: Any) -> Any:
        kept: list[Any] = []
        for k in range(STAGES):
            x = stage(x)
            if k % 2 and k < STAGES - 1:
                x = lax.optimization_barrier(x)
                kept.append(x)
        return (x, *kept) if keep else x

    return run


def plain(x: Any) -> Any:
    inner = slice(STAGES, -STAGES)

    def once(_: Any, x: Any) -> Any:
        return 0.125 * sum(jnp.roll(x, by, axis) for axis in (0, 1) for by in (1, -1)) + 0.5 * x

    return lax.fori_loop(0, STAGES, once, x)[inner, inner]


def loops(out: Any, a: Any, b: Any, x: Any) -> None:
    n, m = x.shape
    for s in range(1, STAGES + 1):
        f = x if s == 1 else a if s % 2 == 0 else b
        if s == STAGES:
            for i in prange(s, n - s):
                for j in range(s, m - s):
                    near = f[i + 1, j] + f[i - 1, j] + f[i, j + 1] + f[i, j - 1]
                    out[i - s, j - s] = 0.125 * near + 0.5 * f[i, j]
        else:
            to = b if s % 2 == 0 else a
            for i in prange(s, n - s):
                for j in range(s, m - s):
                    near = f[i + 1, j] + f[i - 1, j] + f[i, j + 1] + f[i, j - 1]
                    to[i, j] = 0.125 * near + 0.5 * f[i, j]


SOURCE = """
static void stage(T *restrict to, const T *restrict f, long s, long shift) {
  const long width = M - 2 * shift;
#pragma omp parallel for schedule(static)
  for (long i = s; i < N - s; i++)
    for (long j = s; j < M - s; j++) {
      const T *p = f + i * M + j;
      to[(i - shift) * width + j - shift] = (T)0.125 * (p[M] + p[-M] + p[1] + p[-1]) + (T)0.5 * p[0];
    }
}
void run(T *out, T *a, T *b, const T *x) {
  for (long s = 1; s <= 12; s++) {
    const T *f = s == 1 ? x : s % 2 ? b : a;
    stage(s == 12 ? out : s % 2 ? a : b, f, s, s == 12 ? 12 : 0);
  }
}
"""


def buffers(problem: Problem) -> list[np.ndarray]:
    x = problem.arrays["x"]
    n, m = x.shape
    return [np.zeros((n - 2 * STAGES, m - 2 * STAGES)), *(np.zeros_like(x) for _ in range(2))]


CASES = (
    Case(
        f"chain of {STAGES} stencils",
        "1536x1536",
        {"n": 1536, "m": 1536},
        {"n": 28, "m": 27},
        inputs,
        {
            OURS: ours(text(), "out"),
            OURS_FRESH: ours(text(), "out", fresh=True),
            HAND: by_hand(stored(True), "x", results=1),
            HAND_FRESH: by_hand(stored(False), "x", fresh=True),
            PLAIN: by_hand(plain, "x", fresh=True),
            NUMBA: NumbaLoops(loops, buffers, ("x",)),
            C: CLoops(SOURCE, buffers, ("x",)),
        },
        operations=6 * STAGES,
    ),
)
