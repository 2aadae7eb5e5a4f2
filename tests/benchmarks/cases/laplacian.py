"""The five-point Laplacian, and the sum of its squares: a reduction over a stencil."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from stencils import library
from tests.benchmarks.by_jax import by_hand, ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem, Run
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

TEXT = library.text("laplacian")
SUM = """
energy(out: tensor<float>, inp: tensor<float, I[0:n], J[0:m]>) {
  out ← let lap = ⟪I, 1⟫(inp) + ⟪I, -1⟫(inp) + ⟪J, 1⟫(inp) + ⟪J, -1⟫(inp) - 4.0 × inp;
        reduce(+, 0.0, I)(reduce(+, 0.0, J)(subset(lap × lap, I[1:n-1], J[1:m-1])));
}
"""


def inputs(rng: Any, n: int, m: int) -> dict[str, np.ndarray]:
    return {"inp": rng.normal(size=(n, m))}


def hand(x: Any) -> Any:
    return x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4.0 * x[1:-1, 1:-1]


def plain(x: Any) -> Any:
    whole = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4.0 * x
    return whole[1:-1, 1:-1]


def loops(out: Any, x: Any) -> None:
    n, m = x.shape
    for i in prange(1, n - 1):
        for j in range(1, m - 1):
            out[i - 1, j - 1] = x[i + 1, j] + x[i - 1, j] + x[i, j + 1] + x[i, j - 1] - 4.0 * x[i, j]


SOURCE = """
void run(T *restrict out, const T *restrict x) {
#pragma omp parallel for schedule(static)
  for (long i = 1; i < N - 1; i++)
    for (long j = 1; j < M - 1; j++) {
      const T *p = x + i * M + j;
      out[(i - 1) * (M - 2) + j - 1] = p[M] + p[-M] + p[1] + p[-1] - 4 * p[0];
    }
}
"""


def scipy_ndimage(problem: Problem) -> Run:
    """A correlation with the weights of the stencil."""
    from scipy.ndimage import correlate

    x, weights = problem.arrays["inp"], np.asarray([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
    return lambda: [correlate(x, weights)[1:-1, 1:-1]]


def numpy_slices(problem: Problem) -> Run:
    x = problem.arrays["inp"]
    return lambda: [hand(x)]


def outputs(problem: Problem) -> list[np.ndarray]:
    n, m = problem.arrays["inp"].shape
    return [np.zeros((n - 2, m - 2))]


def sum_by_hand(x: Any) -> Any:
    """A tree of halves: XLA runs a plain sum of a stencil on one thread and one number at a time."""
    total = hand(x) ** 2
    while len(total) > 1:
        half = len(total) // 2
        rest = total[2 * half :]
        total = total[:half] + total[half : 2 * half]
        total = total.at[0].add(rest[0]) if len(rest) else total
    return total.sum()


def sum_stored(x: Any) -> Any:
    """The squares stored in a donated buffer, and then a sum of them."""
    from jax import lax

    squares = lax.optimization_barrier(hand(x) ** 2)
    return squares.sum(), squares


def sum_plainly(x: Any) -> Any:
    return (plain(x) ** 2).sum()


def sum_loops(out: Any, x: Any) -> None:
    n, m = x.shape
    total = 0.0
    for i in prange(1, n - 1):
        row = 0.0
        for j in range(1, m - 1):
            lap = x[i + 1, j] + x[i - 1, j] + x[i, j + 1] + x[i, j - 1] - 4.0 * x[i, j]
            row += lap * lap
        total += row
    out[()] = total


SUM_SOURCE = """
void run(T *restrict out, const T *restrict x) {
  T total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (long i = 1; i < N - 1; i++) {
    T row = 0;
#pragma omp simd reduction(+ : row)
    for (long j = 1; j < M - 1; j++) {
      const T *p = x + i * M + j;
      T lap = p[M] + p[-M] + p[1] + p[-1] - 4 * p[0];
      row += lap * lap;
    }
    total += row;
  }
  *out = total;
}
"""


def number(problem: Problem) -> list[np.ndarray]:
    return [np.zeros(())]


LAPLACIAN = Case(
    "laplacian",
    "2048x2048",
    {"n": 2048, "m": 2048},
    {"n": 7, "m": 6},
    inputs,
    {
        OURS: ours(TEXT, "out"),
        OURS_FRESH: ours(TEXT, "out", fresh=True),
        HAND: by_hand(hand, "inp"),
        HAND_FRESH: by_hand(hand, "inp", fresh=True),
        PLAIN: by_hand(plain, "inp", fresh=True),
        NUMBA: NumbaLoops(loops, outputs, ("inp",)),
        C: CLoops(SOURCE, outputs, ("inp",)),
        "NumPy": numpy_slices,
        "SciPy": scipy_ndimage,
    },
    operations=5,
)

SUM_OF_SQUARES = Case(
    "sum of a stencil",
    "2048x2048",
    {"n": 2048, "m": 2048},
    {"n": 7, "m": 6},
    inputs,
    {
        OURS: ours(SUM, "out", fresh=True),
        HAND: by_hand(sum_stored, "inp", results=1),
        "JAX by hand, tree": by_hand(sum_by_hand, "inp", fresh=True),
        PLAIN: by_hand(sum_plainly, "inp", fresh=True),
        NUMBA: NumbaLoops(sum_loops, number, ("inp",)),
        C: CLoops(SUM_SOURCE, number, ("inp",)),
    },
    operations=7 * 2046 * 2046,
)

CASES = (LAPLACIAN, SUM_OF_SQUARES)
