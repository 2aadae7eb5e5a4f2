"""Third-order advection in three Runge-Kutta stages: a chain of wide stencils through one array."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from stencils import library
from tests.benchmarks.by_jax import by_hand, ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

TEXT = library.text("advection_third_order")
NAMES = "inp", "u", "v", "dt", "dx", "dy"


def inputs(rng: Any, n: int, m: int) -> dict[str, np.ndarray]:
    numbers = {"dt": 0.5, "dx": 100.0, "dy": 100.0}
    return {name: rng.normal(size=(n, m)) for name in NAMES[:3]} | {k: np.asarray(v) for k, v in numbers.items()}


def tendency(f: Any, u: Any, v: Any, dx: Any, dy: Any) -> Any:
    """On the inner points, from slices."""
    c, w = f[2:-2, 2:-2], (f[4:, 2:-2], f[3:-1, 2:-2], f[1:-3, 2:-2], f[:-4, 2:-2])
    s = (f[2:-2, 4:], f[2:-2, 3:-1], f[2:-2, 1:-3], f[2:-2, :-4])
    along = [
        (a * (8.0 * (q[1] - q[2]) - (q[0] - q[3])) + abs(a) * (q[0] + q[3] - 4.0 * (q[1] + q[2]) + 6.0 * c))
        / (12.0 * d)
        for a, q, d in ((u, w, dx), (v, s, dy))
    ]
    return along[0] + along[1]


def stages(keep: bool) -> Any:
    """Three stages, stored between; the stored ones are returned too where their buffers are kept."""

    def run(x: Any, u: Any, v: Any, dt: Any, dx: Any, dy: Any) -> Any:
        inner, f, kept = x[2:-2, 2:-2], x, []
        u, v = u[2:-2, 2:-2], v[2:-2, 2:-2]
        for part in (3.0, 2.0, 1.0):
            new = inner - dt / part * tendency(f, u, v, dx, dy)
            f = jnp.concatenate([x[:2], jnp.concatenate([x[2:-2, :2], new, x[2:-2, -2:]], 1), x[-2:]], 0)
            if part > 1.0:
                f = lax.optimization_barrier(f)
                kept.append(f)
        return (f, *kept) if keep else f

    return run


def plain(x: Any, u: Any, v: Any, dt: Any, dx: Any, dy: Any) -> Any:
    f = x
    for part in (3.0, 2.0, 1.0):
        new = x[2:-2, 2:-2] - dt / part * tendency(f, u[2:-2, 2:-2], v[2:-2, 2:-2], dx, dy)
        f = x.at[2:-2, 2:-2].set(new)
    return f


def loops(out: Any, first: Any, second: Any, x: Any, u: Any, v: Any, dt: Any, dx: Any, dy: Any) -> None:
    n, m = x.shape
    rx, ry = 1.0 / (12.0 * dx[()]), 1.0 / (12.0 * dy[()])
    for stage in range(3):
        f = x if stage == 0 else first if stage == 1 else second
        to = first if stage == 0 else second if stage == 1 else out
        t = dt[()] / (3 - stage)
        for i in prange(n):
            for j in range(m):
                if i < 2 or j < 2 or i >= n - 2 or j >= m - 2:
                    to[i, j] = x[i, j]
                else:
                    p = f[i, j]
                    slope = 8.0 * (f[i + 1, j] - f[i - 1, j]) - (f[i + 2, j] - f[i - 2, j])
                    bend = f[i + 2, j] + f[i - 2, j] - 4.0 * (f[i + 1, j] + f[i - 1, j]) + 6.0 * p
                    along = (u[i, j] * slope + abs(u[i, j]) * bend) * rx
                    slope = 8.0 * (f[i, j + 1] - f[i, j - 1]) - (f[i, j + 2] - f[i, j - 2])
                    bend = f[i, j + 2] + f[i, j - 2] - 4.0 * (f[i, j + 1] + f[i, j - 1]) + 6.0 * p
                    to[i, j] = x[i, j] - t * (along + (v[i, j] * slope + abs(v[i, j]) * bend) * ry)


SOURCE = """
#include <math.h>
#include <string.h>
static void stage(T *restrict to, const T *restrict f, const T *restrict x, const T *restrict u, const T *restrict v,
                  T t, T rx, T ry) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < N; i++) {
    if (i < 2 || i >= N - 2) {
      memcpy(to + i * M, x + i * M, M * sizeof(T));
      continue;
    }
    for (long e = 0; e < 2; e++) to[i * M + e] = x[i * M + e], to[i * M + M - 1 - e] = x[i * M + M - 1 - e];
    for (long j = 2; j < M - 2; j++) {
      const T *p = f + i * M + j, a = u[i * M + j], b = v[i * M + j];
      T sx = 8 * (p[M] - p[-M]) - (p[2 * M] - p[-2 * M]), sy = 8 * (p[1] - p[-1]) - (p[2] - p[-2]);
      T bx = p[2 * M] + p[-2 * M] - 4 * (p[M] + p[-M]) + 6 * p[0], by = p[2] + p[-2] - 4 * (p[1] + p[-1]) + 6 * p[0];
      to[i * M + j] = x[i * M + j] - t * ((a * sx + fabs(a) * bx) * rx + (b * sy + fabs(b) * by) * ry);
    }
  }
}
void run(T *out, T *first, T *second, const T *x, const T *u, const T *v, const T *dt, const T *dx, const T *dy) {
  T rx = 1 / (12 * *dx), ry = 1 / (12 * *dy);
  stage(first, x, x, u, v, *dt / 3, rx, ry);
  stage(second, first, x, u, v, *dt / 2, rx, ry);
  stage(out, second, x, u, v, *dt, rx, ry);
}
"""


def buffers(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["inp"]) for _ in range(3)]


CASES = (
    Case(
        "third-order advection",
        "1024x1024",
        {"n": 1024, "m": 1024},
        {"n": 9, "m": 8},
        inputs,
        {
            OURS: ours(TEXT, "out"),
            OURS_FRESH: ours(TEXT, "out", fresh=True),
            HAND: by_hand(stages(True), *NAMES, results=1),
            HAND_FRESH: by_hand(stages(False), *NAMES, fresh=True),
            PLAIN: by_hand(plain, *NAMES, fresh=True),
            NUMBA: NumbaLoops(loops, buffers, NAMES),
            C: CLoops(SOURCE, buffers, NAMES),
        },
        operations=3 * 32,
        quick=False,
    ),
)
