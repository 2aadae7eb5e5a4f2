"""A scan as in ICON's vertical solver, on edges with levels innermost, and the gradient of a scan of 64 levels."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.by_jax import by_hand, ours, vjp_by_hand, vjp_of_ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem
from tests.benchmarks.cases.tridiagonal import BLOCK
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

TEXT = """
icon_scan(out: tensor<float, Edge[0:n], K[1:l-1]>, alpha: tensor<float, Edge[0:n], K[0:l]>,
          beta: tensor<float, Edge[0:n], K[0:l]>, q: tensor<float, Edge[0:n], K[1:l-1]>,
          w: tensor<float, Edge[0:n], K[1:l-1]>) {
  out ←
    let a = subset(⟪K, -1⟫(beta) × ⟪K, -1⟫(alpha), K[1:l-1]);
    let b = alpha × (⟪K, -1⟫(beta) + beta);
    let c = beta × ⟪K, 1⟫(alpha);
    let swept = scan(λ(
        s: tensor<(float, float), Edge[0:n]>,
        a: tensor<float, Edge[0:n]>, b: tensor<float, Edge[0:n]>, c: tensor<float, Edge[0:n]>,
        q: tensor<float, Edge[0:n]>, w: tensor<float, Edge[0:n]>
      ) →
        let g = 1.0 / (b + a × s[0] + 2.0);
        make_tuple((0.0 - c) × g + 0.1 × q, (w - a × s[1]) × g),
      true, make_tuple(0.0, 0.0))(a, subset(b, K[1:l-1]), subset(c, K[1:l-1]), q, w);
    swept[0] + swept[1];
}
"""
NAMES = "alpha", "beta", "q", "w"


def inputs(rng: Any, n: int, l: int) -> dict[str, np.ndarray]:
    whole = {name: rng.random((n, l)) for name in ("alpha", "beta")}
    return whole | {name: rng.random((n, l - 2)) for name in ("q", "w")}


def swept(a: Any, b: Any, c: Any, q: Any, w: Any) -> Any:
    """Levels outermost, by a loop that stores its sum in place."""
    levels, columns = q.shape
    row = lambda x, k: lax.dynamic_index_in_dim(x, k, 0, False)

    def down(k: Any, s: Any) -> Any:
        z, v, out = s
        g = 1.0 / (row(b, k) + row(a, k) * z + 2.0)
        z, v = -row(c, k) * g + 0.1 * row(q, k), (row(w, k) - row(a, k) * v) * g
        return z, v, lax.dynamic_update_index_in_dim(out, z + v, k, 0)

    zero = jnp.zeros(columns, q.dtype)
    return lax.fori_loop(0, levels, down, (zero, zero, jnp.zeros_like(q)))[2]


def coefficients(alpha: Any, beta: Any) -> tuple[Any, ...]:
    """From arrays with levels outermost."""
    return beta[:-2] * alpha[:-2], alpha[1:-1] * (beta[:-2] + beta[1:-1]), beta[1:-1] * alpha[2:]


def hand(alpha: Any, beta: Any, q: Any, w: Any) -> Any:
    size = math.gcd(len(q), BLOCK)

    def block(columns: Any) -> Any:
        alpha, beta, q, w = (x.T for x in columns)
        return swept(*coefficients(alpha, beta), q, w).T

    blocks = [x.reshape(-1, size, x.shape[1]) for x in (alpha, beta, q, w)]
    return lax.map(block, blocks).reshape(q.shape)


def plain(alpha: Any, beta: Any, q: Any, w: Any) -> Any:
    def down(s: Any, x: Any) -> Any:
        a, b, c, q, w = x
        g = 1.0 / (b + a * s[0] + 2.0)
        new = -c * g + 0.1 * q, (w - a * s[1]) * g
        return new, new[0] + new[1]

    zero = jnp.zeros(len(q), q.dtype)
    return lax.scan(down, (zero, zero), (*coefficients(alpha.T, beta.T), q.T, w.T))[1].T


def loops(out: Any, alpha: Any, beta: Any, q: Any, w: Any) -> None:
    n, levels = q.shape
    for e in prange(n):
        z, v = 0.0, 0.0
        for k in range(levels):
            a = beta[e, k] * alpha[e, k]
            g = 1.0 / (alpha[e, k + 1] * (beta[e, k] + beta[e, k + 1]) + a * z + 2.0)
            z = -beta[e, k + 1] * alpha[e, k + 2] * g + 0.1 * q[e, k]
            v = (w[e, k] - a * v) * g
            out[e, k] = z + v


SOURCE = """
void run(T *restrict out, const T *restrict alpha, const T *restrict beta, const T *restrict q, const T *restrict w) {
#pragma omp parallel for schedule(static)
  for (long e = 0; e < N; e++) {
    T z = 0, v = 0;
    const T *A = alpha + e * L, *B = beta + e * L;
    for (long k = 0; k < L - 2; k++) {
      T a = B[k] * A[k], g = 1 / (A[k + 1] * (B[k] + B[k + 1]) + a * z + 2);
      z = -B[k + 1] * A[k + 2] * g + (T)0.1 * q[e * (L - 2) + k];
      v = (w[e * (L - 2) + k] - a * v) * g;
      out[e * (L - 2) + k] = z + v;
    }
  }
}
"""


def outputs(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["q"])]


RECURRENCE = """
levels(out: tensor<float, I[0:n], K[0:l]>, x: tensor<float, I[0:n], K[0:l]>, y: tensor<float, I[0:n], K[0:l]>) {
  out ← scan(λ(s: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>, y: tensor<float, I[0:n]>) →
      0.5 × s × x + y × y, true, 0.0)(x, y);
}
"""


def recurrence_inputs(rng: Any, n: int, l: int) -> dict[str, np.ndarray]:
    return {name: rng.random((n, l)) for name in "xyg"}


def recurrence(x: Any, y: Any) -> Any:
    def down(s: Any, x: Any) -> Any:
        s = 0.5 * s * x[0] + x[1] * x[1]
        return s, s

    return lax.scan(down, jnp.zeros(len(x), x.dtype), (x.T, y.T))[1].T


def recurrence_adjoint(x: Any, y: Any, g: Any) -> Any:
    """The states again, then the cotangents upwards, block by block."""
    size = math.gcd(len(x), BLOCK)

    def block(columns: Any) -> Any:
        x, y, g = (f.T for f in columns)
        zero = jnp.zeros(size, x.dtype)
        before = lax.scan(lambda s, r: (0.5 * s * r[0] + r[1] * r[1], s), zero, (x, y))[1]

        def up(carried: Any, r: Any) -> Any:
            x, y, g, s = r
            total = carried + g
            return 0.5 * total * x, (0.5 * total * s, 2.0 * total * y)

        return [f.T for f in lax.scan(up, zero, (x, y, g, before), reverse=True)[1]]

    found = lax.map(block, [f.reshape(-1, size, f.shape[1]) for f in (x, y, g)])
    return tuple(f.reshape(x.shape) for f in found)


def recurrence_adjoint_loops(dx: Any, dy: Any, x: Any, y: Any, g: Any) -> None:
    n, levels = x.shape
    for i in prange(n):
        s = 0.0
        for k in range(levels):
            dx[i, k] = s
            s = 0.5 * s * x[i, k] + y[i, k] * y[i, k]
        carried = 0.0
        for k in range(levels - 1, -1, -1):
            total = carried + g[i, k]
            dx[i, k], dy[i, k] = 0.5 * total * dx[i, k], 2.0 * total * y[i, k]
            carried = 0.5 * total * x[i, k]


RECURRENCE_SOURCE = """
void run(T *restrict dx, T *restrict dy, const T *restrict x, const T *restrict y, const T *restrict g) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < N; i++) {
    T before[L], s = 0, carried = 0;
    for (long k = 0; k < L; k++) {
      before[k] = s;
      s = (T)0.5 * s * x[i * L + k] + y[i * L + k] * y[i * L + k];
    }
    for (long k = L - 1; k >= 0; k--) {
      T total = carried + g[i * L + k];
      dx[i * L + k] = (T)0.5 * total * before[k];
      dy[i * L + k] = 2 * total * y[i * L + k];
      carried = (T)0.5 * total * x[i * L + k];
    }
  }
}
"""


def two_like_x(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["x"]) for _ in range(2)]


CASES = (
    Case(
        "ICON-like scan",
        "65536x66",
        {"n": 65536, "l": 66},
        {"n": 6, "l": 7},
        inputs,
        {
            OURS: ours(TEXT, "out"),
            OURS_FRESH: ours(TEXT, "out", fresh=True),
            HAND: by_hand(hand, *NAMES),
            HAND_FRESH: by_hand(hand, *NAMES, fresh=True),
            PLAIN: by_hand(plain, *NAMES, fresh=True),
            NUMBA: NumbaLoops(loops, outputs, NAMES),
            C: CLoops(SOURCE, outputs, NAMES),
        },
        operations=17,
    ),
    Case(
        "gradient of a scan",
        "16384x64",
        {"n": 16384, "l": 64},
        {"n": 6, "l": 7},
        recurrence_inputs,
        {
            OURS: vjp_of_ours(RECURRENCE, "out", ("x", "y"), fresh=False),
            OURS_FRESH: vjp_of_ours(RECURRENCE, "out", ("x", "y")),
            HAND: by_hand(recurrence_adjoint, *"xyg"),
            HAND_FRESH: by_hand(recurrence_adjoint, *"xyg", fresh=True),
            PLAIN: vjp_by_hand(recurrence, ("x", "y"), ("x", "y")),
            NUMBA: NumbaLoops(recurrence_adjoint_loops, two_like_x, tuple("xyg"), results=2),
            C: CLoops(RECURRENCE_SOURCE, two_like_x, tuple("xyg"), results=2),
        },
        operations=6,
        quick=False,
        beside={"forward": ours(RECURRENCE, "out")},
    ),
)
