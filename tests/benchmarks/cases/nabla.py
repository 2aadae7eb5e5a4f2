"""The gradient by finite volumes on an unstructured mesh, with and without missing edges."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from stencils import library
from tests.benchmarks.by_jax import by_hand, ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem, Run
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

TEXT = library.text("nabla")
NAMES = "pp", "S_MXX", "S_MYY", "sign", "vol", "E2V", "V2E"


def inputs(rng: Any, side: int, holes: bool) -> dict[str, np.ndarray]:
    """A torus of side by side vertices, whose edges go along i, j and the diagonal; with holes, a plane."""
    n = side * side
    i, j = np.divmod(np.arange(n), side)
    at = lambda a, b: ((i + a) % side) * side + (j + b) % side
    ends = np.stack([np.arange(n), np.arange(n), np.arange(n), at(1, 0), at(0, 1), at(1, 1)]).reshape(2, 3 * n)
    # edge k n + v leaves v, and the edges that arrive are those of the vertices behind
    edges = np.stack([*(np.arange(n) + k * n for k in range(3)), at(-1, 0), at(0, -1) + n, at(-1, -1) + 2 * n], 1)
    sign = np.tile([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], (n, 1))
    if holes:
        steps = [(1, 0), (0, 1), (1, 1), (-1, 0), (0, -1), (-1, -1)]
        for slot, (a, b) in enumerate(steps):
            edges[(i + a < 0) | (i + a >= side) | (j + b < 0) | (j + b >= side), slot] = -1
    arrays = {"pp": rng.normal(size=n), "S_MXX": rng.normal(size=3 * n), "S_MYY": rng.normal(size=3 * n)}
    tables = {"E2V": ends.T.astype(np.int32).copy(), "V2E": edges.astype(np.int32)}
    return arrays | {"sign": sign, "vol": 1.0 + rng.random(n)} | tables


def hand(fresh: bool) -> Any:
    """Columns of tables, masks and signs prepared; one gather for each neighbour."""

    def way(problem: Problem) -> Run:
        e2v, v2e, sign = (problem.arrays[name] for name in ("E2V", "V2E", "sign"))
        ends = [jnp.asarray(c) for c in e2v.T]
        edges = [jnp.asarray(np.maximum(c, 0)) for c in v2e.T]
        signs = [jnp.asarray(np.where(c >= 0, s, 0.0)) for c, s in zip(v2e.T, sign.T, strict=True)]
        take = lambda x, c: x.at[c].get(mode="promise_in_bounds")

        def run(p: Any, sx: Any, sy: Any, vol: Any) -> Any:
            mean = 0.5 * (take(p, ends[0]) + take(p, ends[1]))
            both = lax.optimization_barrier([sx * mean, sy * mean])
            return tuple(sum(take(f, c) * s for c, s in zip(edges, signs, strict=True)) / vol for f in both)

        return by_hand(run, "pp", "S_MXX", "S_MYY", "vol", fresh=fresh)(problem)

    return way


def plain(p: Any, sx: Any, sy: Any, sign: Any, vol: Any, e2v: Any, v2e: Any) -> Any:
    mean = p[e2v].mean(1)
    weights = jnp.where(v2e >= 0, sign, 0.0)
    return tuple(((s * mean)[v2e] * weights).sum(1) / vol for s in (sx, sy))


def loops(x: Any, y: Any, fx: Any, fy: Any, p: Any, sx: Any, sy: Any, sign: Any, vol: Any, e2v: Any, v2e: Any) -> None:
    for e in prange(e2v.shape[0]):
        mean = 0.5 * (p[e2v[e, 0]] + p[e2v[e, 1]])
        fx[e], fy[e] = sx[e] * mean, sy[e] * mean
    for v in prange(v2e.shape[0]):
        a, b = 0.0, 0.0
        for s in range(v2e.shape[1]):
            e = v2e[v, s]
            if e >= 0:
                a += fx[e] * sign[v, s]
                b += fy[e] * sign[v, s]
        x[v], y[v] = a / vol[v], b / vol[v]


SOURCE = """
void run(T *restrict x, T *restrict y, T *restrict fx, T *restrict fy, const T *restrict p, const T *restrict sx,
         const T *restrict sy, const T *restrict sign, const T *restrict vol, const int *restrict e2v,
         const int *restrict v2e) {
#pragma omp parallel for schedule(static)
  for (long e = 0; e < 3 * SIDE * SIDE; e++) {
    T mean = (T)0.5 * (p[e2v[2 * e]] + p[e2v[2 * e + 1]]);
    fx[e] = sx[e] * mean, fy[e] = sy[e] * mean;
  }
#pragma omp parallel for schedule(static)
  for (long v = 0; v < SIDE * SIDE; v++) {
    T a = 0, b = 0;
    for (long s = 0; s < 6; s++) {
      long e = v2e[6 * v + s];
      if (e >= 0) a += fx[e] * sign[6 * v + s], b += fy[e] * sign[6 * v + s];
    }
    x[v] = a / vol[v], y[v] = b / vol[v];
  }
}
"""


def buffers(problem: Problem) -> list[np.ndarray]:
    p, edges = problem.arrays["pp"], problem.arrays["S_MXX"]
    return [np.zeros_like(p), np.zeros_like(p), np.zeros_like(edges), np.zeros_like(edges)]


def case(side: int, holes: bool, quick: bool = True) -> Case:
    return Case(
        f"nabla{' with -1' * holes}",
        f"{side * side}",
        {"side": side},
        {"side": 5},
        lambda rng, **sizes: inputs(rng, **sizes, holes=holes),
        {
            OURS: ours(TEXT, "out"),
            OURS_FRESH: ours(TEXT, "out", fresh=True),
            HAND: hand(fresh=False),
            HAND_FRESH: hand(fresh=True),
            PLAIN: by_hand(plain, *NAMES, fresh=True),
            NUMBA: NumbaLoops(loops, buffers, NAMES, results=2),
            C: CLoops(SOURCE, buffers, NAMES, results=2),
        },
        operations=20,
        quick=quick,
    )


LEVELS = """
f(gx: tensor<float, V[0:n], K[0:k]>, gy: tensor<float, V[0:n], K[0:k]>, pp: tensor<float, V[0:n], K[0:k]>,
  S_MXX: tensor<float, E[0:e]>, S_MYY: tensor<float, E[0:e]>, sign: tensor<float, V[0:n], _NB_0[0:6]>,
  vol: tensor<float, V[0:n]>, E2V: tensor<int, E[0:e], _NB_V[0:2]>, V2E: tensor<int, V[0:n], _NB_E[0:6]>) {
  let mean = 0.5 × (⟪E2V, 0⟫(pp) + ⟪E2V, 1⟫(pp));
  gx ← reduce(+, 0.0)(sign × ⟪V2E⟫(S_MXX × mean)) / vol;
  gy ← reduce(+, 0.0)(sign × ⟪V2E⟫(S_MYY × mean)) / vol;
}
"""


def with_levels(fresh: bool) -> Any:
    """By hand, all levels of a neighbour side by side."""

    def way(problem: Problem) -> Run:
        e2v, v2e, sign = (problem.arrays[name] for name in ("E2V", "V2E", "sign"))
        ends, edges = ([jnp.asarray(c) for c in table.T] for table in (e2v, v2e))
        signs = [jnp.asarray(s)[:, None] for s in sign.T]
        take = lambda x, c: x.at[c].get(mode="promise_in_bounds")

        def run(p: Any, sx: Any, sy: Any, vol: Any) -> Any:
            mean = 0.5 * (take(p, ends[0]) + take(p, ends[1]))
            both = lax.optimization_barrier([sx[:, None] * mean, sy[:, None] * mean])
            return tuple(sum(take(f, c) * s for c, s in zip(edges, signs, strict=True)) / vol[:, None] for f in both)

        return by_hand(run, "pp", "S_MXX", "S_MYY", "vol", fresh=fresh)(problem)

    return way


def levels_in_loops(
    x: Any, y: Any, fx: Any, fy: Any, p: Any, sx: Any, sy: Any, sign: Any, vol: Any, e2v: Any, v2e: Any
) -> None:
    levels = p.shape[1]
    for e in prange(e2v.shape[0]):
        for k in range(levels):
            mean = 0.5 * (p[e2v[e, 0], k] + p[e2v[e, 1], k])
            fx[e, k], fy[e, k] = sx[e] * mean, sy[e] * mean
    for v in prange(v2e.shape[0]):
        for k in range(levels):
            x[v, k], y[v, k] = 0.0, 0.0
        for s in range(v2e.shape[1]):
            e = v2e[v, s]
            for k in range(levels):
                x[v, k] += fx[e, k] * sign[v, s]
                y[v, k] += fy[e, k] * sign[v, s]
        for k in range(levels):
            x[v, k], y[v, k] = x[v, k] / vol[v], y[v, k] / vol[v]


SOURCE_OF_LEVELS = """
void run(T *restrict x, T *restrict y, T *restrict fx, T *restrict fy, const T *restrict p, const T *restrict sx,
         const T *restrict sy, const T *restrict sign, const T *restrict vol, const int *restrict e2v,
         const int *restrict v2e) {
#pragma omp parallel for schedule(static)
  for (long e = 0; e < 3 * SIDE * SIDE; e++)
    for (long k = 0; k < K; k++) {
      T mean = (T)0.5 * (p[e2v[2 * e] * (long)K + k] + p[e2v[2 * e + 1] * (long)K + k]);
      fx[e * K + k] = sx[e] * mean, fy[e * K + k] = sy[e] * mean;
    }
#pragma omp parallel for schedule(static)
  for (long v = 0; v < SIDE * SIDE; v++) {
    T a[K] = {0}, b[K] = {0};
    for (long s = 0; s < 6; s++) {
      long e = v2e[6 * v + s];
      for (long k = 0; k < K; k++) a[k] += fx[e * K + k] * sign[6 * v + s], b[k] += fy[e * K + k] * sign[6 * v + s];
    }
    for (long k = 0; k < K; k++) x[v * K + k] = a[k] / vol[v], y[v * K + k] = b[k] / vol[v];
  }
}
"""


def levels(side: int, k: int) -> Case:
    """The same at the levels of a column, which lie innermost."""

    def arrays(rng: Any, side: int, k: int) -> dict[str, np.ndarray]:
        return inputs(rng, side, False) | {"pp": rng.normal(size=(side * side, k))}

    def stored(problem: Problem) -> list[np.ndarray]:
        p = problem.arrays["pp"]
        return [
            np.zeros_like(p),
            np.zeros_like(p),
            np.zeros((3 * len(p), p.shape[1])),
            np.zeros((3 * len(p), p.shape[1])),
        ]

    return Case(
        "nabla with levels",
        f"{side * side}x{k}",
        {"side": side, "k": k},
        {"side": 5, "k": 9},
        arrays,
        {
            OURS: ours(LEVELS, "gx", "gy"),
            OURS_FRESH: ours(LEVELS, "gx", "gy", fresh=True),
            HAND: with_levels(fresh=False),
            HAND_FRESH: with_levels(fresh=True),
            NUMBA: NumbaLoops(levels_in_loops, stored, NAMES, results=2),
            C: CLoops(SOURCE_OF_LEVELS, stored, NAMES, results=2),
        },
        operations=20,
    )


CASES = (case(1000, False, quick=False), case(1000, True, quick=False), levels(150, 64))
