"""Horizontal diffusion with a flux limiter, and its gradient: the usual benchmark of stencil compilers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from stencils import library
from tests.benchmarks import by_gt4py
from tests.benchmarks.by_jax import by_hand, ours, single, vjp_by_hand, vjp_of_ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

TEXT = library.text("hdiff")


def inputs(rng: Any, n: int, m: int, l: int, element: str = "f8") -> dict[str, np.ndarray]:
    x, g = (rng.normal(size=(n, m, l)).astype(element) for _ in range(2))
    return {"inp": x, "coeff": np.full((n, m, l), 1 / 64, element), "g": g}


def hand(x: Any, c: Any) -> Any:
    lap = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4.0 * x[1:-1, 1:-1]
    rise_x, rise_y = lap[1:] - lap[:-1], lap[:, 1:] - lap[:, :-1]
    flx = jnp.where(rise_x * (x[2:-1, 1:-1] - x[1:-2, 1:-1]) > 0.0, 0.0, rise_x)
    fly = jnp.where(rise_y * (x[1:-1, 2:-1] - x[1:-1, 1:-2]) > 0.0, 0.0, rise_y)
    inner = x[2:-2, 2:-2] - c[2:-2, 2:-2] * (flx[1:, 1:-1] - flx[:-1, 1:-1] + fly[1:-1, 1:] - fly[1:-1, :-1])
    # the fastest way found to keep the boundary: x.at[...].set takes 20 times as long on the CPU
    middle = jnp.concatenate([x[2:-2, :2], inner, x[2:-2, -2:]], 1)
    return jnp.concatenate([x[:2], middle, x[-2:]], 0)


def plain(x: Any, c: Any) -> Any:
    def at(a: Any, i: int, j: int) -> Any:
        return jnp.roll(a, (-i, -j), (0, 1))

    lap = at(x, 1, 0) + at(x, -1, 0) + at(x, 0, 1) + at(x, 0, -1) - 4.0 * x
    flx, fly = at(lap, 1, 0) - lap, at(lap, 0, 1) - lap
    flx = jnp.where(flx * (at(x, 1, 0) - x) > 0.0, 0.0, flx)
    fly = jnp.where(fly * (at(x, 0, 1) - x) > 0.0, 0.0, fly)
    new = x - c * (flx - at(flx, -1, 0) + fly - at(fly, 0, -1))
    return x.at[2:-2, 2:-2].set(new[2:-2, 2:-2])


def loops(out: Any, x: Any, c: Any) -> None:
    n, m, l = x.shape
    for i in prange(n):
        for j in range(m):
            if i < 2 or j < 2 or i >= n - 2 or j >= m - 2:
                for k in range(l):
                    out[i, j, k] = x[i, j, k]
                continue
            for k in range(l):
                p = x[i, j, k]
                e, w, no, s = x[i + 1, j, k], x[i - 1, j, k], x[i, j + 1, k], x[i, j - 1, k]
                ne, nw, se, sw = x[i + 1, j + 1, k], x[i - 1, j + 1, k], x[i + 1, j - 1, k], x[i - 1, j - 1, k]
                lap = e + w + no + s - 4 * p
                fe = x[i + 2, j, k] + p + ne + se - 4 * e - lap
                fw = lap - (p + x[i - 2, j, k] + nw + sw - 4 * w)
                fn = ne + nw + x[i, j + 2, k] + p - 4 * no - lap
                fs = lap - (se + sw + p + x[i, j - 2, k] - 4 * s)
                fe = 0 * fe if fe * (e - p) > 0 else fe
                fw = 0 * fw if fw * (p - w) > 0 else fw
                fn = 0 * fn if fn * (no - p) > 0 else fn
                fs = 0 * fs if fs * (p - s) > 0 else fs
                out[i, j, k] = p - c[i, j, k] * (fe - fw + fn - fs)


SOURCE = """
#include <string.h>
#define X(di, dj) x[((i + di) * M + j + dj) * L + k]
void run(T *restrict out, const T *restrict x, const T *restrict c) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < N; i++)
    for (long j = 0; j < M; j++) {
      if (i < 2 || j < 2 || i >= N - 2 || j >= M - 2) {
        memcpy(out + (i * M + j) * L, x + (i * M + j) * L, L * sizeof(T));
        continue;
      }
      for (long k = 0; k < L; k++) {
        T p = X(0, 0), e = X(1, 0), w = X(-1, 0), no = X(0, 1), s = X(0, -1);
        T lap = e + w + no + s - 4 * p;
        T fe = X(2, 0) + p + X(1, 1) + X(1, -1) - 4 * e - lap;
        T fw = lap - (p + X(-2, 0) + X(-1, 1) + X(-1, -1) - 4 * w);
        T fn = X(1, 1) + X(-1, 1) + X(0, 2) + p - 4 * no - lap;
        T fs = lap - (X(1, -1) + X(-1, -1) + p + X(0, -2) - 4 * s);
        fe = fe * (e - p) > 0 ? 0 : fe;
        fw = fw * (p - w) > 0 ? 0 : fw;
        fn = fn * (no - p) > 0 ? 0 : fn;
        fs = fs * (p - s) > 0 ? 0 : fs;
        out[(i * M + j) * L + k] = p - c[(i * M + j) * L + k] * (fe - fw + fn - fs);
      }
    }
}
"""


def adjoint(x: Any, c: Any, g: Any) -> tuple[Any, ...]:
    """The adjoint by opposite shifts, and the fluxes with zeros around them: stored, as five points read each."""
    lap = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4.0 * x[1:-1, 1:-1]
    open_x = (lap[1:, 1:-1] - lap[:-1, 1:-1]) * (x[2:-1, 2:-2] - x[1:-2, 2:-2]) <= 0.0
    open_y = (lap[1:-1, 1:] - lap[1:-1, :-1]) * (x[2:-2, 2:-1] - x[2:-2, 1:-2]) <= 0.0
    h = jnp.pad(c[2:-2, 2:-2] * g[2:-2, 2:-2], ((1, 1), (1, 1), (0, 0)))
    fx = jnp.where(open_x, h[1:, 1:-1] - h[:-1, 1:-1], 0.0)
    fy = jnp.where(open_y, h[1:-1, 1:] - h[1:-1, :-1], 0.0)
    fx, fy = lax.optimization_barrier([jnp.pad(f, ((3, 3), (3, 3), (0, 0))) for f in (fx, fy)])
    bend = fx[:-1] - fx[1:] + fy[:, :-1] - fy[:, 1:]
    into = g + bend[2:, 1:-1] + bend[:-2, 1:-1] + bend[1:-1, 2:] + bend[1:-1, :-2] - 4.0 * bend[1:-1, 1:-1]
    return into, fx, fy


def adjoint_loops(out: Any, fx: Any, fy: Any, x: Any, c: Any, g: Any) -> None:
    """Fluxes of the cotangent into buffers with two zeros around, then gathered."""
    n, m, l = x.shape
    for i in prange(1, n - 2):
        for j in range(1, m - 2):
            for k in range(l):
                p, e, no = x[i, j, k], x[i + 1, j, k], x[i, j + 1, k]
                lap = e + x[i - 1, j, k] + no + x[i, j - 1, k] - 4 * p
                h = c[i, j, k] * g[i, j, k] if i > 1 and j > 1 else 0 * p
                if j > 1:
                    rise = x[i + 2, j, k] + p + x[i + 1, j + 1, k] + x[i + 1, j - 1, k] - 4 * e - lap
                    ahead = c[i + 1, j, k] * g[i + 1, j, k] if i < n - 3 else 0 * p
                    fx[i + 2, j + 2, k] = 0 * p if rise * (e - p) > 0 else ahead - h
                if i > 1:
                    rise = x[i + 1, j + 1, k] + x[i - 1, j + 1, k] + x[i, j + 2, k] + p - 4 * no - lap
                    ahead = c[i, j + 1, k] * g[i, j + 1, k] if j < m - 3 else 0 * p
                    fy[i + 2, j + 2, k] = 0 * p if rise * (no - p) > 0 else ahead - h
    for i in prange(n):
        for j in range(m):
            for k in range(l):
                a, b = i + 2, j + 2
                here = fx[a - 1, b, k] - fx[a, b, k] + fy[a, b - 1, k] - fy[a, b, k]
                east = fx[a, b, k] - fx[a + 1, b, k] + fy[a + 1, b - 1, k] - fy[a + 1, b, k]
                west = fx[a - 2, b, k] - fx[a - 1, b, k] + fy[a - 1, b - 1, k] - fy[a - 1, b, k]
                north = fx[a - 1, b + 1, k] - fx[a, b + 1, k] + fy[a, b, k] - fy[a, b + 1, k]
                south = fx[a - 1, b - 1, k] - fx[a, b - 1, k] + fy[a, b - 2, k] - fy[a, b - 1, k]
                out[i, j, k] = g[i, j, k] + east + west + north + south - 4 * here


ADJOINT = """
#define AT(f, i, j) f[((i) * M + j) * L + k]
#define W(f, di, dj) f[((i + 2 + di) * (M + 4) + j + 2 + dj) * L + k]
#define LAP(i, j) (AT(x, i + 1, j) + AT(x, i - 1, j) + AT(x, i, j + 1) + AT(x, i, j - 1) - 4 * AT(x, i, j))
#define BEND(di, dj) (W(fx, di - 1, dj) - W(fx, di, dj) + W(fy, di, dj - 1) - W(fy, di, dj))
void run(T *restrict out, T *restrict fx, T *restrict fy, const T *restrict x, const T *restrict c,
         const T *restrict g) {
#pragma omp parallel for schedule(static)
  for (long i = 1; i < N - 2; i++)
    for (long j = 1; j < M - 2; j++) {
      T here = i > 1 && j > 1, east = i < N - 3, north = j < M - 3;
      if (j > 1)
        for (long k = 0; k < L; k++) {
          T rise = LAP(i + 1, j) - LAP(i, j);
          T h = east * AT(c, i + 1, j) * AT(g, i + 1, j) - here * AT(c, i, j) * AT(g, i, j);
          W(fx, 0, 0) = rise * (AT(x, i + 1, j) - AT(x, i, j)) > 0 ? 0 : h;
        }
      if (i > 1)
        for (long k = 0; k < L; k++) {
          T rise = LAP(i, j + 1) - LAP(i, j);
          T h = north * AT(c, i, j + 1) * AT(g, i, j + 1) - here * AT(c, i, j) * AT(g, i, j);
          W(fy, 0, 0) = rise * (AT(x, i, j + 1) - AT(x, i, j)) > 0 ? 0 : h;
        }
    }
#pragma omp parallel for schedule(static)
  for (long i = 0; i < N; i++)
    for (long j = 0; j < M; j++)
      for (long k = 0; k < L; k++)
        AT(out, i, j) = AT(g, i, j) + BEND(1, 0) + BEND(-1, 0) + BEND(0, 1) + BEND(0, -1) - 4 * BEND(0, 0);
}
"""


def outputs(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["inp"])]


def adjoint_buffers(problem: Problem) -> list[np.ndarray]:
    x = problem.arrays["inp"]
    n, m, l = x.shape
    return [np.zeros_like(x), *(np.zeros((n + 4, m + 4, l), x.dtype) for _ in range(2))]


def forward(n: int, m: int, l: int, element: str, quick: bool = True) -> Case:
    text = TEXT if element == "f8" else single(TEXT)
    names = "inp", "coeff"
    return Case(
        "hdiff" if element == "f8" else "hdiff in float32",
        f"{n}x{m}x{l}",
        {"n": n, "m": m, "l": l},
        {"n": 9, "m": 8, "l": 3},
        lambda rng, **sizes: inputs(rng, **sizes, element=element),
        {
            OURS: ours(text, "out"),
            OURS_FRESH: ours(text, "out", fresh=True),
            HAND: by_hand(hand, *names),
            HAND_FRESH: by_hand(hand, *names, fresh=True),
            PLAIN: by_hand(plain, *names, fresh=True),
            NUMBA: NumbaLoops(loops, outputs, names),
            C: CLoops(SOURCE, outputs, names),
        },
        operations=40,
        read=names,
        tolerance=1e-12 if element == "f8" else 1e-5,
        built={"gtfn_cpu": by_gt4py.hdiff} if quick else {},
        quick=quick,
    )


def gradient(n: int, m: int, l: int, quick: bool = True) -> Case:
    names = "inp", "coeff"
    return Case(
        "gradient of hdiff",
        f"{n}x{m}x{l}",
        {"n": n, "m": m, "l": l},
        {"n": 9, "m": 8, "l": 3},
        inputs,
        {
            OURS: vjp_of_ours(TEXT, "out", ["inp"], fresh=False),
            OURS_FRESH: vjp_of_ours(TEXT, "out", ["inp"]),
            HAND: by_hand(adjoint, *names, "g", results=1),
            HAND_FRESH: by_hand(lambda *xs: adjoint(*xs)[0], *names, "g", fresh=True),
            PLAIN: vjp_by_hand(plain, names, ["inp"]),
            "JAX's gradient of by hand": vjp_by_hand(hand, names, ["inp"], fresh=False),
            NUMBA: NumbaLoops(adjoint_loops, adjoint_buffers, (*names, "g")),
            C: CLoops(ADJOINT, adjoint_buffers, (*names, "g")),
        },
        operations=70,
        read=(*names, "g"),
        beside={"forward": ours(TEXT, "out"), "forward, fresh": ours(TEXT, "out", fresh=True)},
        quick=quick,
    )


CASES = (
    forward(256, 256, 64, "f8"),
    forward(256, 256, 64, "f4", quick=False),
    forward(1024, 1024, 32, "f8", quick=False),
    forward(1024, 1024, 32, "f4", quick=False),
    gradient(256, 256, 64),
    gradient(1024, 1024, 32, quick=False),
)
