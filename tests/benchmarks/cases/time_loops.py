"""Many steps of one stencil: diffusion with ends of each kind, the game of life, and seven points in three dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tensorir as ti
from tests.benchmarks.by_jax import by_hand
from tests.benchmarks.case import HAND, OURS, C, Case, Problem, Run, Way
from tests.benchmarks.loops import CLoops

I, J = ti.dims("I J")

STEP = "0.125 × (⟪I, 1⟫(x) + ⟪I, -1⟫(x) + ⟪J, 1⟫(x) + ⟪J, -1⟫(x)) + 0.5 × x"
FIXED = f"""
diffusion(out: tensor<float, I[0:n], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) {{
  out ← x;
  out[I[1:n-1], J[1:m-1]] ← {STEP};
}}
"""
LIFE = """
life(out: tensor<uint8, I[0:n], J[0:m]>, x: tensor<uint8, I[0:n], J[0:m]>) {
  out ← x;
  out[I[1:n-1], J[1:m-1]] ←
    let row = ⟪J, -1⟫(x) + x + ⟪J, 1⟫(x);
    let near = ⟪I, -1⟫(row) + row + ⟪I, 1⟫(row) - x;
    let born = near == cast(3, uint8) or (x == cast(1, uint8) and near == cast(2, uint8));
    if born then cast(1, uint8) else cast(0, uint8);
}
"""
SEVEN = """
seven(out: tensor<float32, I[0:n], J[0:m], K[0:l]>, x: tensor<float32, I[0:n], J[0:m], K[0:l]>) {
  out ← x;
  out[I[1:n-1], J[1:m-1], K[1:l-1]] ←
    0.1f × (⟪I, 1⟫(x) + ⟪I, -1⟫(x) + ⟪J, 1⟫(x) + ⟪J, -1⟫(x) + ⟪K, 1⟫(x) + ⟪K, -1⟫(x)) + 0.4f × x;
}
"""


def steps_of(text: str, steps: int) -> Way:
    """A program step by step in `ti.iterate`."""
    program = ti.compile(ti.parse(text))
    return iterated(lambda x: program(x=x)["out"], steps)


def iterated(step: Callable[[Any], Any], steps: int) -> Way:
    def way(problem: Problem) -> Run:
        x = jnp.asarray(problem.arrays["x"])
        return lambda: [jax.block_until_ready(ti.iterate(step, x, steps, progress=False))]

    return way


def with_ends(boundary: Any) -> Callable[[Any], Any]:
    """A step on all points, those outside made by a boundary, as a field operator."""

    @ti.field_operator
    def smoothed(h):
        return 0.125 * (h(I + 1) + h(I - 1) + h(J + 1) + h(J - 1)) + 0.5 * h

    @ti.field_operator
    def step(h):
        return smoothed(ti.extend(h, {I: 1, J: 1}, boundary))

    return lambda x: step(ti.as_field((I, J), x)).data


def repeated(step: Callable[[Any], Any], steps: int) -> Way:
    """A step in JAX, in one loop."""
    return by_hand(lambda x: lax.fori_loop(0, steps, lambda _, s: step(s), x), "x")


def smoothed(x: Any) -> Any:
    return 0.125 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]) + 0.5 * x[1:-1, 1:-1]


def living(x: Any) -> Any:
    row = x[:, 2:] + x[:, 1:-1] + x[:, :-2]
    near = row[2:] + row[1:-1] + row[:-2] - x[1:-1, 1:-1]
    return ((near == 3) | ((x[1:-1, 1:-1] == 1) & (near == 2))).astype(jnp.uint8)


def around(x: Any) -> Any:
    inner, total = (slice(1, -1),) * 3, 0.0
    for axis in range(3):
        low, high = list(inner), list(inner)
        low[axis], high[axis] = slice(None, -2), slice(2, None)
        total = total + x[tuple(high)] + x[tuple(low)]
    return jnp.float32(0.1) * total + jnp.float32(0.4) * x[inner]


def inside(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A step that leaves the outermost points as they are."""
    return lambda x: x.at[(slice(1, -1),) * x.ndim].set(function(x))


def both(problem: Problem) -> list[np.ndarray]:
    """The state, and the one before."""
    return [np.zeros_like(problem.arrays["x"]) for _ in range(2)]


def in_c(body: str, steps: int, ends: str = "") -> Way:
    """Loops in C: each step reads one array and writes the other; `ends` makes the halo of a row, or there is none."""
    return CLoops(
        f"""
#include <stdint.h>
#include <string.h>
void run(T *restrict a, T *restrict b, const T *restrict x) {{
  memcpy(a, x, sizeof(T) * N * M * L); memcpy(b, x, sizeof(T) * N * M * L);
  for (int step = 0; step < {steps}; step++) {{
    const T *restrict old = step % 2 ? b : a;
    T *restrict new = step % 2 ? a : b;
#pragma omp parallel for schedule(static)
    {body}
  }}
  if ({steps} % 2) memcpy(a, b, sizeof(T) * N * M * L);
}}
""",
        both, ("x",), results=1,
    )  # fmt: skip


ROWS = """for (long i = 1; i < N - 1; i++)
      for (long j = 1; j < M - 1; j++) {
        const T *p = old + i * M + j;
        new[i * M + j] = %s;
      }"""
SMOOTHED_C = "(T)0.125 * (p[M] + p[-M] + p[1] + p[-1]) + (T)0.5 * p[0]"
LIVING_C = """({ const T near = p[-M - 1] + p[-M] + p[-M + 1] + p[-1] + p[1] + p[M - 1] + p[M] + p[M + 1];
          (T)((near == 3) | ((p[0] == 1) & (near == 2))); })"""
ENDS_C = """for (long i = 0; i < N; i++) {
      const T *p = old + i * M, *s = old + (i > 0 ? i - 1 : %s) * M, *n = old + (i < N - 1 ? i + 1 : %s) * M;
      T *q = new + i * M;
      for (long j = 1; j < M - 1; j++) q[j] = (T)0.125 * (n[j] + s[j] + p[j + 1] + p[j - 1]) + (T)0.5 * p[j];
      q[0] = (T)0.125 * (n[0] + s[0] + p[1] + p[%s]) + (T)0.5 * p[0];
      q[M - 1] = (T)0.125 * (n[M - 1] + s[M - 1] + p[%s] + p[M - 2]) + (T)0.5 * p[M - 1];
    }"""
SEVEN_C = """for (long i = 1; i < N - 1; i++)
      for (long j = 1; j < M - 1; j++)
        for (long k = 1; k < L - 1; k++) {
          const T *p = old + (i * M + j) * L + k;
          new[(i * M + j) * L + k] = 0.1f * (p[M * L] + p[-M * L] + p[L] + p[-L] + p[1] + p[-1]) + 0.4f * p[0];
        }"""


def ends_by_hand(mode: str) -> Callable[[Any], Any]:
    return lambda x: smoothed(jnp.pad(x, 1, mode=mode))


def numbers(rng: Any, n: int, m: int, l: int) -> dict[str, np.ndarray]:
    return {"x": rng.normal(size=(n, m))}


def cells(rng: Any, n: int, m: int, l: int) -> dict[str, np.ndarray]:
    return {"x": (rng.random((n, m)) < 0.3).astype(np.uint8)}


def volume(rng: Any, n: int, m: int, l: int) -> dict[str, np.ndarray]:
    return {"x": rng.normal(size=(n, m, l)).astype(np.float32)}


def case(
    kind: str, n: int, m: int, steps: int, inputs: Any, ways: dict[str, Way], l: int = 1, tolerance: float = 1e-10
) -> Case:
    size = f"{n}x{m}" + (f"x{l}" if l > 1 else "")
    small = {"n": 9, "m": 10, "l": 8 if l > 1 else 1}
    return Case(
        f"{steps} steps of {kind}",
        size,
        {"n": n, "m": m, "l": l},
        small,
        inputs,
        ways,
        operations=6 * steps,
        tolerance=tolerance,
    )


def diffusion(n: int, steps: int) -> Case:
    ways = {OURS: steps_of(FIXED, steps), HAND: repeated(inside(smoothed), steps), C: in_c(ROWS % SMOOTHED_C, steps)}
    return case("diffusion", n, n, steps, numbers, ways)


def ended(kind: str, boundary: Any, mode: str, last: tuple[str, ...]) -> Case:
    step = {
        OURS: iterated(with_ends(boundary), 100),
        HAND: repeated(ends_by_hand(mode), 100),
        C: in_c(ENDS_C % last, 100),
    }
    return case(f"diffusion, {kind} ends", 1024, 1024, 100, numbers, step)


CASES: Sequence[Case] = (
    diffusion(2048, 100),
    diffusion(256, 500),
    ended("Neumann", ti.boundary.neumann(), "edge", ("0", "N - 1", "0", "M - 1")),
    ended("periodic", ti.boundary.periodic(), "wrap", ("N - 1", "0", "M - 1", "0")),
    case(
        "life", 2048, 2048, 100, cells,
        {OURS: steps_of(LIFE, 100), HAND: repeated(inside(living), 100), C: in_c(ROWS % LIVING_C, 100)},
    ),
    case(
        "seven points in float32", 192, 192, 50, volume,
        {OURS: steps_of(SEVEN, 50), HAND: repeated(inside(around), 50), C: in_c(SEVEN_C, 50)}, 128, 1e-4,
    ),
)  # fmt: skip
