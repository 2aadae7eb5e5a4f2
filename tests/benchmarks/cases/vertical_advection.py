"""COSMO's implicit vertical advection: systems built from neighbours, then solved in columns."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from stencils import library
from tests.benchmarks.by_jax import by_hand, ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem
from tests.benchmarks.cases.tridiagonal import BLOCK
from tests.benchmarks.cases.tridiagonal import plain as solved_plainly
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

# the program of the library works in place; here the result has a buffer of its own
TEXT = (
    library.text("vertical_advection")
    .replace("vertical_advection(\n", "vertical_advection(\n  out: tensor<float, I[0:n], J[0:m], K[0:l]>,\n")
    .replace("  utens_stage ←", "  out ←")
)
NAMES = "utens_stage", "u_stage", "u_pos", "utens", "wcon", "dtr_stage"


def inputs(rng: Any, n: int, m: int, l: int) -> dict[str, np.ndarray]:
    arrays = {name: rng.normal(size=(n, m, l)) for name in NAMES[:4]}
    return arrays | {"wcon": 0.1 * rng.normal(size=(n + 1, m, l + 1)), "dtr_stage": np.asarray(3.0 / 20.0)}


def hand(stage: Any, u: Any, pos: Any, utens: Any, wcon: Any, dtr: Any) -> Any:
    """Block by block of columns, in two loops that carry rows: the systems are never stored."""
    n, m, levels = u.shape
    size = math.gcd(n * m, BLOCK)
    fields = [x.reshape(-1, size, levels) for x in (stage, u, pos, utens)]
    winds = [w.reshape(-1, size, levels + 1) for w in (wcon[:-1], wcon[1:])]

    def block(columns: Any) -> Any:
        *fields, w, w1 = (x.T for x in columns)
        return columns_down_and_up(*fields, jnp.pad(0.25 * (w[1:-1] + w1[1:-1]), ((1, 1), (0, 0))), dtr).T

    return lax.map(block, [*fields, *winds]).reshape(u.shape)


def columns_down_and_up(stage: Any, u: Any, pos: Any, utens: Any, speed: Any, dtr: Any) -> Any:
    levels, columns = u.shape
    zero, empty = jnp.zeros(columns, u.dtype), jnp.zeros(u.shape, u.dtype)
    row = lambda x, k: lax.dynamic_index_in_dim(x, k, 0, False)
    put = lambda f, v, k: lax.dynamic_update_index_in_dim(f, v, k, 0)

    def down(k: Any, s: Any) -> Any:
        upper, right, here, g, flux, uppers, rights = s
        below = row(u, jnp.minimum(k + 1, levels - 1))
        g_below = row(speed, k + 1)
        flux_below = g_below * (below - here)
        a, c = -0.5 * g, 0.5 * g_below
        d = dtr * row(pos, k) + row(utens, k) + row(stage, k) - 0.5 * (flux + flux_below)
        r = 1.0 / (dtr - a - c - a * upper)
        upper, right = c * r, (d - a * right) * r
        return upper, right, below, g_below, flux_below, put(uppers, upper, k), put(rights, right, k)

    *_, uppers, rights = lax.fori_loop(0, levels, down, (zero, zero, u[0], zero, zero, empty, empty))

    def up(t: Any, s: Any) -> Any:
        above, found = s
        k = levels - 1 - t
        above = row(found, k) - row(uppers, k) * above
        return above, put(found, dtr * (above - row(pos, k)), k)

    return lax.fori_loop(0, levels, up, (zero, rights))[1]


def plain(stage: Any, u: Any, pos: Any, utens: Any, wcon: Any, dtr: Any) -> Any:
    speed = 0.25 * (wcon[:-1, :, 1:-1] + wcon[1:, :, 1:-1])
    ends = ((0, 0), (0, 0), (1, 1))
    through, flux = jnp.pad(speed, ends), jnp.pad(speed * (u[..., 1:] - u[..., :-1]), ends)
    a, c = -0.5 * through[..., :-1], 0.5 * through[..., 1:]
    d = dtr * pos + utens + stage - 0.5 * (flux[..., :-1] + flux[..., 1:])
    return dtr * (solved_plainly(a, dtr - a - c, c, d) - pos)


def loops(out: Any, upper: Any, stage: Any, u: Any, pos: Any, utens: Any, wcon: Any, dtr: Any) -> None:
    n, m, l = u.shape
    t = dtr[()]
    for i in prange(n):
        for j in range(m):
            before, right, g, flux = 0.0, 0.0, 0.0, 0.0
            for k in range(l):
                g_below, flux_below = 0.0, 0.0
                if k < l - 1:
                    g_below = 0.25 * (wcon[i, j, k + 1] + wcon[i + 1, j, k + 1])
                    flux_below = g_below * (u[i, j, k + 1] - u[i, j, k])
                a, c = -0.5 * g, 0.5 * g_below
                d = t * pos[i, j, k] + utens[i, j, k] + stage[i, j, k] - 0.5 * (flux + flux_below)
                r = 1.0 / (t - a - c - a * before)
                before, right = c * r, (d - a * right) * r
                upper[i, j, k], out[i, j, k] = before, right
                g, flux = g_below, flux_below
            above = 0.0
            for k in range(l - 1, -1, -1):
                above = out[i, j, k] - upper[i, j, k] * above
                out[i, j, k] = t * (above - pos[i, j, k])


SOURCE = """
void run(T *restrict out, const T *restrict stage, const T *restrict u, const T *restrict pos, const T *restrict utens,
         const T *restrict wcon, const T *restrict dtr) {
  const T t = *dtr;
#pragma omp parallel for schedule(static)
  for (long column = 0; column < N * M; column++) {
    T upper[L], right[L], g[L + 1], flux[L + 1], before = 0, r = 0;
    const long at = column * L;
    const T *w = wcon + column * (L + 1), *w1 = w + M * (L + 1);
    g[0] = flux[0] = g[L] = flux[L] = 0;
    for (long k = 1; k < L; k++) g[k] = (T)0.25 * (w[k] + w1[k]);
    for (long k = 1; k < L; k++) flux[k] = g[k] * (u[at + k] - u[at + k - 1]);
    for (long k = 0; k < L; k++) {
      T a = (T)-0.5 * g[k], c = (T)0.5 * g[k + 1];
      T d = t * pos[at + k] + utens[at + k] + stage[at + k] - (T)0.5 * (flux[k] + flux[k + 1]);
      T q = 1 / (t - a - c - a * before);
      upper[k] = before = c * q;
      right[k] = r = (d - a * r) * q;
    }
    T above = 0;
    for (long k = L - 1; k >= 0; k--) {
      above = right[k] - upper[k] * above;
      out[at + k] = t * (above - pos[at + k]);
    }
  }
}
"""


def outputs(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["u_stage"])]


def outputs_and_uppers(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["u_stage"]) for _ in range(2)]


def case(n: int, m: int, l: int, quick: bool = True) -> Case:
    return Case(
        "vertical advection",
        f"{n * m}x{l}",
        {"n": n, "m": m, "l": l},
        {"n": 3, "m": 4, "l": 6},
        inputs,
        {
            OURS: ours(TEXT, "out"),
            OURS_FRESH: ours(TEXT, "out", fresh=True),
            HAND: by_hand(hand, *NAMES),
            HAND_FRESH: by_hand(hand, *NAMES, fresh=True),
            PLAIN: by_hand(plain, *NAMES, fresh=True),
            NUMBA: NumbaLoops(loops, outputs_and_uppers, NAMES),
            C: CLoops(SOURCE, outputs, NAMES),
        },
        operations=30,
        quick=quick,
    )


CASES = (case(128, 128, 64), case(256, 256, 80, quick=False))
