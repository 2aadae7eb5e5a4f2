"""Tridiagonal systems, one in each column: elimination downwards, substitution back up."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from stencils import library
from tests.benchmarks import by_gt4py
from tests.benchmarks.by_jax import by_hand, ours, vjp_by_hand, vjp_of_ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem, Run
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

TEXT = library.text("tridiagonal")
BLOCK = 256
"""Columns; twice as many or half as many take 1.0 to 1.1 times as long."""


def inputs(rng: Any, n: int, m: int, l: int) -> dict[str, np.ndarray]:
    arrays = {name: rng.random((n, m, l)) for name in "abcdg"}
    return arrays | {"b": arrays["b"] + 3.0}


def solved(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Two loops that carry the rows and store into arrays in place, levels outermost."""
    levels, columns = a.shape
    zero = jnp.zeros(columns, a.dtype)

    def down(k: Any, s: Any) -> Any:
        upper, right, uppers, rights = s
        a_k, b_k, c_k, d_k = (lax.dynamic_index_in_dim(x, k, 0, False) for x in (a, b, c, d))
        r = 1.0 / (b_k - a_k * upper)
        upper, right = c_k * r, (d_k - a_k * right) * r
        put = lambda f, v: lax.dynamic_update_index_in_dim(f, v, k, 0)
        return upper, right, put(uppers, upper), put(rights, right)

    empty = jnp.zeros(a.shape, a.dtype)
    _, _, uppers, rights = lax.fori_loop(0, levels, down, (zero, zero, empty, empty))

    def up(t: Any, s: Any) -> Any:
        above, found = s
        k = levels - 1 - t
        above = lax.dynamic_index_in_dim(found, k, 0, False) - lax.dynamic_index_in_dim(uppers, k, 0, False) * above
        return above, lax.dynamic_update_index_in_dim(found, above, k, 0)

    return lax.fori_loop(0, levels, up, (zero, rights))[1]


def hand(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Block by block of columns, so that what is transposed and carried stays in a cache and touches no new page."""
    shape = a.shape

    def block(columns: Any) -> Any:
        return solved(*(x.T for x in columns)).T

    size = math.gcd(shape[0] * shape[1], BLOCK)
    return lax.map(block, [x.reshape(-1, size, shape[-1]) for x in (a, b, c, d)]).reshape(shape)


def plain(a: Any, b: Any, c: Any, d: Any) -> Any:
    def down(s: Any, x: Any) -> Any:
        a, b, c, d = x
        pivot = b - a * s[0]
        new = c / pivot, (d - a * s[1]) / pivot
        return new, new

    def up(above: Any, x: Any) -> Any:
        above = x[1] - x[0] * above
        return above, above

    zero = jnp.zeros(a.shape[:2], a.dtype)
    _, states = lax.scan(down, (zero, zero), [jnp.moveaxis(x, 2, 0) for x in (a, b, c, d)])
    return jnp.moveaxis(lax.scan(up, zero, states, reverse=True)[1], 0, 2)


def loops(x: Any, upper: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    n, m, l = a.shape
    for i in prange(n):
        for j in range(m):
            before, right = 0.0, 0.0
            for k in range(l):
                r = 1.0 / (b[i, j, k] - a[i, j, k] * before)
                before, right = c[i, j, k] * r, (d[i, j, k] - a[i, j, k] * right) * r
                upper[i, j, k], x[i, j, k] = before, right
            above = 0.0
            for k in range(l - 1, -1, -1):
                above = x[i, j, k] - upper[i, j, k] * above
                x[i, j, k] = above


SOURCE = """
void run(T *restrict x, const T *restrict a, const T *restrict b, const T *restrict c, const T *restrict d) {
#pragma omp parallel for schedule(static)
  for (long column = 0; column < N * M; column++) {
    T upper[L], right[L], u = 0, r = 0;
    const T *A = a + column * L, *B = b + column * L, *C = c + column * L, *D = d + column * L;
    for (long k = 0; k < L; k++) {
      T q = 1 / (B[k] - A[k] * u);
      upper[k] = u = C[k] * q;
      right[k] = r = (D[k] - A[k] * r) * q;
    }
    T above = 0;
    for (long k = L - 1; k >= 0; k--) x[column * L + k] = above = right[k] - upper[k] * above;
  }
}
"""


def scipy_banded(problem: Problem) -> Run:
    """LAPACK's solver for bands, all columns as one system."""
    from scipy.linalg import solve_banded

    a, b, c, d = (problem.arrays[name] for name in "abcd")
    above, below = c.copy(), a.copy()
    above[..., -1] = below[..., 0] = 0.0
    bands = np.stack([np.roll(above.ravel(), 1), b.ravel(), np.roll(below.ravel(), -1)])
    return lambda: [solve_banded((1, 1), bands, d.ravel(), check_finite=False).reshape(d.shape)]


def outputs(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["d"])]


def outputs_and_uppers(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["d"]) for _ in range(2)]


def adjoint(a: Any, b: Any, c: Any, d: Any, g: Any) -> tuple[Any, ...]:
    """By the implicit function theorem, block by block: the transposed systems solved, times the solutions."""
    shape = a.shape

    def block(columns: Any) -> Any:
        a, b, c, d, g = (x.T for x in columns)
        x = solved(a, b, c, d)
        none = jnp.zeros_like(a[:1])
        y = solved(jnp.concatenate([none, c[:-1]]), b, jnp.concatenate([a[1:], none]), g)
        by_a = jnp.concatenate([none, -y[1:] * x[:-1]])
        by_c = jnp.concatenate([-y[:-1] * x[1:], none])
        return [f.T for f in (by_a, -y * x, by_c, y)]

    size = math.gcd(shape[0] * shape[1], BLOCK)
    found = lax.map(block, [x.reshape(-1, size, shape[-1]) for x in (a, b, c, d, g)])
    return tuple(f.reshape(shape) for f in found)


def case(n: int, m: int, l: int, quick: bool = True) -> Case:
    return Case(
        "tridiagonal",
        f"{n * m}x{l}",
        {"n": n, "m": m, "l": l},
        {"n": 3, "m": 4, "l": 6},
        inputs,
        {
            OURS: ours(TEXT, "x"),
            OURS_FRESH: ours(TEXT, "x", fresh=True),
            HAND: by_hand(hand, *"abcd"),
            HAND_FRESH: by_hand(hand, *"abcd", fresh=True),
            PLAIN: by_hand(plain, *"abcd", fresh=True),
            NUMBA: NumbaLoops(loops, outputs_and_uppers, tuple("abcd")),
            C: CLoops(SOURCE, outputs, tuple("abcd")),
            "SciPy": scipy_banded,
        },
        operations=8,
        read=tuple("abcd"),
        built={"gtfn_cpu": by_gt4py.tridiagonal} if quick else {},
        quick=quick,
    )


def gradient(n: int, m: int, l: int, quick: bool = False) -> Case:
    return Case(
        "gradient of tridiagonal",
        f"{n * m}x{l}",
        {"n": n, "m": m, "l": l},
        {"n": 3, "m": 4, "l": 6},
        inputs,
        {
            OURS: vjp_of_ours(TEXT, "x", tuple("abcd"), fresh=False),
            HAND: by_hand(adjoint, *"abcdg"),
            PLAIN: vjp_by_hand(plain, tuple("abcd"), tuple("abcd"), fresh=False),
        },
        operations=22 / 4,
        read=tuple("abcdg"),
        beside={"forward": ours(TEXT, "x")},
        quick=quick,
    )


CASES = (case(128, 128, 64), case(256, 256, 80, quick=False), gradient(128, 128, 64))
